// What is on the page now. Only `actions` and `drawing` change it.

import { parts } from "explorer/page";
import { checked, same } from "explorer/state";

export const examples = JSON.parse(parts.examples.textContent).map((it) => ({ ...it, state: checked(it.state) }));

export const now = {
  example: null, // where the state comes from
  state: null,
  view: null, // {step, head, row}: what of it is looked at
  stages: null, // what follows from the state
  selected: null, // the cell that is explained, unless the pointer is on one
  spare: null, // a context that was put aside
};

// The example, if nobody has changed it.
export const unchanged = () => (now.example && same(now.example.state, now.state) ? now.example : null);
