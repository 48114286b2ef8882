"""What the last tests said: the JUnit reports that `make test` leaves, read back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path("_build") / "reports"
# tests/run_record.py writes these.
KEPT = ("tree", "exit", "processor", "cores", "system", "python", "torch", "threads", "workers")
COMPLETE = {"0", "1"}  # pytest's exit status where all tests ran: they passed, or some failed


class ReportError(ValueError):
    """There is no report that speaks of what is here; the message says why, as the end of a sentence."""


@dataclass(frozen=True)
class Case:
    """One test, or one cell.

    Attributes:
        place: the file it stands in, with points for slashes: ``tests.unit.test_cache``, ``notebooks.02_x.ipynb``.
        status: ``"passed"``, ``"failed"`` or ``"skipped"``.
        seconds: what it took, preparation included.
    """

    place: str
    status: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """One run of pytest.

    Attributes:
        cases: a :class:`Case` for each test.
        about: what it ran on.
        began: when it began, in UTC.
    """

    cases: tuple[Case, ...]
    about: dict[str, str]
    began: datetime

    def count(self, prefix: str = "") -> Counter[str]:
        """How many passed, failed and were skipped, of those in files whose place begins so."""
        return Counter(case.status for case in self.cases if case.place.startswith(prefix))

    def seconds(self, prefix: str = "") -> float:
        """What those took, one after the other."""
        return sum(case.seconds for case in self.cases if case.place.startswith(prefix))

    @property
    def day(self) -> str:
        """The day it began, in words."""
        return f"{self.began.day} {self.began:%B %Y}"

    @property
    def machine(self) -> str:
        """What it ran on, in words."""
        about = self.about
        return (
            f"{counted(about['cores'], 'core')} of {about['processor']}, {about['system']}, Python {about['python']}, "
            f"torch {about['torch']} with {counted(about['threads'], 'thread')}"
        )


def counted(number: object, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "core"), counted("2", "core")
    ('1 core', '2 cores')
    """
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def read(path: Path, tree: str) -> Report:
    """Read a report of pytest.

    Args:
        path: the file.
        tree: the state of the repository that it must speak of.

    Raises:
        ReportError: there is none, it is broken, its run was, or it speaks of another state.
    """
    try:
        suite = ElementTree.parse(path).getroot().find("testsuite")
    except FileNotFoundError:
        raise ReportError("were not run on the machine that built this page") from None
    except (OSError, ElementTree.ParseError) as error:
        raise ReportError(f"left a report that cannot be read: {error}") from error
    try:
        about = {each.get("name"): each.get("value") for each in suite.iterfind("properties/property")}
        about = {name: str(about[name]) for name in KEPT}
        if about["tree"] != tree:
            raise ReportError("ran last on other files than these")
        if about["exit"] not in COMPLETE:
            raise ReportError("were broken off before their end")
        began = datetime.fromisoformat(suite.attrib["timestamp"]).astimezone(UTC)
        return Report(tuple(_case(each) for each in suite.iterfind("testcase")), about, began)
    except ReportError:
        raise
    except (AttributeError, KeyError, ValueError) as error:
        raise ReportError(f"left a report that lacks what is needed: {error!r}") from error


def _case(element: ElementTree.Element) -> Case:
    outcomes = {child.tag for child in element}
    status = "failed" if outcomes & {"failure", "error"} else "skipped" if "skipped" in outcomes else "passed"
    # A file that cannot even be imported has no class, and its own name as the test's.
    place = element.get("classname") or element.attrib["name"]
    return Case(place, status, float(element.attrib["time"]))
