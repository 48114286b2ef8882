"""A small language pair in which the order of the words is turned round: *I love machine learning*, 私は 機械 学習 が 大好き です 。"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from attn_lib.errors import require, require_bool, require_integer
from attn_lib.learned.vocabulary import Vocabulary

START, STOP = "<start>", "。"  # before the first word of a translation, and its last

# English, Japanese, and whether its verb takes an s. A topic marker は is one token with its word, as in the documents.
SUBJECTS = {
    "I": ("私は", False),
    "you": ("あなたは", False),
    "we": ("私たちは", False),
    "they": ("彼らは", False),
    "he": ("彼は", True),
    "she": ("彼女は", True),
    "the teacher": ("先生は", True),
    "my friend": ("友人は", True),
}
# English without and with s; in Japanese the particle before the verb, its stem, and its ending without and with "not".
PLAIN, NOUN_LIKE = ("ます", "ません"), ("です", "ではありません")
VERBS = {
    "love": ("loves", "が", "大好き", NOUN_LIKE),
    "like": ("likes", "が", "好き", NOUN_LIKE),
    "need": ("needs", "が", "必要", NOUN_LIKE),
    "understand": ("understands", "が", "分かり", PLAIN),
    "study": ("studies", "を", "学び", PLAIN),
    "teach": ("teaches", "を", "教え", PLAIN),
    "explain": ("explains", "を", "説明し", PLAIN),
    "choose": ("chooses", "を", "選び", PLAIN),
    "discuss": ("discusses", "を", "論じ", PLAIN),
}
TOPICS = {
    "machine learning": "機械 学習",
    "deep learning": "深層 学習",
    "language learning": "言語 学習",
    "music": "音楽",
    "history": "歴史",
    "mathematics": "数学",
    "physics": "物理",
    "art": "芸術",
    "science": "科学",
    "statistics": "統計",
}
FIELDS = {"theory": "理論", "future": "未来", "beauty": "美しさ", "meaning": "意味"}
PLACES = {"home": "家", "school": "学校", "university": "大学", "work": "職場"}


def _listed(words: dict[str, str], in_a_row: int) -> str:
    """Words and their translations, some in a row, each row below the first."""
    both = [f"{english} {japanese}" for english, japanese in words.items()]
    rows = [", ".join(both[first : first + in_a_row]) for first in range(0, len(both), in_a_row)]
    return (",\n" + 11 * " ").join(rows)


TRANSLATION_RULES = f"""\
English    subject [do not | does not] verb object [at place]
           object: topic | the field of topic
Japanese   subject [place で] object (が | を) verb 。
           object: topic | topic の field

subject    {_listed({english: japanese for english, (japanese, _) in SUBJECTS.items()}, 4)}
verb       {_listed({verb: f"{particle} {stem} {ending[0]}" for verb, (_, particle, stem, ending) in VERBS.items()}, 3)};
           with not, ます becomes ません, and です becomes ではありません
topic      {_listed(TOPICS, 2)}
field      {_listed(FIELDS, 4)}
place      {_listed(PLACES, 4)};
           only with verbs that have を"""


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation.

    Attributes:
        english: the source's tokens.
        japanese: the translation's tokens, :data:`STOP` the last.
        alignment: for each Japanese token the places of the English phrase that it belongs to; none for が, を, the
            endings without *not*, and :data:`STOP`.
    """

    english: tuple[str, ...]
    japanese: tuple[str, ...]
    alignment: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        """How many tokens there are to write."""
        return len(self.japanese)


def english_vocabulary() -> Vocabulary:
    """Every English token of the language pair.

    >>> len(english_vocabulary())
    53
    """
    verbs = [form for verb, (with_s, *_) in VERBS.items() for form in (verb, with_s)]
    return Vocabulary(" ".join([*SUBJECTS, *verbs, *TOPICS, *FIELDS, *PLACES, "do does not the of at"]).split())


def japanese_vocabulary() -> Vocabulary:
    """Every Japanese token of the language pair, :data:`START` among them.

    >>> "私は" in japanese_vocabulary().tokens
    True
    """
    subjects = [japanese for japanese, _ in SUBJECTS.values()]
    stems = [stem for _, _, stem, _ in VERBS.values()]
    nouns = " ".join([*TOPICS.values(), *FIELDS.values(), *PLACES.values()]).split()
    return Vocabulary([*subjects, *stems, *nouns, *PLAIN, *NOUN_LIKE, "が", "を", "の", "で", START, STOP])


def is_held_out(verb: str, topic: str) -> bool:
    """Whether a verb and a topic are kept apart in all that is drawn for training; *love* and *machine learning* are.

    Args:
        verb: one of the verbs, without an s.
        topic: one of the topics.

    Returns:
        True for 18 of the 90 pairs, two for each verb.

    Raises:
        ValueError: a verb or a topic that the rules do not have.

    >>> is_held_out("love", "machine learning"), is_held_out("love", "music")
    (True, False)
    """
    _require_word("verb", verb, VERBS)
    _require_word("topic", topic, TOPICS)
    return (list(VERBS).index(verb) + list(TOPICS).index(topic)) % 5 == 0


def write_pair(
    subject: str, verb: str, topic: str, *, field: str | None = None, place: str | None = None, negated: bool = False
) -> Pair:
    """Write a sentence and its translation by :data:`TRANSLATION_RULES`.

    Args:
        subject: one of the subjects, in English.
        verb: one of the verbs, without an s.
        topic: one of the topics.
        field: a field of that topic, or none.
        place: where, or nowhere; only with a verb that has を.
        negated: whether *not* is said.

    Returns:
        The :class:`Pair`.

    Raises:
        TypeError: negated that is no bool.
        ValueError: a word that the rules do not have, a place with a verb that takes none.

    Source:
        The language pair is made up here.

    In PyTorch:
        Nothing of the kind.

    >>> pair = write_pair("I", "love", "machine learning")
    >>> print(*pair.english, "|", *pair.japanese)
    I love machine learning | 私は 機械 学習 が 大好き です 。
    >>> pair.alignment
    ((0,), (2, 3), (2, 3), (), (1,), (), ())
    """
    for name, word, words in (
        ("subject", subject, SUBJECTS), ("verb", verb, VERBS), ("topic", topic, TOPICS),
        ("field", field, [None, *FIELDS]), ("place", place, [None, *PLACES]),
    ):  # fmt: skip
        _require_word(name, word, words)
    require_bool("negated", negated)
    with_s, particle, stem, endings = VERBS[verb]
    require(place is None or particle == "を", f"place must be None with {verb!r}, which has が, got {place!r}")

    english: list[str] = []

    def say(text: str) -> tuple[int, ...]:
        """Append English words; the places where they stand."""
        words = text.split()
        english.extend(words)
        return tuple(range(len(english) - len(words), len(english)))

    japanese_subject, takes_s = SUBJECTS[subject]
    at_subject = say(subject)
    at_not = say("does not" if takes_s else "do not") if negated else ()
    at_verb = say(with_s if takes_s and not negated else verb)
    at_field = say(f"the {field} of") if field else ()
    at_topic = say(topic)
    at_place = say(f"at {place}") if place else ()

    japanese = [(japanese_subject, at_subject)]
    japanese += [(PLACES[place], at_place), ("で", at_place)] if place else []
    japanese += [(word, at_topic) for word in TOPICS[topic].split()]
    japanese += [("の", at_field), (FIELDS[field], at_field)] if field else []
    japanese += [(particle, ()), (stem, at_verb), (endings[negated], at_not), (STOP, ())]
    tokens, alignment = zip(*japanese, strict=True)
    return Pair(tuple(english), tokens, alignment)


def draw_pairs(count: int, *, seed: int, held_out: bool = False) -> list[Pair]:
    """Draw pairs at random by :data:`TRANSLATION_RULES`.

    Args:
        count: how many, 1 or more.
        seed: where the draw begins; the same seed gives the same pairs on every machine.
        held_out: only pairs whose verb and topic :func:`is_held_out` keeps apart, or only others.

    Returns:
        The pairs, each a :class:`Pair`.

    Raises:
        TypeError: the count or the seed is no integer, held_out no bool.
        ValueError: the count is smaller than 1, the seed smaller than 0.

    Source:
        The language pair is made up here.

    In PyTorch:
        Nothing of the kind.

    >>> pair = draw_pairs(1, seed=0, held_out=True)[0]
    >>> pair.japanese[-1] == STOP, len(pair.alignment) == len(pair.japanese)
    (True, True)
    """
    require_integer("count", count, 1)
    require_integer("seed", seed, 0)
    require_bool("held_out", held_out)
    draw = random.Random(seed)
    together = [(verb, topic) for verb in VERBS for topic in TOPICS if is_held_out(verb, topic) == held_out]
    return [_pair(draw, together) for _ in range(count)]


def _require_word(name: str, word: str | None, words: Iterable[str | None]) -> None:
    require(word in words, lambda: f"{name} must be one of {[each for each in words if each]}, got {word!r}")


def _pair(draw: random.Random, together: list[tuple[str, str]]) -> Pair:
    verb, topic = draw.choice(together)
    subject = draw.choice(list(SUBJECTS))
    field = draw.choice(list(FIELDS)) if draw.random() < 0.5 else None
    place = draw.choice(list(PLACES)) if VERBS[verb][1] == "を" and draw.random() < 0.5 else None
    return write_pair(subject, verb, topic, field=field, place=place, negated=draw.random() < 0.4)
