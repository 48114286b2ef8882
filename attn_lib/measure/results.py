"""The file that a run leaves: JSON with what was measured, on what, and what could not be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attn_lib.files import write_whole
from attn_lib.measure.spread import Middle

FORMAT = 1
MEASURED, REFUSED, OUT_OF_MEMORY, ABSENT = "measured", "refused", "out of memory", "not there"
RECORDS = Path(__file__).parent / "records"  # the runs that the book shows
MOST_DEATHS = 2  # a case in which the process was killed so often is not tried again


class ResultsError(ValueError):
    """A file cannot be read as results, or belongs to another run; the message says what and what to do."""


@dataclass(frozen=True)
class Measured:
    """What became of one way in one case.

    Attributes:
        name: the way.
        status: "measured", "refused" (it would not fit in memory, and was not tried), "out of memory", or "not there"
            (the device has no such kernel).
        reason: why it was not measured.
        seconds: of one call, one number a round.
        peak_bytes: held at once beside the inputs.
        expected_bytes: the prediction by which it was let in or refused.
        flops: of its matrix products.
        moves: bytes that it moves, where that is its work.

    >>> Measured("fused", MEASURED, seconds=[0.25, 0.5, 0.25], peak_bytes=4096).median
    0.25
    """

    name: str
    status: str
    reason: str = ""
    seconds: Sequence[float] = ()
    peak_bytes: int | None = None
    expected_bytes: int = 0
    flops: int = 0
    moves: int = 0

    @property
    def median(self) -> float:
        """Seconds of one call."""
        return Middle.of(self.seconds).median

    @property
    def spread(self) -> float:
        """Half the interquartile range, as a share of the median."""
        return Middle.of(self.seconds).spread

    def as_dict(self) -> dict[str, object]:
        """As it stands in the file."""
        about = {"name": self.name, "status": self.status, "expected_bytes": self.expected_bytes}
        if self.status != MEASURED:
            return about | {"reason": self.reason}
        return about | {
            "median_seconds": self.median,
            "spread": round(self.spread, 6),
            "rounds": len(self.seconds),
            "seconds": list(self.seconds),
            "peak_bytes": self.peak_bytes,
            "flops": self.flops,
            "moves": self.moves,
        }

    @classmethod
    def from_dict(cls, about: Mapping[str, Any]) -> Measured:
        """What :meth:`as_dict` has written."""
        fields = ("name", "status", "reason", "seconds", "peak_bytes", "expected_bytes", "flops", "moves")
        return cls(**{field: about[field] for field in fields if field in about})


@dataclass
class Results:
    """A run, done or under way.

    Attributes:
        about: device, machine, versions, settings and date; :attr:`identity` is what a second run must share.
        cases: (group, size) to what became of each way.
        deaths: (group, size) to how often the process ended there without a word.
        complete: nothing is left to measure.
    """

    about: dict[str, Any]
    cases: dict[tuple[str, int], list[Measured]] = field(default_factory=dict)
    deaths: dict[tuple[str, int], int] = field(default_factory=dict)
    complete: bool = False

    def series(self, group: str, way: str, what: str = "seconds") -> tuple[list[int], list[float]]:
        """Sizes, and for each the median seconds of one call, or "peak_bytes"; only where the way was measured."""
        if what not in ("seconds", "peak_bytes"):
            raise ValueError(f'what must be "seconds" or "peak_bytes", got {what!r}')
        found = [
            (size, each.median if what == "seconds" else each.peak_bytes)
            for (its_group, size), ways in sorted(self.cases.items())
            for each in ways
            if (its_group, each.name, each.status) == (group, way, MEASURED)
        ]
        return [size for size, _ in found], [number for _, number in found]

    def ways(self, group: str) -> list[str]:
        """Every way of a group that was measured at some length."""
        ways = [each for (its_group, _), ways in self.cases.items() if its_group == group for each in ways]
        return list(dict.fromkeys(each.name for each in ways if each.status == MEASURED))

    def gaps(self) -> list[str]:
        """A line for each way that was not measured: the sizes that share a reason, and the reason."""
        sizes: dict[tuple[str, str, str, str], list[int]] = {}
        for (group, size), ways in sorted(self.cases.items()):
            for each in ways:
                if each.status != MEASURED:
                    sizes.setdefault((group, each.name, each.status, each.reason), []).append(size)
        return [
            f"{group}, {name}, {', '.join(map(str, at))}: {status}: {reason}"
            for (group, name, status, reason), at in sizes.items()
        ]

    @property
    def machine_peak(self) -> float:
        """FLOP/s of one large matrix product."""
        return self._rate("matrix product", "flops")

    @property
    def copy_bandwidth(self) -> float:
        """Bytes/s of a copy, those that are read and those that are written."""
        return self._rate("copy", "moves")

    def _rate(self, way: str, work: str) -> float:
        for (group, _), ways in self.cases.items():
            for each in ways:
                if (group, each.name, each.status) == ("machine", way, MEASURED):
                    return getattr(each, work) / each.median
        raise ResultsError(f"these results hold no measured {way}")

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two runs one. The size of the memory is left out, as a virtual machine's differs by the day."""
        identity = {name: self.about[name] for name in ("device", "machine", "versions", "settings")}
        machine = {name: value for name, value in identity["machine"].items() if name != "memory_gib"}
        return identity | {"machine": machine}

    @property
    def device_name(self) -> str:
        """Processor or GPU."""
        machine = self.about["machine"]
        return machine.get("gpu") or machine["processor"]

    @property
    def says(self) -> str:
        """Where the numbers come from, in one line."""
        settings, used = self.about["settings"], self.about["versions"]
        count = settings["threads"]
        threads = f", {count} thread{'s' if count > 1 else ''}, processor time"
        threads = "" if self.about["device"] == "cuda" else threads
        return (
            f"{self.device_name}{threads}; {settings['dtype']}; torch {used['torch']}, attn_lib {used['attn_lib']};"
            f" {self.about['date'][:10]}"
        )

    def as_json(self) -> bytes:
        """The file's content."""
        content = {
            "format": FORMAT,
            "complete": self.complete,
            **self.about,
            "deaths": [{"group": group, "size": size, "times": times} for (group, size), times in self.deaths.items()],
            "cases": [
                {"group": group, "size": size, "ways": [each.as_dict() for each in ways]}
                for (group, size), ways in self.cases.items()
            ],
        }
        text = json.dumps(content, indent=1, ensure_ascii=False)
        # A list of numbers in one line: a file of some hundred lines can be read, and compared.
        text = re.sub(r"\[\n\s+([-\d.e,\s]+?)\n\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
        return (text + "\n").encode()

    def write(self, path: Path) -> None:
        """Write the whole file, or leave what is there."""
        write_whole(path, self.as_json())


def find_results(pattern: str) -> list[Path]:
    """Find files of results by their name: runs of your own, in a folder ``results`` where Python runs, and those that the book shows.

    Args:
        pattern: a name, with ``*`` for any characters, as in ``"cuda*.json"``.

    Returns:
        The files, in the order of their names; of two with one name, yours.

    Raises:
        ResultsError: no file has a name without ``*``; the message says where it could lie.

    >>> [path.stem[:3] for path in find_results("cpu_2026-11-30.json")]
    ['cpu']
    """
    own = Path("results")
    found = {path.name: path for folder in (RECORDS, own) for path in folder.glob(pattern)}
    if not found and "*" not in pattern:
        raise ResultsError(f"{pattern}: no such file in {own.absolute()}, and none among the runs that the book shows")
    return [found[name] for name in sorted(found)]


def load_results(path: Path | str) -> Results:
    """Read what ``python -m attn_lib measure`` has written.

    Args:
        path: of the file.

    Returns:
        The run, complete or not.

    Raises:
        ResultsError: no such file, or not such a file; the message names the file and the fault.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ResultsError(f"{path}: format {content['format']!r}; this version reads format {FORMAT}")
        about = {name: content[name] for name in ("date", "device", "machine", "versions", "settings")}
        cases = {
            (case["group"], case["size"]): [Measured.from_dict(way) for way in case["ways"]]
            for case in content["cases"]
        }
        deaths = {(case["group"], case["size"]): case["times"] for case in content["deaths"]}
        results = Results(about, cases, deaths, content["complete"])
        results.says  # noqa: B018  what it needs is there
        return results
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror}") from None
    except ResultsError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"{path}: not a file of results: {type(error).__name__}: {error};"
            " `python -m attn_lib measure --out FILE` writes one"
        ) from None
