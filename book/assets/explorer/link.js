// The state in a link, behind the #: it never leaves the browser, and what comes in is not trusted.

import { LIMITS } from "explorer/limits";
import { checked, integer, record, sizes } from "explorer/state";

const VERSION = "v1=";
export const STEPS = ["projections", "scores", "scale", "softmax", "output"];

const toBase64 = (text) =>
  btoa(String.fromCharCode(...new TextEncoder().encode(text))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

function fromBase64(code) {
  if (!/^[\w-]*$/.test(code)) throw new Error();
  const bytes = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
}

export const isLink = (hash) => /^#v\d+=/.test(hash);
export const write = (state, view) => `#${VERSION}${toBase64(JSON.stringify({ state, view }))}`;

export function read(hash) {
  if (hash.length > LIMITS.link) throw new Error("it is too long");
  if (!hash.startsWith(`#${VERSION}`)) throw new Error("it comes from another version of this page");
  let raw;
  try {
    raw = JSON.parse(fromBase64(hash.slice(VERSION.length + 1)));
  } catch {
    throw new Error("it is damaged or cut off");
  }
  record(raw, ["state", "view"], "the link");
  const state = checked(raw.state);
  const { step, head, row } = record(raw.view, ["step", "head", "row"], "the view");
  return {
    state,
    view: {
      step: integer(step, 0, STEPS.length - 1, "the step"),
      head: integer(head, 0, state.heads - 1, "the head"),
      row: integer(row, 0, sizes(state).T - 1, "the row"),
    },
  };
}

// #self-attention-love-masked-scores: an example by its name, perhaps with the causal mask, at a step.
export function named(hash, examples) {
  for (const example of examples) {
    const rest = hash.startsWith(`#${example.id}-`) ? hash.slice(example.id.length + 2) : "";
    const step = STEPS.indexOf(rest.replace(/^masked-/, ""));
    if (step >= 0) return { example, step, masked: rest.startsWith("masked-") };
  }
  return null;
}
