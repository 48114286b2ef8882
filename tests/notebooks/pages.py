"""What the guards read: the book's pages, their prose passage by passage, and what their cells print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from book.scripts.store_outputs import ROOT, cell_name, read

__all__ = [
    "NOTEBOOKS",
    "PAGES",
    "ROOT",
    "Line",
    "cell_name",
    "code_cells",
    "fenced",
    "printed_texts",
    "prose",
    "read",
    "tags",
]

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted(path for pattern in ("book/*.md", "book/api/*.md") for path in ROOT.glob(pattern))


@dataclass(frozen=True)
class Line:
    """One line of prose; `place` says where it stands: `02_x.ipynb, cell 3, line 2`."""

    place: str
    text: str
    fenced: bool


def tags(cell) -> set[str]:
    return set(cell.metadata.get("tags", []))


def code_cells(path: Path) -> Iterator[tuple[str, object]]:
    """Each code cell of the notebook at `path` with its place, `02_x.ipynb, cell 7 (In [4])`."""
    nb = read(path)
    for index, cell in enumerate(nb.cells):
        if cell.cell_type == "code":
            yield f"{path.name}, {cell_name(nb, index)}", cell


def prose(path: Path) -> Iterator[Line]:
    """Every line that a reader, or a screen reader, gets as text: Markdown, alt texts and captions; not the code, not the outputs."""
    if path.suffix == ".md":
        yield from lines(path.name, path.read_text(encoding="utf-8"))
        return
    nb = read(path)
    for index, cell in enumerate(nb.cells):
        place = f"{path.name}, {cell_name(nb, index)}"
        if cell.cell_type != "code":
            yield from lines(place, cell.source)
        for part, key in (("image", "alt"), ("figure", "caption")):
            text = cell.metadata.get("mystnb", {}).get(part, {}).get(key)
            if text is not None:
                yield from lines(f"{place}, {part} {key}", str(text))


def lines(place: str, text: str) -> Iterator[Line]:
    for number, (line, inside) in enumerate(fenced(text.splitlines()), start=1):
        yield Line(f"{place}, line {number}", line, inside)


def fenced(text: list[str]) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a fence (``` or ~~~; colons make a MyST directive, whose text is prose)."""
    fence = ""
    for line in text:
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        else:
            yield line, mark is not None
            fence = mark[1] if mark else ""


def printed_texts(outputs) -> Iterator[str]:
    """What a cell's outputs show as text: streams, results in every text format, the messages of errors."""
    for output in outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield f"{output.ename}: {output.evalue}"
        else:
            for kind, data in output.data.items():
                if kind.startswith("text/"):
                    yield data
