"""No digit of a worked-example file is idle: change any one, and the check fails and names a place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from attn_lib.worked_examples import ExampleError, builtin_examples, check_example, load_example

FILES = builtin_examples()
PLACE = re.compile(
    r"(Q|K|V|scores|scaled_scores|weights|concatenated|output|d_k)(, row \S+)?(, column \S+|, \w+sum|, sum)?[ :]"
)


def mutants(text: str) -> Iterator[tuple[int, str, str]]:
    """Every digit changed to its neighbour, the smallest change there is: offset, the new text, the new number."""
    for match in re.finditer("[0-9]", text):
        i, digit = match.start(), int(match[0])
        changed = f"{text[:i]}{digit + 1 if digit < 9 else digit - 1}{text[i + 1 :]}"
        number = next(m[0] for m in re.finditer(r"[-0-9.e]+", changed) if m.start() <= i < m.end())
        yield i, changed, number


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_single_changed_digit_fails_and_the_message_names_the_place(path, tmp_path):
    text = path.read_text(encoding="utf-8")
    assert check_example(load_example(path)).verdict == "right"
    answers = text.index("\nprinted:" if "\nprinted:" in text else "\nclaims:")
    survivors, nameless, tried = [], [], 0
    for offset, changed, number in mutants(text):
        copy = tmp_path / path.name
        copy.write_text(changed, encoding="utf-8")
        tried += 1
        line = text.count("\n", 0, offset) + 1
        what = f"{path.name}:{line}: {number}"
        try:
            report = check_example(load_example(copy))
        except ExampleError as error:
            # The file no longer fits together: then the line itself is named, or the given it contradicts.
            if not re.match(rf"{re.escape(str(copy))}:[0-9]+: \w", str(error)):
                nameless.append((what, str(error)))
            continue
        if report.verdict == "right":
            survivors.append(what)
            continue
        said = (
            [report.line] if offset < answers else [finding.says for finding in report.wrong if number in finding.says]
        )
        if not said or not PLACE.search(said[0]):
            nameless.append((what, report.line))
    assert tried > 15
    assert survivors == []
    assert nameless == []
