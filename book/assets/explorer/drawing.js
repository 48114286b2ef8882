// The state as one sees it: matrices, the choices above them, the explanation and the output below.

import { trace } from "explorer/arithmetic";
import { range, resizable } from "explorer/edit";
import { explain, nameOf, valueAt } from "explorer/explanation";
import { show } from "explorer/numbers";
import { element, part, root } from "explorer/page";
import { now, unchanged } from "explorer/session";
import { keyTokens, kind, sizes } from "explorer/state";
import { layout, stepOf } from "explorer/steps";
import { table } from "explorer/tables";

const RIGHT = ["K", "V", "W_Q", "W_K", "W_V", "W_O"]; // the second factors of a product
let tables = [];
let drawn = ""; // the shape of what is drawn

// `busy`: a cell in which somebody is typing is left alone.
export function draw(busy = null) {
  const { state, view } = now;
  now.stages = trace(state);
  const plan = layout(state, now.stages, view.step);
  const shape = JSON.stringify([view.step, view.head, sizes(state), Object.keys(state.given), state.tokens.key === null]);
  if (shape !== drawn) build(plan);
  drawn = shape;
  fillAll(busy);
  if (!find(now.selected)) now.selected = plan.result && { name: plan.result, head: view.head, row: view.row, column: 0 };
  const own = find(now.selected);
  if (own) rove(own.closest("table"), own);
  drawChoices(plan);
  drawSummary();
  mark(now.selected);
}

export function fillAll(busy) {
  const longest = Math.max(...tables.map(({ fill }) => fill(now.state, now.stages, busy)));
  part("matrices").style.setProperty("--characters", Math.max(longest, 6));
}

function build(plan) {
  const { state, stages, view } = now;
  tables = [];
  const made = (spec) => {
    tables.push(table(state, stages, spec, view.head));
    return tables.at(-1).node;
  };
  const groups = plan.groups.map(({ left, tops, results, chain }) =>
    chain
      ? element("div", { className: "explorer-chain" }, chain.map(made))
      : element("div", { className: `explorer-product${view.step === 0 ? " several" : ""}` }, [
          ...left.map(made),
          ...tops.flatMap((top, i) => [made(top), made(results[i])]),
        ]));
  part("matrices").replaceChildren(...groups);
  for (const { node } of tables) rove(node, node.querySelector("[data-name]"));
}

export function find(cell) {
  const { name, head, row, column } = cell ?? {};
  return part("matrices").querySelector(`[data-name="${name}"][data-head="${head}"][data-row="${row}"][data-column="${column}"]`);
}

// One tab stop a matrix: the cell that was last in use.
export function rove(node, current) {
  for (const each of node.querySelectorAll("[data-cell]")) each.tabIndex = each === current ? 0 : -1;
}

function drawChoices({ sentence }) {
  const { state, stages, view } = now;
  part("example").value = now.example?.id ?? "";
  part("source").textContent = `${now.example?.source ?? "Your own numbers."}${unchanged() ? "" : " Changed here."}`;
  part("reset").hidden = !now.example || unchanged();
  for (const radio of part("kinds").querySelectorAll("input")) {
    radio.checked = radio.value === kind(state);
    radio.disabled = !state.given.X;
  }
  part("heads").value = state.heads;
  const own = typeof state.scale === "number";
  part("scale").value = own ? "number" : state.scale;
  part("divisor").hidden = !own;
  if (document.activeElement !== part("divisor")) part("divisor").value = state.scale;
  part("steps").querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-current", i === view.step ? "step" : "false"));
  part("previous").disabled = view.step === 0;
  part("next").disabled = view.step === 4;
  part("sentence").textContent = sentence;
  part("causal").checked = state.causal;
  part("causal").parentNode.hidden = view.step !== 2 || !stages.masked_scores;
  part("head").parentNode.hidden = state.heads === 1;
  if (part("head").length !== state.heads) {
    part("head").replaceChildren(...range(state.heads).map((h) => element("option", { textContent: h + 1 })));
  }
  part("head").value = view.head + 1;
  const lengths = resizable(state);
  part("sizes").hidden = !state.given.X;
  for (const select of part("sizes").querySelectorAll("select")) {
    const length = lengths[select.dataset.letter];
    select.parentNode.hidden = length === undefined;
    select.value = length ?? 1;
  }
}

function drawSummary() {
  const { state, stages, view } = now;
  const parts = [
    state.heads === 1 && stages.weights && looks(stages.weights[0][view.row], keyTokens(state)),
    stages.output && `becomes [${stages.output[view.row].map(show).join(", ")}]`,
  ];
  part("summary").replaceChildren(element("strong", { textContent: state.tokens.query[view.row] }), ` ${parts.filter(Boolean).join(" and ")}`);
}

function looks(weights, tokens) {
  const most = Math.max(...weights);
  const first = tokens.filter((_, s) => most - weights[s] < 1e-12);
  if (most === 0) return "has no key left to look at";
  if (first.length === tokens.length && first.length > 1) return `looks evenly at all ${first.length} keys`;
  return `looks most at ${first.join(" and ")} (${show(most)})`;
}

// Explain one number, and outline those that made it.
export function mark(cell) {
  const { state, stages, view } = now;
  for (const each of root.querySelectorAll(".explained, .used")) each.classList.remove("explained", "used", "right");
  const open = cell && valueAt(state, stages, cell) !== undefined;
  part("explanation").hidden = !open;
  if (!open) return;
  const told = explain(state, stages, cell);
  find(cell)?.closest("td").classList.add("explained");
  for (const each of told.cells) {
    const classes = find(each)?.closest("td").classList;
    classes?.add("used");
    classes?.toggle("right", RIGHT.includes(each.name) && told.cells.length > 1);
  }
  part("names").textContent = told.names;
  part("arithmetic").textContent = `= ${told.numbers}`;
  part("digits").textContent = `= ${told.digits}`;
  part("note").textContent = [told.note, erratum(cell)].filter(Boolean).join(" ");
  const home = stepOf(cell.name);
  part("home").hidden = home < 0 || home === view.step || cell.name in state.given;
  part("home").textContent = `${nameOf(state, cell)} is made in step ${home + 1}`;
}

function erratum({ name, head, row, column }) {
  const found = unchanged()?.errata.find((it) => it.name === name && it.head === head && it.row === row && it.column === column);
  return found && `The document prints ${found.printed} here; rounded rightly it is ${found.right}. ${found.why}`;
}

export function select(cell) {
  now.selected = cell;
  if (!/^([KV]|context|W_.)$/.test(cell.name)) now.view.row = cell.row;
  drawSummary();
  mark(cell);
}
