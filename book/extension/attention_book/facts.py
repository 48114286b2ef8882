"""What a page says about the project, computed while it is built: counts, results, the Python that is needed."""

from __future__ import annotations

import tomllib
from pathlib import Path

from . import repository

COUNTING = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def substitutions(root: Path) -> dict[str, str]:
    """Return what a page may write as ``{{ name }}``.

    Args:
        root: the folder of the repository.
    """
    from attn_lib.worked_examples import builtin_examples, check_example, load_example

    examples = {path.stem: load_example(path) for path in builtin_examples()}
    reports = [check_example(example) for example in examples.values()]
    errata = sum(len(report.errata) for report in reports)
    return {
        "numbers_checked": str(sum(report.checked for report in reports)),
        "numbers_given": str(sum(report.given for report in reports)),
        "examples_checked": in_words(len(reports)),
        "errata": str(errata),
        "errata_sentence": errata_sentence(errata),
        "python_needed": python_needed(root / "pyproject.toml"),
        "run_online": run_online(),
    }


def in_words(count: int) -> str:
    """Return a small number as a word, a larger one in digits."""
    return COUNTING[count] if count < len(COUNTING) else str(count)


def errata_sentence(errata: int) -> str:
    """Say how many of the numbers had been printed wrongly."""
    if errata == 0:
        return "All of them were right."
    wrong = in_words(errata).capitalize()
    return (
        f"{wrong} of them had been printed wrongly; the book shows {'it' if errata == 1 else 'them'}, with the reason."
    )


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
