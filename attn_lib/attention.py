"""``attention`` and ``attention_weights``: check the arguments once, join the masks, hand on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_lib.errors import require, require_bool, require_integer, require_number, require_tensor, shape_of
from attn_lib.masks import join_masks
from attn_lib.reference import reference_attention, reference_weights

METHODS = {"reference": reference_attention}


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
    method: str = "reference",
) -> Tensor:
    """Scaled dot-product attention: ``softmax(query key^T * scale) value``.

    Args:
        query: ``[..., H, T, Dk]``, or ``[T, Dk]`` for one head and no batch.
        key: ``[..., Hkv, S, Dk]``, or ``[S, Dk]``. Hkv divides H; query head h reads key/value head
            ``h // (H / Hkv)`` (consecutive groups).
        value: ``[..., Hkv, S, Dv]``, or ``[S, Dv]``.
        mask: bool, broadcasts to ``[..., H, T, S]``; **True = may be attended**. If your outputs
            look as if they saw the wrong half, look here: ``torch.nn.MultiheadAttention`` means
            the opposite by True, and no check can see which one was meant.
        bias: float, added to the scaled scores, broadcasts to ``[..., H, T, S]``.
        is_causal: the queries are the last T of the S positions; none sees a later key.
        window: every query sees the last ``window`` positions only, its own counted.
        scale: number that multiplies the scores; ``1 / sqrt(Dk)`` when left out.
        softcap: c squeezes the scaled scores into (-c, c) by ``c * tanh(scores / c)``.
        dropout_p: share of the weights dropped at random. A function does not know whether a
            model trains: pass it in training only (the layers do).
        method: "reference", the equation step by step.

    Mask, causal, window all hold at once. The order is scale, softcap, bias and mask, softmax.

    Returns:
        ``[..., H, T, Dv]`` (``[T, Dv]`` for two-dimensional inputs), in the inputs' dtype. A query
        that may attend to nothing gets 0. float16 and bfloat16 are computed in float32, also under
        autocast. Keys and values must be finite, masked ones too: 0 times NaN is NaN. (The layers
        put zeros where ``attention_mask`` says padding.)

    Raises:
        TypeError: an argument of the wrong kind or dtype (a float mask, mixed dtypes).
        ValueError: shapes that do not fit, heads that do not divide, a window below 1, mixed devices.

    Source: Vaswani et al. 2017, section 3.2.1; grouped heads: Ainslie et al. 2023, section 2.2.
    PyTorch's ``scaled_dot_product_attention`` aligns ``is_causal`` at the upper left where T != S,
    takes floats that are added as its mask too, and has no window.
    """
    require(isinstance(method, str) and method in METHODS, f"method must be one of {sorted(METHODS)}, got {method!r}")
    require_tensor("value", value)
    _check_query_and_key(query, key)
    _check_value(query, key, value)
    require_number("dropout_p", dropout_p)
    require(0.0 <= dropout_p < 1.0, f"dropout_p must lie in [0, 1), got {dropout_p!r}")
    steps = _settings(query, key, mask, bias, is_causal, window, scale, softcap)
    working = torch.promote_types(query.dtype, torch.float32)
    single = query.dim() == 2
    if single:
        query, key, value = query[None], key[None], value[None]
    with torch.autocast(query.device.type, enabled=False):  # else the products would go back to half precision
        output = METHODS[method](query.to(working), key.to(working), value.to(working), **steps, dropout_p=dropout_p)
    output = output.to(value.dtype)
    return output[0] if single else output


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
) -> Tensor:
    """The weights alone, before dropout: ``softmax(query key^T * scale)``.

    Args: as in :func:`attention`.

    Returns:
        ``[..., H, T, S]`` (``[T, S]`` for two-dimensional inputs). Every row sums to 1, or is 0
        throughout where the query may attend to nothing. Never averaged over the heads, unlike
        what ``torch.nn.MultiheadAttention`` returns unless told otherwise.

    Raises:
        TypeError, ValueError: as :func:`attention`.

    Source: Vaswani et al. 2017, section 3.2.1.
    """
    _check_query_and_key(query, key)
    steps = _settings(query, key, mask, bias, is_causal, window, scale, softcap)
    working = torch.promote_types(query.dtype, torch.float32)
    dtype, single = query.dtype, query.dim() == 2
    if single:
        query, key = query[None], key[None]
    with torch.autocast(query.device.type, enabled=False):
        weights = reference_weights(query.to(working), key.to(working), **steps).to(dtype)
    return weights[0] if single else weights


def _check_query_and_key(query: Tensor, key: Tensor) -> None:
    for name, tensor in (("query", query), ("key", key)):
        require_tensor(name, tensor)
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be a float tensor, got {tensor.dtype} of shape {shape_of(tensor)}")
        require(
            tensor.dim() >= 2, f"{name} must be [..., heads, length, width] or [length, width], got {shape_of(tensor)}"
        )
    _check_alike("key", key, query)
    require(
        query.shape[-1] == key.shape[-1] and query.shape[-1] > 0,
        f"query and key must share their last axis Dk, of at least 1: query {shape_of(query)}, key {shape_of(key)}",
    )
    require(
        query.dim() == key.dim() and query.shape[:-3] == key.shape[:-3],
        f"query and key must have the same leading (batch) axes: query {shape_of(query)}, key {shape_of(key)}",
    )
    if query.dim() > 2:
        H, Hkv = query.shape[-3], key.shape[-3]
        require(
            Hkv > 0 and H % Hkv == 0,
            f"key has {Hkv} heads, which do not divide the query's {H}: query {shape_of(query)}, key {shape_of(key)};"
            " axis -3 holds the heads, axis -2 the positions",
        )


def _check_value(query: Tensor, key: Tensor, value: Tensor) -> None:
    _check_alike("value", value, query)
    require(
        value.dim() == key.dim() and value.shape[:-1] == key.shape[:-1],
        f"value must have the key's axes except the last: key {shape_of(key)}, value {shape_of(value)}",
    )


def _check_alike(name: str, tensor: Tensor, query: Tensor) -> None:
    if tensor.dtype != query.dtype:
        raise TypeError(f"{name} must have the query's dtype {query.dtype}, got {tensor.dtype}; convert one of them")
    require(tensor.device == query.device, f"{name} must be on the query's device {query.device}, got {tensor.device}")


def _settings(query, key, mask, bias, is_causal, window, scale, softcap) -> dict:
    """The arguments that every method takes, checked: one boolean mask, one bias, one scale."""
    T, S = query.shape[-2], key.shape[-2]
    full = [*query.shape[:-1], S]  # [..., H, T, S]
    check_mask_and_bias(mask, bias, full, query.device)
    check_choices(is_causal, window, scale, softcap)
    return {
        "allowed": join_masks(mask, T, S, is_causal=is_causal, window=window, device=query.device),
        "bias": None if bias is None else bias.to(torch.promote_types(query.dtype, torch.float32)),
        "scale": 1 / math.sqrt(query.shape[-1]) if scale is None else scale,
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
        require(softcap > 0, f"softcap must be above 0, got {softcap!r}")


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
    require(tensor.device == device, f"{name} must be on the query's device {device}, got {tensor.device}")
    fits = tensor.dim() <= len(full) and all(
        have in (1, want) for have, want in zip(reversed(tensor.shape), reversed(full), strict=False)
    )
    require(
        fits,
        f"{name} of shape {shape_of(tensor)} does not broadcast to [..., H, T, S] = {full};"
        " a padding mask [B, S] goes in as [B, 1, 1, S]",
    )
