"""Guards over cells and what they stored: each takes a notebook and returns its faults, one sentence each, the place first."""

import base64
import itertools
import re
from pathlib import Path

from book.scripts.store_outputs import as_stored

from .pages import code_cells, fenced, printed_texts, read, tags

RESTORE = "store it again: make store"
LARGEST_FIGURE = 150_000  # bytes of PNG: a page stays light, and so does the repository
SHOWN_FORMATS = {"text/plain", "text/html", "text/markdown", "text/latex", "image/png"}

MACHINE = {
    "a path of one machine": re.compile(
        r"(?<![\w.~])/(?:home|root|tmp|Users|usr|opt|var|mnt|private|work)/\S+|~/\S+|\b[A-Z]:\\\S+|\S*site-packages\S*"
    ),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{6,}\b"),
}
MOMENT = {  # what a claims or a device cell may show, as the record of one run
    "a time": re.compile(
        r"\b[0-9]+(?:\.[0-9]+)? ?(?:ns|us|µs|μs|ms|s|sec|seconds?|min|minutes?)\b|\bit/s\b|\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b"
    ),
    "a date": re.compile(r"(?<!/)\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b"),  # in an address it names a page
    "a version": re.compile(
        r"(?<![\w.])v?[0-9]+\.[0-9]+\.[0-9]+\b|\b(?:python|torch|pytorch|numpy|matplotlib|cuda|version)\b\W{0,3}v?[0-9]+\.[0-9]+",
        re.IGNORECASE,
    ),
}
EXERCISE = re.compile(r"### Exercise ([0-9]+): \S")
PARTS = ["exercise", "check", "solution"]


def unexecuted(path: Path) -> list[str]:
    """Every code cell was run, in order, in one fresh kernel, and something of it was stored."""
    faults, outputs, number = [], 0, 0
    for number, (place, cell) in enumerate(code_cells(path), start=1):
        outputs += len(cell.outputs)
        if not cell.source.strip():
            faults.append(f"{place}: is empty; delete it")
        elif cell.execution_count is None:
            faults.append(f"{place}: was never run; {RESTORE}")
        elif cell.execution_count != number:
            faults.append(f"{place}: was run as In [{cell.execution_count}]; {RESTORE}")
        faults += [
            f"{place}: its result says Out [{output.execution_count}]; {RESTORE}"
            for output in cell.outputs
            if output.get("execution_count", cell.execution_count) != cell.execution_count
        ]
    if not outputs:
        faults.append(f"{path.name}: no output is stored in its {number} code cells; {RESTORE}")
    return faults


def not_as_stored(path: Path) -> list[str]:
    """The file is byte for byte what `make store` writes, so that a change shows nothing but what changed."""
    have, want = path.read_bytes(), as_stored(read(path))
    if have == want:
        return []
    lines = enumerate(
        itertools.zip_longest(have.splitlines(keepends=True), want.splitlines(keepends=True), fillvalue=b""), start=1
    )
    number, (got, expected) = next((number, pair) for number, pair in lines if pair[0] != pair[1])
    words = f"has {got[:80].decode(errors='replace')!r}, expected {expected[:80].decode(errors='replace')!r}"
    return [f"{path.name}, line {number} of the file: not as make store writes it: {words}; {RESTORE}"]


def unexpected_errors(path: Path) -> list[str]:
    """An error is stored where the tag raises-exception announces it, and nowhere else; nothing went to stderr."""
    faults = []
    for place, cell in code_cells(path):
        errors = [output for output in cell.outputs if output.output_type == "error"]
        announced = "raises-exception" in tags(cell)
        if errors and not announced:
            faults.append(f"{place}: ended in {errors[0].ename}: {errors[0].evalue}")
        if announced and not errors:
            faults.append(f"{place}: is tagged raises-exception and stores no error")
        faults += [
            f"{place}: wrote to stderr: {output.text.strip()}"
            for output in cell.outputs
            if output.get("name") == "stderr"
        ]
    return faults


def unrepeatable_outputs(path: Path) -> list[str]:
    """An output holds nothing that belongs to one machine or one moment, and only formats that the tests compare."""
    faults = []
    for place, cell in code_cells(path):
        for output in cell.outputs:
            kinds = sorted(output.get("data", {}).keys() - SHOWN_FORMATS)
            faults += [f"{place}: shows {kind}, which no test compares; show text or a PNG" for kind in kinds]
        refused = MACHINE if tags(cell) & {"claims", "device"} else MACHINE | MOMENT
        for text in printed_texts(cell.outputs):
            faults += [
                f"{place}: prints {what}: {found[0]}"
                for what, pattern in refused.items()
                if (found := pattern.search(text))
            ]
    return faults


def figure_faults(path: Path) -> list[str]:
    """A figure has words for those who do not see it, a cell of its own, and few bytes."""
    faults = []
    for place, cell in code_cells(path):
        figures = [output.data["image/png"] for output in cell.outputs if "image/png" in output.get("data", {})]
        if not figures:
            continue
        if len(figures) > 1:
            faults.append(f"{place}: shows {len(figures)} figures under one alt text; one figure a cell")
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
        if not isinstance(alt, str) or not alt.strip():
            faults.append(f"{place}: its figure has no alt text; set mystnb.image.alt in the cell's metadata")
        elif re.search(r"\.(?:png|svg|jpe?g|webp)\b", alt) or len(alt.split()) < 4:
            faults.append(f"{place}: its alt text does not say what the figure shows: {alt!r}")
        for figure in figures:
            if (size := len(base64.b64decode(figure))) > LARGEST_FIGURE:
                faults.append(f"{place}: its figure has {size:,} bytes, more than {LARGEST_FIGURE:,}")
    return faults


def unchecked_cells(path: Path) -> list[str]:
    """No cell goes unrun; one whose output is not compared belongs to a tier that allows it, and the next one prints its verdict."""
    faults, cells = [], list(code_cells(path))
    for (place, cell), (_, following) in zip(cells, [*cells[1:], (None, None)]):
        for comment in re.findall(r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_\w+)\s*$", cell.source, re.MULTILINE):
            faults.append(f"{place}: the comment {comment} hides a rule in the code; use a tag")
        if "nbval-skip" in tags(cell):
            faults.append(f"{place}: nbval-skip: a cell that is not run proves nothing; print a verdict in every case")
        if "nbval-ignore-output" in tags(cell):
            if not tags(cell) & {"claims", "device"}:
                faults.append(f"{place}: nbval-ignore-output is only for cells tagged claims or device")
            if (
                following is None
                or "nbval-ignore-output" in tags(following)
                or not any(printed_texts(following.outputs))
            ):
                faults.append(
                    f"{place}: its output is not compared, so the next code cell must print a verdict that is"
                )
    return faults


def exercise_faults(path: Path) -> list[str]:
    """Under each heading `### Exercise N: ...`: cells tagged exercise, check and solution, the last folded and proved right."""
    nb, faults, exercises = read(path), [], []
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            exercises += [
                [line, []]
                for line, inside in fenced(cell.source.splitlines())
                if re.match("#{1,3} ", line) and not inside
            ]
        elif parts := [part for part in PARTS if part in tags(cell)]:
            if not exercises:
                exercises.append(["its beginning", []])
            exercises[-1][1].append((parts, cell))
    numbers = [int(number[1]) for heading, _ in exercises if (number := EXERCISE.match(heading))]
    if not numbers:
        faults.append(f"{path.name}: has no exercise (a heading ### Exercise 1: ...)")
    if numbers != list(range(1, len(numbers) + 1)):
        faults.append(f"{path.name}: exercises are numbered {numbers}")
    for heading, cells in exercises:
        found = [" and ".join(parts) for parts, _ in cells]
        if not EXERCISE.match(heading):
            if found:
                faults.append(
                    f"{path.name}, under {heading!r}: cells tagged {found} outside an exercise (a heading ### Exercise N: ...)"
                )
        elif found != PARTS:
            faults.append(f"{path.name}, under {heading!r}: cells tagged {found}, expected {PARTS}")
        else:
            faults += [f"{path.name}, under {heading!r}: {fault}" for fault in part_faults(cells[1][1], cells[2][1])]
    return faults


def part_faults(check, solution) -> list[str]:
    defined = re.findall(r"^def (check_\w+)\(", check.source, re.MULTILINE)
    said = {part: "".join(printed_texts(cell.outputs)) for part, cell in (("check", check), ("solution", solution))}
    rules = {
        "the check cell defines no function check_...(answer)": bool(defined),
        "the check does not print Not answered yet: the exercise gives its answer away": "Not answered yet"
        in said["check"],
        "the solution is not folded; tag it hide-cell": "hide-cell" in tags(solution),
        "the solution does not call the check_...(answer) of the check cell": any(
            f"{name}(" in solution.source for name in defined
        ),
        "the solution does not print Right": "Right." in said["solution"],
        "the solution is not right in every check": not re.search("Not (yet|answered)", said["solution"]),
    }
    return [fault for fault, kept in rules.items() if not kept]
