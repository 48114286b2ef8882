"""The same result on PyTorch's kernels, which take all steps in one pass (Dao et al. 2022, FlashAttention).

``torch.nn.functional.scaled_dot_product_attention`` never writes the T x S scores out, but only where it
is called as its kernels want it: four axes, one width for all, the last axis contiguous. Elsewhere it
falls back to the whole matrix without a word. This file calls it as its kernels want it, and cuts the
queries into blocks where a mask differs from query to query.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from attn_lib.masks import VisibleKeys, cut, limits

ROWS = 256  # queries a block: 256 x S of a mask are there at a time, not T x S


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: VisibleKeys,
    *,
    bias: Tensor | None,
    scale: float,
    dropout_p: float,
) -> Tensor:
    """``[..., H, T, Dk]``, ``[..., Hkv, S, Dk]``, ``[..., Hkv, S, Dv]`` -> ``[..., H, T, Dv]``; no axis is empty.

    No kernel has a softcap, so this has none. With dropout, and with a bias that is being trained,
    PyTorch's CPU kernel does write the weights out.
    """
    if query.shape[-2] == 1 and dropout_p == 0 and query.dtype in (torch.float32, torch.float64):
        return _one_query(query, key, value, visible, bias=bias, scale=scale)
    lead, H, T, Dv = query.shape[:-3], *query.shape[-3:-1], value.shape[-1]
    if scale <= 0:  # the kernels scale after they mask: -inf times 0 is NaN, times a negative number +inf
        query, scale = query * scale, 1.0
    width = max(query.shape[-1], Dv)
    query, key, value = (_as_kernels_want(tensor, width) for tensor in (query, key, value))  # [N, H, T, width], ...
    settings = {"scale": scale, "dropout_p": dropout_p}
    if H != key.shape[1]:
        settings["enable_gqa"] = True
    square = not visible.is_causal or T == visible.S  # the kernels' own causal order puts the first query at key 0
    if visible.mask is None and visible.window is None and bias is None and square:
        output = scaled_dot_product_attention(query, key, value, is_causal=visible.is_causal, **settings)
    else:
        alike = not visible.differs_by_query and (bias is None or bias.dim() < 2 or bias.shape[-2] == 1)

        def block(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, first: int, last: int) -> Tensor:
            start, stop = visible.columns(first, last)
            stop = max(stop, start + 1)  # a block without keys takes one, which its mask then hides
            added, blind = _added(visible, bias, first, last, start, stop, query)
            rows, keys, values = query[..., first:last, :], key[..., start:stop, :], value[..., start:stop, :]
            output = scaled_dot_product_attention(rows, keys, values, attn_mask=_flat(added, lead), **settings)
            return output.masked_fill(_flat(blind, lead), 0.0)

        if alike or T <= ROWS:
            output = block(query, key, value, bias, 0, T)
        else:
            # A kernel keeps its mask for the way back, and those of all blocks are T x S after all: made again there.
            again = partial(checkpoint, block, use_reentrant=False) if torch.is_grad_enabled() else block
            ranges = [(first, min(first + ROWS, T)) for first in range(0, T, ROWS)]
            output = torch.cat([again(query, key, value, bias, *range) for range in ranges], dim=-2)
    output = output if len(lead) == 1 else output.reshape(*lead, H, T, width)
    return output if Dv == width else output[..., :Dv]


def _one_query(
    query: Tensor, key: Tensor, value: Tensor, visible: VisibleKeys, *, bias: Tensor | None, scale: float
) -> Tensor:
    """One token against all keys: its scores are one row, and reading the keys is all that costs.

    The heads of a group are the rows of one matrix, so that each key is read once for all of them, and
    the product is taken as keys times query, along the memory.
    """
    *lead, H, _, Dk = query.shape
    Hkv, S = key.shape[-3:-1]
    group = query.reshape(*lead, Hkv, H // Hkv, Dk) * scale  # [..., Hkv, G, Dk]
    scores = (key @ group.mT).mT  # [..., Hkv, G, S]
    blind = None
    if visible.mask is not None or visible.window is not None or bias is not None:
        added, blind = _added(visible, bias, 0, 1, 0, S, query)
        scores = (scores.reshape(*lead, H, 1, S) + added).reshape(*lead, Hkv, H // Hkv, S)
    output = (scores.softmax(dim=-1) @ value).reshape(*lead, H, 1, value.shape[-1])
    return output if blind is None else output.masked_fill(blind, 0.0)


def _added(
    visible: VisibleKeys, bias: Tensor | None, first: int, last: int, start: int, stop: int, query: Tensor
) -> tuple[Tensor, Tensor]:
    """What a block adds to its scores, and which of its queries see nothing: those are opened, for the caller to zero.

    A kernel's answer to a row of -inf is its own affair (0, NaN, the mean of V), and so is its gradient.
    """
    added = query.new_zeros(1, 1) if bias is None else cut(bias, first, last, start, stop)
    allowed = visible.block(first, last, start, stop)
    added = added if allowed is None else torch.minimum(added, limits(allowed, added.dtype))
    blind = (added == -torch.inf).all(dim=-1, keepdim=True)  # [..., rows, 1]
    return added.masked_fill(blind, 0.0), blind


def _as_kernels_want(tensor: Tensor, width: int) -> Tensor:
    """Four axes, zeros up to the width (they change no dot product), the last axis contiguous."""
    tensor = pad(tensor, (0, width - tensor.shape[-1])) if tensor.shape[-1] < width else tensor
    tensor = tensor if tensor.dim() == 4 else tensor.reshape(-1, *tensor.shape[-3:])
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _flat(tensor: Tensor, lead: torch.Size) -> Tensor:
    """What broadcasts to ``[*lead, H, rows, columns]``, over one leading axis."""
    if tensor.dim() > 3:
        return tensor.expand(*lead, *tensor.shape[-3:]).reshape(-1, *tensor.shape[-3:])
    return tensor.reshape((1,) * (4 - tensor.dim()) + tensor.shape)
