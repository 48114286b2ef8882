"""Interleaved timing: round after round every contestant once, so that a slow spell of the machine hits all alike.

Every other round goes the other way: none is always the one after the same other, or after the pause between rounds.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from benchmarks.contest import Contestant

LEAST_ROUNDS = 7
SAMPLE_SECONDS = 0.02  # shorter samples would time the clock too
LONG_CALL_SECONDS = 0.2  # one call is then a sample, without trying
CASE_SECONDS = 8.0  # a case of which the rounds take longer gets fewer of them, but never fewer than the least

Clock = Callable[[Callable[[], object], int], float]


def cpu_seconds(call: Callable[[], object], calls: int) -> float:
    """Processor time of one call. What other programs take meanwhile does not count, unlike on the wall."""
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def gpu_seconds(call: Callable[[], object], calls: int) -> float:
    """Time of one call between two events in the GPU's own queue; a call on the CPU returns before it is done."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / calls  # elapsed_time is in milliseconds


@dataclass
class Timing:
    """What was measured of one contestant.

    Attributes:
        name: the contestant's.
        calls: calls in a sample.
        seconds: of one call, one number a round.
    """

    name: str
    calls: int
    seconds: list[float] = field(default_factory=list)


def measure(
    contestants: Sequence[Contestant],
    clock: Clock,
    rounds: int,
    *,
    took: Mapping[str, float],
    sample_seconds: float = SAMPLE_SECONDS,
    after_round: Callable[[int, int], object] = lambda done, of: None,
) -> list[Timing]:
    """Time all contestants in turn, A B C, C B A, A B C, at most ``rounds`` times.

    Rounds are left out, down to :data:`LEAST_ROUNDS`, where all of them would take longer than :data:`CASE_SECONDS`.

    Args:
        took: about how many seconds a call of each takes (:func:`benchmarks.contest.check_agreement`).
    """
    timings, round_seconds = [], 0.0
    for contestant in contestants:
        calls, once = contestant.calls or 1, took[contestant.name]
        if contestant.calls is None and not contestant.times_itself and once < LONG_CALL_SECONDS:
            once = _sample(contestant, clock, 1, warm=False)  # the first call had more to do than the next ones
            calls = max(1, math.ceil(sample_seconds / max(once, 1e-9)))
        round_seconds += once * calls
        timings.append(Timing(contestant.name, calls))
    rounds = min(rounds, max(LEAST_ROUNDS, int(CASE_SECONDS / max(round_seconds, 1e-9))))
    pairs = list(zip(contestants, timings, strict=True))
    collects = gc.isenabled()
    gc.disable()
    try:
        for done in range(1, rounds + 1):
            gc.collect(1)  # what the last round left; the old objects of all libraries would take far longer
            for contestant, timing in pairs if done % 2 else reversed(pairs):
                timing.seconds.append(_sample(contestant, clock, timing.calls, warm=timing.calls > 1))
            after_round(done, rounds)
    finally:
        if collects:
            gc.enable()
    return timings


def _sample(contestant: Contestant, clock: Clock, calls: int, *, warm: bool) -> float:
    if contestant.times_itself:
        return contestant.call()
    if contestant.prepare is not None:
        contestant.prepare()
    elif warm:
        contestant.call()  # what the one before it left in the caches is not its fault
    return clock(contestant.call, calls)
