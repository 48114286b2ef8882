"""How every figure looks: colours, fonts, paper, and how it is shown in a notebook."""

from __future__ import annotations

import base64
import importlib.util
import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from attn_lib.errors import require

ROLE_COLORS = {"query": "#0072B2", "key": "#D55E00", "value": "#009E73"}
HEAD_COLORS = ("#E69F00", "#56B4E9", "#CC79A7", "#999933")
INK, QUIET, PAPER = "#222222", "#6B6B6B", "#FFFFFF"
KEPT_COLORS = (*ROLE_COLORS.values(), *HEAD_COLORS, INK, QUIET, PAPER)

# CIELAB lightness 98 to 22 in equal steps at one hue (300 degrees): equal steps in weight look equal.
WEIGHT_MAP = LinearSegmentedColormap.from_list(
    "weights",
    ["#FAF8FF", "#E1DAF7", "#C8BEEC", "#AEA2DD", "#9488C9", "#7A70B0", "#625992", "#4B4471", "#36314E"],
)

# Signed numbers: white at 0, ochre below it, the violet of the weights above it.
SIGNED_MAP = LinearSegmentedColormap.from_list("signed", ["#7A4A00", "#C79A55", PAPER, "#9488C9", "#4B4471"])
# Curves: each of these is dark enough to be read as text on paper.
CURVE_COLORS = ("#4B4471", "#A65E00", "#16697A", "#9B2C63")

TEXT_WIDTH = 5.8  # inches: nearly the book's text, and numbers can still be read on a phone
CELL_WIDTH, CELL_HEIGHT = 0.54, 0.34  # inches, the same in every figure; only many keys make cells narrower
SMALL_HEIGHT = 4.2  # inches: a matrix without numbers is no taller
LEAST_CELL = 0.38  # inches: a narrower cell holds no number


class BookFigure(Figure):
    """A figure that a notebook shows at twice the resolution, in few colours: sharp, and a third of the bytes."""

    def savefig(self, fname, **settings):
        """As matplotlib's, but around all that is drawn: names stand outside the axes."""
        super().savefig(fname, **{"bbox_inches": "tight", "pad_inches": 0.06, "facecolor": PAPER} | settings)

    def _repr_mimebundle_(self, include=None, exclude=None):
        full = io.BytesIO()
        self.savefig(full, format="png", dpi=2 * self.dpi)
        image = few_colors(Image.open(full).convert("RGB"))
        small = io.BytesIO()
        image.save(small, format="png", optimize=True)
        size = {"width": image.width // 2, "height": image.height // 2}
        return {"image/png": base64.b64encode(small.getvalue()).decode()}, {"image/png": size}


def few_colors(image: Image.Image) -> Image.Image:
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


def paper(
    columns: float, rows: float, cell_width: float = CELL_WIDTH, cell_height: float = CELL_HEIGHT
) -> tuple[BookFigure, Axes]:
    """Squared paper: x counts cells to the right, y counts cells down, and every cell has the same size."""
    figure = BookFigure(figsize=(columns * cell_width, rows * cell_height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    ax.axis("off")
    return figure, ax


def inches(tokens: Sequence[str]) -> float:
    """About how wide the longest of these is drawn; an East Asian character is twice as wide as a Latin one."""
    widths = (sum(0.15 if unicodedata.east_asian_width(c) in "WF" else 0.085 for c in token) for token in tokens)
    return max(widths, default=0.0) + 0.1


def crowded(tokens: Sequence[str], cell_width: float) -> bool:
    return inches(tokens) > cell_width + 0.22


def check_names(name: str, names: Sequence[str], count: int, of: str = "the matrix") -> None:
    require(len(names) == count, f"{name} holds {len(names)} names, {of} needs {count}")


def number(value: float, digits: int) -> str:
    """A number as a figure writes it.

    >>> number(-0.125, 2), number(-torch.inf, 2)
    ('−0.12', '−∞')
    """
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}").replace("inf", "\N{INFINITY}")


def readable_on(color) -> str:
    """Dark ink on light cells, paper on dark ones (relative luminance, as WCAG defines it)."""
    channels = np.asarray(to_rgb(color[:3]))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return INK if linear @ (0.2126, 0.7152, 0.0722) > 0.25 else PAPER


def mix(color: str, share: float) -> tuple[float, ...]:
    """The colour thinned with paper: share 0 is paper, 1 the colour."""
    return tuple(share * np.array(to_rgb(color)) + (1 - share) * np.array(to_rgb(PAPER)))


def tinted(shape: tuple[int, ...], color: str, share: float) -> np.ndarray:
    return np.broadcast_to(mix(color, share), (*shape, 3))


def plural(role: str) -> str:
    return {"query": "queries"}.get(role, role + "s")


def array(tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor, dtype=float)


def titled(figure: BookFigure, ax: Axes, title: str, *, left: float, above: float) -> BookFigure:
    """The title above squared paper, flush with what stands leftmost."""
    ax.text(left, -above, title, ha="left", va="bottom", fontsize=12.5)
    return figure


def finish(figure: BookFigure, title: str) -> BookFigure:
    """The title above panels that lay themselves out."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5)
    return figure


def house_style():
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
