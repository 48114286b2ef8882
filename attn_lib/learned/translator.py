"""A small model that translates: an encoder that reads, a decoder that writes and looks back at what was read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attn_lib.cache import KVCache
from attn_lib.errors import require, require_integer, shape_of
from attn_lib.layers import MultiHeadAttention, MultiHeadCrossAttention
from attn_lib.learned.blocks import Block


class DecoderBlock(nn.Module):
    """Masked self-attention, cross-attention, a small network; each normalises first and is added to what came in.

    Args:
        d_model: D, the width of a token.
        num_heads: H.
        is_causal: False is the mistake of a decoder that sees what it is to write.

    Source:
        Vaswani et al. 2017, section 3.1, the decoder; with the normalisation first (Xiong et al. 2020, section 3).

    In PyTorch:
        ``nn.TransformerDecoderLayer(d_model, num_heads, dim_feedforward=2 * d_model, norm_first=True, dropout=0,
        activation="gelu")``; the causal mask is given at each call.

    >>> DecoderBlock(8, 2)(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, d_model: int, num_heads: int, *, is_causal: bool = True):
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, num_heads, is_causal=is_causal)
        self.cross_norm = nn.LayerNorm(d_model)
        self.cross_attention = MultiHeadCrossAttention(d_model, num_heads)
        self.network_norm = nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def forward(
        self, hidden_states: Tensor, context: Tensor, real: Tensor | None = None, *, cache: KVCache | None = None
    ) -> Tensor:
        """One pass.

        Args:
            hidden_states: ``[B, T, D]``, what has been written.
            context: ``[B, S, D]``, what has been read.
            real: ``[B, S]``, 1 where the context is no padding.
            cache: keys and values of the self-attention for the tokens before these.

        Returns:
            ``[B, T, D]``.
        """
        asking = self.before_cross_attention(hidden_states, cache=cache)  # [B, T, D]
        hidden_states = asking + self.cross_attention(self.cross_norm(asking), context, real).hidden_states
        return hidden_states + self.network(self.network_norm(hidden_states))

    def before_cross_attention(self, hidden_states: Tensor, *, cache: KVCache | None = None) -> Tensor:
        """What the cross-attention adds to: the block up to there, ``[B, T, D]``."""
        return hidden_states + self.attention(self.attention_norm(hidden_states), cache=cache).hidden_states


class Translator(nn.Module):
    """Encoder and decoder.

    Args:
        num_source_tokens: the size of the vocabulary that is read; token 0 pads.
        num_target_tokens: the size of the vocabulary that is written.
        start: the number of the token that stands before the first word of a translation.
        stop: the number of the token that is its last.
        d_model: D, the width of a token.
        num_heads: H.
        num_layers: how many blocks the encoder has, and how many the decoder.
        max_length: the longest sentence.
        is_causal: False is the mistake of a decoder that sees what it is to write.
        seed: of the weights that training begins with.

    Raises:
        TypeError: what is to be an integer is not one.
        ValueError: a size that is smaller than 1.

    Source:
        Vaswani et al. 2017, section 3.1; with learned positions (section 3.5) and the normalisation first (Xiong
        et al. 2020, section 3).

    In PyTorch:
        ``nn.Transformer``, with embeddings before and a linear map after it.

    >>> translator = Translator(num_source_tokens=5, num_target_tokens=7, start=1, stop=6, d_model=8, num_heads=2)
    >>> source, target = torch.tensor([[1, 2, 3], [4, 1, 0]]), torch.tensor([[1, 2], [1, 3]])
    >>> translator(source, target).shape
    torch.Size([2, 2, 7])
    """

    def __init__(
        self,
        num_source_tokens: int,
        num_target_tokens: int,
        *,
        start: int,
        stop: int,
        d_model: int = 32,
        num_heads: int = 1,
        num_layers: int = 1,
        max_length: int = 32,
        is_causal: bool = True,
        seed: int = 0,
    ):
        super().__init__()
        for name, size in (
            ("num_source_tokens", num_source_tokens), ("num_target_tokens", num_target_tokens),
            ("num_layers", num_layers), ("max_length", max_length),
        ):  # fmt: skip
            require_integer(name, size, 1)
        for name, token in (("start", start), ("stop", stop)):
            require_integer(name, token, 1)
            require(
                token < num_target_tokens, f"{name} must be below num_target_tokens = {num_target_tokens}, got {token}"
            )
        self.start, self.stop = start, stop
        # Where everybody else draws from is left as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.source_tokens = nn.Embedding(num_source_tokens, d_model)
            self.source_places = nn.Embedding(max_length, d_model)
            self.encoder = nn.ModuleList(Block(d_model, num_heads) for _ in range(num_layers))
            self.encoder_norm = nn.LayerNorm(d_model)
            self.target_tokens = nn.Embedding(num_target_tokens, d_model)
            self.target_places = nn.Embedding(max_length, d_model)
            self.decoder = nn.ModuleList(
                DecoderBlock(d_model, num_heads, is_causal=is_causal) for _ in range(num_layers)
            )
            self.decoder_norm = nn.LayerNorm(d_model)
            self.next_token = nn.Linear(d_model, num_target_tokens)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of each next token, all at once: how it is trained.

        Args:
            source: ``[B, S]``, what is read.
            target: ``[B, T]``, what has been written.

        Returns:
            ``[B, T, num_target_tokens]``, before a softmax; row t is about the token after target t.

        Raises:
            ValueError: a sentence longer than ``max_length``.
        """
        return self.decode(target, self.encode(source), source != 0)

    def encode(self, source: Tensor) -> Tensor:
        """What the decoder looks back at: source ``[B, S]`` to ``[B, S, D]``."""
        x, real = _embed("source", source, self.source_tokens, self.source_places), source != 0
        for block in self.encoder:
            x = block(x, real)
        return self.encoder_norm(x)

    def decode(
        self, target: Tensor, context: Tensor, real: Tensor | None = None, *, caches: Sequence[KVCache] | None = None
    ) -> Tensor:
        """Scores of the next tokens.

        Args:
            target: ``[B, T]``, what has been written; with caches only what is not in them.
            context: ``[B, S, D]``, from :meth:`encode`.
            real: ``[B, S]``, 1 where the source is no padding.
            caches: one for each block, from :meth:`make_caches`.

        Returns:
            ``[B, T, num_target_tokens]``, before a softmax.

        Raises:
            ValueError: more tokens than there are places.
        """
        caches = [None] * len(self.decoder) if caches is None else caches
        past = 0 if caches[0] is None else caches[0].length
        x = _embed("target", target, self.target_tokens, self.target_places, past)  # [B, T, D]
        for block, cache in zip(self.decoder, caches, strict=True):
            x = block(x, context, real, cache=cache)
        return self.next_token(self.decoder_norm(x))

    def make_caches(self, batch_size: int) -> list[KVCache]:
        """Room for the keys and values of the longest translation, for each block of the decoder."""
        longest = self.target_places.num_embeddings
        return [block.attention.make_cache(batch_size=batch_size, max_length=longest) for block in self.decoder]

    def cross_attention_weights(self, source: Tensor, target: Tensor) -> list[Tensor]:
        """Where each written token looks in the source, for each block: ``[B, H, T, S]``."""
        context, real = self.encode(source), source != 0
        x, found = _embed("target", target, self.target_tokens, self.target_places), []
        for block in self.decoder:
            asking = block.cross_norm(block.before_cross_attention(x))
            found.append(block.cross_attention(asking, context, real).attention_weights)
            x = block(x, context, real)
        return found


def _embed(name: str, ids: Tensor, tokens: nn.Embedding, places: nn.Embedding, past: int = 0) -> Tensor:
    """Token and place as one vector, ``[B, T, D]``."""
    longest = places.num_embeddings
    require(
        ids.dim() == 2 and past + ids.shape[1] <= longest,
        f"{name} must be [B, T], at most {longest} tokens in all, got shape {shape_of(ids)} after {past}",
    )
    return tokens(ids) + places.weight[past : past + ids.shape[1]]
