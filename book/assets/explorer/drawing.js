// The state as one sees it: matrices, the choices above them, the explanation and the output below.

import { trace } from "explorer/arithmetic";
import { range, resizable } from "explorer/edit";
import { explain, nameOf, valueAt } from "explorer/explanation";
import { show } from "explorer/numbers";
import { element, parts, root } from "explorer/page";
import { now, unchanged } from "explorer/session";
import { keyTokens, same, sizes } from "explorer/state";
import { layout, stepOf } from "explorer/steps";
import { table } from "explorer/tables";

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
  parts.matrices.style.setProperty("--characters", Math.max(longest, 6));
}

function build(plan) {
  const { state, stages, view } = now;
  tables = [];
  const made = (name) => {
    tables.push(table(state, stages, name, view.head, view.step === 1 && name === "K"));
    return tables.at(-1).node;
  };
  const groups = plan.groups.map(({ left, tops, results, chain }) =>
    element(
      "div",
      { className: chain ? "chain" : `product${view.step === 0 ? " several" : ""}` },
      (chain ?? [left, ...tops.flatMap((top, i) => [top, results[i]])]).map(made),
    ));
  parts.matrices.replaceChildren(...groups);
  for (const { node } of tables) rove(node, node.querySelector("[data-name]"));
}

export function find(cell) {
  const { name, head, row, column } = cell ?? {};
  return parts.matrices.querySelector(`[data-name="${name}"][data-head="${head}"][data-row="${row}"][data-column="${column}"]`);
}

// One tab stop a matrix: the cell that was last in use.
export function rove(node, current) {
  for (const each of node.querySelectorAll("[data-cell]")) each.tabIndex = each === current ? 0 : -1;
}

function drawChoices({ word }) {
  const { state, stages, view, example } = now;
  parts.example.value = example?.id ?? "";
  parts.source.textContent = `${example?.source ?? "Your own numbers."}${unchanged() ? "" : " Changed here."}`;
  parts.reset.hidden = !example || unchanged();
  for (const radio of parts.kinds.querySelectorAll("input")) {
    radio.checked = radio.value === (state.given.context ? "cross" : state.causal ? "masked" : "self");
    radio.disabled = !state.given.X;
  }
  parts.heads.value = state.heads;
  const own = typeof state.scale === "number";
  parts.scale.value = own ? "number" : state.scale;
  parts.divisor.hidden = !own;
  if (document.activeElement !== parts.divisor) parts.divisor.value = state.scale;
  const steps = [...parts.steps.querySelectorAll("button")];
  steps.forEach((button, i) => button.setAttribute("aria-current", i === view.step ? "step" : "false"));
  parts.sentence.textContent = word || steps[view.step].dataset.sentence;
  parts.previous.disabled = view.step === 0;
  parts.next.disabled = view.step === 4;
  parts.causal.checked = state.causal;
  parts.causal.parentNode.hidden = view.step !== 2 || !stages.masked_scores;
  parts.head.parentNode.hidden = state.heads === 1;
  parts.head.replaceChildren(...range(state.heads).map((h) => new Option(h + 1)));
  parts.head.value = view.head + 1;
  const lengths = state.given.X ? resizable(state) : {};
  parts.sizes.hidden = !state.given.X;
  for (const select of parts.sizes.querySelectorAll("select")) {
    select.value = lengths[select.dataset.letter];
    select.parentNode.hidden = !(select.dataset.letter in lengths);
  }
}

function drawSummary() {
  const { state, stages, view } = now;
  const said = [
    state.heads === 1 && stages.weights && looks(stages.weights[0][view.row], keyTokens(state)),
    stages.output && `becomes [${stages.output[view.row].map(show).join(", ")}]`,
  ];
  const query = element("strong", { textContent: state.tokens.query[view.row] });
  parts.summary.replaceChildren(query, ` ${said.filter(Boolean).join(" and ")}`);
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
  parts.explanation.hidden = !open;
  if (!open) return;
  const told = explain(state, stages, cell);
  find(cell)?.closest("td").classList.add("explained");
  for (const each of told.cells) {
    const right = told.cells.length > 1 && /^([KV]|W_.)$/.test(each.name); // the right factor of a product
    find(each)?.closest("td").classList.add("used", right ? "right" : "used");
  }
  parts.names.textContent = told.names;
  parts.arithmetic.textContent = `= ${told.numbers}`;
  parts.digits.textContent = `= ${told.digits}`;
  parts.note.textContent = [told.note, erratum(cell)].filter(Boolean).join(" ");
  const home = stepOf(cell.name);
  parts.home.hidden = home < 0 || home === view.step || cell.name in state.given;
  parts.home.textContent = `${nameOf(state, cell)} is made in step ${home + 1}`;
}

function erratum({ name, head, row, column }) {
  const found = unchanged()?.errata.find((it) => same([it.name, it.head, it.row, it.column], [name, head, row, column]));
  return found && `The document prints ${found.printed} here; rounded rightly it is ${found.right}. ${found.why}`;
}

export function select(cell) {
  now.selected = cell;
  if (!/^([KV]|context|W_.)$/.test(cell.name)) now.view.row = cell.row;
  drawSummary();
  mark(cell);
}
