// Arrow keys within a matrix: where they lead.

// In a text, left and right move the caret first, and leave the cell at its ends or when all of it is selected.
function leaves(input, key) {
  const { selectionStart: start, selectionEnd: end, value } = input;
  if (start === 0 && end === value.length) return true;
  return start === end && (key === "ArrowLeft" ? start === 0 : key === "ArrowRight" && end === value.length);
}

export function move({ key, target, altKey, ctrlKey, metaKey, shiftKey }) {
  if (altKey || ctrlKey || metaKey || shiftKey) return null;
  const grid = [...target.closest("table").rows].map((row) => [...row.querySelectorAll("[data-cell]")]).filter((row) => row.length);
  const i = grid.findIndex((row) => row.includes(target));
  const j = grid[i]?.indexOf(target);
  if (j === undefined) return null;
  const typing = target.matches("input");
  if (typing && ["Home", "End"].includes(key)) return null;
  if (typing && ["ArrowLeft", "ArrowRight"].includes(key) && !leaves(target, key)) return null;
  const to = {
    ArrowUp: [i - 1, j],
    ArrowDown: [i + 1, j],
    ArrowLeft: [i, j - 1],
    ArrowRight: [i, j + 1],
    Home: [i, 0],
    End: [i, grid[i].length - 1],
  }[key];
  return (to && grid[to[0]]?.[to[1]]) ?? null;
}
