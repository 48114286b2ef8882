"""`pytest --nbval notebooks`, run as the Makefile runs it on copies with faults: every planted one fails, and nothing else does."""

import base64
import io
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from xml.etree import ElementTree

import nbformat
import numpy
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook
from nbval.plugin import IPyNbFile
from PIL import Image

from book.scripts.store_outputs import store

from .nbval_guards import TOLERANCE, GuardedNotebook, image_difference
from .pages import NOTEBOOKS, ROOT, tags
from .synthetic import ALT, DRAW, code


@dataclass
class Fault:
    """One code cell, what is done to it after it was stored, and words that its failure must contain; none: it must pass."""

    name: str
    cell: object
    plant: object
    words: list[str] = field(default_factory=list)


def picture(label, *names):
    return code(f"draw({label!r})", *names, alt=ALT)


def in_output(key, old, new):
    def plant(cell):
        holder = cell.outputs[0] if key in cell.outputs[0] else cell.outputs[0].data
        assert holder[key].count(old) == 1
        holder[key] = holder[key].replace(old, new)

    return plant


def in_metadata(**metadata):
    return lambda cell: cell.outputs[0].metadata["image/png"].update(metadata)


def repainted(change):
    def plant(cell):
        data = cell.outputs[0].data
        data["image/png"] = png(change(pixels(data["image/png"])))

    return plant


def pixels(encoded):
    return numpy.array(Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB"))


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def speckled(image):
    """One pixel in 400 by one step: what another processor's last bit may do, and no eye sees."""
    image[::20, ::20] ^= 1
    return image


def broken(cell):
    data = cell.outputs[0].data
    data["image/png"] = data["image/png"][:400] + "AAAA" + data["image/png"][404:]


def never_run(cell):
    cell.outputs, cell.execution_count = [], None


def figure_of(label):
    def plant(cell):
        cell.outputs[0].data["image/png"] = DRAWN[label]

    return plant


def no_output(cell):
    cell.outputs = []


def no_picture(cell):
    del cell.outputs[0].data["image/png"]


def stale_error(*names):
    def plant(cell):
        cell.outputs = [
            nbformat.v4.new_output("error", ename="ValueError", evalue="scale", traceback=["ValueError: scale"])
        ]
        cell.metadata["tags"] = list(names)

    return plant


def tagged(*names):
    def plant(cell):
        cell.metadata["tags"] = list(names)

    return plant


def then(code):
    def plant(cell):
        cell.source += f"\n{code}"

    return plant


def nothing(cell):
    pass


def display(kind, text):
    return code(f"display({{'text/plain': 'x', {kind!r}: {text!r}}}, raw=True)")


RESTORED = "make store"
STALE = ["the stored figure is not what the code draws now", RESTORED]
IGNORED = ["nbval-ignore-output is refused"]
FAULTS = [
    Fault("library", code(DRAW), nothing),
    Fault("stream", code("print('weights 0.8933')"), in_output("text", "0.8933", "0.8983"),
          ["Cell outputs differ", "stdout", "weights 0.8983", "weights 0.8933"]),
    Fault("result", code("0.8176"), in_output("text/plain", "0.8176", "0.8175"), ["text/plain", "0.8175", "0.8176"]),
    Fault("trailing space", code("print('0.5')"), in_output("text", "0.5", "0.5 "), ["stdout"]),
    Fault("html", display("text/html", "<b>0.3382</b>"), in_output("text/html", "0.3382", "0.3383"), ["text/html", "0.3383", "0.3382"]),
    Fault("latex", display("text/latex", "$0.25$"), in_output("text/latex", "0.25", "0.26"), ["text/latex", "0.26", "0.25"]),
    Fault("markdown", display("text/markdown", "**0.75**"), in_output("text/markdown", "0.75", "0.76"),
          ["text/markdown", "0.76", "0.75"]),
    Fault("text beside", code("display('0.125')"), in_output("text/plain", "0.125", "0.124"), ["text/plain", "0.124", "0.125"]),
    Fault("output deleted", code("print('0.5')"), no_output,
          ["Unexpected output fields", "stdout", "stored (expected): nothing", "printed now (got): 0.5"]),
    Fault("error", code("raise ValueError('scale 0.25')", "raises-exception"), in_output("evalue", "0.25", "0.26"),
          ["evalue", "scale 0.26", "scale 0.25"]),
    Fault("no error", code("scale = 0.25"), stale_error("raises-exception", "nbval-ignore-output", "claims"), ["no longer raises"]),
    Fault("no error, compared", code("scale = 0.25"), stale_error("raises-exception"),
          ["Missing output fields", "evalue", "stored (expected): ValueError: scale", "printed now (got): nothing"]),
    Fault("new error", code("print('fine')"), then("raise ValueError('scale 0.25')"), ["Cell execution caused an exception", "scale 0.25"]),
    Fault("new warning", code("print('fine')"), then("import sys\nsys.stderr.write('deprecated');"),
          ["Unexpected output fields", "stderr", "printed now (got): fine", "deprecated"]),
    Fault("never run", code("weight = 0.25"), never_run, ["was never run", RESTORED]),
    Fault("ignored", code("print('0.5')"), tagged("nbval-ignore-output"), IGNORED),
    Fault("ignored by comment", code("print('0.5')"), then("# NBVAL_IGNORE_OUTPUT"), IGNORED),
    Fault("skipped", code("needed = 'by the next cell'"), tagged("nbval-skip", "device"), ["nbval-skip is refused"]),
    Fault("after skipped", code("print(needed)"), nothing),
    Fault("claim", code("import os\nprint(os.getpid())", "claims", "nbval-ignore-output"), nothing),
    Fault("figure", picture("0.893"), nothing),
    Fault("figure of another digit", picture("0.338"), figure_of("0.336"), [*STALE, "differs by", "stored.png", "drawn.png"]),
    Fault("figure, last bits", picture("0.893"), repainted(speckled)),
    Fault("figure cropped", picture("0.893"), repainted(lambda image: image[:-2]), [*STALE, "sizes do not match"]),
    Fault("figure broken", picture("0.893"), broken, [*STALE, "no readable PNG"]),
    Fault("figure deleted", picture("0.893"), no_picture, ["the stored number of figures", RESTORED]),
    Fault("figure of another width", picture("0.893"), in_metadata(width=99), ["the stored size on the page", "99", RESTORED]),
    Fault("figure of a claim", picture("0.893", "claims"), repainted(lambda image: 255 - image)),
    Fault("figure of a claim deleted", picture("0.893", "claims"), no_picture, ["the stored number of figures"]),
    Fault("last", code("print('0.930')"), nothing),
]  # fmt: skip
DRAWN = {}  # a figure's label -> its PNG, filled by `outcomes`


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, sound):
    """What nbval says of each cell: {(notebook, cell): failure text, or None where it passed}."""
    root = tmp_path_factory.mktemp("book")
    notebooks = root / "notebooks"
    notebooks.mkdir()
    shutil.copy(ROOT / "conftest.py", root)  # that the guards are there is part of what is tested
    shutil.copy(sound, notebooks / "sound.ipynb")

    faulty = notebooks / "faulty.ipynb"
    other = picture("0.336")
    nbformat.write(
        new_notebook(cells=[new_markdown_cell("# Faults"), *[fault.cell for fault in FAULTS], other]), faulty
    )
    store(faulty)
    nb = nbformat.read(faulty, as_version=4)
    DRAWN["0.336"] = nb.cells.pop().outputs[0].data["image/png"]
    for fault, cell in zip(FAULTS, nb.cells[1:], strict=True):
        fault.plant(cell)
    nbformat.write(nb, faulty)

    real = nbformat.read(smallest_notebook(), as_version=4)
    for place, plant in real_faults(real).values():
        plant(real.cells[place])
    nbformat.write(real, notebooks / "real.ipynb")
    return run_nbval(root)


def run_nbval(root):
    report = root / "report.xml"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(root)}
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300", "notebooks"]
    command = [sys.executable, "-m", "pytest", *nbval, f"--junitxml={report}"]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=600)
    assert run.returncode == 1, (
        run.stdout + run.stderr
    )  # some tests failed, as planted; any other code is another trouble
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {(case.get("classname").split(".")[-2], case.get("name")): failure(case) for case in cases}


def failure(case):
    found = case.find("failure")
    found = case.find("error") if found is None else found
    return None if found is None else found.text


def smallest_notebook():
    """The smallest that has both to plant a fault in: the figures of a chapter that trains are not compared."""
    fit = [path for path in NOTEBOOKS if all(compared(nbformat.read(path, as_version=4)))]
    assert fit, "there is no real notebook to plant a fault in"
    return min(fit, key=lambda path: path.stat().st_size)


def compared(nb):
    """The cells that are compared, by their index: those that draw, and those that print a digit."""
    cells = [
        (index, cell)
        for index, cell in enumerate(nb.cells)
        if cell.cell_type == "code" and not tags(cell) & {"claims", "device"}
    ]
    drawn = [index for index, cell in cells if any("image/png" in output.get("data", {}) for output in cell.outputs)]
    texts = [index for index, cell in cells if index not in drawn and any(map(has_digit, cell.outputs))]
    return drawn, texts


def real_faults(nb):
    """{what: (index of a cell, what is done to it)}: a digit in a text, and a blot on a figure, of two cells that are compared."""
    drawn, texts = compared(nb)
    return {"digit": (texts[0], next_digit), "figure": (drawn[0], blot)}


def has_digit(output):
    return any(map(str.isdigit, output.get("text", "")))


def next_digit(cell):
    output = next(filter(has_digit, cell.outputs))
    place = next(place for place, letter in enumerate(output.text) if letter.isdigit())
    output.text = output.text[:place] + str((int(output.text[place]) + 1) % 10) + output.text[place + 1 :]


def blot(cell):
    """A blot of ten pixels by ten, a letter's size."""
    data = next(output.data for output in cell.outputs if "image/png" in output.get("data", {}))
    image = pixels(data["image/png"])
    image[50:60, 50:60] = 255 - image[50:60, 50:60]
    data["image/png"] = png(image)


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[fault.name for fault in FAULTS])
def test_fault(number, outcomes):
    said = outcomes["faulty", f"Cell {number}"]
    if not FAULTS[number].words:
        assert said is None
    else:
        assert [
            words for words in [f"faulty.ipynb, In [{number + 1}]", *FAULTS[number].words] if words not in said
        ] == [], said


def test_a_sound_notebook_passes(outcomes):
    cells = {cell: said for (notebook, cell), said in outcomes.items() if notebook == "sound"}
    assert len(cells) == 11 and set(cells.values()) == {None}


def test_a_real_notebook_fails_where_it_was_changed_and_nowhere_else(outcomes):
    real = nbformat.read(smallest_notebook(), as_version=4)
    numbers = {
        index: number for number, index in enumerate(i for i, cell in enumerate(real.cells) if cell.cell_type == "code")
    }
    changed = {numbers[place]: what for what, (place, _) in real_faults(real).items()}
    failed = {
        int(cell.split()[1]): said
        for (notebook, cell), said in outcomes.items()
        if notebook == "real" and said is not None
    }
    assert failed.keys() == changed.keys(), failed
    for number, said in failed.items():
        assert f"real.ipynb, In [{number + 1}]" in said
        assert ("Cell outputs differ" if changed[number] == "digit" else STALE[0]) in said


@pytest.mark.parametrize(("old", "new"), [("0.338", "0.336"), ("0.893", "0.898"), ("0.5", "0.6"), ("0.1", "0.7")])
def test_the_tolerance_sees_one_digit_of_small_print_in_a_large_figure(old, new, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def draw(label):
        file, figure = io.BytesIO(), Figure(figsize=(9, 6), dpi=200)
        figure.text(0.5, 0.5, label, fontsize=6)
        figure.savefig(file, format="png")
        return base64.b64encode(file.getvalue()).decode()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # two pictures that differ are kept
    assert image_difference(draw(old), draw(old)) is None
    assert list(tmp_path.iterdir()) == []
    assert f"allowed {TOLERANCE}" in image_difference(draw(old), draw(new))[1]


def test_a_kernel_that_does_not_start_is_started_again(monkeypatch):
    """A start that meets a taken port ends so: see test_store_outputs.py, where one does."""
    starts = []

    def start(notebook):
        starts.append(notebook)
        if len(starts) < 3:
            raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(IPyNbFile, "setup", start)
    GuardedNotebook.__new__(GuardedNotebook).setup()
    assert len(starts) == 3

    monkeypatch.setattr(IPyNbFile, "setup", lambda notebook: starts.clear() or {}[notebook])
    with pytest.raises(KeyError):  # any other trouble is not tried again
        GuardedNotebook.__new__(GuardedNotebook).setup()
