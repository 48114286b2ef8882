// What is on the page now. Only `actions` and `drawing` change it.

import { part } from "explorer/page";
import { checked, same } from "explorer/state";

export const examples = JSON.parse(part("examples").textContent).map((it) => ({ ...it, state: checked(it.state) }));

export const now = {
  example: null, // where the state comes from, if from an example
  state: null, // what is given and chosen
  view: null, // {step, head, row}: what of it is looked at
  stages: null, // what follows from the state
  selected: null, // the cell that is explained while the pointer is on none
  spare: null, // a context that was put aside
};

// The example, if nobody has changed it.
export const unchanged = () => (now.example && same(now.example.state, now.state) ? now.example : null);
