"""attention by every method, and attention_weights, against numbers a person can compute and PyTorch's math kernel."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from attn_lib import attention, attention_weights, causal_mask, merge_partial, partial_attention, sliding_window_mask
from attn_lib.attention import METHODS

F64 = torch.float64
# Every way to the same result: small tiles, so that small tests see many of them, and tiles wider than the keys.
WAYS = [{"method": method} for method in METHODS]
WAYS += [{"method": "tiled", "block_sizes": sizes} for sizes in [(1, 1), (2, 3), (3, 2), (4, 64)]]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


def tensors(B=2, H=6, Hkv=3, T=5, S=7, Dk=11, Dv=13, dtype=F64, seed=0, size=1.0):
    """Distinct primes, so that no swapped axis can pass."""
    make = torch.Generator().manual_seed(seed)
    shapes = ((B, H, T, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv))
    return [(torch.randn(shape, generator=make, dtype=F64) * size).to(dtype).requires_grad_() for shape in shapes]


@every_way
def test_integers_that_a_person_can_follow(way):
    # With scale log(2) the softmax counts in powers of two: scores 0, 1, 2 weigh 1/7, 2/7, 4/7.
    query = torch.tensor([[1.0, 0.0]], dtype=F64)
    key = torch.tensor([[0.0, 9.0], [1.0, 9.0], [2.0, 9.0]], dtype=F64)
    value = torch.tensor([[7.0], [0.0], [14.0]], dtype=F64)
    weights = attention_weights(query, key, scale=math.log(2))
    assert_close(weights, torch.tensor([[1 / 7, 2 / 7, 4 / 7]], dtype=F64))
    assert_close(attention(query, key, value, scale=math.log(2), **way), torch.tensor([[9.0]], dtype=F64))


@every_way
@pytest.mark.parametrize("T", [1, 2])
def test_groups_are_consecutive_heads(T, way):
    # Every key/value head holds its own number, so the output says which one a query head has read.
    query = torch.zeros(1, 6, T, 3)
    key = torch.zeros(1, 3, 4, 3)
    value = torch.arange(3.0)[None, :, None, None].expand(1, 3, 4, 1)
    assert attention(query, key, value, **way)[0, :, 0, 0].tolist() == [0, 0, 1, 1, 2, 2]


@settings(deadline=None, max_examples=150)
@given(
    way=st.sampled_from(WAYS),
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
    way, T, S, groups, is_causal, window, masked, biased, scale, size, seed
):
    H, Hkv = groups
    inputs = tensors(2, H, Hkv, T, S, seed=seed, size=size)
    make = torch.Generator().manual_seed(seed + 1)
    mask = torch.rand(2, 1, T, S, generator=make) < 0.7 if masked else None
    bias = torch.randn(H, T, S, generator=make, dtype=F64).requires_grad_() if biased else None
    allowed = torch.ones(2, 1, T, S, dtype=torch.bool)
    if masked:
        allowed = allowed & mask
    if is_causal:
        allowed = allowed & causal_mask(T, S)
    if window is not None:
        allowed = allowed & sliding_window_mask(T, S, window=window)
    ours = attention(*inputs, mask=mask, bias=bias, is_causal=is_causal, window=window, scale=scale, **way)
    # PyTorch gives a query without keys whatever its kernel gives; ours is 0, so such rows are opened for it.
    empty = ~allowed.any(-1, keepdim=True)
    additive = torch.zeros(2, H, T, S, dtype=F64) if bias is None else bias.expand(2, H, T, S)
    additive = additive.masked_fill(~(allowed | empty), -torch.inf)
    with sdpa_kernel(SDPBackend.MATH):
        theirs = scaled_dot_product_attention(*inputs, attn_mask=additive, scale=scale, enable_gqa=H != Hkv)
    theirs = theirs.masked_fill(empty, 0.0)
    assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    cotangent = torch.randn(ours.shape, generator=make, dtype=F64)
    leaves = inputs if bias is None else [*inputs, bias]
    for name, mine, other in zip(
        ("query", "key", "value", "bias")[: len(leaves)],
        torch.autograd.grad(ours, leaves, cotangent),
        torch.autograd.grad(theirs, leaves, cotangent),
        strict=True,
    ):
        assert_close(mine, other, rtol=1e-8, atol=1e-8, msg=lambda text, name=name: f"gradient of {name}: {text}")


@every_way
def test_a_query_without_keys_gets_zero_and_harms_no_gradient(way):
    query, key, value = tensors(T=3, S=3)
    mask = causal_mask(3, offset=-1)  # the first query sees nothing
    output = attention(query, key, value, mask=mask, **way)
    weights = attention_weights(query, key, mask=mask)
    assert output[..., 0, :].eq(0).all() and weights[..., 0, :].eq(0).all()
    assert_close(weights[..., 1:, :].sum(-1), torch.ones(2, 6, 2, dtype=F64))
    for gradient in torch.autograd.grad(output.square().sum(), (query, key, value)):
        assert gradient.isfinite().all()


@every_way
def test_a_bias_of_minus_infinity_hides_a_key_like_a_mask(way):
    query, key, value = tensors(T=3, S=3)
    hidden = torch.zeros(3, 3, dtype=F64).masked_fill(~causal_mask(3, offset=-1), -torch.inf)
    by_bias = attention(query, key, value, bias=hidden, **way)
    assert by_bias[..., 0, :].eq(0).all()
    assert_close(by_bias, attention(query, key, value, mask=causal_mask(3, offset=-1), method="reference"))


@every_way
def test_softcap_is_applied_after_the_scale_and_before_the_mask(way):
    query, key = (torch.tensor([[x]], dtype=F64) for x in (3.0, 5.0))
    key = torch.cat([key, key * 0, key])
    settings = {"scale": 2.0, "softcap": 4.0, "mask": torch.tensor([[True, True, False]])}
    top = math.exp(4 * math.tanh(30 / 4))
    weights = torch.tensor([[top / (top + 1), 1 / (top + 1), 0.0]], dtype=F64)
    assert_close(attention_weights(query, key, **settings), weights)
    value = torch.eye(3, dtype=F64)  # each value marks its key, so that the output is the weights
    assert_close(attention(query, key, value, **settings, **way), weights)


@every_way
def test_gradients_with_a_softcap_agree_with_finite_differences(way):
    inputs = tensors(1, 2, 1, 3, 4, 2, 2)
    mask = torch.tensor([[True, False, False, True], [False] * 4, [True] * 4])
    assert torch.autograd.gradcheck(lambda *qkv: attention(*qkv, mask=mask, softcap=0.7, **way), inputs)


@every_way
@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_scale_of_zero_or_below_keeps_the_mask(scale, way):
    query, key, value = tensors(T=3, S=3)
    output = attention(query, key, value, is_causal=True, scale=scale, **way)
    shares = torch.exp(scale * (query @ key.repeat_interleave(2, dim=1).mT)).tril()
    expected = shares / shares.sum(-1, keepdim=True) @ value.repeat_interleave(2, dim=1)
    assert_close(output, expected)


@pytest.mark.parametrize("method", ["reference", "tiled"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype, method):
    inputs = [tensor.detach() for tensor in tensors(dtype=dtype, S=31)]
    ours = attention(*inputs, is_causal=True, method=method)
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


@every_way
@pytest.mark.parametrize("sizes", [{"B": 0}, {"T": 0}, {"S": 0}])
def test_empty_axes(sizes, way):
    query, key, value = tensors(**sizes)
    output = attention(query, key, value, **way)
    assert output.shape == (*query.shape[:-1], value.shape[-1])
    assert output.eq(0).all()
    assert all(gradient.eq(0).all() for gradient in torch.autograd.grad(output.sum(), (query, key, value)))


@every_way
@pytest.mark.parametrize("T", [1, 5])
def test_any_leading_axes_and_strides(T, way):
    query, key, value = (tensor.detach() for tensor in tensors(T=T))
    mask = torch.rand(2, 1, T, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    flat = attention(query, key, value, mask=mask, **way)
    led = [tensor[None, :, None].expand(3, 2, 1, *tensor.shape[1:]) for tensor in (query, key, value, mask)]
    assert_close(attention(*led[:3], mask=led[3], **way), flat[None, :, None].expand(3, 2, 1, *flat.shape[1:]))
    for axes in [(1, 2), (2, 3)]:
        strided = [each.transpose(*axes).contiguous().transpose(*axes) for each in (query, key, value)]
        assert_close(attention(*strided, mask=mask, **way), flat)
    assert_close(attention(query[0, 0], key[0, 0], value[0, 0], mask=mask[0, 0], **way), flat[0, 0])
    assert_close(attention(query[0], key[0], value[0], mask=mask[0], **way), flat[0])


@every_way
def test_dropout_scales_what_it_keeps(way):
    # Ten thousand queries in one row of tiles: one key, kept with 3/4 and then scaled by 4/3.
    query, key, value = torch.zeros(1, 1, 100, 2), torch.zeros(1, 1, 100, 2), torch.eye(100)[None, None]
    torch.manual_seed(0)
    weights = attention(query, key, value, dropout_p=0.25, **way)
    kept = weights > 0
    assert_close(weights[kept], torch.full((int(kept.sum()),), 4 / 3 / 100))
    assert abs(kept.double().mean() - 0.75) < 0.03  # 10,000 draws spread by 0.004
    torch.manual_seed(0)
    assert torch.equal(weights, attention(query, key, value, dropout_p=0.25, **way))
    assert_close(attention(query, key, value, **way), torch.full((1, 1, 100, 100), 0.01))


@every_way
def test_dropout_goes_back_through_what_it_kept(way):
    query, key, value = tensors(1, 2, 1, 3, 4, 2, 2)

    def dropped(*inputs):
        torch.manual_seed(0)
        return attention(*inputs, dropout_p=0.4, **way)

    assert torch.autograd.gradcheck(dropped, (query, key, value))


def test_half_of_the_keys_and_the_other_half_merge_into_the_whole():
    query, key, value = tensors()
    mask = causal_mask(5, 7, offset=-1)  # the first query sees nothing
    parts = [
        partial_attention(
            query, key[..., columns, :], value[..., columns, :], mask=mask[:, columns], block_sizes=(2, 2)
        )
        for columns in (slice(0, 3), slice(3, 4), slice(4, 7))
    ]
    output, log_sum = merge_partial(*parts)
    assert_close(output, attention(query, key, value, mask=mask, method="reference"))
    scores = (query @ key.repeat_interleave(2, dim=1).mT / math.sqrt(11)).masked_fill(~mask, -torch.inf)
    assert_close(log_sum, scores.logsumexp(-1))
    make = torch.Generator().manual_seed(3)
    pull = torch.randn(output.shape, generator=make, dtype=F64)
    lift = torch.randn(log_sum.shape, generator=make, dtype=F64)
    lift[..., 0] = 0  # the log-sum-exp of nothing has no gradient to speak of
    ours = torch.autograd.grad([output, log_sum], (query, key, value), [pull, lift])
    whole = attention(query, key, value, mask=mask, method="reference")
    seen = scores[..., 1:, :].logsumexp(-1)
    theirs = torch.autograd.grad([whole, seen], (query, key, value), [pull, lift[..., 1:]])
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other)


def test_one_head_without_a_head_axis_merges_too():
    query, key, value = (tensor.detach()[0, 0] for tensor in tensors())
    whole, log_sum = merge_partial(*(partial_attention(query, key[i:j], value[i:j]) for i, j in ((0, 2), (2, 7))))
    assert_close(whole, attention(query, key, value))
    assert log_sum.shape == (5,)


def test_weights_of_some_heads_and_rows_are_those_of_all():
    query, key, _ = (tensor.detach() for tensor in tensors())
    make = torch.Generator().manual_seed(1)
    mask, bias = torch.rand(2, 1, 5, 7, generator=make) < 0.7, torch.randn(6, 1, 7, generator=make, dtype=F64)
    settings = {"mask": mask, "bias": bias, "is_causal": True, "window": 4}
    whole = attention_weights(query, key, **settings)
    for heads, rows in [
        (slice(2, 5), None),
        ([5, 0], [4, 1]),
        (-1, 2),
        (torch.tensor([3]), slice(None, None, 2)),
    ]:
        some = attention_weights(query, key, heads=heads, rows=rows, **settings)
        of_heads = whole[:, [heads] if isinstance(heads, int) else heads]
        expected = of_heads if rows is None else of_heads[:, :, [rows] if isinstance(rows, int) else rows]
        assert_close(some, expected)


@every_way
@pytest.mark.parametrize("extreme", [torch.finfo(torch.float32).min, torch.finfo(torch.float32).max])
def test_the_largest_finite_bias_is_finite(extreme, way):
    query, key, value = (tensor.detach() for tensor in tensors(dtype=torch.float32))
    bias = torch.zeros(5, 7)
    bias[0], bias[1, 3] = extreme, extreme
    output = attention(query, key, value, bias=bias, **way)
    assert_close(output, attention(query, key, value, bias=bias.clamp(-1e30, 1e30), method="reference"))


def test_second_derivatives_are_right_or_refused_and_never_zero():
    inputs = tensors(1, 2, 1, 3, 4, 2, 2)
    assert torch.autograd.gradgradcheck(lambda *qkv: attention(*qkv, is_causal=True, method="reference"), inputs)
    for way, says in [({"method": "tiled"}, "no second derivative"), ({"softcap": 2.0}, "no second derivative")]:
        with pytest.raises(RuntimeError, match=says):
            torch.autograd.grad(attention(*inputs, **way).sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError):  # PyTorch's own words
        (once,) = torch.autograd.grad(attention(*inputs, method="fused").sum(), inputs[0], create_graph=True)
        torch.autograd.grad(once.square().sum(), inputs[0])


@pytest.mark.parametrize("settings", [{}, {"is_causal": True}, {"window": 3}, {"method": "reference", "softcap": 2.0}])
def test_one_compilation_serves_every_length(settings):
    compiled = torch.compile(lambda *qkv: attention(*qkv, **settings), fullgraph=True, dynamic=True, backend="eager")
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (5, 6, 8, 11):
            inputs = [tensor.detach() for tensor in tensors(T=length, S=length)]
            assert_close(compiled(*inputs), attention(*inputs, **settings))


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
        ({"mask": torch.tensor(True)}, ValueError, r"mask of shape \[\] does not broadcast"),
        ({"bias": torch.tensor(1.0)}, ValueError, r"bias of shape \[\] does not broadcast"),
        ({"scale": 10**400}, ValueError, "scale must be a finite number"),
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
        ({"method": ["tiled"]}, ValueError, r"method must be one of .*got \['tiled'\]"),
        ({"block_sizes": (2, 2)}, ValueError, "block_sizes belongs to method \"tiled\", got method 'fused'"),
        ({"method": "tiled", "block_sizes": 2}, TypeError, "block_sizes must be two integers.*got 2"),
        ({"method": "tiled", "block_sizes": (2, 0)}, ValueError, "block_sizes must be an integer of at least 1, got 0"),
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


def test_a_mask_that_can_be_read_in_two_ways_is_refused_with_both_ways_to_say_it():
    query = torch.zeros(3, 1, 3, 2)  # B = T = 3
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    says = r"mask of shape \[3, 3\].*B = T = 3.*\[T, S\].*mask\[None, None\].*\[B, S\].*mask\[:, None, None, :\]"
    with pytest.raises(ValueError, match=says):
        attention(query, query, query, mask=mask)
    with pytest.raises(ValueError, match="bias of shape"):
        attention(query, query, query, bias=torch.zeros(3, 3))
    assert_close(attention(query, query, query, mask=mask[None, None]), attention(query, query, query, is_causal=True))
    assert attention(query[:2], query[:2], query[:2], mask=mask).shape == (2, 1, 3, 2)
    assert attention(query[0], query[0], query[0], mask=mask).shape == (1, 3, 2)


@pytest.mark.parametrize(
    ("misuse", "error", "says"),
    [
        (lambda: attention_weights(Q, K, rows=3), ValueError, "rows must be .* between -3 and 2, got 3"),
        (lambda: attention_weights(Q, K, heads=[0, 4]), ValueError, r"heads must be .* between -4 and 3, got \[0, 4\]"),
        (lambda: attention_weights(Q, K, heads="all"), ValueError, "heads must be an integer, .* or a slice"),
        (lambda: attention_weights(Q, K, rows=slice(3, 3)), ValueError, r"rows must be .*shape \[0\]"),
        (lambda: attention_weights(Q, K, heads=[]), ValueError, r"heads must be .*got \[\]"),
        (lambda: attention_weights(Q, K, rows=[[0]]), ValueError, r"rows must be .*shape \[1, 1\]"),
        (
            lambda: partial_attention(Q, K[..., :0, :], V[..., :0, :]),
            ValueError,
            r"key must have elements.*\[2, 2, 0, 5\]",
        ),
        (lambda: merge_partial(), ValueError, "parts must hold at least one pair"),
        (lambda: merge_partial((Q.int(), Q[..., 0].int())), TypeError, "each part must be of floats, got torch.int32"),
        (lambda: merge_partial((Q, Q[..., 0]), (Q.double(), Q[..., 0])), ValueError, "torch.float64 beside"),
        (lambda: merge_partial(Q), TypeError, "each part must be a pair of tensors.*got Tensor"),
        (lambda: merge_partial((Q, Q)), ValueError, r"each part must be an output .*\[2, 4, 3, 5\] and \[2, 4, 3, 5\]"),
    ],
)
def test_misuse_of_the_parts_is_refused(misuse, error, says):
    with pytest.raises(error, match=says):
        misuse()
