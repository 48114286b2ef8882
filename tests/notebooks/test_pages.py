"""The guards, over every page of the book."""

import re

import pytest

from .cell_guards import (
    exercise_faults,
    figure_faults,
    not_as_stored,
    unchecked_cells,
    unexecuted,
    unexpected_errors,
    unrepeatable_outputs,
)
from .pages import NOTEBOOKS, PAGES, ROOT
from .prose_guards import beyond_commonmark, chapter_faults, heading_faults, unproved_decimals
from .toc_guard import toc_faults

NOTEBOOK_GUARDS = [
    unexecuted, unexpected_errors, unrepeatable_outputs, figure_faults, unchecked_cells, exercise_faults,
    heading_faults, unproved_decimals, beyond_commonmark, not_as_stored,
]  # fmt: skip
PAGE_GUARDS = [heading_faults, unproved_decimals]


def refuse(faults):
    assert not faults, "\n" + "\n".join(faults)


def test_there_are_notebooks_and_pages():
    assert NOTEBOOKS and PAGES  # without them the tests below would be none, and none can fail


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
@pytest.mark.parametrize("guard", NOTEBOOK_GUARDS, ids=lambda guard: guard.__name__)
def test_notebook(guard, path):
    refuse(guard(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_chapter(path):
    refuse(chapter_faults(path))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
@pytest.mark.parametrize("guard", PAGE_GUARDS, ids=lambda guard: guard.__name__)
def test_page(guard, path):
    refuse(guard(path))


def test_the_decimals_of_the_readme_are_printed_by_some_notebook(tmp_path):
    # But for the tables of measurements, which tests/unit/test_benchmarks.py holds against the record of their run.
    before, tables, after = re.split(
        "(<!-- The tables of.*<!-- end of the tables -->)",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    (tmp_path / "README.md").write_text(before + "\n" * tables.count("\n") + after, encoding="utf-8")
    refuse(unproved_decimals(tmp_path / "README.md", proofs=NOTEBOOKS))


def test_table_of_contents():
    refuse(toc_faults(ROOT))
