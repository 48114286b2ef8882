"""``python -m attn_lib check FILE...``"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from xml.etree import ElementTree

from attn_lib.commands.output import RIGHT, WRONG, Refusal, print_whole, write_file
from attn_lib.worked_examples import (
    ExampleError,
    Report,
    builtin_examples,
    check_example,
    forms,
    load_example,
    published_examples,
)


def add_to(commands) -> None:
    """Add the command to the parser."""
    check = commands.add_parser(
        "check",
        help="prove the numbers of worked examples",
        description="Prove every printed number, erratum and claim of worked examples, stage by stage.",
        epilog="Exit status: 0 all right, 1 something differs, 2 something cannot be read.",
    )
    check.add_argument(
        "files", metavar="FILE", nargs="*", help="a worked example in YAML; without any, those of the package"
    )
    check.add_argument(
        "--form",
        nargs="?",
        const="calculation",
        choices=[path.stem for path in forms()],
        help="print a form of a file to fill in, of a calculation or of costs, and check nothing",
    )
    check.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    check.add_argument("--junit", metavar="FILE", help="write a JUnit XML report as well")
    check.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    if options.form:
        (form,) = [path for path in forms() if path.stem == options.form]
        print_whole(form.read_text(encoding="utf-8").rstrip("\n"))
        return RIGHT
    reports, refusals = [], []
    for path in options.files or [*builtin_examples(), *published_examples()]:
        try:
            reports.append(check_example(load_example(path)))
        except ExampleError as error:
            refusals.append(str(error))
    if refusals:
        raise Refusal(*refusals)
    if options.junit is not None:
        write_file(options.junit, _junit(reports))
    if options.json:
        print_whole(json.dumps(_totals(reports), indent=2))
    else:
        # The verdicts come last, where one looks.
        print_whole("\n\n".join([*(report.table for report in reports), "\n".join(report.line for report in reports)]))
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
