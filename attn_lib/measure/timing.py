"""Interleaved timing: round after round every contestant once, so that a slow spell of the machine hits all alike.

Every other round goes the other way: none is always the one after the same other, or after the pause between rounds.
"""

from __future__ import annotations

import ctypes
import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from attn_lib.errors import require, require_integer
from attn_lib.measure.spread import Middle

LEAST_ROUNDS = 7
SAMPLE_SECONDS = 0.02  # shorter samples would time the clock too
LONG_CALL_SECONDS = 0.2  # one call is then a sample, without trying
CASE_SECONDS = 8.0  # a case of which the rounds take longer gets fewer of them, but never fewer than the least


@dataclass(frozen=True)
class Contestant:
    """One way of doing some work, which is timed beside other ways.

    Attributes:
        name: what it is called in tables.
        call: does the work once and returns what came out.
        compared: whether what came out must be what the first contestant gives.
        prepare: runs before every sample and is not timed.
        calls: how many calls make one sample; left out, as many as fill a sample's time.
        times_itself: ``call`` returns the seconds, and no clock is needed.
    """

    name: str
    call: Callable[[], object]
    compared: bool = True
    prepare: Callable[[], object] | None = None
    calls: int | None = None
    times_itself: bool = False


M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # as malloc.h has them

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

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return Middle.of(self.seconds).median

    @property
    def spread(self) -> float:
        """Half the interquartile range, as a share of the median."""
        return Middle.of(self.seconds).spread


def compare_times(
    calls: Mapping[str, Callable[[], object]], *, device: torch.device | str = "cpu", rounds: int = LEAST_ROUNDS
) -> dict[str, Timing]:
    """Time several calls side by side, round after round, so that a slow spell of the machine hits all alike.

    Each is called once before, to warm up. Short calls are repeated until a sample is long enough for the clock.

    Args:
        calls: name to a function without arguments.
        device: on a CPU, processor time of this process counts; on a GPU, the time between two events in its queue.
        rounds: samples of each; 1 or more. Of more than 7 some are left out where all would take long.

    Returns:
        Name to a :class:`Timing` with ``median``, ``spread`` and the ``seconds`` of each round.

    Raises:
        ValueError: no call, rounds below 1.
        TypeError: rounds that are no integer.

    Source:
        The interleaving is what keeps ratios steady on a shared machine; the README's table is made in the same way.

    In PyTorch:
        ``torch.utils.benchmark.Timer`` times one call after the other, on the wall.

    >>> timings = compare_times({"one": lambda: sum(range(1000)), "ten": lambda: sum(range(10_000))})
    >>> timings["ten"].median > timings["one"].median
    True
    """
    require_integer("rounds", rounds, 1)
    require(len(calls) > 0, "calls must hold at least one function, got none")
    contestants = [Contestant(name, call) for name, call in calls.items()]
    clock, took = clock_of(device), {}
    for each in contestants:
        took[each.name] = clock(each.call, 1)
    timings = time_in_turn(contestants, clock, rounds, took=took)
    return {timing.name: timing for timing in timings}


@contextmanager
def memory_kept() -> Iterator[None]:
    """Inside it, freed memory stays with this process, as PyTorch's own allocator keeps it on a GPU.

    A large tensor is otherwise handed back to the operating system, and the next call waits until the system has
    found, cleared and mapped as much again, page by page: a timing of large tensors times that too. Only Linux with
    glibc can be told so; elsewhere nothing changes.

    Source:
        ``mallopt(3)``: ``M_MMAP_MAX`` and ``M_TRIM_THRESHOLD``, set back to their defaults at the end.

    In PyTorch:
        On a GPU freed memory is kept; ``torch.cuda.empty_cache`` hands it back.

    >>> with memory_kept():
    ...     timings = compare_times({"sum": lambda: sum(range(1000))})
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    told = hasattr(libc, "mallopt")
    if told:
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        if told:
            libc.mallopt(M_MMAP_MAX, 65536)
            libc.mallopt(M_TRIM_THRESHOLD, 128 * 1024)
            libc.malloc_trim(0)


def clock_of(device: torch.device | str) -> Clock:
    """The clock that fits a device."""
    if torch.device(device).type != "cuda":
        return cpu_seconds

    def on_this_gpu(call: Callable[[], object], calls: int) -> float:
        with torch.cuda.device(device):  # with several, each has a queue of its own
            return gpu_seconds(call, calls)

    return on_this_gpu


def time_in_turn(
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
