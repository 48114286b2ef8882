// The cells: typing, pointing, moving with the keys, switching the mask.

import { change, look } from "explorer/actions";
import { fillAll, find, mark, rove, select } from "explorer/drawing";
import * as edit from "explorer/edit";
import { hasHead } from "explorer/explanation";
import { move } from "explorer/movement";
import { parse } from "explorer/numbers";
import { parts, say } from "explorer/page";
import { now } from "explorer/session";
import { token } from "explorer/state";
import { stepOf } from "explorer/steps";
import { take } from "explorer/typing";

const on = (event, action) => parts.matrices.addEventListener(event, action);

function cellOf(target) {
  const node = target.closest("[data-name]") ?? target.querySelector(":scope > [data-name]");
  if (!node) return null;
  const { name, head, row, column } = node.dataset;
  return { name, head: Number(head), row: Number(row), column: Number(column) };
}

function typed(input, done) {
  const { axis, row } = input.dataset;
  if (axis) take(input, true, (text) => change(edit.withToken(now.state, axis, Number(row), token(text)), "", input));
  else {
    const { name, head, row: r, column } = cellOf(input);
    const place = hasHead(name) ? [head, r, column] : [r, column];
    take(input, done, (text) => change(edit.withNumber(now.state, name, place, parse(text)), "", input));
  }
}

on("input", ({ target }) => typed(target, false));
on("change", ({ target }) => typed(target, true));
on("focusin", ({ target }) => {
  rove(target.closest("table"), target);
  const cell = cellOf(target);
  if (cell) select(cell);
});
// What was typed is written as the other numbers are, unless it is no number.
on("focusout", ({ target }) => {
  if (!target.hasAttribute("aria-invalid")) fillAll();
});
on("pointerover", ({ target, pointerType }) => {
  if (pointerType !== "touch") mark(cellOf(target) ?? now.selected);
});
on("pointerleave", () => mark(now.selected));
on("click", ({ target }) => {
  const button = target.closest("button");
  if (button?.matches(".fixed")) say("The causal mask hides this key: it comes after its query.", true);
  else if (button) change(edit.withMask(now.state, Number(button.dataset.row), Number(button.dataset.column)));
});
on("keydown", (event) => {
  const target = move(event);
  if (!target) return;
  event.preventDefault();
  target.focus();
  target.select?.();
});
parts.home.addEventListener("click", () => {
  const cell = now.selected;
  look(stepOf(cell.name), cell.head, cell);
  find(cell)?.focus();
});
