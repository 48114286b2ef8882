"""Boolean masks. True means: this query may attend to this key. Join them with ``&``.

PyTorch's ``scaled_dot_product_attention``, ONNX and JAX read a boolean mask the same way;
``torch.nn.MultiheadAttention`` reads it the other way round (True = may *not* be attended).
"""

from __future__ import annotations

import torch
from torch import Tensor

from attn_lib.errors import require, require_integer, require_tensor, shape_of


def causal_mask(T: int, S: int | None = None, *, offset: int | None = None, device=None) -> Tensor:
    """Each query sees its own position and the earlier ones.

    Query ``i`` stands at position ``i + offset`` among the keys and may attend to key ``j`` when
    ``j <= i + offset``.

    Args:
        T: number of queries.
        S: number of keys; ``T`` when left out.
        offset: position of the first query among the keys. Left out it is ``S - T``: the queries
            are the *last* T positions, so that one query with a cache of S keys sees them all.
            A negative offset leaves the first queries without any key.
        device: where the mask is made.

    Returns:
        bool ``[T, S]``, True = may be attended.

    Raises:
        TypeError, ValueError: a T, S or offset that is no integer, a negative T or S.

    Source: Vaswani et al. 2017, section 3.2.3. The paper sets illegal scores to -inf; a boolean
    says the same without a number. PyTorch's ``is_causal`` in ``scaled_dot_product_attention``
    puts the queries at the *first* T positions when T != S (upper left); ours are the last T.
    """
    positions, keys = _positions(T, S, offset, device)
    return keys <= positions  # [T, S]


def sliding_window_mask(T: int, S: int | None = None, *, window: int, offset: int | None = None, device=None) -> Tensor:
    """Each query sees the last ``window`` positions, its own among them.

    A window looks back, so it is causal by itself: the query at position ``p`` may attend to
    the keys ``p - window + 1 ... p``.

    Args:
        T: number of queries.
        S: number of keys; ``T`` when left out.
        window: how many keys a query sees, its own position counted; at least 1.
        offset: position of the first query among the keys, ``S - T`` when left out.
        device: where the mask is made.

    Returns:
        bool ``[T, S]``, True = may be attended.

    Raises:
        TypeError, ValueError: as :func:`causal_mask`; a window below 1.

    Source: Beltagy et al. 2020 (Longformer), section 3.1, the causal half of its window. Other
    code counts the window without the query's own position; here it is counted.
    """
    require_integer("window", window, 1)
    positions, keys = _positions(T, S, offset, device)
    return (keys <= positions) & (keys > positions - window)  # [T, S]


def padding_mask(lengths: Tensor, S: int | None = None) -> Tensor:
    """The first ``lengths[b]`` keys of sequence ``b`` are real, the rest is padding.

    Args:
        lengths: integers ``[B]``, the number of real tokens of each sequence.
        S: number of keys; the longest length when left out.

    Returns:
        bool ``[B, 1, 1, S]``, True = real. The two axes of size 1 stand for heads and queries,
        so that it joins with a causal mask: ``causal_mask(T, S) & padding_mask(lengths, S)``.

    Raises:
        TypeError: lengths that are not integers.
        ValueError: lengths that are not one-dimensional, negative, or longer than S.
    """
    require_tensor("lengths", lengths)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers [B], got {lengths.dtype} of shape {shape_of(lengths)}")
    require(lengths.dim() == 1, f"lengths must be one-dimensional [B], got shape {shape_of(lengths)}")
    longest = int(lengths.max()) if lengths.numel() else 0
    shortest = int(lengths.min()) if lengths.numel() else 0
    S = longest if S is None else S
    require_integer("S", S, 0)
    require(0 <= shortest and longest <= S, f"lengths must lie between 0 and S = {S}, got {lengths.tolist()}")
    keys = torch.arange(S, device=lengths.device)
    return (keys < lengths[:, None])[:, None, None, :]  # [B, 1, 1, S]


def join_masks(
    mask: Tensor | None, T: int, S: int, *, is_causal: bool = False, window: int | None = None, device=None
) -> Tensor | None:
    """All that restricts T queries over S keys as one boolean, or None where nothing does."""
    if is_causal:
        causal = causal_mask(T, S, device=device)
        mask = causal if mask is None else mask & causal
    if window is not None:
        near = sliding_window_mask(T, S, window=window, device=device)
        mask = near if mask is None else mask & near
    return mask


def _positions(T: int, S: int | None, offset: int | None, device) -> tuple[Tensor, Tensor]:
    S = T if S is None else S
    require_integer("T", T, 0)
    require_integer("S", S, 0)
    if offset is not None and (not isinstance(offset, int) or isinstance(offset, bool)):
        raise TypeError(f"offset must be an integer, got {offset!r}")
    offset = S - T if offset is None else offset
    positions = torch.arange(T, device=device)[:, None] + offset  # [T, 1]
    keys = torch.arange(S, device=device)[None, :]  # [1, S]
    return positions, keys
