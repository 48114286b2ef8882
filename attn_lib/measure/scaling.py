"""How a cost grows: exponents of power laws, and where two curves cross."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attn_lib.errors import require, require_bool


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The p of ``cost = c * size ** p`` that fits best: the slope of a straight line through the logarithms.

    Args:
        sizes: at least two different sizes, above 0.
        costs: what each of them cost, above 0.

    Returns:
        The slope of least squares. A sum of several powers has no one exponent, so look at
        :func:`local_exponents` before you believe it.

    Raises:
        ValueError: lists of different lengths, fewer than two different sizes, a number that has no logarithm.

    Source:
        ``numpy.polyfit``, of degree 1 in the logarithms.

    In PyTorch:
        No counterpart.

    >>> fit_exponent([1, 2, 4, 8], [3, 12, 48, 192])  # four times as much for twice the size
    2.0
    """
    x, y = _logarithms(sizes, costs=costs)
    return float(np.round(np.polyfit(x, y, 1)[0], 12))


def local_exponents(sizes: Sequence[float], costs: Sequence[float]) -> list[float]:
    """The exponent from each size to the next: they agree where one power law holds.

    Args:
        sizes: at least two, above 0, ascending.
        costs: what each of them cost, above 0.

    Returns:
        One number fewer than there are sizes.

    Raises:
        ValueError: lists of different lengths, fewer than two different sizes, sizes that do not ascend, a number
            that has no logarithm.

    Source:
        The slope of the chord in a plot with logarithms on both axes.

    In PyTorch:
        No counterpart.

    >>> local_exponents([1, 2, 4], [2, 6, 20])  # size + size ** 2: from below 2 towards 2
    [1.584962500721, 1.736965594166]
    """
    x, y = _logarithms(sizes, costs=costs)
    require(bool((np.diff(x) > 0).all()), f"sizes must ascend, got {list(sizes)}")
    return np.round(np.diff(y) / np.diff(x), 12).tolist()


def crossing(sizes: Sequence[float], first: Sequence[float], second: Sequence[float], *, fit: bool = False) -> float:
    """The size from which the second cost is above the first one.

    Between two measured sizes both are taken to be power laws, straight lines in the logarithms. With ``fit`` their
    ratio is taken to be one power law over all sizes, which a single noisy number hardly moves.

    Args:
        sizes: at least two, above 0, ascending.
        first: costs at these sizes, the higher ones at the start.
        second: costs at these sizes, the higher ones at the end.
        fit: by one line through all sizes.

    Returns:
        The size at which they are equal, the last one if they cross more than once (as noisy ones do). A fitted line
        may cross outside the sizes.

    Raises:
        ValueError: lists that do not fit together, curves that do not cross between the first size and the last; with
            ``fit``, a second cost that does not grow faster than the first.
        TypeError: fit that is no bool.

    Source:
        Linear interpolation, or least squares, of the logarithm of their ratio.

    In PyTorch:
        No counterpart.

    >>> crossing([1, 2, 8], [4, 8, 32], [1, 4, 64])  # 4 x and x ** 2
    4.0
    """
    x, below, above = _logarithms(sizes, first=first, second=second)
    require(bool((np.diff(x) > 0).all()), f"sizes must ascend, got {list(sizes)}")
    require_bool("fit", fit)
    lead = above - below  # of the second
    if fit:
        slope, start = np.polyfit(x, lead, 1)
        require(slope > 0, f"the second cost must grow faster than the first; by the fit it does so by {slope:.3g}")
        return float(np.round(np.exp(-start / slope), 9))
    turns = np.flatnonzero((lead[:-1] <= 0) & (lead[1:] > 0))
    if not len(turns) or lead[-1] <= 0:
        raise ValueError(
            f"the second cost must rise above the first between sizes {sizes[0]} and {sizes[-1]}, and stay there;"
            f" it is {np.exp(lead[0]):.3g} times the first at the start, {np.exp(lead[-1]):.3g} times at the end"
        )
    at = turns[-1]
    share = -lead[at] / (lead[at + 1] - lead[at])
    return float(np.round(np.exp(x[at] + share * (x[at + 1] - x[at])), 9))


def _logarithms(sizes: Sequence[float], **costs: Sequence[float]) -> list[np.ndarray]:
    """The logarithms of the sizes, and of each of the lists of costs, by the name of the argument."""
    require(len(set(sizes)) > 1, f"sizes must hold two different ones, got {list(sizes)}")
    for name, numbers in {"sizes": sizes, **costs}.items():
        require(len(numbers) == len(sizes), f"{name} must be as many as sizes, {len(sizes)}, got {len(numbers)}")
        for number in numbers:
            fits = 0 < number < np.inf  # so is no NaN
            require(fits, f"{name} must be finite and above 0 to have a logarithm, got {number}")
    return [np.log(np.asarray(numbers, dtype=float)) for numbers in (sizes, *costs.values())]
