"""Prove a worked example: every printed number, every erratum and every claim, against float64."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from itertools import groupby

from attn_lib.worked_examples.cost_example import CostExample, check_costs
from attn_lib.worked_examples.example import (
    Claim,
    Erratum,
    Nested,
    Number,
    Place,
    WorkedExample,
    shown,
    stage_order,
)
from attn_lib.worked_examples.mistakes import explain
from attn_lib.worked_examples.report import Finding, Report, Row
from attn_lib.worked_examples.rounding import agrees, rounded


def check_example(example: WorkedExample | CostExample) -> Report:
    """Prove every printed number, erratum and claim of an example.

    A printed number is right when its float64 value, rounded to the printed digits, is that number; a
    tie may go either way. An erratum holds when the number stands in the file as it says, is off, and
    the number that it calls right is. There is no tolerance to widen.

    Args:
        example: from :func:`load_example`, :func:`load_builtin` or :func:`load_published`.

    Returns:
        The :class:`Report`. What is wrong stands in it; nothing is raised (:meth:`Report.assert_right` does).

    >>> from attn_lib.worked_examples import load_builtin
    >>> report = check_example(load_builtin("self_attention_love"))
    >>> report.verdict, report.first_wrong
    ('right', None)
    >>> [(erratum.printed, erratum.right) for erratum in report.errata]
    [('0.3383', '0.3382')]
    """
    if isinstance(example, CostExample):
        return check_costs(example)
    excused = example.corrections  # an erratum excuses the very number that it quotes
    rows: list[Row] = []
    seen: dict[str, list[Number]] = {"right": [], "wrong": [], "erratum": []}
    for entry in sorted(example.printed, key=lambda entry: stage_order(entry.place.stage)):
        for place, numbers in groupby(entry.numbers, lambda number: replace(number.place, column=None)):
            findings = []
            for number in numbers:
                findings.append(_compare(example, number, number in excused))
                seen[findings[-1].status].append(number)
            where = example.words(place).removeprefix(place.stage).removeprefix(", ")
            rows.append(Row(place.stage, where, tuple(findings)))
    off = seen["wrong"] or seen["erratum"]
    return Report(
        name=example.name,
        title=shown(example.title, limit=1000),
        rows=tuple(rows),
        errata=tuple(_check_erratum(example, erratum) for erratum in example.errata),
        claims=tuple(_check_claim(example, claim) for claim in example.claims),
        given=sum(len(_leaves(values)) for values in example.given_strings.values()),
        usual_mistake=explain(example, off, seen["right"]) if off else None,
    )


def _compare(example: WorkedExample, number: Number, excused: bool) -> Finding:
    value = example.value(number.place)
    status = "right" if agrees(number.stated, value) else "erratum" if excused else "wrong"
    place = example.words(number.place)
    says = f"{place}: {number.text if status == 'right' else _off(number, value)}"
    return Finding(place, number.text, rounded(value, number.stated), status, says)


def _off(number: Number, value: float) -> str:
    """Printed against right, with two digits more, so that one sees why."""
    right, exact = rounded(value, number.stated), rounded(value, number.stated, more=2)
    return f"printed {number.text}, right {right} ({exact})"


def _check_erratum(example: WorkedExample, erratum: Erratum) -> Finding:
    place = example.words(erratum.place)
    stands = {number for entry in example.printed for number in entry.numbers}
    for number, right in erratum.pairs:
        value, where = example.value(number.place), example.words(number.place)
        called_wrong = (number, right) in erratum.off
        reason = None
        if number not in stands:
            reason = f"{number.text} is not what stands there"
        elif called_wrong and agrees(number.stated, value):
            reason = f"the printed {number.text} is right"
        elif not agrees(right.text if called_wrong else number.stated, value):
            reason = f"{right.text} is not right, {rounded(value, right.text)} is"
        if reason:
            says = f"erratum {where}: no longer holds, {reason}"
            return Finding(where, number.text, rounded(value, right.text), "wrong", says)
    says = [f"{example.words(number.place)}: {_off(number, example.value(number.place))}" for number, _ in erratum.off]
    printed, right = (" ".join(number.text for number in numbers) for numbers in zip(*erratum.off, strict=True))
    return Finding(place, printed, right, "right", f"erratum {'; '.join(says)}")


def _check_claim(example: WorkedExample, claim: Claim) -> Finding:
    columns = [replace(claim.place, column=i) for i in range(example.axes(claim.place.stage)["column"])]
    values = [example.value(column) for column in columns]
    if claim.columns and claim.kind != "difference":
        tokens = [example.words(column).rpartition("column ")[2] for column in columns]
        ranked = sorted(range(len(values)), key=lambda i: -values[i])
        stated = list(claim.columns)
        among = [i for i in ranked if i in stated]
        right = {"order": among, "largest": ranked[:1], "smallest": ranked[-1:]}[claim.kind]
        # What ties is in no order, and nobody's largest or smallest.
        rivals = [values[i] for i in (among if claim.kind == "order" else ranked)]
        tied = any(rivals.count(values[i]) > 1 for i in stated)
        holds = stated == right and not tied
        said, truth = (" > ".join(tokens[i] for i in order) for order in (stated, right))
        truth += " (a tie)" if tied else ""
    else:
        computed = _computed(example, claim, columns, values)
        exact = claim.kind in ("printed_sum", "rounded_sum")
        holds = all(
            Decimal(text) == value if exact else agrees(text, value)
            for text, value in zip(claim.texts, computed, strict=True)
        )
        said = " ".join(claim.texts)
        truth = " ".join(str(v) if exact else rounded(v, text) for text, v in zip(claim.texts, computed, strict=True))
    place = f"{example.words(claim.place)}, {claim.kind}"
    words = f" ({shown(claim.says, limit=200)})" if claim.says else ""
    says = f"claim {place}{words}: {said}" + ("" if holds else f" does not hold, {truth} does")
    return Finding(place, said, truth, "right" if holds else "wrong", says)


def _computed(example: WorkedExample, claim: Claim, columns: list[Place], values: list[float]) -> list:
    """The numbers that a claim states, computed. Sums of printed and rounded numbers are exact: Decimals."""
    if claim.kind == "sum":
        return [sum(values)]
    if claim.kind == "difference":
        first, second = claim.columns
        return [values[first] - values[second]]
    if claim.kind == "divided_by_sum":
        total = sum(values)
        return [value / total if total else math.nan for value in values]
    if claim.kind == "carried_on":
        carried = example.carried_trace()
        return [example.value(column, carried) for column in columns]
    printed = example.printed_values(claim.place.stage, claim.place.row, head=claim.place.head)
    if claim.kind == "rounded_sum":
        stated = {(number.place, number.text): number.stated for number in reversed(example.numbers)}
        like = [stated.get(key, key[1]) for key in zip(columns, printed, strict=True)]
        printed = [rounded(value, text) for text, value in zip(like, values, strict=True)]
    terms = [Decimal(text) for text in printed]
    return [sum(terms) if all(term.is_finite() for term in terms) else Decimal("nan")]


def _leaves(values: Nested) -> list[str]:
    return [values] if isinstance(values, str) else [leaf for value in values for leaf in _leaves(value)]
