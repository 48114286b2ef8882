"""The directive ``health``: the state of the book, computed while its page is made.

    ```{health} tests
    ```

Its argument is one of `finding`, `tests`, `chapters`, `examples`, `pages` and `versions`. Counts need no run. Results and times come
from the reports of the last `make test`, and stand here only if they speak of the files that are here.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from docutils import nodes
from packaging.requirements import Requirement
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinxcontrib.katex import katex_version

from . import chapters, reports, tree
from .facts import printed_wrongly

# The parts of the tests: where they stand, what they are, and which report has them.
SUITES = (
    ("tests.unit", "the library, the checker and the tools", "unit"),
    ("tests.conformance", "the library against PyTorch, ONNX, JAX and transformers", "unit"),
    ("tests.notebooks", "the chapters' guards", "unit"),
    ("notebooks", "the chapters' cells, run again", "notebooks"),
    ("tests.site", "the pages, in a browser", "site"),
)
AGAIN = "`make test` runs them."


class Book:
    """What there is to say, read once for a part of the page."""

    def __init__(self, root: Path, pages: Iterable[str] = ()) -> None:
        self.root = root
        self.pages = sorted(pages)

    @cached_property
    def chapters(self) -> list[chapters.Chapter]:
        """The notebooks, counted."""
        return [chapters.count(path) for path in sorted((self.root / "notebooks").glob("*.ipynb"))]

    @cached_property
    def state(self) -> str:
        """That of the files that are here."""
        return tree.state(self.root)

    def report(self, name: str) -> reports.Report:
        """The last report of that name.

        Raises:
            ReportError: none speaks of the files that are here.
        """
        return reports.read(self.root / reports.FOLDER / f"{name}.xml", self.state)


def finding(book: Book) -> str:
    """What ran, and what came out: the first lines of the page. What failed comes first."""
    lines = []
    try:
        lines.append(cells_finding(book, book.report("notebooks")))
    except reports.ReportError as error:
        lines.append(f"The cells of the chapters {error}. {AGAIN}")
    try:
        lines.append(tests_finding(book.report("unit")))
    except reports.ReportError as error:
        lines.append(f"The tests {error}. {AGAIN}")
    return "\n\n".join(sorted(lines, key=lambda line: not line.startswith("**")))


def cells_finding(book: Book, report: reports.Report) -> str:
    """Whether every cell of every chapter ran, and printed what is stored."""
    stored = {chapter.place: chapter.cells for chapter in book.chapters}
    total = sum(stored.values())
    ran = {place: report.count(place).total() for place in stored}
    if ran != stored or len(report.cases) != total:
        return (
            f"Only {sum(ran.values())} of the {total} cells ran on {report.day}: not the whole book was tested. {AGAIN}"
        )
    counts = report.count()
    if counts["failed"]:
        failing = [chapter.name for chapter in book.chapters if report.count(chapter.place)["failed"]]
        links = ", ".join(f"[](../notebooks/{name})" for name in failing)
        return (
            f"**{counts['failed']} of the {total} cells did not print what is stored here** when they ran on "
            f"{report.day}. They stand in {links}."
        )
    if counts["skipped"]:
        return f"**{counts['skipped']} of the {total} cells were skipped** on {report.day}: they prove nothing."
    differing = sum(chapter.not_compared for chapter in book.chapters)
    but = f" ({differing} outputs show a time or a device, and are not compared)" if differing else ""
    return (
        f"All {total} cells of {len(stored)} chapters ran on {report.day}, and printed what is stored here{but}. "
        f"They ran on {report.machine}."
    )


def tests_finding(report: reports.Report) -> str:
    """How many tests passed."""
    counts = report.count()
    skipped = f"; skipped for want of what they need: {counts['skipped']}" if counts["skipped"] else ""
    if counts["failed"]:
        places = ", ".join(sorted({f"`{case.place}`" for case in report.cases if case.status == "failed"}))
        return f"**{counts['failed']} of {reports.counted(counts.total(), 'test')} failed** on {report.day}, in {places}{skipped}."
    return f"{reports.counted(counts['passed'], 'test')} passed on {report.day}, and none failed{skipped}."


def tests(book: Book) -> str:
    """A row for each part of the tests that has a result, and a sentence on those that have none."""
    rows: list[Sequence[object]] = []
    without: dict[str, list[str]] = {}
    for prefix, what, name in SUITES:
        try:
            report = book.report(name)
        except reports.ReportError as error:
            without.setdefault(str(error), []).append(what)
            continue
        counts = report.count(f"{prefix}.")
        rows.append((what, *(counts[status] for status in ("passed", "failed", "skipped")), seconds(report, prefix)))
    parts = [table(("tests of", "passed", "failed", "skipped", "seconds"), rows)] if rows else []
    parts += [f"No result of the tests of {'; of '.join(parts)}: they {error}." for error, parts in without.items()]
    parts.append(
        "The pages are tested after they have been built. So the result of that comes from a build before, of the same files."
    )
    return "\n\n".join(parts)


def seconds(report: reports.Report, place: str) -> str:
    """What those tests took, one after the other."""
    return f"{report.seconds(f'{place}.' if not place.endswith('.ipynb') else place):.1f}"


def chapter_table(book: Book) -> str:
    """A row for each chapter, with the time that it took where that is known."""
    try:
        report, note = book.report("notebooks"), None
    except reports.ReportError as error:
        report, note = None, f"There are no times: the cells {error}. {AGAIN}"
    else:
        note = (
            f"Seconds: its cells, one after the other, the start of Python among them; on {report.day}, "
            f"on {report.machine}, {reports.counted(report.about['workers'], 'chapter')} at a time."
        )
    rows = [
        (
            f"[](../notebooks/{each.name})",
            each.words,
            each.cells,
            each.compared,
            each.figures,
            each.exercises,
            seconds(report, each.place) if report else "",
        )
        for each in book.chapters
    ]
    together = [sum(row[column] for row in rows) for column in range(1, 6)]
    rows.append(("together", *together, seconds(report, "notebooks") if report else ""))
    header = ("chapter", "words", "cells", "compared", "figures", "exercises", "seconds")
    return table(header, rows) + f"\n\n{note}"


def examples(book: Book) -> str:
    """A row for each worked example that ships with the library, as the checker finds it now."""
    from attn_lib.worked_examples import builtin_examples, check_example, load_example, published_examples

    found = [(path.name, check_example(load_example(path))) for path in (*builtin_examples(), *published_examples())]
    rows = [
        (f"`{name}`", report.given, report.checked, printed_wrongly(report), len(report.claims), report.verdict)
        for name, report in found
    ]
    rows.append(("together", *(sum(row[column] for row in rows) for column in range(1, 5)), ""))
    return table(("worked example", "given", "numbers checked", "printed wrongly", "claims", "verdict"), rows)


def pages(book: Book) -> str:
    """How many pages there are, and how much there is to read."""
    typed = [book.root / f"{page}.md" for page in book.pages]
    prose = sum(chapters.words(path.read_text(encoding="utf-8")) for path in typed if path.exists())
    prose += sum(chapter.words for chapter in book.chapters)
    return (
        f"{reports.counted(len(book.pages), 'page')}, {len(book.chapters)} of them chapters, with {prose} words of text. "
        "Formulas, code, and what is written by programs, as the API and this page, are not counted."
    )


def versions(book: Book) -> str:
    """What is installed where these pages were built, by what asks for it in pyproject.toml."""
    project = tomllib.loads((book.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    python = ".".join(map(str, sys.version_info[:3]))
    rows = [
        ("the library", f"Python {python}, {installed([project['name'], *project['dependencies']])}"),
        ("the pages", f"KaTeX {katex_version}, {installed(['Sphinx', *extras['book']])}"),
        ("the tests", installed(extras["test"])),
    ]
    return table(("for", "installed"), rows, numbers=False)


def installed(requirements: Iterable[str]) -> str:
    """The names and versions of packages, in one line."""
    names = dict.fromkeys(Requirement(each).name for each in requirements)
    return ", ".join(f"{name} {installed_version(name)}" for name in names)


def installed_version(name: str) -> str:
    """That of a package, or that it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: bool = True) -> str:
    """A table in Markdown, names to the left and numbers to the right."""
    align = ["---", *(["---:" if numbers else "---"] * (len(header) - 1))]
    lines = [header, align, *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


PARTS: dict[str, Callable[[Book], str]] = {
    "finding": finding,
    "tests": tests,
    "chapters": chapter_table,
    "examples": examples,
    "pages": pages,
    "versions": versions,
}


class Health(SphinxDirective):
    """Write one part of the page on the book's health."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        part = self.arguments[0]
        if part not in PARTS:
            raise self.error(f"health knows no {part!r}; there are {', '.join(PARTS)}")
        self.env.note_reread()  # a report may be newer at the next build, and no page says so
        return self.parse_text_to_nodes(PARTS[part](Book(Path(self.env.srcdir), self.env.found_docs)))


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("health", Health)
