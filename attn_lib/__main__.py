"""The command line: ``python -m attn_lib check FILE...``"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from attn_lib.worked_examples import ExampleError, Report, builtin_examples, check_example, load_example
from attn_lib.worked_examples.example import shown

RIGHT, WRONG, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 when all is right, 1 when something differs, 2 when something cannot be read or written.
    """
    parser = argparse.ArgumentParser(prog="python -m attn_lib", description="Attention, number by number.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="prove the numbers of worked examples",
        description="Prove every printed number, erratum and claim of worked examples, stage by stage.",
        epilog="Exit status: 0 all right, 1 something differs, 2 something cannot be read.",
    )
    check.add_argument(
        "files", metavar="FILE", nargs="*", help="a worked example in YAML; the built-in ones without any"
    )
    check.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    check.add_argument("--junit", metavar="FILE", help="write a JUnit XML report as well")
    check.set_defaults(run=_check)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except _Refusal as refusal:
        for line in refusal.args:
            _print(line, sys.stderr)
        return UNREADABLE


class _Refusal(Exception):
    """Something cannot be read or written: the lines to say so."""


def _check(options: argparse.Namespace) -> int:
    reports, refusals = [], []
    for path in options.files or builtin_examples():
        try:
            reports.append(check_example(load_example(path)))
        except ExampleError as error:
            refusals.append(str(error))
    if refusals:
        raise _Refusal(*refusals)
    if options.junit is not None:
        _write(options.junit, _junit(reports))
    if options.json:
        _print(json.dumps(_totals(reports), indent=2))
    else:
        # The verdicts come last, where one looks.
        _print("\n\n".join([*(report.table for report in reports), "\n".join(report.line for report in reports)]))
    return RIGHT if all(report.verdict == "right" for report in reports) else WRONG


def _totals(reports: Sequence[Report]) -> dict:
    return {
        "verdict": "right" if all(report.verdict == "right" for report in reports) else "wrong",
        "checked": sum(report.checked for report in reports),
        "given": sum(report.given for report in reports),
        "errata": sum(len(report.errata) for report in reports),
        "claims": sum(len(report.claims) for report in reports),
        "files": [report.as_dict() for report in reports],
    }


def _junit(reports: Sequence[Report]) -> bytes:
    """One suite a file; one case a printed row, erratum and claim."""
    root = ElementTree.Element("testsuites", name="worked examples")
    for report in reports:
        cases = [(f"{row.stage} {row.place}: {row.printed}", row.findings) for row in report.rows]
        cases += [(f"erratum {finding.place}: {finding.printed}", (finding,)) for finding in report.errata]
        cases += [(f"claim {finding.place}: {finding.printed}", (finding,)) for finding in report.claims]
        wrong = [[finding.says for finding in found if finding.status == "wrong"] for _, found in cases]
        failures = str(sum(map(bool, wrong)))
        suite = ElementTree.SubElement(root, "testsuite", name=report.name, tests=str(len(cases)), failures=failures)
        for (name, _), says in zip(cases, wrong, strict=True):
            case = ElementTree.SubElement(suite, "testcase", classname=report.name, name=name)
            if says:
                ElementTree.SubElement(case, "failure", message=says[0]).text = "\n".join([*says, report.line])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _write(name: str, content: bytes) -> None:
    """Write a file whole or not at all: a reader never meets half a report."""
    path = Path(name)
    temporary = path.with_name(f".{path.name}.{os.getpid()}") if path.name else path
    try:
        if path.exists() and not path.is_file():  # replacing a device or a folder would destroy it
            raise OSError(None, "it is there and is not a regular file")
        try:
            with open(temporary, "xb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        fits = "a file in a folder that exists would fit"
        raise _Refusal(f"{shown(name)}: cannot be written: {reason}; {fits}") from None


def _print(text: str, stream=None) -> None:
    """Print whole, in any encoding, to a reader who may have left."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        # Python flushes again at exit; let that go nowhere instead of into a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise _Refusal(f"standard output: cannot be written: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
