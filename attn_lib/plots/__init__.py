"""Every figure of the book, drawn by one hand.

Rows are queries, columns are keys. Query, key and value keep one colour each (Okabe and Ito's blue,
vermilion, bluish green), and a letter says what the colour says. Weights run from light (0) to dark (1)
in one map whose lightness falls evenly. As the last line of a notebook cell a figure is shown
once, sharp and small; pyplot and its global state are not used.
"""

from attn_lib.plots.alignment import plot_alignment
from attn_lib.plots.charts import plot_blend, plot_curves, plot_steps
from attn_lib.plots.diagrams import plot_arrows, plot_encoder_layer, plot_head_sharing
from attn_lib.plots.house import HEAD_COLORS, INK, PAPER, ROLE_COLORS, WEIGHT_MAP, BookFigure
from attn_lib.plots.matrices import (
    plot_masks,
    plot_output_map,
    plot_owners,
    plot_projections,
    plot_signed,
    plot_weights,
)

__all__ = [
    "HEAD_COLORS",
    "INK",
    "PAPER",
    "ROLE_COLORS",
    "WEIGHT_MAP",
    "BookFigure",
    "plot_alignment",
    "plot_arrows",
    "plot_blend",
    "plot_curves",
    "plot_encoder_layer",
    "plot_head_sharing",
    "plot_masks",
    "plot_output_map",
    "plot_owners",
    "plot_projections",
    "plot_signed",
    "plot_steps",
    "plot_weights",
]
