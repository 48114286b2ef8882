"""The usual mistakes: each is the same calculation with one setting or one stage replaced."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attn_lib.layers import merge_heads
from attn_lib.masks import VisibleKeys
from attn_lib.trace import AttentionTrace
from attn_lib.worked_examples.example import Number, WorkedExample, stage_order
from attn_lib.worked_examples.rounding import agrees

HEAD_WIDTHS = (4, 8, 16, 32, 64, 128, 256)


def usual_mistakes(example: WorkedExample) -> Iterator[tuple[str, AttentionTrace]]:
    """Each mistake that this example leaves room for: its name, and every stage of the wrong calculation.

    >>> from attn_lib.worked_examples import load_builtin
    >>> mistakes = dict(usual_mistakes(load_builtin("self_attention_love")))
    >>> mistakes["no scale"].weights.sum(dim=-1).round(decimals=4)  # wrong, and still 1
    tensor([1., 1., 1., 1.], dtype=torch.float64)
    """
    right, settings = example.trace(), example.settings
    if settings["scale"] != 1.0:
        yield "no scale", example.trace(scale=1.0)
    width = _model_width(example)
    if width is not None:
        yield "scale by sqrt(D), the model's width, not the head's", example.trace(scale=1 / math.sqrt(width))
    if settings["scale"] is not None and right.Q is not None:
        yield "scale by sqrt(Dk), which the settings do not have", example.trace(scale=None)

    if right.Q is None and right.scores is not None:
        # Nobody knows how wide the queries were: try the widths that heads have.
        for width in HEAD_WIDTHS:
            yield f"scale by sqrt({width}), which the settings do not have", example.trace(scale=1 / math.sqrt(width))

    if right.scores is not None and right.scores.shape[-2] == right.scores.shape[-1]:
        yield "queries and keys swapped", example.trace({"scores": right.scores.mT})

    allowed = _allowed(example)
    if allowed is not None:
        unmasked = {"is_causal": False, "window": None}
        yield "mask flipped", example.trace(mask=~allowed, **unmasked)
        yield "mask left out", example.trace(mask=None, **unmasked)
        if right.scaled_scores is not None:
            late = torch.softmax(right.scaled_scores, -1).masked_fill(~allowed, 0.0)
            yield "mask after the softmax", example.trace({"weights": late})
    if right.masked_scores is not None and settings["softmax"]:
        yield "softmax over the wrong axis", example.trace({"weights": torch.softmax(right.masked_scores, -2)})
        yield "softmax left out", example.trace(softmax=False)
        left_out = example.trace(softmax=False).weights
        yield "scores divided by their sum, no softmax", example.trace({"weights": left_out / left_out.sum(-1, True)})

    if settings["num_heads"] is not None:
        if right.head_outputs is not None:
            yield "heads merged by view", example.trace({"concatenated": _view(right.head_outputs, merged=True)})
        projected = {name: getattr(right, name) for name in "QKV" if getattr(right, name) is not None}
        if projected:
            yield "heads split by view", example.trace({name: _view(heads) for name, heads in projected.items()})
    yield "rounded intermediates carried on", example.carried_trace()


def explain(example: WorkedExample, wrong: Sequence[Number], others: Sequence[Number]) -> str | None:
    """The usual mistake behind the first wrong number, and precisely how much it explains.

    A mistake counts only if it gives every number of that number's stage. It explains *all* when it
    gives every printed number from there on, the right ones too.

    Args:
        wrong: the numbers to explain, in the order of the calculation, at least one.
        others: the remaining printed numbers.
    """
    start = stage_order(wrong[0].place.stage)
    onwards = [number for number in (*wrong, *others) if stage_order(number.place.stage) >= start]
    best: tuple[int, str] = (0, "")
    for name, trace in usual_mistakes(example):
        fits = [number for number in onwards if agrees(number.stated, example.value(number.place, trace))]
        here = [number for number in onwards if number.place.stage == wrong[0].place.stage]
        if all(number in fits for number in here) and len(fits) > best[0]:
            best = len(fits), name
    count, name = best
    if not count:
        return _carried_on(example, wrong)
    all_of_them = "all " if count == len(onwards) else ""
    return f"{name} (explains {all_of_them}{count} of the {len(onwards)} printed numbers from there on)"


def _carried_on(example: WorkedExample, wrong: Sequence[Number]) -> str | None:
    """Where no mistake explains the first wrong stage: whether all that is wrong after it follows from what is printed."""
    first = wrong[0].place.stage
    after = [number for number in wrong if number.place.stage != first]
    carried = example.carried_trace()
    if not after or not all(agrees(number.stated, example.value(number.place, carried)) for number in after):
        return None
    return f"what is printed carried on (explains all {len(after)} wrong numbers after {first}, not those in it)"


def _model_width(example: WorkedExample) -> int | None:
    """D: the width of X, or of all heads together."""
    if "X" in example.given:
        return example.given["X"].shape[-1]
    Q = example.trace().Q
    return None if Q is None or Q.dim() == 2 else merge_heads(Q).shape[-1]


def _allowed(example: WorkedExample) -> Tensor | None:
    """The example's mask, causal setting and window as one boolean, or None where nothing is masked."""
    scores = example.score_like()
    if scores is None:
        return None
    settings = example.settings
    T, S = scores.shape[-2:]
    return VisibleKeys(T, S, settings["mask"], settings["is_causal"], settings["window"]).block()


def _view(heads: Tensor, merged: bool = False) -> Tensor:
    """Heads split, or merged, by a view without the transpose, which mixes tokens and heads."""
    H, T, width = heads.shape
    return heads.reshape(T, H * width) if merged else merge_heads(heads).reshape(H, T, width)
