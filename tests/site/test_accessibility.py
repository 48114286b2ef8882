"""Every page as axe-core reads it, on a wide and a narrow window, light and dark; and what axe does not look at: order of headings, figures in the dark, motion, forced colours."""

import io
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from PIL import Image

from book.extension.attention_book.accessible import mend_body, name_navigation

from .browsing import DESKTOP, PHONE
from .building import toc_pages
from .test_browser import contrast, sticks_out
from .test_pages import read

PAGES = [*toc_pages(), "search.html", "genindex.html"]
CHAPTER = "notebooks/02_self_attention_by_hand.html"
SMALL = {"width": 320, "height": 640}  # the narrowest window that WCAG asks for
THEMES = ("light", "dark")
# Rules that axe leaves off unless asked, and that hold here as well.
MORE_RULES = ("label-content-name-mismatch", "p-as-heading", "table-fake-caption", "target-size", "td-has-header")
OPTIONS = {"resultTypes": ["violations"], "rules": {rule: {"enabled": True} for rule in MORE_RULES}}


@contextmanager
def opened(browser, path: Path, viewport: dict, **settings):
    """A page in a window of its own, when its fonts are there. Nothing moves, so that colours are final when they are read."""
    page = browser.new_page(viewport=viewport, **{"reduced_motion": "reduce", **settings})
    page.goto(path.as_uri(), wait_until="load")
    page.evaluate("document.fonts.ready")
    yield page
    page.close()


def settle(page) -> None:
    """Wait until the page has drawn itself twice: observers of sizes have then spoken."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def choose(page, theme: str) -> None:
    """Press the page's own button until the theme is on."""
    for _ in range(3):
        if page.evaluate("document.documentElement.dataset.theme") == theme:
            break
        page.evaluate("document.querySelector('.theme-switch-button').click()")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    settle(page)


def open_folds(page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(tag => tag.open = true)")
    settle(page)


def violations(page) -> list[str]:
    """What axe finds: the rule, how bad it is, where, and why."""
    return [
        f"{found['id']} ({found['impact']}): {node['html'][:160]}: {node['failureSummary']}"
        for found in Axe().run(page, options=OPTIONS).response["violations"]
        for node in found["nodes"]
    ]


def jumps(page: BeautifulSoup) -> list[str]:
    """Headings that do not nest: the first is not the title, there are two titles, or a level is left out."""
    found, level = [], 0
    for tag in page.select("h1, h2, h3, h4, h5, h6, [role=heading]"):
        this = int(tag.get("aria-level", tag.name[1] if tag.name[0] == "h" else 2))
        if this > level + 1 or (this == 1 and level):
            found.append(f"level {this} after {level}: {tag.get_text(' ', strip=True)[:60]}")
        level = this
    return found if level else ["no heading"]


def dark_grounds(page) -> list[str]:
    """Figures, drawn in dark ink, that have no light ground of their own."""
    grounds = page.evaluate(
        """() => [...document.querySelectorAll("article .cell_output img")].map(tag => [tag.alt.slice(0, 60), getComputedStyle(tag).backgroundColor])"""
    )
    return [alt for alt, ground in grounds if ground.startswith("rgba") or contrast(ground, "rgb(0, 0, 0)") < 15]


def colours(picture: bytes) -> int:
    """How many colours a picture has."""
    return len(Image.open(io.BytesIO(picture)).convert("RGB").getcolors(maxcolors=2**24))


@pytest.mark.parametrize("name", PAGES)
def test_page_shuts_no_reader_out(site, browser, name):
    with opened(browser, site / name, DESKTOP) as page:
        for viewport in (DESKTOP, PHONE):
            page.set_viewport_size(viewport)
            if viewport is PHONE:
                open_folds(page)
                assert sticks_out(page) <= 0
            for theme in THEMES:
                choose(page, theme)
                assert violations(page) == [], f"{viewport['width']} pixels, {theme}"
        assert dark_grounds(page) == []
        page.set_viewport_size(SMALL)
        assert sticks_out(page) <= 0


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("viewport", "button"),
    [
        (PHONE, ".primary-toggle"),
        (PHONE, ".secondary-toggle"),
        (PHONE, ".search-button"),
        (PHONE, ".dropdown-toggle"),
        (DESKTOP, ".primary-toggle"),
        (DESKTOP, ".search-button-field"),
        (DESKTOP, ".dropdown-toggle"),
    ],
    ids=lambda value: value.strip(".") if isinstance(value, str) else str(value["width"]),
)
def test_what_a_button_opens_shuts_no_reader_out(site, browser, viewport, button, theme):
    with opened(browser, site / "book/index.html", viewport, color_scheme=theme) as page:
        page.locator(button).first.click()
        settle(page)
        assert violations(page) == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_results_of_a_search_shut_no_reader_out(site, browser, viewport, theme):
    with opened(browser, site / "search.html", viewport, color_scheme=theme) as page:
        page.goto(f"{(site / 'search.html').as_uri()}?q=softmax", wait_until="load")
        page.locator("#search-results li a").first.wait_for()
        page.get_by_text("Search finished").wait_for()
        assert violations(page) == []
        assert sticks_out(page) <= 0


@pytest.mark.parametrize("name", PAGES)
def test_headings_nest(site, name):
    assert jumps(read(site / name)) == []


@pytest.mark.parametrize("theme", THEMES)
def test_each_theme_is_what_the_system_asks_for(site, browser, theme):
    with opened(browser, site / CHAPTER, DESKTOP, color_scheme=theme) as page:
        assert page.evaluate("[document.documentElement.dataset.theme, document.documentElement.dataset.mode]") == [
            theme,
            "auto",
        ]


def test_a_figure_is_seen_on_a_light_ground_in_the_dark(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP, color_scheme="dark") as page:
        picture = Image.open(io.BytesIO(page.locator("article .cell_output img").first.screenshot())).convert("RGB")
        ground = max(picture.getcolors(maxcolors=2**24))[1]
        assert contrast(f"rgb{ground}", page.evaluate("getComputedStyle(document.body).backgroundColor")) > 12


def moving(page) -> list[str]:
    """Elements that would move, or fade, for longer than a frame."""
    return page.evaluate(
        """() => [...document.querySelectorAll("*")].filter(tag => {
            const style = getComputedStyle(tag);
            const long = list => list.split(",").some(part => parseFloat(part) > 0.016);
            return long(style.transitionDuration) || (style.animationName !== "none" && long(style.animationDuration));
        }).map(tag => tag.outerHTML.slice(0, 80))"""
    )


def test_nothing_moves_where_the_reader_asked_for_less_motion(site, browser):
    with opened(browser, site / CHAPTER, DESKTOP) as page:
        assert moving(page) == []
    with opened(browser, site / CHAPTER, DESKTOP, reduced_motion="no-preference") as page:
        assert moving(page) != []  # else the theme has nothing that could be asked away


@pytest.mark.parametrize("theme", THEMES)
def test_buttons_are_seen_in_forced_colours(site, browser, theme):
    with opened(browser, site / CHAPTER, PHONE, color_scheme=theme, forced_colors="active") as page:
        for button in page.locator(".header-article__inner button:visible").all():
            assert colours(button.screenshot()) > 1, button.evaluate("tag => tag.outerHTML")


@pytest.mark.parametrize("name", [CHAPTER, "book/index.html"])
def test_a_printed_page_is_the_text_alone(site, browser, name):
    with opened(browser, site / name, DESKTOP) as page:
        page.emulate_media(media="print")
        for part in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", ".prev-next-footer"):
            assert not page.locator(part).first.is_visible(), part
        assert page.locator("article h1").is_visible()
        assert page.locator("h1:visible").count() == 1


def test_paper_is_white_and_the_screen_dark_again(site, browser):
    with opened(browser, site / "book/index.html", DESKTOP, color_scheme="dark") as page:
        page.evaluate("addEventListener('beforeprint', () => window.printed = document.documentElement.dataset.theme)")
        assert page.pdf()[:4] == b"%PDF"
        assert page.evaluate("window.printed") == "light"
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_the_themes_leave_out_is_added():
    tree = name_navigation(
        BeautifulSoup(
            '<p class="caption" role="heading" aria-level="2">Part</p><ul><li><a class="current" href="#">Here</a>'
            '<details><summary></summary><ul><li><a href="b.html">There</a></li></ul></details></li></ul>',
            "html.parser",
        )
    )
    assert tree.p.attrs == {"class": ["caption"], "id": "part-1"}
    assert tree.ul["aria-labelledby"] == "part-1"
    assert [link.get("aria-current") for link in tree.select("a")] == ["page", None]
    assert tree.summary["aria-label"] == "Pages under Here"
    terms = '<dl class="simple"><dt>term</dt><dd>meaning</dd></dl>'
    assert mend_body(terms) == terms
    signature = '<dt class="sig py">f(<dl><dd>x,</dd></dl>)</dt>'
    lines = '<dt class="sig py">f(<span class="sig-lines"><span class="sig-line">x,</span></span>)</dt>'
    assert mend_body(signature + terms) == lines + terms
    assert mend_body('<summary aria-label="Toggle hidden content">Solution</summary>') == "<summary>Solution</summary>"
    assert mend_body('<div role="doc-biblioentry">') == '<div role="listitem">'


def test_faults_are_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        '<html lang="en"><title>Faults</title><style>p { color: #aaaaaa } .slow { transition: color 1s }</style><main><h2>second</h2><h1>first</h1><h3>third</h3>'
        '<p class="slow">pale</p><button></button><details><summary>more</summary><img src="data:,"></details>'
        '<article><div class="cell_output"><img alt="A figure on nothing" src="data:,"></div></article><hr style="height: 9px; border: 0"></main>',
        encoding="utf-8",
    )
    assert jumps(read(path)) == ["level 2 after 0: second", "level 1 after 2: first", "level 3 after 1: third"]
    assert jumps(BeautifulSoup("<p>none</p>", "html.parser")) == ["no heading"]
    with opened(browser, path, DESKTOP) as page:
        found = {text.partition(" ")[0] for text in violations(page)}
        assert {"color-contrast", "button-name"} <= found
        assert "image-alt" not in found
        open_folds(page)
        assert any(text.startswith("image-alt") for text in violations(page))
        assert dark_grounds(page) == ["A figure on nothing"]
        assert len(moving(page)) == 1
        assert colours(page.locator("details").screenshot()) > 1
        assert colours(page.locator("hr").screenshot()) == 1
