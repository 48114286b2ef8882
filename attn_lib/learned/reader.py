"""A small model that reads a sentence and answers at one place of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from attn_lib.errors import require, require_integer, shape_of
from attn_lib.learned.blocks import Block


class Reader(nn.Module):
    """An encoder that answers where it is asked: at the one token of a sentence that stands for the question.

    Args:
        num_tokens: the size of the vocabulary; token 0 pads.
        num_answers: how many answers there are to choose from.
        ask: the number of the token that stands for the question, once a sentence.
        d_model: D, the width of a token.
        num_heads: H.
        num_layers: how many blocks.
        max_length: the longest sentence.
        seed: of the weights that training begins with.

    Raises:
        TypeError: what is to be an integer is not one.
        ValueError: a size that is smaller than 1.

    Source:
        Vaswani et al. 2017, section 3.1, the encoder; with learned positions (section 3.5) and the normalisation
        first (Xiong et al. 2020, section 3).

    In PyTorch:
        ``nn.TransformerEncoder``, with embeddings before and a linear map after it.

    >>> reader = Reader(num_tokens=5, num_answers=2, ask=4, d_model=8, num_heads=2)
    >>> reader(torch.tensor([[1, 4, 2], [3, 4, 0]])).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        num_tokens: int,
        num_answers: int,
        *,
        ask: int,
        d_model: int = 32,
        num_heads: int = 4,
        num_layers: int = 2,
        max_length: int = 64,
        seed: int = 0,
    ):
        super().__init__()
        for name, size in (("num_tokens", num_tokens), ("num_answers", num_answers), ("num_layers", num_layers)):
            require_integer(name, size, 1)
        self.ask = ask
        # Where everybody else draws from is left as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens = nn.Embedding(num_tokens, d_model)
            self.places = nn.Embedding(max_length, d_model)
            self.blocks = nn.ModuleList(Block(d_model, num_heads) for _ in range(num_layers))
            self.norm = nn.LayerNorm(d_model)
            self.answer = nn.Linear(d_model, num_answers)

    def forward(self, ids: Tensor, weights: Sequence[Tensor | None] | None = None) -> Tensor:
        """The answers' scores.

        Args:
            ids: ``[B, T]``, each sentence with one question in it.
            weights: ``[B, H, T, T]`` for each block, in place of those that queries and keys would give; None for a
                block that keeps its own.

        Returns:
            ``[B, num_answers]``, before a softmax.

        Raises:
            ValueError: a sentence without a question, with two, or longer than ``max_length``.
        """
        x, real = self._embed(ids), ids != 0  # [B, T, D], [B, T]
        for number, block in enumerate(self.blocks):
            x = block(x, real, weights=None if weights is None else weights[number])
        return self.answer(self.norm(x[ids == self.ask]))  # [B, D] -> [B, num_answers]

    def attention_weights(self, ids: Tensor) -> list[Tensor]:
        """The weights of each block, ``[B, H, T, T]``."""
        x, real = self._embed(ids), ids != 0
        found = []
        for block in self.blocks:
            found.append(block.attention_weights(x, real))
            x = block(x, real)
        return found

    def _embed(self, ids: Tensor) -> Tensor:
        """Token and place as one vector, ``[B, T, D]``."""
        longest = self.places.num_embeddings
        require(
            ids.dim() == 2 and ids.shape[1] <= longest,
            f"ids must be [B, T], T at most {longest}, got shape {shape_of(ids)}",
        )
        asked = (ids == self.ask).sum(1)
        require(
            bool((asked == 1).all()),
            f"ids must hold the question, token {self.ask}, once a sentence, got {asked.tolist()}",
        )
        return self.tokens(ids) + self.places.weight[: ids.shape[1]]
