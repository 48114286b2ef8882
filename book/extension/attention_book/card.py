"""The picture that a shared link shows: the book's title, and its first calculation as the checker proved it."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path

from .calculation import correct, last_printing

WIDTH, HEIGHT = 1200, 630  # pixels, what those who show such pictures ask for
EXAMPLE, ROW = "self_attention_love", "love"
LOGO = Path(__file__).resolve().parents[2] / "assets" / "apple-touch-icon.png"


def calculated() -> tuple[list[str], list[str], list[str]]:
    """Return the tokens, their weights and the output, as printed and where that was wrong as corrected.

    Raises:
        AssertionError: the checker does not prove the example.
    """
    from attn_lib.worked_examples import check_example, load_builtin

    example = load_builtin(EXAMPLE)
    check_example(example).assert_right()
    weights = last_printing(example, "weights", ROW)
    correct(example, "weights", ROW, weights)
    return list(example.key_tokens), weights, last_printing(example, "output", ROW)


def alt() -> str:
    """Return what the picture shows, in words."""
    tokens, weights, output = calculated()
    shares = ", ".join(f"{token} {weight}" for token, weight in zip(tokens, weights, strict=True))
    return (
        f"What the word {ROW} takes from each word of its sentence: {shares}; and what it becomes: {', '.join(output)}"
    )


def draw(path: Path, title: str) -> None:
    """Draw the picture into a file.

    Args:
        path: where it is written, as PNG.
        title: of the book; a comma in it ends the first line.
    """
    import matplotlib as mpl
    from attn_lib.plots.house import QUIET, ROLE_COLORS, WEIGHT_MAP, BookFigure, few_colors, house_style
    from PIL import Image

    tokens, weights, output = calculated()
    longest = max(map(float, weights))
    # The house's Japanese font has no bold face, and would say so.
    with house_style(), mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 20}):
        figure = BookFigure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        ax.axis("off")
        for line, text in enumerate(title.replace(", ", ",\n").splitlines()):
            ax.text(80, 96 + 82 * line, text, fontsize=46, weight="bold", va="center")
        for line, (token, weight) in enumerate(zip(tokens, weights, strict=True)):
            y, share = 290 + 50 * line, float(weight) / longest
            ax.text(300, y, token, ha="right", va="center", weight="bold" if token == ROW else "normal")
            ax.barh(y, 640 * share, left=324, height=32, color=WEIGHT_MAP(0.65 * share))
            ax.text(338 + 640 * share, y, weight, va="center")
        y = 290 + 50 * len(tokens) + 42
        ax.text(300, y, f"{ROW} becomes", ha="right", va="center", color=QUIET)
        ax.text(324, y, "    ".join(output), fontsize=34, va="center", weight="bold", color=ROLE_COLORS["value"])
        with closing(io.BytesIO()) as full:
            figure.savefig(full, format="png", dpi=100, bbox_inches=None)
            image = Image.open(full).convert("RGB")
        image.paste(Image.open(LOGO).convert("RGB"), (WIDTH - 80 - 158, 46))
        few_colors(image).save(path, format="png", optimize=True)
