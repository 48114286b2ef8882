"""The equation as one reads it, one function a step: this file defines what is right.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(Dk)) V          Vaswani et al. 2017, equation (1)

Every tensor here has a head axis: query ``[..., H, T, Dk]``, key ``[..., Hkv, S, Dk]``, value
``[..., Hkv, S, Dv]``. ``trace.py`` calls the same steps and keeps what each of them gives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn_lib.masks import VisibleKeys


def dot_products(query: Tensor, key: Tensor) -> Tensor:
    """Scores before scaling: every query with every key of its group. ``[..., H, T, S]``

    Query head h reads key head ``h // (H / Hkv)`` (Ainslie et al. 2023, section 2.2). The heads
    of one group are stacked along the query axis, so that no key is ever repeated in memory.

    >>> query, key = torch.tensor([[[1, 2]], [[3, 4]]]), torch.tensor([[[1, 0], [0, 1]]])
    >>> dot_products(query, key)  # two heads of queries, one of keys
    tensor([[[1, 2]],
    <BLANKLINE>
            [[3, 4]]])
    """
    *lead, H, T, Dk = query.shape
    Hkv, S = key.shape[-3:-1]
    stacked = query.reshape(*lead, Hkv, H // Hkv * T, Dk)
    return (stacked @ key.mT).reshape(*lead, H, T, S)


def scale_scores(scores: Tensor, *, scale: float, softcap: float | None = None) -> Tensor:
    """Multiply by the scale; with a softcap c, squeeze into (-c, c) by ``c * tanh(scores / c)``.

    >>> scale_scores(torch.tensor([2.0, 4.0]), scale=0.5)
    tensor([1., 2.])
    """
    scores = scores if scale == 1 else scores * scale
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def mask_scores(scores: Tensor, allowed: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """Add the bias, then put -inf wherever ``allowed`` is False.

    >>> mask_scores(torch.tensor([2.0, 4.0]), torch.tensor([True, False]))
    tensor([2., -inf])
    """
    if bias is not None:
        scores = scores + bias
    return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)


def softmax_rows(scores: Tensor) -> Tensor:
    """Softmax over the keys. A row that is -inf throughout gets weights 0, not NaN.

    The row is set to 0 *before* the softmax as well, because a NaN made there would come back
    through the gradient even though its weights are overwritten afterwards.

    >>> softmax_rows(torch.tensor([[2.0, 2.0], [-torch.inf, -torch.inf]]))
    tensor([[0.5000, 0.5000],
            [0.0000, 0.0000]])
    """
    empty = (scores == -torch.inf).all(dim=-1, keepdim=True)  # [..., H, T, 1]
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Blend the values of each group by the weights. ``[..., H, T, Dv]``

    >>> weighted_sum(torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[2.0, 4.0], [6.0, 8.0]]]))
    tensor([[[4., 6.]]])
    """
    *lead, H, T, S = weights.shape
    Hkv, Dv = value.shape[-3], value.shape[-1]
    stacked = weights.reshape(*lead, Hkv, H // Hkv * T, S)
    return (stacked @ value).reshape(*lead, H, T, Dv)


def reference_weights(
    query: Tensor, key: Tensor, visible: VisibleKeys, *, bias: Tensor | None, scale: float, softcap: float | None
) -> Tensor:
    """The first half of the equation: weights ``[..., H, T, S]``, each row summing to 1 (or 0)."""
    scores = dot_products(query, key)
    scores = scale_scores(scores, scale=scale, softcap=softcap)
    allowed = visible.block()
    if allowed is None and bias is None:
        return scores.softmax(dim=-1)  # no row can be empty
    return softmax_rows(mask_scores(scores, allowed, bias))


def reference_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: VisibleKeys,
    *,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    dropout_p: float,
) -> Tensor:
    """Both halves: weights, then the weighted sum. ``[..., H, T, Dv]``"""
    weights = reference_weights(query, key, visible, bias=bias, scale=scale, softcap=softcap)
    if dropout_p > 0:
        weights = torch.nn.functional.dropout(weights, dropout_p)
    return weighted_sum(weights, value)
