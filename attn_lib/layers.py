"""Attention as modules: learned projections around ``attention``. ``[B, T, D]`` in and out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from attn_lib.attention import attention, attention_weights
from attn_lib.errors import require, require_bool, require_integer, require_number, require_tensor, shape_of


def split_heads(projected: Tensor, num_heads: int) -> Tensor:
    """``[..., T, H * Dk]`` to ``[..., H, T, Dk]``: head h gets the columns ``h * Dk ... (h + 1) * Dk``.

    Raises:
        ValueError: a width that num_heads does not divide.

    Source: Vaswani et al. 2017, section 3.2.2, where each head has a matrix of its own; the columns
    of one wide matrix are the same thing, in one product. Splitting is a view of the width *and a
    transpose*: a view to ``[..., H, T, Dk]`` alone would mix tokens.
    """
    require_tensor("projected", projected)
    require(projected.dim() >= 2, f"projected must be [..., T, width], got {shape_of(projected)}")
    require_integer("num_heads", num_heads, 1)
    width = projected.shape[-1]
    require(
        width % num_heads == 0,
        f"num_heads = {num_heads} must divide the width {width} of {shape_of(projected)}",
    )
    return projected.unflatten(-1, (num_heads, width // num_heads)).transpose(-3, -2)


def merge_heads(heads: Tensor) -> Tensor:
    """``[..., H, T, Dv]`` to ``[..., T, H * Dv]``: the concatenation, the inverse of :func:`split_heads`.

    Raises:
        TypeError: heads that are no tensor.
        ValueError: fewer than three axes.
    """
    require_tensor("heads", heads)
    require(heads.dim() >= 3, f"heads must be [..., H, T, Dv], got {shape_of(heads)}")
    return heads.transpose(-3, -2).flatten(-2)


class AttentionOutput:
    """What every layer returns.

    Attributes:
        hidden_states: ``[B, T, D]`` (``[B, T, d_v]`` from the layers of one head), the updated
            representation, which goes on to the next sublayer.
        attention_weights: ``[B, H, T, S]``, before dropout, one matrix a head (never averaged), for
            looking at only. Computed when first read, so that nobody pays T x S for what nobody reads.
    """

    def __init__(self, hidden_states: Tensor, compute_weights: Callable[[], Tensor]):
        self.hidden_states = hidden_states
        self._compute_weights = compute_weights
        self._weights: Tensor | None = None
        self._with_graph = torch.is_grad_enabled()

    @property
    def attention_weights(self) -> Tensor:
        """``[B, H, T, S]``, computed at the first look and kept."""
        if self._weights is None:
            # A first look under no_grad must not take the weights out of a later loss.
            with torch.set_grad_enabled(self._with_graph):
                self._weights = self._compute_weights()
        return self._weights

    def __repr__(self) -> str:
        return (
            f"AttentionOutput(hidden_states={shape_of(self.hidden_states)}, attention_weights=computed when first read)"
        )


class _ProjectedAttention(nn.Module):
    """The one layer that all public ones are settings of: project, split, attend, merge, map out."""

    def __init__(
        self,
        d_model: int,
        *,
        d_context: int | None = None,
        num_heads: int,
        num_kv_heads: int | None = None,
        d_k: int,
        d_v: int,
        output_map: bool,
        bias: bool,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        needs_context: bool = False,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        d_context = d_model if d_context is None else d_context
        for name, size in (
            ("d_model", d_model), ("d_context", d_context), ("num_heads", num_heads),
            ("num_kv_heads", num_kv_heads), ("d_k", d_k), ("d_v", d_v),
        ):  # fmt: skip
            require_integer(name, size, 1)
        for name, choice in (("bias", bias), ("is_causal", is_causal)):
            require_bool(name, choice)
        if window is not None:
            require_integer("window", window, 1)
        require_number("dropout", dropout)
        require(num_heads % num_kv_heads == 0, f"num_kv_heads = {num_kv_heads} must divide num_heads = {num_heads}")
        require(0.0 <= dropout < 1.0, f"dropout must lie in [0, 1), got {dropout!r}")
        self.d_model, self.d_context = d_model, d_context
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.is_causal, self.window, self.dropout = is_causal, window, dropout
        self.needs_context = needs_context
        self.w_q = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.w_k = nn.Linear(d_context, num_kv_heads * d_k, bias=bias)
        self.w_v = nn.Linear(d_context, num_kv_heads * d_v, bias=bias)
        self.w_o = nn.Linear(num_heads * d_v, d_model, bias=bias) if output_map else nn.Identity()

    def forward(
        self, hidden_states: Tensor, context: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> AttentionOutput:
        """Attend.

        Args:
            hidden_states: ``[B, T, d_model]``, where the queries come from.
            context: ``[B, S, d_context]``, where keys and values come from; hidden_states when
                left out (self-attention).
            attention_mask: ``[B, S]``, bool or integers, 1 = real, 0 = padding, over the sequence that
                the *keys* come from. What stands in a padded position, NaN included, reaches no
                real one.

        Returns:
            :class:`AttentionOutput` with hidden_states ``[B, T, d_model]`` (``[B, T, d_v]`` from the layers of
            one head) and weights ``[B, H, T, S]``. For a query without a key the heads give 0, to which the
            output map adds its bias.

        Raises:
            TypeError: what is no tensor, or not of the layer's dtype; an attention_mask of floats.
            ValueError: shapes or devices that do not fit, a context that is missing.
        """
        source = self._source(hidden_states, context)
        mask = None
        if attention_mask is not None:
            mask = _real(attention_mask, source)  # [B, 1, 1, S]
            # Zeroed before the projections: 0 * NaN is NaN, so a weight of 0 alone keeps nothing out.
            padded = source
            source = source.masked_fill(~mask[:, 0, 0, :, None], 0.0)  # [B, S, D]
            hidden_states = source if padded is hidden_states else hidden_states
        query = split_heads(self.w_q(hidden_states), self.num_heads)  # [B, H, T, Dk]
        key = split_heads(self.w_k(source), self.num_kv_heads)  # [B, Hkv, S, Dk]
        value = split_heads(self.w_v(source), self.num_kv_heads)  # [B, Hkv, S, Dv]
        settings = {"mask": mask, "is_causal": self.is_causal, "window": self.window}
        dropout_p = self.dropout if self.training else 0.0
        heads = attention(query, key, value, **settings, dropout_p=dropout_p)  # [B, H, T, Dv]
        output = self.w_o(merge_heads(heads))  # [B, T, D]
        return AttentionOutput(output, partial(attention_weights, query, key, **settings))

    def _source(self, hidden_states: Tensor, context: Tensor | None) -> Tensor:
        _check_sequence("hidden_states", hidden_states, "T", self.w_q)
        if context is None:
            require(
                not self.needs_context,
                f"context is missing: {type(self).__name__} takes its keys and values from a second sequence"
                f" [B, S, {self.d_context}]",
            )
            require(
                self.d_context == self.d_model,
                f"context is missing: keys and values need width d_context = {self.d_context},"
                f" hidden_states have {self.d_model}",
            )
            return hidden_states
        _check_sequence("context", context, "S", self.w_k)
        require(
            context.shape[0] == hidden_states.shape[0],
            f"context must have the batch size of hidden_states, {hidden_states.shape[0]}, got {context.shape[0]}",
        )
        return context

    def extra_repr(self) -> str:
        shown = {"num_heads": self.num_heads, "num_kv_heads": self.num_kv_heads, "is_causal": self.is_causal}
        return ", ".join(f"{name}={setting}" for name, setting in shown.items())


class SelfAttention(_ProjectedAttention):
    """One head as by hand: Q, K and V of one sequence, no biases, no output map.

    Args:
        d_model: width D of the hidden states.
        d_k: width of queries and keys; d_model when left out.
        d_v: width of the values and so of the output; d_k when left out.

    Called with ``(hidden_states [B, T, D], attention_mask=None [B, T])``; returns
    :class:`AttentionOutput` with hidden_states ``[B, T, d_v]`` and weights ``[B, 1, T, T]``.

    Source: Vaswani et al. 2017, section 3.2.1. The paper's layer always ends in W_O; the hand
    calculation of one head does not, and so this one does not.
    """

    _causal = False

    def __init__(self, d_model: int, d_k: int | None = None, d_v: int | None = None):
        super().__init__(d_model, is_causal=self._causal, **_one_head(d_model, d_k, d_v))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> AttentionOutput:
        return super().forward(hidden_states, None, attention_mask)


class MaskedSelfAttention(SelfAttention):
    """:class:`SelfAttention` in which no position sees a later one (Vaswani et al. 2017, section 3.2.3)."""

    _causal = True


class CrossAttention(_ProjectedAttention):
    """One head as by hand: queries of one sequence, keys and values of another, no output map.

    Args:
        d_model: width of the sequence that asks.
        d_context: width of the sequence that answers; d_model when left out.
        d_k, d_v: as in :class:`SelfAttention`.

    Called with ``(hidden_states [B, T, d_model], context [B, S, d_context], attention_mask=None [B, S])``;
    the mask is that of the context. Returns hidden_states ``[B, T, d_v]`` and weights ``[B, 1, T, S]``.

    Source: Vaswani et al. 2017, section 3.2.3, "encoder-decoder attention".
    """

    def __init__(self, d_model: int, d_context: int | None = None, d_k: int | None = None, d_v: int | None = None):
        super().__init__(d_model, d_context=d_context, needs_context=True, **_one_head(d_model, d_k, d_v))


class MultiHeadAttention(_ProjectedAttention):
    """H heads side by side, joined by an output map. The layers below are settings of this one.

    Args:
        d_model: width D of the hidden states; num_heads divides it, and Dk = Dv = D / H.
        num_heads: H.
        num_kv_heads: Hkv, how many key/value heads the H query heads share; it divides H, and H
            when left out.
        d_context: width of the sequence that keys and values come from; d_model when left out.
        is_causal: no position sees a later one; the queries are the last T of the S positions.
        window: a position sees only the last ``window`` ones, its own counted.
        bias: whether the four maps have one.
        dropout: share of the weights dropped, in ``train()`` only.

    Attributes:
        w_q, w_k, w_v, w_o: ``nn.Linear``. Head h owns the rows ``h * Dk ... (h + 1) * Dk`` of the weights.

    Raises:
        ValueError: num_heads that does not divide d_model, num_kv_heads that does not divide num_heads.

    Source: Vaswani et al. 2017, section 3.2.2 (without biases there); grouped heads: Ainslie et al.
    2023, section 2.2. ``torch.nn.MultiheadAttention`` takes the same x three times, is sequence-first
    unless told otherwise, reads its boolean masks the other way round and averages its weights.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        d_context: int | None = None,
        is_causal: bool = False,
        window: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        needs_context: bool = False,
    ):
        require_integer("d_model", d_model, 1)
        require_integer("num_heads", num_heads, 1)
        require(
            d_model % num_heads == 0, f"num_heads must divide d_model: d_model = {d_model}, num_heads = {num_heads}"
        )
        head_dim = d_model // num_heads
        super().__init__(
            d_model,
            d_context=d_context,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            d_k=head_dim,
            d_v=head_dim,
            output_map=True,
            bias=bias,
            is_causal=is_causal,
            window=window,
            dropout=dropout,
            needs_context=needs_context,
        )

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """Copy the parameters of a ``torch.nn.MultiheadAttention`` into a layer of ours.

        Args:
            module: one without ``add_bias_kv`` and ``add_zero_attn``, and with kdim equal to vdim.
                Its ``batch_first`` does not matter: parameters have no batch; ours is batch-first.

        Returns:
            A layer of this class, of the same dtype and device in the same train/eval mode, with the same
            ``requires_grad``, that gives the same output (where all keys are padding the module gives NaN);
            ``attention_weights`` are per head where the module's are averaged.

        Raises:
            TypeError: anything but an ``nn.MultiheadAttention``.
            ValueError: a module that this layer cannot express.
        """
        require(
            not issubclass(cls, GroupedQueryAttention),
            f"{cls.__name__} shares its key/value heads, which module does not: MultiHeadSelfAttention fits",
        )
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"module must be a torch.nn.MultiheadAttention, got {type(module).__name__}")
        require(module.bias_k is None and not module.add_zero_attn, "module has add_bias_kv or add_zero_attn set")
        require(module.kdim == module.vdim, f"module has kdim = {module.kdim} and vdim = {module.vdim}, which differ")
        has_bias = module.in_proj_bias is not None
        require(
            has_bias == (module.out_proj.bias is not None), "module has a bias on one side only, in_proj or out_proj"
        )
        width = {} if module.kdim == module.embed_dim else {"d_context": module.kdim}
        layer = cls(module.embed_dim, module.num_heads, **width, bias=has_bias, dropout=module.dropout)
        layer.to(module.out_proj.weight)
        if module.in_proj_weight is None:
            weights = [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
        else:
            weights = [*module.in_proj_weight.chunk(3)]
        weights.append(module.out_proj.weight)
        biases = [*module.in_proj_bias.chunk(3), module.out_proj.bias] if has_bias else [None] * 4
        maps = (layer.w_q, layer.w_k, layer.w_v, layer.w_o)
        for linear, weight, bias in zip(maps, weights, biases, strict=True):
            for own, theirs in ((linear.weight, weight), (linear.bias, bias)):
                if theirs is not None:
                    own.detach().copy_(theirs.detach())
                    own.requires_grad_(theirs.requires_grad)
        return layer.train(module.training)


class MultiHeadSelfAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` of one sequence: ``(hidden_states, attention_mask=None)``."""

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> AttentionOutput:
        return super().forward(hidden_states, None, attention_mask)


class MaskedMultiHeadSelfAttention(MultiHeadSelfAttention):
    """:class:`MultiHeadSelfAttention` with ``is_causal=True``: no position sees a later one."""

    def __init__(self, d_model: int, num_heads: int, **settings):
        super().__init__(d_model, num_heads, is_causal=True, **settings)


class MultiHeadCrossAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` whose keys and values come from a context, which it requires."""

    def __init__(self, d_model: int, num_heads: int, d_context: int | None = None, **settings):
        super().__init__(d_model, num_heads, d_context=d_context, needs_context=True, **settings)


class GroupedQueryAttention(MultiHeadSelfAttention):
    """:class:`MultiHeadSelfAttention` with ``num_kv_heads`` shared key/value heads (Ainslie et al. 2023)."""

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, **settings):
        super().__init__(d_model, num_heads, num_kv_heads=num_kv_heads, **settings)


class MultiQueryAttention(GroupedQueryAttention):
    """:class:`GroupedQueryAttention` with one key/value head (Shazeer 2019, section 3)."""

    def __init__(self, d_model: int, num_heads: int, **settings):
        super().__init__(d_model, num_heads, num_kv_heads=1, **settings)


def multi_head_self_attention(
    hidden_states: Tensor, layer: MultiHeadAttention, attention_mask: Tensor | None = None
) -> AttentionOutput:
    """The layer as a function: ``hidden_states [B, S, D]`` through the maps of ``layer``.

    Args, returns, raises: as ``layer(hidden_states, attention_mask=attention_mask)``.
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(f"layer must be a MultiHeadAttention, got {type(layer).__name__}")
    return layer(hidden_states, attention_mask=attention_mask)


def _one_head(d_model: int, d_k: int | None, d_v: int | None) -> dict:
    d_k = d_model if d_k is None else d_k
    return {"num_heads": 1, "d_k": d_k, "d_v": d_k if d_v is None else d_v, "output_map": False, "bias": False}


def _check_sequence(name: str, tensor: Tensor, length: str, linear: nn.Linear) -> None:
    require_tensor(name, tensor)
    require(
        tensor.dim() == 3 and tensor.shape[-1] == linear.in_features,
        f"{name} must be [B, {length}, {linear.in_features}], got {shape_of(tensor)}",
    )
    weight = linear.weight
    require(
        tensor.device == weight.device, f"{name} must be on the layer's device {weight.device}, got {tensor.device}"
    )
    if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
        raise TypeError(f"{name} must have the layer's dtype {weight.dtype}, got {tensor.dtype}; convert one of them")


def _real(attention_mask: Tensor, source: Tensor) -> Tensor:
    """``[B, S]`` of 1 and 0 as the bool ``[B, 1, 1, S]`` that ``attention`` takes, in memory of its own."""
    require_tensor("attention_mask", attention_mask)
    if attention_mask.is_floating_point() or attention_mask.is_complex():
        raise TypeError(
            f"attention_mask must be bool or integers [B, S], 1 = real and 0 = padding, got {attention_mask.dtype}"
        )
    require(
        attention_mask.shape == source.shape[:2],
        f"attention_mask must be [B, S] = {shape_of(source)[:2]}, got {shape_of(attention_mask)}",
    )
    require(
        attention_mask.device == source.device,
        f"attention_mask must be on the device of the hidden states {source.device}, got {attention_mask.device}",
    )
    # The values of a compiled or traced mask cannot be looked at.
    if attention_mask.dtype != torch.bool and not torch.compiler.is_compiling():
        only = ((attention_mask == 0) | (attention_mask == 1)).all()
        require(bool(only), "attention_mask must hold 1 (real) and 0 (padding) only; other numbers came")
    return (attention_mask != 0)[:, None, None, :]
