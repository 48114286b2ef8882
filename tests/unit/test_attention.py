"""attention and attention_weights against numbers a person can compute and against PyTorch's kernels."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attn_lib import attention, attention_weights, causal_mask, sliding_window_mask

F64 = torch.float64


def tensors(B=2, H=6, Hkv=3, T=5, S=7, Dk=11, Dv=13, dtype=F64, seed=0, size=1.0):
    """Distinct primes, so that no swapped axis can pass."""
    make = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv))
    return [(torch.randn(shape, generator=make, dtype=F64) * size).to(dtype).requires_grad_() for shape in shapes]


def test_integers_that_a_person_can_follow():
    # With scale log(2) the softmax counts in powers of two: scores 0, 1, 2 weigh 1/7, 2/7, 4/7.
    query = torch.tensor([[1.0, 0.0]], dtype=F64)
    key = torch.tensor([[0.0, 9.0], [1.0, 9.0], [2.0, 9.0]], dtype=F64)
    value = torch.tensor([[7.0], [0.0], [14.0]], dtype=F64)
    weights = attention_weights(query, key, scale=math.log(2))
    assert_close(weights, torch.tensor([[1 / 7, 2 / 7, 4 / 7]], dtype=F64))
    assert_close(attention(query, key, value, scale=math.log(2)), torch.tensor([[9.0]], dtype=F64))


def test_groups_are_consecutive_heads():
    # Every key/value head holds its own number, so the output says which one a query head has read.
    query = torch.zeros(1, 6, 2, 3)
    key = torch.zeros(1, 3, 4, 3)
    value = torch.arange(3.0)[None, :, None, None].expand(1, 3, 4, 1)
    assert attention(query, key, value)[0, :, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]


@settings(deadline=None, max_examples=60)
@given(
    T=st.sampled_from([1, 2, 5]),
    S=st.sampled_from([1, 3, 7]),
    groups=st.sampled_from([(1, 1), (3, 1), (6, 2), (5, 5)]),
    is_causal=st.booleans(),
    window=st.sampled_from([None, 1, 3]),
    masked=st.booleans(),
    biased=st.booleans(),
    scale=st.sampled_from([None, 0.3, -2.0]),
    size=st.sampled_from([1.0, 30.0]),  # large scores of both signs: a missing max subtraction shows
    seed=st.integers(0, 99),
)
def test_agrees_with_pytorchs_math_kernel_in_values_and_gradients(
    T, S, groups, is_causal, window, masked, biased, scale, size, seed
):
    H, Hkv = groups
    inputs = tensors(2, H, Hkv, T, S, seed=seed, size=size)
    make = torch.Generator().manual_seed(seed + 1)
    mask = torch.rand(2, 1, T, S, generator=make) < 0.7 if masked else None
    bias = torch.randn(H, T, S, generator=make, dtype=F64) if biased else None
    allowed = torch.ones(2, 1, T, S, dtype=torch.bool)
    if masked:
        allowed = allowed & mask
    if is_causal:
        allowed = allowed & causal_mask(T, S)
    if window is not None:
        allowed = allowed & sliding_window_mask(T, S, window=window)
    ours = attention(*inputs, mask=mask, bias=bias, is_causal=is_causal, window=window, scale=scale)
    # PyTorch gives a query without keys whatever its kernel gives; ours is 0, so such rows are opened for it.
    empty = ~allowed.any(-1, keepdim=True)
    additive = torch.zeros(2, H, T, S, dtype=F64) if bias is None else bias.expand(2, H, T, S)
    additive = additive.masked_fill(~(allowed | empty), -torch.inf)
    with sdpa_kernel(SDPBackend.MATH):
        theirs = scaled_dot_product_attention(*inputs, attn_mask=additive, scale=scale, enable_gqa=H != Hkv)
    theirs = theirs.masked_fill(empty, 0.0)
    assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    cotangent = torch.randn(ours.shape, generator=make, dtype=F64)
    for name, mine, other in zip(
        ("query", "key", "value"),
        torch.autograd.grad(ours, inputs, cotangent),
        torch.autograd.grad(theirs, inputs, cotangent),
        strict=True,
    ):
        assert_close(mine, other, rtol=1e-8, atol=1e-8, msg=lambda text, name=name: f"gradient of {name}: {text}")


def test_a_query_without_keys_gets_zero_and_harms_no_gradient():
    query, key, value = tensors(T=3, S=3)
    mask = causal_mask(3, offset=-1)  # the first query sees nothing
    output = attention(query, key, value, mask=mask)
    weights = attention_weights(query, key, mask=mask)
    assert output[..., 0, :].eq(0).all() and weights[..., 0, :].eq(0).all()
    assert_close(weights[..., 1:, :].sum(-1), torch.ones(2, 6, 2, dtype=F64))
    for gradient in torch.autograd.grad(output.square().sum(), (query, key, value)):
        assert gradient.isfinite().all()


def test_softcap_is_applied_after_the_scale_and_before_the_mask():
    query, key = (torch.tensor([[x]], dtype=F64) for x in (3.0, 5.0))
    key = torch.cat([key, key * 0, key])
    weights = attention_weights(query, key, scale=2.0, softcap=4.0, mask=torch.tensor([[True, True, False]]))
    top = math.exp(4 * math.tanh(30 / 4))
    assert_close(weights, torch.tensor([[top / (top + 1), 1 / (top + 1), 0.0]], dtype=F64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    inputs = [tensor.detach() for tensor in tensors(dtype=dtype, S=31)]
    ours = attention(*inputs, is_causal=True)
    exact = attention(*[tensor.double() for tensor in inputs], is_causal=True)
    assert ours.dtype == dtype
    # Only the last rounding may show: half a unit in the last place of the result's dtype.
    assert_close(ours, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-7)


def test_autocast_does_not_bring_half_precision_back():
    query = torch.randn(1, 1, 4, 64, generator=torch.Generator().manual_seed(0)) * 100
    with torch.autocast("cpu", dtype=torch.float16):
        inside = attention(query, query, query), attention_weights(query, query)
    assert torch.equal(inside[0], attention(query, query, query))
    assert torch.equal(inside[1], attention_weights(query, query))


def test_a_bias_may_be_finer_or_coarser_than_the_query():
    query, key, value = (tensor.detach() for tensor in tensors(dtype=torch.float32))
    bias = torch.randn(5, 7, dtype=F64)
    assert_close(attention(query, key, value, bias=bias), attention(query, key, value, bias=bias.float()))
    assert attention_weights(query.half(), key.half(), bias=bias).dtype == torch.float16


@pytest.mark.parametrize("sizes", [{"B": 0}, {"T": 0}, {"S": 0}])
def test_empty_axes(sizes):
    query, key, value = tensors(**sizes)
    output = attention(query, key, value)
    assert output.shape == (*query.shape[:-1], value.shape[-1])
    assert output.eq(0).all()


def test_any_leading_axes_and_strides():
    query, key, value = (tensor.detach() for tensor in tensors())
    flat = attention(query, key, value)
    led = attention(*(tensor[None, :, None].expand(3, 2, 1, *tensor.shape[1:]) for tensor in (query, key, value)))
    assert_close(led, flat[None, :, None].expand(3, 2, 1, *flat.shape[1:]))
    strided = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (query, key, value)]
    assert_close(attention(*strided), flat)
    assert_close(attention(query[0, 0], key[0, 0], value[0, 0]), flat[0, 0])


def test_dropout_scales_what_it_keeps():
    query, key = torch.zeros(1, 1, 1, 2, dtype=F64), torch.zeros(1, 1, 10_000, 2, dtype=F64)
    value = torch.ones(1, 1, 10_000, 1, dtype=F64)
    torch.manual_seed(0)
    # The mean of 10,000 kept-or-dropped weights, each kept with 3/4 and scaled by 4/3, spreads by 0.006.
    assert abs(attention(query, key, value, dropout_p=0.25).item() - 1) < 0.03
    assert attention(query, key, value).item() == pytest.approx(1)


Q, K, V = torch.zeros(2, 4, 3, 5), torch.zeros(2, 2, 7, 5), torch.zeros(2, 2, 7, 6)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"mask": torch.ones(3, 7)}, TypeError, "mask must be a bool tensor .* bias"),
        ({"mask": torch.ones(3, 7, dtype=torch.int64)}, TypeError, "mask must be a bool tensor .* mask.bool"),
        (
            {"mask": torch.ones(2, 7, dtype=torch.bool)},
            ValueError,
            r"mask of shape \[2, 7\] does not broadcast .* \[B, 1, 1, S\]",
        ),
        ({"mask": torch.ones(1, 2, 4, 3, 7, dtype=torch.bool)}, ValueError, "mask of shape .* does not broadcast"),
        ({"bias": torch.ones(3, 7, dtype=torch.bool)}, TypeError, "bias must be a float tensor"),
        ({"bias": torch.ones(7, 3)}, ValueError, r"bias of shape \[7, 3\] does not broadcast"),
        ({"window": 0}, ValueError, "window must be an integer of at least 1"),
        ({"window": "2"}, TypeError, "window must be an integer, got '2'"),
        ({"is_causal": "no"}, TypeError, "is_causal must be True or False, got 'no'"),
        ({"scale": math.nan}, ValueError, "scale must be a finite number, got nan"),
        ({"scale": "big"}, TypeError, "scale must be a number, got 'big'"),
        ({"softcap": math.inf}, ValueError, "softcap must be a finite number, got inf"),
        ({"dropout_p": None}, TypeError, "dropout_p must be a number, got None"),
        ({"softcap": 0.0}, ValueError, "softcap must be above 0"),
        ({"dropout_p": 1.0}, ValueError, r"dropout_p must lie in \[0, 1\)"),
        ({"method": "flash"}, ValueError, "method must be one of .*reference"),
        ({"key": torch.zeros(2, 3, 7, 5)}, ValueError, "key has 3 heads, which do not divide the query's 4"),
        ({"key": torch.zeros(2, 2, 7, 4)}, ValueError, r"share their last axis Dk.*\[2, 2, 7, 4\]"),
        ({"key": torch.zeros(1, 2, 7, 5)}, ValueError, "same leading"),
        (
            {"key": torch.zeros(2, 2, 7, 5, dtype=F64)},
            TypeError,
            "key must have the query's dtype torch.float32, got torch.float64",
        ),
        (
            {"key": torch.zeros(2, 2, 7, 5, device="meta")},
            ValueError,
            "key must be on the query's device cpu, got meta",
        ),
        (
            {"value": torch.zeros(2, 2, 6, 6)},
            ValueError,
            r"value must have the key's axes except the last: key \[2, 2, 7, 5\]",
        ),
        ({"value": None}, TypeError, "value must be a tensor, got NoneType"),
        ({"query": torch.zeros(2, 4, 3, 5, dtype=torch.int64)}, TypeError, "query must be a float tensor"),
        ({"query": torch.zeros(5)}, ValueError, "query must be"),
        ({"query": [1.0]}, TypeError, "query must be a tensor, got list"),
    ],
)
def test_misuse_is_refused_with_the_arguments_name_and_shapes(change, error, says):
    with pytest.raises(error, match=says):
        attention(**({"query": Q, "key": K, "value": V} | change))
