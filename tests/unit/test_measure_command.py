"""``python -m attn_lib measure`` and ``report``: what is kept, refused, taken up again and shown. No speed is tested here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from attn_lib.__main__ import main
from attn_lib.measure import find_results, load_results, run
from attn_lib.measure.experiment import Case, Settings, Way, all_cases
from attn_lib.measure.results import (
    MEASURED,
    OUT_OF_MEMORY,
    REFUSED,
    Measured,
    Results,
    ResultsError,
)
from attn_lib.measure.results import (
    RECORDS as FOLDER,
)

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def measure(path: Path, *more: str) -> int:
    return main(["measure", "--quick", "--device", "cpu", "--out", str(path), *more])


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The file of a smoke run."""
    path = tmp_path_factory.mktemp("finished") / "cpu.json"
    assert measure(path, "--lengths", "16,48") == 0
    return path


def test_a_run_leaves_a_complete_file_with_its_provenance(finished):
    results = load_results(finished)
    assert results.complete and not results.deaths
    assert list(results.cases) == [
        ("machine", 64),
        *((group, S) for S in (16, 48) for group in ("forward", "training", "kernels")),
    ]
    about = results.about
    assert about["versions"]["torch"] == torch.__version__
    assert about["settings"]["threads"] == 1 and about["settings"]["lengths"] == [16, 48]
    assert {"processor", "cores", "memory_gib", "system"} <= set(about["machine"])
    assert about["date"].startswith("20") and about["date"].endswith("+00:00")
    assert results.ways("forward") == ["projections", "fused", "layer", "window", "tiled", "equation"]
    for way in results.ways("forward"):
        assert results.series("forward", way)[0] == [16, 48]
    assert results.machine_peak > 0 and results.copy_bandwidth > 0


def test_what_was_expected_is_never_less_than_what_was_held(finished):
    """Else a size that does not fit would be started."""
    for path in (finished, *RECORDS):
        measured = [each for ways in load_results(path).cases.values() for each in ways if each.status == MEASURED]
        assert [each for each in measured if each.expected_bytes and each.peak_bytes > each.expected_bytes] == []
        assert len(measured) > 20


def test_a_complete_run_measures_nothing_again(finished, capsys):
    before = finished.read_bytes()
    assert measure(finished, "--lengths", "16,48") == 0
    assert finished.read_bytes() == before
    assert "takes up a run" in capsys.readouterr().out


def start(path: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "attn_lib", "measure", "--quick", "--device", "cpu", "--out", str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_cases(path: Path, count: int, process: subprocess.Popen) -> None:
    for _ in range(6000):
        if path.exists() and len(json.loads(path.read_text(encoding="utf-8"))["cases"]) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError(f"no {count} cases after a minute")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_run_that_was_stopped_is_taken_up_where_it_stopped(tmp_path, how):
    path = tmp_path / "cpu.json"
    process = start(path)
    wait_for_cases(path, 2, process)
    process.send_signal(how)
    out, _ = process.communicate(timeout=60)
    stopped = load_results(path)
    assert not stopped.complete and len(stopped.cases) >= 2
    assert sum(stopped.deaths.values()) == (1 if how == signal.SIGKILL else 0)
    if how != signal.SIGKILL:
        assert process.returncode == 130
        assert "the same command goes on from there" in out
    assert list(tmp_path.iterdir()) == [path]

    assert measure(path) == 0
    whole = load_results(path)
    assert whole.complete and len(whole.cases) == len(all_cases(Settings().quick()))
    for key, ways in stopped.cases.items():  # not measured again
        assert [each.as_dict() for each in whole.cases[key]] == [each.as_dict() for each in ways]


def test_where_the_process_was_killed_twice_is_given_up_and_named(finished, tmp_path, capsys):
    path = tmp_path / "cpu.json"
    results = load_results(finished)
    del results.cases["training", 48]
    results.deaths["training", 48] = 2
    results.complete = False
    results.write(path)
    assert measure(path, "--lengths", "16,48") == 0
    said = "training, all, 48: out of memory: the process was killed here 2 times, probably for want of memory"
    assert said in capsys.readouterr().out
    assert load_results(path).complete


def settings(*lengths: int) -> Settings:
    return Settings(device="cpu", d_model=16, num_heads=2, lengths=lengths, long_lengths=(), window=4, rounds=1)


def test_what_does_not_fit_is_refused_before_it_starts(monkeypatch):
    started = []
    ways = [Way("small", lambda: started.append("small"), 100), Way("large", lambda: started.append("large"), 10_000)]
    monkeypatch.setattr(run, "free_bytes", lambda device: 2_000)
    small, large = run.run_case(Case("forward", 8, 0, lambda: ways), settings(8))
    assert set(started) == {"small"}
    assert (small.status, large.status) == (MEASURED, REFUSED)
    assert large.reason == "needs about 0.0 GiB, and 0.0 GiB are free"
    assert large.expected_bytes == 10_000

    (inputs,) = run.run_case(Case("forward", 8, 5_000, lambda: pytest.fail("built")), settings(8))
    assert (inputs.name, inputs.status) == ("all", REFUSED)


def test_the_equation_alone_is_refused_where_the_matrix_is_what_does_not_fit(monkeypatch):
    case = next(case for case in all_cases(settings(2048)) if case.group == "forward")
    monkeypatch.setattr(run, "free_bytes", lambda device: 50 * 2**20)  # the two matrices would be 64 MiB
    status = {each.name: each.status for each in run.run_case(case, settings(2048))}
    assert status.pop("equation") == REFUSED
    assert set(status.values()) == {MEASURED}


def no_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


def test_a_size_that_runs_out_of_memory_is_named_and_the_others_are_measured(tmp_path, monkeypatch, capsys):
    ways = [Way("fine", lambda: torch.zeros(3), 0), Way("large", no_memory, 0)]
    monkeypatch.setattr(run, "all_cases", lambda settings: [Case("forward", 8, 0, lambda: ways)])
    path = tmp_path / "cpu.json"
    assert measure(path) == 0
    assert (
        "forward, large, 8: out of memory: CUDA out of memory. Tried to allocate 2.00 GiB." in capsys.readouterr().out
    )
    results = load_results(path)
    assert results.complete and results.ways("forward") == ["fine"]


def test_a_cpu_that_really_has_no_memory_left_is_understood(tmp_path):
    program = """
import resource, sys, torch, psutil
import attn_lib.__main__
from attn_lib.measure import run
all_cases = run.all_cases
run.all_cases = lambda settings: [case for case in all_cases(settings) if case.group == "forward"]
torch.randn(64, 64) @ torch.randn(64, 64)
limit = psutil.Process().memory_info().vms + 200 * 2**20  # the equation needs 256 at S = 2048
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(attn_lib.__main__.main(sys.argv[1:]))
"""
    path = tmp_path / "cpu.json"
    arguments = ["measure", "--quick", "--device", "cpu", "--lengths", "64,2048", "--out", str(path)]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "forward, equation, 2048: out of memory: " in done.stdout
    results = load_results(path)
    assert results.complete
    assert results.series("forward", "fused")[0] == [64, 2048]
    assert results.series("forward", "equation")[0] == [64]


def test_another_error_ends_the_run_keeps_what_is_done_and_leaves_no_mark(tmp_path, monkeypatch):
    def broken():
        raise RuntimeError("something else")

    cases = [Case("forward", S, 0, lambda: [Way("a", lambda: torch.zeros(1), 0)]) for S in (8, 16)]
    cases.append(Case("forward", 32, 0, lambda: [Way("a", broken, 0)]))
    monkeypatch.setattr(run, "all_cases", lambda settings: cases)
    path = tmp_path / "cpu.json"
    with pytest.raises(RuntimeError, match="something else"):
        measure(path)
    results = load_results(path)
    assert list(results.cases) == [("forward", 8), ("forward", 16)]
    assert not any(results.deaths.values()) and not results.complete


def test_another_run_is_not_continued_and_not_overwritten(finished, tmp_path, capsys):
    path = tmp_path / "cpu.json"
    path.write_bytes(finished.read_bytes())
    assert measure(path, "--lengths", "16,48", "--rounds", "3") == 2
    assert "holds another run: settings rounds 1, now 3. Name another file with --out" in capsys.readouterr().err
    assert path.read_bytes() == finished.read_bytes()
    assert measure(path, "--lengths", "16", "--fresh") == 0
    assert load_results(path).about["settings"]["lengths"] == [16]


def test_what_cannot_be_read_or_written_is_refused(tmp_path, capsys, monkeypatch):
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}', encoding="utf-8")
    for more in ([], ["--fresh"]):
        assert measure(other, *more) == 2
        assert "not a file of results" in capsys.readouterr().err
    assert other.read_text(encoding="utf-8") == '{"a": 1}'
    assert measure(tmp_path / "no" / "folder.json") == 2
    assert "a file in a folder that exists would fit" in capsys.readouterr().err
    assert measure(tmp_path) == 2
    capsys.readouterr()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["measure", "--device", "cuda", "--out", str(tmp_path / "new.json")]) == 2
    assert capsys.readouterr().err == "--device cuda: PyTorch sees no GPU here; --device cpu would fit\n"
    assert main(["report", str(other)]) == 2
    assert "not a file of results" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [other]
    with pytest.raises(SystemExit):
        measure(other, "--lengths", "12,none")
    assert "must be lengths of at least 1 with commas" in capsys.readouterr().err


def test_kernels_that_are_not_there_are_named_with_the_reason(finished):
    (line,) = [line for line in load_results(finished).gaps() if line.startswith("kernels, cuDNN, 16")]
    assert line.startswith("kernels, cuDNN, 16, 48: not there: No ")


def test_threads_are_those_of_the_settings_and_then_as_before(tmp_path, monkeypatch):
    seen, before = [], torch.get_num_threads()
    ways = [Way("a", lambda: seen.append(torch.get_num_threads()), 0)]
    monkeypatch.setattr(run, "all_cases", lambda settings: [Case("forward", 8, 0, lambda: ways)])
    assert measure(tmp_path / "cpu.json", "--threads", "2") == 0
    assert set(seen) == {2}
    assert torch.get_num_threads() == before


# What a GPU would get: settings and provenance, without one.


def test_a_gpu_gets_half_precision_and_longer_sequences(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    new = Settings.of(torch.device("cuda"))
    assert (new.dtype, new.lengths[-1], new.as_dict()["device"]) == ("bfloat16", 131072, "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert Settings.of(torch.device("cuda")).dtype == "float16"


# Reports.


def test_the_report_shows_tables_and_draws_figures(finished, tmp_path, capsys):
    folder = tmp_path / "new" / "figures"
    assert main(["report", str(finished), "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "forward, milliseconds of one call" in out and "a large matrix product: " in out
    assert sorted(path.name for path in folder.iterdir()) == ["cpu_memory.png", "cpu_time.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())


def kept(name: str, **seconds: dict[int, float]) -> Results:
    """Results made up: for each way, sizes and seconds."""
    about = {
        "date": "2026-01-02T00:00:00+00:00",
        "device": "cpu",
        "machine": {"processor": name},
        "versions": {"torch": "2.13", "attn_lib": "0.1"},
        "settings": {"threads": 1, "dtype": "float32"},
    }
    sizes = sorted(set().union(*seconds.values()))
    cases = {
        ("forward", size): [
            Measured(way, MEASURED, "", [its[size]] * 7, 1000 * size) for way, its in seconds.items() if size in its
        ]
        for size in sizes
    }
    return Results(about, cases, complete=True)


def test_exponents_and_the_crossing_are_those_of_the_numbers(tmp_path, capsys):
    sizes = (512, 1024, 2048)
    results = kept("one", projections={S: S * 1e-3 for S in sizes}, equation={S: S**2 * 1e-6 for S in sizes})
    results.write(tmp_path / "one.json")
    assert main(["report", str(tmp_path / "one.json"), "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "projections: exponent 1.00 from S = 512 on (1.00, 1.00)" in out
    assert "equation: exponent 2.00 from S = 512 on (2.00, 2.00)" in out
    assert "equation takes longer than the projections from S = 1000 on" in out


def test_several_runs_are_drawn_beside_each_other(tmp_path, capsys):
    for name, sizes in (("a", (512, 1024)), ("b", (1024, 2048))):
        kept(name, projections={S: 1.0 for S in sizes}, fused={S: float(S) for S in sizes}).write(
            tmp_path / f"{name}.json"
        )
    assert main(["report", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "side_by_side.png").is_file()
    assert "a, 1 thread" in capsys.readouterr().out


def test_series_refuse_what_they_do_not_hold():
    with pytest.raises(ValueError, match='what must be "seconds" or "peak_bytes"'):
        kept("a", fused={8: 1.0}).series("forward", "fused", "flops")
    with pytest.raises(ResultsError, match="no measured copy"):
        kept("a", fused={8: 1.0}).copy_bandwidth  # noqa: B018


# The runs that the book shows.

RECORDS = sorted(FOLDER.glob("*.json"))


def test_there_is_a_record_of_a_cpu():
    assert any(load_results(path).about["device"] == "cpu" for path in RECORDS)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_of_the_book_is_complete_and_a_measurement(path):
    results = load_results(path)
    assert results.complete
    assert results.about["settings"]["rounds"] >= 7
    for ways in results.cases.values():
        assert all(len(each.seconds) >= 7 for each in ways if each.status == MEASURED)
        assert all(each.status != OUT_OF_MEMORY for each in ways)
    assert os.fsencode(str(ROOT)) not in path.read_bytes()
    assert results.as_json() == path.read_bytes()


def test_a_run_of_ones_own_is_found_beside_those_of_the_book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_results("cuda_mine.json*") == []
    (tmp_path / "results").mkdir()
    for name in ("cuda_mine.json", RECORDS[0].name):
        (tmp_path / "results" / name).touch()
    assert [path.parent.name for path in find_results("cuda_mine.json")] == ["results"]
    assert [path.parent.name for path in find_results(RECORDS[0].name)] == ["results"]  # one's own comes first
    assert find_results("c*.json") == sorted(find_results("c*.json"), key=lambda path: path.name)
    with pytest.raises(ResultsError, match=r"no_such\.json: no such file in .*results"):
        find_results("no_such.json")
