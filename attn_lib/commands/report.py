"""``python -m attn_lib report FILE...``"""

from __future__ import annotations

import argparse
from pathlib import Path

from attn_lib.commands.output import RIGHT, Refusal, print_whole
from attn_lib.measure.results import ResultsError, load_results


def add_to(commands) -> None:
    """Add the command to the parser."""
    report = commands.add_parser(
        "report",
        help="show what was measured, in tables and figures",
        description="Show files that `measure` has written: a table for each, and figures beside each other.",
        epilog="Exit status: 0 shown, 2 a file cannot be read, or a figure not written.",
    )
    report.add_argument("files", metavar="FILE", nargs="+", help="results of `measure`")
    report.add_argument(
        "--out", metavar="FOLDER", default="_build/report", help="where the figures go (default _build/report)"
    )
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> int:
    from attn_lib import report

    try:
        runs = [load_results(path) for path in options.files]
    except ResultsError as error:
        raise Refusal(str(error)) from None
    names = [Path(path).stem for path in options.files]
    print_whole("\n\n".join(report.as_text(results) for results in runs))
    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in report.figures(dict(zip(names, runs, strict=True))).items():
            figure.savefig(folder / f"{name}.png", dpi=200)
            print_whole(f"drawn: {folder / name}.png")
    except OSError as error:
        raise Refusal(f"--out {folder}: cannot be written: {error.strerror}; a folder would fit") from None
    return RIGHT
