// The state as a worked-example file for `python -m attn_lib check`.

import { STAGES } from "explorer/arithmetic";
import { hasHead } from "explorer/explanation";
import { printed } from "explorer/numbers";

// A text that YAML cannot take for anything else: in quotes, and what has no shape of its own as a code.
const quoted = (text) =>
  JSON.stringify(text).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (character) => {
    const code = character.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });

const inline = (list, write) => `[${list.map((part) => (Array.isArray(part) ? inline(part, write) : write(part))).join(", ")}]`;
const rows = (matrix, indent, write) => matrix.map((row) => `${" ".repeat(indent)}- ${inline(row, write)}`);
// One head has no head axis to speak of.
const matrixOf = (name, value, heads) => (hasHead(name) && heads === 1 ? value[0] : value);

export function workedExample(state, stages, title) {
  const { tokens, given, heads, causal, mask, scale } = state;
  const settings = [
    ...(heads > 1 ? [`  heads: ${heads}`] : []),
    ...(causal ? ["  causal: true"] : []),
    ...(mask ? ["  mask:", ...rows(mask, 4, String)] : []),
    `  scores_divided_by: ${scale}`,
  ];
  return [
    `title: ${quoted(title)}`,
    "source:",
    "  document: the explorer of Attention, number by number",
    "note: The numbers under printed are those that the explorer computed, rounded.",
    "tokens:",
    `  query: ${inline(tokens.query, quoted)}`,
    ...(tokens.key ? [`  key: ${inline(tokens.key, quoted)}`] : []),
    "given:",
    ...Object.entries(given).flatMap(([name, value]) => [`  ${name}:`, ...rows(matrixOf(name, value, heads), 4, String)]),
    "settings:",
    ...settings,
    "printed:",
    ...STAGES.filter((name) => stages[name]).flatMap((name) => [
      `  - stage: ${name}`,
      "    values:",
      ...rows(matrixOf(name, stages[name], heads), 6, printed),
    ]),
    "",
  ].join("\n");
}
