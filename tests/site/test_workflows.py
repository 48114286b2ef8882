"""The workflows and the conda environment: valid, and without a second list of versions."""

import os
import re
import subprocess
import sys
import tarfile

import pytest
import yaml

from book.extension.attention_book import repository

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


def publishing() -> dict:
    return yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))


def test_the_site_is_built_with_every_address():
    set_there = {**publishing()["env"], **publishing()["jobs"]["build"]["env"]}
    assert {name for name in set_there if name.startswith("BOOK_")} == {
        repository.URL,
        repository.BRANCH,
        repository.PUBLISHED_BRANCH,
        repository.SITE,
    }


def test_only_the_job_that_needs_a_permission_has_it():
    assert publishing()["permissions"] == {}
    assert {name: job["permissions"] for name, job in publishing()["jobs"].items()} == {
        "build": {"contents": "read"},
        "branch": {"contents": "write"},
        "deploy": {"pages": "write", "id-token": "write"},
    }


def test_the_published_branch_has_one_commit_that_holds_the_site(tmp_path):
    """The step as it stands, twice, against a repository in a folder."""
    (script,) = [step["run"] for step in publishing()["jobs"]["branch"]["steps"] if "run" in step]
    branch = publishing()["env"][repository.PUBLISHED_BRANCH]
    remote = tmp_path / "somebody" / "attention"

    def git(*arguments):
        command = ["git", "--git-dir", remote, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    remote.mkdir(parents=True)
    git("init", "--bare", "--quiet")
    for number, page in enumerate(("old.html", "index.html")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / page).touch()
        with tarfile.open(folder / "artifact.tar", "w") as artifact:
            artifact.add(folder / page, page)
        variables = {
            "BOOK_PUBLISHED_BRANCH": branch,
            "GITHUB_ACTOR": "somebody",
            "GITHUB_REPOSITORY": "somebody/attention",
            "GITHUB_SERVER_URL": tmp_path.as_uri(),
            "GITHUB_SHA": "0" * 40,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "TOKEN": "secret",
        }
        run = subprocess.run(
            ["bash", "-e", "-c", script], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        assert "secret" not in run.stdout + run.stderr
    assert len(git("rev-list", branch)) == 1
    assert git("ls-tree", "-r", "--name-only", branch) == [".nojekyll", "index.html"]


def test_constraints_are_names_and_versions_alone():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*|[A-Za-z0-9][\w.-]*==[0-9][0-9a-z.]*", line), line


@pytest.mark.parametrize("name", ["pyproject.toml", "environment.yml", "Makefile", "README.md"])
def test_versions_are_pinned_in_one_place(name):
    pinned = re.findall(r"[\w-]+==[0-9][\w.]*", (ROOT / name).read_text(encoding="utf-8"))
    assert pinned == []
