// What the explorer shows, as plain data: {tokens, given, heads, causal, mask, scale}. Nothing gets in unchecked.

import { LIMITS } from "explorer/limits";
import { inRange, shortened } from "explorer/numbers";

// The axes of everything that may be given. C is the width of the context; S = T and C = D where there is none.
export const AXES = {
  X: ["T", "D"],
  context: ["S", "C"],
  W_Q: ["D", "H*Dk"],
  W_K: ["C", "H*Dk"],
  W_V: ["C", "H*Dv"],
  W_O: ["H*Dv", "O"],
  Q: ["H", "T", "Dk"],
  K: ["H", "S", "Dk"],
  V: ["H", "S", "Dv"],
  scores: ["H", "T", "S"],
  scaled_scores: ["H", "T", "S"],
  weights: ["H", "T", "S"],
  head_outputs: ["H", "T", "Dv"],
};
const PROJECTED = ["X", "W_Q", "W_K", "W_V"];
const KEYS = ["tokens", "given", "heads", "causal", "mask", "scale"];

const fail = (message) => {
  throw new Error(message);
};

export function record(value, keys, name) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) fail(`${name} is not a set of named parts`);
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown !== undefined) fail(`${name} has an unknown part, ${shortened(unknown)}`);
  return value;
}

export function integer(value, least, most, name) {
  if (!Number.isInteger(value) || value < least || value > most) fail(`${name} must be a whole number from ${least} to ${most}`);
  return value;
}

const list = (value, name, most = LIMITS.size * LIMITS.heads) =>
  Array.isArray(value) && value.length >= 1 && value.length <= most
    ? value
    : fail(`${name} must be a list of 1 to ${most} entries`);

// Nested lists as deep as there are axes, copied number by number.
function numbers(value, axes, name) {
  if (axes.length === 0) return typeof value === "number" ? inRange(value) : fail(`${name} holds something that is not a number`);
  const copy = list(value, name).map((part) => numbers(part, axes.slice(1), name));
  if (axes.length > 1 && copy.some((part) => part.length !== copy[0].length)) fail(`the rows of ${name} differ in length`);
  return copy;
}

export function token(value) {
  if (typeof value !== "string" || value.trim() === "") fail("a token needs at least one character");
  const text = value.trim();
  if ([...text].length > LIMITS.token) fail(`a token has at most ${LIMITS.token} characters, ${shortened(text)} has more`);
  if (/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text)) fail("a token holds no control character or line break");
  return text;
}

// The length of each axis, one letter each. What is given must agree on them.
export function sizes({ given, heads }) {
  const found = { H: heads };
  const meet = (letter, length, name) => {
    if (found[letter] !== undefined && found[letter] !== length) {
      fail(`${name} does not fit the rest: its ${letter} is ${length}, and ${found[letter]} would fit`);
    }
    if (letter !== "H" && length > LIMITS.size) fail(`${name} is too large: at most ${LIMITS.size} tokens, and ${LIMITS.size} numbers each, would fit`);
    found[letter] = length;
  };
  for (const [name, matrix] of Object.entries(given)) {
    const lengths = AXES[name].length === 3 ? [matrix.length, matrix[0].length, matrix[0][0].length] : [matrix.length, matrix[0].length];
    AXES[name].forEach((axis, i) => {
      const letter = axis.replace("H*", "");
      const shared = axis.startsWith("H*");
      if (shared && lengths[i] % heads !== 0) fail(`the ${lengths[i]} numbers of ${name} cannot be shared by ${heads} heads`);
      meet(letter, shared ? lengths[i] / heads : lengths[i], name);
    });
    if (name === "X" && !given.context) {
      meet("S", found.T, "X");
      meet("C", found.D, "X");
    }
  }
  return found;
}

// A checked copy, or an error that says in a sentence what does not fit.
export function checked(raw) {
  record(raw, KEYS, "the state");
  const heads = integer(raw.heads, 1, LIMITS.heads, "the number of heads");
  record(raw.given, Object.keys(AXES), "what is given");
  const names = Object.keys(AXES).filter((name) => Object.hasOwn(raw.given, name));
  const given = Object.fromEntries(names.map((name) => [name, numbers(raw.given[name], AXES[name], name)]));
  const projected = PROJECTED.filter((name) => name in given);
  if (projected.length % PROJECTED.length !== 0) fail("X, W_Q, W_K and W_V go together");
  if (given.context && !given.X) fail("a context needs an X that asks it");
  const size = sizes({ given, heads });
  if (size.T === undefined) fail("nothing is given to begin with");

  const { query, key } = record(raw.tokens, ["query", "key"], "the tokens");
  const tokens = { query: list(query, "the query tokens").map(token), key: key == null ? null : list(key, "the key tokens").map(token) };
  if (given.X && !given.context && tokens.key) fail("without a context the keys are the queries");
  if (tokens.query.length !== size.T) fail(`${size.T} queries need ${size.T} tokens`);
  if (size.S !== undefined && (tokens.key ?? tokens.query).length !== size.S) fail(`${size.S} keys need ${size.S} tokens`);

  if (typeof raw.causal !== "boolean") fail("causal must be true or false");
  const mask = raw.mask == null ? null : numbers(raw.mask, ["T", "S"], "the mask");
  if (mask && (mask.length !== size.T || mask[0].length !== size.S)) fail("the mask needs a row for each query and a column for each key");
  if (mask?.flat().some((cell) => cell !== 0 && cell !== 1)) fail("the mask holds 0 and 1 only");
  const scale = raw.scale === "sqrt_dk" || raw.scale === "none" ? raw.scale : positive(raw.scale);
  return { tokens, given, heads, causal: raw.causal, mask: mask?.flat().includes(0) ? mask : null, scale };
}

export function positive(number) {
  const least = 1 / LIMITS.number;
  return inRange(number) >= least ? number : fail(`the scores can be divided by a number from ${least} to ${LIMITS.number}`);
}

export const keyTokens = (state) => state.tokens.key ?? state.tokens.query;
export const kind = (state) => (state.given.context ? "cross" : state.causal ? "masked" : "self");
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
