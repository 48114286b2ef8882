"""FLOPs as the formulas say, and memory that grows with the length and not with its square."""

import pytest
import torch

from attn_lib import MultiHeadSelfAttention, attention, attention_weights
from attn_lib.measure.counting import LargestTensor, count_flops, peak_bytes

B, H, Hkv, T, S, Dk, Dv = 2, 6, 3, 40, 56, 10, 14


def tensors(B=B, H=H, Hkv=Hkv, T=T, S=S, Dk=Dk, Dv=Dv):
    return [torch.randn(shape, requires_grad=True) for shape in ((B, H, T, Dk), (B, Hkv, S, Dk), (B, Hkv, S, Dv))]


def visited(block_t, block_s, is_causal=False, window=None):
    """Query-key pairs in the tiles that hold at least one visible pair, by looking at every pair."""
    pairs = 0
    for first in range(0, T, block_t):
        rows = range(first, min(first + block_t, T))
        seen = [s for s in range(S) if any(sees(t, s, is_causal, window) for t in rows)]
        pairs += len(rows) * len(range(min(seen), max(seen) + 1)) if seen else 0
    return pairs


def sees(t, s, is_causal, window):
    position = t + S - T
    return (not is_causal and window is None) or (s <= position and (window is None or s > position - window))


RESTRICTIONS = [{}, {"is_causal": True}, {"window": 5}, {"is_causal": True, "window": 30}]


@pytest.mark.parametrize("restriction", RESTRICTIONS, ids=str)
def test_tiled_computes_the_tiles_that_are_seen_and_no_others(restriction):
    query, key, value = tensors()
    pairs = B * H * visited(8, 12, **restriction)

    def forward():
        return attention(query, key, value, **restriction, method="tiled", block_sizes=(8, 12))

    assert count_flops(forward) == 2 * pairs * (Dk + Dv)
    # On the way back the scores are computed again; then weights and values, queries and keys get their gradients.
    backward = 2 * pairs * (3 * Dk + 2 * Dv)
    assert count_flops(lambda: forward().sum().backward()) == 2 * pairs * (Dk + Dv) + backward
    if restriction:
        assert pairs < B * H * T * S


def test_the_materialised_equation_computes_every_pair_and_three_times_as_much_in_training():
    query, key, value = tensors()
    forward = 2 * B * H * T * S * (Dk + Dv)
    assert count_flops(lambda: attention(query, key, value, method="reference")) == forward
    assert count_flops(lambda: attention(query, key, value, is_causal=True, window=5, method="reference")) == forward
    assert count_flops(lambda: attention(query, key, value, method="reference").sum().backward()) == 3 * forward


def test_fused_skips_what_no_query_of_a_block_sees():
    length, window, rows = 1024, 100, 256
    query, key, value = tensors(1, 2, 2, length, length, 8, 8)
    seen = sum(rows * min(first + rows, rows + window - 1) for first in range(0, length, rows))
    assert count_flops(lambda: attention(query, key, value, window=window)) == 2 * 2 * seen * (8 + 8)


@pytest.mark.parametrize("num_kv_heads", [8, 2])
def test_a_layer_computes_four_projections_and_two_products(num_kv_heads):
    batch, length, width = 3, 48, 64
    layer = MultiHeadSelfAttention(width, 8, num_kv_heads=num_kv_heads)
    x = torch.randn(batch, length, width)
    projections = 4 * batch * length * width**2 * (1 + num_kv_heads / 8)  # 8 B S D^2 when no head is shared
    assert count_flops(lambda: layer(x)) == projections + 4 * batch * length**2 * width


def test_weights_of_some_rows_and_heads_cost_their_share():
    query, key, _ = tensors()
    whole = 2 * B * H * T * S * Dk
    assert count_flops(lambda: attention_weights(query, key)) == whole
    assert count_flops(lambda: attention_weights(query, key, rows=slice(0, 8))) * T == whole * 8
    assert count_flops(lambda: attention_weights(query, key, heads=[1, 4])) * H == whole * 2


LONG = 1024
PADDING = torch.arange(LONG)[None, None, None] < LONG - 100  # [B, 1, 1, S]
SETTINGS = [{}, {"is_causal": True}, {"window": 64}, {"mask": PADDING}, {"mask": PADDING, "is_causal": True}]
SETTINGS += [{"bias": torch.zeros(1, 1, LONG)}, {"bias": torch.zeros(LONG), "is_causal": True}]


def largest(method, **settings):
    query, key, value = tensors(1, 2, 1, LONG, LONG, 8, 4)
    with LargestTensor() as seen:
        attention(query, key, value, method=method, **settings).sum().backward()
    return seen.elements


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings) or "plain")
@pytest.mark.parametrize("method", ["tiled", "fused"])
def test_no_tensor_of_queries_times_keys_exists(method, settings):
    # A tile of 512 x 512, or a mask for 256 queries, against 1024 x 1024 for each of two heads.
    assert largest(method, **settings) <= 256 * LONG


def test_the_look_for_such_tensors_finds_them_where_they_are():
    assert largest("reference") == 2 * LONG * LONG
    assert largest("tiled", softcap=5.0) == largest("fused", softcap=5.0) < LONG * LONG


@pytest.mark.parametrize("method", ["tiled", "fused"])
def test_what_training_keeps_for_the_way_back_grows_with_the_length_alone(method):
    def kept(length):
        query, key, value = tensors(2, 1, 1, length, length, 8, 8)
        storages = {}
        real = torch.ones(2, 1, 1, length, dtype=torch.bool)

        def keep(tensor):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = attention(query, key, value, mask=real, is_causal=True, method=method)
        assert output.requires_grad
        return sum(storages.values())

    assert kept(2048) <= 2.1 * kept(1024)


def peak_in_queries(length, method, training=False, **settings):
    """Peak beside the inputs, in sizes of the query tensor: 8 heads of width 64."""
    query, key, value = (torch.randn(1, 8, length, 64, requires_grad=training) for _ in range(3))
    cotangent = torch.ones(1, 8, length, 64)

    def run():
        output = attention(query, key, value, method=method, **settings)
        return torch.autograd.grad(output, (query, key, value), cotangent) if training else output

    return peak_bytes(run) / (query.numel() * query.element_size())


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("training", "most"), [(False, 1.6), (True, 6.0)])
def test_tiled_needs_a_few_times_the_query_and_twice_as_much_for_twice_the_length(training, most, is_causal):
    long = peak_in_queries(4096, "tiled", training, is_causal=is_causal)
    half = peak_in_queries(2048, "tiled", training, is_causal=is_causal)
    assert 1 < long <= most
    assert long * 4096 <= 2.1 * half * 2048


def test_the_count_sees_the_matrix_where_it_is_materialised():
    # One matrix of weights alone is S / Dk = 16 query tensors.
    assert peak_in_queries(1024, "reference") > 16
    assert peak_in_queries(1024, "reference") * 1024 > 3.5 * peak_in_queries(512, "reference") * 512
    assert peak_in_queries(1024, "tiled") < 4
