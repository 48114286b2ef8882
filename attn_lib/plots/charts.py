"""Bars and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.plots.house import (
    CURVE_COLORS,
    INK,
    PAPER,
    QUIET,
    ROLE_COLORS,
    TEXT_WIDTH,
    WEIGHT_MAP,
    BookFigure,
    array,
    check_names,
    finish,
    house_style,
    mix,
    number,
    readable_on,
)

MARKERS, LINES = ("o", "s", "^", "D"), ("-", "--", "-.", ":")  # of the curves, in the order of their colours


def plot_steps(stages: Mapping[str, Tensor], key_tokens: Sequence[str], *, title: str, digits: int = 4) -> BookFigure:
    """One query's way from scores to weights: a panel of bars for each stage, a bar for each key.

    Args:
        stages: name to a row ``[S]``.
        key_tokens: S names.
        title: the finding, in a few words.
        digits: decimals at the bars.

    Returns:
        The figure.

    Raises:
        ValueError: names that are too many or too few.
    """
    for name, row in stages.items():
        check_names("key_tokens", key_tokens, len(row), f"stages[{name!r}]")
    with house_style():
        height = 0.34 * len(key_tokens) + 1.2
        figure = BookFigure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(1, len(stages), sharey=True, squeeze=False)[0]
        for ax, (name, row) in zip(axes, stages.items(), strict=True):
            row = array(row)
            last = name == list(stages)[-1]
            # A masked score is -inf: it has no bar, and its number says so.
            lengths = np.where(np.isfinite(row), row, 0.0)
            bars = ax.barh(range(len(row)), lengths, height=0.66, color=WEIGHT_MAP(0.65) if last else "#C9C9C9")
            ax.bar_label(bars, [number(each, digits) for each in row], padding=3, fontsize=9)
            ax.set_xlim(min(0, lengths.min() * 1.42), max(0, lengths.max() * 1.42) or 1)
            ax.set_title(name, fontsize=10, color=INK if last else QUIET)
            ax.set_xticks([])
            ax.tick_params(length=0)
        axes[0].set_yticks(range(len(key_tokens)), key_tokens, parse_math=False)
        axes[0].invert_yaxis()
        axes[0].set_ylabel("key", color=ROLE_COLORS["key"])
        return finish(figure, title)


def plot_blend(weights: Tensor, value: Tensor, key_tokens: Sequence[str], *, title: str, digits: int = 3) -> BookFigure:
    """The weighted sum as stacked bars: how much of each output number came from which value.

    Args:
        weights: ``[S]``, one query's weights.
        value: ``[S, Dv]``, not negative (a stack of bars cannot show a subtraction).
        key_tokens: S names.
        title: the finding, in a few words.
        digits: decimals of the sums.

    Returns:
        The figure.

    Raises:
        ValueError: negative values, shapes that do not fit, names that are too many or too few.
    """
    require(weights.shape == value.shape[:1], f"weights {shape_of(weights)} must be [S] for value {shape_of(value)}")
    require(bool((value >= 0).all()), "value must not be negative: a stack of bars cannot show a subtraction")
    check_names("key_tokens", key_tokens, len(value))
    parts = array(weights)[:, None] * array(value)  # [S, Dv]
    with house_style():
        width = parts.shape[1]
        figure = BookFigure(figsize=(TEXT_WIDTH, 0.5 * width + 1.5), layout="constrained")
        ax = figure.subplots()
        left = np.zeros(width)
        for index, (token, part) in enumerate(zip(key_tokens, parts, strict=True)):
            shade = 0.18 + 0.6 * index / max(1, len(parts) - 1)
            color = mix(ROLE_COLORS["value"], shade)
            ax.barh(
                range(width), part, left=left, height=0.62, label=token, edgecolor=PAPER, linewidth=1.2, color=color
            )
            for dim, (start, length) in enumerate(zip(left, part, strict=True)):
                if length > 0.09 * parts.sum(axis=0).max():
                    ax.text(start + length / 2, dim, f"{length:.{digits}f}", ha="center", va="center", fontsize=9,
                            color=readable_on(color))  # fmt: skip
            left = left + part
        for dim, total in enumerate(left):
            ax.text(total, dim, f"  {total:.{digits}f}", va="center", fontsize=12)
        ax.set_yticks(range(width), [f"output [{dim}]" for dim in range(width)])
        ax.invert_yaxis()
        ax.set_xticks([])
        ax.set_xlim(0, left.max() * 1.15)
        ax.tick_params(length=0)
        ax.legend(ncols=len(key_tokens), loc="upper left", bbox_to_anchor=(0, -0.02), frameon=False, fontsize=10,
                  handlelength=1.2, title="weight × value of", title_fontsize=9, alignment="left")  # fmt: skip
        return finish(figure, title)


def plot_curves(
    x: Sequence[float] | Tensor,
    curves: Mapping[str, Sequence[float] | Tensor],
    *,
    predicted: Mapping[str, Sequence[float] | Tensor] | None = None,
    x_label: str,
    y_label: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
) -> BookFigure:
    """What was measured as marked lines, what was predicted as grey dashes, each with its name at its end.

    Args:
        x: the N places.
        curves: name to N measured numbers; at most four curves. NaN where a curve has no number: it ends, or has a gap.
        predicted: name to N predicted numbers.
        x_label: what x is, and its unit.
        y_label: what y is, and its unit.
        title: the finding, in a few words.
        log_x: x in powers.
        log_y: y in powers; then no number may be 0 or below.

    Returns:
        The figure.

    Raises:
        ValueError: curves of another length, too many of them, numbers that a logarithmic axis cannot show.

    >>> figure = plot_curves([1, 2], {"keys": [1.0, 4.0]}, x_label="S", y_label="pairs", title="four times")
    >>> figure.axes[0].get_xlabel(), [text.get_text() for text in figure.axes[0].texts]
    ('S', ['keys'])
    """
    predicted = predicted or {}
    require(1 <= len(curves) <= len(CURVE_COLORS), f"curves must be 1 to {len(CURVE_COLORS)}, got {len(curves)}")
    places = array(x)
    for name, values in (*curves.items(), *predicted.items()):
        fits = array(values).shape == places.shape
        require(fits, f"curve {name!r} must have {len(places)} numbers, as x has, got {len(values)}")
        there = array(values)[np.isfinite(array(values))]
        require(len(there) > 0, f"curve {name!r} must have a number that is finite")
        require(not log_y or bool((there > 0).all()), f"curve {name!r} must be above 0 to have a logarithm")
    require(not log_x or bool((places > 0).all()), "x must be above 0 to have a logarithm")
    with house_style():
        figure = BookFigure(figsize=(TEXT_WIDTH, 3.2), layout="constrained")
        ax = figure.subplots()
        if log_x:
            ax.set_xscale("log", base=2)
            ax.set_xticks(places, [f"{place:g}" for place in places], fontsize=9, minor=False)
        elif bool((places == places.round()).all()):
            ax.xaxis.get_major_locator().set_params(integer=True)  # there is no half head
        if log_y:
            ax.set_yscale("log")
        ends = []
        for name, values in predicted.items():
            ax.plot(places, array(values), color=QUIET, linestyle=(0, (4, 3)), linewidth=1.2, zorder=3)
            ends.append((name, *_end(places, values), QUIET))
        for (name, values), color, marker, line in zip(curves.items(), CURVE_COLORS, MARKERS, LINES, strict=False):
            marker = marker if len(places) <= 24 else ""
            ax.plot(places, array(values), color=color, marker=marker, markersize=4.5, linestyle=line, linewidth=1.6)
            ends.append((name, *_end(places, values), color))
        ax.set(xlabel=x_label, ylabel=y_label)
        ax.spines[["left", "bottom"]].set_visible(True)
        ax.grid(axis="y", color="#E4E4E4", linewidth=0.7)
        ax.set_axisbelow(True)
        _name_the_ends(ax, ends)
        return finish(figure, title)


def _end(places: np.ndarray, values: Sequence[float] | Tensor) -> tuple[float, float]:
    """The last point that a curve has."""
    last = np.flatnonzero(np.isfinite(array(values)))[-1]
    return places[last], array(values)[last]


def _name_the_ends(ax, ends: list[tuple[str, float, float, str]]) -> None:
    """Each name right of its curve's last point, moved up or down until no two of them touch.

    Where a curve ends before the others there is no room on its right: its name stands above.
    """
    last = max(x for _, x, _, _ in ends)
    for name, x, y, color in ends:
        if x < last:
            ax.annotate(
                name, (x, y), xytext=(0, 6), textcoords="offset points", ha="center", color=color, parse_math=False
            )
    ends = [end for end in ends if end[1] == last]
    height = 13.0  # points
    to_points = ax.figure.dpi / 72
    ax.figure.draw_without_rendering()
    wanted = [ax.transData.transform((x, y))[1] / to_points for _, x, y, _ in ends]
    order = sorted(range(len(ends)), key=wanted.__getitem__)
    placed = np.array([wanted[index] for index in order])
    for _ in range(50):  # push neighbours apart; a handful of names settle at once
        overlap = np.maximum(0.0, height - np.diff(placed))
        placed[:-1] -= overlap / 2
        placed[1:] += overlap / 2
    for index, y in zip(order, placed, strict=True):
        name, x, value, color = ends[index]
        ax.annotate(name, (x, value), xytext=(9, y - wanted[index]), textcoords="offset points", va="center",
                    color=color, annotation_clip=False, parse_math=False)  # fmt: skip
