"""What book/coverage.md and book/misconceptions.md say of the chapters holds: the place is there, and so is the proof.

A row of coverage has three cells: what is stated, links to where it is shown, and how it is proved, one word or more:

* `asserted`: a linked section of a notebook asserts something in code, `assert`, `prove(...)` or `assert_close(...)`;
* `measured`: a linked section prints something (what an exercise says before it is answered does not count);
* `drawn`: a linked section shows a figure;
* `cited`: the row cites a work of the bibliography, or links to the page of references.

What proves is a section, `02_x.ipynb#step-2-scores`: the cells from that heading to the next of its level or above. Anchors are
what MyST makes of a heading. A misconception is a heading `##`, and a link below it leads to a section of a notebook.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from markdown_it.renderer import RendererHTML
from markdown_it.tree import SyntaxTreeNode
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import compute_unique_slug
from myst_parser.parsers.mdit import create_md_parser
from nbformat.v4 import new_markdown_cell

from .pages import prose, read, tags
from .prose_guards import HEADING

ANCHORS = 3  # heading levels that have one: myst_heading_anchors in _config.yml
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#?([^)\s]*)\)")
CITED = re.compile(r"\{cite(?::[a-z]+)?\}`([^`]+)`")
CELLS = re.compile(r"(?<!\\)\|")
PARSER = create_md_parser(MdParserConfig(enable_extensions={"dollarmath", "colon_fence"}), RendererHTML)


@dataclass
class Section:
    """A heading of a page; `cells` are the code cells below it, down to the next heading of its level or above."""

    level: int
    cells: list = field(default_factory=list)


@cache
def sections(path: Path) -> dict[str, Section]:
    """The headings of a page or a notebook by their anchors."""
    found, above = {}, []
    page = [new_markdown_cell(path.read_text(encoding="utf-8"))] if path.suffix == ".md" else read(path).cells
    for cell in page:
        if cell.cell_type == "markdown":
            tree = SyntaxTreeNode(PARSER.parse(cell.source))
            for heading in (node for node in tree.children if node.type == "heading"):
                level = int(heading.tag[1])
                above = [section for section in above if section.level < level] + [Section(level)]
                found |= {compute_unique_slug(heading, found): above[-1]} if level <= ANCHORS else {}
        elif cell.cell_type == "code":
            for section in above:
                section.cells.append(cell)
    return found


def asserts(cell) -> bool:
    nodes = list(ast.walk(ast.parse(cell.source)))
    called = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in nodes if isinstance(node, ast.Call)}
    return bool(called & {"prove", "assert_close"}) or any(isinstance(node, ast.Assert) for node in nodes)


def draws(cell) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.outputs)


def prints(cell) -> bool:
    pictures = ["image/png" in output.get("data", {}) for output in cell.outputs]
    return not tags(cell) & {"exercise", "check"} and not all(pictures)


PROOFS = {"asserted": asserts, "measured": prints, "drawn": draws}  # and "cited", which no cell shows


def linked(page: Path, text: str) -> Iterator[tuple[str, Path, Section | None]]:
    """What `text` links to inside the book: the link, the file, and the section, which is None where there is none."""
    for address, anchor in LINK.findall(text):
        path = (page.parent / address).resolve() if address else page
        section = sections(path).get(anchor) if path.is_file() and path.suffix in {".md", ".ipynb"} else None
        yield f"{address}#{anchor}" if anchor else address, path, section


def shown(page: Path, text: str) -> list[Section]:
    """The sections of notebooks that `text` links to; a whole notebook is none."""
    return [found for _, path, found in linked(page, text) if path.suffix == ".ipynb" and found and found.level > 1]


def link_faults(page: Path, text: str) -> Iterator[str]:
    """Links to files that are not there, and to anchors that no heading has."""
    for link, path, section in linked(page, text):
        if not path.is_file() or ("#" in link and section is None):
            yield f"no such {'heading' if path.is_file() else 'file'}: {link}"


def bibliography(path: Path) -> set[str]:
    """The keys of a BibTeX file."""
    return set(re.findall(r"^@\w+\{([^,\s]+),", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


def rows(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each row of the tables of a page with its place, without heads and rules."""
    lines = [line for line in prose(page) if not line.fenced and line.text.lstrip().startswith("|")]
    rules = {number for number, line in enumerate(lines) if not line.text.strip("|-: ")}
    for number, line in enumerate(lines):
        if number not in rules and number + 1 not in rules:
            yield line.place, [cell.strip() for cell in CELLS.split(line.text.strip())[1:-1]]


def coverage_faults(page: Path, keys: Iterable[str]) -> list[str]:
    """Rows of coverage without a place, with one that does not exist, or whose place does not prove what it should."""
    faults = []
    for place, cells in rows(page):
        text = " | ".join(cells)
        cited = {key.strip() for found in CITED.findall(text) for key in found.split(",")}
        if len(cells) != 3 or not cells[0]:
            faults.append(f"{place}: a row has a statement, places and proofs: {text}")
            continue
        faults += [f"{place}: {fault}" for fault in link_faults(page, text)]
        faults += [f"{place}: no such work: {key}" for key in sorted(cited - set(keys))]
        if not (targets := list(linked(page, cells[1]))):
            faults.append(f"{place}: is shown nowhere: {cells[0]}")
        proofs = [word.strip() for word in cells[2].split(",")]
        faults += [f"{place}: no such proof: {word!r}" for word in proofs if word not in {*PROOFS, "cited"}]
        there = [cell for section in shown(page, cells[1]) for cell in section.cells]
        missing = [word for word in proofs if word in PROOFS and not any(map(PROOFS[word], there))]
        faults += [f"{place}: nothing there is {word}: {cells[0]}" for word in missing]
        if "cited" in proofs and not cited and all(path.name != "references.md" for _, path, _ in targets):
            faults.append(f"{place}: cites nothing: {cells[0]}")
    return faults


def misconception_faults(page: Path) -> list[str]:
    """Misconceptions that no section of a notebook answers, and links that lead nowhere."""
    faults, heads = [], []  # heads: place, belief, whether a run answers it
    for line in prose(page):
        if not line.fenced and (heading := HEADING.match(line.text)):
            heads.append([line.place, heading[2], heading[1] != "##"])
        elif not line.fenced:
            faults += [f"{line.place}: {fault}" for fault in link_faults(page, line.text)]
            if heads and shown(page, line.text):
                heads[-1][2] = True
    return faults + [f"{place}: no run answers it: {belief}" for place, belief, answered in heads if not answered]
