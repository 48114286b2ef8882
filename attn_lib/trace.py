"""One pass through attention with every intermediate kept and named: the calculation on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from attn_lib.attention import check_choices, check_mask_and_bias
from attn_lib.errors import require, require_bool, require_integer, require_tensor, shape_of
from attn_lib.layers import merge_heads, split_heads
from attn_lib.masks import VisibleKeys
from attn_lib.reference import dot_products, mask_scores, scale_scores, softmax_rows, weighted_sum


@dataclass(frozen=True, eq=False)  # tensors have no single truth to compare by
class AttentionTrace:
    """Every stage of one calculation, in the order in which one writes them down.

    With ``num_heads=None`` (one head, as by hand) no tensor has a head axis; with a number, the
    stages from Q to head_outputs have one in front of the positions. A stage that could not be
    computed from what was given is None.

    Attributes:
        Q: ``[..., T, Dk]`` or ``[..., H, T, Dk]``.
        K: ``[..., S, Dk]`` or ``[..., Hkv, S, Dk]``.
        V: ``[..., S, Dv]`` or ``[..., Hkv, S, Dv]``.
        scores: ``[..., T, S]`` or ``[..., H, T, S]``, the dot products.
        scaled_scores: the same shape; times the scale, then the softcap.
        masked_scores: the same shape; plus the bias, -inf where nothing may be seen.
        weights: the same shape; after the softmax.
        head_outputs: ``[..., T, Dv]`` or ``[..., H, T, Dv]``.
        concatenated: ``[..., T, H * Dv]``.
        output: ``[..., T, D]``, times W_O, or the concatenation itself without one.

    Source:
        Vaswani et al. 2017, sections 3.2.1 and 3.2.2.

    In PyTorch:
        No layer returns what lies between its input and its weights.
    """

    Q: Tensor | None
    K: Tensor | None
    V: Tensor | None
    scores: Tensor | None
    scaled_scores: Tensor | None
    masked_scores: Tensor | None
    weights: Tensor | None
    head_outputs: Tensor | None
    concatenated: Tensor | None
    output: Tensor | None


STAGES = tuple(field.name for field in fields(AttentionTrace))
INGREDIENTS = ("X", "context", "W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")


def trace_attention(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    *,
    context: Tensor | None = None,
    W_O: Tensor | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> AttentionTrace:
    """Self-attention of X, or cross-attention of X to a context, with every stage kept.

    Args:
        X: ``[..., T, D]``, the sequence that asks.
        W_Q: ``[D, Dk]``, or ``[D, H * Dk]`` with the heads side by side. Matrices stand as they are
            printed, ``Q = X W_Q``: the transpose of ``nn.Linear.weight``.
        W_K: ``[D', Dk]`` or ``[D', Hkv * Dk]``.
        W_V: ``[D', Dv]`` or ``[D', Hkv * Dv]``.
        context: ``[..., S, D']``, the sequence that answers; X itself when left out.
        W_O: ``[H * Dv, D]``; without it the output is the concatenation.
        num_heads: None for one head without a head axis, or H.
        num_kv_heads: Hkv; H when left out.
        mask: as in :func:`attention`; with ``num_heads=None`` it broadcasts to
            ``[..., T, S]``, since there is no head axis.
        bias: likewise.
        is_causal: as in :func:`attention`.
        window: as in :func:`attention`.
        scale: as in :func:`attention`.
        softcap: as in :func:`attention`.

    Returns:
        The :class:`AttentionTrace`, in the dtype of X; hand in float64 for hand calculations.

    Raises:
        TypeError: what is not a tensor of floats, a mask that is not boolean.
        ValueError: shapes that do not fit, heads that do not divide.

    Source:
        Vaswani et al. 2017, sections 3.2.1 and 3.2.2.

    In PyTorch:
        No layer returns what lies between its input and its weights.

    >>> X, same = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.eye(2)
    >>> trace = trace_attention(X, same, same, same, scale=1.0, is_causal=True)
    >>> trace.scores
    tensor([[ 5., 11.],
            [11., 25.]])
    >>> trace.masked_scores
    tensor([[ 5., -inf],
            [11., 25.]])
    """
    given = {"X": X, "W_Q": W_Q, "W_K": W_K, "W_V": W_V}
    given |= {name: tensor for name, tensor in (("context", context), ("W_O", W_O)) if tensor is not None}
    return trace_from(
        given,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        mask=mask,
        bias=bias,
        is_causal=is_causal,
        window=window,
        scale=scale,
        softcap=softcap,
    )


def trace_from(
    given: Mapping[str, Tensor],
    *,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    softmax: bool = True,
) -> AttentionTrace:
    """The same pass, started from whatever stages are given.

    A stage that stands in ``given`` is taken as it is; any other is computed when its ingredients
    are there, and is None when they are not. A calculation that begins with posited head outputs
    needs nothing before them. The other arguments are those of :func:`trace_attention`.

    Args:
        given: any of X, context, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O, and of the stages, under the
            names and with the shapes of :class:`AttentionTrace` and :func:`trace_attention`.
        softmax: False leaves the masked scores as weights (a blocked one is 0).

    Returns:
        The :class:`AttentionTrace`, its output ``[..., T, D]`` where what is given leads there.

    Raises:
        TypeError: as :func:`trace_attention`.
        ValueError: an unknown name, shapes that do not fit, heads that do not divide.

    Source:
        Vaswani et al. 2017, sections 3.2.1 and 3.2.2.

    In PyTorch:
        Nothing can be started in the middle.

    >>> heads = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])  # [H, T, Dv]
    >>> trace = trace_from({"head_outputs": heads}, num_heads=2)
    >>> trace.concatenated, trace.weights
    (tensor([[1., 2., 3., 4.]]), None)
    """
    _check_given(given, num_heads)
    check_choices(is_causal, window, scale, softcap)
    require_bool("softmax", softmax)
    H = 1 if num_heads is None else num_heads
    Hkv = H if num_kv_heads is None else num_kv_heads
    require_integer("num_heads", H, 1)
    require_integer("num_kv_heads", Hkv, 1)
    require(H % Hkv == 0, f"num_kv_heads = {Hkv} must divide num_heads = {H}")
    if num_heads is None:
        # One head has no head axis to speak of; inside it has one.
        mask, bias = (t.unsqueeze(-3) if isinstance(t, Tensor) and t.dim() > 2 else t for t in (mask, bias))

    def with_heads(stage: str, computed):
        """The given stage (its head axis added when there is none), or the computed one."""
        if stage not in given:
            return computed()
        tensor = given[stage].unsqueeze(-3) if num_heads is None else given[stage]
        heads = Hkv if stage in ("K", "V") else H
        require(
            tensor.shape[-3] == heads, f"{stage} must have {heads} heads on axis -3, got shape {shape_of(given[stage])}"
        )
        return tensor

    X, context = given.get("X"), given.get("context", given.get("X"))
    Q = with_heads("Q", lambda: _project(given, "Q", X, H))  # [..., H, T, Dk]
    K = with_heads("K", lambda: _project(given, "K", context, Hkv))  # [..., Hkv, S, Dk]
    V = with_heads("V", lambda: _project(given, "V", context, Hkv))  # [..., Hkv, S, Dv]
    scores = with_heads("scores", lambda: _when(_dot_products, Q, K))  # [..., H, T, S]
    if scale is None and Q is not None:
        scale = 1 / math.sqrt(Q.shape[-1])
    # Without a Q nobody knows Dk: only an explicit scale leads on from given scores.
    unscaled = None if scale is None else scores
    scaled = with_heads("scaled_scores", lambda: _when(scale_scores, unscaled, scale=scale, softcap=softcap))
    masked = with_heads(
        "masked_scores", lambda: _when(_mask, scaled, mask=mask, bias=bias, is_causal=is_causal, window=window)
    )
    weights = with_heads("weights", lambda: _when(softmax_rows if softmax else _without_softmax, masked))
    heads = with_heads("head_outputs", lambda: _when(_weighted_sum, weights, V))  # [..., H, T, Dv]
    concatenated = given["concatenated"] if "concatenated" in given else _when(merge_heads, heads)  # [..., T, H * Dv]
    output = given["output"] if "output" in given else _when(_output_map, concatenated, given=given)  # [..., T, D]

    stages = (Q, K, V, scores, scaled, masked, weights, heads)
    if num_heads is None:
        stages = tuple(None if stage is None else stage.squeeze(-3) for stage in stages)
    return AttentionTrace(*stages, concatenated, output)


def _check_given(given: Mapping[str, Tensor], num_heads: int | None) -> None:
    unknown = sorted(set(given) - {*INGREDIENTS, *STAGES})
    require(not unknown, f"given has unknown names {unknown}; known are {sorted((*INGREDIENTS, *STAGES))}")
    per_head = STAGES[:-2] if num_heads is not None else ()
    for name, tensor in given.items():
        require_tensor(name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be a float tensor, got {tensor.dtype}")
        least = 1 if name.startswith("b_") else 3 if name in per_head else 2
        require(tensor.dim() >= least, f"{name} must have at least {least} axes here, got shape {shape_of(tensor)}")
    for name in [name for name in given if name.startswith("b_")]:
        W = f"W_{name[2:]}"
        require(W in given, f"{name} is given without {W}, to which it belongs")
        width = shape_of(given[W])[-1:]
        require(shape_of(given[name]) == width, f"{name} must be {width} to go with {W}, got {shape_of(given[name])}")


def _when(step, *tensors: Tensor | None, **settings) -> Tensor | None:
    """Apply a step when every tensor that it needs is there."""
    return None if any(tensor is None for tensor in tensors) else step(*tensors, **settings)


def _linear(source_name: str, source: Tensor, role: str, given: Mapping[str, Tensor]) -> Tensor:
    """The source times W, plus b where one is given."""
    W, b = given[f"W_{role}"], given.get(f"b_{role}")
    require(
        W.dim() == 2 and source.shape[-1] == W.shape[0],
        f"W_{role} of shape {shape_of(W)} does not fit {source_name} of shape {shape_of(source)}:"
        f" it needs {source.shape[-1]} rows",
    )
    if source.dtype != W.dtype:
        raise TypeError(f"W_{role} must have the dtype of {source_name}, {source.dtype}, got {W.dtype}")
    return source @ W if b is None else source @ W + b


def _project(given: Mapping[str, Tensor], role: str, source: Tensor | None, heads: int) -> Tensor | None:
    W = given.get(f"W_{role}")
    if source is None or W is None:
        return None
    source_name = "context" if role != "Q" and "context" in given else "X"
    return split_heads(_linear(source_name, source, role, given), heads)


def _dot_products(Q: Tensor, K: Tensor) -> Tensor:
    require(
        Q.shape[-1] == K.shape[-1] > 0 and Q.shape[:-3] == K.shape[:-3],
        f"Q of shape {shape_of(Q)} and K of shape {shape_of(K)} must share Dk and the batch axes",
    )
    return dot_products(Q, K)


def _mask(scores: Tensor, *, mask: Tensor | None, bias: Tensor | None, is_causal: bool, window: int | None) -> Tensor:
    T, S = scores.shape[-2:]
    check_mask_and_bias(mask, bias, shape_of(scores), scores.device)
    visible = VisibleKeys(T, S, mask, is_causal, window, scores.device)
    return mask_scores(scores, visible.block(), bias)


def _without_softmax(scores: Tensor) -> Tensor:
    return scores.masked_fill(scores == -torch.inf, 0.0)


def _weighted_sum(weights: Tensor, V: Tensor) -> Tensor:
    require(
        weights.shape[-1] == V.shape[-2] and weights.shape[:-3] == V.shape[:-3],
        f"weights of shape {shape_of(weights)} and V of shape {shape_of(V)} must share S and the batch axes",
    )
    return weighted_sum(weights, V)


def _output_map(concatenated: Tensor, *, given: Mapping[str, Tensor]) -> Tensor:
    return _linear("concatenated", concatenated, "O", given) if "W_O" in given else concatenated
