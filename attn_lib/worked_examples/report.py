"""What the checker found in one file: findings, rows of them, and the report with its table and its one line.

>>> rows = Row("weights", "row love", (Finding("", "0.34", "0.34", "right", ""), Finding("", "0.2", "0.3", "wrong", "")))
>>> rows.printed, rows.status
('0.34 0.2', 'wrong')
"""

from __future__ import annotations

import unicodedata
from dataclasses import asdict, dataclass


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
