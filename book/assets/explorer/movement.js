// Arrow keys within a matrix: where they lead.

// Left and right move the caret in a text, and leave it at its ends or when all of it is selected.
function leaves(input, key) {
  const { selectionStart: start, selectionEnd: end, value } = input;
  if (!key.startsWith("Arrow")) return false;
  return (start === 0 && end === value.length) || (start === end && start === (key === "ArrowLeft" ? 0 : value.length));
}

export function move({ key, target, altKey, ctrlKey, metaKey, shiftKey }) {
  if (altKey || ctrlKey || metaKey || shiftKey) return null;
  const grid = [...target.closest("table").tBodies[0].rows].map((row) => [...row.querySelectorAll("[data-cell]")]);
  const i = grid.findIndex((row) => row.includes(target));
  const j = grid[i].indexOf(target);
  if (target.matches("input") && !/Up|Down/.test(key) && !leaves(target, key)) return null;
  const [row, column] = {
    ArrowUp: [i - 1, j],
    ArrowDown: [i + 1, j],
    ArrowLeft: [i, j - 1],
    ArrowRight: [i, j + 1],
    Home: [i, 0],
    End: [i, grid[i].length - 1],
  }[key] ?? [];
  return grid[row]?.[column] ?? null;
}
