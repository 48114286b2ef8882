"""attention, rotary positions and a whole layer against Hugging Face transformers' eager attention with grouped heads."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_lib import GroupedQueryAttention, RotaryPositions, attention, attention_weights, rotate, sinusoidal_positions

from .cases import F64, Case, cases, methods
from .oracles import assert_near, oracle, share

oracle("transformers", "5.24")

from transformers import DynamicCache, LlamaConfig, LlamaModel, MistralConfig, MistralModel
from transformers.models.gemma2 import modeling_gemma2 as gemma2
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama


def agree(case: Case, ours: Tensor, weights: Tensor, eager, **settings) -> None:
    """In output, weights and gradients, where a query sees something: an eager row of -inf is NaN."""
    rows = case.additive.gt(-torch.inf).any(-1, keepdim=True)
    added = case.additive.masked_fill(~rows, 0.0)
    module = SimpleNamespace(num_key_value_groups=case.query.shape[1] // case.key.shape[1], training=False)
    output, their_weights = eager(module, *case.inputs, added, scaling=case.scale, **settings)
    near = share(torch.float32, case.largest_score)  # its softmax is in float32, whatever the inputs are
    theirs = output.transpose(1, 2)  # [B, H, T, Dv]
    assert_near(ours.masked_fill(~rows, 0.0), theirs.masked_fill(~rows, 0.0), near, size=1.0)
    assert_near(weights.masked_fill(~rows, 0.0), their_weights.masked_fill(~rows, 0.0), near, "weights", size=1.0)
    cotangent = case.cotangent.masked_fill(~rows, 0.0)
    pairs = (torch.autograd.grad(each, case.inputs, cotangent) for each in (ours, theirs))
    for name, mine, other in zip(("query", "key", "value"), *pairs, strict=True):
        assert_near(mine, other, near, f"gradient of {name}", size=case.size)


@settings(deadline=None, max_examples=40)
@given(case=cases(levels=(0.0, 100.0, -100.0)), how=methods())
def test_grouped_heads_and_masks_are_llamas(case, how):
    ours, weights = attention(*case.inputs, **case.words, **how), attention_weights(*case.inputs[:2], **case.words)
    agree(case, ours, weights, llama.eager_attention_forward)


@settings(deadline=None, max_examples=20)
@given(case=cases(levels=(0.0,)), how=methods(), softcap=st.sampled_from((1.5, 20.0)))
def test_softcap_is_gemmas(case, how, softcap):
    words = case.words | {"softcap": softcap}
    ours, weights = attention(*case.inputs, **words, **how), attention_weights(*case.inputs[:2], **words)
    agree(case, ours, weights, gemma2.eager_attention_forward, softcap=softcap)


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def angles_near(last: int) -> float:
    """Both of its sources of angles are float32: an angle of p radians is known to p * eps, and so is a turned pair."""
    return share(torch.float32, last)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("offset", [0, 1000])
def test_rotary_halves_are_llamas(base, offset):
    B, H, Hkv, T, Dk = 2, 6, 3, 5, 14
    config = LlamaConfig(head_dim=Dk, rope_parameters={"rope_type": "default", "rope_theta": base})
    positions = torch.arange(offset, offset + T).expand(B, T)
    query, key = tensor(B, H, T, Dk), tensor(B, Hkv, T, Dk, seed=1)
    cos, sin = llama.LlamaRotaryEmbedding(config)(query, positions)
    theirs = llama.apply_rotary_pos_emb(query, key, cos, sin)
    for ours, other in zip((query, key), theirs, strict=True):
        assert_near(rotate(ours, offset=offset, base=base, halves=True), other, angles_near(offset + T))


@pytest.mark.parametrize("offset", [0, 100])
def test_rotary_neighbours_are_gpt_js(offset):
    B, H, T, Dk = 2, 3, 5, 14
    query = tensor(B, H, T, Dk)
    sin, cos = gptj.create_sinusoidal_positions(offset + T, Dk)[None, offset:].double().chunk(2, dim=-1)
    theirs = gptj.apply_rotary_pos_emb(query.transpose(1, 2), sin, cos).transpose(1, 2)
    assert_near(rotate(query, offset=offset), theirs, angles_near(offset + T))


def test_sinusoidal_positions_are_gpt_js_with_sines_and_cosines_alternating():
    T, D = 17, 14
    sines, cosines = gptj.create_sinusoidal_positions(T, D).chunk(2, dim=-1)
    ours = sinusoidal_positions(T, D)
    assert_near(ours[:, 0::2], sines, angles_near(T))
    assert_near(ours[:, 1::2], cosines, angles_near(T))


def model_and_layer(family: str) -> tuple[nn.Module, GroupedQueryAttention, list]:
    """A random model of one layer, our layer with its parameters, and a list that records what its attention gets and gives."""
    D, H, Hkv = 84, 6, 3
    sizes = {
        "vocab_size": 31, "hidden_size": D, "intermediate_size": 11, "num_hidden_layers": 1, "num_attention_heads": H,
        "num_key_value_heads": Hkv, "max_position_embeddings": 64, "attn_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    }  # fmt: skip
    torch.manual_seed(0)
    if family == "mistral":
        model = MistralModel(MistralConfig(**sizes, head_dim=D // H, sliding_window=3))
    else:
        model = LlamaModel(LlamaConfig(**sizes, attention_bias=family == "llama with biases"))
    model.eval()  # in float32: its least finite number of float64 is -inf in its softmax, and a padded row then NaN
    theirs = model.layers[0].self_attn
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)  # as they come new, biases are 0 and all weights nearly alike
    ours = GroupedQueryAttention(
        D, H, Hkv, is_causal=True, window=3 if family == "mistral" else None,
        bias=family == "llama with biases", positions=RotaryPositions(base=500.0, halves=True),
    )  # fmt: skip
    for name in "qkvo":
        getattr(ours, f"w_{name}").load_state_dict(getattr(theirs, f"{name}_proj").state_dict())
    seen = []
    theirs.register_forward_hook(
        lambda module, args, kwargs, output: seen.append(((*args, kwargs.get("hidden_states"))[0], *output)),
        with_kwargs=True,
    )
    return model, ours, seen


FAMILIES = ["llama", "llama with biases", "mistral"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("padded", [slice(0, 2), slice(5, 7)], ids=["left", "right"])
def test_a_whole_layer_gives_what_the_models_does(family, padded):
    model, layer, seen = model_and_layer(family)
    real = torch.ones(2, 7, dtype=torch.int64)
    real[0, padded] = 0
    model(torch.randint(31, (2, 7)), attention_mask=real)  # masks, positions and angles are its own
    hidden_states, theirs, weights = seen[0]
    near, rows = share(torch.float32, 10.0), real.bool()  # what a padded position answers is nobody's
    mine = hidden_states.detach().requires_grad_()
    ours = layer(mine, attention_mask=real)
    assert_near(ours.hidden_states[rows], theirs[rows], near)
    assert_near(ours.attention_weights.transpose(1, 2)[rows], weights.transpose(1, 2)[rows], near, "weights")
    cotangent = tensor(*theirs.shape).float() * rows[..., None]
    gradients = [
        torch.autograd.grad(*pair, cotangent)[0] for pair in ((ours.hidden_states, mine), (theirs, hidden_states))
    ]
    assert_near(*gradients, near, "gradient")


@pytest.mark.parametrize("family", FAMILIES)
def test_decoding_with_a_cache_gives_what_the_models_own_cache_does(family):
    model, layer, seen = model_and_layer(family)
    tokens, cache, theirs = torch.randint(31, (2, 7)), layer.make_cache(2, 7), DynamicCache(config=model.config)
    for start, stop in ((0, 3), (3, 4), (4, 5), (5, 7)):
        model(tokens[:, start:stop], None, None, theirs)  # its name for the cache differs from release to release
        hidden_states, output, _ = seen[-1]
        ours = layer(hidden_states, cache=cache).hidden_states
        assert_near(ours, output, share(torch.float32, 10.0), f"tokens {start} to {stop}")
    assert cache.length == 7 and len(seen) == 4
