"""The built pages, read as files: complete, no dead link, nothing left unrendered, and the number of numbers is the checker's."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from book.extension.attention_book.facts import errata_sentence, in_words

from .building import toc_pages

FOREIGN = ("executablebooks", "jupyterbook.org", "binder-examples")
UNRENDERED = re.compile(r"\$|\\[a-zA-Z]+\{|\{\{|\}\}|\{(?:cite|ref|numref|doc|query|key|value)[:a-z]*\}")


@cache
def read(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def article(path: Path) -> BeautifulSoup:
    """What the author wrote: the page without the theme around it."""
    return read(path).select_one("article.bd-article")


@cache
def anchors(path: Path) -> set[str]:
    return {tag["id"] for tag in read(path).select("[id]")} | {tag["name"] for tag in read(path).select("a[name]")}


def dead_links(page: Path) -> Iterator[str]:
    """Addresses on a page that lead to no file, or to a file without the anchor."""
    for tag in read(page).select("[href], [src]"):
        address = tag.get("href", tag.get("src"))
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_file():
            yield f"{page.name}: {address} leads to no file"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in anchors(target):
            yield f"{page.name}: {address} names no place on its page"


def unrendered(page: Path) -> Iterator[str]:
    """Source that should have become something else: mathematics, roles, substitutions, and equations that KaTeX refused."""
    text = BeautifulSoup(str(article(page)), "html.parser")
    for tag in text.select(".katex-error"):
        yield f"{page.name}: KaTeX could not draw {tag.get_text()}"
    for tag in text.select("pre, code, .katex"):
        tag.decompose()
    for found in UNRENDERED.finditer(text.get_text()):
        around = text.get_text()[max(0, found.start() - 30) : found.end() + 30]
        yield f"{page.name}: unrendered source in {around!r}"


@pytest.mark.parametrize("page", toc_pages())
def test_page(site, page):
    path = site / page
    assert path.is_file()
    assert article(path).h1
    assert list(dead_links(path)) == []
    assert list(unrendered(path)) == []


@pytest.mark.parametrize("page", toc_pages())
def test_every_picture_says_what_it_shows(site, page):
    for picture in article(site / page).select("img"):
        assert len(picture.get("alt", "").split()) >= 4, f"{page}: {picture.get('src')}"


def test_front_page_is_the_first(site):
    assert "book/index.html" in (site / "index.html").read_text(encoding="utf-8")
    assert list(dead_links(site / "index.html")) == []


def test_no_page_links_to_another_project(site):
    for path in site.rglob("*.html"):
        for tag in read(path).select("[href], [src]"):
            assert not any(name in tag.get("href", tag.get("src")) for name in FOREIGN), f"{path.name}: {tag}"


def test_stylesheets_name_only_files_that_are_there(site):
    sheets = [
        site / "_static" / name
        for name in ("book.css", "frame.css", "katex/katex.min.css", "text/text.css", "japanese/japanese.css")
    ]
    for sheet in sheets:
        for address in re.findall(r"url\((?!data:)([^)]+)\)", sheet.read_text(encoding="utf-8")):
            assert (sheet.parent / address.strip("'\"")).is_file(), f"{sheet.name}: {address}"


def missing_characters(text: str, sheet: str) -> set[str]:
    """Japanese characters that no slice of the font of the site holds; a reader without a font of their own would see boxes."""
    ranges = [
        part.strip().removeprefix("U+").partition("-")
        for part in ",".join(re.findall(r"unicode-range: ([^;]+);", sheet)).split(",")
    ]
    held = {code for first, _, last in ranges for code in range(int(first, 16), int(last or first, 16) + 1)}
    japanese = re.findall("[\u3000-\u9fff\uff00-\uffef]", text)
    return {character for character in japanese if ord(character) not in held}


def test_japanese_is_seen_without_a_font_of_the_reader(site):
    sheet = (site / "_static/japanese/japanese.css").read_text(encoding="utf-8")
    assert missing_characters("私は鬱ﾟ", sheet) == {"鬱", "ﾟ"}
    for page in toc_pages():
        assert missing_characters(article(site / page).get_text(), sheet) == set(), page


def test_front_page_says_how_many_numbers_the_checker_proved(site):
    from attn_lib.worked_examples import (
        builtin_examples,
        check_example,
        load_example,
        published_examples,
    )

    front = " ".join(article(site / "book/index.html").get_text().split())
    own, published = ([load_example(path) for path in files()] for files in (builtin_examples, published_examples))
    reports = [check_example(example) for example in (*own, *published)]
    assert all(report.verdict == "right" for report in reports)
    numbers = [[finding for row in report.rows for finding in row.findings] for report in reports]
    wrong = [sum(finding.status != "right" for finding in found) for found in numbers]
    assert sum(map(len, numbers)) > sum(wrong) > 1 and len(published) > 12
    assert f"{sum(map(len, numbers))} numbers that others had printed" in front
    assert f"those of {in_words(len(own))} calculations in the documents" in front
    assert f"and of {len(published)} that were published elsewhere. " in front
    files = in_words(sum(map(bool, wrong)))
    assert f"{sum(wrong)} of them, in {files} of these calculations, had been printed wrongly" in front


def test_the_sentence_on_what_was_printed_wrongly():
    assert errata_sentence(0, 0) == "All of them were right."
    assert errata_sentence(1, 1).startswith(
        "One of them, in one of these calculations, had been printed wrongly; it is"
    )
    assert errata_sentence(12, 2).startswith(
        "Twelve of them, in two of these calculations, had been printed wrongly; each"
    )


def test_dead_links_and_unrendered_source_are_found(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<article class="bd-article"><h1 id="here">A</h1><a href="#here">fine</a><a href="#there">x</a><img src="gone.png">'
        r"<p>a $x$ and \frac{1}{2} and {{ count }}</p><code>$HOME</code><span class='katex-error'>\foo</span></article>",
        encoding="utf-8",
    )
    assert list(dead_links(page)) == [
        "page.html: #there names no place on its page",
        "page.html: gone.png leads to no file",
    ]
    assert len(list(unrendered(page))) == 6
