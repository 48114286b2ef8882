"""When a printed number is right: exactly when the value, rounded to the printed digits, is that number."""

from __future__ import annotations

import math
from decimal import Context, Decimal

# Float64 rounds at each step of a calculation, so a value that should lie on a tie lies a little beside
# it. This is the worth of 64 roundings, relative to the value: it shows from the 14th digit on only.
NOISE = 64 * Decimal(2) ** -52
# Wide enough for every float64 written out to any digit that a file may print.
_CONTEXT = Context(prec=1200)


def unit(text: str) -> float:
    """The power of ten of the last printed digit; -inf for an infinity.

    >>> unit("0.930"), unit("12"), unit("1.2e3")
    (-3, 0, 2)
    """
    exponent = Decimal(text).as_tuple().exponent
    return exponent if isinstance(exponent, int) else -math.inf


def agrees(text: str, value: float) -> bool:
    """Whether a printed number is right: within half a unit of its last digit; a tie may go either way.

    >>> agrees("0.930", 0.9295), agrees("0.930", 0.9294)
    (True, False)
    """
    stated = Decimal(text)
    if not math.isfinite(value) or not stated.is_finite():
        return float(stated) == value
    exact = Decimal(value)
    return abs(_CONTEXT.subtract(exact, stated)) <= Decimal((0, (5,), int(unit(text)) - 1)) + abs(exact) * NOISE


def padded(text: str, decimals: int | None) -> str:
    """A printed number with the zeros that its printing leaves out at the end.

    Many programs print 1 for 1.0000: without its zeros a number says less than was meant, and nearly anything would agree.

    >>> padded("1.", 4), padded("0.5", 4), padded("0.26894", 4), padded("1", None)
    ('1.0000', '0.5000', '0.26894', '1')
    """
    if decimals is None or unit(text) <= -decimals or not Decimal(text).is_finite():
        return text
    return f"{_CONTEXT.quantize(Decimal(text), Decimal((0, (1,), -decimals))):f}"


def rounded(value: float, like: str, more: int = 0) -> str:
    """The value with the digits of a printed number, or with some more.

    >>> rounded(0.338238, like="0.3383"), rounded(0.338238, like="0.3383", more=2)
    ('0.3382', '0.338238')
    """
    if not math.isfinite(value) or "inf" in like:
        return str(value)
    number = _CONTEXT.quantize(Decimal(value), Decimal((0, (1,), int(unit(like)) - more)))
    number = number if number else abs(number)  # no -0.00
    return str(number).lower() if "e" in like.lower() else f"{number:f}"
