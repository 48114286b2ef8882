"""MultiHeadAttention against torch.nn.MultiheadAttention: outputs, weights per head, gradients of every parameter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_lib import MultiHeadAttention, attention, merge_heads, split_heads

from .oracles import assert_near, share

B, T, S, HEAD_DIM = 2, 5, 7, 11


def module_with(heads: int, dtype=torch.float64, seed: int = 0, **settings) -> nn.MultiheadAttention:
    """A module whose biases are not 0, as they are when it is new: a forgotten one would not show."""
    torch.manual_seed(seed)
    module = nn.MultiheadAttention(heads * HEAD_DIM, heads, batch_first=True, dtype=dtype, **settings)
    for name, parameter in module.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    return module


def sequence(length: int, width: int, seed: int, dtype=torch.float64) -> Tensor:
    make = torch.Generator().manual_seed(seed)
    return torch.randn(B, length, width, generator=make, dtype=torch.float64).to(dtype).requires_grad_()


def gradients_of_maps(parameters: dict[str, Tensor]) -> list[Tensor]:
    """The module's gradients in our order: weights of the four maps, then their biases."""
    if "in_proj_weight" in parameters:
        weights = [*parameters["in_proj_weight"].grad.chunk(3)]
    else:
        weights = [parameters[f"{name}_proj_weight"].grad for name in "qkv"]
    weights.append(parameters["out_proj.weight"].grad)
    if "in_proj_bias" not in parameters:
        return weights
    return [*weights, *parameters["in_proj_bias"].grad.chunk(3), parameters["out_proj.bias"].grad]


@settings(deadline=None, max_examples=20)
@given(
    heads=st.sampled_from((1, 3)),
    widths=st.sampled_from((None, (17, 17), (17, 19), "embed_dim, 19")),  # kdim and vdim
    bias=st.booleans(),
    padded=st.booleans(),
    dtype=st.sampled_from((torch.float64, torch.float32)),
    size=st.sampled_from((1.0, 30.0)),  # scores of some thousand, of both signs
    seed=st.integers(0, 99),
)
def test_cross_attention_agrees_in_outputs_weights_and_gradients(heads, widths, bias, padded, dtype, size, seed):
    D = heads * HEAD_DIM
    kdim, vdim = (D, D) if widths is None else (D, 19) if isinstance(widths, str) else widths
    module = module_with(heads, dtype, seed, bias=bias, kdim=kdim, vdim=vdim)
    layer = MultiHeadAttention.from_torch(module)
    inputs = [sequence(*shape, seed, dtype) for shape in ((T, D), (S, kdim), (S, vdim))]
    inputs[0] = (inputs[0].detach() * size).requires_grad_()
    ignored = None  # True = padding, in the module's words
    if padded:
        ignored = torch.zeros(B, S, dtype=torch.bool)
        ignored[0, 4:] = ignored[1, :2] = True
    theirs, weights = module(*inputs, key_padding_mask=ignored, average_attn_weights=False)
    averaged = module(*inputs, key_padding_mask=ignored)[1]
    ours = layer(inputs[0], tuple(inputs[1:]), None if ignored is None else ~ignored)
    # Scores are dot products of projections of the inputs; a generous bound on them bounds the error.
    near = share(dtype, float(weights.new_tensor(size * D)))
    assert_near(ours.hidden_states, theirs, near)
    assert_near(ours.attention_weights, weights, near, "weights", size=1.0)
    assert_near(ours.attention_weights.mean(1), averaged, near, "averaged weights", size=1.0)
    cotangent = sequence(T, D, seed + 1, dtype).detach()
    of_theirs = torch.autograd.grad(theirs, inputs, cotangent, retain_graph=True)
    for name, mine, other in zip(
        ("query", "key", "value"),
        torch.autograd.grad(ours.hidden_states, inputs, cotangent, retain_graph=True),
        of_theirs,
        strict=True,
    ):
        assert_near(mine, other, near, f"gradient of {name}", size=1.0)
    theirs.backward(cotangent)
    ours.hidden_states.backward(cotangent)
    maps = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    own = [each.weight.grad for each in maps] + ([each.bias.grad for each in maps] if bias else [])
    for index, (mine, other) in enumerate(zip(own, gradients_of_maps(dict(module.named_parameters())), strict=True)):
        assert_near(mine, other, near, f"gradient of parameter {index}", size=size)


@pytest.mark.parametrize("restriction", ["causal", "window", "none"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_self_attention_with_padding_agrees_at_every_real_token(restriction, training):
    module = module_with(3).train(training)
    layer = MultiHeadAttention.from_torch(module)
    layer.is_causal, layer.window = restriction == "causal", 3 if restriction == "window" else None
    x = sequence(T, 3 * HEAD_DIM, 1)
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    forbidden = None  # True = may not be attended, in the module's words
    if restriction != "none":
        forbidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    if restriction == "window":
        forbidden |= torch.ones(T, T, dtype=torch.bool).tril(-3)
    with torch.set_grad_enabled(training):  # without gradients the module takes another, fused path
        theirs = module(x, x, x, key_padding_mask=~real, attn_mask=forbidden, need_weights=False)[0]
        ours = layer(x, attention_mask=real).hidden_states
    # What a padded position answers is nobody's: ours is computed from zeros there.
    assert_near(ours[real], theirs[real], share(torch.float64))


@settings(deadline=None, max_examples=20)
@given(
    method=st.sampled_from(("reference", "tiled", "fused")),
    per_head=st.booleans(),
    additive=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_mask_of_the_module_is_ours_turned_over(method, per_head, additive, seed):
    heads = 3
    module = module_with(heads, seed=seed)
    layer = MultiHeadAttention.from_torch(module)
    D = heads * HEAD_DIM
    x, y = sequence(T, D, seed), sequence(S, D, seed + 1)
    make = torch.Generator().manual_seed(seed)
    shape = (B * heads, T, S) if per_head else (T, S)
    if additive:
        given_mask = torch.randn(shape, generator=make, dtype=torch.float64) * 100
    else:
        given_mask = torch.rand(shape, generator=make) < 0.5
        given_mask[..., 0] = False  # the module answers NaN where a query sees nothing
    theirs = module(x, y, y, attn_mask=given_mask, need_weights=False)[0]
    ours_mask = given_mask.unflatten(0, (B, heads)) if per_head else given_mask
    words = {"bias": ours_mask} if additive else {"mask": ~ours_mask}
    query, key, value = (
        split_heads(linear(source), heads) for linear, source in ((layer.w_q, x), (layer.w_k, y), (layer.w_v, y))
    )
    ours = layer.w_o(merge_heads(attention(query, key, value, **words, method=method)))
    assert_near(ours, theirs, share(torch.float64, 100.0))


def test_a_sequence_first_module_has_the_same_parameters():
    module = module_with(3)
    module.batch_first = False
    x = sequence(T, 3 * HEAD_DIM, 2)
    theirs = module(*[x.transpose(0, 1)] * 3)[0].transpose(0, 1)
    assert_near(MultiHeadAttention.from_torch(module)(x).hidden_states, theirs, share(torch.float64))
