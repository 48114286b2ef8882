"""The API pages: an entry for all that is public, each with something to say, and read as it was meant."""

import importlib
import inspect
import re
from types import FunctionType

import pytest
import torch
from bs4 import BeautifulSoup, Tag

import attn_lib
from attn_lib import learned, measure, plots, worked_examples

from .building import toc_pages
from .test_pages import article

PAGES = [page for page in toc_pages() if page.startswith("book/api")]
NAMES = [
    *(f"attn_lib.{name}" for name in attn_lib.__all__),
    *(f"attn_lib.measure.{name}" for name in measure.__all__),
    *(f"attn_lib.learned.{name}" for name in learned.__all__),
    *(f"attn_lib.worked_examples.{name}" for name in worked_examples.__all__),
    *(f"attn_lib.plots.{name}" for name in vars(plots) if name.startswith("plot_")),
    "attn_lib.exercises.check_answer",
]
TYPED = re.compile(r"(Args|Returns|Raises|Attributes|Source|In PyTorch):")
LINE = 120  # characters of a signature that may stand in one line


def thing(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def entries(page: BeautifulSoup) -> dict[str, Tag]:
    """Address to entry, of everything that a page describes."""
    return {tag["id"]: tag.parent for tag in page.select("dl.py > dt[id]")}


def silent(page: BeautifulSoup) -> list[str]:
    """Entries without a sentence."""
    return [name for name, tag in entries(page).items() if not tag.dd.get_text(strip=True)]


def unread(page: BeautifulSoup) -> list[str]:
    """Headings of docstrings that stand on the page as they were typed."""
    typed = [tag.get_text(" ", strip=True) for tag in page.select("dl.py p")]
    return [text for text in typed if TYPED.match(text)]


def in_one_line(page: BeautifulSoup) -> list[str]:
    """Signatures that are too long for one line and stand in one."""
    signatures = [tag for tag in page.select("dl.py > dt.sig") if not tag.select("dl")]
    return [tag["id"] for tag in signatures if len(tag.get_text(strip=True)) > LINE]


@pytest.fixture(scope="module")
def described(site) -> dict[str, Tag]:
    """Address to entry, over all pages of the API."""
    return {name: tag for page in PAGES for name, tag in entries(article(site / page)).items()}


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_an_entry(described, name):
    assert name in described


def test_every_method_has_an_entry(described):
    public = {thing(name): name for name in NAMES if inspect.isclass(thing(name))}
    bases = {base for each in public for base in each.__mro__ if base.__module__.startswith("attn_lib")}
    missing = []
    for base in bases:
        # What a private class brings in is described at one of the public ones that have it.
        owners = [public[base]] if base in public else [name for each, name in public.items() if issubclass(each, base)]
        for key, member in vars(base).items():
            hook = key.startswith("_") or (hasattr(torch.nn.Module, key) and key != "forward")
            if isinstance(member, FunctionType | classmethod | property) and not hook:
                missing += [] if any(f"{owner}.{key}" in described for owner in owners) else [f"{base.__name__}.{key}"]
    assert missing == []


def test_overview_links_to_what_the_library_exports(site):
    links = {tag["href"].partition("#")[2] for tag in article(site / "book/api.html").select("td a[href]")}
    assert {f"attn_lib.{name}" for name in attn_lib.__all__} <= links


@pytest.mark.parametrize("page", PAGES)
def test_entries_say_something_and_are_read_as_meant(site, page):
    text = article(site / page)
    assert silent(text) == []
    assert unread(text) == []
    assert in_one_line(text) == []


@pytest.mark.parametrize("name", [f"attn_lib.{name}" for name in attn_lib.__all__])
def test_entry_names_its_source_and_pytorch(described, name):
    fields = [tag.get_text(strip=True) for tag in described[name].select(":scope > dd > dl.field-list > dt")]
    assert {"Source:", "In PyTorch:"} <= set(fields)


def test_faults_are_seen():
    page = BeautifulSoup(
        '<dl class="py"><dt class="sig" id="a">a(x)</dt><dd></dd></dl>'
        '<dl class="py"><dt class="sig" id="b">b(x)</dt><dd><p>Source: <em>as typed</em></p></dd></dl>'
        f'<dl class="py"><dt class="sig" id="c">c({"x, " * 50})</dt><dd><p>Fine.</p></dd></dl>',
        "html.parser",
    )
    assert set(entries(page)) == {"a", "b", "c"}
    assert silent(page) == ["a"]
    assert unread(page) == ["Source: as typed"]
    assert in_one_line(page) == ["c"]
