"""Greedy decoding: the token with the highest score is written, and read with all others for the next one."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_lib.learned.translator import Translator


@torch.no_grad()
def translate(translator: Translator, source: Tensor) -> Tensor:
    """Translate; at each step all that has been written goes through the decoder again.

    Args:
        translator: the model.
        source: ``[B, S]``, what is read.

    Returns:
        ``[B, T]``, without the start token, padded with 0 after the stop token; T is as long as the longest needs, and
        less than the model's ``max_length`` in any case.

    Raises:
        ValueError: a source that is longer than the model allows.

    >>> translator = Translator(5, 7, start=1, stop=6, d_model=8, num_heads=2, max_length=10)
    >>> translate(translator, torch.tensor([[1, 2, 3]])).shape[1] < 10
    True
    """
    context, real = translator.encode(source), source != 0
    written = source.new_full((len(source), 1), translator.start)  # [B, 1]
    while _unfinished(translator, written):
        scores = translator.decode(written, context, real)  # [B, T, num_target_tokens]
        written = _with_the_best(translator, written, scores)
    return written[:, 1:]


@torch.no_grad()
def translate_with_cache(translator: Translator, source: Tensor) -> Tensor:
    """The same translation; at each step only the newest token goes through the decoder.

    Args:
        translator: the model, its decoder causal.
        source: ``[B, S]``, what is read.

    Returns:
        ``[B, T]``, as :func:`translate`.

    Raises:
        ValueError: as :func:`translate`; a decoder that is not causal.

    >>> translator = Translator(5, 7, start=1, stop=6, d_model=8, num_heads=2)
    >>> source = torch.tensor([[1, 2, 3], [2, 4, 0]])
    >>> torch.equal(translate_with_cache(translator, source), translate(translator, source))
    True
    """
    context, real = translator.encode(source), source != 0
    caches = translator.make_caches(len(source))
    written = source.new_full((len(source), 1), translator.start)
    while _unfinished(translator, written):
        scores = translator.decode(written[:, -1:], context, real, caches=caches)  # [B, 1, num_target_tokens]
        written = _with_the_best(translator, written, scores)
    return written[:, 1:]


def _unfinished(translator: Translator, written: Tensor) -> bool:
    """Whether a sentence has no stop token yet, and there is room for one."""
    stopped = (written == translator.stop).any(dim=1)
    return not bool(stopped.all()) and written.shape[1] < translator.target_places.num_embeddings


def _with_the_best(translator: Translator, written: Tensor, scores: Tensor) -> Tensor:
    """One token more, ``[B, T + 1]``: the best by its score, and 0 where the sentence has ended."""
    best = scores[:, -1:].argmax(dim=-1)  # [B, 1]
    ended = (written == translator.stop).any(dim=1, keepdim=True)
    return torch.cat([written, best.masked_fill(ended, 0)], dim=1)
