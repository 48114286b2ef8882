"""What was taken out of the site is not missed: each icon that a page shows is in the font that is left."""

import shutil
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from book.extension.attention_book import light

from .browsing import DESKTOP, PHONE, look
from .building import ROOT, toc_pages

ICONS = """() => [...document.querySelectorAll("[class*='fa-']")].flatMap(tag => {
    const {content, fontFamily} = getComputedStyle(tag, "::before");
    return fontFamily.startsWith('"Font Awesome') ? [[tag.className, fontFamily, content.slice(1, -1)]] : [];
})"""


def fonts(site) -> dict[str, set[int]]:
    """The characters of each icon font, by the family that the stylesheet gives it."""
    families = {"fa-solid-900": '"Font Awesome 6 Free"', "fa-brands-400": '"Font Awesome 6 Brands"'}
    folder = site / "_static" / light.FONTS
    return {
        family: set(TTFont(folder / f"{name}.woff2").getBestCmap())
        for name, family in families.items()
        if (folder / f"{name}.woff2").exists()
    }


def missing(page, held: dict[str, set[int]]) -> list[str]:
    """Icons of a page that no font draws."""
    return [name for name, family, sign in page.evaluate(ICONS) if ord(sign) not in held.get(family, set())]


def test_every_icon_is_drawn(site, browser):
    held = fonts(site)
    page, _ = look(browser, site / "notebooks/02_self_attention_by_hand.html", DESKTOP)
    assert len(page.evaluate(ICONS)) > 10
    page.close()
    for name in [*toc_pages(), "search.html", "genindex.html"]:
        page, _ = look(browser, site / name, PHONE)
        assert missing(page, held) == [], name
        page.close()


def test_nothing_is_left_that_no_page_asks_for(site):
    static = site / "_static"
    assert [path.name for pattern in light.UNUSED for path in static.glob(pattern) if path.is_file()] == []
    assert all("sourceMappingURL" not in path.read_text("utf-8") for path in (static / "scripts").glob("*.js"))
    assert sum(path.stat().st_size for path in (static / light.FONTS).iterdir()) < 10_000


@pytest.mark.parametrize(("classes", "kept"), [("fa-solid fa-anchor", True), ("fa-solid fa-no-such-icon", False)])
def test_an_icon_is_kept_once_a_page_asks_for_it(site, tmp_path, classes, kept):
    """From the theme's own font, not from the one that is already cut."""
    import pydata_sphinx_theme

    theme = tmp_path / "_static"
    shutil.copytree(Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static", theme)
    (tmp_path / "page.html").write_text(f'<i class="{classes}"></i>', "utf-8")
    light.cut_icons(tmp_path)
    held = set(TTFont(theme / light.FONTS / "fa-solid-900.woff2").getBestCmap())
    assert (0xF13D in held) is kept  # the anchor
    assert 0xF0F9 not in held  # the truck that nobody asked for
    assert 0xF00D in held  # the cross, which the theme's script shows


def test_a_japanese_character_is_kept_where_a_page_writes_it(tmp_path):
    shutil.copytree(ROOT / "book/assets/japanese", tmp_path / "_static/japanese")
    (tmp_path / "page.html").write_text("<p>猫</p>", "utf-8")
    light.cut_japanese(tmp_path)
    (font,) = (tmp_path / "_static/japanese/files").iterdir()
    assert set(TTFont(font).getBestCmap()) == {ord("猫")}
    sheet = (tmp_path / "_static/japanese/japanese.css").read_text("utf-8")
    assert sheet.count("@font-face") == 1 and font.name in sheet


def test_the_text_face_is_inside_its_sheet(site):
    sheet = (site / "_static/text/text.css").read_text("utf-8")
    assert sheet.count("url(data:font/woff2;base64,") == 2
    assert sheet.count("url(files/") == 2  # letters that few pages have
