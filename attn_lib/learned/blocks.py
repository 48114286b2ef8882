"""The block of a small transformer: attention, then a small network, each added to what came in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attn_lib.errors import require, shape_of
from attn_lib.layers import MultiHeadAttention, merge_heads, split_heads


class Block(nn.Module):
    """Normalise, attend, add; normalise, transform each token by itself, add.

    Args:
        d_model: D, the width of a token.
        num_heads: H.
        is_causal: each token sees itself and the earlier ones.

    Source:
        Vaswani et al. 2017, section 3.1. The normalisation stands before each part and not after it, which trains
        without a warm-up (Xiong et al. 2020, section 3).

    In PyTorch:
        ``nn.TransformerEncoderLayer(d_model, num_heads, dim_feedforward=2 * d_model, norm_first=True, dropout=0,
        activation="gelu")``.

    >>> Block(8, 2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, d_model: int, num_heads: int, *, is_causal: bool = False):
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, is_causal=is_causal)
        self.network_norm = nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        """One pass.

        Args:
            hidden_states: ``[B, T, D]``.
            attention_mask: ``[B, T]``, 1 = real.
            weights: ``[B, H, T, T]`` in place of those that queries and keys would give.

        Returns:
            ``[B, T, D]``.
        """
        x = self.attention_norm(hidden_states)  # [B, T, D]
        if weights is None:
            attended = self.attention(x, attention_mask=attention_mask).hidden_states
        else:
            attended = apply_weights(self.attention, x, weights)
        hidden_states = hidden_states + attended
        return hidden_states + self.network(self.network_norm(hidden_states))

    def attention_weights(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The weights ``[B, H, T, T]`` of the same pass."""
        return self.attention(self.attention_norm(hidden_states), attention_mask=attention_mask).attention_weights


def apply_weights(layer: MultiHeadAttention, context: Tensor, weights: Tensor) -> Tensor:
    """What a layer would give if its weights were these: its values, mixed by them, through its output map.

    Args:
        layer: of which the value map and the output map are used; its queries and keys are not.
        context: ``[B, S, D]``, what the values are made of.
        weights: ``[B, H, T, S]``.

    Returns:
        ``[B, T, D]``.

    Raises:
        ValueError: the weights do not fit the layer and the context.

    Source:
        Jain and Wallace 2019, section 4, where weights are permuted or made up, and all else stays.

    In PyTorch:
        No layer takes weights.

    >>> layer, x = MultiHeadAttention(4, 2), torch.ones(1, 3, 4)
    >>> output = layer(x)
    >>> torch.allclose(apply_weights(layer, x, output.attention_weights), output.hidden_states)
    True
    """
    value = split_heads(layer.w_v(context), layer.num_kv_heads)  # [B, Hkv, S, Dv]
    B, S = context.shape[:2]
    fits = weights.dim() == 4 and (weights.shape[0], weights.shape[1], weights.shape[3]) == (B, layer.num_heads, S)
    require(fits, f"weights must be [B, H, T, S] = [{B}, {layer.num_heads}, T, {S}], got shape {shape_of(weights)}")
    value = value.repeat_interleave(layer.num_heads // layer.num_kv_heads, dim=1)  # [B, H, S, Dv]
    return layer.w_o(merge_heads(weights @ value))


@contextmanager
def without_heads(layer: MultiHeadAttention, heads: Iterable[int]) -> Iterator[None]:
    """Take heads out of a layer for a while: their part of the output map is 0.

    Args:
        layer: the layer; as it was when the block is left, also by an error.
        heads: the heads, counted from 0.

    Raises:
        ValueError: the layer has no such head.

    Source:
        Michel et al. 2019, section 2.3.

    In PyTorch:
        Nothing of the kind; a hook would do.

    >>> layer = MultiHeadAttention(4, 2, bias=False)
    >>> with without_heads(layer, [0, 1]):
    ...     layer(torch.ones(1, 1, 4)).hidden_states.abs().sum().item()
    0.0
    """
    heads = sorted(set(heads))
    H = layer.num_heads
    require(all(0 <= head < H for head in heads), f"heads must be from 0 to {H - 1}, got {heads}")
    before = layer.w_o.weight.detach().clone()
    with torch.no_grad():
        for head in heads:
            layer.w_o.weight.unflatten(1, (H, -1))[:, head] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            layer.w_o.weight.copy_(before)
