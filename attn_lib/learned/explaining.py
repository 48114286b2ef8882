"""What one can hold weights against: other weights, the values' lengths, the layers below, gradients, and what hiding a token does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_lib.errors import require, require_integer, shape_of
from attn_lib.layers import MultiHeadAttention, split_heads
from attn_lib.learned.reader import Reader


def uniform_weights(ids: Tensor, num_heads: int) -> Tensor:
    """The weights of heads that do not choose: each real token gets the same share.

    Args:
        ids: ``[B, T]`` token numbers; 0 pads, and gets nothing.
        num_heads: H.

    Returns:
        ``[B, H, T, T]``, a view of one row a sentence: do not write into it.

    Source:
        Wiegreffe and Pinter 2019, where a model that is trained with them is the first of four tests.

    In PyTorch:
        Nothing of the kind.

    >>> uniform_weights(torch.tensor([[5, 7, 0]]), 1)[0, 0, 0]
    tensor([0.5000, 0.5000, 0.0000])
    """
    real = (ids != 0).to(torch.get_default_dtype())
    shares = real / real.sum(-1, keepdim=True)  # [B, S]
    return shares[:, None, None].expand(-1, num_heads, ids.shape[1], -1)


def permuted_weights(weights: Tensor, ids: Tensor, *, seed: int) -> Tensor:
    """Each row's own weights, dealt out anew among its real tokens.

    Args:
        weights: ``[B, H, T, S]``.
        ids: ``[B, S]`` token numbers; 0 pads, and gets nothing.
        seed: of the deal.

    Returns:
        ``[B, H, T, S]``. How sharp a row is stays the same; which key has which weight does not.

    Raises:
        ValueError: the weights do not fit the ids.

    Source:
        Jain and Wallace 2019, section 4.2.1.

    In PyTorch:
        ``torch.randperm``, row by row.

    >>> permuted_weights(torch.tensor([[[[0.5, 0.5, 0.0]]]]), torch.tensor([[5, 7, 0]]), seed=0)
    tensor([[[[0.5000, 0.5000, 0.0000]]]])
    """
    require_integer("seed", seed, 0)
    fits = weights.dim() == 4 and ids.dim() == 2 and weights.shape[::3] == ids.shape
    require(fits, f"weights must be [B, H, T, S] for ids [B, S], got {shape_of(weights)} and {shape_of(ids)}")
    generator = torch.Generator().manual_seed(seed)
    # Padding sorts last, so that it keeps its weight of 0.
    lots = torch.rand(weights.shape, generator=generator).masked_fill((ids == 0)[:, None, None], 2.0)
    return weights.masked_fill((ids == 0)[:, None, None], 0.0).gather(-1, lots.argsort(-1))


def twin_weights(weights: Tensor, value: Tensor, *, away_from: int) -> Tensor:
    """Other weights with the same output: as little as we can find on one key, without moving the weighted sum.

    From the given row a straight line along which neither the output nor the sum of the weights changes, until a
    weight is 0; that one stays 0, and the next line is taken. What comes out need not be the farthest twin there is.

    Args:
        weights: ``[S]``, none below 0. A twin is exact to some 1e-12 in ``float64``; in ``float32`` to 1e-4.
        value: ``[S, Dv]``.
        away_from: the key that is to lose weight.

    Returns:
        ``[S]``, none below 0, with the same sum and the same weighted sum of values.

    Raises:
        TypeError: the key is no integer.
        ValueError: shapes that do not fit, a key that is not there, a weight below 0.

    Source:
        Brunner et al. 2020: what of the weights lies in a null space of the values is not seen by the output.

    In PyTorch:
        ``torch.linalg.lstsq``, which finds each line.

    >>> value = torch.tensor([[1.0], [1.0], [0.0]], dtype=torch.float64)  # keys 0 and 1 have the same
    >>> row = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    >>> twin_weights(row, value, away_from=0)
    tensor([0.0000, 0.7500, 0.2500], dtype=torch.float64)
    """
    require_integer("away_from", away_from, 0)
    fits = weights.dim() == 1 and value.dim() == 2 and len(weights) == len(value) and away_from < len(weights)
    require(
        fits,
        f"weights must be [S] and value [S, Dv], away_from below S, got {shape_of(weights)}, {shape_of(value)} "
        f"and {away_from}",
    )
    require(bool((weights >= 0).all()), f"weights must not be below 0, got {weights.min().item():.3g}")
    S = len(weights)
    tiny = torch.finfo(weights.dtype).eps * 1e3
    wanted = torch.zeros(S, 1, dtype=weights.dtype)
    wanted[away_from] = -1
    twin, at_zero = weights.detach().clone(), torch.zeros(S, dtype=torch.bool)
    must_stay = torch.cat([value.detach(), torch.ones(S, 1, dtype=weights.dtype)], dim=1)  # [S, Dv + 1]
    while twin[away_from] > tiny:
        kept = torch.cat([must_stay, torch.eye(S, dtype=weights.dtype)[:, at_zero]], dim=1)
        line = wanted - kept @ torch.linalg.lstsq(kept, wanted, driver="gelsd").solution  # what of it changes nothing
        falls = (line[:, 0] < -tiny) & ~at_zero
        if not falls[away_from]:
            break
        line = line[:, 0]
        twin = twin + (twin[falls] / -line[falls]).min() * line
        at_zero |= falls & (twin <= tiny)
        twin[at_zero] = 0
    return twin.clamp_min(0)


def value_norms(layer: MultiHeadAttention, context: Tensor) -> Tensor:
    """How long each value is after its head's part of the output map: what a weight of 1 would bring.

    Args:
        layer: of which the value map and the output map are used.
        context: ``[B, S, D]``, what the values are made of.

    Returns:
        ``[B, H, S]``. Times the weights, this is what each key contributes, in length.

    Source:
        Kobayashi et al. 2020, section 3.

    In PyTorch:
        Nothing of the kind.

    >>> layer = MultiHeadAttention(4, 2, bias=False)
    >>> value_norms(layer, torch.zeros(1, 3, 4)).detach()
    tensor([[[0., 0., 0.],
             [0., 0., 0.]]])
    """
    value = split_heads(layer.w_v(context), layer.num_kv_heads)  # [B, Hkv, S, Dv]
    value = value.repeat_interleave(layer.num_heads // layer.num_kv_heads, dim=1)  # [B, H, S, Dv]
    parts = layer.w_o.weight.unflatten(1, (layer.num_heads, -1))  # [D, H, Dv]
    return torch.einsum("bhsv,dhv->bhsd", value, parts).norm(dim=-1)


def rollout(weights: Sequence[Tensor]) -> Tensor:
    """The weights of several layers as one matrix from the input to the last layer.

    Args:
        weights: ``[..., H, T, T]`` for each layer, the first first.

    Returns:
        ``[..., T, T]``: rows are places after the last layer, columns are tokens of the input. Each row sums to 1.

    Raises:
        ValueError: there is no layer, or the weights are not square.

    Source:
        Abnar and Zuidema 2020, section 3: heads averaged, half of each token kept for the residual connection.

    In PyTorch:
        Nothing of the kind.

    >>> looks_back = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> rollout([looks_back, looks_back])
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500]])
    """
    require(len(weights) > 0, "weights must be those of one layer or more, got none")
    through = None
    for each in weights:
        require(
            each.dim() >= 3 and each.shape[-1] == each.shape[-2],
            f"weights must be [..., H, T, T], got shape {shape_of(each)}",
        )
        layer = (each.mean(dim=-3) + torch.eye(each.shape[-1], dtype=each.dtype)) / 2
        through = layer if through is None else layer @ through
    return through


def lead(scores: Tensor, answers: Tensor) -> Tensor:
    """How far the score of an answer is ahead of the best other one; below 0 it is not given.

    Args:
        scores: ``[B, num_answers]``, two answers or more.
        answers: ``[B]``.

    Returns:
        ``[B]``.

    Raises:
        ValueError: there is nothing to be ahead of.

    >>> lead(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([1.])
    """
    require(
        scores.dim() == 2 and scores.shape[1] > 1,
        f"scores must be [B, num_answers], 2 answers or more, got {shape_of(scores)}",
    )
    own = scores.gather(1, answers[:, None])  # [B, 1]
    others = scores.scatter(1, answers[:, None], -torch.inf)
    return (own - others.max(dim=1, keepdim=True).values)[:, 0]


@torch.no_grad()
def attention_inputs(reader: Reader, ids: Tensor) -> list[Tensor]:
    """What the attention of each block is given: the hidden states so far, normalised.

    Args:
        reader: a trained reader.
        ids: ``[B, T]`` token numbers.

    Returns:
        ``[B, T, D]`` for each block, the first first.

    In PyTorch:
        ``register_forward_hook``, which this calls.

    >>> reader = Reader(num_tokens=5, num_answers=2, ask=4, d_model=8, num_heads=2)
    >>> [tuple(each.shape) for each in attention_inputs(reader, torch.tensor([[1, 2, 4]]))]
    [(1, 3, 8), (1, 3, 8)]
    """
    seen: list[Tensor] = []
    hooks = [
        block.attention_norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
        for block in reader.blocks
    ]
    try:
        reader(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@torch.no_grad()
def patched(reader: Reader, ids: Tensor, donor: Tensor, where: Tensor) -> Tensor:
    """The scores when some places, after the first block, hold what they hold in another sentence.

    Args:
        reader: a trained reader of two blocks or more.
        ids: ``[B, T]`` token numbers.
        donor: ``[B, T]`` token numbers of the other sentences, padded alike.
        where: ``[B, T]``, True for the places that are taken from the donor. With none of them the scores are those of
            ``ids``, with all of them those of the donor.

    Returns:
        ``[B, num_answers]``.

    Raises:
        TypeError: where is not boolean.
        ValueError: shapes that do not fit, or padding in other places.

    In PyTorch:
        ``register_forward_hook``, which this calls.

    >>> reader = Reader(num_tokens=5, num_answers=2, ask=4, d_model=8, num_heads=2)
    >>> ids, donor = torch.tensor([[1, 2, 4]]), torch.tensor([[3, 2, 4]])
    >>> torch.equal(patched(reader, ids, donor, torch.ones(1, 3).bool()), reader(donor))
    True
    """
    if where.dtype != torch.bool:
        raise TypeError(f"where must be boolean, got {where.dtype}")
    require(
        ids.shape == donor.shape == where.shape,
        f"ids, donor and where must be [B, T], got {shape_of(ids)}, {shape_of(donor)} and {shape_of(where)}",
    )
    require(torch.equal(ids == 0, donor == 0), "donor must have its padding where ids has it, got it elsewhere")
    taken: list[Tensor] = []

    def take(module, inputs, output):
        if not taken:  # the first pass is the donor's
            taken.append(output)
            return output
        return torch.where(where[..., None], taken[0], output)

    hook = reader.blocks[0].register_forward_hook(take)
    try:
        reader(donor)
        return reader(ids)
    finally:
        hook.remove()


@torch.no_grad()
def effect_of_hiding(reader: Reader, ids: Tensor) -> Tensor:
    """What hiding one token does to the lead of the answer that the reader gave.

    A token is hidden as padding is: nobody sees it, in no layer, and all others keep their places.

    Args:
        reader: a trained reader.
        ids: ``[B, T]`` token numbers.

    Returns:
        ``[B, T]``, the lead before less the lead after: positive where the token helped. The question cannot be
        hidden, and padding is: both have 0.

    Source:
        Jain and Wallace 2019, section 4.1, where a token is left out.

    In PyTorch:
        Nothing of the kind.

    >>> reader = Reader(num_tokens=5, num_answers=2, ask=4, d_model=8, num_heads=2)
    >>> effect_of_hiding(reader, torch.tensor([[1, 2, 4, 0]]))[0, 2:]
    tensor([0., 0.])
    """
    scores = reader(ids)
    answers = scores.argmax(dim=-1)
    before = lead(scores, answers)
    effects = []
    for place in range(ids.shape[1]):
        hidden = ids.clone()
        hidden[:, place] = torch.where(ids[:, place] == reader.ask, reader.ask, 0)
        changed = hidden[:, place] != ids[:, place]
        effects.append(torch.where(changed, before - lead(reader(hidden), answers), 0.0))
    return torch.stack(effects, dim=1)


def token_gradients(reader: Reader, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens' vectors, and how the lead of the given answer moves with each of their numbers.

    Args:
        reader: a trained reader.
        ids: ``[B, T]`` token numbers.

    Returns:
        ``[B, T, D]`` vectors without their places, and ``[B, T, D]`` derivatives.

    Source:
        Jain and Wallace 2019, section 4.1: the derivative times the vector, summed, is the first-order estimate of
        what the token brings.

    In PyTorch:
        ``torch.autograd.grad``, which this calls.

    >>> reader = Reader(num_tokens=5, num_answers=2, ask=4, d_model=8, num_heads=2)
    >>> vectors, gradients = token_gradients(reader, torch.tensor([[1, 2, 4]]))
    >>> vectors.shape == gradients.shape == (1, 3, 8)
    True
    """
    seen: list[Tensor] = []
    hook = reader.tokens.register_forward_hook(lambda module, inputs, output: seen.append(output))
    try:
        with torch.enable_grad():
            scores = reader(ids)
            leads = lead(scores, scores.argmax(dim=-1))
    finally:
        hook.remove()
    (gradients,) = torch.autograd.grad(leads.sum(), seen[0])
    return seen[0].detach(), gradients


def rank_correlation(first: Tensor, second: Tensor, where: Tensor) -> Tensor:
    """Spearman's rank correlation of two rows, for each row of a batch.

    Args:
        first: ``[B, T]``.
        second: ``[B, T]``.
        where: ``[B, T]``, True for the places that count. Padding must not: it is 0 in both, and looks like agreement.

    Returns:
        ``[B]``, from -1 (the opposite order) to 1 (the same order). Equal numbers share the mean of their ranks. NaN
        where one of the two is the same everywhere.

    Raises:
        TypeError: where is not boolean.
        ValueError: shapes that do not fit, a row with fewer than two places.

    Source:
        Abnar and Zuidema 2020, section 4, where it compares weights and rollout with what blanking a token does.

    In PyTorch:
        Nothing of the kind; ``scipy.stats.spearmanr`` elsewhere.

    >>> rank_correlation(torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[0.1, 0.2, 0.3]]), torch.ones(1, 3).bool())
    tensor([1.])
    """
    if where.dtype != torch.bool:
        raise TypeError(f"where must be boolean, got {where.dtype}")
    require(
        first.shape == second.shape == where.shape and first.dim() == 2,
        f"first, second and where must be [B, T], got {shape_of(first)}, {shape_of(second)} and {shape_of(where)}",
    )
    least = int(where.sum(dim=1).min())
    require(least >= 2, f"where must be True at two places of a row or more, got {least}")
    count = where.sum(dim=1)
    centred = []
    for row in (first, second):
        below = (row[:, None] < row[:, :, None]) & where[:, None]  # [B, T, T]
        equal = (row[:, None] == row[:, :, None]) & where[:, None]
        ranks = below.sum(-1) + (equal.sum(-1) + 1) / 2  # [B, T], from 1
        centred.append((ranks - (count[:, None] + 1) / 2) * where)
    a, b = centred
    return (a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()
