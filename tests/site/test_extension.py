"""The site's extension: faults end the build and are named, the repository's address is used only where it is known."""

import os
import shutil
import subprocess

import pytest
from sphinx.errors import ConfigError

from book.extension.attention_book import repository

from .building import ROOT, build

PARTS = ("_config.yml", "_toc.yml", "pyproject.toml", "attn_lib", "book", "notebooks")


@pytest.fixture
def copy(tmp_path):
    """A copy of what the site is built from."""
    for part in PARTS:
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / part)
    return tmp_path


def plant(page, text):
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{text}\n", encoding="utf-8")


def test_faults_end_the_build_and_are_named(copy):
    plant(copy / "book/notation.md", r"Planted: $\frac{1}{$.")
    plant(copy / "book/references.md", "Planted: [nowhere](nowhere.md), {cite:p}`nobody1999`, ![a picture](gone.png).")
    plant(copy / "book/conventions.md", "```{worked-example} nothing.yml\n:row: love\n```")
    plant(copy / "book/how_to_read.md", "{{ no_such_fact }}")
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
    ):
        assert expected in log, f"{expected!r} is missing in {result.stderr}"


def test_without_an_address_there_is_no_button(site):
    for path in (site / "notebooks").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "colab.research.google.com/github" not in text  # a source may be a notebook there
        assert "mybinder" not in text


def test_with_an_address_each_chapter_opens_elsewhere(copy):
    result = build(
        copy, copy / "out", BOOK_REPOSITORY_URL="https://github.com/somebody/attention", BOOK_REPOSITORY_BRANCH="main"
    )
    assert result.returncode == 0, result.stderr
    for path in (copy / "notebooks").glob("*.ipynb"):
        page = (copy / f"out/_build/html/notebooks/{path.stem}.html").read_text(encoding="utf-8")
        assert f"https://colab.research.google.com/github/somebody/attention/blob/main/notebooks/{path.name}" in page
        assert f"https://mybinder.org/v2/gh/somebody/attention/main?urlpath=lab/tree/notebooks/{path.name}" in page


def test_an_address_of_another_kind_is_refused(monkeypatch):
    monkeypatch.setenv("BOOK_REPOSITORY_URL", "ftp://example.invalid/book")
    with pytest.raises(ConfigError, match="must read https://github.com/OWNER/NAME"):
        repository.address()


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
