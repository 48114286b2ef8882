// The five steps: what each shows, and why it may have nothing to show.

// What each step makes. A number made elsewhere is found there.
const RESULTS = [["Q", "K", "V"], ["scores"], ["scaled_scores", "mask", "masked_scores"], ["weights"], ["head_outputs", "concatenated", "output"]];
export const stepOf = (name) => RESULTS.findIndex((results) => results.includes(name));

// {word, groups, result}. A group is a product (what stands left, what stands above, what comes out) or a chain of matrices.
export function layout({ given, heads }, stages, step) {
  const has = (name) => given[name] || stages[name];
  const product = (left, tops, results) => ({ left, tops, results });
  const chain = (...names) => ({ chain: names.filter(has) });
  const joined = heads > 1 || given.W_O;
  const result = joined ? "head_outputs" : "output";
  const groups = [
    () =>
      !given.X ? [chain("Q", "K", "V")]
      : given.context ? [product("X", ["W_Q"], ["Q"]), product("context", ["W_K", "W_V"], ["K", "V"])]
      : [product("X", ["W_Q", "W_K", "W_V"], ["Q", "K", "V"])],
    () => [stages.Q && stages.K ? product("Q", ["K"], ["scores"]) : chain("scores")],
    () => [chain("scores", "scaled_scores", "mask", "masked_scores")],
    () => [chain("masked_scores", "weights")],
    () => [
      stages.weights && stages.V ? product("weights", ["V"], [result]) : chain(result),
      ...(given.W_O && stages.output ? [product("concatenated", ["W_O"], ["output"])] : joined ? [chain("output")] : []),
    ],
  ][step]().filter((group) => group.left || group.chain.length);
  const made = groups.map((group) => group.results ?? group.chain);
  const begins = made.at(-1)?.at(-1) in given;
  return {
    word: !groups.length ? missing(stages, step) : begins ? "These numbers are given: the example begins here." : "",
    groups,
    result: step === 0 ? made[0]?.[0] : made.at(-1)?.at(-1), // which number is explained first
  };
}

function missing(stages, step) {
  const first = stepOf(RESULTS.flat().find((name) => stages[name])) + 1;
  if (step + 1 < first) return `Nothing to see here: this example begins later, in step ${first}.`;
  return `Nothing to see here: this example gives ${stages.weights ? "weights and no values to mix by them" : "nothing that leads to this step"}.`;
}
