// How one number comes about: which numbers made it, and the arithmetic spelled out.

import { divisor, visible } from "explorer/arithmetic";
import { brief, full } from "explorer/numbers";
import { AXES, keyTokens, sizes } from "explorer/state";

const KEY_COLUMNS = ["scores", "scaled_scores", "masked_scores", "weights", "mask"];
const KEY_ROWS = ["context", "K", "V"];
const QUERY_ROWS = ["X", "Q", "head_outputs", "concatenated", "output", ...KEY_COLUMNS];
const PLAIN = ["X", "context", "mask", "concatenated", "output"]; // no head among their axes
const WORDS = { scaled_scores: "scaled", masked_scores: "masked", head_outputs: "output" };

// The names along an axis of a matrix: tokens, or places counted from 0.
export function labels(state, name, axis, length) {
  const words = axis === "column"
    ? KEY_COLUMNS.includes(name) && keyTokens(state)
    : QUERY_ROWS.includes(name) ? state.tokens.query : KEY_ROWS.includes(name) && keyTokens(state);
  return words || Array.from({ length }, (_, i) => String(i));
}

export const hasHead = (name) => !PLAIN.includes(name) && !name.startsWith("W_");

export function nameOf(state, { name, head, row, column }) {
  const place = [labels(state, name, "row", row + 1)[row], labels(state, name, "column", column + 1)[column]];
  if (hasHead(name) && state.heads > 1) place.unshift(`head ${head + 1}`);
  const word = name === "head_outputs" && (state.heads > 1 || state.given.W_O) ? "head output" : (WORDS[name] ?? name);
  return `${word}[${place.join(", ")}]`;
}

export const valueAt = (state, stages, { name, head, row, column }) => {
  const matrix = state.given[name] ?? stages[name];
  return (hasHead(name) ? matrix?.[head] : matrix)?.[row]?.[column];
};

// Whether the causal mask alone hides a key from a query.
export function byCausal(state, row, column) {
  const { T, S } = sizes(state);
  return state.causal && !visible(T, S, true, null)[row][column];
}

const range = (length) => Array.from({ length }, (_, i) => i);
const sum = (terms) => terms.join(" + ");
const outline = (terms) => sum(terms.length > 3 ? [terms[0], terms[1], "\u2026", terms.at(-1)] : terms);
const signed = (text) => (text.startsWith("\u2212") ? `(${text})` : text);

// {names, numbers, digits, cells, note}: the sum three times, in names, in short numbers, in all digits.
export function explain(state, stages, cell) {
  const { name, head, row, column } = cell;
  const at = (other, r, c, h = head) => ({ name: other, head: h, row: r, column: c });
  const value = valueAt(state, stages, cell);
  const result = { cell, value, names: nameOf(state, cell), numbers: brief(value), digits: full(value), cells: [], note: "" };
  if (name in state.given) return { ...result, note: AXES[name].length === 3 ? "This number is given: the example begins here." : "This number is given." };

  const spelled = (cells, write, note = "") => {
    const line = (to) => {
      const text = write(cells.map((each) => signed(to(valueAt(state, stages, each)))), sum);
      return text === signed(to(value)) ? to(value) : `${text} = ${to(value)}`;
    };
    return {
      ...result,
      names: `${result.names} = ${write(cells.map((each) => nameOf(state, each)), outline)}`,
      numbers: line(brief),
      digits: line(full),
      cells,
      note,
    };
  };
  // One product after the other: the first, third, ... are the left factors.
  const product = (left, right) =>
    spelled(left.flatMap((each, i) => [each, right[i]]), (texts, add) =>
      add(left.map((_, i) => `${texts[2 * i]} \u00b7 ${texts[2 * i + 1]}`)));

  const size = sizes(state);
  const { S } = size;
  if (["Q", "K", "V"].includes(name)) {
    const source = name !== "Q" && state.given.context ? "context" : "X";
    const W = state.given[`W_${name}`];
    const wide = head * (W[0].length / state.heads) + column;
    return product(range(W.length).map((d) => at(source, row, d)), range(W.length).map((d) => at(`W_${name}`, d, wide)));
  }
  if (name === "scores") {
    const width = range(stages.Q[head][0].length);
    return product(width.map((j) => at("Q", row, j)), width.map((j) => at("K", column, j)));
  }
  if (name === "scaled_scores") {
    const cells = [at("scores", row, column)];
    if (state.scale === "none") return spelled(cells, ([score]) => score, "Nothing is divided here.");
    if (state.scale !== "sqrt_dk") return spelled(cells, ([score]) => `${score} / ${state.scale}`);
    const width = divisor("sqrt_dk", stages.Q) ** 2;
    return spelled(cells, ([score]) => `${score} / \u221a${Math.round(width)}`);
  }
  const why = byCausal(state, row, column) ? "the causal mask: the key comes after its query" : "the mask";
  if (name === "mask") {
    const [query, key] = [state.tokens.query[row], keyTokens(state)[column]];
    return { ...result, note: value ? `${query} may attend ${key}.` : `${key} is hidden from ${query} by ${why}.` };
  }
  if (name === "masked_scores") {
    const cells = [at("scaled_scores", row, column), at("mask", row, column)];
    if (value !== -Infinity) return spelled(cells.slice(0, 1), ([score]) => score, "It may be attended, so it stays.");
    return { ...result, cells, note: `Hidden by ${why}. Its power of e, and so its weight, is 0.` };
  }
  if (name === "weights") {
    const seen = range(S).filter((s) => stages.masked_scores[head][row][s] !== -Infinity);
    if (seen.length === 0) return { ...result, note: "No key is left for this query, so there is nothing to share: the weight is 0, and the output too." };
    if (!seen.includes(column)) return { ...result, cells: [at("masked_scores", row, column)], note: "This key is hidden, and gets nothing." };
    const most = Math.max(...stages.masked_scores[head][row]);
    const far = Math.abs(most) > 100;
    const power = (score, off) => (far ? `e^(${score} \u2212 ${off})` : `e^(${score})`);
    const cells = seen.map((s) => at("masked_scores", row, s));
    const top = stages.masked_scores[head][row].indexOf(most);
    const write = (texts, add) => {
      const powers = texts.map((text) => power(text, texts[seen.indexOf(top)]));
      return `${powers[seen.indexOf(column)]} / (${add(powers)})`;
    };
    const notes = [
      far && "The largest score is taken off all of them, which changes no weight.",
      seen.length < S && "Keys that are hidden add nothing to the sum.",
      seen.length === 1 && "The only key that is left gets everything.",
    ];
    return spelled(cells, write, notes.filter(Boolean).join(" "));
  }
  if (name === "head_outputs" || (name === "output" && state.heads === 1 && !state.given.W_O && stages.weights)) {
    if (stages.weights[head][row].every((weight) => weight === 0)) return { ...result, note: "No key is left for this query, so the output is 0." };
    return product(range(S).map((s) => at("weights", row, s)), range(S).map((s) => at("V", s, column)));
  }
  if (name === "output" && state.given.W_O) {
    const width = range(state.given.W_O.length);
    return product(width.map((i) => at("concatenated", row, i)), width.map((i) => at("W_O", i, column)));
  }
  const Dv = size.Dv;
  return spelled([at("head_outputs", row, column % Dv, Math.floor(column / Dv))], ([text]) => text, "The heads stand side by side.");
}
