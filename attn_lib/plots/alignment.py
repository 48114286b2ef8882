"""Two sentences side by side, and lines from the words of the one to those of the other."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.plots.house import (
    CELL_WIDTH,
    INK,
    ROLE_COLORS,
    WEIGHT_MAP,
    BookFigure,
    array,
    check_names,
    house_style,
    inches,
    paper,
    titled,
)

GAP = 3.6  # columns of the paper between the two sentences
LEAST = 0.05  # a smaller weight has no line


def plot_alignment(
    weights: Tensor, query_tokens: Sequence[str], key_tokens: Sequence[str], *, title: str
) -> BookFigure:
    """Where each word of one sentence looks in another: the larger the weight, the thicker and darker the line.

    Lines that cross show that the order of the words differs. A weight below 0.05 has no line.

    Args:
        weights: ``[T, S]``, of one head.
        query_tokens: T names, on the right, from top to bottom.
        key_tokens: S names, on the left, from top to bottom.
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        ValueError: weights that are no matrix, or not from 0 to 1, names that are too many or too few.

    >>> figure = plot_alignment(Tensor([[0.0, 1.0], [0.99, 0.01]]), ["猫が", "寝る"], ["sleeps", "cat"], title="turned")
    >>> len(figure.axes[0].lines)
    2
    """
    matrix = array(weights)
    require(matrix.ndim == 2, f"weights must be [T, S], got {shape_of(weights)}")
    require(bool(((matrix >= 0) & (matrix <= 1)).all()), "weights must be from 0 to 1")
    T, S = matrix.shape
    check_names("query_tokens", query_tokens, T)
    check_names("key_tokens", key_tokens, S)
    height = max(T, S)
    left = inches([*key_tokens, "key"]) / CELL_WIDTH
    right = left + GAP
    with house_style():
        # No wider than it must be: a phone shows all of it.
        figure, ax = paper(right + inches([*query_tokens, "query"]) / CELL_WIDTH, height + 1)
        for role, x, ha, names in (("key", left, "right", key_tokens), ("query", right, "left", query_tokens)):
            start = (height - len(names)) / 2 + 1  # the shorter sentence stands in the middle
            ax.text(x, 0.3, role, ha=ha, va="center", color=ROLE_COLORS[role])
            for row, name in enumerate(names):
                ax.text(x, start + row + 0.5, name, ha=ha, va="center", color=INK, parse_math=False)
        for t in range(T):
            for s in range(S):
                if (weight := matrix[t, s]) >= LEAST:
                    ends = (height - S) / 2 + s + 1.5, (height - T) / 2 + t + 1.5
                    ax.plot([left + 0.25, right - 0.25], ends, color=WEIGHT_MAP(0.25 + 0.75 * weight),
                            linewidth=0.5 + 4 * weight, solid_capstyle="round", zorder=weight)  # fmt: skip
        return titled(figure, ax, title, left=0, above=0.5)
