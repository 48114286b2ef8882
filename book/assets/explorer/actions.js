// The ways from one state to another.

import { trace } from "explorer/arithmetic";
import { draw } from "explorer/drawing";
import { withKind } from "explorer/edit";
import { valueAt } from "explorer/explanation";
import * as link from "explorer/link";
import { say } from "explorer/page";
import { examples, now } from "explorer/session";
import { checked, same, sizes } from "explorer/state";
import { layout } from "explorer/steps";

// An edit. One that does not fit is an error, and all stays as it was.
export function change(edited, text = "", busy = null) {
  now.state = checked(edited);
  say(text);
  const { state, view, selected } = now;
  view.head = Math.min(view.head, state.heads - 1);
  view.row = Math.min(view.row, sizes(state).T - 1);
  if (selected && valueAt(state, trace(state), selected) === undefined) now.selected = null;
  draw(busy);
}

function show(changed) {
  Object.assign(now, changed);
  say("");
  draw();
}

export const look = (step, head = now.view.head, selected = null) => show({ view: { ...now.view, step, head }, selected });

// An example, at a step or at the first one that has something to show.
export function open(example, step, masked = false) {
  const state = masked ? withKind(example.state, "masked") : example.state;
  const full = (i) => layout(state, trace(state), i).groups.length > 0;
  const view = { step: [step, 0, 1, 2, 3, 4].find(full), head: 0, row: example.row };
  show({ example, state, view, selected: null, spare: null });
}

// A link, of ours or of anybody's.
export function follow(hash) {
  const place = link.named(hash, examples);
  if (place) open(place.example, place.step, place.masked);
  else if (link.isLink(hash)) {
    try {
      const { state, view } = link.read(hash);
      show({ example: examples.find((it) => same(it.state, state)), state, view, selected: null, spare: null });
    } catch (error) {
      open(examples[0], 0);
      say(`The link cannot be opened: ${error.message}. This is the first example instead.`, true);
    }
  } else if (!now.state) open(examples[0], 0);
}
