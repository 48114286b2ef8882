// What is typed into a field: taken, or said to be wrong. While it may still become a number, nobody complains.

import { unfinished } from "explorer/numbers";
import { say } from "explorer/page";

export function take(input, done, use) {
  if (!done && unfinished(input.value)) return;
  try {
    use(input.value);
    input.removeAttribute("aria-invalid");
  } catch (error) {
    input.setAttribute("aria-invalid", "true");
    say(`${input.getAttribute("aria-label")}: ${error.message}. What was there before stays.`, true);
  }
}
