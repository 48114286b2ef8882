// Every change that a reader can make, as a new state made from the old one.

import { AXES, keyTokens, sizes } from "explorer/state";

export const range = (length) => Array.from({ length }, (_, i) => i);
// A list cut to a length, or filled up; and a list in equal parts.
const fit = (list, length, fill) => range(length).map((i) => (i < list.length ? list[i] : fill(i)));
const parts = (list, count) => range(count).map((i) => list.slice((i * list.length) / count, ((i + 1) * list.length) / count));

const put = (nested, [first, ...rest], value) =>
  nested.map((part, i) => (i !== first ? part : rest.length ? put(part, rest, value) : value));
const given = (state, changed) => ({ ...state, given: { ...state.given, ...changed } });
const each = (state, change) =>
  given(state, Object.fromEntries(Object.entries(state.given).map(([name, matrix]) => [name, change(matrix, AXES[name])])));

export const withNumber = (state, name, place, value) => given(state, { [name]: put(state.given[name], place, value) });
export const withToken = (state, axis, index, text) =>
  ({ ...state, tokens: { ...state.tokens, [axis]: put(state.tokens[axis], [index], text) } });

export function withMask(state, t, s) {
  const { T, S } = sizes(state);
  const mask = state.mask ?? range(T).map(() => range(S).map(() => 1));
  return { ...state, mask: put(mask, [t, s], 1 - mask[t][s]) };
}

function without(state, name) {
  const { [name]: dropped, ...rest } = state.given;
  return { ...state, given: rest };
}

// The lengths that can be chosen; an O of 0 means that there is no W_O.
export function resizable(state) {
  const { T, S, D, C, Dk, Dv, O = 0 } = sizes(state);
  return state.given.context ? { T, S, D, C, Dk, Dv, O } : { T, D, Dk, Dv, O };
}

// More places start at 0, and the mask hides none of them; fewer drop the last ones.
export function withSize(state, letter, length) {
  if (letter === "O" && length === 0) return without(state, "W_O");
  if (letter === "O" && !state.given.W_O) {
    const { H, Dv } = sizes(state); // at first each output takes its number of every head
    return given(state, { W_O: range(H * Dv).map((i) => range(length).map((j) => Number(i % Dv === j))) });
  }
  const alike = state.given.context ? {} : { T: ["T", "S"], D: ["D", "C"] };
  const letters = alike[letter] ?? [letter];
  const named = (tokens, axis) => (tokens && letters.includes(axis) ? fit(tokens, length, (i) => `token ${i + 1}`) : tokens);
  const resize = (matrix, axes, fill) => resized(matrix, axes, { letters, length, fill, heads: state.heads });
  return {
    ...each(state, (matrix, axes) => resize(matrix, axes, 0)),
    mask: state.mask && resize(state.mask, ["T", "S"], 1),
    tokens: { query: named(state.tokens.query, "T"), key: named(state.tokens.key, "S") },
  };
}

// An axis that the heads share is cut and filled up head by head.
function resized(matrix, [axis, ...rest], how) {
  const rows = rest.length ? matrix.map((row) => resized(row, rest, how)) : matrix;
  if (!how.letters.includes(axis.replace("H*", ""))) return rows;
  const empty = () => (rest.length ? rows[0].map(() => how.fill) : how.fill);
  return parts(rows, axis === "H*Dk" || axis === "H*Dv" ? how.heads : 1).flatMap((part) => fit(part, how.length, empty));
}

// A new head has the matrices of the first, their rows moved round, so that it looks at something else.
export function withHeads(state, heads) {
  const changed = each(state, (matrix, [axis, other]) => {
    if (axis === "H") return fit(matrix, heads, () => matrix[0]);
    if (axis === "H*Dv") return fit(parts(matrix, state.heads), heads, () => parts(matrix, state.heads)[0]).flat();
    if (!other.startsWith("H*")) return matrix;
    const rows = matrix.map((row) => parts(row, state.heads)); // [D, H, Dk]
    return rows.map((row, i) => fit(row, heads, (h) => rows[(i + h) % rows.length][0]).flat());
  });
  return { ...changed, heads };
}

// Self, masked or cross. A new context begins as a copy of X; `spare` is one that was put aside.
export function withKind(state, kind, spare) {
  const causal = kind === "masked";
  const { query } = state.tokens;
  if (kind === "cross") {
    const { context, key } = spare?.context[0].length === sizes(state).C ? spare : { context: state.given.X, key: keyTokens(state) };
    return state.given.context ? state : { ...given(state, { context }), causal, mask: null, tokens: { query, key } };
  }
  if (!state.given.context) return { ...state, causal };
  const fitting = withSize(state, "C", sizes(state).D); // W_K and W_V meet X now
  return { ...without(fitting, "context"), causal, mask: null, tokens: { query, key: null } };
}
