"""Drawings without numbers of their own: where things are, and what is joined to what."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.plots.house import (
    CELL_HEIGHT,
    CELL_WIDTH,
    CURVE_COLORS,
    INK,
    PAPER,
    QUIET,
    ROLE_COLORS,
    TEXT_WIDTH,
    BookFigure,
    array,
    finish,
    house_style,
    mix,
    paper,
    titled,
)


def plot_encoder_layer(notes: Mapping[str, str] | None = None, *, title: str) -> BookFigure:
    """An encoder layer from top to bottom: attention, residual connection, LayerNorm, feed-forward network.

    The order is the paper's, with each LayerNorm after its sum; many later models have it before.

    Args:
        notes: what to say beside a box, by its name: "self-attention", "feed-forward", "norm 1", "norm 2",
            "in" or "out".
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        ValueError: a note for a box that is not there.

    Source:
        Vaswani et al. 2017, section 3.1 and figure 1.

    >>> figure = plot_encoder_layer({"in": "positions are in it"}, title="one of N layers")
    >>> "multi-head self-attention" in [text.get_text() for text in figure.axes[0].texts]
    True
    """
    notes = dict(notes or {})
    boxes = {  # name: (what it says, how far down, its colour)
        "in": ("hidden_states  [B, S, D]", 0.0, None),
        "self-attention": ("multi-head self-attention", 2.1, CURVE_COLORS[0]),
        "norm 1": ("LayerNorm", 5.5, QUIET),
        "feed-forward": ("feed-forward network", 8.0, CURVE_COLORS[1]),
        "norm 2": ("LayerNorm", 11.4, QUIET),
        "out": ("hidden_states  [B, S, D]", 13.5, None),
    }
    unknown = sorted(set(notes) - set(boxes))
    require(not unknown, f"notes names no box of the drawing: {unknown}; boxes are {list(boxes)}")
    with house_style():
        figure, ax = paper(10.5, 14.5)
        middle, width = 3.0, 4.6
        for name, (text, y, color) in boxes.items():
            if color is not None:
                ax.add_patch(_box(middle - width / 2, y, width, 1.0, color))
            ax.text(middle, y + 0.52, text, ha="center", va="center")
            ax.text(middle + width / 2 + 1.1, y + 0.52, notes.get(name, ""), ha="left", va="center", color=QUIET,
                    fontsize=9.5)  # fmt: skip
        plus = (4.3, 10.2)
        for y in plus:
            ax.text(middle, y, "+", ha="center", va="center", fontsize=13,
                    bbox={"boxstyle": "circle,pad=0.18", "facecolor": PAPER, "edgecolor": INK})  # fmt: skip
        for top, bottom in ((1.0, 2.1), (3.1, 3.75), (4.85, 5.5), (6.5, 8.0), (9.0, 9.65), (10.75, 11.4), (12.4, 13.5)):
            ax.add_patch(_arrow((middle, top), (middle, bottom)))
        for top, y in ((1.3, plus[0]), (6.9, plus[1])):
            right = middle + width / 2 + 0.6
            ax.plot([middle, right, right], [top, top, y], color=INK, linewidth=1.1, solid_joinstyle="round")
            ax.add_patch(_arrow((right, y), (middle + 0.45, y)))
            ax.text(right + 0.2, (top + y) / 2 + 1.0, "residual connection", va="center", fontsize=9.5, color=QUIET)
        ax.plot([0.25, 0.25], [1.6, 13.0], color=QUIET, linewidth=1.1)
        ax.text(0.0, 7.3, "repeated N times", rotation=90, ha="center", va="center", color=QUIET, fontsize=9.5)
        return titled(figure, ax, title, left=-0.2, above=0.6)


def plot_head_sharing(layouts: Mapping[str, tuple[int, int]], *, title: str) -> BookFigure:
    """Which key and value head each query head reads, for several layouts.

    Args:
        layouts: name to (query heads H, key and value heads Hkv).
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        ValueError: heads that do not divide, more query heads than fit.
    """
    require(len(layouts) > 0, "layouts must not be empty")
    for name, (H, Hkv) in layouts.items():
        require(1 <= Hkv <= H <= 16 and H % Hkv == 0, f"layout {name!r}: Hkv = {Hkv} must divide H = {H}, at most 16")
    step, height = 1.15, 4.4
    with house_style():
        figure, ax = paper(TEXT_WIDTH / CELL_WIDTH, height * len(layouts) - 0.9)
        for index, (name, (H, Hkv)) in enumerate(layouts.items()):
            y, group = index * height, H // Hkv
            ax.text(0, y + 0.9, name, va="center", fontsize=11)
            cell = min(step, (TEXT_WIDTH / CELL_WIDTH - 1.6) / H)
            for h in range(H):
                x, shared = 1.6 + cell * (h + 0.5), 1.6 + cell * (h // group + 0.5) * group
                ax.plot([x, shared], [y + 1.4, y + 2.4], color=QUIET, linewidth=1, zorder=1)
                _letter(ax, x, y + 0.9, "Q", "query", cell)
            for g in range(Hkv):
                x = 1.6 + cell * (g + 0.5) * group
                _letter(ax, x - 0.21 * cell, y + 2.9, "K", "key", cell / 2)
                _letter(ax, x + 0.21 * cell, y + 2.9, "V", "value", cell / 2)
        return titled(figure, ax, title, left=0, above=0.3)


def plot_arrows(
    panels: Mapping[str, Mapping[str, Tensor]], *, roles: Mapping[str, str] | None = None, title: str
) -> BookFigure:
    """Vectors of the plane as arrows from the origin, several drawings side by side on one scale.

    Args:
        panels: name above a drawing to its arrows, each a name and ``[2]``.
        roles: name of an arrow to "query", "key" or "value", for its colour.
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        ValueError: a vector that is not of the plane, no arrow at all.
    """
    roles = roles or {}
    arrows = [(name, vector) for panel in panels.values() for name, vector in panel.items()]
    require(len(arrows) > 0, "panels must hold at least one arrow")
    for name, vector in arrows:
        require(shape_of(vector) == [2], f"arrow {name!r} must be [2], got {shape_of(vector)}")
    longest = max(float(np.hypot(*array(vector))) for _, vector in arrows) or 1.0
    with house_style():
        side = min(2.6, TEXT_WIDTH / len(panels))
        figure = BookFigure(figsize=(side * len(panels), side + 0.5), layout="constrained")
        for ax, (name, panel) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            lengths = sorted({round(float(np.hypot(*array(vector))), 6) for vector in panel.values()})
            for length in lengths:
                ax.add_patch(Circle((0, 0), length, fill=False, edgecolor="#DADADA", linewidth=0.8))
            ax.plot(0, 0, "o", color=QUIET, markersize=3)
            for arrow, vector in panel.items():
                x, y = array(vector)
                color = ROLE_COLORS.get(roles.get(arrow, ""), INK)
                ax.add_patch(_arrow((0, 0), (x, y), color=color, linewidth=1.8))
                away = 1 + 0.16 * longest / max(float(np.hypot(x, y)), 1e-9)
                ax.text(x * away, y * away, arrow, color=color, ha="center", va="center", parse_math=False)
            ax.set(xlim=(-1.35 * longest, 1.35 * longest), ylim=(-1.35 * longest, 1.35 * longest), aspect="equal")
            ax.set_title(name, fontsize=10, color=QUIET)
            ax.set_xticks([])
            ax.set_yticks([])
        return finish(figure, title)


def _box(x: float, y: float, width: float, height: float, color: str) -> FancyBboxPatch:
    style = f"round,pad=0,rounding_size={0.18}"
    return FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=mix(color, 0.16), edgecolor=color,
                          mutation_aspect=CELL_WIDTH / CELL_HEIGHT)  # fmt: skip


def _arrow(start: tuple[float, float], end: tuple[float, float], color: str = INK, linewidth: float = 1.1):
    return FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0, color=color,
                           linewidth=linewidth)  # fmt: skip


def _letter(ax, x: float, y: float, letter: str, role: str, width: float) -> None:
    """A head: a tile in the colour of its role, with the letter that says the same."""
    tile = 0.78 * width
    ax.add_patch(Rectangle((x - tile / 2, y - 0.5), tile, 1.0, facecolor=mix(ROLE_COLORS[role], 0.25), zorder=2,
                           edgecolor=ROLE_COLORS[role], linewidth=0.9))  # fmt: skip
    size = min(10.0, 72 * tile * CELL_WIDTH * 0.9)
    ax.text(x, y + 0.02, letter, ha="center", va="center", fontsize=size, color=INK, zorder=3)
