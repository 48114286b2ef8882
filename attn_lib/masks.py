"""Boolean masks. True means: this query may attend to this key. Join them with ``&``.

PyTorch's ``scaled_dot_product_attention``, ONNX and JAX read a boolean mask the same way;
``torch.nn.MultiheadAttention`` reads it the other way round (True = may *not* be attended).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        TypeError: a T, S or offset that is no integer.
        ValueError: a negative T or S.

    Source:
        Vaswani et al. 2017, section 3.2.3. The paper sets illegal scores to -inf; a boolean says the
        same without a number.

    In PyTorch:
        ``is_causal`` of ``scaled_dot_product_attention`` puts the queries at the *first* T positions where
        T != S. ``torch.nn.attention.bias.causal_lower_right`` puts them at the last, as this does.

    >>> causal_mask(2, 4).long()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]])
    """
    positions, keys = _positions(T, S, offset, device)
    return _looks_back(positions, keys)  # [T, S]


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
        TypeError: a T, S, window or offset that is no integer.
        ValueError: a negative T or S, a window below 1.

    Source:
        Beltagy et al. 2020 (Longformer), section 3.1. The paper's window looks both ways; this is the half
        that looks back. Other code counts a window without the query's own position; here it is counted.

    In PyTorch:
        ``scaled_dot_product_attention`` has no window; ``flex_attention`` takes one as a function of yours.

    >>> sliding_window_mask(3, window=2).long()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]])
    """
    require_integer("window", window, 1)
    positions, keys = _positions(T, S, offset, device)
    return _looks_back(positions, keys, window)  # [T, S]


def padding_mask(lengths: Tensor, S: int | None = None) -> Tensor:
    """The first ``lengths[b]`` keys of sequence ``b`` are real, the rest is padding.

    Args:
        lengths: integers ``[B]``, the number of real tokens of each sequence.
        S: number of keys; the longest length when left out.

    Returns:
        bool ``[B, 1, 1, S]``, True = real. The two axes of size 1 stand for heads and queries,
        so that it joins with a causal mask: ``causal_mask(T, S) & padding_mask(lengths, S)``.

    Raises:
        TypeError: lengths that are not integers, an S that is none.
        ValueError: lengths that are not one-dimensional, negative, or longer than S.

    Source:
        Vaswani et al. 2017, section 5.1, batches sentences of about one length; the paper says nothing on
        padding.

    In PyTorch:
        ``key_padding_mask`` of ``nn.MultiheadAttention`` is ``[B, S]``, and True there means *padding*.

    >>> padding_mask(torch.tensor([2, 3]))[:, 0, 0].long()
    tensor([[1, 1, 0],
            [1, 1, 1]])
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


@dataclass(frozen=True, eq=False)  # tensors have no single truth to compare by
class VisibleKeys:
    """All that restricts T queries over S keys: mask, causal order and window, which hold at once.

    Asked for one block at a time, so that whoever goes through the queries and keys in blocks never
    holds a T x S boolean.

    Attributes:
        T, S: number of queries and of keys; the queries are the last T of the S positions.
        mask: bool, broadcasts to ``[..., T, S]``, True = may be attended.
        is_causal: no query sees a later key.
        window: each query sees the last ``window`` keys only, its own position counted.
        device: where blocks are made.
    """

    T: int
    S: int
    mask: Tensor | None = None
    is_causal: bool = False
    window: int | None = None
    device: torch.device | str | None = None

    @property
    def differs_by_query(self) -> bool:
        """Whether one query may see other keys than the next: not so without restriction or with padding alone."""
        own_rows = self.mask is not None and self.mask.dim() > 1 and self.mask.shape[-2] > 1
        return own_rows or self.is_causal or self.window is not None

    def with_mask(self, mask: Tensor | None) -> VisibleKeys:
        """The same, of another mask: that of one head, say."""
        return replace(self, mask=mask)

    def columns(self, first: int, last: int) -> tuple[int, int]:
        """The range ``start, stop`` outside of which the queries ``first ... last - 1`` see no key."""
        ordered = self.is_causal or self.window is not None
        stop = max(0, min(self.S, last + self.S - self.T)) if ordered else self.S
        start = 0 if self.window is None else max(0, first + self.S - self.T - self.window + 1)
        return min(start, stop), stop

    def block(self, first: int = 0, last: int | None = None, start: int = 0, stop: int | None = None) -> Tensor | None:
        """What the queries ``first ... last - 1`` see of the keys ``start ... stop - 1``.

        Returns:
            bool that broadcasts to ``[..., last - first, stop - start]``, or None where nothing is hidden.
        """
        last, stop = self.T if last is None else last, self.S if stop is None else stop
        allowed = cut(self.mask, first, last, start, stop)
        offset = first + self.S - self.T - start  # where the block's first query stands among the block's keys
        rows, columns = last - first, stop - start
        sees_all = offset >= columns - 1 and (self.window is None or offset + rows - 1 < self.window)
        if sees_all or not (self.is_causal or self.window is not None):
            return allowed
        ordered = _looks_back(*_positions(rows, columns, offset, self.device), self.window)
        return ordered if allowed is None else allowed & ordered

    def of_rows(self, rows: Tensor) -> VisibleKeys:
        """The same for the queries with the given indices (``[R]``) alone."""
        mask = self.mask
        if mask is not None and mask.dim() > 1 and mask.shape[-2] > 1:
            mask = mask[..., rows, :]
        if self.is_causal or self.window is not None:
            keys = torch.arange(self.S, device=self.device)
            ordered = _looks_back((rows + self.S - self.T)[:, None], keys, self.window)  # [R, S]
            mask = ordered if mask is None else mask & ordered
        return VisibleKeys(len(rows), self.S, mask, device=self.device)

    def blind(self) -> Tensor | None:
        """Which queries see no key at all: bool ``[..., T, 1]``, or None where every query sees one.

        Counted from the number of real keys before each position, so without a T x S boolean: for masks
        ``[..., 1, S]``, the same for every query (padding).
        """
        if self.S > 0 and self.mask is None and (self.T <= self.S or not self.is_causal and self.window is None):
            return None
        mask = torch.ones(self.S, dtype=torch.bool, device=self.device) if self.mask is None else self.mask
        before = torch.nn.functional.pad(mask.flatten(-2) if mask.dim() > 1 else mask, (1, 0)).cumsum(
            -1
        )  # [..., S + 1]
        positions = torch.arange(self.T, device=self.device) + self.S - self.T
        ordered = self.is_causal or self.window is not None
        stop = (positions + 1).clamp(0, self.S) if ordered else torch.full_like(positions, self.S)
        start = torch.zeros_like(stop) if self.window is None else (stop - self.window).clamp(min=0)
        return (before[..., stop] == before[..., start])[..., None]


def limits(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """+inf where a score may stay as it is, -inf where it must go: ``minimum(scores, limits)`` masks them.

    On a CPU ``masked_fill`` and ``where`` decide element by element and cost as much as a matrix product;
    this takes a tenth of that.
    """
    return allowed.to(dtype).sub_(0.5).mul_(torch.inf)


def cut(tensor: Tensor | None, first: int, last: int, start: int, stop: int) -> Tensor | None:
    """Rows ``first ... last - 1`` and columns ``start ... stop - 1`` of what broadcasts to ``[..., T, S]``; a view."""
    if tensor is None:
        return None
    tensor = tensor if tensor.dim() > 1 else tensor[None]
    rows = tensor if tensor.shape[-2] == 1 else tensor[..., first:last, :]
    return rows if tensor.shape[-1] == 1 else rows[..., start:stop]


def _looks_back(positions: Tensor, keys: Tensor, window: int | None = None) -> Tensor:
    """Not ahead, and with a window not farther back than its width."""
    allowed = keys <= positions
    return allowed if window is None else allowed & (keys > positions - window)


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
