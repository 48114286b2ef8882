"""A small language of facts and questions: four facts somewhere in twelve places, and a question about one of them at the end."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_lib.errors import require, require_integer
from attn_lib.learned.reader import Reader
from attn_lib.learned.training import train
from attn_lib.learned.vocabulary import Vocabulary

NAMES = ("ann", "bob", "eve", "kim")
DRINKS = ("juice", "milk", "tea", "water")
FILLER = "-"
QUESTION = "?"
PLACES = 12

RETRIEVAL_RULES = f"""\
text     -> {PLACES} times ( fact or {FILLER} ), then name {QUESTION}
fact     -> name=drink, one fact for each name
name     -> {" ".join(NAMES)}
drink    -> {" ".join(DRINKS)}"""


@dataclass(frozen=True)
class Inquiry:
    """A text that ends in a question.

    Attributes:
        tokens: the text; ``QUESTION`` is its last token, the name that is asked for the one before.
        answer: the number of the drink, counted in ``DRINKS``.
        place: where the fact stands that answers it, from 0.
    """

    tokens: tuple[str, ...]
    answer: int
    place: int


def retrieval_vocabulary() -> Vocabulary:
    """Every token of the language.

    >>> len(retrieval_vocabulary())
    23
    """
    return Vocabulary([*(f"{name}={drink}" for name in NAMES for drink in DRINKS), *NAMES, FILLER, QUESTION])


def draw_inquiries(count: int, *, seed: int, shares: Sequence[float] = (1,) * PLACES) -> list[Inquiry]:
    """Draw texts at random by :data:`RETRIEVAL_RULES`.

    Args:
        count: how many, 1 or more.
        seed: where the draw begins; the same seed gives the same texts on every machine.
        shares: for each place, how often the fact that is asked for stands there, in parts of their sum. Facts that
            are not asked for stand anywhere.

    Returns:
        The texts, each an :class:`Inquiry`.

    Raises:
        TypeError: the count or the seed is no integer.
        ValueError: the count is smaller than 1, or the shares are not one for each place, 0 or more, one above 0.

    Source:
        Liu et al. 2024, section 3, for the question; the language is made up here.

    In PyTorch:
        Nothing of the kind.

    >>> first = draw_inquiries(1, seed=0, shares=[1] + 11 * [0])[0]
    >>> first.place, first.tokens[0] == f"{first.tokens[-2]}={DRINKS[first.answer]}"
    (0, True)
    """
    require_integer("count", count, 1)
    require_integer("seed", seed, 0)
    fits = len(shares) == PLACES and min(shares) >= 0 and sum(shares) > 0
    require(fits, f"shares must be {PLACES} numbers, none below 0 and one above it, got {list(shares)}")
    draw = random.Random(seed)
    return [_inquiry(draw, shares) for _ in range(count)]


def _inquiry(draw: random.Random, shares: Sequence[float]) -> Inquiry:
    place = draw.choices(range(PLACES), shares)[0]
    others = draw.sample([each for each in range(PLACES) if each != place], len(NAMES) - 1)
    names = draw.sample(NAMES, len(NAMES))
    drinks = draw.choices(range(len(DRINKS)), k=len(NAMES))
    tokens = [FILLER] * PLACES
    for at, name, drink in zip([place, *others], names, drinks):
        tokens[at] = f"{name}={DRINKS[drink]}"
    return Inquiry((*tokens, names[0], QUESTION), drinks[0], place)


def inquiries_as_tensors(inquiries: Sequence[Inquiry]) -> tuple[Tensor, Tensor, Tensor]:
    """Texts as a reader takes them, the right answers, and where they stand.

    Returns:
        ``[B, T]`` token numbers, ``[B]`` drinks, ``[B]`` places.
    """
    ids = retrieval_vocabulary().encode([inquiry.tokens for inquiry in inquiries])
    answers, places = zip(*((inquiry.answer, inquiry.place) for inquiry in inquiries))
    return ids, torch.tensor(answers), torch.tensor(places)


def teach_retrieval(
    *, seed: int, shares: Sequence[float] = (1,) * PLACES, steps: int = 250, batch_size: int = 64
) -> Reader:
    """Train a reader on questions that are drawn for it.

    Args:
        seed: of its first weights and of its texts, 0 or more.
        shares: how often it is asked about each place, as in :func:`draw_inquiries`.
        steps: how many batches.
        batch_size: B, texts a batch.

    Returns:
        The trained :class:`~attn_lib.learned.Reader`, two blocks of two heads, in ``eval()``; in some two seconds.

    Raises:
        TypeError: what is to be an integer is not one.
        ValueError: a number that is too small, or shares that do not fit.

    Source:
        Liu et al. 2024, for the question.

    In PyTorch:
        Nothing of the kind.

    >>> teach_retrieval(seed=0, steps=2, batch_size=4)(inquiries_as_tensors(draw_inquiries(3, seed=9))[0]).shape
    torch.Size([3, 4])
    """
    require_integer("steps", steps, 1)
    require_integer("batch_size", batch_size, 1)
    vocabulary = retrieval_vocabulary()
    ids, answers, _ = inquiries_as_tensors(draw_inquiries(steps * batch_size, seed=seed, shares=shares))
    reader = Reader(
        len(vocabulary), len(DRINKS), ask=vocabulary.id(QUESTION), num_heads=2, max_length=PLACES + 2, seed=seed
    )
    train(reader, zip(ids.split(batch_size), answers.split(batch_size)), learning_rate=6e-3)
    return reader
