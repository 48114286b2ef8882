// One matrix as a table: a grid with one tab stop, numbers as text, inputs or buttons, colours by their size.

import { byCausal, hasHead, labels, matrixOf } from "explorer/explanation";
import { decimalsOf, show, typed } from "explorer/numbers";
import { element } from "explorer/page";

const ROLES = { Q: "query", K: "key", V: "value", W_Q: "query", W_K: "key", W_V: "value" };
const CAPTIONS = {
  X: "X, embeddings",
  Q: "Q, queries",
  K: "K, keys",
  V: "V, values",
  scaled_scores: "scaled scores",
  mask: "mask, 1 = may be attended",
  masked_scores: "masked scores",
  head_outputs: "head output",
  concatenated: "heads side by side",
};
const TYPING = { type: "text", spellcheck: false, autocomplete: "off", tabIndex: -1 };

// {node, fill}: the table, and what writes numbers and tokens into it and returns the length of the longest number.
export function table(state, stages, name, head, transposed) {
  const wide = /^W_[QKV]$/.test(name); // the columns of all heads
  const matrix = matrixOf(state, stages, name, head);
  const rows = [...matrix.keys()];
  const width = matrix[0].length / (wide ? state.heads : 1);
  const columns = [...matrix[0].keys()].slice(wide ? head * width : 0).slice(0, width);
  const [down, across] = transposed ? [columns, rows] : [rows, columns];
  const editable = name in state.given;
  const axis = { X: "query", context: "key" }[name]; // whose tokens are edited here

  const title = transposed ? "Kᵀ, keys as columns" : (CAPTIONS[name] ?? name);
  const split = state.heads > 1 && (wide || hasHead(name)) ? `, head ${head + 1}` : "";
  const caption = element("caption", {}, [element("b", { textContent: title + split }), ` [${down.length}, ${across.length}]`]);
  const columnHeads = across.map(() => element("th", { scope: "col" }));
  const rowHeads = down.map((r) =>
    element("th", { scope: "row" }, axis ? [element("input", { ...TYPING, dataset: { cell: "", axis, row: r } })] : []));
  const cells = down.map((r) =>
    across.map((c) => {
      const dataset = { cell: "", name, head, row: transposed ? c : r, column: transposed ? r : c };
      if (name === "mask") return element("td", {}, [element("button", { type: "button", dataset, tabIndex: -1 })]);
      if (!editable) return element("td", { dataset, tabIndex: -1 });
      return element("td", {}, [element("input", { ...TYPING, inputMode: "decimal", dataset })]);
    }));
  const node = element(
    "table",
    { className: `matrix ${ROLES[name] ?? ""}`, dataset: { matrix: name }, attributes: { role: "grid" } },
    [
      caption,
      element("thead", {}, [element("tr", {}, [element("td"), ...columnHeads])]),
      element("tbody", {}, down.map((_, i) => element("tr", {}, [rowHeads[i], ...cells[i]]))),
    ],
  );

  function fill(now, made, busy) {
    const numbers = matrixOf(now, made, name, head);
    const rowNames = labels(now, name, "row", numbers.length);
    const columnNames = labels(now, name, "column", numbers[0].length);
    const write = (input, label, text) => {
      input.setAttribute("aria-label", label);
      if (input === busy) return;
      input.value = text;
      input.removeAttribute("aria-invalid");
    };
    columnHeads.forEach((th, i) => (th.textContent = (transposed ? rowNames : columnNames)[across[i]]));
    rowHeads.forEach((th, i) => {
      const text = (transposed ? columnNames : rowNames)[down[i]];
      if (axis) write(th.firstChild, `token ${i + 1} of ${name}`, text);
      else th.textContent = text;
    });
    const all = numbers.flat();
    const most = name === "weights" ? 1 : Math.max(...all.filter(Number.isFinite).map(Math.abs), 0) || 1;
    const decimals = Math.min(6, Math.max(...all.map(decimalsOf)));
    for (const td of cells.flat()) {
      const { row, column } = (td.firstElementChild ?? td).dataset;
      const number = numbers[row][column];
      td.style.setProperty("--share", `${Math.round(Number.isFinite(number) ? (100 * Math.abs(number)) / most : 0)}%`);
      td.classList.toggle("negative", number < 0);
      if (name === "mask") {
        const causal = byCausal(now, Number(row), Number(column));
        const words = `${rowNames[row]} ${number ? "may" : "may not"} attend ${columnNames[column]}${causal ? ", hidden by the causal mask" : ""}`;
        td.firstChild.textContent = number;
        td.firstChild.classList.toggle("fixed", causal);
        td.firstChild.setAttribute("aria-label", `${number}, ${words}`);
        td.firstChild.setAttribute("aria-pressed", number === 1);
      } else if (editable) write(td.firstChild, `${name}, ${rowNames[row]}, column ${columnNames[column]}`, typed(number, decimals));
      else td.textContent = show(number);
    }
    return Math.max(...cells.flat().map((td) => td.textContent.length));
  }

  return { node, fill };
}
