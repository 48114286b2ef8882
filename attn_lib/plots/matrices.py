"""Matrices on squared paper: rows are queries, columns are keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from torch import Tensor

from attn_lib.errors import require, shape_of
from attn_lib.plots.house import (
    CELL_HEIGHT,
    CELL_WIDTH,
    HEAD_COLORS,
    INK,
    LEAST_CELL,
    PAPER,
    QUIET,
    ROLE_COLORS,
    SIGNED_MAP,
    SMALL_HEIGHT,
    TEXT_WIDTH,
    WEIGHT_MAP,
    BookFigure,
    array,
    check_names,
    crowded,
    house_style,
    inches,
    mix,
    number,
    paper,
    plural,
    readable_on,
    tinted,
    titled,
)


def plot_weights(
    weights: Tensor | Sequence[Tensor],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    title: str,
    names: Sequence[str] = (),
    digits: int = 2,
    row_label: str = "query",
    column_label: str = "key",
) -> BookFigure:
    """Attention weights as a matrix, the number in every cell.

    Args:
        weights: ``[T, S]``, or several of them (a list, or ``[H, T, S]``), drawn side by side.
        query_tokens: T names for the rows.
        key_tokens: S names for the columns; the query tokens when left out.
        title: the finding, in a few words.
        names: one name above each matrix when there are several.
        digits: decimals in the cells.
        row_label: what the rows are, where one query is asked by several heads.
        column_label: what the columns are.

    Returns:
        The figure.

    Raises:
        ValueError: weights of another shape, names that are too many or too few.

    >>> figure = plot_weights(torch.eye(2), ["a", "b"], title="itself alone")
    >>> [text.get_text() for text in figure.axes[0].texts][:4]  # in the cells
    ['1.00', '0.00', '0.00', '1.00']
    """
    key_tokens = query_tokens if key_tokens is None else key_tokens
    several = _several("weights", weights, names)
    check_names("query_tokens", query_tokens, several.shape[1])
    check_names("key_tokens", key_tokens, several.shape[2])
    panels = _panels(several, WEIGHT_MAP(several), query_tokens, key_tokens, names)
    return _side_by_side(panels, title=title, digits=digits, labels=(row_label, column_label))


def plot_masks(
    masks: Mapping[str, Tensor],
    query_tokens: Sequence[str] | Mapping[str, Sequence[str]],
    key_tokens: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    *,
    title: str,
) -> BookFigure:
    """Boolean masks side by side: a tick where a query may look, a small cross where it may not.

    Args:
        masks: name to ``[T, S]``, True where a key may be attended.
        query_tokens: T names for the rows, or name of the mask to its own.
        key_tokens: S names for the columns, or name of the mask to its own; the query tokens when left out.
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        TypeError: a mask that is not boolean.
        ValueError: a mask that is not ``[T, S]``, names that are too many or too few.

    >>> figure = plot_masks({"causal": torch.ones(2, 2).tril().bool()}, ["a", "b"], title="no future")
    >>> [text.get_text() for text in figure.axes[0].texts][:4]  # in the cells
    ['✓', '×', '✓', '✓']
    """
    require(len(masks) > 0, "masks must not be empty")
    key_tokens = query_tokens if key_tokens is None else key_tokens
    panels = []
    for name, mask in masks.items():
        if mask.dtype != torch.bool:
            raise TypeError(f"mask {name!r} must be boolean, got {mask.dtype}")
        require(mask.dim() == 2 and mask.numel() > 0, f"mask {name!r} must be [T, S], got {shape_of(mask)}")
        rows, columns = (each[name] if isinstance(each, Mapping) else each for each in (query_tokens, key_tokens))
        check_names("query_tokens", rows, mask.shape[0], f"mask {name!r}")
        check_names("key_tokens", columns, mask.shape[1], f"mask {name!r}")
        seen = mask.cpu().numpy()
        colors = np.where(seen[..., None], WEIGHT_MAP(0.42)[:3], to_rgb("#F1F1F1"))
        rows = rows if not panels or isinstance(query_tokens, Mapping) else ()
        panels.append(Panel(seen, colors, rows, columns, name, np.where(seen, "✓", "×")))
    return _side_by_side(panels, title=title, least=0.2)


def plot_signed(
    matrix: Tensor | Sequence[Tensor],
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    title: str,
    names: Sequence[str] = (),
    digits: int = 2,
    row_label: str = "query",
    column_label: str = "key",
) -> BookFigure:
    """Numbers of either sign: white at 0, violet above it, ochre below it. A matrix too large for numbers has none.

    Args:
        matrix: ``[T, S]``, or several of them (a list, or ``[H, T, S]``), drawn side by side.
        rows: T names.
        columns: S names; those of the rows when left out.
        title: the finding, in a few words.
        names: one name above each matrix when there are several.
        digits: decimals in the cells.
        row_label: what the rows are.
        column_label: what the columns are.

    Returns:
        The figure, on one scale for all its matrices. The largest number, whatever its sign, has the darkest cell.

    Raises:
        ValueError: a matrix of another shape, names that are too many or too few.
    """
    columns = rows if columns is None else columns
    several = _several("matrix", matrix, names)
    check_names("rows", rows, several.shape[1])
    check_names("columns", columns, several.shape[2])
    most = np.abs(several).max() or 1.0
    panels = _panels(several, SIGNED_MAP(0.5 + 0.5 * several / most), rows, columns, names)
    labels = (row_label, column_label)
    return _side_by_side(panels, title=title, digits=digits, labels=labels, small_cells=True)


def plot_projections(
    sources: Mapping[str, Tensor],
    projections: Mapping[str, tuple[str, Tensor, Tensor]],
    tokens: Mapping[str, Sequence[str]],
    *,
    title: str,
    digits: int = 2,
) -> BookFigure:
    """Each projection as one line of arithmetic: source times matrix gives Q, K or V.

    Args:
        sources: name to matrix ``[T, D]``, the sequences that are projected, e.g. ``{"X": X}``.
        projections: role ("query", "key", "value") to (name of the source, matrix W, result).
        tokens: name of the source to the names of its rows.
        title: the finding, in a few words.
        digits: decimals in the cells.

    Returns:
        The figure.

    Raises:
        ValueError: a product whose shapes do not fit, or names that are too many or too few.
    """
    for role, (name, W, result) in projections.items():
        check_names(f"tokens[{name!r}]", tokens[name], len(sources[name]))
        fits = [sources[name].shape[1], result.shape[1]] == list(W.shape) and len(sources[name]) == len(result)
        require(
            fits, f"projections[{role!r}] does not fit: {shape_of(sources[name])} x {shape_of(W)} = {shape_of(result)}"
        )
    lines = [(role, name, array(sources[name]), array(W), array(Y)) for role, (name, W, Y) in projections.items()]
    x_W = max(source.shape[1] for _, _, source, _, _ in lines) + 1
    x_result = x_W + max(W.shape[1] for _, _, _, W, _ in lines) + 1
    columns = x_result + max(result.shape[1] for *_, result in lines)
    heights = [max(len(source), len(W)) + 1.6 for _, _, source, W, _ in lines]
    with house_style():
        figure, ax = paper(columns, sum(heights) - 1.6)
        y = 0.0
        for (role, source_name, source, W, result), height in zip(lines, heights, strict=True):
            letter, color = role[0].upper(), ROLE_COLORS[role]
            middle = y + (height - 1.6) / 2
            given = {"digits": digits, "name_above": y}
            for name, matrix, tint, x in (
                (source_name, source, None, 0),
                (f"$W_{letter}$", W, None, x_W),
                (f"${letter}$, the {plural(role)}", result, color, x_result),
            ):
                colors = tinted(matrix.shape, tint or "#888888", 0.22 if tint else 0.10)
                rows = tokens[source_name] if x == 0 else ()
                at = (x, middle - len(matrix) / 2)
                _matrix(ax, matrix, colors, at=at, name=name, name_color=tint or INK, rows=rows, **given)
            for x, sign in ((source.shape[1] + 0.5, "×"), (x_result - 0.5, "=")):
                ax.text(x, middle, sign, ha="center", va="center", fontsize=12, color=QUIET)
            y += height
        left = -max(inches(tokens[name]) for name in sources) / CELL_WIDTH
        return titled(figure, ax, title, left=left, above=1.6)


def plot_output_map(heads: Tensor, W_O: Tensor, output: Tensor, *, title: str) -> BookFigure:
    """Concatenated heads times W_O, the rows of W_O in the colour of the head that they read.

    Args:
        heads: ``[H, Dv]``, what each head gives for one token.
        W_O: ``[H * Dv, D]``.
        output: ``[D]``.
        title: the finding, in a few words.

    Returns:
        The figure.

    Raises:
        ValueError: shapes that do not fit together.
    """
    require(
        W_O.shape == (heads.numel(), *output.shape),
        f"heads {shape_of(heads)}, W_O {shape_of(W_O)} and output {shape_of(output)} do not fit together",
    )
    heads, W_O, output = array(heads), array(W_O), array(output)
    H, Dv = heads.shape
    owner = np.repeat(np.arange(H), Dv)  # which head each of the H * Dv numbers belongs to
    color = np.array([mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45) for h in owner])
    names = [f"head {h + 1}" if index % Dv == Dv // 2 else "" for index, h in enumerate(owner)]
    with house_style():
        figure, ax = paper(2 + W_O.shape[1], len(owner) + 1.5)
        _matrix(ax, heads.reshape(-1, 1), color[:, None], at=(0, 0), digits=3, name="number", rows=names)
        colors = np.where((W_O != 0)[..., None], color[:, None, :], to_rgb("#F3F3F3"))
        _matrix(ax, W_O, colors, at=(2, 0), digits=2, name="its row of $W_O$")
        ax.text(1.5, len(owner) / 2, "×", ha="center", va="center", fontsize=12, color=QUIET)
        colors = tinted((1, len(output)), "#888888", 0.18)
        _matrix(ax, output[None], colors, at=(2, len(owner) + 0.5), digits=4)
        ax.text(1.85, len(owner) + 1, "output: the sum of each column", ha="right", va="center")
        return titled(figure, ax, title, left=2 - 3.2 / CELL_WIDTH, above=1.6)


def plot_owners(layouts: Mapping[str, Tensor], tokens: Sequence[str], *, title: str) -> BookFigure:
    """Which head and which token each number belongs to, in several layouts of the same numbers.

    Args:
        layouts: name to an integer matrix whose entry ``h * len(tokens) + t`` means head h, token t.
        tokens: names.
        title: the finding, in a few words.

    Returns:
        The figure.
    """
    heights = [len(layout) + 1.5 for layout in layouts.values()]
    with house_style():
        figure, ax = paper(max(layout.shape[1] for layout in layouts.values()), sum(heights))
        y = 0.0
        for (name, layout), height in zip(layouts.items(), heights, strict=True):
            head, token = np.divmod(array(layout).astype(int), len(tokens))
            colors = np.array([[mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45) for h in row] for row in head])
            labels = [[tokens[t] for t in row] for row in token]
            rows = [f"row {index}" for index in range(len(head))]
            _matrix(ax, head, colors, at=(0, y), labels=labels, name=name, rows=rows)
            y += height
        for h in range(int(head.max()) + 1):
            color = mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45)
            ax.add_patch(Rectangle((3 * h, y - 1.1), 0.4, 0.6, color=color, clip_on=False))
            ax.text(3 * h + 0.55, y - 0.8, f"from head {h + 1}", va="center")
        return titled(figure, ax, title, left=-inches(["row 0"]) / CELL_WIDTH, above=1.6)


def _several(name: str, given: Tensor | Sequence[Tensor], names: Sequence[str]) -> np.ndarray:
    """One matrix or several, as ``[H, T, S]``."""
    several = array(given) if isinstance(given, Tensor) else np.stack([array(one) for one in given])
    several = several if several.ndim > 2 else several[None]
    require(several.ndim == 3, f"{name} must be [T, S] or [H, T, S] (one of a batch), got {list(several.shape)}")
    require(several.size > 0, f"{name} must not be empty, got {list(several.shape)}")
    check_names("names", names, len(several) if names else 0)
    return several


@dataclass(frozen=True)
class Panel:
    """One matrix of several, and what stands around it."""

    numbers: np.ndarray  # [T, S]
    colors: np.ndarray  # [T, S, RGB or RGBA]
    rows: Sequence[str]  # T names, or none where the panel on the left has them
    columns: Sequence[str]  # S names
    name: str  # above it, or ""
    texts: np.ndarray | None = None  # in the cells, instead of the numbers


def _panels(several: np.ndarray, colors: np.ndarray, rows, columns, names: Sequence[str]) -> list[Panel]:
    """Panels that share their rows, which are named once, and their columns."""
    return [
        Panel(matrix, colors[index], () if index else rows, columns, names[index] if names else "")
        for index, matrix in enumerate(several)
    ]


def _side_by_side(
    panels: Sequence[Panel],
    *,
    title: str,
    digits: int = 2,
    labels: tuple[str, str] = ("query", "key"),
    least: float = LEAST_CELL,
    small_cells: bool = False,
) -> BookFigure:
    """Panels in a row, the names of their axes left and below. Small cells without numbers are made to fit in height too."""
    with house_style():
        beside = [inches(panel.rows) if panel.rows else 0.0 for panel in panels]
        across = sum(panel.numbers.shape[1] for panel in panels) + 0.5 * (len(panels) - 1)
        cell_width = min(CELL_WIDTH, (TEXT_WIDTH - sum(beside)) / across)
        tallest = max(len(panel.numbers) for panel in panels)
        small = small_cells and cell_width < least
        cell_height = min(cell_width, SMALL_HEIGHT / tallest) if small else CELL_HEIGHT
        figure, ax = paper(across + sum(beside[1:]) / cell_width, tallest, cell_width, cell_height)
        x = 0.0
        for index, panel in enumerate(panels):
            x += beside[index] / cell_width if index else 0.0
            T, S = panel.numbers.shape
            rows, columns = panel.rows, panel.columns
            if small:
                rows, columns = _thinned(rows, 0.17 / cell_height), _thinned(columns, 0.3 / cell_width)
            _matrix(ax, panel.numbers, panel.colors, at=(x, 0), digits=digits, labels=panel.texts, name=panel.name,
                    rows=rows, columns=columns, least=least)  # fmt: skip
            below = T + 0.5 + (inches(columns) * 0.75 if crowded(columns, cell_width) else 0.25) / cell_height
            ax.text(x + S / 2, below, labels[1], ha="center", va="center", color=ROLE_COLORS.get(labels[1], INK))
            x += S + 0.5
        left = -(beside[0] + 0.16) / cell_width
        middle = len(panels[0].numbers) / 2
        ax.text(left, middle, labels[0], rotation=90, ha="center", va="center", color=ROLE_COLORS.get(labels[0], INK))
        above = 1.6 if any(panel.name for panel in panels) else 0.8
        return titled(figure, ax, title, left=left - 0.12 / cell_width, above=above * CELL_HEIGHT / cell_height)


def _thinned(names: Sequence[str], cells: float) -> list[str]:
    """Every name, or every second, fourth, … where a name needs the room of so many cells."""
    step = 1
    while step < cells:
        step *= 2
    return [name if index % step == 0 else "" for index, name in enumerate(names)]


def _matrix(
    ax: Axes,
    matrix: np.ndarray,
    colors: np.ndarray,
    *,
    at: tuple[float, float],
    digits: int = 2,
    labels: Sequence[Sequence[str]] | None = None,
    name: str = "",
    name_color: str = INK,
    name_above: float | None = None,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    least: float = LEAST_CELL,
) -> None:
    """A matrix on squared paper: coloured cells with a number (or a label) in each, names around it."""
    x, y = at
    cell_width = ax.figure.get_figwidth() / ax.get_xlim()[1]
    for row, column in np.ndindex(matrix.shape):
        color = tuple(colors[row][column][:3])
        gap = min(1.5, 4 * cell_width)
        ax.add_patch(Rectangle((x + column, y + row), 1, 1, facecolor=color, edgecolor=PAPER, linewidth=gap))
        text = labels[row][column] if labels is not None else number(matrix[row, column], digits)
        if cell_width >= least:
            size = 9 if len(text) < 7 else 7.5
            ax.text(x + column + 0.5, y + row + 0.52, text, ha="center", va="center", fontsize=size, parse_math=False,
                    color=readable_on(color))  # fmt: skip
    for row, token in enumerate(rows):
        ax.text(x - 0.12, y + row + 0.5, token, ha="right", va="center", parse_math=False)
    turned = (
        {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if crowded(columns, cell_width) else {"ha": "center"}
    )
    for column, token in enumerate(columns):
        ax.text(x + column + 0.5, y + len(matrix) + 0.2, token, va="top", fontsize=9.5, parse_math=False, **turned)
    above = (y if name_above is None else name_above) - 0.25
    ax.text(x + matrix.shape[1] / 2, above, name, ha="center", va="bottom", fontsize=10, color=name_color)
