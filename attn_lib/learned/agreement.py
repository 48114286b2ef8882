"""A small language in which a verb has to agree with a noun that may be far away: *the keys on the table are lost*."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from attn_lib.errors import require_integer
from attn_lib.learned.vocabulary import Vocabulary

BLANK = "___"  # where the verb belongs that is asked for

# Pairs are singular and plural.
NOUNS = tuple(
    (noun, {"box": "boxes", "man": "men"}.get(noun, noun + "s"))
    for noun in ["book", "box", "car", "cat", "chair", "dog", "door", "friend", "key", "letter", "man", "table"]
)
VERBS = tuple((verb + "s", verb) for verb in ["hold", "like", "see"])
PLACES = ("behind", "by", "near", "on", "under", "with")
QUALITIES = ("new", "old", "red", "small")
STATES = ("big", "gone", "here", "late", "lost")

RULES = f"""\
sentence -> [ opening , ] phrase {BLANK} state .
opening  -> place phrase
phrase   -> the [ quality ] noun [ addition ]
addition -> place phrase | that phrase verb
noun     -> {" ".join("/".join(pair) for pair in NOUNS[:4])} ...
verb     -> {" ".join("/".join(pair) for pair in VERBS)}
place    -> {" ".join(PLACES)}
quality  -> {" ".join(QUALITIES)}
state    -> {" ".join(STATES)}"""

DEEPEST = 3  # phrases inside phrases


@dataclass(frozen=True)
class Agreement:
    """A sentence whose verb is left out.

    Attributes:
        tokens: the sentence, :data:`BLANK` in place of the verb.
        number: 0 where the verb is singular (*is*), 1 where it is plural (*are*).
        subject: the place of the noun that decides it.
        nouns: each noun before the verb, its place and its number, from left to right.
    """

    tokens: tuple[str, ...]
    number: int
    subject: int
    nouns: tuple[tuple[int, int], ...]

    def __len__(self) -> int:
        """How many tokens it has."""
        return len(self.tokens)

    @property
    def attractors(self) -> int:
        """How many nouns before the verb have the other number."""
        return sum(number != self.number for _, number in self.nouns)

    @property
    def last_noun(self) -> int:
        """The number of the noun that is nearest to the verb."""
        return self.nouns[-1][1]


def agreement_vocabulary() -> Vocabulary:
    """Every token of the language.

    >>> len(agreement_vocabulary())
    51
    """
    words = [word for pair in (*NOUNS, *VERBS) for word in pair]
    return Vocabulary([*words, *PLACES, *QUALITIES, *STATES, "the", "that", ",", ".", BLANK])


def draw_sentences(count: int, *, seed: int, held_out: Iterable[Agreement] = ()) -> list[Agreement]:
    """Draw sentences at random by :data:`RULES`.

    Two of five begin with a place and a comma, so that the subject is not simply the first noun; additions
    stand inside each other, at most three. Short sentences come more than once.

    Args:
        count: how many, 1 or more.
        seed: where the draw begins; the same seed gives the same sentences on every machine.
        held_out: sentences that are passed over, and others drawn in their place: what a model will be tested on.

    Returns:
        The sentences, each an :class:`Agreement`.

    Raises:
        TypeError: the count or the seed is no integer.
        ValueError: the count is smaller than 1.

    Source:
        Linzen et al. 2016, for the question and the word attractor; the language is made up here.

    In PyTorch:
        Nothing of the kind.

    >>> sentence = draw_sentences(1, seed=3)[0]
    >>> sentence.tokens[sentence.subject] in {word for pair in NOUNS for word in pair}
    True
    >>> sentence in draw_sentences(100, seed=3, held_out=[sentence])
    False
    """
    require_integer("count", count, 1)
    require_integer("seed", seed, 0)
    unseen = {sentence.tokens for sentence in held_out}
    return list(itertools.islice((each for each in _sentences(seed) if each.tokens not in unseen), count))


def _sentences(seed: int) -> Iterator[Agreement]:
    draw = random.Random(seed)
    while True:
        yield _sentence(draw)


def _sentence(draw: random.Random) -> Agreement:
    tokens: list[str] = []
    nouns: list[tuple[int, int]] = []
    if draw.random() < 0.4:
        tokens.append(draw.choice(PLACES))
        _phrase(draw, tokens, nouns, depth=2)
        tokens.append(",")
    first = len(nouns)
    number = _phrase(draw, tokens, nouns, depth=0)
    subject = nouns[first][0]
    tokens += [BLANK, draw.choice(STATES), "."]
    return Agreement(tuple(tokens), number, subject, tuple(nouns))


def _phrase(draw: random.Random, tokens: list[str], nouns: list[tuple[int, int]], depth: int) -> int:
    """Append a phrase and what is inside it; returns its number."""
    number = draw.randrange(2)
    tokens.append("the")
    if draw.random() < 0.3:
        tokens.append(draw.choice(QUALITIES))
    nouns.append((len(tokens), number))
    tokens.append(draw.choice(NOUNS)[number])
    kind = draw.random() if depth < DEEPEST else 1.0
    if kind < (0.45 if depth == 0 else 0.3):
        tokens.append(draw.choice(PLACES))
        _phrase(draw, tokens, nouns, depth + 1)
    elif kind < (0.6 if depth == 0 else 0.4):
        tokens.append("that")
        inner = _phrase(draw, tokens, nouns, depth + 1)
        tokens.append(draw.choice(VERBS)[inner])
    return number
