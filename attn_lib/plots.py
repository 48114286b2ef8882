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
import unicodedata
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

from attn_lib.errors import require, shape_of

ROLE_COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73"}
HEAD_COLORS = ("#E69F00", "#56B4E9", "#CC79A7", "#999933")
INK, QUIET, PAPER = "#222222", "#6B6B6B", "#FFFFFF"
KEPT_COLORS = (*ROLE_COLORS.values(), *HEAD_COLORS, INK, QUIET, PAPER)

# CIELAB lightness 98 to 22 in equal steps at one hue (300 degrees): equal steps in weight look equal.
WEIGHT_MAP = LinearSegmentedColormap.from_list(
    "weights",
    ["#FAF8FF", "#E1DAF7", "#C8BEEC", "#AEA2DD", "#9488C9", "#7A70B0", "#625992", "#4B4471", "#36314E"],
)

TEXT_WIDTH = 5.8  # inches: nearly the book's text, and numbers can still be read on a phone
CELL_WIDTH, CELL_HEIGHT = 0.54, 0.34  # inches, the same in every figure; only many keys make cells narrower
LEAST_CELL = 0.38  # inches: a narrower cell holds no number


class BookFigure(Figure):
    """A figure that a notebook shows at twice the resolution, in few colours: sharp, and a third of the bytes."""

    def savefig(self, fname, **settings):
        """As matplotlib's, but around all that is drawn: names stand outside the axes."""
        super().savefig(fname, **{"bbox_inches": "tight", "pad_inches": 0.06, "facecolor": PAPER} | settings)

    def _repr_mimebundle_(self, include=None, exclude=None):
        full = io.BytesIO()
        self.savefig(full, format="png", dpi=2 * self.dpi)
        image = _few_colors(Image.open(full).convert("RGB"))
        small = io.BytesIO()
        image.save(small, format="png", optimize=True)
        size = {"width": image.width // 2, "height": image.height // 2}
        return {"image/png": base64.b64encode(small.getvalue()).decode()}, {"image/png": size}


def _few_colors(image: Image.Image) -> Image.Image:
    """The image in 256 colours. Those that mean something stay exactly as they are; the rest share what is left."""
    kept = np.array([to_rgb(color) for color in KEPT_COLORS]) * 255
    rest = np.array(image.quantize(256 - len(kept)).getpalette()).reshape(-1, 3)[: 256 - len(kept)]
    palette = np.concatenate([kept, rest]).round()  # [256, 3]
    # Pillow's own mapping onto a palette is approximate: it would turn white into a light grey.
    pixels = np.asarray(image).astype(int) @ (65536, 256, 1)  # [height, width], a colour as one integer
    colors, where = np.unique(pixels, return_inverse=True)
    colors = np.stack([colors // 65536, colors // 256 % 256, colors % 256], axis=-1).astype(float)  # [colours, 3]
    nearest = ((palette**2).sum(axis=-1) - 2 * colors @ palette.T).argmin(axis=-1)  # [colours]
    small = Image.fromarray(nearest[where].reshape(image.height, image.width).astype(np.uint8), mode="P")
    small.putpalette(palette.astype(np.uint8).tobytes())
    return small


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

    Raises:
        ValueError: weights of another shape, names that are too many or too few.

    >>> figure = plot_weights(torch.eye(2), ["a", "b"], title="itself alone")
    >>> [text.get_text() for text in figure.axes[0].texts][:4]  # in the cells
    ['1.00', '0.00', '0.00', '1.00']
    """
    key_tokens = query_tokens if key_tokens is None else key_tokens
    several = _array(weights) if isinstance(weights, Tensor) else np.stack([_array(one) for one in weights])
    several = several if several.ndim > 2 else several[None]
    require(several.ndim == 3, f"weights must be [T, S] or [H, T, S] (one of a batch), got {list(several.shape)}")
    H, T, S = several.shape
    require(several.size > 0, f"weights must not be empty, got {list(several.shape)}")
    _check_names("query_tokens", query_tokens, T)
    _check_names("key_tokens", key_tokens, S)
    _check_names("names", names, H if names else 0)
    with _house_style():
        cell_width = min(CELL_WIDTH, (TEXT_WIDTH - _inches(query_tokens)) / (H * S + 0.5 * (H - 1)))
        figure, ax = _paper(H * S + 0.5 * (H - 1), T, cell_width)
        for index, matrix in enumerate(several):
            x = index * (S + 0.5)
            rows = query_tokens if index == 0 else ()
            name = names[index] if names else ""
            _matrix(ax, matrix, WEIGHT_MAP(matrix), at=(x, 0), digits=digits, name=name, rows=rows, columns=key_tokens)
            below = T + 0.5 + (_inches(key_tokens) * 0.75 if _crowded(key_tokens, cell_width) else 0.25) / CELL_HEIGHT
            ax.text(x + S / 2, below, "key", ha="center", va="center", color=ROLE_COLORS["key"])
        left = -(_inches(query_tokens) + 0.16) / cell_width
        ax.text(left, T / 2, "query", rotation=90, ha="center", va="center", color=ROLE_COLORS["query"])
        return _titled(figure, ax, title, left=left - 0.12 / cell_width, above=1.6 if names else 0.8)


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
        _check_names(f"tokens[{name!r}]", tokens[name], len(sources[name]))
        fits = [sources[name].shape[1], result.shape[1]] == list(W.shape) and len(sources[name]) == len(result)
        require(
            fits, f"projections[{role!r}] does not fit: {shape_of(sources[name])} x {shape_of(W)} = {shape_of(result)}"
        )
    lines = [(role, name, _array(sources[name]), _array(W), _array(Y)) for role, (name, W, Y) in projections.items()]
    x_W = max(source.shape[1] for _, _, source, _, _ in lines) + 1
    x_result = x_W + max(W.shape[1] for _, _, _, W, _ in lines) + 1
    columns = x_result + max(result.shape[1] for *_, result in lines)
    heights = [max(len(source), len(W)) + 1.6 for _, _, source, W, _ in lines]
    with _house_style():
        figure, ax = _paper(columns, sum(heights) - 1.6)
        y = 0.0
        for (role, source_name, source, W, result), height in zip(lines, heights, strict=True):
            letter, color = role[0].upper(), ROLE_COLORS[role]
            middle = y + (height - 1.6) / 2
            given = {"digits": digits, "name_above": y}
            for name, matrix, tint, x in (
                (source_name, source, None, 0),
                (f"$W_{letter}$", W, None, x_W),
                (f"${letter}$, the {_plural(role)}", result, color, x_result),
            ):
                colors = _tinted(matrix.shape, tint or "#888888", 0.22 if tint else 0.10)
                rows = tokens[source_name] if x == 0 else ()
                at = (x, middle - len(matrix) / 2)
                _matrix(ax, matrix, colors, at=at, name=name, name_color=tint or INK, rows=rows, **given)
            for x, sign in ((source.shape[1] + 0.5, "×"), (x_result - 0.5, "=")):
                ax.text(x, middle, sign, ha="center", va="center", fontsize=12, color=QUIET)
            y += height
        left = -max(_inches(tokens[name]) for name in sources) / CELL_WIDTH
        return _titled(figure, ax, title, left=left, above=1.6)


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
        _check_names("key_tokens", key_tokens, len(row), f"stages[{name!r}]")
    with _house_style():
        height = 0.34 * len(key_tokens) + 1.2
        figure = BookFigure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(1, len(stages), sharey=True, squeeze=False)[0]
        for ax, (name, row) in zip(axes, stages.items(), strict=True):
            row = _array(row)
            last = name == list(stages)[-1]
            # A masked score is -inf: it has no bar, and its number says so.
            lengths = np.where(np.isfinite(row), row, 0.0)
            bars = ax.barh(range(len(row)), lengths, height=0.66, color=WEIGHT_MAP(0.65) if last else "#C9C9C9")
            ax.bar_label(bars, [_number(number, digits) for number in row], padding=3, fontsize=9)
            ax.set_xlim(min(0, lengths.min() * 1.42), max(0, lengths.max() * 1.42) or 1)
            ax.set_title(name, fontsize=10, color=INK if last else QUIET)
            ax.set_xticks([])
            ax.tick_params(length=0)
        axes[0].set_yticks(range(len(key_tokens)), key_tokens, parse_math=False)
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

    Returns:
        The figure.

    Raises:
        ValueError: negative values, shapes that do not fit, names that are too many or too few.
    """
    require(weights.shape == value.shape[:1], f"weights {shape_of(weights)} must be [S] for value {shape_of(value)}")
    require(bool((value >= 0).all()), "value must not be negative: a stack of bars cannot show a subtraction")
    _check_names("key_tokens", key_tokens, len(value))
    parts = _array(weights)[:, None] * _array(value)  # [S, Dv]
    with _house_style():
        width = parts.shape[1]
        figure = BookFigure(figsize=(TEXT_WIDTH, 0.5 * width + 1.5), layout="constrained")
        ax = figure.subplots()
        left = np.zeros(width)
        for index, (token, part) in enumerate(zip(key_tokens, parts, strict=True)):
            shade = 0.18 + 0.6 * index / max(1, len(parts) - 1)
            color = _mix(ROLE_COLORS["value"], shade)
            ax.barh(
                range(width), part, left=left, height=0.62, label=token, edgecolor=PAPER, linewidth=1.2, color=color
            )
            for dim, (start, length) in enumerate(zip(left, part, strict=True)):
                if length > 0.09 * parts.sum(axis=0).max():
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

    Returns:
        The figure.

    Raises:
        ValueError: shapes that do not fit together.
    """
    require(
        W_O.shape == (heads.numel(), *output.shape),
        f"heads {shape_of(heads)}, W_O {shape_of(W_O)} and output {shape_of(output)} do not fit together",
    )
    heads, W_O, output = _array(heads), _array(W_O), _array(output)
    H, Dv = heads.shape
    owner = np.repeat(np.arange(H), Dv)  # which head each of the H * Dv numbers belongs to
    color = np.array([_mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45) for h in owner])
    names = [f"head {h + 1}" if index % Dv == Dv // 2 else "" for index, h in enumerate(owner)]
    with _house_style():
        figure, ax = _paper(2 + W_O.shape[1], len(owner) + 1.5)
        _matrix(ax, heads.reshape(-1, 1), color[:, None], at=(0, 0), digits=3, name="number", rows=names)
        colors = np.where((W_O != 0)[..., None], color[:, None, :], to_rgb("#F3F3F3"))
        _matrix(ax, W_O, colors, at=(2, 0), digits=2, name="its row of $W_O$")
        ax.text(1.5, len(owner) / 2, "×", ha="center", va="center", fontsize=12, color=QUIET)
        colors = _tinted((1, len(output)), "#888888", 0.18)
        _matrix(ax, output[None], colors, at=(2, len(owner) + 0.5), digits=4)
        ax.text(1.85, len(owner) + 1, "output: the sum of each column", ha="right", va="center")
        return _titled(figure, ax, title, left=2 - 3.2 / CELL_WIDTH, above=1.6)


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
    with _house_style():
        figure, ax = _paper(max(layout.shape[1] for layout in layouts.values()), sum(heights))
        y = 0.0
        for (name, layout), height in zip(layouts.items(), heights, strict=True):
            head, token = np.divmod(_array(layout).astype(int), len(tokens))
            colors = np.array([[_mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45) for h in row] for row in head])
            labels = [[tokens[t] for t in row] for row in token]
            rows = [f"row {index}" for index in range(len(head))]
            _matrix(ax, head, colors, at=(0, y), labels=labels, name=name, rows=rows)
            y += height
        for h in range(int(head.max()) + 1):
            color = _mix(HEAD_COLORS[h % len(HEAD_COLORS)], 0.45)
            ax.add_patch(Rectangle((3 * h, y - 1.1), 0.4, 0.6, color=color, clip_on=False))
            ax.text(3 * h + 0.55, y - 0.8, f"from head {h + 1}", va="center")
        return _titled(figure, ax, title, left=-_inches(["row 0"]) / CELL_WIDTH, above=1.6)


def _paper(columns: float, rows: float, cell_width: float = CELL_WIDTH) -> tuple[BookFigure, Axes]:
    """Squared paper: x counts cells to the right, y counts cells down, and every cell has the same size."""
    figure = BookFigure(figsize=(columns * cell_width, rows * CELL_HEIGHT))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    ax.axis("off")
    return figure, ax


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
) -> None:
    """A matrix on squared paper: coloured cells with a number (or a label) in each, names around it."""
    x, y = at
    cell_width = ax.figure.get_figwidth() / ax.get_xlim()[1]
    for row, column in np.ndindex(matrix.shape):
        color = tuple(colors[row][column][:3])
        gap = min(1.5, 4 * cell_width)
        ax.add_patch(Rectangle((x + column, y + row), 1, 1, facecolor=color, edgecolor=PAPER, linewidth=gap))
        text = labels[row][column] if labels is not None else _number(matrix[row, column], digits)
        if cell_width >= LEAST_CELL:
            size = 9 if len(text) < 7 else 7.5
            ax.text(x + column + 0.5, y + row + 0.52, text, ha="center", va="center", fontsize=size, parse_math=False,
                    color=_readable_on(color))  # fmt: skip
    for row, token in enumerate(rows):
        ax.text(x - 0.12, y + row + 0.5, token, ha="right", va="center", parse_math=False)
    turned = (
        {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        if _crowded(columns, cell_width)
        else {"ha": "center"}
    )
    for column, token in enumerate(columns):
        ax.text(x + column + 0.5, y + len(matrix) + 0.2, token, va="top", fontsize=9.5, parse_math=False, **turned)
    above = (y if name_above is None else name_above) - 0.25
    ax.text(x + matrix.shape[1] / 2, above, name, ha="center", va="bottom", fontsize=10, color=name_color)


def _inches(tokens: Sequence[str]) -> float:
    """About how wide the longest of these is drawn; an East Asian character is twice as wide as a Latin one."""
    widths = (sum(0.15 if unicodedata.east_asian_width(c) in "WF" else 0.085 for c in token) for token in tokens)
    return max(widths, default=0.0) + 0.1


def _crowded(tokens: Sequence[str], cell_width: float) -> bool:
    return _inches(tokens) > cell_width + 0.22


def _check_names(name: str, names: Sequence[str], count: int, of: str = "the matrix") -> None:
    require(len(names) == count, f"{name} holds {len(names)} names, {of} needs {count}")


def _number(number: float, digits: int) -> str:
    return f"{number:.{digits}f}".replace("-", "\N{MINUS SIGN}").replace("inf", "\N{INFINITY}")


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
    return tensor.detach().cpu().double().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor, dtype=float)


def _titled(figure: BookFigure, ax: Axes, title: str, *, left: float, above: float) -> BookFigure:
    """The title above squared paper, flush with what stands leftmost."""
    ax.text(left, -above, title, ha="left", va="bottom", fontsize=12.5)
    return figure


def _finish(figure: BookFigure, title: str) -> BookFigure:
    """The title above panels that lay themselves out."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5)
    return figure


def _house_style():
    """Settings for the figures of this file alone: the reader's own stay as they were, and stay out."""
    return mpl.rc_context(
        {name: value for name, value in mpl.rcParamsDefault.items() if "backend" not in name}
        | {
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
        raise ModuleNotFoundError(
            "the figures need matplotlib-fontja for Japanese tokens: pip install matplotlib-fontja"
        )
    font = Path(package.submodule_search_locations[0], "fonts", "ipaexg.ttf")
    font_manager.fontManager.addfont(font)
    return font_manager.FontProperties(fname=font).get_name()
