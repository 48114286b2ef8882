"""States of the explorer: the documents' examples, random ones, and what the library makes of them."""

import math
import random

import torch

from attn_lib import trace_from
from attn_lib.trace import STAGES
from attn_lib.worked_examples import builtin_examples, load_example
from book.extension.attention_book.explorer import LARGEST, MOST_HEADS, prepare
from book.extension.attention_book.explorer import STAGES as PER_HEAD

EXAMPLES = {it["id"]: it for it in (prepare(path.stem, load_example(path)) for path in builtin_examples())}
RIGHT = 1e-12  # a sum of a few products in another order differs in its last digits


def library_stages(state: dict) -> dict[str, list | None]:
    """Every stage as the library computes it in float64, with a head axis as the explorer has it."""
    heads = state["heads"]
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in state["given"].items()}
    if heads == 1:
        given = {name: value.squeeze(0) if name in PER_HEAD else value for name, value in given.items()}
    scale = state["scale"]
    trace = trace_from(
        given,
        num_heads=None if heads == 1 else heads,
        is_causal=state["causal"],
        mask=None if state["mask"] is None else torch.tensor(state["mask"]).bool(),
        scale=None if scale == "sqrt_dk" else 1.0 if scale == "none" else 1 / scale,
    )
    return {name: nested(name, getattr(trace, name), heads) for name in STAGES}


def nested(name: str, tensor: torch.Tensor | None, heads: int) -> list | None:
    if tensor is None:
        return None
    return (tensor.unsqueeze(0) if heads == 1 and name not in ("concatenated", "output") else tensor).tolist()


def faults(computed: dict, right: dict) -> list[str]:
    """Where two sets of stages differ: another stage missing, another shape, a number off by more than `RIGHT`."""
    found = []
    for name in STAGES:
        if (computed[name] is None) != (right[name] is None):
            found.append(f"{name} is there once only")
        elif right[name] is not None:
            one, other = (torch.tensor(floats(each[name]), dtype=torch.float64) for each in (computed, right))
            if one.shape != other.shape:
                found.append(f"{name} is of shape {list(one.shape)}, not {list(other.shape)}")
                continue
            same = (one == other) | ((one - other).abs() <= RIGHT * other.abs().clamp(min=1))
            if not same.all():
                found.append(f"{name} is off by {(one - other).abs().nan_to_num(math.inf).max():.1e}")
    return found


def floats(nested: list | float | str) -> list | float:
    return [floats(part) for part in nested] if isinstance(nested, list) else float(nested)


def random_states(count: int, seed: int = 0) -> list[dict]:
    """States of every kind: one number and many, masks with empty rows, heads, two sequences, begun in the middle."""
    draw = random.Random(seed)
    states = [random_state(draw, smallest=True, begin=begin) for begin in ("X", "Q", "weights")]
    return states + [random_state(draw) for _ in range(count - len(states))]


def random_state(draw: random.Random, smallest: bool = False, begin: str | None = None) -> dict:
    def size(most: int) -> int:
        return 1 if smallest else draw.randint(1, most)

    T, S, D, C, Dk, Dv, O = (size(LARGEST) for _ in range(7))
    H = size(MOST_HEADS)
    spread = draw.choice([0.3, 1.0, 1.0, 3.0, 8.0])  # the last leads to scores of some hundreds
    digits = draw.choice([1, 2, 2, 17])

    def numbers(*shape: int):
        if not shape:
            return round(draw.gauss(0, spread), digits) + 0.0
        return [numbers(*shape[1:]) for _ in range(shape[0])]

    begin = begin or draw.choice(
        ["X"] * 5 + ["context"] * 4 + ["Q", "scores", "scaled_scores", "weights", "head_outputs"]
    )
    if begin in ("X", "context"):
        S, C = (S, C) if begin == "context" else (T, D)
        given = {"X": numbers(T, D), "W_Q": numbers(D, H * Dk), "W_K": numbers(C, H * Dk), "W_V": numbers(C, H * Dv)}
        given |= {"context": numbers(S, C)} if begin == "context" else {}
    elif begin == "Q":
        given = {"Q": numbers(H, T, Dk), "K": numbers(H, S, Dk), "V": numbers(H, S, Dv)}
    elif begin == "head_outputs":
        given = {"head_outputs": numbers(H, T, Dv)}
    else:
        given = {begin: numbers(H, T, S), "V": numbers(H, S, Dv)}
    if draw.random() < 0.4:
        given["W_O"] = numbers(H * Dv, O)
    mask = None
    if begin != "head_outputs" and draw.random() < 0.6:
        density = draw.choice([0.0, 0.3, 0.7])  # 0: every row is empty
        mask = [[int(draw.random() < density) for _ in range(S)] for _ in range(T)]
    return {
        "tokens": {"query": tokens(draw, T), "key": None if begin == "X" else tokens(draw, S)},
        "given": given,
        "heads": H,
        "causal": draw.random() < 0.4,
        "mask": mask,
        "scale": draw.choice(["sqrt_dk", "sqrt_dk", "none", round(draw.uniform(0.1, 9), 3)]),
    }


# Words that a file could take for something else, and words of other kinds.
WORDS = [
    "love",
    "no",
    "1.0",
    "null",
    "~",
    ": ",
    "a: b",
    "#",
    "- x",
    '"',
    "'",
    "\\",
    "{}",
    "[",
    "猫",
    "私は",
    "é",
    "🙂",
    "%",
    "<b>",
    "&amp;",
    "0x1F",
    "a\u00a0b",
    "\u200f",
    "|",
]


def tokens(draw: random.Random, count: int) -> list[str]:
    return [draw.choice(WORDS).strip() or "x" for _ in range(count)]
