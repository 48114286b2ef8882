"""Each exercise's check, handed nonsense: one that says right to anything would pass every other test."""

import contextlib
import io
import itertools
import sys

import nbformat
import pytest
import torch

from attn_lib import learned, measure
from attn_lib.measure.timing import compare_times as timed

from .cell_guards import PARTS
from .pages import NOTEBOOKS, read, tags

# What an exercise asks for is a value or a function; the one is nonsense as an answer to the other.
NONSENSE = ("nonsense", lambda *inputs: torch.tensor([-7.0]))


@pytest.fixture(autouse=True)
def _torch_as_it_was():
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)
    torch.set_printoptions(profile="default")


@pytest.fixture(autouse=True)
def _one_round(monkeypatch):
    """No verdict about a time is looked at here, so nothing is timed seven times."""
    monkeypatch.setattr(measure, "compare_times", lambda calls, **settings: timed(calls, **settings | {"rounds": 1}))


@pytest.fixture(autouse=True)
def _two_steps(monkeypatch):
    """No verdict about a trained model is looked at here, so none is trained to the end."""
    whole = learned.train

    def short(model, batches, **settings):
        return whole(model, itertools.islice(batches, 2), **settings)

    for name, module in list(sys.modules.items()):
        if name.startswith("attn_lib.learned") and getattr(module, "train", None) is whole:
            monkeypatch.setattr(module, "train", short)


def lax_checks(path):
    """The checks of a notebook that do not refuse nonsense, with what they said."""
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells:
            exec(compile(cell.source, path.name, "exec"), names)
    checks = {name: check for name, check in names.items() if name.startswith("check_") and name != "check_answer"}
    assert len(checks) == sum(PARTS[1] in tags(cell) for cell in cells), "a name for each check"
    verdicts = {
        name: [verdict for nonsense in NONSENSE for verdict in said(check, nonsense)] for name, check in checks.items()
    }
    return {
        name: v for name, v in verdicts.items() if not v or not all(verdict.startswith("Not yet: ") for verdict in v)
    }


def said(check, answer):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            check(answer)
        except TypeError:  # a word called as a function: refused, in Python's words
            return []
    return [out.getvalue()]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_check_takes_nonsense_for_an_answer(path, monkeypatch):
    monkeypatch.chdir(path.parent)  # where notebooks run: they read what was recorded
    assert lax_checks(path) == {}


def test_a_check_that_takes_anything_is_seen(tmp_path):
    nb = read(NOTEBOOKS[0])
    name, cell = next(
        (line[4:].split("(")[0], cell)
        for cell in nb.cells if PARTS[1] in tags(cell)
        for line in cell.source.splitlines() if line.startswith("def check_")
    )  # fmt: skip
    cell.source = f'def {name}(answer):\n    print("Right.")\n'
    path = tmp_path / "lax.ipynb"
    nbformat.write(nb, path)
    assert lax_checks(path) == {name: ["Right.\n", "Right.\n"]}
