"""A worked example in memory: what a document gives, and what it prints, digits kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from torch import Tensor

from attn_lib.trace import STAGES, AttentionTrace, trace_from
from attn_lib.worked_examples.rounding import padded

Nested: TypeAlias = "str | list[Nested]"

SCORE_LIKE = ("scores", "scaled_scores", "masked_scores", "weights")  # a column of these is a key
QUERY_ROWS = {"X", "Q", *SCORE_LIKE, "head_outputs", "concatenated", "output"}
KEY_ROWS = {"context", "K", "V"}


@dataclass(frozen=True)
class Place:
    """A stage or a part of it, counted from 0; None stands for all of an axis, or for an axis that is not there.

    Attributes:
        stage: its name.
        head: which head.
        row: which query, or key of K and V.
        column: which key of the scores and weights, else which number of the vector.
    """

    stage: str
    head: int | None = None
    row: int | None = None
    column: int | None = None

    @property
    def index(self) -> tuple[int, ...]:
        """Where one element stands in its tensor."""
        return tuple(i for i in (self.head, self.row, self.column) if i is not None)


@dataclass(frozen=True)
class Number:
    """One printed number.

    Attributes:
        place: the element that it states.
        text: its digits.
        decimals: to how many decimals it holds, where its printing leaves out zeros at the end; else None. Numbers are
            the same by what stands in print: this does not tell them apart.
    """

    place: Place
    text: str
    decimals: int | None = field(default=None, compare=False)

    @property
    def stated(self) -> str:
        """Its digits with the zeros that print left out; by these it is judged."""
        return padded(self.text, self.decimals)


@dataclass(frozen=True)
class Printed:
    """A part of a stage as the document prints it.

    Attributes:
        place: which part.
        values: nested lists of strings.
        numbers: the same, a :class:`Number` each.
    """

    place: Place
    values: Nested
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Erratum:
    """Numbers that the document prints wrongly, those that are right, and why.

    Attributes:
        place: which part of a stage.
        printed: what stands in the document.
        right: what should.
        why: the reason, in words.
    """

    place: Place
    printed: tuple[Number, ...]
    right: tuple[Number, ...]
    why: str

    @property
    def pairs(self) -> list[tuple[Number, Number]]:
        """Each printed number with the one that is right there."""
        return list(zip(self.printed, self.right, strict=True))

    @property
    def off(self) -> list[tuple[Number, Number]]:
        """Those pairs of which the printed number is called wrong; the others fill up a row."""
        return [(printed, right) for printed, right in self.pairs if right.text not in (printed.text, printed.stated)]


@dataclass(frozen=True)
class Claim:
    """What a document says about one row, as numbers.

    Attributes:
        place: the row.
        kind: ``sum``, ``printed_sum``, ``rounded_sum``, ``order``, ``largest``, ``smallest``,
            ``difference``, ``carried_on`` or ``divided_by_sum``.
        columns: the columns that it names, if any.
        texts: the numbers that it states, if any.
        says: the claim in words, or ``""``.
    """

    place: Place
    kind: str
    columns: tuple[int, ...]
    texts: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class WorkedExample:
    """One worked example, its parts known to fit together, its numbers not yet known to be right.

    Attributes:
        name: the file, fit to be shown.
        title: the author's.
        source: where it comes from.
        note: what else there is to say, or ``""``.
        query_tokens: names of the positions that ask, or () where the file names none.
        key_tokens: names of the positions that answer, likewise.
        given: float64 tensors, under the names and with the shapes of :func:`attn_lib.trace_from`.
        given_strings: the same as they stand in the file.
        settings: keyword arguments of :func:`attn_lib.trace_from`.
        printed: what the document prints (:class:`Printed`).
        errata: what it prints wrongly (:class:`Erratum`).
        claims: what it says about its numbers (:class:`Claim`).

    >>> from attn_lib.worked_examples import load_builtin
    >>> example = load_builtin("self_attention_love")
    >>> example.printed_values("output", "love")
    ['0.8933', '0.9295', '0.8176']
    >>> example.trace().output.shape
    torch.Size([4, 3])
    """

    name: str
    title: str
    source: Mapping[str, str]
    note: str
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    given: Mapping[str, Tensor]
    given_strings: Mapping[str, Nested]
    settings: Mapping[str, object]
    printed: tuple[Printed, ...] = ()
    errata: tuple[Erratum, ...] = ()
    claims: tuple[Claim, ...] = ()

    @cached_property
    def _exact(self) -> AttentionTrace:
        return trace_from(self.given, **self.settings)

    def trace(self, given: Mapping[str, Tensor] | None = None, **settings) -> AttentionTrace:
        """Every stage in float64; with changes, the calculation of somebody who went wrong there.

        Args:
            given: tensors that replace or join those of the example, whole stages among them.
            settings: arguments of :func:`attn_lib.trace_from` that replace those of the example:
                ``example.trace(scale=1.0)`` leaves the division out.

        Raises:
            ValueError: shapes that do not fit.
        """
        if not given and not settings:
            return self._exact
        return trace_from({**self.given, **(given or {})}, **{**self.settings, **settings})

    def carried_trace(self) -> AttentionTrace:
        """Every stage in float64, each computed from the *printed* numbers of the stages before it.

        That is what one gets on paper by going on with rounded intermediates. A stage that is printed
        twice is carried on as printed last; what of a stage is not printed stays unrounded.
        """
        carried: dict[str, Tensor] = {}
        computed: dict[str, Tensor | None] = {}
        for stage in STAGES:
            computed[stage] = getattr(self.trace(carried), stage)
            numbers = [number for number in self.numbers if number.place.stage == stage]
            if numbers and stage not in self.given:
                carried[stage] = computed[stage].clone()
                for number in numbers:
                    carried[stage][number.place.index] = float(number.text)
        return AttentionTrace(**computed)

    @property
    def numbers(self) -> list[Number]:
        """Every printed number, in the order of the calculation."""
        found = [number for entry in self.printed for number in entry.numbers]
        return sorted(found, key=lambda number: stage_order(number.place.stage))

    @property
    def corrections(self) -> dict[Number, Number]:
        """Each printed number that an erratum calls wrong, with the one that it calls right."""
        return dict(pair for erratum in self.errata for pair in erratum.off)

    def value(self, place: Place, trace: AttentionTrace | None = None) -> float:
        """The float64 value of one element, in the exact trace or in another."""
        trace = self.trace() if trace is None else trace
        if place.stage == "d_k":
            return float(trace.Q.shape[-1])
        return getattr(trace, place.stage)[place.index].item()

    def tensor(self, name: str) -> Tensor:
        """A given tensor or a computed stage by name, shapes as in :class:`attn_lib.AttentionTrace`.

        Raises:
            ValueError: what is given does not lead there.
        """
        tensor = self.given.get(name)
        tensor = getattr(self.trace(), name, None) if tensor is None else tensor
        if tensor is None:
            lead = f"{', '.join(self.given)} as given do not lead to {name}"
            unscaled = self.settings["scale"] is None and self.trace().Q is None
            raise ValueError(lead + "; without Q, scores_divided_by must be none or a number" * unscaled)
        return tensor

    def score_like(self) -> Tensor | None:
        """A stage with a row for each query and a column for each key, or None where there is none."""
        stages = (getattr(self.trace(), name) for name in SCORE_LIKE)
        return next((stage for stage in stages if stage is not None), None)

    def names(self, name: str, axis: str) -> tuple[str, ...]:
        """The tokens along an axis, or () where its positions are only counted."""
        if axis == "column":
            return self.key_tokens if name in SCORE_LIKE else ()
        rows = self.query_tokens if name in QUERY_ROWS else self.key_tokens if name in KEY_ROWS else ()
        return rows if axis == "row" else ()

    def axes(self, name: str) -> dict[str, int]:
        """The axes of a tensor or stage (head, row, column) with their lengths; none for ``d_k``.

        Raises:
            ValueError: as :meth:`tensor`.
        """
        shape = self.tensor("Q" if name == "d_k" else name).shape
        if name == "d_k":  # the width of Q is one number
            return {}
        return dict(zip(("head", "row", "column")[3 - len(shape) :], shape, strict=True))

    def position(self, name: str, axis: str, word: str | int) -> int:
        """The position that a token, or a number counted from 0, means along an axis.

        Raises:
            ValueError: the axis is not there, or the word means no position, or several.
        """
        axes, names, word = self.axes(name), self.names(name, axis), str(word)
        if axis not in axes:
            raise ValueError(f"{name} has no {axis} axis here")
        if names.count(word) == 1:
            return names.index(word)
        if re.fullmatch("[0-9]{1,6}", word) and int(word) < axes[axis]:
            return int(word)
        fits = f"0 to {axes[axis] - 1}" + "".join(f", {shown(token)}" for token in dict.fromkeys(names))
        several = f"; it stands {names.count(word)} times, so count" if word in names else ""
        raise ValueError(f"{shown(word)!r} is not in {name}{several}; {fits} would fit")

    def words(self, place: Place) -> str:
        """A place as a reader would say it: ``weights, row love, column learning``."""
        said = [place.stage]
        for axis in ("head", "row", "column"):
            i = getattr(place, axis)
            if i is not None:
                said.append(f"{axis} {shown((self.names(place.stage, axis) or range(i + 1))[i])}")
        return ", ".join(said)

    def printed_values(
        self, stage: str, row: str | int | None = None, *, head: int | None = None, printing: int = 0
    ) -> Nested:
        """What the document prints for a stage, or for a row or head of it, as strings.

        Args:
            stage: a name of :class:`attn_lib.AttentionTrace`, ``d_k``, or a name under ``given``.
            row: a token, or a row counted from 0.
            head: a head counted from 0.
            printing: which printing, where the document prints the same part more than once.

        Raises:
            ValueError: there is no such part.
            KeyError: it is not printed, or not that often.
        """
        asked = {axis: word for axis, word in (("head", head), ("row", row)) if word is not None}
        asked = Place(stage, **{axis: self.position(stage, axis, word) for axis, word in asked.items()})
        sources = [(entry.place, entry.values) for entry in self.printed if entry.place.stage == stage]
        sources += [(Place(stage), self.given_strings[stage])] if stage in self.given_strings else []
        found = [part for place, values in sources for part in _part(place, values, asked)]
        if not 0 <= printing < len(found):
            times = f"{self.name} prints {self.words(asked)} {len(found)} times"
            raise KeyError(f"{times}; printing {printing} is not there")
        return found[printing]


def _part(place: Place, values: Nested, asked: Place) -> Iterator[Nested]:
    """The asked part of a printed part, if it holds it whole."""
    for axis in ("head", "row", "column"):
        own, wanted = getattr(place, axis), getattr(asked, axis)
        if own is None and wanted is not None:
            values = values[wanted]
        elif own != wanted:
            return
    yield values


def stage_order(stage: str) -> float:
    """Where a stage stands in the calculation; ``d_k`` is printed when the scores are about to be scaled."""
    return STAGES.index("scaled_scores") - 0.5 if stage == "d_k" else STAGES.index(stage)


def within(place: Place, axes: Mapping[str, int], values: Nested, decimals: int | None = None) -> tuple[Number, ...]:
    """The single numbers of a printed part: nested values along the axes that the place leaves open."""
    for axis in axes:
        if getattr(place, axis) is None:
            parts = [within(replace(place, **{axis: i}), axes, part, decimals) for i, part in enumerate(values)]
            return tuple(number for part in parts for number in part)
    return (Number(place, values, decimals),)


def shown(text: object, limit: int = 80) -> str:
    """Text fit for one line of a terminal: shortened in the middle, escaped if it could steer the terminal."""
    text = str(text)
    text = text if len(text) <= limit else f"{text[: limit // 2]}...{text[-limit // 4 :]}"
    return text if text and text.isprintable() else ascii(text)
