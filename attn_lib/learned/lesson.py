"""The lesson that two chapters share: a reader learns which number a verb has to have."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attn_lib.errors import require_integer
from attn_lib.learned.agreement import BLANK, Agreement, agreement_vocabulary, draw_sentences
from attn_lib.learned.batches import batches_by_length
from attn_lib.learned.reader import Reader
from attn_lib.learned.training import train


def as_tensors(sentences: list[Agreement]) -> tuple[Tensor, Tensor]:
    """Sentences as a reader takes them, and the right answers.

    Returns:
        ``[B, T]`` token numbers, and ``[B]``, 0 singular and 1 plural.
    """
    ids = agreement_vocabulary().encode([sentence.tokens for sentence in sentences])
    return ids, torch.tensor([sentence.number for sentence in sentences])


def teach_agreement(
    *,
    seed: int,
    steps: int = 600,
    batch_size: int = 64,
    num_heads: int = 4,
    num_layers: int = 2,
    held_out: Iterable[Agreement] = (),
) -> Reader:
    """Train a reader on sentences that are drawn for it.

    Args:
        seed: of its first weights and of its sentences, 0 or more. The sentences of ``draw_sentences(..., seed=seed)``
            are those that it sees: test it on others.
        steps: how many batches.
        batch_size: B, sentences a batch.
        num_heads: H.
        num_layers: how many blocks.
        held_out: sentences that it never sees, because it will be tested on them.

    Returns:
        The trained :class:`Reader`, in ``eval()``; on one core in some five seconds.

    Raises:
        TypeError: what is to be an integer is not one.
        ValueError: a number that is too small.

    Source:
        Linzen et al. 2016, for the task.

    In PyTorch:
        Nothing of the kind.

    >>> teach_agreement(seed=0, steps=2, batch_size=4)(as_tensors(draw_sentences(3, seed=9))[0]).shape
    torch.Size([3, 2])
    """
    require_integer("steps", steps, 1)
    require_integer("batch_size", batch_size, 1)
    vocabulary = agreement_vocabulary()
    sentences = draw_sentences(steps * batch_size, seed=seed, held_out=held_out)
    batches = map(as_tensors, batches_by_length(sentences, batch_size, seed=seed))
    reader = Reader(len(vocabulary), 2, ask=vocabulary.id(BLANK), num_heads=num_heads, num_layers=num_layers, seed=seed)
    train(reader, batches, learning_rate=6e-3)
    return reader
