"""A pytest plugin that closes what `pytest --nbval` leaves open.

nbval compares every text that a cell prints, strictly, and stays in charge of that. It does not look at pictures, passes a cell
that was never run, lets any cell opt out, and does not miss an exception that no longer comes. Here its file and its cell are
each extended by a subclass that does; no function of nbval is replaced.

The `conftest.py` at the root of the repository loads this module, so that every `pytest --nbval notebooks` has it: a contributor
who types the command by hand cannot leave it out, as with `-p` or with a conftest.py that only tests/ would see.
"""

import base64
import binascii
import shutil
import tempfile
from pathlib import Path

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, nocolors

from book.scripts.store_outputs import start_kernel

from .pages import printed_texts, tags

# Root mean square over all pixels and channels, of 255. One changed digit of the smallest print in a large figure gives 0.4 and
# more (a test draws some); pixels that differ by one step, as after another processor's last bit, give 0.05 if one in 400 does.
TOLERANCE = 0.1


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    collectors = yield
    return [
        GuardedNotebook.from_parent(parent, path=file_path) if isinstance(found, IPyNbFile) else found
        for found in collectors
    ]


class GuardedNotebook(IPyNbFile):
    def setup(self):
        start_kernel(super().setup)

    def collect(self):
        for cell in super().collect():
            yield GuardedCell.from_parent(
                self, name=cell.name, cell_num=cell.cell_num, cell=cell.cell, options=cell.options
            )


class GuardedCell(IPyNbCell):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if not self.config.get_terminal_writer().hasmarkup:
            self.colors = nocolors  # no escape codes in a log

    def runtest(self):
        refused = self.refusal()
        self.options["skip"] = False  # refused as well, but later cells need what this one defines
        super().runtest()
        if refused:
            self.raise_cell_error(refused)
        if self.options["check_exception"] and not any(output.output_type == "error" for output in self.test_outputs):
            self.raise_cell_error("is tagged raises-exception, and no longer raises")
        self.compare_figures()

    def refusal(self):
        """Why this cell may not pass, whatever it prints; None if it may."""
        if self.options["skip"]:
            return "nbval-skip is refused: a cell that is not run proves nothing"
        if not self.options["check"] and not self.of_tier("claims", "device"):
            return "nbval-ignore-output is refused: only cells tagged claims or device may print what is not compared"
        if self.cell.execution_count is None:
            return "was never run, so nothing is stored to compare with. Store it: make store"
        return None

    def compare_outputs(self, test, ref, skip_compare=None):
        same = super().compare_outputs(test, ref, skip_compare)
        # nbval names the kinds of output that are new or missing, and stops there.
        if not same and len(self.comparison_traceback) == 1:
            for words, outputs in (("stored (expected)", ref), ("printed now (got)", test)):
                self.comparison_traceback.append(f"  {words}: {''.join(printed_texts(outputs)) or 'nothing'}")
        return same

    def of_tier(self, *names):
        return bool(tags(self.cell) & set(names))

    def compare_figures(self):
        stored, drawn = figures(self.cell.outputs), figures(self.test_outputs)
        if len(stored) != len(drawn):
            self.figure_error("number of figures", len(stored), len(drawn))
        if self.of_tier("claims") or not self.options["check"]:
            return  # a figure of measured times, or of a training, differs from run to run; its verdict is compared as text
        for old, new in zip(stored, drawn):
            if old.metadata != new.metadata:
                self.figure_error("size on the page", dict(old.metadata), dict(new.metadata))
            if difference := image_difference(old.data["image/png"], new.data["image/png"]):
                self.figure_error("figure", *difference)

    def figure_error(self, what, stored, drawn):
        self.raise_cell_error(
            f"the stored {what} is not what the code draws now. Look at both; if the new one is right: make store",
            f"  stored (expected): {stored}\n  drawn now (got):   {drawn}",
        )

    def repr_failure(self, excinfo):
        text = super().repr_failure(excinfo)
        if isinstance(excinfo.value, NbCellError):
            # nbval counts code cells from 0, a page from 1
            text = f"{self.path.name}, In [{self.cell_num + 1}]: {excinfo.value}\n{text}"
        return text


def figures(outputs):
    return [output for output in outputs if "image/png" in output.get("data", {})]


def image_difference(stored, drawn):
    """None if two base64 PNGs show the same; else what to say of the stored and of the new one."""
    from matplotlib.testing.compare import compare_images
    from matplotlib.testing.exceptions import ImageComparisonFailure

    folder = Path(tempfile.mkdtemp(prefix="figure-"))
    old, new = folder / "stored.png", folder / "drawn.png"
    new.write_bytes(base64.b64decode(drawn))
    try:
        old.write_bytes(base64.b64decode("".join(stored.split()), validate=True))
        differs = compare_images(old, new, tol=TOLERANCE, in_decorator=True)
    except ImageComparisonFailure as error:  # another size
        return old, f"{new}: {error}"
    except (binascii.Error, OSError, SyntaxError, ValueError) as error:  # all of these come from a broken PNG
        return f"{old}: no readable PNG: {error}", new
    if differs:
        return old, f"{new}: differs by {differs['rms']:.2f} of 255, allowed {TOLERANCE}; where: {differs['diff']}"
    shutil.rmtree(folder)  # kept only where there is something to look at
    return None
