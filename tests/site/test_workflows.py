"""The workflows and the conda environment: valid, and without a second list of versions."""

import re
import subprocess
import sys

import pytest
import yaml

from .building import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def valid(*workflows) -> subprocess.CompletedProcess[str]:
    """Hold workflows against the public schema, which check-jsonschema carries: no network."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_workflows_are_valid():
    assert {path.stem for path in WORKFLOWS} == {"test", "publish"}
    result = valid(*WORKFLOWS)
    assert result.returncode == 0, result.stdout


def test_a_wrong_workflow_is_refused(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on:", "run-on:"), encoding="utf-8")
    assert valid(wrong).returncode == 1


def test_ci_calls_what_a_user_calls():
    commands = [
        step.get("run", "")
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
    ]
    assert "make test" in commands
    assert "make book" in commands


def test_constraints_are_names_and_versions_alone():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*|[A-Za-z0-9][\w.-]*==[0-9][0-9a-z.]*", line), line


@pytest.mark.parametrize("name", ["pyproject.toml", "environment.yml", "Makefile", "README.md"])
def test_versions_are_pinned_in_one_place(name):
    pinned = re.findall(r"[\w-]+==[0-9][\w.]*", (ROOT / name).read_text(encoding="utf-8"))
    assert pinned == []
