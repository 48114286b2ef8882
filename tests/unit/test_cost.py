"""Predicted cost: what others published, and what real tensors take."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_lib import KVCache, kv_cache_bytes

PUBLISHED = {
    # name: shape, tokens, bytes as printed by the source
    "80 layers and 8 heads of 128, 4096 tokens (draft-calabria-bmwg-ai-fabric-inference-bench)": (80, 8, 128, 4096, 1_342_177_280),
    "a token of it (the same)": (80, 8, 128, 1, 320 * 1024),
    "OPT-13B, a token (Kwon et al. 2023, section 3)": (40, 40, 128, 1, 800 * 1024),
}


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
