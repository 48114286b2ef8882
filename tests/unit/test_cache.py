"""KVCache: what is in it is what the full pass computes, and a refused append leaves it as it was."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from attn_lib import GroupedQueryAttention, KVCache, MaskedMultiHeadSelfAttention, MultiHeadAttention, RotaryPositions

B, H, Hkv, D, LENGTH = 2, 6, 3, 24, 11


@settings(deadline=None, max_examples=30)
@given(
    chunks=st.lists(st.integers(0, 5), max_size=6),
    window=st.sampled_from([None, 1, 4]),
    rotary=st.booleans(),
    left_padded=st.booleans(),
)
@torch.no_grad()
def test_any_split_into_prompt_chunks_and_single_tokens_gives_the_full_pass(chunks, window, rotary, left_padded):
    torch.manual_seed(0)
    positions = RotaryPositions() if rotary else None
    layer = GroupedQueryAttention(D, H, Hkv, is_causal=True, window=window, positions=positions)
    x, real = torch.randn(B, LENGTH, D), torch.ones(B, LENGTH, dtype=torch.bool)
    if left_padded:
        real[0, :3] = False
        x[0, :3] = torch.nan
    full = layer(x, real)
    cache = layer.make_cache(B, LENGTH)
    outputs, weights = [], []
    while cache.length < LENGTH:
        first = cache.length
        last = min(LENGTH, first + (chunks.pop() if chunks else 1))
        output = layer(x[:, first:last], real[:, :last], cache=cache)
        outputs.append(output.hidden_states)
        weights.append(torch.nn.functional.pad(output.attention_weights, (0, LENGTH - last)))
    assert_close(torch.cat(outputs, 1), full.hidden_states, rtol=1e-6, atol=1e-6)
    assert_close(torch.cat(weights, 2), full.attention_weights, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_goes_in_comes_out_and_the_storage_stays_where_it_is(dtype):
    cache = KVCache(B, Hkv, LENGTH, 5, value_dim=7, dtype=dtype)
    key, value = torch.randn(B, Hkv, LENGTH, 5).to(dtype), torch.randn(B, Hkv, LENGTH, 7).to(dtype)
    addresses = set()
    for _ in range(2):
        for first, last in [(0, 6), (6, 7), (7, 11)]:
            keys, values = cache.append(key[:, :, first:last], value[:, :, first:last])
            assert torch.equal(keys, key[:, :, :last]) and torch.equal(values, value[:, :, :last])
            assert cache.length == last
            addresses.add((keys.data_ptr(), values.data_ptr()))
        cache.reset()
        assert (cache.length, cache.append(key[:, :, :1], value[:, :, :1])[0].shape[2]) == (0, 1)
        cache.reset()
    assert len(addresses) == 1


def test_grouped_heads_are_stored_once():
    cache = GroupedQueryAttention(D, H, Hkv, is_causal=True).make_cache(B, LENGTH)
    keys, values = cache.append(torch.ones(B, Hkv, LENGTH, D // H), torch.ones(B, Hkv, LENGTH, D // H))
    stored = {tensor.untyped_storage().nbytes() for tensor in (keys, values)}
    assert stored == {B * Hkv * LENGTH * (D // H) * 4}


def test_no_gradient_is_kept():
    layer = MaskedMultiHeadSelfAttention(D, H)
    cache = layer.make_cache(1, 4)
    output = layer(torch.randn(1, 3, D), cache=cache).hidden_states
    output.sum().backward()
    assert layer.w_q.weight.grad is not None and layer.w_k.weight.grad is None


def test_weights_read_after_a_reset_are_refused_and_not_wrong():
    layer = MaskedMultiHeadSelfAttention(D, H)
    cache = layer.make_cache(1, 4)
    read, unread = layer(torch.randn(1, 2, D), cache=cache), layer(torch.randn(1, 1, D), cache=cache)
    kept = read.attention_weights
    cache.reset()
    assert read.attention_weights is kept
    with pytest.raises(ValueError, match="attention_weights were not read before the cache was reset"):
        _ = unread.attention_weights


def test_a_cache_made_under_autocast_fits_its_layer():
    layer, x = MaskedMultiHeadSelfAttention(D, H), torch.randn(1, 3, D)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        output = layer(x, cache=layer.make_cache(1, 4))
        assert_close(output.hidden_states, layer(x).hidden_states)


def test_a_cache_made_in_inference_mode_says_so_outside():
    with torch.inference_mode():
        cache = KVCache(1, 1, 4, 2)
        cache.append(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    with pytest.raises(ValueError, match="made in inference_mode"):
        cache.append(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2))
    assert cache.length == 1


KEY, VALUE = torch.zeros(B, Hkv, 2, 5), torch.zeros(B, Hkv, 2, 5)


@pytest.mark.parametrize(
    ("key", "value", "error", "says"),
    [
        (KEY, VALUE.repeat(1, 1, 2, 1), ValueError, r"as many tokens as key: key \[2, 3, 2, 5\], value \[2, 3, 4, 5\]"),
        (KEY.repeat(1, 1, 2, 1), VALUE.repeat(1, 1, 2, 1), ValueError, "4 tokens.*holds 2 of 5: 3 more would fit"),
        (KEY[:1], VALUE[:1], ValueError, r"key must be .*\[2, 3, N, 5\], got \[1, 3, 2, 5\]"),
        (KEY, VALUE[:1], ValueError, r"value must be .*\[2, 3, N, 5\], got \[1, 3, 2, 5\]"),
        (KEY[:, :1], VALUE[:, :1], ValueError, r"key must be .*got \[2, 1, 2, 5\]"),
        (KEY[..., :4], VALUE, ValueError, r"key must be .*got \[2, 3, 2, 4\]"),
        (KEY[0], VALUE[0], ValueError, r"key must be .*got \[3, 2, 5\]"),
        (KEY.double(), VALUE.double(), TypeError, "key must have the cache's dtype torch.float32, got torch.float64"),
        (KEY, VALUE.half(), TypeError, "value must have the cache's dtype torch.float32, got torch.float16"),
        (KEY.to("meta"), VALUE, ValueError, "key must be on the cache's device cpu, got meta"),
        (KEY.tolist(), VALUE, TypeError, "key must be a tensor, got list"),
    ],
)
def test_a_refused_append_leaves_the_cache_as_it_was(key, value, error, says):
    cache = KVCache(B, Hkv, 5, 5)
    keys, values = cache.append(KEY + 3, VALUE + 4)
    with pytest.raises(error, match=says):
        cache.append(key, value)
    assert cache.length == 2
    assert keys.eq(3).all() and values.eq(4).all()
    assert cache.append(KEY[:, :, :0], VALUE[:, :, :0])[0].eq(3).all()


def test_a_refused_layer_call_leaves_the_cache_as_it_was():
    layer = MaskedMultiHeadSelfAttention(D, H)
    cache = layer.make_cache(1, 4)
    x = torch.randn(1, 2, D)
    layer(x, cache=cache)
    for misuse in [{"attention_mask": torch.ones(1, 2).bool()}, {"attention_mask": torch.ones(1, 4)}]:
        with pytest.raises((TypeError, ValueError), match="attention_mask must be"):
            layer(x, **misuse, cache=cache)
    with pytest.raises(ValueError, match="2 more would fit"):
        layer(torch.randn(1, 3, D), cache=cache)
    assert cache.length == 2


@pytest.mark.parametrize(
    ("misuse", "error", "says"),
    [
        (lambda cache: MultiHeadAttention(D, H)(torch.zeros(1, 1, D), cache=cache), ValueError, "cache needs a causal"),
        (
            lambda cache: MultiHeadAttention(D, H, is_causal=True)(
                torch.zeros(1, 1, D), torch.zeros(1, 1, D), cache=cache
            ),
            ValueError,
            "cache goes without a context",
        ),
        (
            lambda cache: MaskedMultiHeadSelfAttention(D, H)(torch.zeros(1, 1, D), cache={}),
            TypeError,
            "cache must be a KVCache, got dict",
        ),
        (lambda cache: KVCache(1, 1, 0, 4), ValueError, "max_length must be an integer of at least 1, got 0"),
        (
            lambda cache: KVCache(1, 1, 4, 4, dtype=torch.int64),
            TypeError,
            "dtype must be a float dtype, got torch.int64",
        ),
    ],
)
def test_misuse_is_refused(misuse, error, says):
    with pytest.raises(error, match=says):
        misuse(KVCache(1, H, 4, D // H))
