"""book/scripts/store_outputs.py: what it writes, and when it writes nothing."""

import json
import socket
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from book.scripts import store_outputs
from book.scripts.store_outputs import KERNEL_STARTS, as_stored, main, read, start_kernel

from .synthetic import code


def written(path, *cells, **metadata):
    nbformat.write(new_notebook(cells=list(cells), metadata=metadata), path)
    return path


def test_a_second_run_changes_no_byte(sound, tmp_path, capsys):
    nb = nbformat.read(sound, as_version=4)
    nb.cells = [
        cell for cell in nb.cells if "claims" not in cell.metadata.get("tags", [])
    ]  # which show another number in every run
    path = tmp_path / "same.ipynb"
    nbformat.write(nb, path)
    assert main([str(path)]) == 0
    first = path.read_bytes()
    assert main([str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{path}: stored", f"{path}: unchanged"]
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_it_runs_this_interpreter_in_the_folder_of_the_notebook(tmp_path, monkeypatch):
    rival = (
        tmp_path / "kernels" / "python3" / "kernel.json"
    )  # a user's own kernel of the same name, which Jupyter would prefer
    rival.parent.mkdir(parents=True)
    rival.write_text('{"argv": ["false"], "display_name": "another", "language": "python"}', encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = written(tmp_path / "where.ipynb", code("import os, sys\n\nprint(sys.executable, os.getcwd())"))
    assert main([str(path)]) == 0
    assert nbformat.read(path, as_version=4).cells[0].outputs[0].text.split() == [sys.executable, str(tmp_path)]


@pytest.mark.parametrize(("cells", "words"), [
    ([code("1"), code("def scale():\n    raise ValueError('scale 0.25')"), code("scale()")], "cell 3 (In [3]): ValueError: scale 0.25"),
    ([code("1"), code("import warnings\nwarnings.warn('deprecated')")], "cell 2 (In [2]): wrote to stderr"),
    ([code("1", "raises-exception")], "cell 1 (In [1]): is tagged raises-exception and raised nothing"),
    ([code("import os\nos._exit(1)")], "cell 1 (In [1]): DeadKernelError"),
], ids=["error", "stderr", "no error", "dead kernel"])  # fmt: skip
def test_a_cell_that_fails_is_named_and_nothing_is_written(cells, words, tmp_path, capsys):
    path = written(tmp_path / "bad.ipynb", *cells)
    before = path.read_bytes()
    assert main([str(path)]) == 1
    assert f"NOT STORED: {path}, {words}" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("text", "words"), [
    (None, "No such file"), ("", "not a notebook"), ("[]", "not a notebook"), ('{"nbformat": 3, "worksheets": []}', "nbformat 3"),
    ('{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}', "not a notebook"),
])  # fmt: skip
def test_what_is_no_notebook_is_refused_in_one_line(text, words, tmp_path, capsys):
    path = tmp_path / "no.ipynb"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert main([str(path)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and said[0].startswith(f"NOT STORED: {path}: ") and words in said[0]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = written(tmp_path / "old.ipynb", code("print(1)"))
    before = path.read_bytes()
    monkeypatch.setattr(store_outputs, "execute", lambda *arguments: None)
    monkeypatch.setattr(store_outputs.os, "replace", lambda *arguments: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        main([str(path)])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_an_editor_or_a_machine_adds_is_dropped(tmp_path):
    cell = code("1", "exercise", alt="a matrix of two rows")
    cell.metadata.update(
        {"collapsed": True, "execution": {"iopub.status.busy": "2031-05-17"}, "jupyter": {"source_hidden": True}}
    )
    frames = ["File /home/ada/x.py", "ValueError: scale"]
    cell.outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="scale", traceback=frames)]
    kernel = {"name": "ada", "display_name": "Ada", "language": "python"}
    language = {"name": "python", "version": "3.11"}
    path = written(tmp_path / "edited.ipynb", cell, kernelspec=kernel, language_info=language, widgets={}, title="kept")
    stored = json.loads(as_stored(read(path)))
    kept = {
        "tags": ["exercise"],
        "mystnb": {"image": {"alt": "a matrix of two rows"}},
        "jupyter": {"source_hidden": True},
    }
    assert stored["cells"][0]["metadata"] == kept
    assert stored["cells"][0]["outputs"][0]["traceback"] == ["ValueError: scale"]
    assert stored["metadata"] == store_outputs.NOTEBOOK_METADATA | {"title": "kept"}


def test_ids_are_kept_and_missing_or_repeated_ones_are_the_same_in_every_run(tmp_path):
    path = tmp_path / "old.ipynb"
    notebook = new_notebook(cells=[new_code_cell(str(number)) for number in range(5)])
    for cell, name in zip(notebook.cells, ("cell-2", None, "kept", "kept", None)):
        cell.pop("id") if name is None else cell.update(id=name)
    path.write_text(json.dumps(notebook | {"nbformat_minor": 4}), encoding="utf-8")
    for _ in range(2):
        nb = read(path)
        assert [cell.id for cell in nb.cells] == ["cell-2", "cell-3", "kept", "cell-4", "cell-5"]
        assert (nb.nbformat, nb.nbformat_minor) == (4, 5)


def test_a_taken_port_is_tried_again(tmp_path, monkeypatch, capsys):
    path = written(tmp_path / "port.ipynb", code("print('0.893')"))
    starts = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        class FirstMeetsATakenPort(store_outputs.AsyncKernelManager):
            async def start_kernel(self, *arguments, **options):
                if not starts:
                    self.cache_ports, self.shell_port = False, taken.getsockname()[1]
                starts.append(self.shell_port)
                await super().start_kernel(*arguments, **options)

        monkeypatch.setattr(store_outputs, "AsyncKernelManager", FirstMeetsATakenPort)
        assert main([str(path)]) == 0
    assert len(starts) == 2
    assert nbformat.read(path, as_version=4).cells[0].outputs[0].text == "0.893\n"


def test_a_kernel_that_never_starts_is_given_up():
    starts = []
    with pytest.raises(RuntimeError, match="died"):
        start_kernel(lambda: starts.append(1) or (_ for _ in ()).throw(RuntimeError("died")))
    assert len(starts) == KERNEL_STARTS


def test_by_default_it_takes_every_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(store_outputs, "ROOT", tmp_path)
    assert main([]) == 1
    assert "no notebook" in capsys.readouterr().err
    (tmp_path / "notebooks").mkdir()
    for name in ("02_b", "01_a"):
        written(tmp_path / "notebooks" / f"{name}.ipynb", code("print(1)"))
    monkeypatch.setattr(store_outputs, "execute", lambda *arguments: None)
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines() == ["notebooks/01_a.ipynb: stored", "notebooks/02_b.ipynb: stored"]
