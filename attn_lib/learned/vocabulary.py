"""Tokens and their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from attn_lib.errors import require

PAD = "<pad>"


class Vocabulary:
    """The tokens of a small language, numbered; number 0 pads.

    Args:
        tokens: every token once or more; they are sorted, so that the same language has the same numbers.

    Raises:
        ValueError: a token is empty, or is the one that pads.

    >>> vocabulary = Vocabulary(["keys", "the", "keys"])
    >>> vocabulary.tokens
    ('<pad>', 'keys', 'the')
    >>> vocabulary.encode([["the", "keys"], ["keys"]])
    tensor([[2, 1],
            [1, 0]])
    """

    def __init__(self, tokens: Iterable[str]):
        different = sorted(set(tokens))
        require(
            all(token and token != PAD for token in different),
            f"tokens must be words other than {PAD!r}, got {different}",
        )
        self.tokens = (PAD, *different)
        self._ids = {token: number for number, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        """The number of a token.

        Raises:
            ValueError: the language does not have it.
        """
        require(token in self._ids, f"token must be one of the {len(self)} of this vocabulary, got {token!r}")
        return self._ids[token]

    def encode(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The sentences as numbers, the shorter ones padded at their end.

        Args:
            sentences: B sentences, each a sequence of tokens.

        Returns:
            ``[B, T]`` integers, T the length of the longest.

        Raises:
            ValueError: there is no sentence, or one has a token that the language does not have.
        """
        require(len(sentences) > 0, "sentences must be one or more, got none")
        longest = max(map(len, sentences))
        return torch.tensor([[*map(self.id, sentence), *[0] * (longest - len(sentence))] for sentence in sentences])

    def decode(self, ids: Tensor) -> list[str]:
        """The tokens of one sentence ``[T]``, without those that pad."""
        return [self.tokens[number] for number in ids.tolist() if number != 0]
