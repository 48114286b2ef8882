"""A light site: what no page asks for is taken out of it, and the font of the icons keeps the icons that are used."""

from __future__ import annotations

import re
from pathlib import Path

from fontTools import subset
from sphinx.application import Sphinx

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
    cut_icons(Path(app.outdir))


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


def keep_glyphs(path: Path, characters: set[str]) -> None:
    """Cut a font, in place, down to some characters; delete it if it has none of them."""
    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=False, drop_tables=["GSUB", "GPOS"])
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
