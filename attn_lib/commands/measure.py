"""``python -m attn_lib measure --device auto --out FILE``"""

from __future__ import annotations

import argparse
import signal
from contextlib import contextmanager
from pathlib import Path

import torch

from attn_lib.commands.output import INTERRUPTED, RIGHT, Refusal, print_whole
from attn_lib.measure.results import Results, ResultsError


def add_to(commands) -> None:
    """Add the command to the parser."""
    measure = commands.add_parser(
        "measure",
        help="measure what attention costs on this machine",
        description="Measure time and memory of attention over a range of lengths. A run that was stopped is taken up"
        " again by the same command. It takes some five minutes on two cores: let nothing else run meanwhile.",
        epilog="Exit status: 0 complete, 2 it cannot run, 130 interrupted.",
    )
    add = measure.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU if there is one")
    add("--out", metavar="FILE", required=True, help="where the results go (JSON), after every case")
    add("--lengths", type=_lengths, metavar="S,S,...", help="other lengths than the device's own")
    add("--dtype", choices=("float32", "float16", "bfloat16"), help="default: float32 on a CPU, half on a GPU")
    add("--threads", type=_positive, default=1, metavar="N", help="of the CPU (default 1)")
    add("--rounds", type=_positive, metavar="N", help="samples of each at most (default 15; long ones get 7)")
    add("--quick", action="store_true", help="a smoke run at tiny sizes: not a measurement")
    add("--fresh", action="store_true", help="start over where FILE holds a run already")
    measure.set_defaults(run=_measure)


def _measure(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from attn_lib.measure import run
    from attn_lib.measure.experiment import Settings

    kind = options.device
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise Refusal("--device cuda: PyTorch sees no GPU here; --device cpu would fit")
    settings = Settings.of(torch.device(kind))
    if options.quick:
        settings = settings.quick()
    given = {"dtype": options.dtype, "threads": options.threads, "rounds": options.rounds}
    if options.lengths:
        given |= {"lengths": options.lengths, "long_lengths": ()}
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})

    path = Path(options.out)
    try:
        results = run.start(path, settings, fresh=options.fresh)
        results.write(path)  # a name that cannot be written is refused now, not after the first minutes
    except ResultsError as error:
        raise Refusal(str(error)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refusal(f"--out {path}: cannot be written: {reason}; a file in a folder that exists would fit") from None

    before = len(results.cases)
    if before:
        print_whole(f"{path}: takes up a run of {results.about['date'][:10]} with {before} cases done")
    stopped = False
    try:
        with _ended_like_ctrl_c():
            _run_with_a_bar(run, path, settings, results)
    except KeyboardInterrupt:
        stopped = True
    _say(path, results, options.quick, stopped)
    return INTERRUPTED if stopped else RIGHT


def _run_with_a_bar(run, path: Path, settings, results: Results) -> None:
    from tqdm import tqdm

    # No estimate of the time left: the first cases take a second, the last ones most of the time.
    shape = "{percentage:3.0f}% |{bar}| {elapsed} {desc}"
    with tqdm(total=1.0, disable=None, bar_format=shape, leave=False) as bar:
        place = {"index": 0, "of": 1}

        def before_case(case, index: int, of: int) -> None:
            place.update(index=index, of=of)
            bar.n = index / of
            bar.set_description_str(case.name)

        def after_round(done: int, of: int) -> None:
            bar.n = (place["index"] + done / of) / place["of"]
            bar.refresh()

        run.run(path, settings, results, before_case=before_case, after_round=after_round)


def _say(path: Path, results: Results, quick: bool, stopped: bool) -> None:
    for line in results.gaps():
        print_whole(line)
    if quick:
        print_whole("A smoke run at tiny sizes: not a measurement.")
    print_whole(results.says)
    done = f"{len(results.cases)} cases"
    if stopped:
        print_whole(f"Interrupted with {done} done, kept in {path}; the same command goes on from there.")
    else:
        print_whole(f"Complete, {done}, in {path}; `python -m attn_lib report {path}` draws it.")


@contextmanager
def _ended_like_ctrl_c():
    """``kill`` ends a run as Ctrl+C does: in order."""

    def interrupt(*_) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _lengths(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({_positive(each) for each in text.split(",")}))
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(f"{text!r} must be lengths of at least 1 with commas, as 512,1024") from None
