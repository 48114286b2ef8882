"""The check behind every exercise: it says right, or what is off, and never gives the answer away."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_lib.errors import shape_of


def check_answer(answer, expected, *, digits: int = 3, hints: Sequence[tuple[object, str]] = ()) -> None:
    """Print a verdict on a reader's answer.

    Args:
        answer: what the reader filled in; ``...`` or None means not answered yet.
        expected: the right value: a bool, a string, a number, a (nested) list of numbers, or a tensor.
        digits: decimals that the exercise asks for; a number is right when it is off by no more than
            half a unit of that digit, so that rounded and unrounded answers both pass.
        hints: pairs of a wrong value and what it comes from, printed when the answer is that value.
    """
    print(_verdict(answer, expected, digits, hints))


def _verdict(answer, expected, digits: int, hints) -> str:
    if answer is None or answer is ...:
        return "Not answered yet: replace the dots, run your cell, then this one."
    off = _what_is_off(answer, expected, digits)
    if off is None:
        return "Right."
    for wrong, why in hints:
        if _what_is_off(answer, wrong, digits) is None:
            return f"Not yet: {why}"
    return f"Not yet: {off}"


def _what_is_off(answer, expected, digits: int) -> str | None:
    """None when the answer is right, else one line that names the place but not the value."""
    if isinstance(expected, bool | str):
        if type(answer) is not type(expected):
            return f"the answer should be a {type(expected).__name__}, yours is a {type(answer).__name__}."
        return None if answer == expected else "that is not it."
    expected = torch.as_tensor(expected)
    try:
        answer = answer.detach() if isinstance(answer, Tensor) else torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        return f"the answer should be numbers of shape {shape_of(expected)}, yours is a {type(answer).__name__}."
    if answer.shape != expected.shape:
        return f"the shape should be {shape_of(expected)}, yours is {shape_of(answer)}."
    if (answer.dtype == torch.bool) != (expected.dtype == torch.bool):
        kind = "True and False" if expected.dtype == torch.bool else "numbers"
        return f"the answer should hold {kind}, yours holds {str(answer.dtype).removeprefix('torch.')}."
    if expected.dtype == torch.bool:
        differs = answer != expected
    else:
        # A NaN compares as not close, so it counts as off.
        differs = ~((answer.double() - expected.double()).abs() <= 0.501 * 10.0**-digits)
    if not differs.any():
        return None
    if expected.dim() == 0:
        return f"the number is off; {digits} decimals are asked for." if expected.dtype != torch.bool else "no."
    place = differs.nonzero()[0].tolist()
    return f"{int(differs.sum())} of {differs.numel()} entries are off, the first at {place}."
