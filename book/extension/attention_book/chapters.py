"""What a chapter holds, counted: words, cells, outputs that are compared, figures, exercises."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

PARSER = create_md_parser(MdParserConfig(enable_extensions={"dollarmath", "colon_fence"}), RendererHTML)
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Chapter:
    """One notebook.

    Attributes:
        name: of its file.
        words: in its text; formulas and code are none.
        cells: with code.
        compared: outputs that every test compares with what is stored, figures among them.
        not_compared: outputs that differ from run to run, a time or a device.
        figures: among all outputs.
        exercises: that a reader finds in it.
    """

    name: str
    words: int
    cells: int
    compared: int
    not_compared: int
    figures: int
    exercises: int

    @property
    def place(self) -> str:
        """How a report of tests names it."""
        return f"notebooks.{self.name}"


def count(path: Path) -> Chapter:
    """Count what a notebook holds."""
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    outputs = [(output, set(cell.metadata.get("tags", []))) for cell in code for output in cell.outputs]
    figures = [tags for output, tags in outputs if "image/png" in output.get("data", {})]
    differing = sum(differs(output, tags) for output, tags in outputs)
    return Chapter(
        name=path.name,
        words=sum(words(cell.source) for cell in cells if cell.cell_type == "markdown"),
        cells=len(code),
        compared=len(outputs) - differing,
        not_compared=differing,
        figures=len(figures),
        exercises=sum("exercise" in cell.metadata.get("tags", []) for cell in code),
    )


def differs(output: nbformat.NotebookNode, tags: set[str]) -> bool:
    """Whether an output is left uncompared: it shows a time or a device, or is a figure of such."""
    return "nbval-ignore-output" in tags or ("claims" in tags and "image/png" in output.get("data", {}))


def words(text: str) -> int:
    """The words that a reader reads in a piece of Markdown.

    >>> words("Two *words*, `code`, $x^2$ and [a link](elsewhere.md).")
    5
    """
    count = 0
    for token in PARSER.parse(text):
        if token.type == "colon_fence":
            count += words(token.content)  # a directive whose text is prose
        for part in token.children or ():
            if part.type == "text":
                count += len(WORD.findall(part.content))
    return count
