// The choices above the matrices, and the steps.

import { change, look, open } from "explorer/actions";
import * as edit from "explorer/edit";
import { parse } from "explorer/numbers";
import { parts } from "explorer/page";
import { examples, now } from "explorer/session";
import { positive } from "explorer/state";
import { take } from "explorer/typing";

const on = (name, event, action) => parts[name].addEventListener(event, ({ target }) => action(target));

on("example", "change", ({ value }) => open(examples.find((it) => it.id === value), now.view.step));
on("reset", "click", () => open(now.example, now.view.step));
on("kinds", "change", ({ value }) => {
  const { given, tokens } = now.state;
  if (given.context) now.spare = { context: given.context, key: tokens.key };
  const begins = value === "cross" && !now.spare;
  change(edit.withKind(now.state, value, now.spare), begins ? "The context begins as a copy of X. Change it in step 1." : "");
});
on("causal", "change", ({ checked }) => change({ ...now.state, causal: checked }));
on("heads", "change", ({ value }) => {
  const more = Number(value) > now.state.heads && now.state.given.X;
  change(edit.withHeads(now.state, Number(value)), more ? "A new head has the matrices of the first, their rows moved round." : "");
});
on("head", "change", ({ value }) => look(now.view.step, value - 1));
on("scale", "change", ({ value }) => {
  change({ ...now.state, scale: value === "number" ? 2 : value });
  parts.divisor.removeAttribute("aria-invalid");
  if (value === "number") parts.divisor.select();
});
const divide = (input, done) => take(input, done, (text) => change({ ...now.state, scale: positive(parse(text)) }));
on("divisor", "input", (input) => divide(input, false));
on("divisor", "change", (input) => divide(input, true));
on("sizes", "change", ({ dataset, value }) => change(edit.withSize(now.state, dataset.letter, Number(value))));

on("steps", "click", (target) => {
  const button = target.closest("button");
  if (button) look(Number(button.dataset.step));
});
on("previous", "click", () => look(now.view.step - 1));
on("next", "click", () => look(now.view.step + 1));
parts.stepper.addEventListener("keydown", (event) => {
  const step = now.view.step + { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const button = parts.steps.querySelectorAll("button")[step];
  if (!button) return;
  event.preventDefault();
  look(step);
  button.focus();
});
