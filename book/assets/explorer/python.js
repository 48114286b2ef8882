// The state as three lines of Python.

import { STAGES } from "explorer/arithmetic";
import { hasHead } from "explorer/explanation";

// 1 would make integers.
const float = (number) => (Number.isInteger(number) ? `${number}.0` : String(number));
const nested = (value) => (Array.isArray(value) ? `[${value.map(nested).join(", ")}]` : float(value));

export function python({ given, heads, causal, mask, scale }, stages) {
  const matrix = (name, value) => (heads === 1 && hasHead(name) ? value[0] : value);
  const entries = Object.entries(given).map(([name, value]) => `"${name}": torch.tensor(${nested(matrix(name, value))})`);
  const settings = [
    ...(heads > 1 ? [`num_heads=${heads}`] : []),
    ...(causal ? ["is_causal=True"] : []),
    ...(mask ? [`mask=torch.tensor(${JSON.stringify(mask)}).bool()`] : []),
    ...(scale === "none" ? ["scale=1.0"] : scale === "sqrt_dk" ? [] : [`scale=1 / ${scale}`]),
  ];
  const last = STAGES.findLast((name) => stages[name]);
  return [
    "import torch; from attn_lib import trace_from; torch.set_default_dtype(torch.float64)",
    `given = {${entries.join(", ")}}`,
    `print(trace_from(${["given", ...settings].join(", ")}).${last})`,
    "",
  ].join("\n");
}
