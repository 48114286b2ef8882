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

// An edit. What does not fit is said, and all stays as it was.
export function change(edited, text = "", busy = null) {
  try {
    now.state = checked(edited);
    say(text);
  } catch (error) {
    say(`That does not fit: ${error.message}.`, true);
  }
  const { state, view, selected } = now;
  view.head = Math.min(view.head, state.heads - 1);
  view.row = Math.min(view.row, sizes(state).T - 1);
  if (selected && valueAt(state, trace(state), selected) === undefined) now.selected = null;
  draw(busy);
}

export function look(step, head = now.view.head, selected = null) {
  Object.assign(now.view, { step, head });
  now.selected = selected;
  say("");
  draw();
}

// An example, at a step or at the first one after it that has something to show.
export function open(example, step, masked = false) {
  const state = masked ? withKind(example.state, "masked") : example.state;
  const full = (i) => layout(state, trace(state), i).groups.length > 0;
  const there = full(step) ? step : [0, 1, 2, 3, 4].find(full);
  Object.assign(now, { example, state, view: { step: there, head: 0, row: example.row }, selected: null, spare: null });
  say("");
  draw();
}

// A link, of ours or of anybody's.
export function follow(hash) {
  const place = link.named(hash, examples);
  if (place) open(place.example, place.step, place.masked);
  else if (link.isLink(hash)) {
    try {
      const { state, view } = link.read(hash);
      const example = examples.find((it) => same(it.state, state));
      Object.assign(now, { example, state, view, selected: null, spare: null });
      say("");
      draw();
    } catch (error) {
      open(examples[0], 0);
      say(`The link cannot be opened: ${error.message}. This is the first example instead.`, true);
    }
  } else if (!now.state) open(examples[0], 0);
}
