// How one number comes about: which numbers made it, and the arithmetic spelled out.

import { visible } from "explorer/arithmetic";
import { brief, full } from "explorer/numbers";
import { AXES, keyTokens, sizes } from "explorer/state";

const KEY_COLUMNS = ["scores", "scaled_scores", "masked_scores", "weights", "mask"];
const QUERY_ROWS = ["X", "Q", "head_outputs", "concatenated", "output", ...KEY_COLUMNS];
const WORDS = { scaled_scores: "scaled", masked_scores: "masked", head_outputs: "head output" };

// The names along an axis of a matrix: tokens, or places counted from 0.
export function labels(state, name, axis, length) {
  if (axis === "column" ? KEY_COLUMNS.includes(name) : ["context", "K", "V"].includes(name)) return keyTokens(state);
  return axis === "row" && QUERY_ROWS.includes(name) ? state.tokens.query : Array.from({ length }, (_, i) => String(i));
}

export const hasHead = (name) => !/^(X|context|W_.|mask|concatenated|output)$/.test(name);

export function nameOf(state, { name, head, row, column }) {
  const place = [labels(state, name, "row", row + 1)[row], labels(state, name, "column", column + 1)[column]];
  if (hasHead(name) && state.heads > 1) place.unshift(`head ${head + 1}`);
  return `${WORDS[name] ?? name}[${place.join(", ")}]`;
}

export function matrixOf(state, stages, name, head) {
  const matrix = state.given[name] ?? stages[name];
  return hasHead(name) ? matrix?.[head] : matrix;
}

export const valueAt = (state, stages, { name, head, row, column }) => matrixOf(state, stages, name, head)?.[row]?.[column];

// Whether the causal mask alone hides a key from a query.
export function byCausal(state, row, column) {
  const { T, S } = sizes(state);
  return state.causal && !visible(T, S, true, null)[row][column];
}

const signed = (text) => (text.startsWith("−") ? `(${text})` : text);
const sum = (terms) => terms.join(" + ");
// In names, a long sum is its first two terms and its last. In numbers it is spelled out.
const outline = (terms) => sum(terms.length > 3 ? [terms[0], terms[1], "…", terms.at(-1)] : terms);

// The sum in names, in short numbers and in all digits; which cells made it; and a word on it.
export function explain(state, stages, cell) {
  const { name, head, row, column } = cell;
  const value = valueAt(state, stages, cell);
  const at = (other, r, c, h = head) => ({ name: other, head: h, row: r, column: c });

  const plain = (note, cells = []) => ({ names: nameOf(state, cell), numbers: brief(value), digits: full(value), cells, note });
  const spelled = (cells, write, note = "") => {
    const line = (to) => {
      const text = write(cells.map((each) => signed(to(valueAt(state, stages, each)))), sum);
      return text === signed(to(value)) ? to(value) : `${text} = ${to(value)}`;
    };
    const names = `${nameOf(state, cell)} = ${write(cells.map((each) => nameOf(state, each)), outline)}`;
    return { names, numbers: line(brief), digits: line(full), cells, note };
  };
  const copied = (from, note) => spelled([from], ([text]) => text, note);
  // Left and right factors by turns.
  const product = (length, left, right) =>
    spelled(Array.from({ length }, (_, i) => [left(i), right(i)]).flat(), (texts, add) =>
      add(texts.flatMap((text, i) => (i % 2 ? [`${texts[i - 1]} · ${text}`] : []))));

  if (name in state.given) return plain(AXES[name].length === 3 ? "This number is given: the example begins here." : "This number is given.");
  const hider = () => (byCausal(state, row, column) ? "the causal mask: the key comes after its query" : "the mask");
  switch (name) {
    case "Q":
    case "K":
    case "V": {
      const W = state.given[`W_${name}`];
      const wide = (head * W[0].length) / state.heads + column;
      return product(W.length, (d) => at(name !== "Q" && state.given.context ? "context" : "X", row, d), (d) => at(`W_${name}`, d, wide));
    }
    case "scores":
      return product(stages.Q[head][0].length, (j) => at("Q", row, j), (j) => at("K", column, j));
    case "scaled_scores": {
      const from = at("scores", row, column);
      if (state.scale === "none") return copied(from, "Nothing is divided here.");
      const by = state.scale === "sqrt_dk" ? `√${stages.Q[head][0].length}` : state.scale;
      return spelled([from], ([score]) => `${score} / ${by}`);
    }
    case "mask": {
      const [query, key] = [state.tokens.query[row], keyTokens(state)[column]];
      return plain(value ? `${query} may attend ${key}.` : `${key} is hidden from ${query} by ${hider()}.`);
    }
    case "masked_scores": {
      const from = at("scaled_scores", row, column);
      if (value !== -Infinity) return copied(from, "It may be attended, so it stays.");
      return plain(`Hidden by ${hider()}. Its power of e, and so its weight, is 0.`, [from, at("mask", row, column)]);
    }
    case "weights":
      return share();
    case "concatenated":
      return part();
    case "output":
      if (state.given.W_O) return product(state.given.W_O.length, (i) => at("concatenated", row, i), (i) => at("W_O", i, column));
      if (state.heads > 1 || !stages.weights) return part();
  }
  if (stages.weights[head][row].every((weight) => weight === 0)) return plain("No key is left for this query, so the output is 0.");
  return product(stages.V[head].length, (s) => at("weights", row, s), (s) => at("V", s, column));

  function part() {
    const width = stages.head_outputs[0][0].length;
    return copied(at("head_outputs", row, column % width, Math.floor(column / width)), "The heads stand side by side.");
  }

  function share() {
    const scores = stages.masked_scores[head][row];
    const seen = [...scores.keys()].filter((s) => scores[s] !== -Infinity);
    if (!seen.length) return plain("No key is left for this query: there is nothing to share, and the weight is 0.");
    if (!seen.includes(column)) return plain("This key is hidden, and gets nothing.", [at("masked_scores", row, column)]);
    const most = Math.max(...scores);
    const far = Math.abs(most) > 100;
    const write = (texts, add) => {
      const top = texts[seen.indexOf(scores.indexOf(most))];
      const powers = texts.map((text) => (far ? `e^(${text} − ${top})` : `e^(${text})`));
      return `${powers[seen.indexOf(column)]} / (${add(powers)})`;
    };
    const notes = [
      far && "The largest score is taken off all of them, which changes no weight.",
      seen.length < scores.length && "Keys that are hidden add nothing to the sum.",
    ];
    return spelled(seen.map((s) => at("masked_scores", row, s)), write, notes.filter(Boolean).join(" "));
  }
}
