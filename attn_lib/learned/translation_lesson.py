"""The lesson of the chapter on translation: a translator learns a small language pair."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_lib.errors import require_bool, require_integer
from attn_lib.learned.batches import batches_by_length
from attn_lib.learned.training import train
from attn_lib.learned.translation import START, STOP, Pair, draw_pairs, english_vocabulary, japanese_vocabulary
from attn_lib.learned.translator import Translator

NO_ANSWER = -100  # which cross-entropy does not count


def pairs_as_tensors(pairs: Sequence[Pair], *, is_shifted: bool = True) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Pairs as a translator takes them, and the right answers.

    Args:
        pairs: B pairs.
        is_shifted: the translation that is read begins with the start token and is one place behind the answers.
            False is the mistake of showing each answer where it is asked for.

    Returns:
        The source ``[B, S]`` and what has been written ``[B, T]``, padded with 0; the answers ``[B, T]``, -100 where
        there is none.

    Raises:
        TypeError: is_shifted that is no bool.
        ValueError: there is no pair.

    Source:
        Vaswani et al. 2017, section 3.1, "output embeddings are offset by one position".

    In PyTorch:
        Nothing of the kind.

    >>> from attn_lib.learned import write_pair
    >>> (source, target), answers = pairs_as_tensors([write_pair("I", "love", "machine learning")])
    >>> japanese_vocabulary().decode(target[0])
    ['<start>', '私は', '機械', '学習', 'が', '大好き', 'です']
    >>> japanese_vocabulary().decode(answers[0])
    ['私は', '機械', '学習', 'が', '大好き', 'です', '。']
    """
    require_bool("is_shifted", is_shifted)
    source = english_vocabulary().encode([pair.english for pair in pairs])
    answers = japanese_vocabulary().encode([pair.japanese for pair in pairs])
    start = answers.new_full((len(pairs), 1), japanese_vocabulary().id(START))
    target = torch.cat([start, answers[:, :-1]], dim=1) if is_shifted else answers
    return (source, target), answers.masked_fill(answers == 0, NO_ANSWER)


def teach_translation(
    *, seed: int, steps: int = 300, batch_size: int = 64, is_causal: bool = True, is_shifted: bool = True
) -> Translator:
    """Train a translator on pairs that are drawn for it, none of them held out.

    Args:
        seed: of its first weights and of its pairs, 0 or more.
        steps: how many batches.
        batch_size: B, pairs a batch.
        is_causal: False trains a decoder that sees what it is to write.
        is_shifted: False trains one that is shown each answer where it is asked for.

    Returns:
        The trained :class:`Translator`, in ``eval()``; on one core in some three seconds.

    Raises:
        TypeError: what is to be an integer or a bool is not one.
        ValueError: a number that is too small.

    Source:
        Vaswani et al. 2017, for the model; Williams and Zipser 1989, for training with the right earlier tokens
        in place of the model's own ("teacher-forced").

    In PyTorch:
        Nothing of the kind.

    >>> (source, target), _ = pairs_as_tensors(draw_pairs(3, seed=9))
    >>> teach_translation(seed=0, steps=2, batch_size=4)(source, target).shape[:2] == target.shape
    True
    """
    require_integer("steps", steps, 1)
    require_integer("batch_size", batch_size, 1)
    english, japanese = english_vocabulary(), japanese_vocabulary()
    pairs = draw_pairs(steps * batch_size, seed=seed)
    batches = [
        pairs_as_tensors(batch, is_shifted=is_shifted) for batch in batches_by_length(pairs, batch_size, seed=seed)
    ]
    translator = Translator(
        len(english),
        len(japanese),
        start=japanese.id(START),
        stop=japanese.id(STOP),
        is_causal=is_causal,
        seed=seed,
    )
    train(translator, batches, learning_rate=8e-3)
    return translator
