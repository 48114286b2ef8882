"""Hold a tensor that somebody computed against what a document prints: the notebooks' way to prove a number."""

from __future__ import annotations

from itertools import groupby

import torch
from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.worked_examples.example import Number, WorkedExample
from attn_lib.worked_examples.rounding import agrees, rounded


def prove(
    example: WorkedExample, stage: str, computed: Tensor, row: str | int | None = None, *, printing: int = 0
) -> None:
    """Assert that a computed stage agrees with what the document prints, and print it at the document's digits.

    A number that the example declares as an erratum has to be off, and the right one right.

    Args:
        example: the worked example.
        stage: which stage ``computed`` is: a name of :class:`attn_lib.AttentionTrace`, or ``d_k``.
        computed: the whole stage, or the row; float64 for hand calculations.
        row: a token, or a row counted from 0, where ``computed`` is that row alone.
        printing: which printing, where the document prints the same part more than once.

    Returns:
        Nothing; what agrees is printed.

    Raises:
        AssertionError: a number that differs, with its place, what was computed and what is printed.
        ValueError: the document does not print this, or not with as many numbers as ``computed`` has.

    >>> from attn_lib.worked_examples import load_builtin
    >>> love = torch.tensor([0.16879, 0.24721, 0.24568, 0.33824])
    >>> prove(load_builtin("self_attention_love"), "weights", love, "love")
    weights of love as printed, 3 of 4 right
      0.1688  0.2472  0.2457  0.3383
      erratum, weights, row love, column learning: printed 0.3383, right 0.3382
    """
    numbers = _printed_numbers(example, stage, row, printing)
    values = torch.as_tensor(computed).detach().double().flatten().tolist()
    require(
        len(numbers) == len(values),
        f"computed has shape {shape_of(torch.as_tensor(computed))}, the document prints {len(numbers)} numbers here",
    )
    corrections, notes = example.corrections, []
    for number, value in zip(numbers, values, strict=True):
        place = example.words(number.place)
        if agrees(number.stated, value):
            continue
        right = corrections.get(number, number).stated
        if not agrees(right, value):
            raise AssertionError(
                f"{place}: computed {rounded(value, number.stated, more=2)}, the document prints {number.text}"
            )
        notes.append(f"  erratum, {place}: printed {number.text}, right {right}")
    what = stage if row is None else f"{stage} of {row}"
    verdict = f"{len(numbers) - len(notes)} of {len(numbers)} right"
    print("\n".join([f"{what} as printed, {verdict}", *_lines(numbers), *notes]))


def _printed_numbers(example: WorkedExample, stage: str, row: str | int | None, printing: int) -> list[Number]:
    wanted = None if row is None else example.position(stage, "row", row)
    parts = [
        [number for number in entry.numbers if wanted is None or number.place.row == wanted]
        for entry in example.printed
        if entry.place.stage == stage
    ]
    parts = [part for part in parts if part]
    require(
        0 <= printing < len(parts),
        f"{example.name} prints this part of {stage} {len(parts)} times; printing {printing} is not there",
    )
    return parts[printing]


def _lines(numbers: list[Number]) -> list[str]:
    width = max(len(number.text) for number in numbers)
    rows = groupby(numbers, lambda number: (number.place.head, number.place.row))
    return ["  " + "  ".join(number.text.rjust(width) for number in row) for _, row in rows]
