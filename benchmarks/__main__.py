"""The command: ``python -m benchmarks``, from the repository's root; ``make bench`` calls it."""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import torch

from attn_lib.measure.machine import machine, versions
from attn_lib.measure.timing import LEAST_ROUNDS, clock_of, time_in_turn
from benchmarks import cases, report
from benchmarks.contest import Case, Disagreement, check_agreement
from benchmarks.peers import PACKAGES
from benchmarks.report import Result

ROUNDS = 21
# 0: done. 1: contestants disagree; with --strict, a target missed. 2: cannot run. 130: interrupted, as shells have it.


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        return _refuse("--device cuda: PyTorch sees no GPU here")
    device = torch.device(options.device)
    sizes = cases.SMOKE if options.quick else cases.Sizes()
    chosen = cases.all_cases(sizes.larger() if options.large else sizes, device)
    if options.only:
        chosen = [case for case in chosen if any(fnmatchcase(case.name, pattern) for pattern in options.only)]
    if options.show:
        return _show_kept(options.show, chosen, options.markdown)
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not chosen:
        return _refuse("--only: no case has such a name; --list shows all names")
    lacking = _lacking(chosen)
    if lacking:
        return _refuse(f"not installed: {', '.join(lacking)}; `make bench` installs the extra `bench` first")
    now = datetime.now(UTC)
    out = options.out or Path("_build", "bench", f"{now:%Y-%m-%dT%H-%M-%S}.json")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _refuse(f"--out {out}: {error.strerror}")
    if out.is_dir():
        return _refuse(f"--out {out} is a directory")
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    if options.quick:  # targets are for the real sizes
        chosen = [replace(case, targets=()) for case in chosen]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    results: list[Result] = []
    stopped = ""
    try:
        _run(chosen, device, rounds, options.quick, results)
    except KeyboardInterrupt:
        stopped = f"Interrupted: {len(results)} of {len(chosen)} cases are done."
    finally:  # also on the way out of an error: what was measured is kept
        measurement = rounds >= LEAST_ROUNDS and not options.quick
        content = report.record(
            results,
            complete=len(results) == len(chosen),
            measurement=measurement,
            date=now.isoformat(timespec="seconds"),
            machine=machine(device),
            versions=versions(list(PACKAGES.values())),
            settings={
                "device": options.device,
                "threads": torch.get_num_threads(),
                "rounds": rounds,
                "quick": options.quick,
                "large": options.large,
                "only": options.only,
            },
        )
        report.write(out, content)
        torch.set_num_threads(threads)
    _show(results, content, out, options.markdown, stopped)
    if stopped:
        return 130
    disagree = any(result.problem for result in results)
    return 1 if disagree or (options.strict and report.missed(results)) else 0


def _run(chosen: Sequence[Case], device: torch.device, rounds: int, quick: bool, results: list[Result]) -> None:
    """Every case in its turn; a case that is done is added to ``results`` at once."""
    from tqdm import tqdm

    clock = clock_of(device)
    # No bar where nobody watches. No estimate of the time left: the cases take from a second to two minutes.
    shape = "{percentage:3.0f}% |{bar}| {elapsed} {desc}"
    with tqdm(total=len(chosen), disable=None, bar_format=shape, leave=False) as bar:
        for index, case in enumerate(chosen):
            bar.set_description_str(case.name)

            def after_round(done: int, of: int, before: int = index) -> None:
                bar.n = before + done / of
                bar.refresh()

            results.append(_run_case(case, clock, rounds, quick, after_round))
            gc.collect()


def _run_case(
    case: Case, clock: Callable[..., float], rounds: int, quick: bool, after_round: Callable[[int, int], None]
) -> Result:
    torch.manual_seed(0)
    contestants = case.build()
    try:
        took = check_agreement(contestants)
    except Disagreement as problem:
        return Result(case, problem=" ".join(str(problem).split()))
    settings = {"sample_seconds": 0.0} if quick else {}
    return Result(case, time_in_turn(contestants, clock, rounds, took=took, after_round=after_round, **settings))


def _show(results: list[Result], content: dict, out: Path, markdown: bool, stopped: str) -> None:
    about, used, settings = content["machine"], content["versions"], content["settings"]
    if results:
        print(report.tables(results, markdown=markdown), report.LEGEND, sep="\n\n", end="\n\n")
    where = about.get("gpu") or f"{about['processor']}, {settings['threads']} thread, CPU time"
    print(
        f"{where}, up to {settings['rounds']} rounds;", ", ".join(f"{name} {used[name]}" for name in used), end="\n\n"
    )
    print(report.summary(results))
    if settings["quick"]:
        print("A smoke run at small sizes: not a measurement.")
    elif not content["measurement"]:
        print(f"Fewer than {LEAST_ROUNDS} rounds: not a measurement.")
    if stopped:
        print(stopped)
    print(f"Kept in {out}")


def _show_kept(path: Path, chosen: Sequence[Case], markdown: bool) -> int:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        results = report.results_of(content, chosen)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _refuse(f"--show {path}: cannot be read as a record of a run: {type(error).__name__}: {error}")
    _show(results, content, path, markdown, "" if content["complete"] else "The run was not complete.")
    return 0


def _lacking(chosen: Sequence[Case]) -> list[str]:
    """What the chosen cases need and is not installed."""
    needed = dict.fromkeys(package for case in chosen for package in case.needs)
    return [PACKAGES.get(package, package) for package in needed if find_spec(package) is None]


def _refuse(message: str) -> int:
    print(f"benchmarks: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time attn_lib beside other libraries.")
    add = parser.add_argument
    add(
        "--rounds",
        type=_positive,
        metavar="N",
        help=f"rounds at most (default {ROUNDS}; long cases get {LEAST_ROUNDS})",
    )
    add("--only", action="append", metavar="GLOB", help="only the cases whose name fits; may be given several times")
    add("--list", action="store_true", help="show the names of the cases and end")
    add("--large", action="store_true", help="also layers and tiles at S = 8192 and 16384")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="cuda times by events on the GPU")
    add("--out", type=Path, metavar="FILE", help="where the JSON goes (default _build/bench/DATE.json)")
    add("--quick", action="store_true", help="a smoke run: small sizes, one round, not a measurement")
    add("--show", type=Path, metavar="FILE", help="measure nothing, show the tables of a kept file")
    add("--markdown", action="store_true", help="show the tables as Markdown")
    add("--strict", action="store_true", help="exit status 1 where a target is missed")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
