"""Runs notebooks and stores what they show, so that a second run changes no byte.

    python book/scripts/store_outputs.py [NOTEBOOK ...]      (default: every notebook; `make store` calls it)

Each notebook runs from its own folder, on the interpreter that runs this script. What would differ from one run, editor or
machine to the next is not stored: times, the kernel's name and version, widget state, an editor's metadata, the frames of a
traceback. A notebook in which a cell fails, or writes to stderr, is left as it was.
"""

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parents[2]

# What a page needs of a cell's metadata; the rest (timings, scroll positions, Colab's own ids) is an editor's.
KEPT_CELL_METADATA = {"tags", "mystnb", "jupyter"}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "pygments_lexer": "ipython3",
    },
}
KERNEL_STARTS = 5
CELL_TIMEOUT = 600  # seconds


class NotStored(Exception):
    """A notebook was left as it was; the message names the notebook, the cell and the reason."""


class ThisInterpreter(KernelSpecManager):
    """Knows one kernel, the interpreter that runs now: a user's own `python3` kernel may be another environment."""

    def get_kernel_spec(self, kernel_name):
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


class Client(NotebookClient):
    def create_kernel_manager(self):
        self.km = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=ThisInterpreter())
        return self.km


def start_kernel(start: Callable[[], object], starts: int = KERNEL_STARTS) -> None:
    """Calls `start` until a kernel answers, at most `starts` times.

    A kernel's ports are chosen before it binds them, so that another process can take one in between; the kernel then dies
    at once, which jupyter_client reports as a RuntimeError.
    """
    for attempt in range(1, starts + 1):
        try:
            start()
            return
        except RuntimeError:
            if attempt == starts:
                raise


def cell_name(nb, index: int) -> str:
    """`cell 7 (In [4])`: the position among all cells, and the number that the page shows."""
    cell = nb.cells[index]
    if cell.cell_type != "code":
        return f"cell {index + 1}"
    return f"cell {index + 1} (In [{sum(c.cell_type == 'code' for c in nb.cells[: index + 1])}])"


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def read(path: Path):
    """The notebook at `path`, as nbformat 4.5, every cell with an id of its own."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["nbformat"] != 4:
            raise ValueError(f"nbformat {raw['nbformat']}; 4 is needed")
        give_ids(raw["cells"])
        raw["nbformat_minor"] = max(5, raw["nbformat_minor"])
        nb = nbformat.reads(json.dumps(raw), as_version=4)
        nbformat.validate(nb)
    except OSError as error:
        raise NotStored(f"{shown(path)}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, nbformat.ValidationError) as error:
        raise NotStored(
            f"{shown(path)}: not a notebook: {type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error
    return nb


def give_ids(cells: list[dict]) -> None:
    """Keeps the ids that are there; one that is missing or stands twice becomes `cell-N`. (nbformat would draw them at random.)"""
    taken = set()
    for cell in cells:
        if cell.get("id") in taken:
            del cell["id"]
        elif cell.get("id"):
            taken.add(cell["id"])
    for number, cell in enumerate(cells, start=1):
        if not cell.get("id"):
            while (name := f"cell-{number}") in taken:
                number += 1
            cell["id"] = name
            taken.add(name)


def execute(nb, folder: Path, name: str) -> None:
    """Runs every code cell in a fresh kernel in `folder`; raises NotStored at the first fault."""
    client = Client(
        nb,
        timeout=CELL_TIMEOUT,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=[
            "--log-level=ERROR"
        ],  # a kernel says at every start that it does not encrypt what it sends to this machine
    )
    with contextlib.ExitStack() as stack:
        start_kernel(lambda: stack.enter_context(client.setup_kernel()))
        for index, cell in enumerate(nb.cells):
            if cell.cell_type != "code":
                continue
            place = f"{name}, {cell_name(nb, index)}"
            cell.outputs, cell.execution_count = [], None
            try:
                client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
            except CellExecutionError as error:
                raise NotStored(f"{place}: {error.ename}: {error.evalue}\n{error.traceback}") from error
            except (CellTimeoutError, DeadKernelError) as error:
                raise NotStored(f"{place}: {type(error).__name__}: {str(error).splitlines()[0]}") from error
            kinds = {output.output_type for output in cell.outputs}
            if "raises-exception" in cell.metadata.get("tags", []) and "error" not in kinds:
                raise NotStored(f"{place}: is tagged raises-exception and raised nothing")
            for output in cell.outputs:
                if output.get("name") == "stderr":
                    raise NotStored(f"{place}: wrote to stderr: {output.text.strip()}")


def normalise(nb):
    """Drops in place what differs between runs, editors and machines; returns the notebook."""
    nb.metadata = nbformat.from_dict({**nb.metadata, **NOTEBOOK_METADATA})
    nb.metadata.pop("widgets", None)
    for cell in nb.cells:
        cell.metadata = nbformat.from_dict(
            {key: value for key, value in cell.metadata.items() if key in KEPT_CELL_METADATA}
        )
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                # Its frames hold the paths of this machine, and change with every version of IPython.
                output.traceback = [f"{output.ename}: {output.evalue}"]
    return nb


def as_stored(nb) -> bytes:
    return (nbformat.writes(normalise(nb), version=nbformat.NO_CONVERT) + "\n").encode("utf-8")


def store(path: Path) -> bool:
    """Runs the notebook at `path` and stores its outputs; says whether the file changed."""
    path = path.resolve()
    nb = read(path)
    execute(nb, path.parent, shown(path))
    content = as_stored(nb)
    if content == path.read_bytes():
        return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run notebooks and store what they show.")
    parser.add_argument(
        "notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: every notebook of the book"
    )
    paths = parser.parse_args(arguments).notebooks or sorted((ROOT / "notebooks").glob("*.ipynb"))
    if not paths:
        print("There is no notebook in notebooks/.", file=sys.stderr)
    failed = not paths
    for path in paths:
        try:
            print(f"{shown(path.resolve())}: {'stored' if store(path) else 'unchanged'}", flush=True)
        except NotStored as error:
            print(f"NOT STORED: {error}", file=sys.stderr, flush=True)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
