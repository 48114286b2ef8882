"""The others: layers of other libraries with the parameters of one of ours. Each library is imported when it is needed.

Every layer has four maps of width D, heads side by side, and nothing else: no normalisation, no positions, no
dropout. Biases are zero, because those of x-transformers do not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import attn_lib

# Names as they are imported, and as they are installed.
PACKAGES = {"x_transformers": "x-transformers", "transformers": "transformers"}


@dataclass(frozen=True)
class Layer:
    """A layer, and how it is called: hidden states ``[B, S, D]`` to hidden states."""

    module: nn.Module
    forward: Callable[[Tensor], Tensor]


def attn_lib_layer(d_model: int, num_heads: int, *, is_causal: bool, device: torch.device) -> Layer:
    """Ours, from which the others take their weights."""
    torch.manual_seed(0)
    module = attn_lib.MultiHeadAttention(d_model, num_heads, is_causal=is_causal).to(device).eval()
    for linear in _maps(module):
        nn.init.zeros_(linear.bias)
    return Layer(module, lambda hidden_states: module(hidden_states).hidden_states)


class ExplicitAttention(nn.Module):
    """Three projections, scaled_dot_product_attention, an output map: as one writes it by hand."""

    def __init__(self, d_model: int, num_heads: int, *, is_causal: bool):
        super().__init__()
        self.num_heads, self.is_causal = num_heads, is_causal
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, hidden_states: Tensor) -> Tensor:
        B, S, D = hidden_states.shape
        query, key, value = (
            linear(hidden_states).view(B, S, self.num_heads, D // self.num_heads).transpose(1, 2)
            for linear in (self.w_q, self.w_k, self.w_v)
        )
        heads = scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        return self.w_o(heads.transpose(1, 2).reshape(B, S, D))


def explicit_layer(ours: attn_lib.MultiHeadAttention) -> Layer:
    module = ExplicitAttention(ours.d_model, ours.num_heads, is_causal=ours.is_causal).to(ours.w_q.weight.device)
    module.load_state_dict(ours.state_dict())
    return Layer(module.eval(), module)


def torch_layer(ours: attn_lib.MultiHeadAttention, length: int, *, train: bool) -> Layer:
    """``nn.MultiheadAttention``: in eval and without a gradient it takes its own fast path, in train it calls SDPA."""
    device = ours.w_q.weight.device
    module = nn.MultiheadAttention(ours.d_model, ours.num_heads, batch_first=True, device=device)
    weights = [linear.weight.detach() for linear in _maps(ours)]
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat(weights[:3]))
        module.out_proj.weight.copy_(weights[3])
        module.in_proj_bias.zero_()
        module.out_proj.bias.zero_()
    # is_causal is a hint there: the mask must be given too. As floats, or every call would convert it.
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=device) if ours.is_causal else None
    settings = {"need_weights": False, "attn_mask": mask, "is_causal": ours.is_causal}
    return Layer(module.train(train), lambda x: module(x, x, x, **settings)[0])


def x_transformers_layer(ours: attn_lib.MultiHeadAttention, *, flash: bool) -> Layer:
    from x_transformers.x_transformers import Attention

    width = ours.d_model // ours.num_heads
    module = Attention(ours.d_model, heads=ours.num_heads, dim_head=width, causal=ours.is_causal, flash=flash)
    theirs = (module.to_q, module.to_k, module.to_v, module.to_out)
    return Layer(_with_weights(module, theirs, ours), module)


def transformers_layer(ours: attn_lib.MultiHeadAttention, length: int, *, implementation: str) -> Layer:
    """CLIP's attention: of all in transformers the one with four maps and nothing beside them.

    BERT's ends before the output map, which stands in a block with a normalisation; Llama's turns its queries.
    """
    from transformers import CLIPTextConfig
    from transformers.models.clip.modeling_clip import CLIPAttention

    config = CLIPTextConfig(
        hidden_size=ours.d_model, num_attention_heads=ours.num_heads, attn_implementation=implementation
    )
    module = CLIPAttention(config)
    theirs = (module.q_proj, module.k_proj, module.v_proj, module.out_proj)
    module = _with_weights(module, theirs, ours)
    mask = None
    if ours.is_causal and implementation == "eager":  # it adds what it is given, and knows no causal order
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=ours.w_q.weight.device)[None, None]
    return Layer(module, lambda x: module(x, mask, is_causal=ours.is_causal)[0])


def _maps(module: attn_lib.MultiHeadAttention) -> tuple[nn.Linear, ...]:
    return module.w_q, module.w_k, module.w_v, module.w_o


def _with_weights(module: nn.Module, theirs: tuple[nn.Linear, ...], ours: attn_lib.MultiHeadAttention) -> nn.Module:
    """The module with our four weights, zero biases where it has any, on our device, in eval."""
    module = module.to(ours.w_q.weight.device).eval()
    with torch.no_grad():
        for linear, own in zip(theirs, _maps(ours), strict=True):
            linear.weight.copy_(own.weight)
            if linear.bias is not None:
                linear.bias.zero_()
    return module
