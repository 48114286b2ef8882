// One matrix as a table: a grid with one tab stop, numbers as text, inputs or buttons, colours by their size.

import { byCausal, hasHead, labels } from "explorer/explanation";
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
  concatenated: "heads side by side",
};

function matrixOf(state, stages, name, head) {
  const matrix = state.given[name] ?? stages[name];
  return hasHead(name) ? matrix[head] : matrix;
}

// The columns of W that belong to a head; elsewhere all of them.
function columnsOf(state, name, matrix, head) {
  const width = /^W_[QKV]$/.test(name) ? matrix[0].length / state.heads : matrix[0].length;
  const first = /^W_[QKV]$/.test(name) ? head * width : 0;
  return Array.from({ length: width }, (_, j) => first + j);
}

function caption(state, name, head, transposed, shape) {
  const split = state.heads > 1 && (hasHead(name) || /^W_[QKV]$/.test(name));
  const single = name === "head_outputs" ? "head output" : name;
  const text = transposed ? "K\u1d40, keys as columns" : (CAPTIONS[name] ?? single);
  return [`${text}${split ? `, head ${head + 1}` : ""} `, element("small", { textContent: `[${shape.join(", ")}]` })];
}

// {node, fill}: the table, and how to write numbers and tokens into it. `fill` returns the length of the longest number.
export function table(state, stages, { name, transposed = false }, head) {
  const role = ROLES[name] ?? "";
  const matrix = matrixOf(state, stages, name, head);
  const columns = columnsOf(state, name, matrix, head);
  const [across, down] = transposed ? [matrix.map((_, i) => i), columns] : [columns, matrix.map((_, i) => i)];
  const place = (r, c) => (transposed ? { row: c, column: r } : { row: r, column: c });
  const editable = name in state.given;
  const tokenAxis = name === "X" ? "query" : name === "context" ? "key" : null;

  const heading = element("caption", { className: role && `role ${role}` }, caption(state, name, head, transposed, [down.length, across.length]));
  const columnHeads = across.map(() => element("th", { scope: "col" }));
  const rowHeads = down.map((r) => {
    const input = tokenAxis && element("input", { type: "text", maxLength: 48, spellcheck: false, autocomplete: "off", dataset: { cell: "", axis: tokenAxis, row: r }, tabIndex: -1 });
    return element("th", { scope: "row" }, input ? [input] : []);
  });
  const cells = down.map((r) =>
    across.map((c) => {
      const dataset = { cell: "", name, head, ...place(r, c) };
      if (name === "mask") return element("td", {}, [element("button", { type: "button", dataset, tabIndex: -1 })]);
      if (!editable) return element("td", { dataset, tabIndex: -1 });
      const input = element("input", { type: "text", inputMode: "decimal", maxLength: 60, spellcheck: false, autocomplete: "off", dataset, tabIndex: -1 });
      return element("td", {}, [input]);
    }),
  );
  const body = down.map((_, i) => element("tr", {}, [rowHeads[i], ...cells[i]]));
  const node = element(
    "table",
    { className: `explorer-matrix ${role} ${editable ? "given" : "computed"}`, dataset: { matrix: name }, attributes: { role: "grid" } },
    [heading, element("thead", {}, [element("tr", {}, [element("td"), ...columnHeads])]), element("tbody", {}, body)],
  );

  function fill(nextState, nextStages, busy) {
    const numbers = matrixOf(nextState, nextStages, name, head);
    const rowNames = labels(nextState, name, "row", numbers.length);
    const columnNames = labels(nextState, name, "column", numbers[0].length);
    const [acrossNames, downNames] = transposed ? [rowNames, columnNames] : [columnNames, rowNames];
    columnHeads.forEach((th, i) => (th.textContent = acrossNames[across[i]]));
    rowHeads.forEach((th, i) => fillHead(th, downNames[down[i]], down[i], busy));
    const finite = numbers.flat().filter(Number.isFinite).map(Math.abs);
    const most = name === "weights" ? 1 : Math.max(...finite, 0) || 1;
    const decimals = Math.max(...numbers.flat().map(decimalsOf));
    let longest = 0;
    cells.forEach((list, i) =>
      list.forEach((td, j) => {
        const { row, column } = place(down[i], across[j]);
        const number = numbers[row][column];
        paint(td, number, most);
        if (name === "mask") fillMask(td.firstChild, nextState, rowNames[row], columnNames[column], row, column, number);
        else if (!editable) td.textContent = show(number);
        else fillInput(td.firstChild, `${name}, ${rowNames[row]}, column ${columnNames[column]}`, number, decimals, busy);
        longest = Math.max(longest, td.textContent.length);
      }),
    );
    return longest;
  }

  function fillHead(th, text, index, busy) {
    const input = th.firstChild?.nodeType === 1 ? th.firstChild : null;
    if (!input) th.textContent = text;
    else {
      input.setAttribute("aria-label", `token ${index + 1} of ${name}`);
      if (busy !== input) reset(input, text);
    }
  }

  return { node, fill };
}

function fillInput(input, label, number, decimals, busy) {
  input.setAttribute("aria-label", label);
  if (busy !== input) reset(input, typed(number, Math.min(decimals, 6)));
}

function reset(input, text) {
  input.value = text;
  input.removeAttribute("aria-invalid");
}

function fillMask(button, state, query, key, row, column, number) {
  const causal = byCausal(state, row, column);
  button.textContent = String(number);
  button.setAttribute("aria-pressed", String(number === 1));
  button.setAttribute("aria-label", `${number}, ${query} ${number ? "may" : "may not"} attend ${key}${causal ? ", hidden by the causal mask" : ""}`);
  button.classList.toggle("fixed", causal);
}

function paint(td, number, most) {
  const share = Number.isFinite(number) ? Math.abs(number) / most : 0;
  td.style.setProperty("--share", `${(share * 100).toFixed(1)}%`);
  td.classList.toggle("negative", number < 0);
  td.classList.toggle("hidden-score", number === -Infinity);
}
