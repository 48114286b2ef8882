// The five steps: what each is called, what it shows, and why it may have nothing to show.

const SENTENCES = [
  "Each token is multiplied by three matrices. Change a number and watch the output below.",
  "Each query meets each key: multiply entry by entry, and add.",
  "Divide, so that wide keys do not make large scores. Then hide what may not be attended: press a cell of the mask to switch it.",
  "Each row of scores becomes shares: e to the power of each score, divided by the sum over the row.",
  "Each value is taken by its share, and the parts are added.",
];

// What each step makes. A number made elsewhere is found there.
const RESULTS = [["Q", "K", "V"], ["scores"], ["scaled_scores", "mask", "masked_scores"], ["weights"], ["head_outputs", "concatenated", "output"]];
export const stepOf = (name) => RESULTS.findIndex((results) => results.includes(name));

const joined = (state) => state.heads > 1 || Boolean(state.given.W_O);

// {sentence, groups, result}. A group is a product, what stands left, what stands above and what comes out, or a chain of matrices.
export function layout(state, stages, step) {
  const at = (name, more = {}) => (state.given[name] || stages[name] ? [{ name, ...more }] : []);
  const product = (left, tops, results) => ({ left, tops, results });
  let groups;
  if (step === 0 && state.given.X) {
    const part = (source, letters) => product(at(source), letters.flatMap((l) => at(`W_${l}`)), letters.flatMap((l) => at(l)));
    groups = state.given.context ? [part("X", ["Q"]), part("context", ["K", "V"])] : [part("X", ["Q", "K", "V"])];
  } else if (step === 0) {
    groups = [{ chain: [...at("Q"), ...at("K"), ...at("V")] }];
  } else if (step === 1) {
    groups = stages.Q && stages.K ? [product(at("Q"), at("K", { transposed: true }), at("scores"))] : [{ chain: at("scores") }];
  } else if (step === 2) {
    groups = [{ chain: [...at("scores"), ...at("scaled_scores"), ...at("mask"), ...at("masked_scores")] }];
  } else if (step === 3) {
    groups = [{ chain: [...at("masked_scores"), ...at("weights")] }];
  } else {
    const result = joined(state) ? "head_outputs" : "output";
    groups = stages.weights && stages.V ? [product(at("weights"), at("V"), at(result))] : [{ chain: at(result === "output" && !stages.output ? "" : result) }];
    if (state.given.W_O) groups.push(product(at("concatenated"), at("W_O"), at("output")));
    else if (joined(state)) groups.push({ chain: at("output") });
  }
  groups = groups.filter((group) => (group.chain ?? group.results).length);
  const last = groups.at(-1);
  const results = groups.map((group) => group.results ?? group.chain);
  return {
    sentence: groups.length ? SENTENCES[step] : missing(stages, step),
    groups,
    result: (step === 0 ? results[0]?.[0] : results.at(-1)?.at(-1))?.name, // which number is explained first
  };
}

function missing(stages, step) {
  const first = RESULTS.flat().find((name) => stages[name]);
  if (step <= stepOf(first)) return `Nothing to see here: this example begins later, in step ${stepOf(first) + 1}. What came before is not given.`;
  if (step === 4 && stages.weights) return "Nothing to see here: this example gives weights and no values to mix by them.";
  return "Nothing to see here: what this example gives does not lead to this step.";
}
