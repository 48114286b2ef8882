"""The notebooks that run on their own, piece by piece: the wheel, the links, and what the first cell does where something is missing."""

import base64
import json
import os
import shutil
import subprocess
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from sphinx.errors import ExtensionError

from book.extension.attention_book import repository, wheel
from book.extension.attention_book.bring_along import bring_attn_lib_along
from book.extension.attention_book.self_contained import (
    first_cell,
    published,
    relative_links,
    self_contained,
    with_links,
)

from .building import ROOT, toc_pages

PAGES = ["book/glossary", "notebooks/02_x", "notebooks/03_x"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    """The wheel."""
    return wheel.build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


# The wheel


@pytest.fixture
def sources(tmp_path) -> Path:
    """A copy of the files that the wheel is made of."""
    for path in wheel.sources(ROOT):
        (tmp_path / "sources" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / "sources" / path)
    return tmp_path / "sources"


def test_the_same_files_give_the_same_wheel_and_nothing_is_left_behind(sources, tmp_path, content):
    for path in sources.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (1e9, 1e9))
    before = sorted(sources.rglob("*"))
    assert wheel.build_wheel(sources, tmp_path / "kept") == content
    assert sorted(sources.rglob("*")) == before


def test_a_wheel_is_built_again_only_when_a_file_has_changed(sources, tmp_path, monkeypatch):
    built = []
    monkeypatch.setattr(wheel, "built", lambda root, files: built.append(files) or b"%d" % len(built))
    for _ in range(2):
        assert wheel.build_wheel(sources, tmp_path / "kept") == b"1"
    (sources / "attn_lib/masks.py").write_text("", encoding="utf-8")
    assert wheel.build_wheel(sources, tmp_path / "kept") == b"2"
    (sources / "attn_lib/more.py").touch()
    assert wheel.build_wheel(sources, tmp_path / "kept") == b"3"
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_a_wheel_that_cannot_be_built_is_named(sources, tmp_path):
    project = (sources / "pyproject.toml").read_text(encoding="utf-8")
    (sources / "pyproject.toml").write_text(project.replace("version =", "versoin ="), encoding="utf-8")
    with pytest.raises(
        ExtensionError,
        match=r"setuptools.build_meta cannot build a wheel of attn_lib:(?s:.)*must contain \['version'\]",
    ):
        wheel.build_wheel(sources, tmp_path / "kept")


# The links


@pytest.mark.parametrize(
    ("text", "online", "alone"),
    [
        ("[the next](03_x.ipynb).", "[the next](https://a.example/notebooks/03_x.html).", "the next."),
        ("[it](03_x.ipynb#a-b)", "[it](https://a.example/notebooks/03_x.html#a-b)", "it"),
        ("[here](#a-b)", "[here](https://a.example/notebooks/02_x.html#a-b)", "here"),
        ("[a [b] $D_k$](../book/glossary.md)", "[a [b] $D_k$](https://a.example/book/glossary.html)", "a [b] $D_k$"),
        ("| [x](03_x.ipynb) |\n| --- |\n| y |", "| [x](https://a.example/notebooks/03_x.html) |\n| --- |\n| y |", "| x |\n| --- |\n| y |"),
        ("[a](https://b.example), ![c](attachment:d.png)", None, None),
        ("`[a](03_x.ipynb)`\n\n```\n[a](03_x.ipynb)\n```", None, None),
    ],
)  # fmt: skip
def test_links_lead_to_the_site_or_are_plain_text(text, online, alone):
    assert with_links(text, published("notebooks/02_x", PAGES, "https://a.example")) == (online or text)
    assert with_links(text, published("notebooks/02_x", PAGES, None)) == (alone or text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a](04_x.ipynb)", "notebooks/02_x links to 04_x.ipynb, and there is no such page"),
        ("![a picture](03_x.ipynb)", "a lone notebook cannot show 03_x.ipynb"),
        ("[a][b]\n\n[b]: 03_x.ipynb", "a lone notebook cannot show 03_x.ipynb"),
    ],
)
def test_a_link_that_would_be_dead_is_refused(text, fault):
    for site in ("https://a.example", None):
        with pytest.raises(ExtensionError, match=fault):
            with_links(text, published("notebooks/02_x", PAGES, site))


# The notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_site_gives_the_chapter_with_one_cell_more(site, path, content):
    lone = site / "download" / path.name
    chapter, given = (nbformat.read(each, as_version=4) for each in (path, lone))
    pages = [page.removesuffix(".html") for page in toc_pages()]
    find = published(f"notebooks/{path.stem}", pages, repository.site_address())
    assert self_contained(chapter, content, find) == lone.read_text(encoding="utf-8")

    assert given.cells.pop(0) == first_cell(content)
    assert len(given.cells) == len(chapter.cells)
    for ours, theirs in zip(given.cells, chapter.cells, strict=True):
        if ours.cell_type == "markdown":
            assert relative_links(ours.source) == []
            assert ours.metadata == theirs.metadata
        else:
            assert ours == theirs  # with what it showed
    assert lone.stat().st_size < path.stat().st_size + 400_000


def test_the_first_cell_is_folded_and_says_what_it_is(content):
    cell = first_cell(content)
    assert cell.source.startswith("# @title Bring attn_lib along\n")
    assert cell.metadata == {"cellView": "form", "jupyter": {"source_hidden": True}, "_kg_hide-input": True}
    assert max(map(len, cell.source.splitlines())) <= 120


# What the first cell does

PIP = """\
import json, pathlib, sys
pathlib.Path(__file__).with_name("asked.json").write_text(json.dumps(sys.argv[1:]))
print("no such package", file=sys.stderr)
sys.exit({status})
"""
WHERE = """
import importlib.util, os
print(importlib.util.find_spec("attn_lib").origin)
print(os.environ.get("PYTHONPATH", ""))
"""


class Elsewhere:
    """An environment of its own, with `packaging` as every Jupyter kernel has it, and a pip that only writes down what it is asked."""

    def __init__(self, folder: Path):
        self.folder = folder
        venv.create(folder / "environment", with_pip=False, symlinks=os.name != "nt")
        self.python = folder / "environment" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        where = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        self.packages = Path(subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip())
        packaging = metadata.distribution("packaging")
        for file in packaging.files:
            if file.suffix in {".py", ""} and ".." not in file.parts:
                (self.packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(packaging.locate_file(file), self.packages / file)
        self.pip_ends_with(0)

    def pip_ends_with(self, status: int) -> None:
        (self.packages / "pip").mkdir(exist_ok=True)
        (self.packages / "pip/__main__.py").write_text(PIP.format(status=status), encoding="utf-8")

    def has(self, name: str, version: str) -> None:
        """Pretend that a package is installed."""
        folder = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")

    def run(self, source: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "work").mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [self.python, "-c", "import sys; exec(sys.stdin.read())"]  # the cell is too long for a command line
        return subprocess.run(
            command,
            input=source,
            cwd=self.folder / "work",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def asked(self) -> list[str] | None:
        """What pip was asked, or None if it was not."""
        path = self.packages / "pip/asked.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


@pytest.fixture
def elsewhere(tmp_path) -> Elsewhere:
    return Elsewhere(tmp_path)


def needed() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(each) for each in project["dependencies"]]


def test_what_is_missing_is_installed_and_nothing_else(elsewhere, content):
    for each in needed():
        if each.name not in {"tabulate", "matplotlib-fontja"}:
            elsewhere.has(each.name, "999")
    run = elsewhere.run(first_cell(content).source + WHERE)
    assert run.returncode == 0, run.stderr
    assert elsewhere.asked == ["install", "-q", "matplotlib-fontja", "tabulate"]
    says, origin, path = run.stdout.splitlines()
    assert says == "Installing matplotlib-fontja, tabulate: once, it may take some minutes."
    assert Path(origin).parents[1] == Path(path)
    assert not Path(path).is_relative_to(elsewhere.folder) and Path(path).name.startswith("attn_lib_")
    assert not Path(path).exists()  # gone with the process
    assert list((elsewhere.folder / "work").iterdir()) == []  # nothing beside the notebook


def test_where_everything_is_missing_everything_is_installed(elsewhere, content):
    run = elsewhere.run(first_cell(content).source)
    assert run.returncode == 0, run.stderr
    assert elsewhere.asked == ["install", "-q", *(f"{each.name}{each.specifier}" for each in needed())]


def test_where_nothing_is_missing_pip_is_not_asked(elsewhere, content):
    for each in needed():
        elsewhere.has(each.name, "999")
    run = elsewhere.run(first_cell(content).source)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert elsewhere.asked is None


def test_what_is_too_old_is_replaced_and_the_reader_told_to_restart(elsewhere, content):
    for each in needed():
        elsewhere.has(each.name, "0.1" if each.name == "torch" else "999")
    run = elsewhere.run(first_cell(content).source)
    assert elsewhere.asked == [
        "install",
        "-q",
        *(f"torch{each.specifier}" for each in needed() if each.name == "torch"),
    ]
    assert "restart the kernel" in run.stdout


def test_a_pip_that_fails_is_heard(elsewhere, content):
    elsewhere.pip_ends_with(1)
    run = elsewhere.run(first_cell(content).source)
    assert run.returncode == 1
    assert "RuntimeError: pip could not install torch" in run.stderr
    assert "It says:\nno such package" in run.stderr


@pytest.mark.parametrize("damage", ["a byte", "the end"])
def test_a_damaged_wheel_is_not_used(elsewhere, content, damage):
    source = first_cell(content).source
    text = base64.b64encode(content).decode()[:100]
    assert source.count(text) == 1
    if damage == "a byte":
        source = source.replace(text, text[:-1] + ("A" if text[-1] != "A" else "B"))
    else:
        source = source.replace(text, text[:-1])
    run = elsewhere.run(source)
    assert run.returncode == 1
    assert "ValueError: The copy of attn_lib in this cell is damaged: download the notebook again." in run.stderr
    assert elsewhere.asked is None


def test_an_installed_attn_lib_is_left_alone(elsewhere, content):
    (elsewhere.packages / "attn_lib").mkdir()
    (elsewhere.packages / "attn_lib/__init__.py").touch()
    run = elsewhere.run(first_cell(content).source + WHERE)
    assert run.stdout.splitlines() == [str(elsewhere.packages / "attn_lib/__init__.py"), ""], run.stderr
    assert elsewhere.asked is None


def test_a_folder_of_that_name_is_not_the_package(elsewhere, content):
    for each in needed():
        elsewhere.has(each.name, "999")
    (elsewhere.folder / "work/attn_lib").mkdir(parents=True)
    run = elsewhere.run(first_cell(content).source + WHERE)
    origin, path = run.stdout.splitlines()
    assert Path(origin) == Path(path, "attn_lib", "__init__.py")


def test_a_python_that_is_too_old_is_named(monkeypatch):
    monkeypatch.setattr("platform.python_version", lambda: "3.6.1")
    with pytest.raises(RuntimeError, match=r"attn_lib needs Python >=[\d.]+, and this is 3\.6\.1"):
        bring_attn_lib_along("", "")
