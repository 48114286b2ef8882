"""The benchmarks' own machinery: order, medians, verdicts, what is kept. No speed is tested here."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attn_lib.measure import timing
from attn_lib.measure.spread import Middle
from attn_lib.measure.timing import LEAST_ROUNDS, Contestant, Timing, cpu_seconds, gpu_seconds, time_in_turn
from benchmarks import __main__ as command
from benchmarks import cases
from benchmarks.contest import Case, Disagreement, Target, check_agreement
from benchmarks.report import LEGEND, Result, missed, record, results_of, summary, tables, write

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def clock(seconds: float = 1.0):
    """A clock on which every call takes as long."""

    def one_call(call, calls):
        for _ in range(calls):
            call()
        return seconds

    return one_call


def result(targets=(), **seconds) -> Result:
    """Contestants with given seconds, one number a round."""
    case = Case("group", "label", list, tuple(targets), settings={"S": 8})
    return Result(case, [Timing(name, 1, list(rounds)) for name, rounds in seconds.items()])


def test_rounds_are_interleaved_there_and_back():
    seen = []
    contestants = [Contestant(name, lambda name=name: seen.append(name), calls=1) for name in "ABC"]
    time_in_turn(contestants, clock(), 3, took=dict.fromkeys("ABC", 0.0))
    assert "".join(seen) == "ABCCBAABC"


def test_a_sample_has_as_many_calls_as_fill_its_time_and_one_before_that_is_not_timed():
    seen = []
    contestant = Contestant("A", lambda: seen.append("A"))
    (timed,) = time_in_turn([contestant], clock(0.005), 7, took={"A": 0.1}, sample_seconds=0.02)
    assert timed.calls == 4
    assert len(seen) == 1 + 7 * (1 + 4)


def test_preparing_is_not_timed_and_comes_before_every_sample():
    seen = []
    contestant = Contestant("A", lambda: seen.append("call"), prepare=lambda: seen.append("prepare"), calls=2)

    def watched(call, calls):
        seen.append("start")
        return clock()(call, calls)

    time_in_turn([contestant], watched, 2, took={"A": 0.0})
    assert seen == ["prepare", "start", "call", "call"] * 2


def test_one_long_call_is_a_sample_without_trying():
    seen = []
    (timed,) = time_in_turn([Contestant("A", lambda: seen.append("A"))], clock(5.0), 21, took={"A": 5.0})
    assert timed.calls == 1
    assert len(seen) == len(timed.seconds) == LEAST_ROUNDS


@pytest.mark.parametrize(("seconds", "rounds"), [(0.01, 21), (1.0, 8), (5.0, LEAST_ROUNDS)])
@pytest.mark.parametrize("calls", [None, 4])
def test_long_cases_get_fewer_rounds_but_never_fewer_than_the_least(seconds, rounds, calls):
    took = {"A": seconds / (calls or 1)}
    (timed,) = time_in_turn([Contestant("A", lambda: None, calls=calls)], clock(seconds), 21, took=took, sample_seconds=0.0)
    assert len(timed.seconds) == rounds


def test_a_contestant_may_time_itself():
    (timed,) = time_in_turn([Contestant("A", lambda: 0.25, times_itself=True)], clock(), 7, took={"A": 0.25})
    assert timed.seconds == [0.25] * 7


def test_the_garbage_collector_rests_and_is_woken_again():
    asleep = []

    def call():
        asleep.append(not gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        time_in_turn([Contestant("A", call, calls=1)], clock(), 7, took={"A": 0.0})
    assert asleep == [True]
    assert gc.isenabled()


def test_cpu_seconds_are_of_one_call(monkeypatch):
    ticks = iter([10.0, 14.0])
    monkeypatch.setattr(timing.time, "process_time", lambda: next(ticks))
    assert cpu_seconds(lambda: None, 8) == 0.5


def test_gpu_seconds_lie_between_events_and_are_waited_for(monkeypatch):
    seen = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            seen.append("record")

        def elapsed_time(self, other):
            return 3000.0  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append("wait"))
    assert gpu_seconds(lambda: seen.append("call"), 2) == 1.5
    assert seen == ["wait", "record", "call", "call", "record", "wait"]


def test_median_and_spread():
    assert Middle.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Middle(3.0, 1 / 3)  # quartiles 2 and 4
    assert Middle.of([3.0]) == Middle(3.0, 0.0)


def test_a_slow_spell_cancels_in_the_ratio():
    assert Middle.of_ratios([1.0, 1.0, 10.0, 10.0, 10.0], [2.0, 2.0, 20.0, 20.0, 20.0]) == Middle(0.5, 0.0)


@pytest.mark.parametrize(
    ("target", "measured", "reached"),
    [
        (Target("ours", 1.05, ("slow", "fast")), 1.25, False),  # the fastest of the others counts
        (Target("ours", 1.25, ("slow", "fast")), 1.25, True),
        (Target("ours", 2.0, ("slow",), faster=True), 2.0, True),
        (Target("ours", 2.1, ("slow",), faster=True), 2.0, False),
        (Target("ours", 2.0, ("slow", "fast"), faster=True), 0.8, False),
        (Target("ours", 0.9), 1.0, False),
        (Target("ours", 1.0), 1.0, True),
    ],
)
def test_verdicts(target, measured, reached):
    ((_, middle, verdict),) = result([target], ours=[1.0] * 3, slow=[2.0] * 3, fast=[0.8] * 3).verdicts()
    assert (middle.median, verdict) == (measured, reached)


def test_targets_read_as_sentences():
    assert str(Target("ours", 1.05, ("A", "B"), shown="the best")) == "ours ≤ 1.05 x the best"
    assert str(Target("ours", 2.5, ("A",), faster=True)) == "ours ≥ 2.5 x as fast as A"
    assert str(Target("ours", 0.05)) == "ours ≤ 50 ms"


def test_every_target_names_contestants_of_its_case():
    for case in cases.all_cases(cases.SMOKE, CPU):
        if not case.needs:
            names = {contestant.name for contestant in case.build()}
            assert {name for target in case.targets for name in (target.subject, *target.against)} <= names


def test_names_of_cases_are_unique_and_large_adds_to_them():
    names = [case.name for case in cases.all_cases(cases.Sizes(), CPU)]
    larger = [case.name for case in cases.all_cases(cases.Sizes().larger(), CPU)]
    assert len(names) == len(set(names))
    assert set(names) < set(larger)
    assert any("16384" in name for name in larger)


def test_contestants_that_disagree_are_not_timed(monkeypatch, tmp_path, capsys):
    same, other = torch.ones(2), torch.tensor([1.0, 1.1])
    took = check_agreement([Contestant("A", lambda: same), Contestant("B", lambda: other, compared=False)])
    assert took.keys() == {"A", "B"}
    contestants = [Contestant("A", lambda: same), Contestant("B", lambda: other)]
    with pytest.raises(Disagreement, match="B differs from A"):
        check_agreement(contestants)
    monkeypatch.setattr(cases, "all_cases", lambda sizes, device: [Case("group", "label", lambda: contestants)])
    assert command.main(["--quick", "--out", str(tmp_path / "out.json")]) == 1
    assert "not timed, group/label: B differs from A" in capsys.readouterr().out


def test_tables_show_time_ratios_target_and_verdict():
    rows = [result([Target("ours", 1.0, ("peer",))], ours=[0.002] * 3, peer=[0.003] * 3), result(ours=[0.004])]
    lines = tables(rows, markdown=True).splitlines()
    assert lines[0] == "### group"
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert shown[0] == ["case", "ours", "peer", "target", "measured", "verdict"]
    assert shown[2] == ["label", "2 ms ±0%", "1.50 ±0%", "ours ≤ 1 x peer", "0.667 ±0%", "reached"]
    assert shown[3] == ["label", "4 ms ±0%", "", "no target", "", ""]
    assert "2 ms ±0%" in tables(rows)


def test_the_summary_names_what_is_missed():
    rows = [result([Target("ours", 1.0, ("peer",)), Target("ours", 0.5, ("peer",))], ours=[2.0], peer=[3.0])]
    assert missed(rows) == ["missed: group/label: ours ≤ 0.5 x peer, measured 0.667 ±0%"]
    assert summary(rows).splitlines()[0] == "1 of 2 targets reached; the others:"


def test_a_miss_by_less_than_the_spread_is_told_apart():
    row = result([Target("ours", 1.0, ("peer",)), Target("ours", 0.5, ("peer",))], ours=[0.7, 1.1, 1.3], peer=[1.0] * 3)
    assert [line.split(": ")[0] for line in missed([row])] == ["missed, within ±", "missed"]


def test_the_record_holds_every_round():
    kept = record([result([Target("ours", 1.0)], ours=[1.0, 2.0, 3.0])], complete=True, date="today")
    assert kept["complete"] is True and kept["date"] == "today"
    (case,) = kept["cases"]
    assert case["settings"] == {"S": 8}
    assert case["contestants"] == [
        {"name": "ours", "median_seconds": 2.0, "spread": 0.25, "rounds": 3, "calls_a_round": 1, "seconds": [1, 2, 3]}
    ]
    assert case["targets"] == [
        {"target": "ours ≤ 1000 ms", "bound": 1.0, "measured": 2.0, "spread": 0.25, "reached": False}
    ]


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "out.json"
    write(path, {"a": 1})
    with pytest.raises(TypeError):
        write(path, {"a": 2, "b": object()})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert list(path.parent.iterdir()) == [path]


def test_a_smoke_run_from_the_command_to_the_file(tmp_path, capsys):
    threads, out = torch.get_num_threads(), tmp_path / "out.json"
    groups = ("tiled*", "decoding*", "cache*", "window*", "weights*")
    assert command.main(["--quick", "--out", str(out), *(f"--only={group}" for group in groups)]) == 0
    shown = capsys.readouterr().out
    assert "not a measurement" in shown and "no target" in shown and f"Kept in {out}" in shown
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert kept["complete"] and not kept["measurement"]
    assert kept["settings"]["threads"] == 1 and kept["versions"]["torch"] == torch.__version__
    assert kept["machine"]["processor"] and kept["machine"]["memory_gib"] > 0
    assert {case["name"].split("/")[0] for case in kept["cases"]} >= {"tiled forward", "tiled forward+backward"}
    assert all(len(contestant["seconds"]) == 1 for case in kept["cases"] for contestant in case["contestants"])
    assert torch.get_num_threads() == threads


@pytest.fixture
def three_cases(monkeypatch) -> list[Case]:
    """Cases of which the second is interrupted, when it gets there."""

    def interrupted():
        raise KeyboardInterrupt

    made = [
        Case("group", "first", lambda: [Contestant("A", lambda: 1, calls=1)], (Target("A", 0.0),)),
        Case("group", "second", lambda: [Contestant("A", interrupted)]),
        Case("group", "third", lambda: [Contestant("A", lambda: 1)]),
    ]
    monkeypatch.setattr(cases, "all_cases", lambda sizes, device: made)
    return made


def test_an_interrupted_run_keeps_what_is_done(three_cases, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert command.main(["--rounds", "7", "--out", str(out)]) == 130
    shown = capsys.readouterr().out
    assert "first" in shown and "1 of 3 cases are done" in shown
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert kept["complete"] is False and [case["name"] for case in kept["cases"]] == ["group/first"]


def test_a_run_that_fails_keeps_what_is_done(three_cases, tmp_path):
    out = tmp_path / "out.json"
    three_cases[1] = Case("group", "second", lambda: [Contestant("A", lambda: 1 / 0)])
    with pytest.raises(ZeroDivisionError):
        command.main(["--rounds", "7", "--out", str(out)])
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert kept["complete"] is False and len(kept["cases"]) == 1


def test_a_missed_target_fails_only_a_strict_run(three_cases, tmp_path):
    asked = ["--rounds", "7", "--only", "*first", "--out", str(tmp_path / "out.json")]
    assert command.main(asked) == 0
    assert command.main([*asked, "--strict"]) == 1


def test_few_rounds_are_said_to_be_no_measurement(three_cases, tmp_path, capsys):
    command.main(["--rounds", "2", "--only", "*first", "--out", str(tmp_path / "out.json")])
    assert "Fewer than 7 rounds: not a measurement." in capsys.readouterr().out


def test_what_is_not_installed_is_named_in_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "x_transformers" else True)
    assert command.main(["--only", "layer*", "--out", str(tmp_path / "out.json")]) == 2
    assert capsys.readouterr().err == (
        "benchmarks: not installed: x-transformers; `make bench` installs the extra `bench` first\n"
    )


def test_what_cannot_run_is_refused(tmp_path, capsys):
    assert command.main(["--only", "nothing"]) == 2
    assert command.main(["--only", "import*", "--out", str(tmp_path)]) == 2
    (tmp_path / "file").touch()
    assert command.main(["--only", "import*", "--out", str(tmp_path / "file" / "out.json")]) == 2
    if not torch.cuda.is_available():
        assert command.main(["--device", "cuda"]) == 2
    assert all(line.startswith("benchmarks: ") for line in capsys.readouterr().err.splitlines())
    with pytest.raises(SystemExit, match="2"):
        command.main(["--rounds", "0"])


def test_the_list_shows_every_name(capsys):
    assert command.main(["--list"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert names == [case.name for case in cases.all_cases(cases.Sizes(), CPU)]


def test_the_tables_of_the_readme_are_those_of_the_kept_run():
    content = json.loads((ROOT / "benchmarks" / "results" / "cpu_2026-11-29.json").read_text(encoding="utf-8"))
    assert content["complete"] and content["measurement"]
    results = results_of(content, cases.all_cases(cases.Sizes(), CPU))
    assert [result.case.name for result in results] == [case["name"] for case in content["cases"]]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begin, end = (
        "<!-- The tables of a kept run: python -m benchmarks --markdown --show FILE -->",
        "<!-- end of the tables -->",
    )
    shown = readme.partition(begin)[2].partition(end)[0].strip()
    assert shown == f"{tables(results, markdown=True)}\n\n{LEGEND}"


def test_a_kept_run_is_shown_again_or_refused(tmp_path, capsys):
    (tmp_path / "half.json").write_text('{"cases": [{}]}')
    for name in ("half.json", "missing.json"):
        assert command.main(["--show", str(tmp_path / name)]) == 2
        assert "cannot be read as a record" in capsys.readouterr().err
    kept = ROOT / "benchmarks" / "results" / "cpu_2026-11-29.json"
    assert command.main(["--show", str(kept), "--only", "window*"]) == 0
    assert "256 in 8192" in capsys.readouterr().out


def test_peers_are_imported_only_when_they_are_needed():
    asked = "{'transformers', 'x_transformers', 'tabulate'} & {*sys.modules} or 'none'"
    program = f"import sys, benchmarks.__main__; print({asked})"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "none\n"
