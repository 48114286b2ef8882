"""What has to hold whatever the numbers are: laws that tie layers, methods, masks, caches and tiles to each other."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attn_lib import (
    GroupedQueryAttention,
    MaskedMultiHeadSelfAttention,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    MultiQueryAttention,
    RotaryPositions,
    attention,
    attention_weights,
    merge_partial,
    partial_attention,
)

from .cases import F64, METHODS, Case, cases, methods
from .oracles import assert_near, share

B, H, Hkv, T, D = 2, 6, 3, 5, 84  # heads of width 14
NEAR = share(F64, 10.0)  # the layers' scores here


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def made(kind, *args, **settings):
    torch.manual_seed(0)
    layer = kind(*args, **settings).double()
    for name, parameter in layer.named_parameters():
        torch.nn.init.normal_(parameter, std=1.0 if "bias" in name else 0.2)
    return layer


def of(case: Case, how: dict | None = None, **words) -> Tensor:
    return attention(*case.inputs, **case.words | words, **(how or {}))


# ---------------------------------------------------------------- heads


def test_as_many_key_heads_as_heads_is_multi_head():
    grouped, multi = made(GroupedQueryAttention, D, H, H), made(MultiHeadSelfAttention, D, H)
    multi.load_state_dict(grouped.state_dict())
    assert torch.equal(grouped(tensor(B, T, D)).hidden_states, multi(tensor(B, T, D)).hidden_states)


def test_multi_query_is_grouped_with_one_key_head():
    query, grouped = made(MultiQueryAttention, D, H), made(GroupedQueryAttention, D, H, 1)
    grouped.load_state_dict(query.state_dict())
    assert torch.equal(query(tensor(B, T, D)).hidden_states, grouped(tensor(B, T, D)).hidden_states)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3])
def test_grouped_is_multi_head_with_repeated_weights(num_kv_heads):
    grouped, multi = made(GroupedQueryAttention, D, H, num_kv_heads), made(MultiHeadSelfAttention, D, H)
    repeated = {
        name: each.unflatten(0, (num_kv_heads, -1)).repeat_interleave(H // num_kv_heads, dim=0).flatten(0, 1)
        if name.startswith(("w_k", "w_v"))
        else each
        for name, each in grouped.state_dict().items()
    }
    multi.load_state_dict(repeated)
    ours, theirs = grouped(tensor(B, T, D)), multi(tensor(B, T, D))
    assert_near(ours.hidden_states, theirs.hidden_states, NEAR)
    assert_near(ours.attention_weights, theirs.attention_weights, NEAR, "weights")


@settings(deadline=None, max_examples=20)
@given(case=cases(heads=((6, 3), (3, 1))), how=methods())
def test_grouped_heads_are_repeated_keys_and_values(case, how):
    group = case.query.shape[1] // case.key.shape[1]
    repeated = [each.repeat_interleave(group, dim=1) for each in (case.key, case.value)]
    output = attention(case.query, *repeated, **case.words, **how)
    near = share(F64, case.largest_score)
    assert_near(of(case, how), output, near, size=1.0)
    pairs = (torch.autograd.grad(each, case.inputs, case.cotangent) for each in (of(case, how), output))
    for name, mine, other in zip(("query", "key", "value"), *pairs, strict=True):
        assert_near(mine, other, near, f"gradient of {name}", size=case.size)


# ---------------------------------------------------------------- order


@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(T)), padded=st.booleans(), kind=st.sampled_from(("multi", "grouped")))
def test_permuting_tokens_permutes_outputs(order, padded, kind):
    layer = made(MultiHeadSelfAttention, D, H) if kind == "multi" else made(GroupedQueryAttention, D, H, Hkv)
    x, real = tensor(B, T, D), torch.ones(B, T, dtype=torch.bool)
    real[0, 3:] = not padded
    whole, permuted = layer(x, real), layer(x[:, order], real[:, order])
    assert_near(permuted.hidden_states, whole.hidden_states[:, order], NEAR)
    assert_near(permuted.attention_weights, whole.attention_weights[:, :, order][..., order], NEAR, "weights")


@settings(deadline=None, max_examples=20)
@given(case=cases(keys=(7,), causal=(False,), windows=(None,)), order=st.permutations(range(7)), how=methods())
def test_the_order_of_the_keys_is_no_ones_business(case, order, how):
    words = {
        name: word[..., order] if isinstance(word, Tensor) and word.shape[-1] > 1 else word
        for name, word in case.words.items()
    }
    permuted = attention(case.query, case.key[:, :, order], case.value[:, :, order], **words, **how)
    assert_near(permuted, of(case, how), share(F64, case.largest_score), size=1.0)


def test_rotary_positions_tell_the_order():
    # The law above would hold for a layer that ignores its positions as well.
    layer = made(MultiHeadSelfAttention, D, H, positions=RotaryPositions())
    x, order = tensor(B, T, D), [1, 0, 2, 3, 4]
    assert not torch.allclose(layer(x[:, order]).hidden_states, layer(x).hidden_states[:, order], atol=1e-3)


# ---------------------------------------------------------------- causality


@settings(deadline=None, max_examples=20)
@given(
    case=cases(causal=(True,), queries=(5,), keys=(5, 7, 19)),
    how=methods(),
    first_changed=st.integers(1, 4),
    junk=st.sampled_from((0.0, 1e6, -1e6)),
)
def test_a_future_key_changes_no_earlier_output_and_has_no_part_in_its_gradient(case, how, first_changed, junk):
    start = case.key.shape[2] - 5 + first_changed  # the queries are the last 5
    key, value = case.key.detach().clone(), case.value.detach().clone()
    key[:, :, start:], value[:, :, start:] = junk, junk
    changed = attention(case.query, key, value, **case.words, **how)
    output = of(case, how)
    assert_near(changed[:, :, :first_changed], output[:, :, :first_changed], share(F64, case.largest_score), size=1.0)
    earlier = case.cotangent[:, :, :first_changed]
    for gradient in torch.autograd.grad(output[:, :, :first_changed], (case.key, case.value), earlier):
        assert gradient[:, :, start:].eq(0).all()


@pytest.mark.parametrize(
    "settings", [{}, {"window": 2}, {"positions": RotaryPositions()}], ids=["plain", "window", "rotary"]
)
@pytest.mark.parametrize("first_changed", [1, 3, 4])
def test_a_future_token_changes_no_earlier_output_of_a_layer(settings, first_changed):
    layer = made(MaskedMultiHeadSelfAttention, D, H, **settings)
    x = tensor(B, T, D)
    changed = x.clone()
    changed[:, first_changed:] = 1e6
    before, after = layer(x).hidden_states, layer(changed).hidden_states
    assert_near(after[:, :first_changed], before[:, :first_changed], NEAR)
    assert not torch.allclose(after[:, first_changed:], before[:, first_changed:])


# ---------------------------------------------------------------- padding


@settings(deadline=None, max_examples=20)
@given(
    case=cases(causal=(False,), windows=(None,)), how=methods(), more=st.sampled_from((1, 3, 11)), left=st.booleans()
)
def test_keys_that_no_one_may_see_change_nothing(case, how, more, left):
    S = case.key.shape[2]
    size = (*case.seen.shape[:-1], more)

    def longer(old: Tensor, new: Tensor, dim: int) -> Tensor:
        return torch.cat([new, old] if left else [old, new], dim=dim)

    key, value = (
        longer(each, torch.full_like(each[:, :, :1], 1e6).repeat(1, 1, more, 1), 2) for each in case.inputs[1:]
    )
    mask = longer(
        case.words.get("mask", torch.ones(1, 1, 1, S).bool()).expand(case.seen.shape), torch.zeros(size).bool(), -1
    )
    bias = longer(
        case.words.get("bias", torch.zeros(1, dtype=F64)).expand(case.seen.shape), torch.full(size, 1e3, dtype=F64), -1
    )
    padded = attention(case.query, key, value, **case.words | {"mask": mask, "bias": bias}, **how)
    assert_near(padded, of(case, how), share(F64, case.largest_score), size=1.0)


@pytest.mark.parametrize("junk", [0.0, 1e6, torch.nan, torch.inf])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"is_causal": True}, {"window": 3}, {"is_causal": True, "positions": RotaryPositions()}],
    ids=["plain", "causal", "window", "rotary"],
)
def test_padding_changes_nothing_in_a_layer(settings, side, junk):
    layer = made(MultiHeadSelfAttention, D, H, num_kv_heads=Hkv, **settings)
    x, rest = tensor(B, T, D), torch.full((B, 2, D), junk, dtype=F64)
    left = side == "left"
    real = torch.tensor([0] * 2 * left + [1] * T + [0] * 2 * (not left)).expand(B, T + 2)
    padded = layer(torch.cat([rest, x] if left else [x, rest], dim=1), real)
    mine = slice(2, None) if left else slice(0, T)
    # Rotary scores depend on distances alone, so that even positions that padding has moved change nothing.
    assert_near(padded.hidden_states[:, mine], layer(x).hidden_states, NEAR)
    assert padded.hidden_states.isfinite().all()


def test_padding_of_a_context_changes_nothing():
    layer = made(MultiHeadCrossAttention, D, H, 11)
    x, context = tensor(B, T, D), tensor(B, 7, 11)
    real = torch.tensor([1] * 7 + [0] * 3).expand(B, 10)
    longer = torch.cat([context, torch.full((B, 3, 11), torch.nan, dtype=F64)], dim=1)
    assert_near(layer(x, longer, real).hidden_states, layer(x, context).hidden_states, NEAR)


# ---------------------------------------------------------------- the cache


@settings(deadline=None, max_examples=15)
@given(
    cuts=st.sets(st.integers(1, 10)),
    window=st.sampled_from((None, 1, 4)),
    rotary=st.booleans(),
    num_kv_heads=st.sampled_from((1, 3, 6)),
    left_padded=st.booleans(),
)
def test_cached_is_full_however_the_tokens_are_cut(cuts, window, rotary, num_kv_heads, left_padded):
    length = 11
    positions = RotaryPositions(halves=True) if rotary else None
    layer = made(GroupedQueryAttention, D, H, num_kv_heads, is_causal=True, window=window, positions=positions)
    x, real = tensor(B, length, D), torch.ones(B, length, dtype=torch.bool)
    real[0, :3] = not left_padded
    with torch.no_grad():
        full, cache = layer(x, real), layer.make_cache(B, length)
        for start, stop in itertools.pairwise([0, *sorted(cuts), length]):
            part = layer(x[:, start:stop], real[:, :stop], cache=cache)
            assert_near(part.hidden_states, full.hidden_states[:, start:stop], NEAR, f"tokens {start} to {stop}")
            assert_near(part.attention_weights, full.attention_weights[:, :, start:stop, :stop], NEAR, "weights")


# ---------------------------------------------------------------- tiles and parts


@settings(deadline=None, max_examples=4)
@given(case=cases(batches=(1,), heads=((2, 1),), queries=(5,), keys=(7,), dtype=F64))
def test_tiled_is_the_reference_for_every_tile_size(case):
    output = of(case, {"method": "reference"})
    gradients = torch.autograd.grad(output, case.inputs, case.cotangent)
    near = share(F64, case.largest_score)
    for sizes in itertools.product(range(1, 7), range(1, 9)):  # up to one more than there are
        tiled = of(case, {"method": "tiled", "block_sizes": sizes})
        assert_near(tiled, output, near, f"output with tiles {sizes}", size=1.0)
        for name, mine, other in zip(
            ("query", "key", "value"), torch.autograd.grad(tiled, case.inputs, case.cotangent), gradients, strict=True
        ):
            assert_near(mine, other, near, f"gradient of {name} with tiles {sizes}", size=case.size)


@settings(deadline=None, max_examples=15)
@given(case=cases(keys=(7, 19), causal=(False,), windows=(None,)), cuts=st.sets(st.integers(1, 6)))
def test_attention_to_parts_of_the_keys_merges_into_attention_to_all(case, cuts):
    S = case.key.shape[2]
    parts = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), S]):
        words = {
            name: word[..., start:stop] if isinstance(word, Tensor) and word.shape[-1] == S else word
            for name, word in case.words.items()
        }
        parts.append(partial_attention(case.query, case.key[:, :, start:stop], case.value[:, :, start:stop], **words))
    near = share(F64, case.largest_score)
    output, lse = merge_partial(*parts)
    whole, whole_lse = partial_attention(*case.inputs, **case.words)
    assert_near(output, of(case, {"method": "reference"}), near, size=1.0)
    assert_near(lse, whole_lse, near, "log-sum-exp", size=1.0)
    for name, mine, other in zip(
        ("query", "key", "value"),
        torch.autograd.grad(output, case.inputs, case.cotangent),
        torch.autograd.grad(whole, case.inputs, case.cotangent),
        strict=True,
    ):
        assert_near(mine, other, near, f"gradient of {name}", size=case.size)


# ---------------------------------------------------------------- scores and masks


@settings(deadline=None, max_examples=15)
@given(case=cases(levels=(0.0,)), how=methods(), shift=st.sampled_from((-1e4, 1e4)))
def test_the_same_number_added_to_all_scores_of_a_query_changes_nothing(case, how, shift):
    shifts = shift * tensor(case.query.shape[2], 1).abs()
    bias = case.words.get("bias", torch.zeros(1, dtype=F64)) + shifts
    near = share(F64, case.largest_score + float(shifts.abs().max()))
    assert_near(of(case, how, bias=bias), of(case, how), near, size=1.0)


@settings(deadline=None, max_examples=15)
@given(case=cases(), how=methods())
def test_a_boolean_mask_is_a_bias_of_minus_infinity(case, how):
    words = {"mask": None, "bias": case.additive, "is_causal": False, "window": None}
    assert_near(of(case, how, **words), of(case, how), share(F64, case.largest_score), size=1.0)
    weights = attention_weights(case.query, case.key, **case.words | words)
    assert weights[case.additive == -torch.inf].eq(0).all()
    assert_near(weights.sum(-1), case.additive.gt(-torch.inf).any(-1).double(), share(F64), "sums of weights")


@pytest.mark.parametrize("method", METHODS)
def test_equal_scores_give_the_mean_of_the_values(method):
    query, key, value = torch.zeros(B, H, T, 11, dtype=F64), tensor(B, Hkv, 7, 11), tensor(B, Hkv, 7, 13)
    mean = value.mean(2, keepdim=True).repeat_interleave(2, dim=1).expand(B, H, T, 13)
    assert_near(attention(query, key, value, method=method), mean, share(F64))
