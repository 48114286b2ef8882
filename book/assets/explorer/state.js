// What the explorer shows, as plain data: {tokens, given, heads, causal, mask, scale}. Nothing gets in unchecked.

import { LIMITS } from "explorer/limits";
import { inRange, shortened } from "explorer/numbers";

// The axes of everything that may be given. C is the width of the context; without one S = T and C = D.
const NAMED_AXES = {
  X: "T D",
  context: "S C",
  W_Q: "D H*Dk",
  W_K: "C H*Dk",
  W_V: "C H*Dv",
  W_O: "H*Dv O",
  Q: "H T Dk",
  K: "H S Dk",
  V: "H S Dv",
  scores: "H T S",
  scaled_scores: "H T S",
  weights: "H T S",
  head_outputs: "H T Dv",
};
export const AXES = Object.fromEntries(Object.entries(NAMED_AXES).map(([name, axes]) => [name, axes.split(" ")]));

function require(fits, message) {
  if (!fits) throw new Error(message);
}

export function record(value, keys, name) {
  require(typeof value === "object" && value !== null && !Array.isArray(value), `${name} has no named parts`);
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  require(unknown === undefined, `${name} has an unknown part, ${shortened(unknown ?? "")}`);
  return value;
}

export function integer(value, least, most, name) {
  require(Number.isInteger(value) && value >= least && value <= most, `${name} must be a whole number from ${least} to ${most}`);
  return value;
}

function list(value, name) {
  const most = LIMITS.size * LIMITS.heads;
  require(Array.isArray(value) && value.length >= 1 && value.length <= most, `${name} must be a list of at most ${most}`);
  return value;
}

// Nested lists as deep as there are axes, copied number by number.
function numbers(value, axes, name) {
  if (axes.length === 0) return inRange(value);
  const copy = list(value, name).map((part) => numbers(part, axes.slice(1), name));
  require(axes.length === 1 || copy.every((part) => part.length === copy[0].length), `the rows of ${name} differ in length`);
  return copy;
}

export function token(value) {
  const text = typeof value === "string" ? value.trim() : "";
  require(text !== "", "a token needs at least one character");
  require([...text].length <= LIMITS.token, `a token has at most ${LIMITS.token} characters`);
  require(!/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(text), "a token holds no control character or line break");
  return text;
}

// The length of each axis, a letter each. What is given must agree on them.
export function sizes({ given, heads }) {
  const found = { H: heads };
  const meet = (name, letter, length) => {
    require(letter === "H" || length <= LIMITS.size, `${name} is too large; ${LIMITS.size} tokens of ${LIMITS.size} numbers would fit`);
    found[letter] ??= length;
    require(found[letter] === length, `${name} does not fit the rest; its ${letter} is ${length}, and ${found[letter]} would fit`);
  };
  for (const [name, matrix] of Object.entries(given)) {
    let part = matrix;
    for (const axis of AXES[name]) {
      const length = part.length / (axis.startsWith("H*") ? heads : 1);
      require(Number.isInteger(length), `the ${part.length} numbers of ${name} cannot be shared by ${heads} heads`);
      meet(name, axis.replace("H*", ""), length);
      part = part[0];
    }
    if (name === "X" && !given.context) {
      meet("X", "S", found.T);
      meet("X", "C", found.D);
    }
  }
  return found;
}

// A checked copy, or an error that says in a sentence what does not fit.
export function checked(raw) {
  record(raw, ["tokens", "given", "heads", "causal", "mask", "scale"], "the state");
  const heads = integer(raw.heads, 1, LIMITS.heads, "the number of heads");
  record(raw.given, Object.keys(AXES), "what is given");
  const names = Object.keys(AXES).filter((name) => Object.hasOwn(raw.given, name));
  const given = Object.fromEntries(names.map((name) => [name, numbers(raw.given[name], AXES[name], name)]));
  const projected = ["X", "W_Q", "W_K", "W_V"].filter((name) => name in given);
  require(projected.length % 4 === 0 && (given.X || !given.context), "X, W_Q, W_K and W_V go together, a context with them");
  const { T, S } = sizes({ given, heads });
  require(T, "nothing is given to begin with");

  record(raw.tokens, ["query", "key"], "the tokens");
  const query = list(raw.tokens.query, "the query tokens").map(token);
  const key = raw.tokens.key == null ? null : list(raw.tokens.key, "the key tokens").map(token);
  require(!key || !given.X || given.context, "without a context the keys are the queries");
  require(query.length === T, `${T} queries need ${T} tokens`);
  require(!S || (key ?? query).length === S, `${S} keys need ${S} tokens`);

  require(typeof raw.causal === "boolean", "causal must be true or false");
  const mask = raw.mask == null ? null : numbers(raw.mask, ["T", "S"], "the mask");
  require(!mask || (mask.length === T && mask[0].length === S), "the mask needs a row for each query and a column for each key");
  require(!mask || mask.flat().every((cell) => cell === 0 || cell === 1), "the mask holds 0 and 1 only");
  const scale = raw.scale === "sqrt_dk" || raw.scale === "none" ? raw.scale : positive(raw.scale);
  // A mask that hides nothing is none.
  return { tokens: { query, key }, given, heads, causal: raw.causal, mask: mask?.flat().includes(0) ? mask : null, scale };
}

export function positive(number) {
  const least = 1 / LIMITS.number;
  require(inRange(number) >= least, `scores are divided by a number from ${least} to ${LIMITS.number}`);
  return number;
}

export const keyTokens = (state) => state.tokens.key ?? state.tokens.query;
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
