"""The check behind every exercise: it says right, or what is off, and never gives the answer away."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attn_lib.errors import shape_of


def check_answer(answer, expected, *, digits: int = 3, hints: Sequence[tuple[object, str]] = ()) -> None:
    """Print a verdict on a reader's answer.

    Args:
        answer: what the reader filled in; ``...`` means not answered yet, and so does None, which is what a
            function without a ``return`` gives.
        expected: the right value: a bool, a string (capitals do not matter), a number, a (nested) list of
            numbers, or a tensor.
        digits: decimals that the exercise asks for; a number is right when it is off by no more than
            half a unit of that digit, so that rounded and unrounded answers both pass.
        hints: pairs of a wrong value and what it comes from, printed when the answer is that value.

    Returns:
        Nothing; the verdict is printed, in one line, and never gives the answer away. No answer raises an error.

    >>> check_answer(..., 0.25)
    Not answered yet: replace the dots, then run both cells.
    >>> check_answer([0.5, 0.25], [0.25, 0.25])
    Not yet: 1 of 2 entries are off, the first at [0].
    >>> check_answer(0.5, 0.25, hints=[(0.5, "there are four keys, not two.")])
    Not yet: there are four keys, not two.
    >>> check_answer(0.893, 0.89327)
    Right.
    """
    print(_verdict(answer, expected, digits, hints))


def _verdict(answer, expected, digits: int, hints) -> str:
    if answer is None:
        return "Not answered yet: the function returns nothing."
    if answer is ...:
        return "Not answered yet: replace the dots, then run both cells."
    if isinstance(answer, list | tuple) and any(part is ... for part in answer):
        return "Not answered yet: some dots are left."
    off = _what_is_off(answer, expected, digits)
    if off is None:
        return "Right."
    for wrong, why in hints:
        if _what_is_off(answer, wrong, digits) is None:
            return f"Not yet: {why}"
    return f"Not yet: {off}"


def _what_is_off(answer, expected, digits: int) -> str | None:
    """None when the answer is right, else one line that names the place but not the value."""
    if isinstance(answer, Tensor | np.generic) and answer.ndim == 0:
        answer = answer.item()
    if isinstance(expected, bool | str):
        if type(answer) is not type(expected):
            return f"the answer should be a {type(expected).__name__}, yours is a {type(answer).__name__}."
        same = answer.lower() == expected.lower() if isinstance(expected, str) else answer == expected
        return None if same else "that is not it."
    expected = torch.as_tensor(expected)
    try:
        if isinstance(answer, list | tuple) and any(isinstance(part, Tensor) for part in answer):
            answer = torch.stack([torch.as_tensor(part) for part in answer])
        answer = answer.detach() if isinstance(answer, Tensor) else torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        return f"the answer should be numbers of shape {shape_of(expected)}, yours is a {type(answer).__name__}."
    if answer.shape != expected.shape:
        return f"the shape should be {shape_of(expected)}, yours is {shape_of(answer)}."
    if answer.is_complex():
        return "the answer should hold real numbers, yours holds complex ones."
    if (answer.dtype == torch.bool) != (expected.dtype == torch.bool):
        kind = "True and False" if expected.dtype == torch.bool else "numbers"
        return f"the answer should hold {kind}, yours holds {str(answer.dtype).removeprefix('torch.')}."
    if expected.dtype == torch.bool:
        differs = answer != expected
    else:
        # A NaN compares as neither close nor equal, so it counts as off; an infinity equals itself.
        close = (answer.double() - expected.double()).abs() <= 0.501 * 10.0**-digits
        differs = ~(close | (answer == expected))
    if not differs.any():
        return None
    if answer.is_floating_point() and answer.isnan().any():
        return "it holds NaN, not a number: something overflowed, or was divided by zero."
    if expected.dim() == 0:
        return f"the number is off{f'; {digits} decimals are asked for' if expected.is_floating_point() else ''}."
    place = differs.nonzero()[0].tolist()
    return f"{int(differs.sum())} of {differs.numel()} entries are off, the first at {place}."
