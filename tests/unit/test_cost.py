"""Predicted cost: what others published, what PyTorch counts, and what real tensors take."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attn_lib import (
    KVCache,
    MaskedMultiHeadSelfAttention,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    MultiQueryAttention,
    attention,
    attention_cost,
    causal_mask,
    kv_cache_bytes,
    merge_heads,
    sliding_window_mask,
    split_heads,
    tiled_traffic_bytes,
    visible_pairs,
)
from attn_lib.measure import count_flops

PUBLISHED = {
    # name: shape, tokens, bytes as printed by the source
    "80 layers and 8 heads of 128, 4096 tokens (draft-calabria-bmwg-ai-fabric-inference-bench)": (80, 8, 128, 4096, 1_342_177_280),
    "a token of it (the same)": (80, 8, 128, 1, 320 * 1024),
    "OPT-13B, a token (Kwon et al. 2023, section 3)": (40, 40, 128, 1, 800 * 1024),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name):
    num_layers, num_kv_heads, head_dim, length, printed = PUBLISHED[name]
    shape = {"num_layers": num_layers, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
    assert kv_cache_bytes(**shape, length=length) == printed


def test_a_latent_cache_has_one_head_and_no_values():
    # DeepSeek-V2 (DeepSeek-AI 2024): 512 latent and 64 rotary numbers in each of 60 layers, printed as 34.6K.
    numbers = kv_cache_bytes(num_layers=60, num_kv_heads=1, head_dim=512 + 64, value_dim=0) // torch.float16.itemsize
    assert f"{numbers / 1000:.1f}K" == "34.6K"


SIZES = st.integers(1, 7)


@given(
    B=SIZES,
    Hkv=SIZES,
    length=SIZES,
    Dk=SIZES,
    Dv=SIZES,
    layers=SIZES,
    dtype=st.sampled_from(["half", "float32", "double"]),
)
def test_the_prediction_is_what_the_tensors_take(B, Hkv, length, Dk, Dv, layers, dtype):
    dtype = getattr(torch, dtype)
    caches = [KVCache(B, Hkv, length, Dk, value_dim=Dv, dtype=dtype) for _ in range(layers)]
    new = torch.zeros(B, Hkv, length, 1, dtype=dtype)
    held = sum(
        part.nbytes
        for cache in caches
        for part in cache.append(new.expand(B, Hkv, length, Dk), new.expand(B, Hkv, length, Dv))
    )
    predicted = kv_cache_bytes(
        num_layers=layers, num_kv_heads=Hkv, head_dim=Dk, value_dim=Dv, length=length, batch_size=B, dtype=dtype
    )
    assert predicted == held == sum(cache.nbytes for cache in caches)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"num_kv_heads": 0}, ValueError, "num_kv_heads must be an integer of at least 1, got 0"),
        ({"head_dim": 1.5}, TypeError, "head_dim must be an integer, got 1.5"),
        ({"value_dim": -1}, ValueError, "value_dim must be an integer of at least 0, got -1"),
        ({"length": True}, TypeError, "length must be an integer, got True"),
        ({"dtype": "float16"}, TypeError, "dtype must be a torch.dtype, got 'float16'"),
    ],
)
def test_refusals_name_the_argument(wrong, error, said):
    with pytest.raises(error, match=said.replace(".", r"\.")):
        kv_cache_bytes(**{"num_kv_heads": 1, "head_dim": 1} | wrong)


# Printed for GPT-2 in _posts/2025-09-28-cs336-understand-computation-cost-of-transformer-model.md of
# bearbearyu1223/bearbearyu1223.github.io at commit ab3ac18a9bdb2fb4701a6a1e2a725203dcd5f6ad.
GPT2 = {"small": (768, 12, 12), "medium": (1024, 16, 24), "large": (1280, 20, 36), "XL": (1600, 25, 48)}  # D, H, layers
FEED_FORWARD_AND_LOGITS = {"small": (39.8, 27.1), "medium": (49.9, 12.7), "large": (54.5, 7.4), "XL": (57.4, 4.7)}  # %
PROJECTIONS_AND_ATTENTION = {"small": (19.9, 13.3), "medium": (24.9, 12.5), "large": (27.2, 10.9), "XL": (28.7, 9.2)}


def gpt2(size, T=1024):
    d_model, num_heads, num_layers = GPT2[size]
    return attention_cost(d_model=d_model, num_heads=num_heads, T=T), num_layers


def test_published_flops_of_one_layer():
    layer, num_layers = gpt2("XL")
    assert layer.steps["scores"].flops == layer.steps["weighted sum"].flops == 3_355_443_200
    assert f"{layer.steps['query projection'].flops / 1e9:.2f}" == "5.24"
    assert f"{num_layers * layer.projections / 1e12:.3f}" == "1.007"


@pytest.mark.parametrize("size", GPT2)
def test_published_shares_of_a_model(size):
    layer, num_layers = gpt2(size)
    feed_forward, logits = FEED_FORWARD_AND_LOGITS[size]
    whole = num_layers * layer.matmul_flops / (1 - (feed_forward + logits) / 100)
    projections, products = PROJECTIONS_AND_ATTENTION[size]
    # The two printed shares that are taken as given are rounded to a tenth of a percent.
    assert 100 * num_layers * layer.projections / whole == pytest.approx(projections, abs=0.1)
    assert 100 * num_layers * (layer.matmul_flops - layer.projections) / whole == pytest.approx(products, abs=0.1)


def test_published_share_of_a_long_context():
    layer, num_layers = gpt2("XL", 16_384)
    assert f"{100 * num_layers * (layer.matmul_flops - layer.projections) / 133.4e12:.1f}" == "61.8"


def test_half_a_gibibyte_of_weights_and_the_factors_8_and_4():
    B, H, S, D = 1, 8, 4096, 512
    cost = attention_cost(d_model=D, num_heads=H, T=S, batch_size=B)
    assert cost.tensors["weights"] == cost.tensors["scores"] == 512 * 2**20
    assert cost.projections == 8 * B * S * D**2
    assert cost.matmul_flops == 8 * B * S * D**2 + 4 * B * S**2 * D
    assert cost.flops - cost.matmul_flops == 5 * B * H * S**2


@st.composite
def shapes(draw, most=5):
    """Arguments of attention_cost: groups of heads, a context of another width and length."""
    Hkv, groups, Dk = (draw(st.integers(1, 3)) for _ in range(3))
    sizes = {name: draw(st.integers(1, most)) for name in ("T", "S", "batch_size", "d_context")}
    return {"d_model": Hkv * groups * Dk, "num_heads": Hkv * groups, "num_kv_heads": Hkv} | sizes


ORDERS = st.fixed_dictionaries({"is_causal": st.booleans(), "window": st.none() | st.integers(1, 6)})


def layer_of(shape, dtype=torch.float32):
    """A layer, and two sequences that need gradients."""
    own = {name: shape[name] for name in ("d_model", "num_heads", "num_kv_heads", "d_context")}
    layer = MultiHeadAttention(**own).to(dtype)
    B = shape["batch_size"]
    hidden_states = torch.randn(B, shape["T"], shape["d_model"], dtype=dtype, requires_grad=True)
    context = torch.randn(B, shape["S"], shape["d_context"], dtype=dtype, requires_grad=True)
    return layer, hidden_states, context


def by_steps(layer, hidden_states, context, **core):
    """The layer with another core than its own."""
    query = split_heads(layer.w_q(hidden_states), layer.num_heads)
    key = split_heads(layer.w_k(context), layer.num_kv_heads)
    value = split_heads(layer.w_v(context), layer.num_kv_heads)
    return layer.w_o(merge_heads(attention(query, key, value, **core)))


def counted(run):
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@settings(deadline=None, max_examples=15)
@given(shape=shapes(), order=ORDERS)
def test_pytorch_counts_as_many_flops_and_three_times_as_many_in_training(shape, order):
    sequences = layer_of(shape)
    predicted = attention_cost(**shape, **order, skip_hidden=False)
    assert predicted.pairs == shape["T"] * shape["S"]
    forward = counted(lambda: by_steps(*sequences, **order, method="reference"))
    assert predicted.matmul_flops == forward
    assert 3 * forward == counted(lambda: by_steps(*sequences, **order, method="reference").sum().backward())
    assert predicted.projections == forward - counted_core(shape)
    assert predicted.flops - predicted.matmul_flops == 5 * shape["num_heads"] * shape["batch_size"] * predicted.pairs


def counted_core(shape):
    H, Hkv, B = shape["num_heads"], shape["num_kv_heads"], shape["batch_size"]
    query, key = (
        torch.ones(B, H, shape["T"], shape["d_model"] // H),
        torch.ones(B, Hkv, shape["S"], shape["d_model"] // H),
    )
    return counted(lambda: attention(query, key, key, method="reference"))


@settings(deadline=None, max_examples=20)
@given(shape=shapes(most=3), order=ORDERS)
def test_with_tiles_of_one_pair_only_the_pairs_that_are_seen_are_computed(shape, order):
    forward = counted(lambda: by_steps(*layer_of(shape), **order, method="tiled", block_sizes=(1, 1)))
    predicted = attention_cost(**shape, **order)
    assert predicted.matmul_flops == forward
    assert predicted.pairs == visible_pairs(shape["T"], shape["S"], **order)
    assert predicted.tensors == attention_cost(**shape, **order, skip_hidden=False).tensors


@settings(deadline=None, max_examples=20)
@given(shape=shapes())
def test_a_layer_as_it_is_computes_what_is_predicted(shape):
    layer, *sequences = layer_of(shape)
    assert attention_cost(**shape).matmul_flops == count_flops(lambda: layer(*sequences))


@pytest.mark.parametrize(
    ("layer", "heads"),
    [
        (MultiHeadSelfAttention(12, 6), {}),
        (MultiQueryAttention(12, 6), {"num_kv_heads": 1}),
        (MultiHeadSelfAttention(12, 6, num_kv_heads=3), {"num_kv_heads": 3}),
    ],
    ids=["heads of their own", "one for all", "groups"],
)
def test_what_is_left_out_is_self_attention_of_one_sequence(layer, heads):
    cost = attention_cost(d_model=12, num_heads=6, T=5, **heads)
    assert cost.matmul_flops == count_flops(lambda: layer(torch.randn(1, 5, 12)))
    written_out = {"S": 5, "batch_size": 1, "num_kv_heads": 6, "d_context": 12, "is_causal": False, "window": None}
    written_out |= {"skip_hidden": True, "dtype": torch.float32}
    assert cost == attention_cost(d_model=12, num_heads=6, T=5, **written_out | heads)


class Products(TorchDispatchMode):
    """Keeps what the batched matrix products inside it give."""

    def __init__(self):
        super().__init__()
        self.given = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if operation.overloadpacket is torch.ops.aten.bmm:
            self.given.append(result)
        return result


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("sizes", [(2, 1, 3, 5, 1, 4), (4, 4, 6, 2, 3, 8), (6, 3, 4, 4, 2, 6)], ids=str)
def test_real_tensors_take_as_many_bytes(sizes, dtype):
    names = "num_heads", "num_kv_heads", "T", "S", "batch_size", "d_context"
    shape = {"d_model": 12} | dict(zip(names, sizes, strict=True))
    layer, hidden_states, context = layer_of(shape, dtype)
    real = {"hidden_states": hidden_states, "context": context}
    real |= {name: getattr(layer, name).weight for name in ("w_q", "w_k", "w_v", "w_o")}

    def keep(name, heads):
        return lambda module, inputs, output: real.update({name: split_heads(output, heads)})

    for name, maps, heads in (
        ("query", layer.w_q, sizes[0]),
        ("key", layer.w_k, sizes[1]),
        ("value", layer.w_v, sizes[1]),
    ):
        maps.register_forward_hook(keep(name, heads))
    layer.w_o.register_forward_pre_hook(lambda module, inputs: real.update(heads=inputs[0]))
    output = layer(hidden_states, context)
    real |= {"weights": output.attention_weights, "output": output.hidden_states}
    with Products() as products:
        attention(real["query"], real["key"], real["value"], method="reference")
    real["scores"] = products.given[0]

    cost = attention_cost(**shape, dtype=dtype)
    assert cost.tensors == {name: tensor.nbytes for name, tensor in real.items()}
    assert real["scores"].element_size() >= 4
    head_dim, length = 12 // sizes[0], {"length": shape["S"], "batch_size": shape["batch_size"]}
    assert cost.kv_cache == kv_cache_bytes(num_kv_heads=sizes[1], head_dim=head_dim, **length, dtype=dtype)


def test_a_cache_of_the_layer_takes_as_many_bytes():
    layer = MaskedMultiHeadSelfAttention(12, 6, num_kv_heads=2)
    cost = attention_cost(d_model=12, num_heads=6, num_kv_heads=2, T=1, S=9, batch_size=3, is_causal=True)
    assert cost.kv_cache == layer.make_cache(3, 9).nbytes


def test_steps_by_hand():
    # Two bytes a number, four a score. B T D = 24 numbers, B S D' = 60, B S Hkv Dk = 20, B H T S = 60.
    shape = {"d_model": 4, "num_heads": 2, "num_kv_heads": 1, "T": 3, "S": 5, "batch_size": 2, "d_context": 6}
    cost = attention_cost(**shape, dtype=torch.float16)
    steps = {name: (step.flops, step.bytes_read, step.bytes_written) for name, step in cost.steps.items()}
    assert list(steps.items()) == [
        ("query projection", (192, 48 + 32, 48)),
        ("key projection", (240, 120 + 24, 40)),
        ("value projection", (240, 120 + 24, 40)),
        ("scores", (240, 48 + 40, 240)),
        ("softmax", (300, 240, 120)),
        ("weighted sum", (240, 120 + 40, 48)),
        ("output projection", (192, 48 + 32, 48)),
    ]
    assert (cost.flops, cost.matmul_flops, cost.projections, cost.kv_cache) == (1644, 1344, 864, 80)
    assert cost.steps["softmax"].intensity == 300 / 360
    assert cost.steps["query projection"].intensity == 192 / 128
    assert (cost.core.flops, cost.core.bytes_read, cost.core.bytes_written) == (780, 128, 48)
    assert cost.core.intensity == 780 / 176


def test_a_causal_order_halves_the_flops_and_leaves_the_bytes():
    shape = {"d_model": 4, "num_heads": 2, "T": 3, "batch_size": 2}
    whole, causal = attention_cost(**shape), attention_cost(**shape, is_causal=True)
    assert (whole.pairs, causal.pairs) == (9, 6)
    for name in ("scores", "softmax", "weighted sum"):
        assert causal.steps[name].flops * 9 == whole.steps[name].flops * 6
        assert causal.steps[name].bytes_read == whole.steps[name].bytes_read
        assert causal.steps[name].bytes_written == whole.steps[name].bytes_written
    assert causal.projections == whole.projections
    assert attention_cost(**shape, is_causal=True, skip_hidden=False) == whole


def test_the_masks_let_as_many_pairs_through():
    for T in range(1, 9):
        assert visible_pairs(T) == T * T
        for S in range(1, 9):
            assert visible_pairs(T, S) == T * S
            assert visible_pairs(T, S, is_causal=True) == causal_mask(T, S).sum()
            for window in range(1, 11):
                seen = sliding_window_mask(T, S, window=window).sum()
                assert visible_pairs(T, S, window=window) == visible_pairs(T, S, window=window, is_causal=True) == seen


LONG = st.integers(1, 10**12)


@settings(deadline=None)
@given(n=LONG, other=LONG)
def test_pairs_in_closed_form(n, other):
    W, n = sorted((n, other))
    assert visible_pairs(n, is_causal=True) == n * (n + 1) // 2
    assert visible_pairs(n, window=W) == W * n - W * (W - 1) // 2
    assert visible_pairs(n, window=n) == visible_pairs(n, window=n + W) == visible_pairs(n, is_causal=True)
    assert visible_pairs(1, n, is_causal=True) == n  # the one new token of a cache sees all
    earlier = visible_pairs(n - W, is_causal=True) if n > W else 0
    assert visible_pairs(W, n, is_causal=True) + earlier == visible_pairs(n, is_causal=True)


class MainMemory:
    """A GPU's large memory: every number that is loaded from it or stored in it counts."""

    def __init__(self, **tensors):
        self.tensors = tensors
        self.moved = 0

    def load(self, name, rows):
        self.moved += self.tensors[name][rows].numel()
        return self.tensors[name][rows].clone()

    def store(self, name, rows, numbers):
        self.moved += self.tensors[name][rows].numel()
        self.tensors[name][rows] = numbers


def blocks(length, size):
    return [slice(first, min(first + size, length)) for first in range(0, length, size)]


def flash_attention(memory, room):
    """Algorithm 1 of Dao et al. 2022, in its letters, from line 3: what line 2 sets up lies in memory."""
    (N, d), (S, _) = memory.tensors["Q"].shape, memory.tensors["K"].shape
    B_c = math.ceil(room / (4 * d))
    B_r = min(B_c, d)
    for j in blocks(S, B_c):
        K, V = memory.load("K", j), memory.load("V", j)
        for i in blocks(N, B_r):
            Q, O, l, m = (memory.load(name, i) for name in "QOlm")
            scores = Q @ K.T
            m_tile = scores.amax(-1)
            P = (scores - m_tile[:, None]).exp()
            m_new = torch.maximum(m, m_tile)
            l_old, grown = l * (m - m_new).exp(), (m_tile - m_new).exp()
            l_new = l_old + grown * P.sum(-1)
            memory.store("O", i, (l_old[:, None] * O + grown[:, None] * (P @ V)) / l_new[:, None])
            memory.store("l", i, l_new)
            memory.store("m", i, m_new)


@settings(deadline=None)
@given(
    T=st.integers(1, 9), S=st.integers(1, 9), Dk=st.integers(1, 5), more=st.integers(0, 80),
    heads=st.integers(1, 2), B=st.integers(1, 2), dtype=st.sampled_from([torch.float16, torch.float32]),
)  # fmt: skip
def test_the_published_algorithm_moves_as_many_bytes(T, S, Dk, more, heads, B, dtype):
    room, moved = 4 * Dk + more, 0
    for _ in range(B * heads):
        query, key, value = (torch.randn(length, Dk, dtype=torch.float64) for length in (T, S, S))
        start = {"O": torch.zeros_like(query), "l": query.new_zeros(T), "m": query.new_full((T,), -torch.inf)}
        memory = MainMemory(Q=query, K=key, V=value, **start)
        flash_attention(memory, room)
        torch.testing.assert_close(memory.tensors["O"], attention(query, key, value, scale=1.0, method="reference"))
        moved += memory.moved
    predicted = tiled_traffic_bytes(
        T=T, S=S, head_dim=Dk, num_heads=heads, batch_size=B, dtype=dtype,
        on_chip_bytes=room * dtype.itemsize + dtype.itemsize - 1,  # the last of them hold no number
    )  # fmt: skip
    assert predicted == moved * dtype.itemsize


def test_traffic_by_hand():
    # Room for 16 numbers: blocks of 16 / (4 * 2) = 2 keys, so 3 of them for 5 keys. A block brings in and out all 4
    # queries (8 numbers), outputs (8, twice), maxima and sums (4 each, twice).
    assert tiled_traffic_bytes(T=4, S=5, head_dim=2, on_chip_bytes=32) == 2 * (2 * 5 * 2 + 3 * (8 + 16 + 16))
    one_pass = tiled_traffic_bytes(T=4, S=5, head_dim=2, on_chip_bytes=10**6)
    assert one_pass == 2 * (2 * 5 * 2 + 40)
    assert tiled_traffic_bytes(T=4, head_dim=2, on_chip_bytes=32) == 2 * (2 * 4 * 2 + 2 * 40)


def test_traffic_shrinks_with_the_memory_and_grows_with_the_square_of_the_length():
    def traffic(length, kibibytes):
        return tiled_traffic_bytes(T=length, head_dim=64, on_chip_bytes=kibibytes * 1024)

    sizes = [traffic(4096, kibibytes) for kibibytes in (1, 2, 16, 64, 128, 256, 2048)]
    assert sizes == sorted(set(sizes), reverse=True)
    assert 3.9 < traffic(8192, 128) / traffic(4096, 128) < 4
    assert 1.9 < traffic(4096, 64) / traffic(4096, 128) < 2


COST = {"d_model": 4, "num_heads": 2, "T": 3}
TRAFFIC = {"T": 3, "head_dim": 2, "on_chip_bytes": 1024}
SIZES_OF = {
    attention_cost: (COST, ["d_model", "num_heads", "T", "S", "batch_size", "num_kv_heads", "d_context"]),
    visible_pairs: ({"T": 3}, ["T", "S"]),
    tiled_traffic_bytes: (TRAFFIC, ["T", "S", "head_dim", "on_chip_bytes", "num_heads", "batch_size"]),
}


@pytest.mark.parametrize(
    ("function", "name"), [(function, name) for function, (_, names) in SIZES_OF.items() for name in names]
)
def test_refusals_name_every_size(function, name):
    right, _ = SIZES_OF[function]
    assert function(**right)
    for wrong, error, said in (
        (0, ValueError, f"^{name} must be an integer of at least 1, got 0$"),
        (2.0, TypeError, rf"^{name} must be an integer, got 2\.0$"),
        (True, TypeError, f"^{name} must be an integer, got True$"),
    ):
        with pytest.raises(error, match=said):
            function(**right | {name: wrong})


@pytest.mark.parametrize(
    ("function", "wrong", "error", "said"),
    [
        (attention_cost, COST | {"num_heads": 3}, ValueError, "num_heads = 3 must divide d_model = 4"),
        (attention_cost, COST | {"num_kv_heads": 4}, ValueError, "num_kv_heads = 4 must divide num_heads = 2"),
        (attention_cost, COST | {"d_context": (4, 6)}, TypeError, r"d_context must be an integer, got \(4, 6\)"),
        (attention_cost, COST | {"is_causal": "no"}, TypeError, "is_causal must be True or False, got 'no'"),
        (attention_cost, COST | {"window": 0}, ValueError, "window must be an integer of at least 1, got 0"),
        (attention_cost, COST | {"window": 0, "skip_hidden": False}, ValueError, "window must be an integer"),
        (attention_cost, COST | {"skip_hidden": 1}, TypeError, "skip_hidden must be True or False, got 1"),
        (attention_cost, COST | {"dtype": "half"}, TypeError, "dtype must be a torch.dtype, got 'half'"),
        (visible_pairs, {"T": 3, "is_causal": 1}, TypeError, "is_causal must be True or False, got 1"),
        (visible_pairs, {"T": 3, "window": 1.5}, TypeError, "window must be an integer, got 1.5"),
        (tiled_traffic_bytes, TRAFFIC | {"dtype": 2}, TypeError, "dtype must be a torch.dtype, got 2"),
        (
            tiled_traffic_bytes,
            TRAFFIC | {"on_chip_bytes": 15},
            ValueError,
            "on_chip_bytes must hold one row each of query, key, value and output, 16 bytes, got 15",
        ),
    ],
)
def test_other_refusals(function, wrong, error, said):
    with pytest.raises(error, match=f"^{said}"):
        function(**wrong)
