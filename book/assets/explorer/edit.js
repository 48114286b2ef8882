// Every change that a reader can make, as a new state made from the old one.

import { AXES, keyTokens, sizes } from "explorer/state";

export const range = (length) => Array.from({ length }, (_, i) => i);
// A list cut to a length, or filled up.
const fit = (list, length, fill) => range(length).map((i) => (i < list.length ? list[i] : fill(i)));

const put = (nested, [first, ...rest], value) =>
  nested.map((part, i) => (i !== first ? part : rest.length ? put(part, rest, value) : value));

export const withNumber = (state, name, place, value) => ({
  ...state,
  given: { ...state.given, [name]: put(state.given[name], place, value) },
});

export const withToken = (state, axis, index, text) => ({
  ...state,
  tokens: { ...state.tokens, [axis]: put(state.tokens[axis], [index], text) },
});

export function withMask(state, t, s) {
  const { T, S } = sizes(state);
  const mask = state.mask ?? range(T).map(() => range(S).map(() => 1));
  const changed = put(mask, [t, s], 1 - mask[t][s]);
  return { ...state, mask: changed.flat().includes(0) ? changed : null };
}

// The letters that can be chosen for a state, with their lengths. What would have to be cut apart is left out.
export function resizable(state) {
  const size = sizes(state);
  if (!state.given.X) return {};
  const { T, D, Dk, Dv, S, C } = size;
  return state.given.context ? { T, S, D, C, Dk, Dv, O: size.O ?? 0 } : { T, D, Dk, Dv, O: size.O ?? 0 };
}

// More places start at 0, and the mask hides none of them; fewer drop the last ones.
export function withSize(state, letter, length) {
  const letters = !state.given.context && letter === "T" ? ["T", "S"] : !state.given.context && letter === "D" ? ["D", "C"] : [letter];
  if (letter === "O" && length === 0) return without(state, "W_O");
  const began = letter === "O" && !state.given.W_O ? { ...state, given: { ...state.given, W_O: sides(state, length) } } : state;
  const given = Object.fromEntries(
    Object.entries(began.given).map(([name, matrix]) => [name, resized(matrix, AXES[name], letters, length, state.heads)]),
  );
  const mask = state.mask && resized(state.mask, ["T", "S"], letters, length, 1, 1);
  const named = (tokens) => fit(tokens, length, (i) => `token ${i + 1}`);
  const { query, key } = state.tokens;
  return {
    ...state,
    given,
    mask: mask?.flat().includes(0) ? mask : null,
    tokens: { query: letters.includes("T") ? named(query) : query, key: key && letters.includes("S") ? named(key) : key },
  };
}

function resized(matrix, axes, letters, length, heads, fill = 0) {
  const rest = axes.slice(1);
  const empty = () => (rest.length ? fit([], matrix[0].length, () => fill) : fill);
  let parts = matrix;
  if (letters.includes(axes[0])) parts = fit(matrix, length, empty);
  else if (letters.includes(axes[0].replace("H*", ""))) parts = blocks(matrix, heads).flatMap((block) => fit(block, length, empty));
  return rest.length ? parts.map((part) => resized(part, rest, letters, length, heads, fill)) : parts;
}

const blocks = (list, heads) => range(heads).map((h) => list.slice((h * list.length) / heads, ((h + 1) * list.length) / heads));

// A first W_O: each output takes its own number of every head.
const sides = (state, length) => {
  const { Dv, H } = sizes(state);
  return range(Dv * H).map((i) => range(length).map((j) => (i % Dv === j ? 1 : 0)));
};

const without = (state, name) => ({
  ...state,
  given: Object.fromEntries(Object.entries(state.given).filter(([key]) => key !== name)),
});

// A new head is the first one with the rows of its matrices moved round, so that it looks at something else.
export function withHeads(state, heads) {
  const turned = (rows, by) => rows.map((_, i) => rows[(i + by) % rows.length]);
  const given = Object.fromEntries(
    Object.entries(state.given).map(([name, matrix]) => {
      const axes = AXES[name];
      if (axes[0] === "H") return [name, fit(matrix, heads, () => matrix[0])];
      if (axes[0] === "H*Dv") return [name, fit(blocks(matrix, state.heads), heads, () => blocks(matrix, state.heads)[0]).flat()];
      if (!axes[1].startsWith("H*")) return [name, matrix];
      const perHead = range(state.heads).map((h) => matrix.map((row) => blocks(row, state.heads)[h]));
      const all = fit(perHead, heads, (h) => turned(perHead[0], h));
      return [name, matrix.map((_, i) => all.flatMap((head) => head[i]))];
    }),
  );
  return { ...state, heads, given };
}

// Self, masked or cross. A new context begins as a copy of X; `spare` is one that was there before.
export function withKind(state, kind, spare = null) {
  if (kind !== "cross") {
    const plain = without(state, "context");
    if (!state.given.context) return { ...plain, causal: kind === "masked" };
    const { D, C, T } = sizes(state);
    const own = { ...plain, tokens: { query: state.tokens.query, key: null }, mask: null, causal: kind === "masked" };
    if (C === D) return own;
    // The matrices were made for another width: they are cut or filled up to that of X.
    const refit = (name) => resized(own.given[name], AXES[name], ["C"], D, state.heads);
    return { ...own, given: { ...own.given, W_K: refit("W_K"), W_V: refit("W_V") } };
  }
  if (state.given.context) return state;
  const { context, key } = spare && spare.context[0].length === sizes(state).C ? spare : { context: state.given.X, key: keyTokens(state) };
  return { ...state, causal: false, mask: null, given: { ...state.given, context }, tokens: { query: state.tokens.query, key } };
}
