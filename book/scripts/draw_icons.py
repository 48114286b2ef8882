"""Draw the icons that stand in a browser's tab and on a phone's start page, from the logo: `python book/scripts/draw_icons.py`.

A browser draws them, for it is the one program here that reads SVG. They are stored, and a test draws them again.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image

ASSETS = Path(__file__).resolve().parents[1] / "assets"
LOGO = ASSETS / "logo.svg"
# The size in pixels, the margin, the paper. A phone puts an icon on paper of its own if it brings none: black, on some.
ICONS = {"icon-32.png": (32, 0, "transparent"), "apple-touch-icon.png": (180, 12, "white")}


def draw(browser, size: int, margin: int, paper: str) -> bytes:
    """Return the logo as a PNG.

    Args:
        browser: a browser, started by Playwright.
        size: width and height of the whole, in pixels.
        margin: how much of it is left free on each side.
        paper: the colour behind the logo, as CSS names it.
    """
    page = browser.new_page(viewport={"width": size, "height": size})
    logo = LOGO.read_text(encoding="utf-8").replace("<svg ", '<svg style="display: block" ', 1)
    page.set_content(
        f'<body style="margin: 0; padding: {margin}px; box-sizing: border-box; background: {paper}">{logo}</body>'
    )
    drawn = page.screenshot(omit_background=True)
    page.close()
    small = io.BytesIO()
    Image.open(io.BytesIO(drawn)).save(small, format="png", optimize=True)
    return small.getvalue()


def main() -> None:
    """Store each icon beside the logo."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no chromium and no google-chrome to draw with: install one (apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name, settings in ICONS.items():
            (ASSETS / name).write_bytes(draw(browser, *settings))
        browser.close()


if __name__ == "__main__":
    main()
