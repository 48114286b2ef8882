"""What a figure must hold whatever it shows; whether it still shows the same is the notebooks' business."""

import base64
import io
import itertools
import logging
import warnings

import matplotlib
import pytest
import torch
from matplotlib.colors import to_rgb
from PIL import Image

from attn_lib import merge_heads, plots

TOKENS = ["私は", "機械学習が", "love"]
WEIGHTS = torch.tensor([[0.0, 0.25, 0.75], [1.0, 0.0, 0.0], [0.5, 0.125, 0.375]], dtype=torch.float64)
CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()
OWNER = torch.arange(6).view(2, 3, 1).expand(2, 3, 2)


def drawings():
    role = torch.tensor([[1.0, -0.5], [0.25, 2.0], [3.0, 0.0]])
    projections = {"query": ("X", role[:2], role), "key": ("X", role[:2], role), "value": ("X", role[:2], role)}
    return {
        "weights": lambda: plots.plot_weights(WEIGHTS, TOKENS, title="私は"),
        "heads": lambda: plots.plot_weights([WEIGHTS] * 3, TOKENS, title="heads", names=["a", "b", "c"]),
        "one cell": lambda: plots.plot_weights(torch.ones(1, 1), ["I"], title="alone"),
        "many keys": lambda: plots.plot_weights(torch.eye(40), [f"token {i}" for i in range(40)], title="many"),
        "projections": lambda: plots.plot_projections({"X": role}, projections, {"X": TOKENS}, title="three"),
        "steps": lambda: plots.plot_steps({"score": role[:, 0], "weight": WEIGHTS[0]}, TOKENS, title="steps"),
        "blend": lambda: plots.plot_blend(WEIGHTS[0], role.abs(), TOKENS, title="blend"),
        "output map": lambda: plots.plot_output_map(role[:2], torch.eye(4), torch.ones(4), title="map"),
        "masks": lambda: plots.plot_masks({"causal": CAUSAL, "its opposite": ~CAUSAL}, TOKENS, title="masks"),
        "masks of several sizes": lambda: plots.plot_masks(
            {"square": CAUSAL, "wide": torch.ones(1, 4, dtype=torch.bool)},
            {"square": TOKENS, "wide": ["寝る"]},
            {"square": TOKENS, "wide": ["a", "b", "c", "d"]},
            title="sizes",
        ),
        "signed": lambda: plots.plot_signed(role, TOKENS, ["x", "y"], title="signed"),
        "signed, many": lambda: plots.plot_signed(
            torch.randn(50, 32), [str(i) for i in range(50)], [str(i) for i in range(32)], title="many"
        ),
        "nothing but zeros": lambda: plots.plot_signed(torch.zeros(2, 2), TOKENS[:2], title="zeros"),
        "curves": lambda: plots.plot_curves(
            [1, 2, 4],
            {"$measured": [1.0, 4.1, 15.8], "again": role[:, 0].abs()},
            predicted={"S²": [1, 4, 16]},
            x_label="S",
            y_label="pairs",
            title="curves",
            log_x=True,
            log_y=True,
        ),
        "encoder layer": lambda: plots.plot_encoder_layer({"in": "a note"}, title="layer"),
        "head sharing": lambda: plots.plot_head_sharing({"MHA": (16, 16), "MQA": (8, 1)}, title="sharing"),
        "arrows": lambda: plots.plot_arrows(
            {"a": {"q": role[0], "zero": torch.zeros(2)}, "b": {"k": role[1]}}, roles={"q": "query"}, title="arrows"
        ),
        "owners": lambda: plots.plot_owners({"merged": merge_heads(OWNER)}, TOKENS, title="owners"),
    }


def curves(lines, **settings):
    return plots.plot_curves([0, 2], lines, x_label="x", y_label="y", title="t", **settings)


def test_a_curve_over_whole_numbers_has_ticks_at_whole_numbers():
    labels = {"x_label": "x", "y_label": "y", "title": "t"}
    for x, whole in ((range(4), True), ([0.0, 0.5, 1.0], False)):
        ax = plots.plot_curves(x, {"c": torch.arange(float(len(x)))}, **labels).axes[0]
        ax.figure.draw_without_rendering()
        ticks = ax.get_xticks()
        assert bool((ticks == ticks.round()).all()) == whole


def test_rows_that_are_no_queries_and_columns_that_are_no_keys_are_named():
    figure = plots.plot_weights(torch.eye(2), ["a", "b"], ["c", "d"], title="t", row_label="seed", column_label="head")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"seed", "head"} <= set(said) and not {"query", "key"} & set(said)


def test_a_curve_that_ends_early_has_its_name_where_it_ends():
    nan = float("nan")
    figure = plots.plot_curves(
        [1, 2, 4], {"short": [1.0, 2.0, nan], "long": [3.0, 2.0, 1.0]}, x_label="x", y_label="y", title="t"
    )
    places = {text.get_text(): text.xy for text in figure.axes[0].texts}
    assert places == {"short": (2.0, 2.0), "long": (4.0, 1.0)}
    with pytest.raises(ValueError, match="curve 'none' must have a number that is finite"):
        curves({"none": [nan, nan]})


def shown(figure):
    data, metadata = figure._repr_mimebundle_()
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    return image.convert("RGB"), metadata["image/png"]


@pytest.mark.parametrize("name", drawings())
def test_every_figure_draws_in_silence_and_leaves_matplotlib_as_it_was(name, caplog):
    before = dict(matplotlib.rcParams)
    # A glyph that no font has is a warning, a font that is not found a log message: both end up in a notebook's stderr.
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        image, size = shown(drawings()[name]())
    assert not caplog.records
    assert dict(matplotlib.rcParams) == before
    assert image.size == (size["width"] * 2, size["height"] * 2) or max(image.width % 2, image.height % 2)
    assert size["width"] <= 680, "wider than the book's text"
    assert image.getpixel((1, 1)) == (255, 255, 255)


def test_tokens_are_words_not_formulas():
    image, _ = shown(plots.plot_weights(torch.ones(1, 2), ["$\\foo$"], ["$$", "a$b$c"], title="dollars"))
    assert image.width > 100


def test_a_masked_score_and_negative_scores_have_room_for_their_numbers():
    rows = {"score": torch.tensor([-1.0, -3.0, -torch.inf]), "weight": torch.tensor([0.9, 0.1, 0.0])}
    figure = plots.plot_steps(rows, TOKENS, title="masked")
    low, high = figure.axes[0].get_xlim()
    assert low < -3 and high > 0
    shown(figure)


def test_the_readers_own_style_stays_out():
    plain, _ = shown(drawings()["steps"]())
    with matplotlib.rc_context({"axes.facecolor": "black", "savefig.facecolor": "black", "axes.grid": True}):
        styled, _ = shown(drawings()["steps"]())
    assert plain.tobytes() == styled.tobytes()


@pytest.mark.parametrize(
    ("misuse", "says"),
    [
        (lambda: plots.plot_weights(WEIGHTS, TOKENS[:2], title="t"), "query_tokens holds 2 names, the matrix needs 3"),
        (
            lambda: plots.plot_weights(WEIGHTS[:2], TOKENS[:2], title="t"),
            "key_tokens holds 2 names, the matrix needs 3",
        ),
        (lambda: plots.plot_weights(torch.ones(2, 1, 3, 3), TOKENS, title="t"), r"must be \[T, S\] or \[H, T, S\]"),
        (lambda: plots.plot_weights(torch.ones(0, 3), [], TOKENS, title="t"), "must not be empty"),
        (lambda: plots.plot_weights([WEIGHTS] * 2, TOKENS, title="t", names=["a"]), "names holds 1 names"),
        (lambda: plots.plot_steps({"score": torch.ones(2)}, TOKENS, title="t"), r"stages\['score'\] needs 2"),
        (lambda: plots.plot_blend(WEIGHTS[0], -WEIGHTS, TOKENS, title="t"), "value must not be negative"),
        (lambda: plots.plot_blend(WEIGHTS[0, :2], WEIGHTS, TOKENS, title="t"), r"weights \[2\] must be \[S\]"),
        (
            lambda: plots.plot_output_map(torch.ones(2, 2), torch.eye(3), torch.ones(3), title="t"),
            "do not fit together",
        ),
        (lambda: plots.plot_masks({}, TOKENS, title="t"), "masks must not be empty"),
        (
            lambda: plots.plot_masks({"m": CAUSAL[None]}, TOKENS, title="t"),
            r"mask 'm' must be \[T, S\], got \[1, 3, 3\]",
        ),
        (
            lambda: plots.plot_masks({"m": CAUSAL[:2]}, TOKENS, title="t"),
            "query_tokens holds 3 names, mask 'm' needs 2",
        ),
        (lambda: plots.plot_signed(WEIGHTS, TOKENS, ["a"], title="t"), "columns holds 1 names, the matrix needs 3"),
        (lambda: curves({"a": [1.0]}), "curve 'a' must have 2 numbers, as x has, got 1"),
        (lambda: curves({"a": [1.0, 0.0]}, log_y=True), "curve 'a' must be above 0"),
        (lambda: curves({"a": [1.0, 2.0]}, log_x=True), "x must be above 0"),
        (lambda: curves({name: [1.0, 2.0] for name in "abcde"}), "curves must be 1 to 4, got 5"),
        (lambda: plots.plot_encoder_layer({"norm": "?"}, title="t"), r"no box of the drawing: \['norm'\]"),
        (lambda: plots.plot_head_sharing({"odd": (8, 3)}, title="t"), "Hkv = 3 must divide H = 8"),
        (lambda: plots.plot_arrows({"a": {"q": torch.ones(3)}}, title="t"), r"arrow 'q' must be \[2\], got \[3\]"),
        (lambda: plots.plot_arrows({"a": {}}, title="t"), "at least one arrow"),
    ],
)
def test_what_does_not_fit_is_refused_not_drawn(misuse, says):
    with pytest.raises(ValueError, match=says):
        misuse()


def test_the_same_figure_is_the_same_bytes():
    first, again = (drawings()["projections"]()._repr_mimebundle_()[0] for _ in range(2))
    assert first == again


def test_the_colours_of_query_key_and_value_reach_the_page_unchanged():
    image, _ = shown(drawings()["projections"]())
    there = {color for _, color in image.getcolors(image.width * image.height)}
    for color in plots.ROLE_COLORS.values():
        assert tuple(round(255 * channel) for channel in to_rgb(color)) in there


def test_each_cell_holds_its_number_and_dark_cells_have_light_ink():
    figure = plots.plot_weights(WEIGHTS, TOKENS, title="numbers")
    texts = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert {"0.00", "0.25", "0.75", "1.00", "0.50", "0.12", "0.38"} <= set(texts)
    assert texts["1.00"] == plots.PAPER and texts["0.00"] == plots.INK


def test_cells_too_narrow_for_a_number_hold_none():
    figure = drawings()["many keys"]()
    assert "1.00" not in {text.get_text() for text in figure.axes[0].texts}


def test_a_mask_says_by_a_sign_what_its_colour_says_and_refuses_numbers():
    figure = plots.plot_masks({"causal": CAUSAL}, TOKENS, title="masks")
    assert [text.get_text() for text in figure.axes[0].texts][:9] == list("✓××✓✓×✓✓✓")
    with pytest.raises(TypeError, match="mask 'm' must be boolean, got torch.float64"):
        plots.plot_masks({"m": WEIGHTS}, TOKENS, title="t")


def test_signed_numbers_are_white_at_zero_and_equally_dark_on_both_sides():
    figure = plots.plot_signed(torch.tensor([[-2.0, 0.0, 2.0, 1.0]]), ["a"], list("wxyz"), title="signed")
    colors = [patch.get_facecolor()[:3] for patch in figure.axes[0].patches]
    assert colors[1] == pytest.approx((1, 1, 1), abs=0.02)
    assert colors[0] == to_rgb("#7A4A00") and colors[2] == to_rgb("#4B4471")


def test_the_names_of_curves_that_end_together_do_not_touch():
    figure = curves({"one": [0.0, 1.0], "two": [5.0, 1.0], "three": [2.0, 1.001], "four": [9.0, 10.0]})
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))
