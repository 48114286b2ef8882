"""attention against JAX's dot_product_attention: values and gradients, its own masks, padding, windows and groups."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attn_lib import attention, causal_mask, padding_mask, sliding_window_mask

from .cases import METHODS, Case, cases, methods
from .oracles import assert_near, oracle, share

jax = oracle("jax", "0.10")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


def to_jax(tensor: Tensor):
    return jax.numpy.asarray(tensor.detach().numpy())


def to_torch(array) -> Tensor:
    return torch.from_numpy(array.__array__().copy())


# Compiling takes seconds for each shape and choice of words, and calls then nothing: so few of those, and many values.
@partial(jax.jit, static_argnames=("is_causal", "local_window_size"))
def value_and_gradients(query, key, value, cotangent, **words):
    attend = partial(jax.nn.dot_product_attention, **words, implementation="xla")
    output, pull_back = jax.vjp(attend, query, key, value)
    return output, pull_back(cotangent)


def agree(case: Case, ours: Tensor, seen: Tensor, lengths: Tensor, **words) -> None:
    """In value and gradients, where a query sees something: JAX masks with a large finite number, and so averages there."""
    rows = seen.any(-1, keepdim=True)  # [B, H, T, 1]
    cotangent = case.cotangent.masked_fill(~rows, 0.0)
    arrays = (to_jax(tensor.transpose(1, 2)) for tensor in (*case.inputs, cotangent))  # [B, T, H, Dk]
    shape = case.seen.shape
    words["mask"] = to_jax(case.words["mask"].expand(shape))
    words["bias"] = to_jax(case.words["bias"].expand(shape))
    output, gradients = value_and_gradients(
        *arrays, **words, scale=case.scale, key_value_seq_lengths=to_jax(lengths.int())
    )
    near = share(torch.float32, case.largest_score)  # JAX's softmax is in float32, whatever the inputs are
    theirs = to_torch(output).transpose(1, 2)
    assert_near(ours.masked_fill(~rows, 0.0), theirs.masked_fill(~rows, 0.0), near, size=1.0)
    own = torch.autograd.grad(ours, case.inputs, cotangent)
    for name, mine, other in zip(("query", "key", "value"), own, gradients, strict=True):
        assert_near(mine, to_torch(other).transpose(1, 2), near, f"gradient of {name}", size=case.size)


@pytest.mark.parametrize(
    ("heads", "T", "S", "is_causal", "window"),
    [
        ((6, 3), 5, 7, False, None),
        ((3, 1), 1, 7, False, None),
        ((3, 3), 5, 7, True, None),
        ((6, 3), 7, 5, True, 3),
        ((3, 1), 7, 7, True, 2),
    ],
    ids=["grouped", "one query", "causal", "causal window", "square"],
)
def test_every_word_of_jax_has_one_of_ours(heads, T, S, is_causal, window):
    words = {
        "is_causal": is_causal,
        "local_window_size": None if window is None else (window - 1, 0),
    }  # without its own

    drawn = {"batches": (2,), "heads": (heads,), "queries": (T,), "keys": (S,), "causal": (False,), "windows": (None,)}
    drawn |= {"masks": ("B11S", "TS", "1H1S", "BHTS"), "biases": ("TS", "H1S", "BHTS"), "levels": (0.0, 100.0, -100.0)}

    @settings(deadline=None, max_examples=12)
    @given(case=cases(Dv=11, **drawn), short=st.integers(0, S - 1), how=methods())  # values are as wide as keys there
    def holds(case, short, how):
        lengths = torch.tensor([S, S - short])
        # Its causal order and window put the first query at key 0, ours at key S - T unless an offset says otherwise.
        ordered = causal_mask(T, S, offset=0) if is_causal else torch.ones(T, S, dtype=torch.bool)
        if window is not None:
            ordered = ordered & sliding_window_mask(T, S, window=window, offset=0)
        padded = case.words["mask"] & padding_mask(lengths, S)
        seen = case.additive.gt(-torch.inf) & padding_mask(lengths, S) & ordered
        agree(case, attention(*case.inputs, **case.words | {"mask": padded & ordered}, **how), seen, lengths, **words)
        if T == S:
            ours = case.words | {"mask": padded, "is_causal": is_causal, "window": window}
            agree(case, attention(*case.inputs, **ours, **how), seen, lengths, **words)

    holds()


def test_bfloat16_rounds_to_the_same_number():  # JAX refuses float16 on a CPU
    make = torch.Generator().manual_seed(0)
    shapes = ((2, 6, 5, 11), (2, 3, 7, 11), (2, 3, 7, 11))
    query, key, value = (torch.randn(shape, generator=make).bfloat16() for shape in shapes)
    arrays = (to_jax(tensor.transpose(1, 2).float()).astype("bfloat16") for tensor in (query, key, value))
    theirs = jax.jit(jax.nn.dot_product_attention)(*arrays, mask=to_jax(causal_mask(5, 7)[None, None]))
    theirs = to_torch(theirs.astype("float32")).transpose(1, 2)
    for method in METHODS:
        ours = attention(query, key, value, is_causal=True, method=method)
        assert ours.dtype == torch.bfloat16
        # Scores and softmax are in float32 on both sides; weights and outputs may be rounded once each, on each.
        assert_near(ours.float(), theirs, 2 * torch.finfo(torch.bfloat16).eps)
