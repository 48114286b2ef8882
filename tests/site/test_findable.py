"""What others are told of the site: titles, descriptions, icons, and where its address is known, Open Graph, a sitemap and a picture."""

import io
import json
import shutil
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from bs4 import BeautifulSoup
from PIL import Image, ImageChops, ImageStat
from pybtex.database import parse_string
from sphinx.errors import ConfigError

from book.extension.attention_book import card, citation, findable, repository
from book.scripts import draw_icons

from .building import ROOT, build, toc_pages

ADDRESS = "https://somebody.github.io/attention"
TITLE = "Attention, number by number"
ABSOLUTE = ("canonical", "og:", "twitter:", "sitemap")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The book, built as it is published."""
    output = tmp_path_factory.mktemp("published")
    built = build(ROOT, output, BOOK_SITE_URL=f"{ADDRESS}/")
    assert built.returncode == 0, built.stderr
    return output / "_build" / "html"


def head(site, page):
    return BeautifulSoup((site / page).read_text(encoding="utf-8"), "html.parser").head


def said(head) -> dict[str, list[str]]:
    """What the tags of a head say, by name or property."""
    found = {}
    for tag in head.select("meta[name], meta[property]"):
        found.setdefault(tag.get("name", tag.get("property")), []).append(tag["content"])
    return found


def faults(heads: dict) -> list[str]:
    """Titles and descriptions that are missing, doubled on a page, shared by pages, or too long or short to be shown."""
    found = []
    titles = {page: [tag.get_text() for tag in each.select("title")] for page, each in heads.items()}
    descriptions = {page: said(each).get("description", []) for page, each in heads.items()}
    for what, by_page in (("title", titles), ("description", descriptions)):
        found += [f"{page}: {len(texts)} of {what}" for page, texts in by_page.items() if len(texts) != 1]
        shared = Counter(text for texts in by_page.values() for text in texts)
        found += [f"{what} of {count} pages: {text}" for text, count in shared.items() if count > 1]
    for page, texts in descriptions.items():
        found += [f"{page}: {len(text)} characters" for text in texts if not 30 <= len(text) <= 160]
        found += [f"{page}: source in {text}" for text in texts if set(text) & set("$\\`{}<>")]
    return found


def test_every_page_has_a_title_and_a_description_of_its_own(site):
    heads = {page: head(site, page) for page in [*toc_pages(), "search.html", "genindex.html"]}
    assert faults(heads) == []
    assert head(site, "book/index.html").title.get_text() == TITLE
    for page, each in heads.items():
        assert each.title.get_text().endswith(TITLE), page


def test_faults_of_titles_and_descriptions_are_found():
    def page(title, *descriptions):
        metas = "".join(f'<meta name="description" content="{text}">' for text in descriptions)
        return BeautifulSoup(f"<head><title>{title}</title>{metas}</head>", "html.parser").head

    good = "A sentence that is long enough to be shown."
    assert faults({"a": page("A", good), "b": page("B", good + " And another.")}) == []
    assert len(faults({"a": page("A", good), "b": page("A", good)})) == 2
    assert faults({"a": page("A")}) == ["a: 0 of description"]
    assert len(faults({"a": page("A", r"The root, $\sqrt{D_k}$, of the width of the head.")})) == 1
    assert len(faults({"a": page("A", "Short.")})) == 1


def test_without_an_address_nothing_names_one(site):
    for page in ["index.html", *toc_pages()]:
        text = str(head(site, page))
        assert not [word for word in ABSOLUTE if word in text], page
    assert not [name for name in ("sitemap.xml", "robots.txt", "_static/card.png") if (site / name).exists()]


def test_with_an_address_every_page_names_its_own(published):
    for page in toc_pages():
        here = head(published, page)
        tags = said(here)
        assert [tag["href"] for tag in here.select('link[rel="canonical"]')] == [f"{ADDRESS}/{page}"]
        assert tags["og:url"] == [f"{ADDRESS}/{page}"]
        assert tags["og:image"] == [f"{ADDRESS}/_static/card.png"]
        assert tags["og:site_name"] == [TITLE]
        assert tags["og:description"] == tags["description"]
        assert tags["twitter:card"] == ["summary_large_image"]
        assert here.title.get_text().startswith(tags["og:title"][0]), page


def test_the_entry_page_says_what_the_front_page_says(published):
    entry, front = head(published, "index.html"), head(published, "book/index.html")
    shared = ("description", "og:title", "og:url", "og:image", "og:description", "twitter:card")
    for name in shared:
        assert said(entry)[name] == said(front)[name]
    assert entry.select_one('link[rel="canonical"]')["href"] == f"{ADDRESS}/book/index.html"
    assert entry.select_one('meta[http-equiv="refresh"]')["content"] == "0; url=book/index.html"
    for icon in entry.select('link[rel="icon"], link[rel="apple-touch-icon"]'):
        assert (published / icon["href"]).is_file()


def test_the_sitemap_lists_the_pages_and_no_other(published):
    places = ElementTree.parse(published / "sitemap.xml").findall("{*}url/{*}loc")
    assert sorted(place.text for place in places) == sorted(f"{ADDRESS}/{page}" for page in toc_pages())
    assert f"Sitemap: {ADDRESS}/sitemap.xml" in (published / "robots.txt").read_text(encoding="utf-8").splitlines()


def test_a_second_build_keeps_the_sitemap_whole(published, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(published.parents[1], again)
    assert build(ROOT, again, BOOK_SITE_URL=ADDRESS).returncode == 0
    assert (again / "_build/html/sitemap.xml").read_bytes() == (published / "sitemap.xml").read_bytes()


def test_without_an_address_nothing_of_an_earlier_build_stays(published, tmp_path, monkeypatch):
    monkeypatch.delenv("BOOK_SITE_URL", raising=False)
    for name in ("sitemap.xml", "robots.txt", "book/index.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(published / name, tmp_path / name)
    builder, config = SimpleNamespace(name="html"), SimpleNamespace(root_doc="book/index")
    findable.finish(SimpleNamespace(builder=builder, config=config, outdir=tmp_path), None)
    assert {path.name for path in tmp_path.iterdir()} == {"book", "index.html"}


def test_the_picture_is_of_the_size_and_weight_that_is_asked_for(tmp_path):
    drawn = [tmp_path / "one.png", tmp_path / "two.png"]
    for path in drawn:
        card.draw(path, TITLE)
    assert Image.open(drawn[0]).size == (1200, 630)
    assert drawn[0].stat().st_size < 150_000
    assert drawn[0].read_bytes() == drawn[1].read_bytes()
    assert all(number in card.alt() for number in ("0.893", "0.930", "0.818", "0.3382"))


@pytest.mark.parametrize("address", ["http://example.org", "example.org/book", "https://", "https://a.b/c?d=e"])
def test_an_address_of_another_kind_is_refused(monkeypatch, address):
    monkeypatch.setenv("BOOK_SITE_URL", address)
    with pytest.raises(ConfigError, match="BOOK_SITE_URL .* must read https://"):
        repository.site_address()


def test_the_address_has_no_slash_at_its_end_and_may_be_unset(monkeypatch):
    monkeypatch.setenv("BOOK_SITE_URL", f" {ADDRESS}/ ")
    assert repository.site_address() == ADDRESS
    monkeypatch.delenv("BOOK_SITE_URL")
    assert repository.site_address() is None


def difference(one: bytes, other: bytes) -> float:
    """The root mean square difference of two images, of 255."""
    pictures = [Image.open(io.BytesIO(each)).convert("RGBA") for each in (one, other)]
    parts = ImageStat.Stat(ImageChops.difference(*pictures)).rms
    return max(parts)


@pytest.mark.parametrize("name", draw_icons.ICONS)
def test_icons_are_the_logo(browser, name):
    stored = (draw_icons.ASSETS / name).read_bytes()
    assert difference(stored, draw_icons.draw(browser, *draw_icons.ICONS[name])) < 3
    size, margin, paper = draw_icons.ICONS[name]
    assert difference(stored, draw_icons.draw(browser, size, margin + 2, paper)) > 10  # another drawing is seen


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.mark.parametrize("page", ["index.html", "book/index.html", "search.html"])
def test_no_icon_is_asked_for_in_vain(site, browser, page):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        icons = head(site, page).select('link[rel="icon"], link[rel="apple-touch-icon"]')
        assert {icon["rel"][0] for icon in icons} == {"icon", "apple-touch-icon"}
        tab = browser.new_page()
        answers = []
        tab.on("response", lambda answer: answers.append((answer.status, answer.url)))
        tab.goto(f"http://127.0.0.1:{server.server_port}/{page}", wait_until="networkidle")
        for icon in icons:
            assert tab.request.get(f"http://127.0.0.1:{server.server_port}/{page.rpartition('/')[0]}/{icon['href']}").ok
        assert [answer for answer in answers if answer[0] >= 400] == []
        tab.close()
    finally:
        server.shutdown()
        server.server_close()


def valid(path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format", path]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_the_citation_file_is_valid_and_a_wrong_one_is_refused(tmp_path):
    path = ROOT / citation.NAME
    assert valid(path).returncode == 0, valid(path).stdout
    wrong = tmp_path / citation.NAME
    wrong.write_text(path.read_text(encoding="utf-8").replace("authors:", "writers:"), encoding="utf-8")
    assert valid(wrong).returncode == 1
    with pytest.raises(ConfigError, match="must hold preferred-citation with authors, title and version"):
        citation.book(tmp_path)


def test_what_is_cited_is_what_the_project_says_elsewhere():
    cited = yaml.safe_load((ROOT / citation.NAME).read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    book = cited["preferred-citation"]
    assert cited["version"] == book["version"] == project["version"]
    assert f"{cited['license']} AND {book['license']}" == project["license"]
    assert book["title"] == settings["title"]
    assert cited["authors"] == book["authors"] == [{"name": settings["author"]}]
    assert len(settings["copyright"]) == 4, "the year of a citation is that of the copyright"


@pytest.mark.parametrize("page", toc_pages())
def test_every_page_says_how_to_cite_it(site, published, page):
    for folder, address in ((site, None), (published, f"{ADDRESS}/{page}")):
        document = BeautifulSoup((folder / page).read_text(encoding="utf-8"), "html.parser")
        [block] = document.select("details.cite")
        assert not block.has_attr("open")
        plain, bibtex = (each.get_text() for each in block.select("div.highlight pre"))
        [entry] = parse_string(bibtex, "bibtex").entries.values()
        title = document.select_one("article h1").find(string=True)
        whole = page == "book/index.html"
        assert entry.type == ("book" if whole else "incollection")
        assert f"{title}" in plain
        if not whole and title.isascii():
            assert entry.fields["title"] == f"{{{title}}}"
        assert entry.fields["booktitle" if not whole else "title"] == f"{{{TITLE}}}"
        assert [str(person) for person in entry.persons["author"]] == [f"{{the authors of {TITLE}}}"]
        assert entry.fields.get("url") == address
        assert ("https://" in plain) == (address is not None)


def test_a_title_is_written_for_latex():
    book = {"author": "the authors of X", "title": "X", "version": "1"}
    text = citation.bibtex(book, "2026", "Cost & 100 % of √D_k, 私は", "https://a.b/c_d.html")
    [entry] = parse_string(text, "bibtex").entries.values()
    assert entry.fields["title"] == r"{Cost \& 100 \% of $\surd$D\_k, 私は}"
    assert entry.fields["url"] == "https://a.b/c_d.html"


def test_the_citation_opens_and_is_copied_by_keyboard(site, browser):
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page()
    page.goto((site / "notebooks/03_masked_self_attention.html").as_uri())
    summary = page.locator("details.cite summary")
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.cite").get_attribute("open") is not None
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('details.cite') && document.activeElement.matches('.copybtn')")
    for theme in ("light", "dark"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        found = Axe().run(page, context="details.cite").response["violations"]
        assert found == [], json.dumps(found, indent=1)
    page.close()
