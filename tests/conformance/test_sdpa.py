"""attention against PyTorch's scaled_dot_product_attention (the MATH backend) and against finite differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention

from attn_lib import attention, attention_weights, causal_mask

from .cases import F64, METHODS, Case, cases, methods
from .oracles import assert_near, share


def sdpa(case: Case, value: Tensor | None = None, **words) -> Tensor:
    """What PyTorch's textbook kernel makes of a case."""
    value = case.value if value is None else value
    words = words or {"attn_mask": case.additive, "scale": case.scale}
    grouped = case.query.shape[1] != case.key.shape[1]
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(case.query, case.key, value, **words, enable_gqa=grouped)


def agree(case: Case, ours: Tensor, theirs: Tensor) -> None:
    """In value and, pulled back from one cotangent, in the gradient of every input."""
    near = share(F64, case.largest_score)
    assert_near(ours, theirs, near, size=1.0)
    pairs = (torch.autograd.grad(output, case.inputs, case.cotangent) for output in (ours, theirs))
    for name, mine, other in zip(("query", "key", "value"), *pairs, strict=True):
        assert_near(mine, other, near, f"gradient of {name}", size=case.size)


@settings(deadline=None, max_examples=40)
@given(case=cases(), how=methods())
def test_values_and_gradients_are_those_of_the_math_kernel(case, how):
    agree(case, attention(*case.inputs, **case.words, **how), sdpa(case))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("S", [263, 521])
@pytest.mark.parametrize("kind", ["is_causal", "window", "mask", "bias"])
def test_long_sequences_which_are_read_in_blocks_agree_as_well(kind, S, method):
    T, make = 263, torch.Generator().manual_seed(0)  # blocks are of 256 queries or more
    shapes = ((1, 3, T, 11), (1, 1, S, 11), (1, 1, S, 13), (1, 3, T, 13))
    *inputs, cotangent = (torch.randn(shape, generator=make, dtype=F64) for shape in shapes)
    words = {
        "is_causal": True,
        "window": 100,
        "mask": torch.rand(3, T, S, generator=make) < 0.5,
        "bias": torch.randn(T, S, generator=make, dtype=F64),
    }
    case = Case(*(tensor.requires_grad_() for tensor in inputs), {kind: words[kind], "scale": -0.7}, cotangent)
    agree(case, attention(*case.inputs, **case.words, method=method), sdpa(case))


@settings(deadline=None, max_examples=20)
@given(case=cases())
def test_weights_are_what_the_math_kernel_makes_of_an_identity_as_values(case):
    S, Hkv = case.key.shape[2], case.key.shape[1]
    identity = torch.eye(S, dtype=F64).expand(case.key.shape[0], Hkv, S, S)
    weights = attention_weights(case.query, case.key, **case.words)
    assert_near(weights, sdpa(case, identity), share(F64, case.largest_score), size=1.0)


@settings(deadline=None, max_examples=20)
@given(case=cases(masks=(None,), biases=(None,), causal=(True,), windows=(None,), scales=(None,)), how=methods())
def test_causal_is_pytorchs_lower_right_and_its_is_causal_is_our_offset_0(case, how):
    T, S = case.query.shape[2], case.key.shape[2]
    if T <= S:  # else its first queries see nothing, for which causal_lower_right warns of NaN
        ours = attention(*case.inputs, is_causal=True, **how)
        agree(case, ours, sdpa(case, attn_mask=causal_lower_right(T, S)))
    for words in ({"is_causal": True}, {"attn_mask": causal_upper_left(T, S)}):
        agree(case, attention(*case.inputs, mask=causal_mask(T, S, offset=0), **how), sdpa(case, **words))


@settings(deadline=None, max_examples=20)
@given(
    dtype=st.sampled_from((torch.float32, torch.float16, torch.bfloat16)),
    data=st.data(),
    how=methods(),
)
def test_lower_precision_is_the_math_kernel_in_float64_rounded(dtype, data, how):
    # Scores of at most some hundred: float16 ends at 65504, and the level stands in the query times sqrt(Dk).
    case = data.draw(cases(dtype=dtype, levels=(0.0, 100.0, -100.0)))
    exact = Case(*(tensor.detach().double() for tensor in case.inputs), case.words)
    ours = attention(*case.inputs, **case.words, **how)
    assert ours.dtype == dtype
    # Scores in float32, then at most two roundings to the dtype: of the weights (PyTorch's own kernels) and the output.
    near = share(torch.float32, exact.largest_score) + 2 * torch.finfo(dtype).eps
    assert_near(ours, sdpa(exact), near, size=float(exact.value.abs().max()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"is_causal": True},
        {"window": 2, "scale": -0.7},
        {"softcap": 1.5, "is_causal": True},
    ],
    ids=["plain", "causal", "window", "softcap"],
)
def test_gradients_are_those_of_finite_differences(method, words):
    make = torch.Generator().manual_seed(0)
    B, H, Hkv, T, S, Dk, Dv = 1, 2, 1, 3, 5, 2, 3
    shapes = ((B, H, T, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv), (H, 1, S))
    inputs = [torch.randn(shape, generator=make, dtype=F64).requires_grad_() for shape in shapes]
    mask = torch.rand(B, 1, T, S, generator=make) < 0.7
    mask[..., 0, :] = False  # this query sees nothing, and must spoil no gradient
    tiles = {"block_sizes": (2, 2)} if method == "tiled" else {}

    def ours(query, key, value, bias):
        return attention(query, key, value, mask=mask, bias=bias, **words, method=method, **tiles)

    assert gradcheck(ours, inputs)
