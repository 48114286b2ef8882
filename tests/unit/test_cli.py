"""The command line: tables, one line a file, exit statuses, JSON, JUnit, and bad input without a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attn_lib.__main__ import main
from attn_lib.worked_examples import builtin_examples, check_example, load_example, published_examples

FILES = {path.stem: path for path in builtin_examples()}
LOVE = FILES["self_attention_love"].read_text(encoding="utf-8")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def wrong(tmp_path) -> Path:
    """The self-attention file with one digit changed."""
    path = tmp_path / "wrong.yml"
    path.write_text(LOVE.replace("1.6888, 2.1408]", "1.6889, 2.1408]"), encoding="utf-8")
    return path


@pytest.fixture
def empty(tmp_path) -> Path:
    path = tmp_path / "empty.yml"
    path.write_text("", encoding="utf-8")
    return path


def run(*arguments: str | Path, **settings) -> subprocess.CompletedProcess:
    """The command as a shell runs it."""
    command = [sys.executable, "-m", "attn_lib", *map(os.fspath, arguments)]
    settings = {"cwd": ROOT, "capture_output": True, "timeout": 120, **settings}
    return subprocess.run(command, **settings)


def test_without_a_file_those_of_the_package_are_checked(capsys):
    assert main(["check"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    files = [*FILES.values(), *published_examples()]
    last = out.splitlines()[-len(files) :]
    assert [line.split(": ")[:2] for line in last] == [[path.name, "right"] for path in files]
    assert "self_attention_love.yml: right: 47 numbers, 1 erratum, 6 claims, from 22 given numbers" in last


@pytest.mark.parametrize("asked", [["--form"], ["--form", "calculation"], ["--form", "costs"]])
def test_a_form_is_a_file_that_can_be_checked(asked, tmp_path, capsys):
    assert main(["check", *asked]) == 0
    path = tmp_path / "mine.yml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["check", str(path)]) == 0
    assert "right" in capsys.readouterr().out.splitlines()[-1]
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--form", "letter"])
    assert "invalid choice" in capsys.readouterr().err


def test_the_table_goes_stage_by_stage(capsys):
    main(["check", str(FILES["self_attention_love"])])
    lines = capsys.readouterr().out.splitlines()
    stages = [line.split()[0] for line in lines if line.startswith("  ")]
    assert stages[0] == "stage"
    order = list(dict.fromkeys(stages[1:]))
    assert order == ["Q", "K", "V", "scores", "d_k", "scaled_scores", "weights", "output", "erratum", "claim"]
    (weights,) = [line.split() for line in lines if line.startswith("  weights")]
    assert weights == "weights row love 0.1688 0.2472 0.2457 0.3383 0.1688 0.2472 0.2457 0.3382 erratum".split()


def test_columns_line_up_where_characters_are_two_cells_wide(capsys):
    main(["check", str(FILES["cross_attention_watashiwa"])])
    table = [line for line in capsys.readouterr().out.splitlines() if line.endswith("right")]
    japanese = [line for line in table if "私は" in line]
    others = [line for line in table if "私は" not in line]
    assert {line.index("right") for line in others} == {next(iter(line.index("right") for line in japanese)) + 2}


def test_a_wrong_number_exits_1_and_stands_in_the_last_line(wrong, capsys):
    assert main(["check", str(FILES["keys_sentence"]), str(wrong)]) == 1
    out, err = capsys.readouterr()
    right, line = out.splitlines()[-2:]
    assert right.startswith("keys_sentence.yml: right: 3 claims")
    expected = (
        "wrong: scores, row love, column machine: printed 1.6889, right 1.6888 (1.688800); no usual mistake explains it"
    )
    assert line == f"{wrong}: {expected}"
    assert err == ""


def test_json_holds_all_of_it(wrong, capsys):
    assert main(["check", "--json", str(wrong), str(FILES["multi_head_love"])]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {key: told[key] for key in ("verdict", "checked", "given", "errata", "claims")} == {
        "verdict": "wrong",
        "checked": 47 + 12,
        "given": 22 + 36,
        "errata": 1,
        "claims": 6,
    }
    first, second = told["files"]
    assert (first["name"], first["verdict"], second["verdict"]) == (str(wrong), "wrong", "right")
    assert first["first_wrong"]["place"] == "scores, row love, column machine"
    assert first["usual_mistake"] is None and second["first_wrong"] is None
    findings = [finding for row in first["rows"] for finding in row["findings"]]
    assert len(findings) == 47
    assert [finding["status"] for finding in findings].count("wrong") == 1
    printed = [row["findings"][0]["printed"] for row in first["rows"] if row["stage"] == "output"]
    assert printed == ["0.8933", "0.893"]


def test_junit_names_every_row_and_what_is_wrong(wrong, tmp_path, capsys):
    report = tmp_path / "report.xml"
    assert main(["check", "--junit", str(report), str(wrong), str(FILES["keys_sentence"])]) == 1
    root = ElementTree.parse(report).getroot()
    first, second = root.findall("testsuite")
    worked = check_example(load_example(wrong))
    cases = first.findall("testcase")
    assert len(cases) == len(worked.rows) + 1 + 6 == int(first.get("tests"))
    assert len({case.get("name") for case in cases}) == len(cases)
    (failed,) = [case for case in cases if case.find("failure") is not None]
    assert failed.get("name") == "scores row love: 1.158 1.6976 1.6889 2.1408"
    assert (
        failed.find("failure")
        .get("message")
        .startswith("scores, row love, column machine: printed 1.6889, right 1.6888")
    )
    assert (first.get("failures"), second.get("failures"), second.get("tests")) == ("1", "0", "3")
    assert list(tmp_path.glob(".report*")) == []
    assert "keys_sentence.yml: right" in capsys.readouterr().out


def test_nothing_is_written_when_a_file_cannot_be_read(empty, tmp_path, capsys):
    report = tmp_path / "report.xml"
    report.write_text("the last run's", encoding="utf-8")
    missing = tmp_path / "missing.yml"
    files = [str(FILES["keys_sentence"]), str(empty), str(missing)]
    for extra in ([], ["--json"]):
        assert main(["check", "--junit", str(report), *extra, *files]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        first, second = err.splitlines()
        assert first.startswith(f"{empty}: is empty; ")
        assert second == f"{missing}: cannot be read: No such file or directory; a YAML file would fit"
    assert report.read_text(encoding="utf-8") == "the last run's"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.yml", "report.xml"]


def test_a_report_that_cannot_be_written_exits_2_in_one_line(tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for target in (tmp_path / "none" / "report.xml", folder, fifo, "a\0b", ""):
        assert main(["check", "--junit", str(target), str(FILES["keys_sentence"])]) == 2
        out, err = capsys.readouterr()
        assert out == "" and len(err.splitlines()) == 1
        assert "cannot be written" in err and "a file in a folder that exists would fit" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "folder"]
    assert list(folder.iterdir()) == []


def test_a_report_interrupted_in_the_middle_leaves_the_old_one(tmp_path, monkeypatch, capsys):
    report = tmp_path / "report.xml"
    report.write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    assert main(["check", "--junit", str(report), str(FILES["keys_sentence"])]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert report.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.xml"]


@pytest.mark.parametrize("arguments", [["chekc"], [], ["check", "--unknown"], ["check", "--junit"]])
def test_usage_errors_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m attn_lib")


def test_help_says_what_the_statuses_mean(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["check", "--help"])
    assert caught.value.code == 0
    assert "1 something differs, 2 something cannot be read" in " ".join(capsys.readouterr().out.split())


def test_as_a_process_with_everything_that_is_no_example(tmp_path, empty):
    """Files, devices and names that hang, flood or garble, all at once: a line each, no traceback, nothing written."""
    fifo = tmp_path / "fifo.yml"
    os.mkfifo(fifo)
    (tmp_path / "zero.yml").symlink_to("/dev/zero")
    (tmp_path / "deep.yml").write_text("[" * 10_000, encoding="utf-8")
    (tmp_path / "large.yml").write_bytes(b"x" * 10_000_000)
    (tmp_path / "nan.yml").write_text(LOVE.replace("[0.8, 1.2]", "[0.8, nan]"), encoding="utf-8")
    (tmp_path / "\x1b[31mred\n.yml").write_text("", encoding="utf-8")
    (tmp_path / "\udcff.yml").write_text("", encoding="utf-8")  # a name that is not UTF-8
    files = [*sorted(tmp_path.iterdir()), tmp_path, tmp_path / "missing.yml"]
    before = sorted(os.listdir(tmp_path))
    result = run("check", "--junit", tmp_path / "report.xml", *files)
    errors = result.stderr.decode("ascii").splitlines()  # what is not ASCII in these names is escaped
    assert result.returncode == 2
    assert result.stdout == b""
    assert len(errors) == len(files)
    assert all(line.isprintable() and "would" in line for line in errors)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_reader_who_leaves_early_sees_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-m", "attn_lib", "check"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # long before torch is imported
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 0
    assert errors == b""


def test_a_terminal_without_japanese_gets_escapes():
    result = run("check", FILES["cross_attention_watashiwa"], env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0, result.stderr
    assert rb"row \u79c1\u306f" in result.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_disk_is_said_in_one_line():
    with open("/dev/full", "wb") as full:
        result = run("check", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 2
    assert result.stderr == b"standard output: cannot be written: No space left on device\n"
