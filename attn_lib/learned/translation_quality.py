"""How well a translator translates, and where it looks while it does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_lib.errors import require_integer
from attn_lib.learned.greedy import translate
from attn_lib.learned.translation import Pair, japanese_vocabulary
from attn_lib.learned.translation_lesson import NO_ANSWER, pairs_as_tensors
from attn_lib.learned.translator import Translator


def share_translated(translator: Translator, pairs: Sequence[Pair]) -> float:
    """The share of sentences that it translates by itself and gets right, token for token.

    Args:
        translator: the model.
        pairs: B pairs; their sources ``[B, S]`` are what it reads.

    Returns:
        From 0 to 1.

    Raises:
        ValueError: there is no pair.

    Source:
        Greedy decoding, and the strictest measure that there is; real translators are compared by softer ones.

    In PyTorch:
        Nothing of the kind.

    >>> from attn_lib.learned import draw_pairs, teach_translation
    >>> share_translated(teach_translation(seed=0, steps=1, batch_size=1), draw_pairs(5, seed=0))  # hardly taught
    0.0
    """
    (source, _), _ = pairs_as_tensors(pairs)
    japanese = japanese_vocabulary()
    written = [tuple(japanese.decode(row)) for row in translate(translator, source)]
    return sum(words == pair.japanese for words, pair in zip(written, pairs, strict=True)) / len(pairs)


@torch.no_grad()
def share_predicted(translator: Translator, pairs: Sequence[Pair], *, is_shifted: bool = True) -> float:
    """The share of tokens that it gets right when all earlier ones are given and right: what its training sees.

    Args:
        translator: the model.
        pairs: B pairs, with ``[B, T]`` tokens to be found.
        is_shifted: as in :func:`pairs_as_tensors`, and as it was trained.

    Returns:
        From 0 to 1.

    Raises:
        TypeError: is_shifted that is no bool.
        ValueError: there is no pair.

    Source:
        Williams and Zipser 1989, "teacher-forced".

    In PyTorch:
        Nothing of the kind.

    >>> from attn_lib.learned import draw_pairs, teach_translation
    >>> share_predicted(teach_translation(seed=0, steps=1, batch_size=1), draw_pairs(50, seed=0)) < 0.5
    True
    """
    inputs, answers = pairs_as_tensors(pairs, is_shifted=is_shifted)
    asked = answers != NO_ANSWER
    right = (translator(*inputs).argmax(dim=-1) == answers) & asked
    return right.sum().item() / asked.sum().item()


@torch.no_grad()
def share_aligned(translator: Translator, pairs: Sequence[Pair], *, rows_off: int = 0) -> Tensor:
    """The share of Japanese tokens whose largest weight lies in the English phrase that they belong to.

    Asked of the cross-attention of the last block, while it is given the right translation to write. Tokens that
    belong to no phrase (:class:`Pair`) do not count.

    Args:
        translator: the model.
        pairs: B pairs.
        rows_off: 1 reads the row below the one that wrote a token: the usual mistake.

    Returns:
        ``[H]``, a share from 0 to 1 for each head.

    Raises:
        TypeError: rows_off that is no integer.
        ValueError: there is no pair; rows_off below 0.

    Source:
        Ghader and Monz 2017, for the question how far attention agrees with an alignment.

    In PyTorch:
        Nothing of the kind.

    >>> from attn_lib.learned import draw_pairs, teach_translation
    >>> share_aligned(teach_translation(seed=0, steps=1, batch_size=1), draw_pairs(5, seed=0)).shape
    torch.Size([1])
    """
    require_integer("rows_off", rows_off, 0)
    (source, target), _ = pairs_as_tensors(pairs)
    looked_at = translator.cross_attention_weights(source, target)[-1].argmax(dim=-1)  # [B, H, T]
    found = []
    for pair, places in zip(pairs, looked_at, strict=True):
        rows = range(len(pair.japanese) - rows_off)
        found += [
            torch.isin(places[:, row + rows_off], torch.tensor(pair.alignment[row]))
            for row in rows
            if pair.alignment[row]
        ]
    return torch.stack(found).double().mean(dim=0)
