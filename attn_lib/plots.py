"""Every figure of the book, drawn by one hand.

Rows are queries, columns are keys. Query, key and value keep one colour each (Okabe and Ito's blue,
vermilion, bluish green), and a letter says what the colour says. Weights run from light (0) to dark (1)
in one map whose lightness falls evenly. As the last line of a notebook cell a figure is shown
once, sharp and small; pyplot and its global state are not used.
"""

from __future__ import annotations

import base64
import importlib.util
import io
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image
from torch import Tensor

ROLE_COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73"}
HEAD_COLORS = ("#E69F00", "#56B4E9", "#CC79A7", "#999933")
INK, QUIET, PAPER = "#222222", "#6B6B6B", "#FFFFFF"

# CIELAB lightness 98 to 22 in equal steps at one hue (300 degrees): equal steps in weight look equal.
WEIGHT_MAP = LinearSegmentedColormap.from_list(
    "weights",
    ["#FAF8FF", "#E1DAF7", "#C8BEEC", "#AEA2DD", "#9488C9", "#7A70B0", "#625992", "#4B4471", "#36314E"],
)

TEXT_WIDTH = 6.4  # inches: as wide as the book's text, and still readable on a phone
CELL_WIDTH, CELL_HEIGHT = 0.62, 0.36  # inches


class BookFigure(Figure):
    """A figure that a notebook shows at twice the resolution, in 128 colours: sharp, and a third of the bytes."""

    def _repr_mimebundle_(self, include=None, exclude=None):
        full = io.BytesIO()
        self.savefig(full, format="png", dpi=2 * self.dpi, bbox_inches="tight", pad_inches=0.06)
        image = Image.open(full).convert("RGB").quantize(128)
        small = io.BytesIO()
        image.save(small, format="png", optimize=True)
        size = {"width": image.width // 2, "height": image.height // 2}
        return {"image/png": base64.b64encode(small.getvalue()).decode()}, {"image/png": size}


def plot_weights(
    weights: Tensor | Sequence[Tensor],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    title: str,
    names: Sequence[str] = (),
    digits: int = 2,
) -> BookFigure:
    """Attention weights as a matrix, the number in every cell.

    Args:
        weights: ``[T, S]``, or several of them (a list, or ``[H, T, S]``), drawn side by side.
        query_tokens: T names for the rows.
        key_tokens: S names for the columns; the query tokens when left out.
        title: the finding, in a few words.
        names: one name above each matrix when there are several.
        digits: decimals in the cells.

    Returns:
        The figure.
    """
    key_tokens = query_tokens if key_tokens is None else key_tokens
    several = _array(weights) if isinstance(weights, Tensor) else np.stack([_array(one) for one in weights])
    several = several if several.ndim == 3 else several[None]
    cell = min(CELL_WIDTH, (TEXT_WIDTH - 1.2) / len(several) / len(key_tokens) - 0.04)
    with _house_style():
        size = (max(3.6, (cell * len(key_tokens) + 0.15) * len(several) + 1.1), CELL_HEIGHT * len(query_tokens) + 1.2)
        figure = BookFigure(figsize=size, layout="constrained")
        axes = figure.subplots(1, len(several), squeeze=False)
        for index, (ax, matrix) in enumerate(zip(axes[0], several, strict=True)):
            _cells(ax, matrix, WEIGHT_MAP(matrix), digits=digits)
            _ticks(ax, query_tokens if index == 0 else (), key_tokens, cell_width=cell)
            ax.set_aspect(CELL_HEIGHT / cell)
            ax.set_anchor("N")
            ax.set_xlabel("key", color=ROLE_COLORS["key"])
            if index == 0:
                ax.set_ylabel("query", color=ROLE_COLORS["query"])
            if names:
                ax.set_title(names[index], fontsize=10, color=QUIET)
        return _finish(figure, title)


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
        sources: name to matrix, the sequences that are projected, e.g. ``{"X": X}``.
        projections: role ("query", "key", "value") to (name of the source, matrix W, result).
        tokens: name of the source to the names of its rows.
        title: the finding, in a few words.
        digits: decimals in the cells.
    """
    with _house_style():
        rows = [(role, *projection) for role, projection in projections.items()]
        heights = [max(len(sources[source]), len(W)) + 1.3 for _, source, W, _ in rows]
        width = max(_array(sources[source]).shape[1] + W.shape[1] + result.shape[1] for _, source, W, result in rows)
        figure = BookFigure(figsize=(TEXT_WIDTH, CELL_HEIGHT * sum(heights) * 0.86 + 0.4), layout="constrained")
        grids = figure.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
        for grid, (role, source, W, result) in zip(grids, rows, strict=True):
            letter, color = role[0].upper(), ROLE_COLORS[role]
            parts = [
                (source, _array(sources[source]), None, tokens[source]),
                (f"$W_{letter}$", _array(W), None, ()),
                (f"${letter}$: the {_plural(role)}", _array(result), color, tokens[source]),
            ]
            # A third sign-wide column keeps rows of different widths aligned.
            spare = width - sum(matrix.shape[1] for _, matrix, _, _ in parts)
            ratios = [parts[0][1].shape[1], parts[1][1].shape[1], parts[2][1].shape[1] + spare]
            axes = grid.subplots(1, 3, width_ratios=ratios)
            for ax, (name, matrix, tint, names), sign in zip(axes, parts, ("×", "=", ""), strict=True):
                colors = _tinted(matrix.shape, tint or "#888888", 0.22 if tint else 0.10)
                _cells(ax, matrix, colors, digits=digits)
                _ticks(ax, names, ())
                ax.set_anchor("W" if tint else "C")
                ax.set_title(name, fontsize=10, color=tint or INK)
                ax.annotate(sign, (1, 0.5), (0.55, 0), xycoords="axes fraction", textcoords="offset fontsize",
                            fontsize=12, va="center", color=QUIET)  # fmt: skip
        return _finish(figure, title)


def plot_steps(stages: Mapping[str, Tensor], key_tokens: Sequence[str], *, title: str, digits: int = 4) -> BookFigure:
    """One query's way from scores to weights: a panel of bars for each stage, a bar for each key.

    Args:
        stages: name to a row ``[S]``.
        key_tokens: S names.
        title: the finding, in a few words.
        digits: decimals at the bars.
    """
    with _house_style():
        height = 0.34 * len(key_tokens) + 1.2
        figure = BookFigure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(1, len(stages), sharey=True, squeeze=False)[0]
        for ax, (name, row) in zip(axes, stages.items(), strict=True):
            row = _array(row)
            last = name == list(stages)[-1]
            bars = ax.barh(range(len(row)), row, height=0.66, color=WEIGHT_MAP(0.65) if last else "#C9C9C9")
            ax.bar_label(bars, fmt=f"%.{digits}f", padding=3, fontsize=9)
            ax.set_xlim(min(0, row.min() * 1.4), row.max() * 1.42)
            ax.set_title(name, fontsize=10, color=INK if last else QUIET)
            ax.set_xticks([])
            ax.tick_params(length=0)
        axes[0].set_yticks(range(len(key_tokens)), key_tokens)
        axes[0].invert_yaxis()
        axes[0].set_ylabel("key", color=ROLE_COLORS["key"])
        return _finish(figure, title)


def plot_blend(weights: Tensor, value: Tensor, key_tokens: Sequence[str], *, title: str, digits: int = 3) -> BookFigure:
    """The weighted sum as stacked bars: how much of each output number came from which value.

    Args:
        weights: ``[S]``, one query's weights.
        value: ``[S, Dv]``, not negative (a stack of bars cannot show a subtraction).
        key_tokens: S names.
        title: the finding, in a few words.
        digits: decimals of the sums.
    """
    parts = _array(weights)[:, None] * _array(value)  # [S, Dv]
    with _house_style():
        width = parts.shape[1]
        figure = BookFigure(figsize=(TEXT_WIDTH, 0.5 * width + 1.5), layout="constrained")
        ax = figure.subplots()
        left = np.zeros(width)
        for index, (token, part) in enumerate(zip(key_tokens, parts, strict=True)):
            shade = 0.18 + 0.6 * index / max(1, len(parts) - 1)
            color = _mix(ROLE_COLORS["value"], shade)
            ax.barh(range(width), part, left=left, height=0.62, label=token, edgecolor=PAPER, linewidth=1.2, color=color)
            for dim, (start, length) in enumerate(zip(left, part, strict=True)):
                if length > 0.06 * parts.sum(axis=0).max():
                    ax.text(start + length / 2, dim, f"{length:.{digits}f}", ha="center", va="center", fontsize=9,
                            color=_readable_on(color))  # fmt: skip
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
        return _finish(figure, title)


def plot_output_map(heads: Tensor, W_O: Tensor, output: Tensor, *, title: str) -> BookFigure:
    """Concatenated heads times W_O, the rows of W_O in the colour of the head that they read.

    Args:
        heads: ``[H, Dv]``, what each head gives for one token.
        W_O: ``[H * Dv, D]``.
        output: ``[D]``.
        title: the finding, in a few words.
    """
    heads, W_O, output = _array(heads), _array(W_O), _array(output)
    H, Dv = heads.shape
    owner = np.repeat(np.arange(H), Dv)  # which head each of the H * Dv numbers belongs to
    column = np.array([_mix(HEAD_COLORS[h], 0.45) for h in owner])
    with _house_style():
        figure = BookFigure(figsize=(5.4, CELL_HEIGHT * len(owner) * 0.86 + 1.0), layout="constrained")
        axes = figure.subplots(1, 3, width_ratios=[1.2, W_O.shape[1], 1.2])
        _cells(axes[0], heads.reshape(-1, 1), column[:, None], digits=3)
        _ticks(axes[0], [f"head {h + 1}" if i % Dv == Dv // 2 else "" for i, h in enumerate(owner)], ())
        _cells(axes[1], W_O, np.where((W_O != 0)[..., None], column[:, None, :], to_rgb("#F3F3F3")), digits=2)
        _cells(axes[2], output[:, None], _tinted((len(output), 1), "#888888", 0.18), digits=4)
        for ax, name in zip(axes, ("concatenated", "$W_O$", "output"), strict=True):
            ax.set_title(name, fontsize=10)
        for ax in axes[1:]:
            _ticks(ax, (), ())
        return _finish(figure, title)


def plot_owners(layouts: Mapping[str, Tensor], tokens: Sequence[str], *, title: str) -> BookFigure:
    """Which head and which token each number belongs to, in several layouts of the same numbers.

    Args:
        layouts: name to an integer matrix whose entry ``h * len(tokens) + t`` means head h, token t.
        tokens: names.
        title: the finding, in a few words.
    """
    with _house_style():
        height = sum(len(layout) + 1.2 for layout in layouts.values()) * CELL_HEIGHT + 0.7
        figure = BookFigure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(len(layouts), 1, squeeze=False)[:, 0]
        for ax, (name, layout) in zip(axes, layouts.items(), strict=True):
            head, token = np.divmod(_array(layout).astype(int), len(tokens))
            colors = np.array([[_mix(HEAD_COLORS[h], 0.45) for h in row] for row in head])
            _cells(ax, head, colors, labels=[[tokens[t] for t in row] for row in token])
            _ticks(ax, [f"row {index}" for index in range(len(head))], ())
            ax.set_title(name, fontsize=10, loc="left")
        handles = [Rectangle((0, 0), 1, 1, color=_mix(HEAD_COLORS[h], 0.45)) for h in range(int(head.max()) + 1)]
        figure.legend(handles, [f"from head {h + 1}" for h in range(len(handles))], ncols=len(handles), frameon=False,
                      loc="outside lower center", fontsize=10, handlelength=1)  # fmt: skip
        return _finish(figure, title)


def _cells(ax: Axes, matrix: np.ndarray, colors: np.ndarray, *, digits: int = 2, labels=None) -> None:
    """A matrix of coloured cells with a number (or a label) in each."""
    rows, columns = matrix.shape
    ax.imshow(np.asarray(colors)[..., :3], aspect=CELL_HEIGHT / CELL_WIDTH, interpolation="nearest")
    for row in range(rows):
        for column in range(columns):
            text = labels[row][column] if labels is not None else _number(matrix[row, column], digits)
            color = _readable_on(colors[row][column])
            ax.text(column, row, text, ha="center", va="center", fontsize=9 if len(text) < 7 else 8, color=color)
    ax.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=1.5)
    ax.tick_params(which="both", length=0)


def _ticks(ax: Axes, row_names: Sequence[str], column_names: Sequence[str], *, cell_width: float = CELL_WIDTH) -> None:
    ax.set_yticks(range(len(row_names)), row_names)
    crowded = max((len(name) for name in column_names), default=0) * 0.075 > cell_width
    turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    ax.set_xticks(range(len(column_names)), column_names, **turned)


def _number(number: float, digits: int) -> str:
    return f"{number:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _readable_on(color) -> str:
    """Dark ink on light cells, paper on dark ones (relative luminance, as WCAG defines it)."""
    channels = np.asarray(to_rgb(color[:3]))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.25 else PAPER


def _mix(color: str, share: float) -> tuple[float, ...]:
    """The colour thinned with paper: share 0 is paper, 1 the colour."""
    return tuple(share * np.array(to_rgb(color)) + (1 - share) * np.array(to_rgb(PAPER)))


def _tinted(shape: tuple[int, ...], color: str, share: float) -> np.ndarray:
    return np.broadcast_to(_mix(color, share), (*shape, 3))


def _plural(role: str) -> str:
    return {"query": "queries"}.get(role, role + "s")


def _array(tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor)


def _finish(figure: BookFigure, title: str) -> BookFigure:
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5)
    return figure


def _house_style():
    """Settings for the figures of this file alone: the reader's own matplotlib stays as it was."""
    return mpl.rc_context(
        {
            "font.family": ["DejaVu Sans", _japanese_font()],
            "font.size": 10.5,
            "mathtext.fontset": "dejavusans",
            "axes.spines.left": False,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.spines.bottom": False,
            "axes.edgecolor": QUIET,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "figure.facecolor": PAPER,
            "figure.dpi": 100,
        }
    )


@cache
def _japanese_font() -> str:
    """Register the font that matplotlib-fontja ships, so that no machine needs one of its own.

    The package is found, not imported: its import changes matplotlib's settings for everyone.
    """
    package = importlib.util.find_spec("matplotlib_fontja")
    if package is None:
        raise ModuleNotFoundError("the figures need matplotlib-fontja for Japanese tokens: pip install matplotlib-fontja")
    font = Path(package.submodule_search_locations[0], "fonts", "ipaexg.ttf")
    font_manager.fontManager.addfont(font)
    return font_manager.FontProperties(fname=font).get_name()
