"""Prove a worked example: every printed number, every erratum and every claim, against float64."""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from itertools import groupby

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
from attn_lib.worked_examples.rounding import agrees, rounded


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Attributes:
        place: the stage, row, column and head, in words.
        printed: what stands in the file.
        right: what is right, at the printed digits.
        status: ``"right"``, ``"wrong"``, or ``"erratum"`` for a printed number that is off and declared so.
        says: the whole as a sentence.
    """

    place: str
    printed: str
    right: str
    status: str
    says: str


@dataclass(frozen=True)
class Row:
    """One printed row of one stage.

    Attributes:
        stage: its name.
        place: the row, and head, in words.
        findings: a :class:`Finding` for each number.
    """

    stage: str
    place: str
    findings: tuple[Finding, ...]

    @property
    def printed(self) -> str:
        """The numbers as they stand in the file, in one line."""
        return " ".join(finding.printed for finding in self.findings)

    @property
    def right(self) -> str:
        """The right numbers at the printed digits, in one line."""
        return " ".join(finding.right for finding in self.findings)

    @property
    def status(self) -> str:
        """``"wrong"`` if one of its numbers is, else ``"erratum"`` if one of them is, else ``"right"``."""
        found = {finding.status for finding in self.findings}
        return next((status for status in ("wrong", "erratum") if status in found), "right")


@dataclass(frozen=True)
class Report:
    """What the checker found in one example. Printed, it is a table and the verdict.

    Attributes:
        name: the example's.
        title: the example's.
        rows: the printed rows (:class:`Row`), stage by stage.
        errata: what became of each erratum (:class:`Finding`).
        claims: what became of each claim (:class:`Finding`).
        given: how many numbers are given.
        usual_mistake: what explains the first wrong number, or the first erratum where no number is wrong; or None.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    errata: tuple[Finding, ...]
    claims: tuple[Finding, ...]
    given: int
    usual_mistake: str | None

    @property
    def checked(self) -> int:
        """How many printed numbers were compared, those of errata among them."""
        return sum(len(row.findings) for row in self.rows)

    @property
    def wrong(self) -> list[Finding]:
        """All that is not right, numbers in the order of the calculation first, then errata, then claims."""
        numbers = [finding for row in self.rows for finding in row.findings]
        return [finding for finding in (*numbers, *self.errata, *self.claims) if finding.status == "wrong"]

    @property
    def first_wrong(self) -> Finding | None:
        """The first of what is not right."""
        return next(iter(self.wrong), None)

    @property
    def verdict(self) -> str:
        """``"right"`` or ``"wrong"``."""
        return "wrong" if self.wrong else "right"

    @property
    def table(self) -> str:
        """The example stage by stage, as text in columns."""
        lines = [("stage", "place", "printed", "computed", "")] if self.rows else []
        lines += [(row.stage, row.place, row.printed, row.right, row.status) for row in self.rows]
        notes = [f"  {f.says}{': holds' if f.status == 'right' else ''}" for f in (*self.errata, *self.claims)]
        return "\n".join([f"{self.title} ({self.name})", *_aligned(lines), *notes])

    @property
    def line(self) -> str:
        """The verdict in one line."""
        if self.wrong:
            more = f"; {len(self.wrong) - 1} more" if len(self.wrong) > 1 else ""
            return f"{self.name}: wrong: {self.wrong[0].says}{more}{self._mistake}"
        counts = {"number": self.checked, "erratum": len(self.errata), "claim": len(self.claims)}
        proved = ", ".join(_count(count, noun) for noun, count in counts.items() if count)
        mistake = self._mistake if self.usual_mistake else ""
        return f"{self.name}: right: {proved}, from {_count(self.given, 'given number')}{mistake}"

    @property
    def _mistake(self) -> str:
        behind = " behind the errata" if not self.wrong else ""
        if self.usual_mistake:
            return f"; usual mistake{behind}: {self.usual_mistake}"
        return "; no usual mistake explains it" if any(row.status == "wrong" for row in self.rows) else ""

    def as_dict(self) -> dict:
        """All of it in dicts, lists, strings and integers, for machines."""
        summary = {key: getattr(self, key) for key in ("name", "title", "verdict", "checked", "given", "usual_mistake")}
        first = asdict(self.first_wrong) if self.first_wrong else None
        lists = {key: [asdict(entry) for entry in getattr(self, key)] for key in ("rows", "errata", "claims")}
        return {**summary, "first_wrong": first, **lists}

    def __str__(self) -> str:
        return f"{self.table}\n{self.line}"

    def assert_right(self) -> None:
        """Do nothing if everything is right.

        Raises:
            AssertionError: something is wrong; the message is the verdict in one line.
        """
        if self.wrong:
            raise AssertionError(self.line)


def check_example(example: WorkedExample) -> Report:
    """Prove every printed number, erratum and claim of an example.

    A printed number is right when its float64 value, rounded to the printed digits, is that number; a
    tie may go either way. An erratum holds when the number stands in the file as it says, is off, and
    the number that it calls right is. There is no tolerance to widen.

    Args:
        example: from :func:`load_example` or :func:`load_builtin`.

    Returns:
        The :class:`Report`. What is wrong stands in it; nothing is raised (:meth:`Report.assert_right` does).

    >>> from attn_lib.worked_examples import load_builtin
    >>> report = check_example(load_builtin("self_attention_love"))
    >>> report.verdict, report.first_wrong
    ('right', None)
    >>> [(erratum.printed, erratum.right) for erratum in report.errata]
    [('0.3383', '0.3382')]
    """
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
    status = "right" if agrees(number.text, value) else "erratum" if excused else "wrong"
    place = example.words(number.place)
    says = f"{place}: {number.text if status == 'right' else _off(number, value)}"
    return Finding(place, number.text, rounded(value, number.text), status, says)


def _off(number: Number, value: float) -> str:
    """Printed against right, with two digits more, so that one sees why."""
    return f"printed {number.text}, right {rounded(value, number.text)} ({rounded(value, number.text, more=2)})"


def _check_erratum(example: WorkedExample, erratum: Erratum) -> Finding:
    place = example.words(erratum.place)
    stands = {number for entry in example.printed for number in entry.numbers}
    for number, right in erratum.pairs:
        value, where = example.value(number.place), example.words(number.place)
        reason = None
        if number not in stands:
            reason = f"{number.text} is not what stands there"
        elif number.text != right.text and agrees(number.text, value):
            reason = f"the printed {number.text} is right"
        elif not agrees(right.text, value):
            reason = f"{right.text} is not right, {rounded(value, right.text)} is"
        if reason:
            says = f"erratum {where}: no longer holds, {reason}"
            return Finding(where, number.text, rounded(value, right.text), "wrong", says)
    off = [(number, right) for number, right in erratum.pairs if number.text != right.text]
    says = [f"{example.words(number.place)}: {_off(number, example.value(number.place))}" for number, _ in off]
    printed, right = (" ".join(number.text for number in numbers) for numbers in zip(*off, strict=True))
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
    if claim.kind == "carried_on":
        carried = example.carried_trace()
        return [example.value(column, carried) for column in columns]
    printed = example.printed_values(claim.place.stage, claim.place.row, head=claim.place.head)
    if claim.kind == "rounded_sum":
        printed = [rounded(value, text) for text, value in zip(printed, values, strict=True)]
    terms = [Decimal(text) for text in printed]
    return [sum(terms) if all(term.is_finite() for term in terms) else Decimal("nan")]


def _leaves(values: Nested) -> list[str]:
    return [values] if isinstance(values, str) else [leaf for value in values for leaf in _leaves(value)]


def _count(number: int, noun: str) -> str:
    plural = "errata" if noun == "erratum" else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    """Columns that line up in a terminal, where an East Asian character takes two cells."""

    def width(cell: str) -> int:
        return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in cell)

    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(cell + " " * (w - width(cell)) for cell, w in zip(line, widths, strict=True)) for line in lines)
    return [f"  {line}".rstrip() for line in padded]
