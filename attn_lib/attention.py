"""``attention``, ``attention_weights``, partial attention and its merging: check the arguments once, hand on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from attn_lib.errors import require, require_bool, require_integer, require_number, require_tensor, shape_of
from attn_lib.fused import fused_attention
from attn_lib.masks import VisibleKeys
from attn_lib.reference import reference_attention, reference_weights
from attn_lib.tiled import tiled_attention

METHODS = ("reference", "tiled", "fused")


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout_p: float = 0.0,
    method: str = "fused",
    block_sizes: tuple[int, int] | None = None,
) -> Tensor:
    """Scaled dot-product attention: ``softmax(query key^T * scale) value``.

    The order is scale, softcap, bias and mask, softmax. Mask, ``is_causal`` and ``window`` hold all at once.

    Args:
        query: ``[..., H, T, Dk]``, or ``[T, Dk]`` for one head and no batch.
        key: ``[..., Hkv, S, Dk]``, or ``[S, Dk]``. Hkv divides H; query head h reads key/value head
            ``h // (H / Hkv)`` (consecutive groups).
        value: ``[..., Hkv, S, Dv]``, or ``[S, Dv]``. Keys and values must be finite, masked ones too: 0 times
            NaN is NaN. (The layers put zeros where ``attention_mask`` says padding.)
        mask: bool, broadcasts to ``[..., H, T, S]``; **True = may be attended**. If your outputs
            look as if they saw the wrong half, look here: ``torch.nn.MultiheadAttention`` means
            the opposite by True, and no check can see which one was meant. A mask with two axes is
            ``[T, S]``. Where B = T > 1 it could as well be ``[B, S]``, and is refused: write
            ``mask[None, None]`` or ``mask[:, None, None, :]``.
        bias: float, added to the scaled scores; broadcasts, and is refused, as a mask is.
        is_causal: the queries are the last T of the S positions; none sees a later key.
        window: every query sees the last ``window`` positions only, its own counted.
        scale: number that multiplies the scores; ``1 / sqrt(Dk)`` when left out.
        softcap: c squeezes the scaled scores into (-c, c) by ``c * tanh(scores / c)``.
        dropout_p: share of the weights dropped at random. A function does not know whether a
            model trains: pass it in training only (the layers do).
        method: three ways to the same result. "fused" calls PyTorch's kernels; "tiled" goes through the keys
            in tiles, in plain PyTorch; "reference" is the equation step by step, and alone holds the whole
            T x S matrix, except that with dropout on a CPU, or a bias that is being trained, PyTorch's kernel
            does too. A softcap, which no kernel has, sends "fused" to "tiled". Second derivatives and
            ``torch.func`` want "reference": the others refuse them.
        block_sizes: for "tiled", how many queries and how many keys a tile has.

    Returns:
        ``[..., H, T, Dv]`` (``[T, Dv]`` for two-dimensional inputs), in the inputs' dtype. A query
        that may attend to nothing gets 0. With float16 and bfloat16 the scores and the softmax are float32,
        under autocast as well.

    Raises:
        TypeError: an argument of the wrong kind or dtype (a float mask, mixed dtypes).
        ValueError: shapes that do not fit, heads that do not divide, a mask with two meanings, a window
            below 1, mixed devices, block_sizes for another method.

    Source:
        Vaswani et al. 2017, section 3.2.1. Grouped heads are those of Ainslie et al. 2023, section 2.2; the
        softcap is that of Gemma Team 2024, section 2.

    In PyTorch:
        ``scaled_dot_product_attention`` takes floats as a mask too, and adds them; aligns ``is_causal`` at the
        upper left where T != S; wants ``enable_gqa=True`` where groups of heads share keys; has no window and
        no softcap.

    >>> query, key = torch.zeros(4, 2), torch.ones(4, 2)  # every score is 0,
    >>> value = torch.tensor([[1.0], [3.0], [5.0], [7.0]])  # so the output is a mean
    >>> attention(query, key, value, window=2).T  # of 1, of 1 and 3, of 3 and 5 ...
    tensor([[1., 2., 4., 6.]])
    >>> mask = torch.tensor([True, True, False, False])
    >>> attention(query, key, value, mask=mask).T
    tensor([[2., 2., 2., 2.]])
    """
    if not (isinstance(method, str) and method in METHODS):
        raise ValueError(f"method must be one of {list(METHODS)}, got {method!r}")
    _check_query_and_key(query, key)
    _check_value(query, key, value)
    require_number("dropout_p", dropout_p)
    require(0.0 <= dropout_p < 1.0, lambda: f"dropout_p must lie in [0, 1), got {dropout_p!r}")
    _check_block_sizes(block_sizes, method)
    visible, steps = _settings(query, key, mask, bias, is_causal, window, scale, softcap)
    if query.dim() == 2:
        tensors = query[None], key[None], value[None]
        return attend(*tensors, visible, **steps, dropout_p=dropout_p, method=method, block_sizes=block_sizes)[0]
    return attend(query, key, value, visible, **steps, dropout_p=dropout_p, method=method, block_sizes=block_sizes)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: VisibleKeys,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout_p: float = 0.0,
    method: str = "fused",
    block_sizes: tuple[int, int] | None = None,
) -> Tensor:
    """:func:`attention` of arguments that are known to fit: what the layers call, which have made them themselves."""
    if not (query.numel() and key.numel() and value.numel()):
        method = "reference"  # without an element there is nothing to save
    elif method == "fused" and softcap is not None:
        method = "tiled"
    dtype = query.dtype
    if method == "reference" or (method == "fused" and bias is not None):  # kernels add a bias in the inputs' dtype
        query, key, value = (tensor.to(_working(dtype)) for tensor in (query, key, value))
    steps = {"bias": bias, "scale": _scale(query) if scale is None else scale, "dropout_p": dropout_p}
    with _as_given(query):
        if method == "reference":
            output = reference_attention(query, key, value, visible, **steps, softcap=softcap)
        elif method == "tiled":
            output, _ = tiled_attention(query, key, value, visible, **steps, softcap=softcap, block_sizes=block_sizes)
        else:
            output = fused_attention(query, key, value, visible, **steps)
    return output.to(dtype)


def partial_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    block_sizes: tuple[int, int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention to some of the keys, with what it takes to merge it with attention to others.

    The arguments are those of :func:`attention`, less dropout_p and method: it is computed by "tiled".
    ``is_causal`` and ``window`` count positions among the keys that are given.

    Returns:
        The output ``[..., H, T, Dv]`` and the log-sum-exp of the scores ``[..., H, T]`` (at least float32), -inf for
        a query that sees none of these keys. Both carry gradients. :func:`merge_partial` takes such pairs.

    Raises:
        TypeError: as :func:`attention`.
        ValueError: as :func:`attention`; an axis without elements.

    Source:
        Milakov and Gimelshein 2018, section 3; Dao et al. 2022, algorithm 1.

    In PyTorch:
        The kernels compute the log-sum-exp too. ``flex_attention`` returns it when asked,
        ``scaled_dot_product_attention`` keeps it to itself.

    >>> query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0]])
    >>> partial_attention(query, key, key)[1]  # log(exp(0) + exp(1))
    tensor([1.3133])
    """
    _check_query_and_key(query, key)
    _check_value(query, key, value)
    _check_block_sizes(block_sizes, "tiled")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.numel() == 0:
            raise ValueError(f"{name} must have elements, got shape {shape_of(tensor)}")
    visible, steps = _settings(query, key, mask, bias, is_causal, window, scale, softcap)
    single = query.dim() == 2
    if single:
        query, key, value = query[None], key[None], value[None]
    with _as_given(query):
        output, lse = tiled_attention(query, key, value, visible, **steps, dropout_p=0.0, block_sizes=block_sizes)
    return (output[0], lse[0]) if single else (output, lse)


def merge_partial(*parts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention to all keys, from attention to disjoint sets of them.

    Each part weighs as much as the sum of its exponentials: ``exp(lse) / sum of exp(lse)``.

    Args:
        parts: pairs of output ``[..., T, Dv]`` and log-sum-exp ``[..., T]`` (:func:`partial_attention`), at least one.

    Returns:
        One such pair. A query that sees nothing in any part has output 0 and log-sum-exp -inf.

    Raises:
        TypeError: a part that is not a pair of tensors.
        ValueError: no part, parts of different shapes.

    Source:
        Dao et al. 2022, section 3.1; Milakov and Gimelshein 2018, section 3.1.

    In PyTorch:
        No public function does this.

    >>> query, key = torch.zeros(1, 2), torch.ones(4, 2)  # every score is 0
    >>> value = torch.tensor([[1.0], [3.0], [5.0], [7.0]])
    >>> three = partial_attention(query, key[:3], value[:3])  # the mean of 1, 3, 5
    >>> one = partial_attention(query, key[3:], value[3:])  # 7
    >>> output, _ = merge_partial(three, one)
    >>> output.round(decimals=4)  # three keys weigh three times as much as one
    tensor([[4.]])
    """
    require(len(parts) > 0, "parts must hold at least one pair of output and log-sum-exp, got none")
    for part in parts:
        if not (isinstance(part, Sequence) and len(part) == 2 and all(isinstance(each, Tensor) for each in part)):
            raise TypeError(f"each part must be a pair of tensors, output and log-sum-exp, got {type(part).__name__}")
        if not (part[0].is_floating_point() and part[1].is_floating_point()):
            raise TypeError(f"each part must be of floats, got {part[0].dtype} and {part[1].dtype}")
        if (
            part[0].shape[:-1] != part[1].shape
            or part[0].dim() < 2
            or part[0].dtype != parts[0][0].dtype
            or part[0].shape != parts[0][0].shape
        ):
            raise ValueError(
                "each part must be an output [..., T, Dv] and a log-sum-exp [..., T], alike in all parts,"
                f" got {shape_of(part[0])} and {shape_of(part[1])} in {part[0].dtype}"
                f" beside {shape_of(parts[0][0])} in {parts[0][0].dtype}"
            )
    outputs = torch.stack([output for output, _ in parts])  # [parts, ..., T, Dv]
    levels = torch.stack([level for _, level in parts])  # [parts, ..., T]
    top = levels.amax(dim=0)
    finite = top.detach().masked_fill(top == -torch.inf, 0.0)  # any level that is near does; it cancels out
    shares = (levels - finite).exp()
    total = shares.sum(dim=0)
    blind = total == 0
    total = total.masked_fill(blind, 1.0)
    merged = (shares / total)[..., None].to(outputs.dtype) * outputs
    return merged.sum(dim=0), (total.log() + finite).masked_fill(blind, -torch.inf)


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    is_causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    heads: int | Sequence[int] | slice | Tensor | None = None,
    rows: int | Sequence[int] | slice | Tensor | None = None,
) -> Tensor:
    """The weights alone, before dropout: ``softmax(query key^T * scale)``.

    The arguments are those of :func:`attention`, less those that need a value, and two more.

    Args:
        query: ``[..., H, T, Dk]``, or ``[T, Dk]``.
        key: ``[..., Hkv, S, Dk]``, or ``[S, Dk]``.
        heads: only these heads: an index, indices or a slice, negative ones from the end. What is not
            asked for is not computed. The axis stays where one index is given.
        rows: only the rows of these queries, likewise.

    Returns:
        ``[..., H, T, S]`` (``[T, S]`` for two-dimensional inputs), in the inputs' dtype. Every row sums to 1,
        or is 0 throughout where the query may attend to nothing.

    Raises:
        TypeError: as :func:`attention`.
        ValueError: as :func:`attention`; heads or rows that are not there.

    Source:
        Vaswani et al. 2017, section 3.2.1.

    In PyTorch:
        ``scaled_dot_product_attention`` returns no weights. Those of ``nn.MultiheadAttention`` are averaged over
        the heads unless told otherwise, and in training they are taken after the dropout.

    >>> attention_weights(torch.zeros(2, 1), torch.ones(2, 1), is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    >>> attention_weights(torch.zeros(4, 1), torch.ones(4, 1), rows=-1)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    _check_query_and_key(query, key)
    visible, steps = _settings(query, key, mask, bias, is_causal, window, scale, softcap)
    dtype, single = query.dtype, query.dim() == 2
    if single:
        query, key = query[None], key[None]
    if rows is not None:
        rows = _indices("rows", rows, query.shape[-2], query.device)
        query = query[..., rows, :]
        visible, steps["bias"] = visible.of_rows(rows), _pick(steps["bias"], rows, -2)
    if heads is not None:
        heads = _indices("heads", heads, query.shape[-3], query.device)
        query, key = query[..., heads, :, :], key[..., heads // (query.shape[-3] // key.shape[-3]), :, :]
        visible, steps["bias"] = visible.with_mask(_pick(visible.mask, heads, -3)), _pick(steps["bias"], heads, -3)
    query, key = query.to(_working(dtype)), key.to(_working(dtype))
    if softcap is None:  # T x Dk products instead of T x S
        query, steps["scale"] = query * steps["scale"], 1.0
    with _as_given(query):
        weights = reference_weights(query, key, visible, **steps).to(dtype)
    return weights[0] if single else weights


def _indices(name: str, asked: int | Sequence[int] | slice | Tensor, size: int, device: torch.device) -> Tensor:
    """What was asked for as indices ``0 ... size - 1``."""
    fits = f"{name} must be an integer, several, or a slice, between {-size} and {size - 1}"
    try:
        chosen = torch.arange(size, device=device)[
            asked if isinstance(asked, slice | Tensor) else torch.as_tensor(asked)
        ]
    except (IndexError, TypeError, ValueError, RuntimeError):
        raise ValueError(f"{fits}, got {asked!r}") from None
    fitting = chosen.dim() <= 1 and chosen.numel() > 0
    require(fitting, lambda: f"{fits}, got indices of shape {shape_of(chosen)}")
    return chosen.reshape(-1)


def _pick(tensor: Tensor | None, indices: Tensor, axis: int) -> Tensor | None:
    """The chosen entries of an axis that is there in full; what broadcasts along it stays."""
    whole = tensor is not None and tensor.dim() >= -axis and tensor.shape[axis] > 1
    return tensor.index_select(axis, indices) if whole else tensor


def _as_given(tensor: Tensor) -> AbstractContextManager:
    """Without autocast, which would take the products back to half precision."""
    kind = tensor.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if on else nullcontext()


def _scale(query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1])


def _working(dtype: torch.dtype) -> torch.dtype:
    """Half precision is computed in float32."""
    return torch.promote_types(dtype, torch.float32)


def _check_query_and_key(query: Tensor, key: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key)):
        require_tensor(name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be a float tensor, got {tensor.dtype} of shape {shape_of(tensor)}")
        if tensor.dim() < 2:
            raise ValueError(f"{name} must be [..., heads, length, width] or [length, width], got {shape_of(tensor)}")
    _check_alike("key", key, query)
    require(
        query.shape[-1] == key.shape[-1] and query.shape[-1] > 0,
        lambda: f"query and key must share their last axis Dk, of at least 1: {_shapes(query=query, key=key)}",
    )
    require(
        query.dim() == key.dim() and query.shape[:-3] == key.shape[:-3],
        lambda: f"query and key must have the same leading (batch) axes: {_shapes(query=query, key=key)}",
    )
    if query.dim() > 2:
        H, Hkv = query.shape[-3], key.shape[-3]
        require(
            Hkv > 0 and H % Hkv == 0,
            lambda: (
                f"key has {Hkv} heads, which do not divide the query's {H}: {_shapes(query=query, key=key)};"
                " axis -3 holds the heads, axis -2 the positions"
            ),
        )


def _check_value(query: Tensor, key: Tensor, value: Tensor) -> None:
    require_tensor("value", value)
    _check_alike("value", value, query)
    require(
        value.dim() == key.dim() and value.shape[:-1] == key.shape[:-1],
        lambda: f"value must have the key's axes except the last: {_shapes(key=key, value=value)}",
    )


def _check_alike(name: str, tensor: Tensor, query: Tensor) -> None:
    if tensor.dtype != query.dtype:
        raise TypeError(f"{name} must have the query's dtype {query.dtype}, got {tensor.dtype}; convert one of them")
    if tensor.device != query.device:
        raise ValueError(f"{name} must be on the query's device {query.device}, got {tensor.device}")


def _shapes(**tensors: Tensor) -> str:
    return ", ".join(f"{name} {shape_of(tensor)}" for name, tensor in tensors.items())


def _check_block_sizes(block_sizes: tuple[int, int] | None, method: str) -> None:
    if block_sizes is None:
        return
    require(method == "tiled", lambda: f'block_sizes belongs to method "tiled", got method {method!r}')
    if not (isinstance(block_sizes, Sequence) and len(block_sizes) == 2):
        raise TypeError(f"block_sizes must be two integers, queries and keys of a tile, got {block_sizes!r}")
    for size in block_sizes:
        require_integer("block_sizes", size, 1)


def _settings(query, key, mask, bias, is_causal, window, scale, softcap) -> tuple[VisibleKeys, dict]:
    """The arguments that every method takes, checked: which keys are visible, and bias, scale and softcap."""
    T, S = query.shape[-2], key.shape[-2]
    check_mask_and_bias(mask, bias, [*query.shape[:-1], S], query.device)  # [..., H, T, S]
    check_choices(is_causal, window, scale, softcap)
    return VisibleKeys(T, S, mask, is_causal, window, query.device), {
        "bias": None if bias is None else bias.to(_working(query.dtype)),
        "scale": _scale(query) if scale is None else scale,
        "softcap": softcap,
    }


def check_choices(is_causal: bool, window: int | None, scale: float | None, softcap: float | None) -> None:
    """Refuse a causal flag, window, scale or softcap of the wrong kind or size."""
    require_bool("is_causal", is_causal)
    if window is not None:
        require_integer("window", window, 1)
    if scale is not None:
        require_number("scale", scale)
    if softcap is not None:
        require_number("softcap", softcap)
        require(softcap > 0, lambda: f"softcap must be above 0, got {softcap!r}")


def check_mask_and_bias(mask: Tensor | None, bias: Tensor | None, full: list[int], device: torch.device) -> None:
    """Refuse a mask that is not boolean, a bias that is not float, and what does not broadcast to ``full``."""
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            came = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
            raise TypeError(
                f"mask must be a bool tensor (True = may be attended), got {came};"
                " floats that are added to the scores go in as bias, 0/1 numbers as mask.bool()"
            )
        _check_broadcast("mask", mask, full, device)
    if bias is not None:
        if not isinstance(bias, Tensor) or not bias.is_floating_point():
            came = bias.dtype if isinstance(bias, Tensor) else type(bias).__name__
            raise TypeError(f"bias must be a float tensor that is added to the scores, got {came}")
        _check_broadcast("bias", bias, full, device)


def _check_broadcast(name: str, tensor: Tensor, full: list[int], device: torch.device) -> None:
    if tensor.device != device:
        raise ValueError(f"{name} must be on the query's device {device}, got {tensor.device}")
    fits = 1 <= tensor.dim() <= len(full) and all(
        have in (1, want) for have, want in zip(reversed(tensor.shape), reversed(full), strict=False)
    )
    require(
        fits,
        lambda: (
            f"{name} of shape {shape_of(tensor)} does not broadcast to [..., H, T, S] = {full};"
            " a padding mask [B, S] goes in as [B, 1, 1, S]"
        ),
    )
    T = full[-2]
    require(
        not (tensor.dim() == 2 and len(full) > 3 and full[0] == T == tensor.shape[0] > 1),
        lambda: (
            f"{name} of shape {shape_of(tensor)} can be read in two ways where B = T = {T}: over queries and keys"
            f" [T, S] it goes in as {name}[None, None], over batch and keys [B, S] as {name}[:, None, None, :]"
        ),
    )
