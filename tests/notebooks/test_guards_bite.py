"""Each guard of pages, shown a page with the fault that it is there for."""

import base64
import copy
import io
import itertools

import nbformat
import numpy
import pytest
from PIL import Image

from book.scripts.store_outputs import as_stored

from . import cell_guards, prose_guards
from .pages import NOTEBOOKS, prose
from .prose_guards import (
    DECIMAL,
    PLACE,
    chapter_faults,
    claims,
    decimals,
    heading_faults,
    printed_decimals,
    unprinted,
    unproved_decimals,
)
from .synthetic import code
from .test_pages import NOTEBOOK_GUARDS
from .toc_guard import toc_faults


def cell(nb, text):
    return next(cell for cell in nb.cells if text in cell.source and cell.cell_type == "code")


def tag(nb, text, *tags):
    cell(nb, text).metadata["tags"] = list(tags)


def print_instead(text):
    def plant(nb):
        cell(nb, "print('output").outputs[0].text += text

    return plant


def alt(text):
    def plant(nb):
        cell(nb, "draw('0.893')").metadata.mystnb.image.alt = text

    return plant


def write(text):
    def plant(nb):
        nb.cells[0].source += text

    return plant


def strip(nb):
    for each in nb.cells:
        if each.cell_type == "code":
            each.outputs, each.execution_count = [], None


def strip_outputs_alone(nb):
    for each in nb.cells:
        if each.cell_type == "code":
            each.outputs = []


def never_run(nb):
    cell(nb, "0.8176").execution_count = None


def run_twice(nb):
    cell(nb, "draw('0.893')").execution_count = 17


def another_result_number(nb):
    cell(nb, "0.8176").outputs[0].execution_count = 12


def empty(nb):
    nb.cells.append(code(""))


def stored_error(nb):
    tag(nb, "raise ValueError")


def no_error(nb):
    cell(nb, "raise ValueError").outputs = []


def stderr(nb):
    cell(nb, "print('output").outputs.append(nbformat.v4.new_output("stream", name="stderr", text="a warning"))


def jpeg(nb):
    cell(nb, "draw('0.893')").outputs[0].data["image/jpeg"] = "AAAA"


def two_figures(nb):
    figure = cell(nb, "draw('0.893')")
    figure.outputs.append(copy.deepcopy(figure.outputs[0]))


def heavy_figure(nb):
    noise = io.BytesIO()
    Image.fromarray(numpy.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=numpy.uint8)).save(
        noise, format="png"
    )
    cell(nb, "draw('0.893')").outputs[0].data["image/png"] = base64.b64encode(noise.getvalue()).decode()


def no_alt(nb):
    del cell(nb, "draw('0.893')").metadata["mystnb"]


def editor(nb):
    cell(nb, "print('output").metadata["collapsed"] = False


def comment(nb):
    cell(nb, "print('output").source += "\n# NBVAL_IGNORE_OUTPUT"


def no_verdict(nb):
    cell(nb, "os.getpid() > 0").outputs = []


def no_exercise(nb):
    nb.cells = nb.cells[:-4]


def exercise_without_solution(nb):
    nb.cells.pop()


def unnumbered(nb):
    nb.cells[-4].source = "## Exercises\n\n### Exercise 2: halve it"


def unchecked_solution(nb):
    nb.cells[-1].source = "answer = 0.893 / 2"


def silent_solution(nb):
    nb.cells[-1].outputs = []


def wrong_solution(nb):
    nb.cells[-1].outputs[0].text = "Right.\nNot yet\n"


def unchecked_answer(nb):
    nb.cells[-2].source = "print('Not answered yet')"


def answer_given_away(nb):
    nb.cells[-2].outputs[0].text = "Right."


def open_solution(nb):
    nb.cells[-1].metadata["tags"] = ["solution"]


def stray_solution(nb):
    tag(nb, "print('output", "solution")


def ignored(nb):
    tag(nb, "print('output", "nbval-ignore-output")


def measured(nb):
    tag(nb, "print('output", "claims", "nbval-ignore-output")


def skipped(nb):
    tag(nb, "print('output", "nbval-skip", "device")


# fault, the guard that must see it, and words of its message: the place first.
FAULTS = [
    (strip, "unexecuted", "sound.ipynb, cell 2 (In [1]): was never run"),
    (strip_outputs_alone, "unexecuted", "sound.ipynb: no output is stored in its 11 code cells"),
    (never_run, "unexecuted", "cell 3 (In [2]): was never run"),
    (run_twice, "unexecuted", "cell 7 (In [5]): was run as In [17]"),
    (another_result_number, "unexecuted", "cell 3 (In [2]): its result says Out [12]"),
    (empty, "unexecuted", "cell 17 (In [12]): is empty"),
    (stored_error, "unexpected_errors", "cell 9 (In [6]): ended in ValueError: scale 0.25"),
    (no_error, "unexpected_errors", "cell 9 (In [6]): is tagged raises-exception and stores no error"),
    (stderr, "unexpected_errors", "cell 2 (In [1]): wrote to stderr: a warning"),
    (jpeg, "unrepeatable_outputs", "cell 7 (In [5]): shows image/jpeg"),
    (print_instead("/home/ada/attention.py"), "unrepeatable_outputs", "cell 2 (In [1]): prints a path of one machine: /home/ada"),
    (print_instead(r"C:\Users\ada"), "unrepeatable_outputs", r"prints a path of one machine: C:\Users\ada"),
    (print_instead("<object at 0x7f3a5c2b1d90>"), "unrepeatable_outputs", "prints a memory address: 0x7f3a5c2b1d90"),
    (print_instead("took 1.52 ms"), "unrepeatable_outputs", "prints a time: 1.52 ms"),
    (print_instead("on 2031-05-17"), "unrepeatable_outputs", "prints a date: 2031-05-17"),
    (print_instead("torch 2.13"), "unrepeatable_outputs", "prints a version: torch 2.13"),
    (print_instead("at 2.13.0+cpu"), "unrepeatable_outputs", "prints a version: 2.13.0"),
    (no_alt, "figure_faults", "cell 7 (In [5]): its figure has no alt text"),
    (alt("output_7_0.png"), "figure_faults", "its alt text does not say what the figure shows: 'output_7_0.png'"),
    (alt("a heatmap"), "figure_faults", "its alt text does not say what the figure shows: 'a heatmap'"),
    (two_figures, "figure_faults", "shows 2 figures under one alt text"),
    (heavy_figure, "figure_faults", "bytes, more than 150,000"),
    (ignored, "unchecked_cells", "cell 2 (In [1]): nbval-ignore-output is only for cells tagged claims or device"),
    (skipped, "unchecked_cells", "cell 2 (In [1]): nbval-skip"),
    (comment, "unchecked_cells", "cell 2 (In [1]): the comment NBVAL_IGNORE_OUTPUT"),
    (no_verdict, "unchecked_cells", "cell 11 (In [7]): its output is not compared, so the next code cell must print a verdict"),
    (no_exercise, "exercise_faults", "sound.ipynb: has no exercise"),
    (exercise_without_solution, "exercise_faults", "under '### Exercise 1: halve it': cells tagged ['exercise', 'check'], expected"),
    (unnumbered, "exercise_faults", "exercises are numbered [2]"),
    (unchecked_answer, "exercise_faults", "under '### Exercise 1: halve it': the check cell defines no function check_"),
    (answer_given_away, "exercise_faults", "the exercise gives its answer away"),
    (unchecked_solution, "exercise_faults", "the solution does not call the check_"),
    (silent_solution, "exercise_faults", "the solution does not print Right"),
    (wrong_solution, "exercise_faults", "the solution is not right in every check"),
    (open_solution, "exercise_faults", "the solution is not folded"),
    (stray_solution, "exercise_faults", "under '# Small weights': cells tagged ['solution'] outside an exercise"),
    (write("\n\n# Another title"), "heading_faults", "cell 1, line 5: a second page title: Another title"),
    (write("\n\n### Too deep"), "heading_faults", "cell 1, line 5: a heading ## must come before ### Too deep"),
    (write(" So 0.894."), "unproved_decimals", "cell 1, line 3: printed by no cell of this page: 0.894: The output"),
    (write(" So 0.93."), "unproved_decimals", "printed by no cell of this page: 0.93: "),
    (write(" So $W\\approx0.77$."), "unproved_decimals", "printed by no cell of this page: 0.77: "),  # only in the markup of an output
    (measured, "unproved_decimals", "cell 1, line 3: printed by no cell of this page: 0.893, 0.930: The"),  # not compared
    (write("\n\n```\n0.894\n```"), "unproved_decimals", "cell 1, line 6: printed by no cell of this page: 0.894: "),
    (write("\n\n| a | 0.894 |"), "unproved_decimals", "cell 1, line 5: printed by no cell of this page: 0.894: "),
    (write(" [0.894](https://example.org/paper)"), "unproved_decimals", "printed by no cell of this page: 0.894: "),
    (alt("love gives learning 0.894 of its weight"), "unproved_decimals", "cell 7 (In [5]), image alt, line 1: printed by no cell"),
    (write("\n\n```{note}\nbetter\n```"), "beyond_commonmark", "cell 1, line 5: MyST"),
    (write(" {cite}`vaswani2017`"), "beyond_commonmark", "cell 1, line 3: MyST"),
    (write(" {{ numbers_checked }}"), "beyond_commonmark", "cell 1, line 3: MyST"),
    (editor, "not_as_stored", "sound.ipynb, line 17 of the file: not as make store writes it: has '   \"metadata\": {"),
]  # fmt: skip


@pytest.mark.parametrize("guard", NOTEBOOK_GUARDS, ids=lambda guard: guard.__name__)
def test_a_sound_notebook_has_no_fault(guard, sound):
    assert guard(sound) == []


@pytest.mark.parametrize(
    ("plant", "guard", "words"), FAULTS, ids=[f"{guard}-{place}" for place, (_, guard, _) in enumerate(FAULTS)]
)
def test_a_fault_is_seen_and_its_place_named(plant, guard, words, sound, tmp_path):
    nb = nbformat.read(sound, as_version=4)
    plant(nb)
    path = tmp_path / sound.name
    path.write_bytes(as_stored(nb) if plant is not editor else (nbformat.writes(nb) + "\n").encode())
    faults = getattr(cell_guards, guard, None) or getattr(prose_guards, guard)
    assert [fault for fault in faults(path) if words in fault], faults(path)


def test_every_guard_is_shown_a_fault():
    assert {guard for _, guard, _ in FAULTS} == {guard.__name__ for guard in NOTEBOOK_GUARDS}


def test_a_chapter_that_stops_short_is_seen(sound, tmp_path):
    assert chapter_faults(sound) == [
        "sound.ipynb: has 1 exercises, readers ask for four",
        "sound.ipynb: does not end with ## What to take away",
        "sound.ipynb: its last line is not Next: and a link",
    ]
    nb = nbformat.read(sound, as_version=4)
    nb.cells.append(nbformat.v4.new_markdown_cell("### Exercise 2: a\n\n### Exercise 3: b\n\n### Exercise 4: c"))
    nb.cells.append(nbformat.v4.new_markdown_cell("## What to take away\n\n* That.\n\nNext: [more](more.ipynb)."))
    path = tmp_path / "whole.ipynb"
    nbformat.write(nb, path)
    assert chapter_faults(path) == []


def changed_digits(path):
    """Each line of a notebook's prose with one digit of one decimal changed, places in a source (section 3.2) left alone."""
    for text in map(claims, prose(path)):
        for match in DECIMAL.finditer(text):
            if PLACE.search(text[: match.start()]):
                continue
            for place, digit in itertools.product(range(*match.span()), "0123456789"):
                if text[place].isdigit() and text[place] != digit:
                    yield text[:place] + digit + text[place + 1 :]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_any_changed_digit_of_any_decimal_in_the_books_prose_is_seen(path):
    printed = printed_decimals([path])
    for changed in changed_digits(path):
        assert unprinted(changed, printed), changed


def test_the_chapters_by_hand_have_digits_to_change():
    # Where a chapter's text has no decimal, the test above has nothing to do; these quote the documents' numbers.
    assert {path.name[:2] for path in NOTEBOOKS if any(changed_digits(path))} >= {"02", "04", "05"}


@pytest.mark.parametrize(("text", "faults"), [
    ("[0.893, 0.930, 0.818]", []), ("0.930 and 0.818", []), ("0.818 or 0.893", []), ("$[-0.893,\\ 0.930]$", []),
    ("[0.930, 0.893]", ["0.930 0.893 in a row"]), ("0.893, 0.818", ["0.893 0.818 in a row"]), ("0.893, 0.5", ["0.5"]),
    ("0.818 and 0.25", ["0.818 0.25 in a row"]),
])  # fmt: skip
def test_a_run_of_decimals_must_be_printed_as_a_run(text, faults):
    assert unprinted(text, [["0.893", "0.930", "0.818"], ["0.25"]]) == faults


@pytest.mark.parametrize(("text", "found"), [
    ("0.893", ["0.893"]), ("[-0.893,.930]", ["0.893", ".930"]), ("0.893.", ["0.893"]), ("値0.893。", ["0.893"]),
    (r"\approx0.9", ["0.9"]),
    ("1.5e-3", ["1.5e-3"]), ("0.1...0.9", ["0.1", "0.9"]), (r"0.338\,238", ["0.338238"]), (r"[0.5\,1.2]", ["0.5", "1.2"]),
    ("1.0.4", []), ("3, 4", []), ("x.2", []), ("[1., 2.]", []), ("...5", []),
])  # fmt: skip
def test_what_a_decimal_is(text, found):
    assert decimals(text) == found


@pytest.mark.parametrize("text", [
    "Read [Python 3.11](https://docs.python.org/3.11/).", "In [arXiv 1706.03762](https://arxiv.org/abs/1706.03762), section 3.2.",
    "| base model | 27.3 BLEU | {cite}`vaswani2017` |", "https://example.org/v1.5", "{{ weight_of_love }}", "Release 1.0.4 has 3 parts.",
])  # fmt: skip
def test_what_a_page_may_write(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n", encoding="utf-8")
    assert unproved_decimals(page) == heading_faults(page) == []


@pytest.mark.parametrize(("text", "words"), [
    ("Love is 0.893.", "page.md, line 3: printed by no cell: 0.893: Love is 0.893."),
    ("| love | 0.893 |", "page.md, line 3: printed by no cell: 0.893: "),
    ("```\n| love | 0.893 | https://example.org |\n```", "page.md, line 4: printed by no cell: 0.893: "),
    ("From 0.17 and 0.25 to 0.17.", "page.md, line 3: printed by no cell: 0.17, 0.25: From"),
    ("See [2.5 times](https://example.org/12.55).", "page.md, line 3: printed by no cell: 2.5: "),
])  # fmt: skip
def test_a_decimal_typed_on_a_page_is_seen(text, words, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{text}\n", encoding="utf-8")
    assert [fault for fault in unproved_decimals(page) if words in fault]


def test_another_page_may_prove_the_decimals_of_the_readme(sound, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("# Name\n\n0.893, not 0.894\n", encoding="utf-8")
    assert unproved_decimals(page, proofs=[sound]) == ["README.md, line 3: printed by no cell: 0.894: 0.893, not 0.894"]


@pytest.mark.parametrize(("text", "fault"), [
    ("no title", "page.md: has no title"), ("## Below", "page.md, line 1: the page title, #, must come before ## Below"),
    ("# One\n\n```sh\n# not a title\n```\n\n### Deep", "page.md, line 7: a heading ## must come before ### Deep"),
])  # fmt: skip
def test_headings_of_a_page(text, fault, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert heading_faults(page) == [fault]


@pytest.mark.parametrize(("change_toc", "fault"), [
    (("", ""), None),
    (("      - file: book/notation\n", ""), "_toc.yml: leaves out book/notation.md"),
    (("      - file: notebooks/02_by_hand\n", ""), "_toc.yml: leaves out notebooks/02_by_hand.ipynb"),
    (("02_by_hand", "02_by_head"), "_toc.yml: names notebooks/02_by_head, which does not exist"),
    (("file: book/notation", "file: notebooks/02_by_hand"), "notebooks/02_by_hand"),
    (("file: book/notation", "glob: book/n*"), "_toc.yml: book/n* is a pattern"),
])  # fmt: skip
def test_table_of_contents(change_toc, fault, tmp_path):
    entries = "".join(
        f"      - {entry}\n"
        for entry in ("file: book/notation", "file: notebooks/02_by_hand", "url: https://example.org")
    )
    toc = f"format: jb-book\nroot: book/index\nparts:\n  - chapters:\n{entries}"
    assert change_toc[0] in toc
    for page in ("book/index.md", "book/notation.md", "notebooks/02_by_hand.ipynb"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).touch()
    (tmp_path / "_toc.yml").write_text(toc.replace(*change_toc), encoding="utf-8")
    faults = toc_faults(tmp_path)
    assert fault in faults[0] if fault else faults == []
