"""What is shown and what is kept: one table a group, the verdict on each target, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from attn_lib.files import write_whole
from attn_lib.measure.spread import Middle
from attn_lib.measure.timing import Timing
from benchmarks.contest import Case, Target

LEGEND = (
    "First the median time of one call, then the others as multiples of it, medians of the ratios of the same round:\n"
    "2.00 takes twice as long. ± is half the interquartile range over the median."
)


@dataclass(frozen=True)
class Result:
    """A case that is done: its timings, or the problem that kept it from being timed."""

    case: Case
    timings: list[Timing] = field(default_factory=list)
    problem: str = ""

    @property
    def seconds(self) -> dict[str, list[float]]:
        """Of every contestant, one number a round."""
        return {timing.name: timing.seconds for timing in self.timings}

    def verdicts(self) -> list[tuple[Target, Middle, bool]]:
        """Each target with what was measured and whether that reaches it."""
        if not self.timings:
            return []
        seconds = self.seconds
        return [(target, target.measured(seconds), target.reached(seconds)) for target in self.case.targets]


def missed(results: Iterable[Result]) -> list[str]:
    """One line for each target that was not reached."""
    return [
        f"{_verdict(target, measured, reached)}: {result.case.name}: {target}, measured {_measured(target, measured)}"
        for result in results
        for target, measured, reached in result.verdicts()
        if not reached
    ]


def tables(results: Sequence[Result], *, markdown: bool = False) -> str:
    """All groups, one after the other, for the terminal or as Markdown."""
    shown = []
    for group, members in groupby(results, key=lambda result: result.case.group):
        heading = f"### {group}" if markdown else group
        shown.append(f"{heading}\n\n{_table(list(members), markdown)}")
    return "\n\n".join(shown)


def summary(results: Sequence[Result]) -> str:
    """How many targets were reached, which were not, and what could not be timed."""
    misses, count = missed(results), sum(len(result.verdicts()) for result in results)
    reached = f"{count - len(misses)} of {count} targets reached" if count else "No targets"
    lines = [f"{reached}; the others:" if misses else reached]
    lines += [f"  {line}" for line in misses]
    lines += [f"not timed, {result.case.name}: {result.problem}" for result in results if result.problem]
    return "\n".join(lines)


def record(results: Sequence[Result], *, complete: bool, **about: object) -> dict[str, object]:
    """Everything as plain numbers and strings; ``about`` is date, machine, versions and settings."""
    return {"complete": complete, **about, "cases": [_case_record(result) for result in results]}


def results_of(content: Mapping[str, Any], cases: Iterable[Case]) -> list[Result]:
    """What :func:`record` has recorded, of those of the cases that are in it."""
    recorded = {case["name"]: case for case in content["cases"]}
    return [
        Result(
            case,
            [
                Timing(each["name"], each["calls_a_round"], each["seconds"])
                for each in recorded[case.name]["contestants"]
            ],
            recorded[case.name]["problem"],
        )
        for case in cases
        if case.name in recorded
    ]


def write(path: Path, content: dict[str, object]) -> None:
    """Write JSON whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _table(results: Sequence[Result], markdown: bool) -> str:
    from tabulate import tabulate

    names = list(dict.fromkeys(timing.name for result in results for timing in result.timings))
    # A heading of one word a line keeps the table narrow; in Markdown a cell is one line.
    headings = ["case", *names, "target", "measured", "verdict"]
    headings = headings if markdown else [heading.replace(" ", "\n") for heading in headings]
    rows = [_row(result, names, "<br>" if markdown else "\n") for result in results]
    return tabulate(rows, headings, tablefmt="github" if markdown else "simple", disable_numparse=True)


def _row(result: Result, names: Sequence[str], line_break: str) -> list[str]:
    cells = dict.fromkeys(names, "")
    for timing in result.timings:
        first = result.timings[0]
        own = Middle.of(timing.seconds)
        ratio = Middle.of_ratios(timing.seconds, first.seconds)
        if timing is first:
            cells[timing.name] = f"{_duration(own.median)} ±{own.spread:.0%}"
        else:
            cells[timing.name] = f"{ratio.median:.2f} ±{ratio.spread:.0%}"
    verdicts = result.verdicts()
    return [
        result.case.label,
        *cells.values(),
        line_break.join(str(target) for target, _, _ in verdicts) or "no target",
        line_break.join(_measured(target, measured) for target, measured, _ in verdicts),
        "not timed" if result.problem else line_break.join(_verdict(*verdict) for verdict in verdicts),
    ]


def _case_record(result: Result) -> dict[str, object]:
    return {
        "name": result.case.name,
        "settings": dict(result.case.settings),
        "problem": result.problem,
        "contestants": [
            {
                "name": timing.name,
                "median_seconds": Middle.of(timing.seconds).median,
                "spread": Middle.of(timing.seconds).spread,
                "rounds": len(timing.seconds),
                "calls_a_round": timing.calls,
                "seconds": timing.seconds,
            }
            for timing in result.timings
        ],
        "targets": [
            {
                "target": str(target),
                "bound": target.bound,
                "measured": measured.median,
                "spread": measured.spread,
                "reached": reached,
            }
            for target, measured, reached in result.verdicts()
        ],
    }


def _measured(target: Target, measured: Middle) -> str:
    # One digit more than the bounds have, so that 1.053 is seen to miss 1.05.
    shown = f"{measured.median:.3f}" if target.against else _duration(measured.median)
    return f"{shown} ±{measured.spread:.0%}"


def _verdict(target: Target, measured: Middle, reached: bool) -> str:
    if reached:
        return "reached"
    near = abs(measured.median - target.bound) <= measured.spread * measured.median
    return "missed, within ±" if near else "missed"


def _duration(seconds: float) -> str:
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
