"""The pages in a browser: they ask nobody outside, run without an error, and fit on a phone."""

import pytest

from .browsing import DESKTOP, PHONE, look
from .building import toc_pages


def out_of_reach(page) -> list[str]:
    """Equations and tables that begin left of the box they scroll in: that part can never be scrolled to."""
    return page.evaluate(
        """() => [["div.math", ".katex-html"], [".pst-scrollable-table-container", "table"], [".calculation", "table"]].flatMap(
            ([box, content]) => [...document.querySelectorAll(`article ${box}`)]
                .filter(tag => tag.querySelector(content).getBoundingClientRect().left < tag.getBoundingClientRect().left - 1)
                .map(tag => tag.textContent.slice(0, 60)))"""
    )


def sticks_out(page) -> float:
    """By how many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.mark.parametrize("name", [*toc_pages(), "search.html", "genindex.html"])
def test_page_asks_nobody_runs_clean_and_fits(site, browser, name):
    page, faults = look(browser, site / name, DESKTOP)
    assert sticks_out(page) <= 0
    page.set_viewport_size(PHONE)
    assert sticks_out(page) <= 0
    assert out_of_reach(page) == []
    assert faults == []
    page.close()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_first_result_is_on_the_first_screen(site, browser, viewport):
    page, _ = look(browser, site / "book/index.html", viewport)
    for cell in page.locator(".calculation tfoot td").all():
        box = cell.bounding_box()
        assert box["y"] + box["height"] <= viewport["height"]
        assert box["x"] + box["width"] <= viewport["width"]
    assert page.locator(".calculation tfoot td").count() >= 3
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_query_key_and_value_can_be_read_in_both_themes(site, browser, theme):
    page, _ = look(browser, site / "book/notation.html", DESKTOP)
    page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    colours = set()
    for selector in (
        ".role.query",
        ".role.key",
        ".role.value",
        '.katex [style*="#0072B2"]',
        '.katex [style*="#D55E00"]',
        '.katex [style*="#009E73"]',
    ):
        colour = page.locator(selector).first.evaluate("tag => getComputedStyle(tag).color")
        assert contrast(colour, background) >= 4.5, f"{selector}: {colour} on {background}"
        colours.add(colour)
    assert len(colours) == 3
    page.close()


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, `rgb(r, g, b)`, as WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        return sum(
            weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for weight, part in zip((0.2126, 0.7152, 0.0722), parts)
        )

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_faults_are_seen(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        '<article><div class="math" style="margin-left: 50px"><p class="katex-html" style="margin-left: -40px">cut off</p></div></article>'
        '<div style="width: 2000px">wide</div><img src="https://example.invalid/a.png"><img src="gone.png"><script>throw Error("planted")</script>',
        encoding="utf-8",
    )
    page, faults = look(browser, path, PHONE)
    assert sticks_out(page) > 0
    assert out_of_reach(page) == ["cut off"]
    for expected in ("asks for https://example.invalid/a.png", "script: planted", "gone.png"):
        assert any(expected in fault for fault in faults), faults
    page.close()
