"""The same result without the T x S matrix: keys are read tile by tile, and a running softmax corrects itself.

A softmax needs the sum over its whole row, but the sum can be had in pieces: keep the largest score so
far and sums relative to it; where a tile brings a larger score, shrink what was summed before (online
softmax, Milakov and Gimelshein 2018). The backward pass computes the weights a second time instead of
keeping them (Rabe and Staats 2021; Dao et al. 2022, algorithms 1 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from attn_lib.masks import VisibleKeys, cut, limits

LOG2_E = math.log2(math.e)  # exp(x) = exp2(x * LOG2_E), and exp2 is the cheaper one


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: VisibleKeys,
    *,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    dropout_p: float,
    block_sizes: tuple[int, int] | None,
) -> tuple[Tensor, Tensor]:
    """The output ``[..., H, T, Dv]`` and the log-sum-exp of the scores ``[..., H, T]``, -inf where nothing is seen.

    One head at a time in plain PyTorch: made to be read. On a CPU it is slower than PyTorch's own kernel, by how
    much the README's table says; on a GPU each tile is a dozen launches, and "fused" is the one to use.
    """
    if block_sizes is None:  # found by trying; small ones waste less on the diagonal
        block_sizes = (256, 512) if visible.is_causal or visible.window is not None else (512, 512)
    seed = int(torch.randint(2**31, ())) if dropout_p > 0 else 0
    return _Tiled.apply(query, key, value, bias, _Plan(visible, scale, softcap, dropout_p, seed, *block_sizes))


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all heads share."""

    visible: VisibleKeys
    scale: float
    softcap: float | None
    dropout_p: float
    seed: int
    block_t: int
    block_s: int
    ordered: dict = field(default_factory=dict)

    @property
    def unit(self) -> float:
        """What the scaled scores are multiplied by: into powers of 2, or into the argument of the tanh."""
        return LOG2_E if self.softcap is None else 1 / self.softcap

    def blocks(self) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Blocks of queries, each with its tiles of keys. A tile that none of its queries sees does not come."""
        for first in range(0, self.visible.T, self.block_t):
            last = min(first + self.block_t, self.visible.T)
            start, stop = self.visible.columns(first, last)
            yield first, last, [(near, min(near + self.block_s, stop)) for near in range(start, stop, self.block_s)]

    def limits(self, mask: Tensor | None, first: int, last: int, start: int, stop: int, like: Tensor) -> Tensor | None:
        """What masks a tile (see ``masks.limits``), or None where it hides nothing. ``mask`` is that of one head."""
        order = last - first, stop - start, first - start  # tiles alike in this are alike in causal order and window
        if order not in self.ordered:
            allowed = self.visible.with_mask(None).block(first, last, start, stop)
            self.ordered[order] = None if allowed is None else limits(allowed, like.dtype)
        ordered, seen = self.ordered[order], cut(mask, first, last, start, stop)
        if seen is None:
            return ordered
        own = limits(seen, like.dtype)
        return own if ordered is None else torch.minimum(own, ordered)

    def room(self, like: Tensor) -> Tensor:
        """Memory for one tile, used again for each: to take it anew costs as much as a matrix product."""
        return like.new_empty(min(self.block_t, self.visible.T) * min(self.block_s, self.visible.S))

    def scores(
        self, rows: Tensor, keys: Tensor, bounds: Tensor | None, bias: Tensor | None, room: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Scores of one tile in powers of 2, and the slope of the softcap there. ``rows`` are times scale and unit."""
        scores, slope = _product(rows, keys.T, room), None  # [rows, columns]
        if self.softcap is not None:
            scores.tanh_()
            slope = 1 - scores.square()
            scores.mul_(self.softcap * LOG2_E)
        if bias is not None:
            most = torch.finfo(scores.dtype).max / 2  # larger ones would leave the range of floats in powers of 2
            scores.add_(bias.clamp(-most, most).masked_fill(bias == -torch.inf, -torch.inf), alpha=LOG2_E)
        if bounds is not None:
            torch.minimum(scores, bounds, out=scores)
        return scores, slope

    def generator(self, like: Tensor) -> torch.Generator | None:
        return torch.Generator(like.device).manual_seed(self.seed) if self.dropout_p > 0 else None

    def kept(self, generator: torch.Generator, like: Tensor) -> Tensor:
        """Dropout of one tile: 0 or 1 / (1 - p). Drawn again, in the same order, on the way back."""
        draws = torch.rand(like.shape, generator=generator, device=like.device)
        return (draws >= self.dropout_p).to(like.dtype) / (1 - self.dropout_p)


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, bias, plan):
        working = torch.promote_types(query.dtype, torch.float32)
        output = query.new_empty(*query.shape[:-1], value.shape[-1])  # [..., H, T, Dv]
        lse = query.new_empty(query.shape[:-1], dtype=working)  # [..., H, T]
        # For the way back largest score and sum are kept apart: lse rounds small sums away beside large scores.
        tops, totals = torch.empty_like(lse), torch.empty_like(lse)
        room = plan.room(lse)
        generator = plan.generator(query)
        for head, kv_head in _heads(query, key):
            keys, values = key[kv_head].to(working), value[kv_head].to(working)  # [S, Dk], [S, Dv]
            mask, head_bias = _of_head(plan.visible.mask, head, query), _of_head(bias, head, query)
            for first, last, tiles in plan.blocks():
                rows = query[head][first:last].to(working) * (plan.scale * plan.unit)  # [rows, Dk]
                # The largest score so far. Never -inf: -inf - -inf is NaN, and a row may see nothing in its first tile.
                top = rows.new_full((last - first, 1), torch.finfo(working).min)
                total = torch.zeros_like(top)  # the sum of 2 ** (score - top)
                blend = rows.new_zeros(last - first, value.shape[-1])  # the same sum, of values
                for start, stop in tiles:
                    tile_bias = cut(head_bias, first, last, start, stop)
                    bounds = plan.limits(mask, first, last, start, stop, rows)
                    weights, _ = plan.scores(rows, keys[start:stop], bounds, tile_bias, room)
                    higher = torch.maximum(top, weights.amax(dim=-1, keepdim=True))
                    weights.sub_(higher).exp2_()
                    shrink = top.sub_(higher).exp2_()
                    total.mul_(shrink).add_(weights.sum(dim=-1, keepdim=True))
                    if plan.dropout_p > 0:
                        weights.mul_(plan.kept(generator, weights))
                    torch.addmm(blend.mul_(shrink), weights, values[start:stop], out=blend)
                    top = higher
                output[head][first:last] = blend.div_(total.masked_fill(total == 0, 1.0))
                lse[head][first:last] = (top + total.log2()).squeeze(-1) / LOG2_E
                tops[head][first:last], totals[head][first:last] = top.squeeze(-1), total.squeeze(-1)
        ctx.save_for_backward(query, key, value, bias, output, tops, totals)
        ctx.plan = plan
        return output, lse

    @staticmethod
    def backward(ctx, grad_output, grad_lse):
        if torch.is_grad_enabled():  # so with create_graph=True, and what is computed below has no graph
            raise RuntimeError('method "tiled" has no second derivative; use method="reference" for it')
        query, key, value, bias, output, tops, totals = ctx.saved_tensors
        plan, working = ctx.plan, tops.dtype
        grad_query, grad_key, grad_value = (torch.zeros_like(each, dtype=working) for each in (query, key, value))
        grad_bias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
        room, more_room = plan.room(tops), plan.room(tops)
        generator = plan.generator(query)
        for head, kv_head in _heads(query, key):
            keys, values = key[kv_head].to(working), value[kv_head].to(working)
            mask, head_bias = _of_head(plan.visible.mask, head, query), _of_head(bias, head, query)
            for first, last, tiles in plan.blocks():
                rows = query[head][first:last].to(working) * (plan.scale * plan.unit)
                grad_rows = grad_output[head][first:last].to(working)  # [rows, Dv]
                # What every score of a row loses because the row's weights sum to 1.
                shared = (grad_rows * output[head][first:last]).sum(dim=-1) - grad_lse[head][first:last]
                top, total = tops[head][first:last, None], totals[head][first:last, None]
                total = total.masked_fill(total == 0, 1.0)
                # Weights below are times total; what they meet is divided by it, which is cheaper in rows than in tiles.
                grad_rows, shared = grad_rows / total, shared[:, None] / total
                for start, stop in tiles:
                    tile_bias = cut(head_bias, first, last, start, stop)
                    bounds = plan.limits(mask, first, last, start, stop, rows)
                    scores, slope = plan.scores(rows, keys[start:stop], bounds, tile_bias, room)
                    weights = scores.sub_(top).exp2_()
                    grad_scores = _product(grad_rows, values[start:stop].T, more_room)  # of the weights so far
                    blended = weights
                    if plan.dropout_p > 0:
                        kept = plan.kept(generator, weights)
                        blended = weights * kept
                        grad_scores.mul_(kept)
                    _add_product(grad_value[kv_head][start:stop], blended.T, grad_rows)
                    grad_scores.sub_(shared).mul_(weights)
                    if grad_bias is not None:
                        of_tile = cut(_of_head(grad_bias, head, query), first, last, start, stop)
                        of_tile += grad_scores.sum_to_size(of_tile.shape)
                    if slope is not None:
                        grad_scores.mul_(slope)
                    _add_product(grad_query[head][first:last], grad_scores, keys[start:stop], plan.scale)
                    _add_product(grad_key[kv_head][start:stop], grad_scores.T, rows, 1 / plan.unit)
        dtype = query.dtype
        return grad_query.to(dtype), grad_key.to(dtype), grad_value.to(dtype), grad_bias, None


def _heads(query: Tensor, key: Tensor) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every head of every batch entry as an index, with that of the key/value head it reads."""
    group = query.shape[-3] // key.shape[-3]
    for *lead, head in product(*map(range, query.shape[:-2])):
        yield (*lead, head), (*lead, head // group)


def _of_head(tensor: Tensor | None, head: tuple[int, ...], query: Tensor) -> Tensor | None:
    """The part ``[T or 1, S or 1]`` of what broadcasts to ``[..., H, T, S]``: a view, nothing is copied."""
    if tensor is None:
        return None
    tensor = tensor if tensor.dim() > 1 else tensor[None]
    return tensor.expand(*query.shape[:-2], *tensor.shape[-2:])[head]


def _product(left: Tensor, right: Tensor, room: Tensor) -> Tensor:
    n, m = left.shape[0], right.shape[1]
    return torch.mm(left, right, out=room[: n * m].view(n, m))


def _add_product(total: Tensor, left: Tensor, right: Tensor, factor: float = 1.0) -> None:
    torch.addmm(total, left, right, alpha=factor, out=total)
