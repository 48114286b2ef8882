"""The site's extension: faults end the build and are named; and what make says before there is one."""

import os
import shutil
import subprocess

from .building import ROOT, build


def plant(page, text):
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{text}\n", encoding="utf-8")


def test_faults_end_the_build_and_are_named(copy):
    plant(copy / "book/notation.md", r"Planted: $\frac{1}{$.")
    plant(copy / "book/references.md", "Planted: [nowhere](nowhere.md), {cite:p}`nobody1999`, ![a picture](gone.png).")
    plant(copy / "book/conventions.md", "```{worked-example} nothing.yml\n:row: love\n```")
    plant(copy / "book/how_to_read.md", "{{ no_such_fact }}")
    (copy / "book/api.md").write_text("---\ndescription: Planted.\n---\n\n# API\n", encoding="utf-8")
    result = build(copy, copy / "out")
    assert result.returncode != 0
    log = " ".join(result.stderr.split())
    for expected in (
        r"KaTeX cannot read '\\frac{1}{'",
        "nowhere",
        "nobody1999",
        "gone.png",
        "no worked example 'nothing.yml'",
        "no_such_fact",
        "its description has 8 characters, not 30 to 160: 'Planted.'",
    ):
        assert expected in log, f"{expected!r} is missing in {result.stderr}"


def test_make_says_what_is_missing(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    outside = {
        key: value for key, value in os.environ.items() if not key.startswith("MAKE")
    }  # not a part of the make that runs this
    result = subprocess.run(
        ["make", "book", "PYTHON=no-such-python"], cwd=tmp_path, env=outside, capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "no-such-python was not found: install Python" in result.stdout
