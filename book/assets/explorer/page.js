// The parts of the page that the scripts fill, and the line that speaks to the reader.

export const root = document.querySelector(".explorer");
export const part = (name) => root.querySelector(`[data-part="${name}"]`);

export function element(tag, { dataset, attributes = {}, ...properties } = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  Object.assign(made.dataset, dataset);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function say(text, wrong = false) {
  part("message").textContent = text;
  part("message").classList.toggle("wrong", wrong);
}
