"""The middle of some numbers, and how far they lie apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Middle:
    """A median, and half the interquartile range as a share of it.

    >>> Middle.of([2.0, 4.0, 5.0, 4.0, 3.0])
    Middle(median=4.0, spread=0.125)
    """

    median: float
    spread: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Middle:
        median = statistics.median(numbers)
        if len(numbers) < 2:
            return cls(median, 0.0)
        first, _, third = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(median, (third - first) / 2 / median)

    @classmethod
    def of_ratios(cls, numbers: Sequence[float], others: Sequence[float]) -> Middle:
        """Of the ratios round by round: a slow spell of the machine hits both sides of a ratio, and cancels."""
        return cls.of([number / other for number, other in zip(numbers, others, strict=True)])
