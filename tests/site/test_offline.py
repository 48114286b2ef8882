"""The site with the network cut, from disk and from a server of this machine: complete, silent, and its search finds."""

import zipfile
from pathlib import Path

import pytest

from book.scripts.archive import archive

from .browsing import DESKTOP, look
from .building import ROOT, toc_pages

PAGES = [*toc_pages(), "search.html", "genindex.html"]


@pytest.fixture(params=["disk", "server"])
def home(request, site) -> str:
    """Where the site is opened from."""
    return site.as_uri() if request.param == "disk" else request.getfixturevalue("served")


def undrawn(page) -> list[str]:
    """Equations of which nothing is seen."""
    return page.evaluate(
        """() => [...document.querySelectorAll("article .math")]
            .filter(tag => !(tag.querySelector(".katex-html")?.getBoundingClientRect().width > 0) && tag.checkVisibility())
            .map(tag => tag.textContent.slice(0, 60))"""
    )


@pytest.mark.parametrize("name", PAGES)
def test_page_asks_nobody_and_runs_clean(home, browser, name):
    page, faults = look(browser, f"{home}/{name}", DESKTOP)
    assert faults == []
    assert undrawn(page) == []
    page.close()


def found(page) -> list[str]:
    """The addresses that a search has found, best first, once it is over."""
    page.wait_for_function(
        "/found|did not match/.test(document.querySelector('#search-results .search-summary')?.textContent)"
    )
    return [link.get_attribute("href") for link in page.locator("#search-results li a").all()]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("logsumexp", "10_attention"),
        ("saturated", "06_why"),
        ("causal", "03_masked"),
        ("私は", "04_cross"),
        ("kv_cache_bytes", "costs"),
    ],
)
def test_search_finds(home, browser, word, expected):
    page, faults = look(browser, f"{home}/book/index.html", DESKTOP)
    page.keyboard.press("Control+k")
    page.locator("dialog[open] input[type=search]").fill(word)
    page.keyboard.press("Enter")
    assert any(expected in address for address in found(page))
    page.locator("#search-results li a").first.click()
    page.wait_for_load_state()
    assert page.locator("article h1").count() > 0
    assert faults == []
    page.close()


def test_search_says_when_there_is_nothing(home, browser):
    page, faults = look(browser, f"{home}/search.html?q=zebra", DESKTOP)
    assert found(page) == []
    assert faults == []
    page.close()


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a site; what Sphinx notes for itself is not one of them."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".buildinfo"
    }


def test_the_archive_holds_the_whole_site_and_works_where_it_is_unpacked(site, browser, tmp_path):
    packed = archive(site, tmp_path / "book.zip")
    with zipfile.ZipFile(packed) as file:
        file.extractall(tmp_path / "a place with spaces")
        folders = {name.split("/")[0] for name in file.namelist()}
    assert len(folders) == 1
    unpacked = tmp_path / "a place with spaces" / folders.pop()
    assert contents(unpacked) == contents(site)
    page, faults = look(browser, unpacked / "search.html", DESKTOP)
    page.goto((unpacked / "index.html").as_uri())
    page.wait_for_url("**/book/index.html")  # the first page leads on to it
    page.locator("nav a", has_text="Self-attention by hand").first.click()
    page.wait_for_load_state()
    assert page.locator("article h1").inner_text().startswith("Self-attention by hand")
    assert page.evaluate(
        "[...document.querySelectorAll('article img')].every(img => img.complete && img.naturalWidth > 0)"
    )
    assert faults == []
    page.close()


def test_two_archives_of_one_site_are_the_same_bytes(site, tmp_path):
    assert archive(site, tmp_path / "a.zip").read_bytes() == archive(site, tmp_path / "b.zip").read_bytes()


def test_an_archive_of_nothing_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="no site"):
        archive(tmp_path / "nothing", tmp_path / "book.zip")
    assert not (tmp_path / "book.zip").exists()


def test_faults_are_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        '<article><span class="math">\\(x\\)</span></article><img src="gone.png"><img src="https://example.invalid/a.png">'
        '<script>throw Error("planted")</script><script>fetch("other.html")</script>',
        encoding="utf-8",
    )
    page, faults = look(browser, path, DESKTOP)
    page.wait_for_timeout(200)
    assert undrawn(page) == ["\\(x\\)"]
    for expected in ("asks for https://example.invalid/a.png", "script: planted", "gone.png", "other.html"):
        assert any(expected in fault for fault in faults), faults
    page.close()


def test_make_archive_is_known_to_make():
    assert "book/scripts/archive.py" in (ROOT / "Makefile").read_text(encoding="utf-8")
