"""The pages that point into the chapters point at something, and the guard of them sees each fault that it is there for."""

import nbformat
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook, new_output

from .coverage_guard import (
    ANCHORS,
    CITED,
    bibliography,
    coverage_faults,
    link_faults,
    misconception_faults,
    rows,
    sections,
)
from .pages import ROOT, prose
from .synthetic import code

BOOK = ROOT / "book"


def test_every_statement_of_the_documents_has_its_place_and_its_proof():
    page = BOOK / "coverage.md"
    assert len(list(rows(page))) >= 90
    assert coverage_faults(page, bibliography(BOOK / "references.bib")) == []


def test_every_misconception_is_answered_by_a_run():
    assert misconception_faults(BOOK / "misconceptions.md") == []


@pytest.mark.parametrize("name", ["glossary.md", "further_reading.md", "references.md"])
def test_links_into_the_book(name):
    page = BOOK / name
    assert [f"{line.place}: {fault}" for line in prose(page) for fault in link_faults(page, line.text)] == []


def never_cited(keys, texts):
    """Works that no page cites: a chapter that names one would link to a list that does not have it."""
    cited = {key.strip() for text in texts for found in CITED.findall(text) for key in found.split(",")}
    return sorted(set(keys) - cited)


def test_every_work_of_the_bibliography_stands_in_the_list_of_works_cited():
    texts = [page.read_text(encoding="utf-8") for page in BOOK.glob("*.md")]
    assert never_cited(bibliography(BOOK / "references.bib"), texts) == []
    assert never_cited(["a2000", "b2001", "c2002"], ["as {cite:t}`a2000` say {cite:p}`c2002,d2003`"]) == ["b2001"]


def test_as_many_levels_have_anchors_as_the_guard_thinks():
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    assert config.get("myst_heading_anchors") == ANCHORS


def ran(source, *outputs, tag=()):
    cell = code(source, *tag)
    cell.outputs = list(outputs)
    return cell


PRINTED = new_output("stream", name="stdout", text="True\n")
FIGURE = new_output("display_data", data={"image/png": "AAAA", "text/plain": "<Figure>"})
CELLS = [
    new_markdown_cell("# By hand\n\n## Step 1: `K` for $x$, it's ours"),
    ran("prove(example, 'Q', Q)"),
    new_markdown_cell("### Printed\n\nHere."),
    ran("'# assert'", PRINTED),
    new_markdown_cell("## Drawn"),
    ran("plot()", FIGURE),
    new_markdown_cell("## Open"),
    ran("check_it(...)", PRINTED, tag=["check"]),
    new_markdown_cell("## Drawn\n\n#### Deep"),
    ran("torch.testing.assert_close(1, 1)"),
]
ROWS = """\
# Coverage

| statement | where | proof |
| --- | --- | --- |
| $\\|q\\| = 1$, and it is printed | [step](02_x.ipynb#step-1-k-for--its-ours) | asserted, measured |
| it is drawn | [picture](02_x.ipynb#drawn), [notation](notation.md) | drawn |
| heads differ {cite:p}`clark2019,voita2019` | [notation](notation.md#sizes), [again](02_x.ipynb#drawn-1) | cited, asserted |
| an encoder sees all | [references](references.md) | cited |
"""
BELIEFS = """\
# Beliefs

## Weights explain

They [do not](02_x.ipynb#drawn).
"""


@pytest.fixture
def book(tmp_path):
    nbformat.write(new_notebook(cells=CELLS), tmp_path / "02_x.ipynb")
    (tmp_path / "notation.md").write_text("# Notation\n\n## Sizes\n", encoding="utf-8")
    (tmp_path / "references.md").write_text("# References\n", encoding="utf-8")
    (tmp_path / "works.bib").write_text("@misc{clark2019,\n}\n\n@misc{voita2019,\n}\n", encoding="utf-8")
    return tmp_path


def faults(book, guard, text, *more):
    page = book / "page.md"
    page.write_text(text, encoding="utf-8")
    return guard(page, *more)


def test_a_section_reaches_to_the_next_heading_of_its_level_or_above(book):
    found = {
        anchor: [cell.source for cell in section.cells] for anchor, section in sections(book / "02_x.ipynb").items()
    }
    assert found.pop("by-hand") == [cell.source for cell in CELLS if cell.cell_type == "code"]
    assert found == {
        "step-1-k-for--its-ours": ["prove(example, 'Q', Q)", "'# assert'"],
        "printed": ["'# assert'"],
        "drawn": ["plot()"],
        "open": ["check_it(...)"],
        "drawn-1": ["torch.testing.assert_close(1, 1)"],
    }


def test_a_sound_table_and_a_sound_belief_have_no_fault(book):
    assert faults(book, coverage_faults, ROWS, bibliography(book / "works.bib")) == []
    assert faults(book, coverage_faults, f"# Not a table\n\n```\n{ROWS}```\n", ()) == []
    assert faults(book, misconception_faults, BELIEFS) == []


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("[step](02_x.ipynb#step-1-k-for--its-ours)", "step 1", "line 5: is shown nowhere: $\\|q\\| = 1$"),
    ("02_x.ipynb#drawn)", "03_x.ipynb#drawn)", "line 6: no such file: 03_x.ipynb#drawn"),
    ("#step-1-k-for--its-ours", "#step-1", "line 5: no such heading: 02_x.ipynb#step-1"),
    ("[notation](notation.md) |", "[notation](gone.md) |", "line 6: no such file: gone.md"),
    ("#sizes", "#shapes", "line 7: no such heading: notation.md#shapes"),
    ("02_x.ipynb#drawn)", "02_x.ipynb#deep)", "line 6: no such heading: 02_x.ipynb#deep"),
    ("02_x.ipynb#drawn)", "02_x.ipynb)", "line 6: nothing there is drawn: it is drawn"),
    ("02_x.ipynb#drawn)", "02_x.ipynb#by-hand)", "line 6: nothing there is drawn: it is drawn"),
    ("| asserted, measured", "| shown", "line 5: no such proof: 'shown'"),
    ("| asserted, measured", "| ", "line 5: no such proof: ''"),
    ("#step-1-k-for--its-ours", "#printed", "line 5: nothing there is asserted: "),
    ("#step-1-k-for--its-ours", "#drawn-1", "line 5: nothing there is measured: "),
    ("#step-1-k-for--its-ours", "#open", "line 5: nothing there is measured: "),
    ("#step-1-k-for--its-ours", "#drawn", "line 5: nothing there is measured: "),
    ("02_x.ipynb#drawn)", "02_x.ipynb#printed)", "line 6: nothing there is drawn: it is drawn"),
    ("[picture](02_x.ipynb#drawn), ", "", "line 6: nothing there is drawn: it is drawn"),
    (" {cite:p}`clark2019,voita2019`", "", "line 7: cites nothing: heads differ"),
    ("voita2019", "voita2018", "line 7: no such work: voita2018"),
    ("[references](references.md)", "[notation](notation.md)", "line 8: cites nothing: an encoder sees all"),
    ("| an encoder sees all |", "| an encoder sees all", "line 8: a row has a statement, places and proofs"),
    ("| an encoder sees all |", "| |", "line 8: a row has a statement, places and proofs"),
])  # fmt: skip
def test_a_fault_of_coverage_is_seen(book, old, new, fault):
    assert old in ROWS
    found = faults(book, coverage_faults, ROWS.replace(old, new), bibliography(book / "works.bib"))
    assert [each for each in found if fault in each], found


@pytest.mark.parametrize(("old", "new", "fault"), [
    ("[do not](02_x.ipynb#drawn)", "do not", "line 3: no run answers it: Weights explain"),
    ("02_x.ipynb#drawn", "notation.md#sizes", "line 3: no run answers it: Weights explain"),
    ("#drawn", "#drawing", "line 5: no such heading: 02_x.ipynb#drawing"),
    ("02_x", "03_x", "line 5: no such file: 03_x.ipynb#drawn"),
    ("#drawn", "", "line 3: no run answers it: Weights explain"),
    ("#drawn", "#by-hand", "line 3: no run answers it: Weights explain"),
    ("## Weights", "## Heads agree\n\n## Weights", "line 3: no run answers it: Heads agree"),
])  # fmt: skip
def test_a_fault_of_a_misconception_is_seen(book, old, new, fault):
    found = faults(book, misconception_faults, BELIEFS.replace(old, new))
    assert [each for each in found if fault in each], found
