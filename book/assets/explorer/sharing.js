// The state to take away: as a link, as a worked example, as Python.

import * as link from "explorer/link";
import { parts } from "explorer/page";
import { python } from "explorer/python";
import { now, unchanged } from "explorer/session";
import { workedExample } from "explorer/worked_example";

const TEXTS = {
  Link: () => location.href.split("#")[0] + link.write(now.state, now.view),
  "Worked example": () => workedExample(now.state, now.stages, unchanged()?.title ?? "Attention, edited in the explorer"),
  Python: () => python(now.state, now.stages),
};

parts.share.addEventListener("click", async ({ target }) => {
  const name = target.dataset.copy;
  if (!name) return;
  const box = parts.text;
  box.value = TEXTS[name]();
  try {
    await navigator.clipboard.writeText(box.value);
    box.hidden = true;
    parts.copied.textContent = `${name} copied.`;
  } catch {
    box.hidden = false;
    box.focus();
    box.select();
    parts.copied.textContent = `The browser keeps its clipboard closed. ${name}: selected below.`;
  }
});
