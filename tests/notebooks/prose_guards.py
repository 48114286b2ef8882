"""Guards over prose: each takes a page and returns its faults, one sentence each, the place first.

A *decimal* is a number with a point. A typed one must be printed, digit by digit and in the same number of digits, by a cell
of the same page, unless it names something instead of claiming it:

* it stands in a row of a table that gives its source, a link or a {cite};
* it is the text of a link, and part of its address: [Python 3.11](https://docs.python.org/3.11/);
* it is a place in a source: section 3.2, table 1.1.

A run of decimals, [0.893, 0.930, 0.818] or 0.17 and 0.25, must be printed as that run, so that no digit of a vector can turn into
one that another cell prints. Its sign does not matter. Code in backticks, in fences and in formulas counts like any other text; addresses do not.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from .pages import Line, code_cells, printed_texts, prose, read, tags

SEPARATOR = r"(?:\\,|\{,\}|_|[\u2009\u202f])"  # between groups of digits, in LaTeX, Python and typography
DECIMAL = re.compile(
    r"(?<![0-9])(?<![0-9]\.)"  # neither the rest of a number nor of a version, 1.0.4
    r"(?:[0-9]+|(?<![\w.)\]]))\.[0-9]+"  # .5 is one; the end of a name, x.5, is not
    rf"(?:{SEPARATOR}[0-9]+(?!\.?[0-9]))*"
    r"(?:[eE][+-]?[0-9]+)?"
    r"(?!\.?[0-9])"
)
LINK = re.compile(r"\[([^\]]*)\]\(\s*<?(https?://[^\s)>]+)[^)]*\)")
ADDRESS = re.compile(r"https?://[^\s)>\]|`\"']+|(?<=\]\()[^\s)]+")
PLACE = re.compile(
    r"(?:\b(?:section|chapter|appendix|figure|fig\.|table|equation|eq\.|algorithm|theorem)s?|§)[\s~]*$", re.IGNORECASE
)
BETWEEN = re.compile(r"\s*(?:,|;|and|,\s*and)?\s*[-\u2212+]?")  # what may stand between the decimals of a run
SOURCE = re.compile(r"https?://|\{cite")
HEADING = re.compile(r" {0,3}(#{1,6})\s+(\S.*)")

DIRECTIVE = re.compile(r"\s*(?:`{3,}|~{3,}|:{3,})\s*\{")
MYST = re.compile(
    r"(?<![\w`\\])\{[a-z:_-]+\}`[^`]|\{\{ ?\w+ ?\}\}|^\([\w-]+\)=\s*$"
)  # a role, a substitution, a target


def decimals(text: str) -> list[str]:
    """The decimals in `text`, signs and separators between digits left out."""
    return [re.sub(SEPARATOR, "", match[0]) for match in DECIMAL.finditer(text)]


def printed_decimals(notebooks: Iterable[Path]) -> list[list[str]]:
    """The decimals that the cells of these notebooks print, a list for each output. Markup around them is not print.

    What is not compared, a time for one, proves nothing: the next run may print another.
    """
    return [
        decimals(re.sub(r"<style.*?</style>|<[^<>]*>", " ", text, flags=re.DOTALL))
        for path in notebooks
        for _, cell in code_cells(path)
        if "nbval-ignore-output" not in tags(cell)
        for text in printed_texts(cell.outputs)
    ]


def unproved_decimals(path: Path, proofs: Iterable[Path] | None = None) -> list[str]:
    """Decimals in the prose of `path` that no cell prints: none of its own, or none of the notebooks in `proofs`."""
    if proofs is None:
        proofs = [path] if path.suffix == ".ipynb" else []
    printed = printed_decimals(proofs)
    where = " of this page" if path.suffix == ".ipynb" else ""
    return [
        f"{line.place}: printed by no cell{where}: {', '.join(unproved)}: {line.text.strip()}"
        for line in prose(path)
        if (unproved := unprinted(claims(line), printed))
    ]


def claims(line: Line) -> str:
    """What of a line must be proved: not a row of a table with its source, not an address, not what an address says."""
    if not line.fenced and line.text.lstrip().startswith("|") and SOURCE.search(line.text):
        return ""
    return ADDRESS.sub(" ", LINK.sub(without_what_the_address_says, line.text))


def unprinted(text: str, printed: list[list[str]]) -> list[str]:
    """The decimals in `text` that stand in none of the printed lists, and the runs that stand in none of them as runs."""
    runs, end = [], None
    for match in DECIMAL.finditer(text):
        if PLACE.search(text[: match.start()]):
            continue
        if end is None or not BETWEEN.fullmatch(text[end : match.start()]):
            runs.append([])
        runs[-1].append(re.sub(SEPARATOR, "", match[0]))
        end = match.end()
    faults = []
    for run in runs:
        if any(run == numbers[i : i + len(run)] for numbers in printed for i in range(len(numbers))):
            continue
        alone = [number for number in run if not any(number in numbers for numbers in printed)]
        faults += alone or [f"{' '.join(run)} in a row"]
    return list(dict.fromkeys(faults))


def without_what_the_address_says(link: re.Match) -> str:
    text, address = link.groups()
    return DECIMAL.sub(
        lambda number: " " if re.search(rf"(?<![0-9]){re.escape(number[0])}(?![0-9])", address) else number[0], text
    )


def heading_faults(path: Path) -> list[str]:
    """One `#` heading, the first; below it no level is jumped."""
    faults, above = [], 0
    for line in prose(path):
        if line.fenced or not (heading := HEADING.match(line.text)):
            continue
        level, title = len(heading[1]), heading[2]
        if level == 1 and above:
            faults.append(f"{line.place}: a second page title: {title}")
        elif level > above + 1:
            missing = "the page title, #," if not above else f"a heading {'#' * (above + 1)}"
            faults.append(f"{line.place}: {missing} must come before {heading[0].strip()}")
        above = level
    return faults or ([] if above else [f"{path.name}: has no title"])


def chapter_faults(path: Path) -> list[str]:
    """A chapter has four exercises or more, and ends with what to take away and a link to what comes next."""
    exercises = sum(line.text.startswith("### Exercise ") for line in prose(path))
    end = read(path).cells[-1].source.splitlines()
    faults = [] if exercises >= 4 else [f"{path.name}: has {exercises} exercises, readers ask for four"]
    faults += [] if "## What to take away" in end else [f"{path.name}: does not end with ## What to take away"]
    comes_next = end and end[-1].startswith("Next: ") and "](" in end[-1]
    return faults + ([] if comes_next else [f"{path.name}: its last line is not Next: and a link"])


def beyond_commonmark(path: Path) -> list[str]:
    """MyST in a notebook: JupyterLab and Colab show it as it is typed."""
    return [
        f"{line.place}: MyST, which only the book understands: {line.text.strip()}"
        for line in prose(path)
        if DIRECTIVE.match(line.text) or (MYST.search(line.text) and not line.fenced)
    ]
