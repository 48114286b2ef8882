"""Runs the experiment case by case; the file is complete up to the last case at every moment."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import torch

from attn_lib.measure.counting import peak_bytes
from attn_lib.measure.experiment import Case, Settings, all_cases
from attn_lib.measure.machine import free_bytes, machine, versions
from attn_lib.measure.results import (
    ABSENT,
    MEASURED,
    MOST_DEATHS,
    OUT_OF_MEMORY,
    REFUSED,
    Measured,
    Results,
    ResultsError,
    load_results,
)
from attn_lib.measure.timing import Contestant, clock_of, memory_kept, time_in_turn

KEPT_FREE = 0.1  # of the free memory, for what no formula counts


def start(path: Path, settings: Settings, *, fresh: bool = False) -> Results:
    """The results so far: those in the file, if it is of the same run, or none.

    Args:
        path: of the file, which need not be there.
        settings: of the run.
        fresh: forget the results in the file; what is no file of results is refused all the same.

    Raises:
        ResultsError: the file is something else, or of a run on another machine, with other versions or settings.
    """
    device = torch.device(settings.device)
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": settings.device,
        "machine": machine(device),
        "versions": versions(),
        "settings": settings.as_dict(),
    }
    if not path.exists():
        return Results(about)
    kept, now = load_results(path), Results(about)
    if fresh:
        return now
    if kept.identity != now.identity:
        raise ResultsError(
            f"{path}: holds another run: {'; '.join(_differences(kept.identity, now.identity))}."
            " Name another file with --out, or start this one over with --fresh"
        )
    return kept


def _differences(kept: dict, now: dict) -> list[str]:
    return [
        f"{name} {part} {kept[name].get(part)!r}, now {now[name].get(part)!r}"
        for name in ("machine", "versions", "settings")
        for part in dict.fromkeys([*kept[name], *now[name]])
        if kept[name].get(part) != now[name].get(part)
    ] or [f"device {kept['device']!r}, now {now['device']!r}"]


def run(
    path: Path,
    settings: Settings,
    results: Results,
    *,
    before_case: Callable[[Case, int, int], None] = lambda case, index, of: None,
    after_round: Callable[[int, int], None] = lambda done, of: None,
) -> Results:
    """Measure what is missing in ``results``, and write the file after every case.

    Where the process is killed inside a case, the file says so at the next start; a case in which that happened
    twice is given up and named. Nothing else is ever lost.
    """
    cases = all_cases(settings)
    threads, deaths = torch.get_num_threads(), dict(results.deaths)
    torch.set_num_threads(settings.threads)
    try:
        for index, case in enumerate(cases):
            before_case(case, index, len(cases))
            key = case.group, case.size
            if key in results.cases:
                continue
            if deaths.get(key, 0) >= MOST_DEATHS:
                reason = f"the process was killed here {deaths[key]} times, probably for want of memory"
                results.cases[key] = [Measured("all", OUT_OF_MEMORY, reason)]
                continue
            results.deaths = deaths | {key: deaths.get(key, 0) + 1}
            results.write(path)  # what a process that is killed here leaves
            results.cases[key] = run_case(case, settings, after_round)
        results.complete = True
    finally:  # an end in order, by an error too, is no death
        results.deaths = {key: times for key, times in deaths.items() if key not in results.cases}
        results.write(path)
        torch.set_num_threads(threads)
    return results


def run_case(
    case: Case, settings: Settings, after_round: Callable[[int, int], None] = lambda done, of: None
) -> list[Measured]:
    """Every way of a case: refused if it would not fit, else tried, its memory counted, and timed beside the others."""
    # On a GPU PyTorch keeps what is freed. On a CPU too, or half of the equation's time would be the system's.
    with memory_kept() if settings.memory_kept else nullcontext():
        return _run_case(case, settings, after_round)


def _run_case(case: Case, settings: Settings, after_round: Callable[[int, int], None]) -> list[Measured]:
    device = torch.device(settings.device)
    _let_go(device)
    room = int(free_bytes(device) * (1 - KEPT_FREE))
    if case.inputs > room:
        return [Measured("all", REFUSED, _too_much(case.inputs, room), expected_bytes=case.inputs)]
    torch.manual_seed(0)
    try:
        ways = case.build()
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return [Measured("all", OUT_OF_MEMORY, _first_line(error), expected_bytes=case.inputs)]
    room -= case.inputs
    found: dict[str, Measured] = {}
    clock, took, peaks = clock_of(device), {}, {}
    for way in ways:
        if way.needs > room:
            found[way.name] = Measured(way.name, REFUSED, _too_much(way.needs, room), expected_bytes=way.needs)
            continue
        try:
            with _heard(case.group == "kernels") as said:
                way.call()
            took[way.name] = clock(way.call, 1)
            peaks[way.name] = peak_bytes(way.call, device=device)
        except (RuntimeError, MemoryError) as error:
            took.pop(way.name, None)
            if out_of_memory(error):
                status, reason = OUT_OF_MEMORY, _first_line(error)
            elif case.group == "kernels":
                status, reason = ABSENT, "; ".join(dict.fromkeys(_first_line(each.message) for each in said))
                reason = reason or _first_line(error)
            else:
                raise
            found[way.name] = Measured(way.name, status, reason, expected_bytes=way.needs)
            _let_go(device)
    alive = [way for way in ways if way.name in took]
    timings = (
        time_in_turn(
            [Contestant(way.name, way.call) for way in alive],
            clock,
            settings.rounds,
            took=took,
            sample_seconds=0.0 if settings.rounds == 1 else 0.02,
            after_round=after_round,
        )
        if alive
        else []
    )
    for way, timing in zip(alive, timings, strict=True):
        seconds = [float(f"{each:.6g}") for each in timing.seconds]
        found[way.name] = Measured(way.name, MEASURED, "", seconds, peaks[way.name], way.needs, way.flops, way.moves)
    return [found[way.name] for way in ways]


@contextmanager
def _heard(listen: bool) -> Iterator[list]:
    """PyTorch warns of each reason why a kernel is not there: here they become part of the record."""
    if not listen:
        yield []
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield said


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was all that was lacking. On a CPU PyTorch says so in words alone."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(words in str(error).lower() for words in ("not enough memory", "can't allocate memory", "out of memory"))


def _let_go(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _too_much(needs: int, room: int) -> str:
    return f"needs about {_gib(needs)}, and {_gib(room)} are free"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _first_line(said: object) -> str:
    lines = str(said).strip().splitlines()
    return lines[0].split(" (Triggered internally")[0][:200] if lines else type(said).__name__
