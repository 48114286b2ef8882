"""Buttons and links that need an address of the book are there where it is known, and only there."""

import re
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
from sphinx.errors import ConfigError

from book.extension.attention_book import facts, repository
from book.extension.attention_book.self_contained import relative_links

from .building import ROOT, build, toc_pages
from .test_pages import anchors, read

NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
VARIABLES = (repository.URL, repository.BRANCH, repository.PUBLISHED_BRANCH, repository.SITE)
REPOSITORY = "https://github.com/somebody/attention"
SITE = "https://somebody.example/attention"


@pytest.fixture
def environment(monkeypatch):
    """Sets the variables that are given, and no other."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return lambda **variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]


def buttons(page) -> dict[str, str]:
    """What the buttons over a page say, and where those that are links lead."""
    found = read(page).select(".article-header-buttons li > *")
    return {tag.get_text(strip=True): tag.get("href") for tag in found}


@pytest.mark.parametrize("page", toc_pages())
def test_without_an_address_a_page_is_printed_and_a_chapter_downloaded(site, page):
    chapter = page.startswith("notebooks/")
    assert buttons(site / page).keys() == ({".ipynb", ".pdf"} if chapter else {".pdf"})
    if chapter:
        lone = (site / page).parent / buttons(site / page)[".ipynb"]
        assert lone.resolve() == (site / "download" / (site / page).name).with_suffix(".ipynb").resolve()
        nbformat.validate(nbformat.read(lone, as_version=4))
    text = (site / page).read_text(encoding="utf-8")
    assert not [
        name for name in ("colab.research.google.com/github", "mybinder", "/edit/", "issues/new") if name in text
    ]


def test_with_addresses_each_page_leads_to_its_source_and_each_chapter_runs_elsewhere(copy):
    built = build(
        copy,
        copy / "out",
        BOOK_REPOSITORY_URL=f"{REPOSITORY}.git",
        BOOK_REPOSITORY_BRANCH="next/one",
        BOOK_PUBLISHED_BRANCH="site",
        BOOK_SITE_URL=f"{SITE}/",
    )
    assert built.returncode == 0, built.stderr
    site = copy / "out/_build/html"
    for page in toc_pages():
        chapter = page.startswith("notebooks/")
        source = page.replace(".html", ".ipynb" if chapter else ".md")
        found = buttons(site / page)
        assert found["Repository"] == REPOSITORY
        assert found["Edit this page"] == f"{REPOSITORY}/edit/next/one/{source}"
        assert (copy / source).is_file()
        report = urlsplit(found["Report an error"])
        assert report._replace(query="").geturl() == f"{REPOSITORY}/issues/new"
        assert parse_qs(report.query) == {"title": [f"{source}: "]}
        assert {"Colab", "Binder"} & found.keys() == ({"Colab", "Binder"} if chapter else set())
        if chapter:
            lone = f"download/{source.partition('/')[2]}"
            assert found["Colab"] == f"https://colab.research.google.com/github/somebody/attention/blob/site/{lone}"
            assert found["Binder"] == (
                f"https://mybinder.org/v2/gh/somebody/attention/next%2Fone?urlpath=lab/tree/{source}"
            )
            assert (site / lone).is_file()
    for page in ("search.html", "genindex.html"):
        assert buttons(site / page) == {}
    assert "in Colab or on Binder" in read(site / "book/how_to_read.html").get_text()

    links = [link for name in NOTEBOOKS for link in links_to_the_site(site / f"download/{name}.ipynb")]
    assert len(links) > len(NOTEBOOKS)
    assert [link for link in links if not leads_somewhere(site, link)] == []
    assert not leads_somewhere(site, f"{SITE}/notebooks/nowhere.html")
    assert not leads_somewhere(site, f"{SITE}/book/glossary.html#nowhere")

    # Built again without an address, nothing of it is left, nor a notebook that is no chapter any more.
    (site / "download/99_gone.ipynb").touch()
    built = build(copy, copy / "out")
    assert built.returncode == 0, built.stderr
    assert sorted(path.stem for path in (site / "download").iterdir()) == NOTEBOOKS
    for path in site.rglob("*"):
        text = path.read_text(encoding="utf-8") if path.suffix in {".html", ".ipynb"} else ""
        assert "somebody/attention" not in text and SITE not in text, path


def links_to_the_site(notebook) -> list[str]:
    """Links of a lone notebook to the published site; it has no relative ones."""
    links = []
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert relative_links(cell.source) == []
            links += [part.partition(")")[0] for part in cell.source.split("](") if part.startswith(f"{SITE}/")]
    return links


def leads_somewhere(site, link: str) -> bool:
    path, _, place = link.removeprefix(f"{SITE}/").partition("#")
    return (site / path).is_file() and (not place or place in anchors(site / path))


def test_a_server_gives_the_notebook_as_a_file(served, browser):
    given = []

    def watch(page):
        page.on("download", lambda download: given.append(download.suggested_filename))

    context = browser.new_context()
    context.on("page", watch)  # the button opens a tab, which closes again when there is nothing to show
    page = context.new_page()
    page.goto(f"{served}/notebooks/{NOTEBOOKS[0]}.html")
    page.get_by_role("button", name="Download this page").click()
    page.get_by_role("link", name=".ipynb").click()
    page.wait_for_timeout(1000)
    context.close()
    assert given == [f"{NOTEBOOKS[0]}.ipynb"]


def test_what_the_environment_names(environment):
    environment()
    assert repository.known() is None
    assert repository.site_address() is None
    assert facts.run_online() == ""
    environment(BOOK_REPOSITORY_URL=f"{REPOSITORY}/", BOOK_SITE_URL=f" {SITE}/ ")
    assert repository.known() == repository.Repository(REPOSITORY, "main", "published")
    assert repository.site_address() == SITE
    assert "Colab" in facts.run_online()


@pytest.mark.parametrize(
    "url", ["ftp://example.invalid/book", "https://example.invalid/a/b", "https://github.com/alone"]
)
def test_a_repository_of_another_kind_is_refused(environment, url):
    environment(BOOK_REPOSITORY_URL=url)
    with pytest.raises(
        ConfigError, match=f"BOOK_REPOSITORY_URL is '{url}'; it must read https://github.com/OWNER/NAME"
    ):
        repository.known()


@pytest.mark.parametrize("url", ["http://example.invalid", "somebody.example/attention", "https://?a", "https://a b"])
def test_an_address_of_a_site_of_another_kind_is_refused(environment, url):
    environment(BOOK_SITE_URL=url)
    with pytest.raises(ConfigError, match=f"BOOK_SITE_URL is '{re.escape(url)}'; it must read https://HOST"):
        repository.site_address()
