// The parts of the page that are filled, and the line that speaks to the reader.

export const root = document.querySelector(".explorer");
export const parts = Object.fromEntries([...root.querySelectorAll("[data-part]")].map((it) => [it.dataset.part, it]));

export function element(tag, { dataset, attributes = {}, ...properties } = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  Object.assign(made.dataset, dataset);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function say(text, wrong = false) {
  parts.message.textContent = text;
  parts.message.classList.toggle("wrong", wrong);
}
