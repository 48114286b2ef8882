"""What a comparison is made of: contestants that do the same work, the targets set for them, the case they meet in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import torch

from attn_lib.measure.spread import Middle
from attn_lib.measure.timing import Contestant


@dataclass(frozen=True)
class Target:
    """A bound on how long one contestant takes, in multiples of the fastest of some others.

    Attributes:
        subject: whose time it is.
        bound: the number to keep.
        against: the others, of which the fastest counts; none for a bound in seconds.
        faster: the bound is how many times as fast as the others the subject is, at least;
            else how many times as long it takes, at most.
        shown: what the others are called together.
    """

    subject: str
    bound: float
    against: tuple[str, ...] = ()
    faster: bool = False
    shown: str = ""

    def measured(self, seconds: Mapping[str, Sequence[float]]) -> Middle:
        """The number that the bound is for, from every contestant's seconds, round by round."""
        own = seconds[self.subject]
        if not self.against:
            return Middle.of(own)
        others = [seconds[name] for name in self.against]
        if self.faster:
            return min((Middle.of_ratios(each, own) for each in others), key=attrgetter("median"))
        return max((Middle.of_ratios(own, each) for each in others), key=attrgetter("median"))

    def reached(self, seconds: Mapping[str, Sequence[float]]) -> bool:
        measured = self.measured(seconds).median
        return measured >= self.bound if self.faster else measured <= self.bound

    def __str__(self) -> str:
        if not self.against:
            return f"{self.subject} ≤ {self.bound * 1e3:g} ms"
        others = self.shown or " or ".join(self.against)
        if self.faster:
            return f"{self.subject} ≥ {self.bound:g} x as fast as {others}"
        return f"{self.subject} ≤ {self.bound:g} x {others}"


@dataclass(frozen=True)
class Case:
    """Contestants that meet under the same settings. They are built when their turn comes, and then let go.

    Attributes:
        group: cases of one group share a table.
        label: the row's name in that table.
        build: makes the contestants; the first is the one that the others are multiples of.
        targets: what is aimed at.
        needs: packages without which it cannot be built, as they are imported.
        settings: sizes, for the record.
    """

    group: str
    label: str
    build: Callable[[], Sequence[Contestant]]
    targets: tuple[Target, ...] = ()
    needs: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What ``--only`` is matched with."""
        return f"{self.group}/{self.label}"


class Disagreement(Exception):
    """Two contestants of one case gave different numbers, so that their times say nothing."""


def check_agreement(contestants: Sequence[Contestant]) -> dict[str, float]:
    """Let every contestant work once, and compare what came out; this also warms them up.

    Returns:
        Roughly how many seconds each took, on the wall.

    Raises:
        Disagreement: one gave other numbers than the first.
    """
    first, expected, took = "", None, {}
    for contestant in contestants:
        if contestant.prepare is not None:
            contestant.prepare()
        start = time.perf_counter()
        result = contestant.call()
        took[contestant.name] = time.perf_counter() - start
        if not contestant.compared:
            continue
        if expected is None:
            first, expected = contestant.name, result
            continue
        try:
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        except AssertionError as error:
            raise Disagreement(f"{contestant.name} differs from {first}: {error}") from None
    return took
