"""Attention as modules: learned projections around ``attention``. ``[B, T, D]`` in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from attn_lib.attention import attend, attention_weights
from attn_lib.cache import KVCache
from attn_lib.errors import require, require_bool, require_integer, require_number, require_tensor, shape_of
from attn_lib.masks import VisibleKeys
from attn_lib.positions import RotaryPositions


def split_heads(projected: Tensor, num_heads: int) -> Tensor:
    """Columns to heads, ``[..., T, H * Dk]`` to ``[..., H, T, Dk]``.

    Head h gets the columns ``h * Dk ... (h + 1) * Dk - 1``.

    Args:
        projected: ``[..., T, H * Dk]``, the queries, keys or values of all heads side by side.
        num_heads: how many heads, H.

    Returns:
        ``[..., H, T, Dk]``, a view.

    Raises:
        TypeError: projected that is no tensor, num_heads that is no integer.
        ValueError: fewer than two axes, a width that num_heads does not divide.

    Source:
        Vaswani et al. 2017, section 3.2.2, where each head has a matrix of its own; the columns
        of one wide matrix are the same thing, in one product.

    In PyTorch:
        ``nn.MultiheadAttention`` does it inside. Written with ``view`` it needs the *transpose* as well:
        a view to ``[..., H, T, Dk]`` alone would mix tokens.

    >>> tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    >>> split_heads(tokens, 2)[0]  # head 0 of both tokens
    tensor([[1, 2],
            [5, 6]])
    """
    require_tensor("projected", projected)
    require(projected.dim() >= 2, lambda: f"projected must be [..., T, width], got {shape_of(projected)}")
    require_integer("num_heads", num_heads, 1)
    width = projected.shape[-1]
    require(
        width % num_heads == 0,
        lambda: f"num_heads = {num_heads} must divide the width {width} of {shape_of(projected)}",
    )
    return projected.unflatten(-1, (num_heads, width // num_heads)).transpose(-3, -2)


def merge_heads(heads: Tensor) -> Tensor:
    """Heads to columns, ``[..., H, T, Dv]`` to ``[..., T, H * Dv]``: the inverse of :func:`split_heads`.

    Args:
        heads: ``[..., H, T, Dv]``, what each head gives.

    Returns:
        ``[..., T, H * Dv]``, the heads of a token side by side.

    Raises:
        TypeError: heads that are no tensor.
        ValueError: fewer than three axes.

    Source:
        Vaswani et al. 2017, section 3.2.2, "Concat".

    In PyTorch:
        ``nn.MultiheadAttention`` does it inside.

    >>> merge_heads(torch.tensor([[[1, 2], [5, 6]], [[3, 4], [7, 8]]]))
    tensor([[1, 2, 3, 4],
            [5, 6, 7, 8]])
    """
    require_tensor("heads", heads)
    require(heads.dim() >= 3, lambda: f"heads must be [..., H, T, Dv], got {shape_of(heads)}")
    return heads.transpose(-3, -2).flatten(-2)


class AttentionOutput:
    """What every layer returns.

    Attributes:
        hidden_states: ``[B, T, D]`` (``[B, T, d_v]`` from the layers of one head), the updated
            representation, which goes on to the next sublayer.

    Source:
        Vaswani et al. 2017, section 3.2.1, has the output alone; the weights are for looking at.

    In PyTorch:
        ``nn.MultiheadAttention`` returns a pair. Its weights are averaged over the heads unless told otherwise,
        and are computed at every call unless ``need_weights=False``.

    >>> layer = MultiHeadSelfAttention(d_model=8, num_heads=2)
    >>> output = layer(torch.zeros(1, 4, 8))
    >>> output.hidden_states.shape, output.attention_weights.shape
    (torch.Size([1, 4, 8]), torch.Size([1, 2, 4, 4]))
    >>> output.weights_of(heads=0, rows=-1).detach()  # tokens all alike
    tensor([[[[0.2500, 0.2500, 0.2500, 0.2500]]]])
    """

    def __init__(self, hidden_states: Tensor, compute_weights: Callable[..., Tensor]):
        self.hidden_states = hidden_states
        self._compute_weights = compute_weights
        self._weights: Tensor | None = None
        self._with_graph = torch.is_grad_enabled()

    @property
    def attention_weights(self) -> Tensor:
        """``[B, H, T, S]``, before dropout, one matrix a head, never averaged.

        Computed at the first look and kept, so that nobody pays T x S for what nobody reads.

        Raises:
            ValueError: not looked at before the cache that held their keys was reset.
        """
        if self._weights is None:
            self._weights = self.weights_of()
        return self._weights

    def weights_of(
        self,
        heads: int | Sequence[int] | slice | Tensor | None = None,
        rows: int | Sequence[int] | slice | Tensor | None = None,
    ) -> Tensor:
        """The weights of some heads and of some queries alone, at the price of those.

        Args:
            heads: an index, indices or a slice, as in :func:`attention_weights`; all when left out.
            rows: the same for the queries.

        Returns:
            ``[B, len(heads), len(rows), S]``.

        Raises:
            ValueError: indices that are not there; a cache that was reset since.
        """
        # A first look under no_grad must not take the weights out of a later loss.
        with torch.set_grad_enabled(self._with_graph):
            return self._compute_weights(heads=heads, rows=rows)

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
        d_context: int | tuple[int, int] | None = None,
        num_heads: int,
        num_kv_heads: int | None = None,
        d_k: int,
        d_v: int,
        output_map: bool,
        bias: bool,
        is_causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        positions: RotaryPositions | None = None,
        needs_context: bool = False,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        d_context = d_model if d_context is None else d_context
        pair = d_context if isinstance(d_context, tuple) else (d_context, d_context)
        require(len(pair) == 2, f"d_context must be a width or a pair of widths, got {d_context!r}")
        d_key_source, d_value_source = pair
        for name, size in (
            ("d_model", d_model), ("d_context", d_key_source), ("d_context", d_value_source),
            ("num_heads", num_heads), ("num_kv_heads", num_kv_heads), ("d_k", d_k), ("d_v", d_v),
        ):  # fmt: skip
            require_integer(name, size, 1)
        for name, choice in (("bias", bias), ("is_causal", is_causal), ("needs_context", needs_context)):
            require_bool(name, choice)
        if window is not None:
            require_integer("window", window, 1)
        require_number("dropout", dropout)
        require(num_heads % num_kv_heads == 0, f"num_kv_heads = {num_kv_heads} must divide num_heads = {num_heads}")
        require(0.0 <= dropout < 1.0, f"dropout must lie in [0, 1), got {dropout!r}")
        if positions is not None:
            if not isinstance(positions, RotaryPositions):
                raise TypeError(
                    f"positions must be RotaryPositions or None, got {type(positions).__name__};"
                    " sinusoidal_positions are added to the hidden states before the layer"
                )
            require(not needs_context, "positions belong to one sequence, and this layer attends to a second one")
            require(d_k % 2 == 0, f"positions turn pairs of columns: the width of a head must be even, got {d_k}")
        self.d_model, self.d_context = d_model, d_context
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.is_causal, self.window, self.dropout = is_causal, window, dropout
        self.positions, self.needs_context = positions, needs_context
        self.w_q = nn.Linear(d_model, num_heads * d_k, bias=bias)
        self.w_k = nn.Linear(d_key_source, num_kv_heads * d_k, bias=bias)
        self.w_v = nn.Linear(d_value_source, num_kv_heads * d_v, bias=bias)
        self.w_o = nn.Linear(num_heads * d_v, d_model, bias=bias) if output_map else nn.Identity()

    def forward(
        self,
        hidden_states: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        attention_mask: Tensor | None = None,
        *,
        cache: KVCache | None = None,
    ) -> AttentionOutput:
        """The hidden states ask; the context answers, or they themselves where there is none.

        Args:
            hidden_states: ``[B, T, d_model]``, where the queries come from.
            context: ``[B, S, d_context]``, where keys and values come from; hidden_states when
                left out (self-attention). A pair is one sequence for the keys and one for the values.
            attention_mask: ``[B, S]``, bool or integers, 1 = real, 0 = padding, over the sequence that
                the *keys* come from. What stands in a padded position, NaN included, reaches no
                real one.
            cache: keys and values of the tokens before these (:meth:`MultiHeadAttention.make_cache`), to which those
                of these tokens are added. S, the attention_mask's too, then counts all tokens so far. No gradient
                reaches the maps of keys and values through it.

        Returns:
            :class:`AttentionOutput` with hidden_states ``[B, T, d_model]`` (``[B, T, d_v]`` from the layers of
            one head) and weights ``[B, H, T, S]``. A query without a key gets 0: not even the output map adds its
            bias.

        Raises:
            TypeError: what is no tensor, or not of the layer's dtype; an attention_mask of floats.
            ValueError: shapes or devices that do not fit, a context that is missing; a cache in a layer that is
                not causal, or beside a context. The cache is then as it was.
        """
        key_source, value_source = self._sources(hidden_states, context)
        past = 0 if cache is None else self._past(cache, context)
        B, T, S = *hidden_states.shape[:2], past + key_source.shape[1]
        mask = None
        if attention_mask is not None:
            mask = _real(attention_mask, [B, S], hidden_states.device)  # [B, 1, 1, S]
            # Zeroed before the projections: 0 * NaN is NaN, so a weight of 0 alone keeps nothing out.
            padded = ~mask[:, 0, 0, past:, None]  # [B, S, 1]
            own = key_source is hidden_states
            one = value_source is key_source
            key_source = key_source.masked_fill(padded, 0.0)
            value_source = key_source if one else value_source.masked_fill(padded, 0.0)
            hidden_states = key_source if own else hidden_states
        query = split_heads(self.w_q(hidden_states), self.num_heads)  # [B, H, T, Dk]
        key = split_heads(self.w_k(key_source), self.num_kv_heads)  # [B, Hkv, S, Dk]
        value = split_heads(self.w_v(value_source), self.num_kv_heads)  # [B, Hkv, S, Dv]
        if self.positions is not None:
            query, key = self.positions(query, past), self.positions(key, past)
        if cache is not None:
            key, value = cache.append(key, value)  # of all tokens so far
        visible = VisibleKeys(T, S, mask, self.is_causal, self.window, query.device)
        heads = attend(query, key, value, visible, dropout_p=self.dropout if self.training else 0.0)  # [B, H, T, Dv]
        output = self.w_o(merge_heads(heads))  # [B, T, D]
        blind = visible.blind()
        if blind is not None:
            output = output.masked_fill(blind.flatten(0, -3) if blind.dim() > 2 else blind, 0.0)
        weights = partial(attention_weights, query, key, mask=mask, is_causal=self.is_causal, window=self.window)
        return AttentionOutput(
            output, weights if cache is None else partial(_unless_reset, weights, cache, cache.resets)
        )

    def _sources(self, hidden_states: Tensor, context: Tensor | tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
        """The sequences that keys and values come from."""
        _check_sequence("hidden_states", hidden_states, "T", self.w_q)
        widths = self.w_k.in_features, self.w_v.in_features
        if context is None:
            require(
                not self.needs_context,
                lambda: (
                    f"context is missing: {type(self).__name__} takes its keys and values from a second sequence"
                    f" [B, S, {self.d_context}]"
                ),
            )
            require(
                widths == (self.d_model, self.d_model),
                lambda: (
                    f"context is missing: keys and values need width d_context = {self.d_context},"
                    f" hidden_states have {self.d_model}"
                ),
            )
            return hidden_states, hidden_states
        require(
            self.positions is None, "context cannot be given to a layer with positions: they belong to one sequence"
        )
        pair = context if isinstance(context, tuple) else (context, context)
        require(len(pair) == 2, lambda: f"context must be a tensor or a pair of tensors, got a tuple of {len(pair)}")
        for source, linear in zip(pair, (self.w_k, self.w_v), strict=True):
            _check_sequence("context", source, "S", linear)
            require(
                source.shape[0] == hidden_states.shape[0] and source.shape[1] == pair[0].shape[1],
                lambda: (
                    f"context must have the batch size of hidden_states, {hidden_states.shape[0]}, and one length,"
                    f" got {' and '.join(str(shape_of(each)) for each in pair)}"
                ),
            )
        return pair

    def _past(self, cache: KVCache, context: Tensor | tuple[Tensor, Tensor] | None) -> int:
        """How many tokens came before."""
        if not isinstance(cache, KVCache):
            raise TypeError(f"cache must be a KVCache, got {type(cache).__name__}")
        require(context is None, "cache goes without a context: it holds the tokens of hidden_states so far")
        require(
            self.is_causal or self.window is not None,
            lambda: (
                f"cache needs a causal layer: in this {type(self).__name__} earlier tokens would have to see later ones"
            ),
        )
        return cache.length

    def extra_repr(self) -> str:
        shown = {"num_heads": self.num_heads, "num_kv_heads": self.num_kv_heads, "is_causal": self.is_causal}
        return ", ".join(f"{name}={setting}" for name, setting in shown.items())


class SelfAttention(_ProjectedAttention):
    """One head as by hand: Q, K and V of one sequence, no biases, no output map.

    Args:
        d_model: width D of the hidden states.
        d_k: width of queries and keys; d_model when left out.
        d_v: width of the values and so of the output; d_k when left out.

    Raises:
        TypeError: a width that is no integer.
        ValueError: a width below 1.

    Source:
        Vaswani et al. 2017, section 3.2.1. The paper's layer always ends in W_O; the hand
        calculation of one head does not, and so this one does not.

    In PyTorch:
        ``nn.MultiheadAttention`` with one head has an output map, biases unless told otherwise, and no d_k of
        your own.

    >>> layer = SelfAttention(d_model=4, d_k=2, d_v=3)
    >>> output = layer(torch.zeros(1, 5, 4))
    >>> output.hidden_states.shape, output.attention_weights.shape
    (torch.Size([1, 5, 3]), torch.Size([1, 1, 5, 5]))
    """

    _causal = False

    def __init__(self, d_model: int, d_k: int | None = None, d_v: int | None = None):
        super().__init__(d_model, is_causal=self._causal, **_one_head(d_model, d_k, d_v))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> AttentionOutput:
        """Attend to the sequence itself.

        Args:
            hidden_states: ``[B, T, d_model]``.
            attention_mask: ``[B, T]``, bool or integers, 1 = real, 0 = padding.

        Returns:
            :class:`AttentionOutput` with hidden_states ``[B, T, d_v]`` and weights ``[B, 1, T, T]``.

        Raises:
            TypeError: as :meth:`MultiHeadAttention.forward`.
            ValueError: as :meth:`MultiHeadAttention.forward`.
        """
        return super().forward(hidden_states, None, attention_mask)


class MaskedSelfAttention(SelfAttention):
    """:class:`SelfAttention` in which no position sees a later one.

    Args:
        d_model: width D of the hidden states.
        d_k: as in :class:`SelfAttention`.
        d_v: as in :class:`SelfAttention`.

    Raises:
        TypeError: as :class:`SelfAttention`.
        ValueError: as :class:`SelfAttention`.

    Source:
        Vaswani et al. 2017, section 3.2.3.

    In PyTorch:
        ``nn.MultiheadAttention`` wants the mask at every call, with ``is_causal`` as a hint that it is causal.

    >>> layer = MaskedSelfAttention(d_model=4)
    >>> layer(torch.zeros(1, 2, 4)).attention_weights.detach()  # all alike
    tensor([[[[1.0000, 0.0000],
              [0.5000, 0.5000]]]])
    """

    _causal = True


class CrossAttention(_ProjectedAttention):
    """One head as by hand: queries of one sequence, keys and values of another, no output map.

    Args:
        d_model: width of the sequence that asks.
        d_context: width of the sequence that answers; d_model when left out.
        d_k: width of queries and keys; d_model when left out.
        d_v: width of the values and so of the output; d_k when left out.

    Called with ``(hidden_states [B, T, d_model], context [B, S, d_context], attention_mask=None [B, S])``;
    the mask is that of the context. Returns hidden_states ``[B, T, d_v]`` and weights ``[B, 1, T, S]``.

    Raises:
        TypeError: a width that is no integer.
        ValueError: a width below 1; when called, a context that is missing.

    Source:
        Vaswani et al. 2017, section 3.2.3, "encoder-decoder attention".

    In PyTorch:
        ``nn.MultiheadAttention`` takes the context twice, as key and as value, and has an output map.

    >>> layer = CrossAttention(d_model=4, d_context=6, d_k=2)
    >>> layer(torch.zeros(1, 3, 4), torch.zeros(1, 5, 6)).attention_weights.shape
    torch.Size([1, 1, 3, 5])
    """

    def __init__(self, d_model: int, d_context: int | None = None, d_k: int | None = None, d_v: int | None = None):
        super().__init__(d_model, d_context=d_context, needs_context=True, **_one_head(d_model, d_k, d_v))


class MultiHeadAttention(_ProjectedAttention):
    """H heads side by side, joined by an output map. The layers below are settings of this one.

    Args:
        d_model: width D of the hidden states; num_heads divides it, and Dk = Dv = D / H.
        num_heads: how many heads, H.
        num_kv_heads: Hkv, how many key/value heads the H query heads share; it divides H, and H
            when left out.
        d_context: width of the sequence that keys and values come from; d_model when left out. A pair where keys
            and values come from two sequences (``kdim`` and ``vdim`` of ``torch.nn.MultiheadAttention``).
        is_causal: no position sees a later one; the queries are the last T of the S positions.
        window: a position sees only the last ``window`` ones, its own counted.
        bias: whether the four maps have one.
        dropout: share of the weights dropped, in ``train()`` only.
        positions: :class:`RotaryPositions` turn queries and keys by their position.
        needs_context: refuse a call without a context.

    Raises:
        TypeError: an argument of the wrong kind.
        ValueError: num_heads that does not divide d_model, num_kv_heads that does not divide num_heads, a
            dropout outside [0, 1), positions for heads of an odd width.

    Source:
        Vaswani et al. 2017, section 3.2.2 (without biases there). Grouped heads are those of Ainslie et al.
        2023, section 2.2.

    In PyTorch:
        ``nn.MultiheadAttention`` takes the same x three times, is sequence-first unless told otherwise, reads
        its boolean masks the other way round, averages its weights, and where all keys are padding gives NaN or 0,
        by the path that it takes inside.

    Attributes:
        w_q: ``nn.Linear(d_model, H * Dk)``. Head h owns the rows ``h * Dk ... (h + 1) * Dk - 1`` of its weight.
        w_k: ``nn.Linear(d_context, Hkv * Dk)``, likewise.
        w_v: ``nn.Linear(d_context, Hkv * Dv)``, likewise.
        w_o: ``nn.Linear(H * Dv, d_model)``; head h owns the columns ``h * Dv ... (h + 1) * Dv - 1``.

    >>> layer = MultiHeadAttention(d_model=8, num_heads=4, num_kv_heads=2)
    >>> layer.w_q.weight.shape, layer.w_k.weight.shape
    (torch.Size([8, 8]), torch.Size([4, 8]))
    >>> hidden_states, context = torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)
    >>> output = layer(hidden_states, context)
    >>> output.hidden_states.shape, output.attention_weights.shape
    (torch.Size([1, 3, 8]), torch.Size([1, 4, 3, 5]))
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        d_context: int | tuple[int, int] | None = None,
        is_causal: bool = False,
        window: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        positions: RotaryPositions | None = None,
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
            positions=positions,
            needs_context=needs_context,
        )

    def make_cache(self, batch_size: int, max_length: int) -> KVCache:
        """An empty :class:`KVCache` that fits this layer: its heads, widths, dtype and device.

        Args:
            batch_size: how many sequences, B.
            max_length: how many tokens there is room for.

        Raises:
            TypeError: a size that is no integer.
            ValueError: a size below 1.

        >>> layer = MaskedMultiHeadSelfAttention(d_model=8, num_heads=2).eval()
        >>> cache = layer.make_cache(batch_size=1, max_length=16)
        >>> for token in torch.ones(1, 3, 8).split(1, dim=1):  # one at a time
        ...     output = layer(token, cache=cache)
        >>> cache.length, output.attention_weights.shape
        (3, torch.Size([1, 2, 1, 3]))
        """
        weight = self.w_k.weight
        kind = weight.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        sizes = (batch_size, self.num_kv_heads, max_length, self.d_model // self.num_heads)
        return KVCache(*sizes, dtype=dtype, device=weight.device)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> Self:
        """Copy the parameters of a ``torch.nn.MultiheadAttention`` into a layer of ours.

        Args:
            module: one without ``add_bias_kv`` and ``add_zero_attn``. Where its kdim and vdim differ, the layer
                is called with a pair, ``layer(query, (key, value))``. Its ``batch_first`` does not matter:
                parameters have no batch; ours is batch-first.

        Returns:
            A layer of this class, of the same dtype and device in the same train/eval mode, with the same
            ``requires_grad``, that gives the same output (where all keys are padding the module may give NaN);
            ``attention_weights`` are per head where the module's are averaged.

        Raises:
            TypeError: anything but an ``nn.MultiheadAttention``.
            ValueError: a module that this layer cannot express.

        >>> theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> ours = MultiHeadAttention.from_torch(theirs)
        >>> x = torch.arange(24.0).reshape(1, 3, 8) / 24
        >>> torch.allclose(ours(x).hidden_states, theirs(x, x, x)[0], atol=1e-5)
        True
        """
        require(
            not issubclass(cls, GroupedQueryAttention),
            f"{cls.__name__} shares its key/value heads, which module does not: MultiHeadSelfAttention fits",
        )
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"module must be a torch.nn.MultiheadAttention, got {type(module).__name__}")
        require(module.bias_k is None and not module.add_zero_attn, "module has add_bias_kv or add_zero_attn set")
        has_bias = module.in_proj_bias is not None
        require(
            has_bias == (module.out_proj.bias is not None), "module has a bias on one side only, in_proj or out_proj"
        )
        widths = (module.kdim, module.vdim)
        width = (
            {} if widths == (module.embed_dim,) * 2 else {"d_context": widths if len({*widths}) == 2 else module.kdim}
        )
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
    """:class:`MultiHeadAttention` of one sequence.

    Args:
        d_model: as in :class:`MultiHeadAttention`, and so are the rest.

    Raises:
        TypeError: as :class:`MultiHeadAttention`.
        ValueError: as :class:`MultiHeadAttention`.

    Source:
        Vaswani et al. 2017, sections 3.2.2 and 3.2.3.

    In PyTorch:
        ``nn.MultiheadAttention`` called as ``module(x, x, x)``.

    >>> layer = MultiHeadSelfAttention(d_model=8, num_heads=2)
    >>> real = torch.tensor([[1, 1, 0]])  # the third token is padding
    >>> layer(torch.zeros(1, 3, 8), real).weights_of(heads=0, rows=0).detach()
    tensor([[[[0.5000, 0.5000, 0.0000]]]])
    """

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *, cache: KVCache | None = None
    ) -> AttentionOutput:
        """Attend to the sequence itself.

        Args:
            hidden_states: ``[B, T, d_model]``.
            attention_mask: ``[B, S]``, bool or integers, 1 = real, 0 = padding; S is T, and with a cache all
                tokens so far.
            cache: as in :meth:`MultiHeadAttention.forward`.

        Returns:
            :class:`AttentionOutput` with hidden_states ``[B, T, d_model]`` and weights ``[B, H, T, S]``.

        Raises:
            TypeError: as :meth:`MultiHeadAttention.forward`.
            ValueError: as :meth:`MultiHeadAttention.forward`.
        """
        return super().forward(hidden_states, None, attention_mask, cache=cache)


class MaskedMultiHeadSelfAttention(MultiHeadSelfAttention):
    """:class:`MultiHeadSelfAttention` in which no position sees a later one.

    Args:
        d_model: as in :class:`MultiHeadAttention`.
        num_heads: as in :class:`MultiHeadAttention`.
        settings: its other arguments, less ``is_causal``, which is True.

    Raises:
        TypeError: as :class:`MultiHeadAttention`.
        ValueError: as :class:`MultiHeadAttention`.

    Source:
        Vaswani et al. 2017, section 3.2.3.

    In PyTorch:
        ``nn.MultiheadAttention`` wants the mask at every call, with ``is_causal`` as a hint that it is causal.

    >>> layer = MaskedMultiHeadSelfAttention(d_model=8, num_heads=2, window=2)
    >>> layer(torch.zeros(1, 4, 8)).weights_of(heads=0, rows=-1).detach()
    tensor([[[[0.0000, 0.0000, 0.5000, 0.5000]]]])
    """

    def __init__(self, d_model: int, num_heads: int, **settings):
        super().__init__(d_model, num_heads, is_causal=True, **settings)


class MultiHeadCrossAttention(MultiHeadAttention):
    """:class:`MultiHeadAttention` whose keys and values come from a context, which it requires.

    Args:
        d_model: as in :class:`MultiHeadAttention`.
        num_heads: as in :class:`MultiHeadAttention`.
        d_context: as in :class:`MultiHeadAttention`.
        settings: its other arguments, less ``needs_context``, which is True.

    Raises:
        TypeError: as :class:`MultiHeadAttention`.
        ValueError: as :class:`MultiHeadAttention`; when called, a context that is missing.

    Source:
        Vaswani et al. 2017, section 3.2.3, "encoder-decoder attention".

    In PyTorch:
        ``nn.MultiheadAttention`` with ``kdim`` and ``vdim``, the context given twice.

    >>> layer = MultiHeadCrossAttention(d_model=8, num_heads=2, d_context=6)
    >>> layer(torch.zeros(1, 3, 8), torch.zeros(1, 5, 6)).attention_weights.shape
    torch.Size([1, 2, 3, 5])
    """

    def __init__(self, d_model: int, num_heads: int, d_context: int | tuple[int, int] | None = None, **settings):
        super().__init__(d_model, num_heads, d_context=d_context, needs_context=True, **settings)


class GroupedQueryAttention(MultiHeadSelfAttention):
    """:class:`MultiHeadSelfAttention` whose query heads share ``num_kv_heads`` key/value heads.

    Args:
        d_model: as in :class:`MultiHeadAttention`.
        num_heads: H, the query heads.
        num_kv_heads: Hkv, which divides H.
        settings: its other arguments.

    Raises:
        TypeError: as :class:`MultiHeadAttention`.
        ValueError: as :class:`MultiHeadAttention`; ``from_torch``, whose modules share no heads.

    Source:
        Ainslie et al. 2023, section 2.2.

    In PyTorch:
        ``nn.MultiheadAttention`` cannot share heads; ``scaled_dot_product_attention`` can, with
        ``enable_gqa=True``, in the same groups.

    >>> layer = GroupedQueryAttention(d_model=8, num_heads=4, num_kv_heads=2)
    >>> layer.w_q.out_features, layer.w_k.out_features
    (8, 4)
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, **settings):
        super().__init__(d_model, num_heads, num_kv_heads=num_kv_heads, **settings)


class MultiQueryAttention(GroupedQueryAttention):
    """:class:`GroupedQueryAttention` with one key/value head.

    Args:
        d_model: as in :class:`MultiHeadAttention`.
        num_heads: H, the query heads.
        settings: its other arguments, less ``num_kv_heads``, which is 1.

    Raises:
        TypeError: as :class:`MultiHeadAttention`.
        ValueError: as :class:`GroupedQueryAttention`.

    Source:
        Shazeer 2019, section 3.

    In PyTorch:
        As for :class:`GroupedQueryAttention`.

    >>> MultiQueryAttention(d_model=8, num_heads=4).w_k.out_features
    2
    """

    def __init__(self, d_model: int, num_heads: int, **settings):
        super().__init__(d_model, num_heads, num_kv_heads=1, **settings)


def multi_head_self_attention(
    hidden_states: Tensor, layer: MultiHeadAttention, attention_mask: Tensor | None = None
) -> AttentionOutput:
    """The layer as a function: ``hidden_states`` through the maps of ``layer``.

    Args:
        hidden_states: ``[B, T, d_model]``.
        layer: whose parameters and settings are used.
        attention_mask: ``[B, T]``, bool or integers, 1 = real, 0 = padding.

    Returns:
        :class:`AttentionOutput` with hidden_states ``[B, T, d_model]`` and weights ``[B, H, T, T]``.

    Raises:
        TypeError: a layer that is no :class:`MultiHeadAttention`; the rest as the layer.
        ValueError: as the layer.

    Source:
        Vaswani et al. 2017, section 3.2.2. Name and arguments are those of the article that the book recalculates.

    In PyTorch:
        ``torch.nn.functional.multi_head_attention_forward`` takes every matrix as an argument of its own.

    >>> layer = MultiHeadSelfAttention(d_model=8, num_heads=2)
    >>> multi_head_self_attention(torch.zeros(1, 3, 8), layer)
    AttentionOutput(hidden_states=[1, 3, 8], attention_weights=computed when first read)
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(f"layer must be a MultiHeadAttention, got {type(layer).__name__}")
    return layer(hidden_states, attention_mask=attention_mask)


def _one_head(d_model: int, d_k: int | None, d_v: int | None) -> dict:
    d_k = d_model if d_k is None else d_k
    return {"num_heads": 1, "d_k": d_k, "d_v": d_k if d_v is None else d_v, "output_map": False, "bias": False}


def _unless_reset(compute: Callable[..., Tensor], cache: KVCache, resets: int, **asked) -> Tensor:
    require(
        cache.resets == resets,
        "attention_weights were not read before the cache was reset, and its keys may have been written over since",
    )
    return compute(**asked)


def _check_sequence(name: str, tensor: Tensor, length: str, linear: nn.Linear) -> None:
    require_tensor(name, tensor)
    require(
        tensor.dim() == 3 and tensor.shape[-1] == linear.in_features,
        lambda: f"{name} must be [B, {length}, {linear.in_features}], got {shape_of(tensor)}",
    )
    weight = linear.weight
    if tensor.device != weight.device:
        raise ValueError(f"{name} must be on the layer's device {weight.device}, got {tensor.device}")
    if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
        raise TypeError(f"{name} must have the layer's dtype {weight.dtype}, got {tensor.dtype}; convert one of them")


def _real(attention_mask: Tensor, shape: list[int], device: torch.device) -> Tensor:
    """``[B, S]`` of 1 and 0 as the bool ``[B, 1, 1, S]`` that ``attention`` takes, in memory of its own."""
    require_tensor("attention_mask", attention_mask)
    if attention_mask.is_floating_point() or attention_mask.is_complex():
        raise TypeError(
            f"attention_mask must be bool or integers [B, S], 1 = real and 0 = padding, got {attention_mask.dtype}"
        )
    require(
        shape_of(attention_mask) == shape,
        lambda: f"attention_mask must be [B, S] = {shape}, S counting all keys, got {shape_of(attention_mask)}",
    )
    if attention_mask.device != device:
        raise ValueError(
            f"attention_mask must be on the device of the hidden states {device}, got {attention_mask.device}"
        )
    # The values of a compiled or traced mask cannot be looked at.
    if attention_mask.dtype != torch.bool and not torch.compiler.is_compiling():
        only = ((attention_mask == 0) | (attention_mask == 1)).all()
        require(bool(only), "attention_mask must hold 1 (real) and 0 (padding) only; other numbers came")
    return (attention_mask != 0)[:, None, None, :]
