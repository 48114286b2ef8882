"""A light site: what no page asks for is taken out of it, the fonts of icons and of Japanese keep what is shown, and the text face comes with its sheet."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from fontTools import subset
from sphinx.application import Sphinx

TEXT_SHEET = "text/text.css"
THEME_SHEET = "styles/pydata-sphinx-theme.css"
FONTS = "vendor/fontawesome/webfonts"
# The classes by which a page asks for one of the theme's three icon fonts.
STYLES = {
    "fa-solid-900.woff2": {"fa", "fas", "fa-solid"},
    "fa-regular-400.woff2": {"far", "fa-regular"},
    "fa-brands-400.woff2": {"fab", "fa-brands"},
}
# Maps for debugging the theme, sources of its pages, fonts for browsers of ten years ago, the icons' script (see the template).
UNUSED = (
    "**/*.map",
    "**/*.LICENSE.txt",
    "*webpack-macros.html",
    "locales/**/*",
    f"{FONTS}/*.ttf",
    "scripts/fontawesome.js",
)
ICON_RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"(\\\w+|.)"\}')
PRIVATE = re.compile("[\ue000-\uf8ff]")
JAPANESE_SHEET = "japanese/japanese.css"
FACE = re.compile(r"@font-face \{[^}]*url\(([^)]+)\)[^}]*\}\s*")
JAPANESE = re.compile(r"[\u2000-\U0010ffff]")
CLASSES = re.compile(r'class(?:List)?="([^"]*\bfa[\w-]*[^"]*)"')


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Cut the written site down to what its pages use."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    for pattern in UNUSED:
        for path in static.glob(pattern):
            if path.is_file():
                path.unlink()
    for script in (static / "scripts").glob("*.js"):
        script.write_text(re.sub(r"\n//# sourceMappingURL=\S+\s*$", "\n", script.read_text("utf-8")), "utf-8")
    put_in_fonts(static / TEXT_SHEET)
    cut_icons(Path(app.outdir))
    cut_japanese(Path(app.outdir))


def put_in_fonts(sheet: Path) -> None:
    """Put the slices with Latin letters into the stylesheet itself: they are there at the first paint, and nothing moves when they come."""

    def inside(found: re.Match[str]) -> str:
        path = sheet.parent / found[1]
        content = base64.b64encode(path.read_bytes()).decode()
        path.unlink()
        return f"url(data:font/woff2;base64,{content})"

    sheet.write_text(
        re.sub(r"url\((files/[\w-]+-latin-(?:normal|italic)\.woff2)\)", inside, sheet.read_text("utf-8")), "utf-8"
    )


def cut_icons(site: Path) -> None:
    """Keep in each icon font the icons that a page, the theme's scripts or its stylesheet show; drop a font of which none is."""
    static = site / "_static"
    sheet = (static / THEME_SHEET).read_text("utf-8")
    codes = {
        name.removeprefix(".").removesuffix(":before"): chr(int(code[1:], 16)) if code.startswith("\\") else code
        for names, code in ICON_RULE.findall(sheet)
        for name in names.rstrip(",").split(",")
    }
    shown_by_sheet = set(PRIVATE.findall(ICON_RULE.sub("", sheet)))
    users = [*site.rglob("*.html"), *(static / "scripts").glob("*.js")]
    asked = {tuple(found.split()) for path in users for found in CLASSES.findall(path.read_text("utf-8"))}
    for font, styles in STYLES.items():
        icons = {name for classes in asked if styles & set(classes) for name in classes} & codes.keys()
        keep_glyphs(static / FONTS / font, {codes[name] for name in icons} | shown_by_sheet)


def cut_japanese(site: Path) -> None:
    """Keep in the Japanese font the characters that are written on a page: a slice holds a hundred, and a page needs one of them."""
    shown = set().union(*(JAPANESE.findall(path.read_text("utf-8")) for path in site.rglob("*.html")))
    sheet = site / "_static" / JAPANESE_SHEET

    def if_shown(face: re.Match[str]) -> str:
        path = sheet.parent / face[1]
        keep_glyphs(path, shown)
        return face[0] if path.is_file() else ""

    sheet.write_text(FACE.sub(if_shown, sheet.read_text("utf-8")), "utf-8")


def keep_glyphs(path: Path, characters: set[str]) -> None:
    """Cut a font, in place, down to some characters; delete it if it has none of them."""
    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=False)
    font = subset.load_font(path, options)
    kept = {ord(character) for character in characters} & font.getBestCmap().keys()
    if not kept:
        path.unlink()
        return
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=kept)
    subsetter.subset(font)
    subset.save_font(font, path, options)


def setup(app: Sphinx) -> None:
    """Register the step, after everything else has been written."""
    app.connect("build-finished", lighten, priority=900)
