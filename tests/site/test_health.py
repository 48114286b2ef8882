"""The page on the book's health: it says what the reports of the tests say, and nothing where they do not speak of what is here."""

import doctest
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import nbformat
import pytest
from bs4 import BeautifulSoup

from book.extension.attention_book import (
    chapters,
    citation,
    facts,
    health,
    reports,
    tree,
)

from .building import ROOT, build

ABOUT = {
    "processor": "a processor",
    "cores": "2",
    "system": "Linux",
    "python": "3.11.7",
    "torch": "2",
    "threads": "1",
    "workers": "2",
}
CHAPTERS = ("02_self_attention_by_hand.ipynb", "09_what_attention_costs.ipynb")


@pytest.fixture
def root(tmp_path):
    """A small repository: two chapters, and the settings."""
    (tmp_path / "notebooks").mkdir()
    for name in CHAPTERS:
        shutil.copy(ROOT / "notebooks" / name, tmp_path / "notebooks")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(root, name, cases, *, exit_status=1, state=None, about=ABOUT):
    """Write a report as pytest does: `cases` are place, outcome and seconds."""
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", timestamp="2026-11-30T23:30:00.5-01:00", hostname="secret-host")
    properties = ElementTree.SubElement(suite, "properties")
    for key, value in {**about, "tree": state or tree.state(root), "exit": str(exit_status)}.items():
        ElementTree.SubElement(properties, "property", name=key, value=value)
    for number, (place, outcome, seconds) in enumerate(cases):
        case = ElementTree.SubElement(suite, "testcase", classname=place, name=f"Cell {number}", time=str(seconds))
        if outcome != "passed":
            ElementTree.SubElement(case, outcome)
    path = root / reports.FOLDER / f"{name}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
    return path


def cells(root, outcome="passed", of=CHAPTERS):
    """A case for each cell of the chapters; the first has the outcome."""
    found = [
        [f"notebooks.{name}", "passed", 0.5]
        for name in of
        for _ in range(chapters.count(root / "notebooks" / name).cells)
    ]
    found[0][1] = outcome
    return found


def test_all_right_is_said_with_the_machine_and_the_day(root):
    plant(root, "notebooks", cells(root), exit_status=0)
    plant(root, "unit", [("tests.unit.test_cache", "passed", 1.0), ("tests.notebooks.test_pages", "passed", 2.0)])
    book = health.Book(root)
    says = health.finding(book)
    total = sum(chapter.cells for chapter in book.chapters)
    assert says.startswith(f"All {total} cells of 2 chapters ran on 1 December 2026, and printed what is stored here")
    assert "2 cores of a processor, Linux, Python 3.11.7, torch 2 with 1 thread" in says
    assert "2 tests passed on 1 December 2026, and none failed." in says
    assert "| the library, the checker and the tools | 1 | 0 | 0 | 1.0 |" in health.tests(book)
    assert "| the chapters' guards | 1 | 0 | 0 | 2.0 |" in health.tests(book)
    times = [0.5 * chapter.cells for chapter in book.chapters]
    rows = health.chapter_table(book).splitlines()
    assert [row.split(" | ")[-1] for row in rows[2:5]] == [f"{time:.1f} |" for time in (*times, sum(times))]
    assert "secret-host" not in says + health.tests(book) + health.chapter_table(book)


@pytest.mark.parametrize("outcome", ["failure", "error"])
def test_a_failure_is_said_on_top(root, outcome):
    plant(root, "notebooks", cells(root, outcome))
    plant(root, "unit", [("tests.unit.test_cache", outcome, 1.0), ("tests.unit.test_cost", "skipped", 0.0)])
    first, second = health.finding(health.Book(root)).split("\n\n")
    assert first.startswith("**1 of the ")
    assert f"[](../notebooks/{CHAPTERS[0]})." in first
    assert CHAPTERS[1] not in first
    assert second.startswith("**1 of 2 tests failed** on 1 December 2026, in `tests.unit.test_cache`")
    plant(root, "notebooks", cells(root), exit_status=0)
    assert health.finding(health.Book(root)).startswith("**1 of 2 tests failed**")  # what failed comes first
    assert "skipped for want of what they need: 1" in second


def test_a_skipped_cell_or_a_chapter_that_did_not_run_is_not_all(root):
    plant(root, "notebooks", cells(root, "skipped"))
    assert "cells were skipped**" in health.finding(health.Book(root))
    plant(root, "notebooks", cells(root, of=CHAPTERS[:1]))
    assert health.finding(health.Book(root)).startswith("Only ")
    plant(root, "notebooks", cells(root)[1:])
    assert health.finding(health.Book(root)).startswith("Only ")


def test_without_a_report_the_page_says_so_and_shows_the_rest(root):
    book = health.Book(root, ["book/index"])
    assert health.finding(book).count("were not run on the machine that built this page. `make test` runs them.") == 2
    assert "| the library" not in health.tests(book)
    assert "There are no times" in health.chapter_table(book)
    assert "| 30 |" in health.chapter_table(book)
    assert "1 page, 2 of them chapters" in health.pages(book)


def faulty(root, fault):
    """A report that says nothing of what is here."""
    path = plant(root, "unit", [("tests.unit.test_cache", "passed", 1.0)], exit_status=0)
    if fault == "truncated":
        path.write_bytes(path.read_bytes()[:-20])
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "another file":
        path.write_text("<html><body/></html>", encoding="utf-8")
    elif fault == "no properties":
        path.write_bytes(path.read_bytes().replace(b"<property ", b"<other "))
    elif fault == "no time":
        path.write_bytes(path.read_bytes().replace(b'time="1.0"', b'time="soon"'))
    elif fault == "stale":
        nb = nbformat.read(root / "notebooks" / CHAPTERS[0], as_version=4)
        nb.cells[0].source += " "
        nbformat.write(nb, root / "notebooks" / CHAPTERS[0])
    elif fault == "interrupted":
        plant(root, "unit", [("tests.unit.test_cache", "passed", 1.0)], exit_status=2)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("truncated", "left a report that cannot be read"),
        ("empty", "left a report that cannot be read"),
        ("another file", "left a report that lacks what is needed"),
        ("no properties", "left a report that lacks what is needed"),
        ("no time", "left a report that lacks what is needed"),
        ("stale", "ran last on other files than these"),
        ("interrupted", "were broken off before their end"),
    ],
)
def test_a_report_that_does_not_speak_of_what_is_here_is_not_believed(root, fault, words):
    faulty(root, fault)
    book = health.Book(root)
    assert f"The tests {words}" in health.finding(book)
    assert "passed" not in health.tests(book)


def test_the_state_is_another_when_a_file_is_changed_added_renamed_or_gone(root):
    states = {tree.state(root)}
    path = root / "notebooks" / "new.py"
    for change in (
        lambda: path.write_text("1"),
        lambda: path.write_text("2"),
        lambda: path.rename(root / "notebooks" / "newer.py"),
        lambda: (root / "pyproject.toml").unlink(),
    ):
        before = len(states)
        change()
        states.add(tree.state(root))
        assert len(states) == before + 1
    (root / "notebooks" / ".hidden").write_text("")
    (root / "mine.json").write_text("")  # somebody's own
    (root / "notebooks" / "__pycache__").mkdir()
    (root / "notebooks" / "__pycache__" / "new.pyc").write_text("")
    assert tree.state(root) in states


@pytest.mark.skipif(not ((ROOT / ".git").exists() and shutil.which("git")), reason="no checkout of git, or no git")
def test_the_state_is_that_of_every_file_in_the_repository():
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    visible = {name for name in listed if not any(part.startswith(".") for part in name.split("/"))}
    assert visible - {path.relative_to(ROOT).as_posix() for path in tree.files(ROOT)} == {"LICENSE"}


TESTED = """
import pytest
def test_passes(): pass
def test_fails(): assert False
def test_is_skipped(): pytest.skip("on purpose")
"""


def run_pytest(folder, source, *arguments):
    """Run pytest on planted tests, with the plugin that this repository's conftest.py loads."""
    (folder / "test_planted.py").write_text(source, encoding="utf-8")
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "tests.run_record", f"--junit-xml={report}", "-q", *arguments]
    subprocess.run([*command, f"--rootdir={folder}", folder], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    return report


@pytest.mark.parametrize("arguments", [[], ["-n", "2"]], ids=["one process", "several"])
def test_pytest_writes_what_the_page_reads(tmp_path, arguments):
    report = reports.read(run_pytest(tmp_path, TESTED, *arguments), tree.state(ROOT))
    assert dict(report.count()) == {"passed": 1, "failed": 1, "skipped": 1}
    assert report.machine.endswith("1 thread" if report.about["threads"] == "1" else "threads")


def test_a_run_that_is_interrupted_is_not_believed(tmp_path):
    source = "def test_passes(): pass\ndef test_is_stopped(): raise KeyboardInterrupt\n"
    with pytest.raises(reports.ReportError, match="broken off"):
        reports.read(run_pytest(tmp_path, source), tree.state(ROOT))


def test_this_repository_loads_the_plugin_and_the_reports_are_where_the_page_looks():
    assert '"tests.run_record"' in (ROOT / "conftest.py").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"REPORTS := {reports.FOLDER.as_posix()}\n" in makefile
    for name in {name for _, _, name in health.SUITES}:
        assert f"--junit-xml=$(REPORTS)/{name}.xml" in makefile


def test_every_folder_of_tests_has_its_row():
    folders = {f"tests.{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders | {"notebooks"} == {prefix for prefix, _, _ in health.SUITES}


def test_docstrings_hold():
    for module in (chapters, citation, reports):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0


def test_as_many_numbers_are_checked_as_the_front_page_says():
    said = facts.substitutions(ROOT)
    together = health.examples(health.Book(ROOT)).splitlines()[-1].split(" | ")
    assert together[2] == said["numbers_checked"]
    assert facts.in_words(int(together[3])).capitalize() == said["errata_sentence"].split()[0]


def test_a_chapter_is_counted(tmp_path):
    cell, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    printed = nbformat.v4.new_output("stream", text="1")
    drawn = nbformat.v4.new_output("display_data", {"image/png": ""})
    nb = nbformat.v4.new_notebook(
        cells=[
            text("# Two words\n\nAnd $x$ `three` more, [here](x.md).\n\n| in a | table |\n| - | - |\n| x | y |"),
            cell("1", outputs=[printed, drawn]),
            cell("2", outputs=[printed, drawn], metadata={"tags": ["nbval-ignore-output"]}),
            cell("3", outputs=[printed, drawn], metadata={"tags": ["claims"]}),
            cell("4", metadata={"tags": ["exercise"]}),
        ]
    )
    nbformat.write(nb, tmp_path / "a.ipynb")
    assert chapters.count(tmp_path / "a.ipynb") == chapters.Chapter(
        "a.ipynb", words=10, cells=4, compared=3, not_compared=3, figures=3, exercises=1
    )


def test_the_page_follows_the_reports_without_a_change_of_its_own(copy):
    path = plant(copy, "unit", [("tests.unit.test_cache", "passed", 1.0)], exit_status=0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])

    def page():
        built = build(copy, copy)
        assert built.returncode == 0, built.stderr
        text = (copy / "_build/html/book/health.html").read_text(encoding="utf-8")
        return " ".join(BeautifulSoup(text, "html.parser").select_one("article").get_text().split())

    says = page()
    assert "The tests left a report that cannot be read" in says
    assert "The cells of the chapters were not run on the machine that built this page." in says
    path.write_bytes(whole)
    assert "1 test passed" in page()


def test_an_unknown_part_is_named(tmp_path):
    directive = object.__new__(health.Health)
    directive.arguments, directive.error = ["nothing"], ValueError
    with pytest.raises(ValueError, match="health knows no 'nothing'; there are finding, tests"):
        directive.run()
