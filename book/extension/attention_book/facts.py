"""What a page says about the project, computed while it is built: counts, results, the Python that is needed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from . import repository

if TYPE_CHECKING:
    from attn_lib.worked_examples import Report

COUNTING = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def substitutions(root: Path) -> dict[str, str]:
    """Return what a page may write as ``{{ name }}``.

    Args:
        root: the folder of the repository.
    """
    from attn_lib.worked_examples import builtin_examples, check_example, load_example, published_examples

    own, published = builtin_examples(), published_examples()
    reports = [check_example(load_example(path)) for path in (*own, *published)]
    wrong = [count for count in map(printed_wrongly, reports) if count]
    return {
        "numbers_checked": str(sum(report.checked for report in reports)),
        "own_examples": in_words(len(own)),
        "published_examples": in_words(len(published)),
        "errata_sentence": errata_sentence(sum(wrong), len(wrong)),
        "python_needed": python_needed(root / "pyproject.toml"),
        "run_online": run_online(),
    }


def in_words(count: int) -> str:
    """Return a small number as a word, a larger one in digits."""
    return COUNTING[count] if count < len(COUNTING) else str(count)


def printed_wrongly(report: Report) -> int:
    """Count the numbers of an example that are declared, and proved, to be printed wrongly."""
    return sum(finding.status == "erratum" for row in report.rows for finding in row.findings)


def errata_sentence(numbers: int, examples: int) -> str:
    """Say how many of the numbers had been printed wrongly, and in how many of the calculations."""
    if numbers == 0:
        return "All of them were right."
    where = f"in {in_words(examples)} of these calculations"
    if numbers == 1:
        return f"One of them, {where}, had been printed wrongly; it is shown with the right one."
    return f"{in_words(numbers).capitalize()} of them, {where}, had been printed wrongly; each is shown with the right one."


def python_needed(pyproject: Path) -> str:
    """Return the oldest Python that the package takes, from its own settings."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    return settings["project"]["requires-python"].removeprefix(">=")


def run_online() -> str:
    """Return the paragraph on Colab and Binder, or nothing where the repository's address is unknown."""
    if repository.known() is None:
        return ""
    return (
        "Without a machine of your own: the rocket at the top of each chapter opens it in Colab or on Binder. "
        "Colab takes the notebook that runs on its own, and has a GPU if you ask for one. "
        "Binder installs the whole repository, which takes some minutes."
    )
