// The equation as one reads it, one function a step. A matrix is a list of rows.
// T queries, S keys, D numbers a token, H heads, Dk and Dv numbers a head.

export const STAGES = [
  "Q", "K", "V", "scores", "scaled_scores", "masked_scores", "weights", "head_outputs", "concatenated", "output",
];

export const dot = (a, b) => a.reduce((sum, number, i) => sum + number * b[i], 0);
export const transpose = (matrix) => matrix[0].map((_, j) => matrix.map((row) => row[j]));
const times = (A, B) => A.map((row) => transpose(B).map((column) => dot(row, column)));

// Step 1. The columns of W lie head by head, side by side.
export function project(X, W, H) {
  const wide = times(X, W); // [T, H * Dk]
  const width = W[0].length / H;
  return Array.from({ length: H }, (_, h) => wide.map((row) => row.slice(h * width, (h + 1) * width))); // [H, T, Dk]
}

// Step 2. Every query with every key.
export const dotProducts = (Q, K) => Q.map((queries, h) => times(queries, transpose(K[h]))); // [H, T, S]

// Step 3. Divide, then hide.
export const divide = (scores, by) => scores.map((head) => head.map((row) => row.map((score) => score / by))); // [H, T, S]

export const hide = (scores, seen) =>
  scores.map((head) => head.map((row, t) => row.map((score, s) => (seen[t][s] ? score : -Infinity)))); // [H, T, S]

// With fewer queries than keys the queries are the last ones: the newest token sees all that is there.
export function visible(T, S, causal, mask) {
  const sees = (t, s) => Number((!causal || s <= t + S - T) && (!mask || mask[t][s] === 1));
  return Array.from({ length: T }, (_, t) => Array.from({ length: S }, (_, s) => sees(t, s))); // [T, S]
}

// Step 4. The largest score is taken off first: that changes no weight, and no power of e outgrows a float.
export function softmax(row) {
  const most = Math.max(...row);
  if (most === -Infinity) return row.map(() => 0); // no key is left
  const powers = row.map((score) => Math.exp(score - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum); // [S]
}

// Step 5. Values, mixed by the weights; then the heads side by side, and one more matrix.
export const weightedSum = (weights, V) => weights.map((head, h) => times(head, V[h])); // [H, T, Dv]
export const concatenate = (heads) => heads[0].map((_, t) => heads.flatMap((head) => head[t])); // [T, H * Dv]

// What the scores are divided by; without queries nobody knows Dk.
export function divisor(scale, Q) {
  if (scale === "sqrt_dk") return Q && Math.sqrt(Q[0][0].length);
  return scale === "none" ? 1 : scale;
}

// All stages of one calculation. A stage that is given is taken as it is; one that lacks an ingredient is null.
export function trace({ given, heads, causal, mask, scale }) {
  const stages = {};
  const stage = (name, ingredients, compute) => {
    stages[name] = given[name] ?? (ingredients.some((it) => it == null) ? null : compute(...ingredients));
  };
  const answering = given.context ?? given.X; // [S, D]
  stage("Q", [given.X, given.W_Q], (X, W) => project(X, W, heads));
  stage("K", [answering, given.W_K], (X, W) => project(X, W, heads));
  stage("V", [answering, given.W_V], (X, W) => project(X, W, heads));
  stage("scores", [stages.Q, stages.K], dotProducts);
  stage("scaled_scores", [stages.scores, divisor(scale, stages.Q)], divide);
  stage("mask", [stages.scaled_scores], ([scores]) => visible(scores.length, scores[0].length, causal, mask)); // [T, S]
  stage("masked_scores", [stages.scaled_scores, stages.mask], hide);
  stage("weights", [stages.masked_scores], (scores) => scores.map((head) => head.map(softmax)));
  stage("head_outputs", [stages.weights, stages.V], weightedSum);
  stage("concatenated", [stages.head_outputs], concatenate);
  stage("output", [stages.concatenated], (joined) => (given.W_O ? times(joined, given.W_O) : joined)); // [T, D]
  return stages;
}
