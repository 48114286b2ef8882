"""Every notebook of the site's folder `download` runs to its end in an environment that lacks attn_lib, and shows what is stored.

The environment has the packages of the one that runs the tests, by a path file: the folder is added, and what a path file in it would
add, the editable install of attn_lib, is not. nbval runs and compares, with the book's own guards.
"""

import io
import os
import subprocess
import sysconfig
import venv
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from book.extension.attention_book.self_contained import first_cell
from book.extension.attention_book.wheel import build_wheel

from .building import ROOT

NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SMALLEST = min(NOTEBOOKS, key=lambda name: (ROOT / f"notebooks/{name}.ipynb").stat().st_size)
# In the reader's environment the kernel knows nothing of this repository; the guards, which run beside it, do.
SETTINGS = f"[pytest]\npythonpath = {ROOT}\n"
GUARDS = 'pytest_plugins = ["tests.notebooks.nbval_guards"]\n'
FOUND = """\
import subprocess, sys, tempfile
from pathlib import Path

import attn_lib

print(Path(attn_lib.__file__).parents[1].parent == Path(tempfile.gettempdir()))
command = [sys.executable, "-m", "attn_lib", "--help"]
print(subprocess.run(command, capture_output=True, text=True).stdout.split()[:5])"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The interpreter of an environment without attn_lib, whose own kernel is the one that Jupyter finds first."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    packages = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    ours = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    Path(packages, "packages.pth").write_text("\n".join(ours), encoding="utf-8")
    subprocess.run([python, "-m", "ipykernel", "install", "--sys-prefix"], env=environment(), check=True)
    return python


def environment() -> dict[str, str]:
    """A reader's variables: nothing that leads to this repository, or to the pytest that runs now."""
    ours = ("PYTHONPATH", "PYTEST_", "BOOK_", "VIRTUAL_ENV", "JUPYTER_PATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONNOUSERSITE": "1",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="module")
def outcomes(site, python, tmp_path_factory):
    """What nbval says of each cell: {(notebook, cell): failure text, or None where it passed}."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    (folder / "conftest.py").write_text(GUARDS, encoding="utf-8")
    for name in NOTEBOOKS:
        prepare(nbformat.read(site / f"download/{name}.ipynb", as_version=4), folder / f"{name}.ipynb")
    wheel = build_wheel(ROOT, folder / "wheel")
    for name, faulty in (("damaged", damaged), ("wrong", wrong)):
        prepare(
            faulty(nbformat.read(site / f"download/{SMALLEST}.ipynb", as_version=4), wheel), folder / f"{name}.ipynb"
        )
    prepare(witness(wheel), folder / "witness.ipynb")

    report = folder / "report.xml"
    nbval = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=300", "-n", "2", "--dist", "loadfile"]
    command = [python, "-m", "pytest", *nbval, "-p", "no:cacheprovider", f"--junitxml={report}", "."]
    run = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=900, check=False
    )
    assert run.returncode == 1, (
        run.stdout + run.stderr
    )  # some cells failed, as planted; any other code is another trouble
    left = {path.name for path in folder.iterdir() if path.suffix != ".ipynb"}
    assert left <= {
        "pytest.ini",
        "conftest.py",
        "wheel",
        "report.xml",
        "__pycache__",
    }  # a notebook writes nothing beside it
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {(case.get("classname").split(".")[-2], case.get("name")): failure(case) for case in cases}


def failure(case) -> str | None:
    found = case.find("failure")
    found = case.find("error") if found is None else found
    return None if found is None else found.text


def prepare(notebook, path: Path) -> None:
    """Write a notebook for nbval. The first cell was never run, which the guards refuse: here it counts as run, and showed nothing."""
    assert notebook.cells[0].execution_count is None
    notebook.cells[0].execution_count = 0
    nbformat.write(notebook, path)


def damaged(notebook, wheel: bytes):
    """The copy, with another letter in the middle of its wheel."""
    source = notebook.cells[0].source
    place = len(source) // 2
    letter = "A" if source[place] != "A" else "B"
    notebook.cells[0].source = source[:place] + letter + source[place + 1 :]
    return notebook


def wrong(notebook, wheel: bytes):
    """The copy, with a sound wheel of another library, one that divides by Dk, not by its root."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name in {"attn_lib/attention.py", "attn_lib/trace.py"}:
                assert content.count(b"1 / math.sqrt(") == 1
                content = content.replace(b"1 / math.sqrt(", b"1 / float(")
            new.writestr(name, content)
    notebook.cells[0] = first_cell(changed.getvalue())
    return notebook


def witness(wheel: bytes):
    """A notebook that sees where attn_lib is, before the first cell and after it, here and in a process of its own."""
    error = new_output("error", ename="ModuleNotFoundError", evalue="No module named 'attn_lib'", traceback=[])
    shown = "True\n['usage:', 'python', '-m', 'attn_lib', '[-h]']\n"
    return new_notebook(
        cells=[
            new_code_cell("pass"),
            new_code_cell(
                "import attn_lib", metadata={"tags": ["raises-exception"]}, outputs=[error], execution_count=1
            ),
            new_code_cell(first_cell(wheel).source, execution_count=2),
            new_code_cell(FOUND, outputs=[new_output("stream", name="stdout", text=shown)], execution_count=3),
        ]
    )


def test_the_environment_lacks_attn_lib_and_nothing_else(python, tmp_path):
    def tried(code):
        return subprocess.run(
            [python, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )

    assert "ModuleNotFoundError: No module named 'attn_lib'" in tried("import attn_lib").stderr
    assert tried("import torch, matplotlib, yaml, nbval").returncode == 0


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_alone(outcomes, name):
    cells = {cell: said for (notebook, cell), said in outcomes.items() if notebook == name}
    stored = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4).cells
    assert len(cells) == 1 + sum(cell.cell_type == "code" for cell in stored)
    assert {cell: said for cell, said in cells.items() if said} == {}


def test_attn_lib_comes_from_the_first_cell(outcomes):
    cells = {cell: said for (notebook, cell), said in outcomes.items() if notebook == "witness"}
    assert cells == dict.fromkeys(["Cell 0", "Cell 1", "Cell 2", "Cell 3"])


def test_a_damaged_wheel_fails(outcomes):
    assert "The copy of attn_lib in this cell is damaged" in outcomes["damaged", "Cell 0"]
    assert "No module named 'attn_lib'" in outcomes["damaged", "Cell 1"]


def test_a_wheel_of_another_library_fails(outcomes):
    said = {cell: text for (notebook, cell), text in outcomes.items() if notebook == "wrong" and text}
    assert "Cell 0" not in said
    assert len(said) > 3
    assert any("Cell outputs differ" in text or "Cell execution caused an exception" in text for text in said.values())
