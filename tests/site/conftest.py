"""The built site and a browser, one of each for all the checks."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .browsing import serving
from .building import PARTS, ROOT, build
from .explorer_page import opened

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# Without a display, a sandbox of its own (CI runs as root) or a word to anyone outside: no name is found, so the network is as good as cut.
FLAGS = (
    ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    + "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()
)


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built site: the one that `make site` has just built, else one built here."""
    if given := os.environ.get("BOOK_SITE"):
        return (ROOT / given).resolve()
    output = tmp_path_factory.mktemp("book")
    built = build(ROOT, output)
    assert built.returncode == 0, built.stderr
    return output / "_build" / "html"


@pytest.fixture
def copy(tmp_path) -> Path:
    """A copy of what the site is built from."""
    for part in PARTS:
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / part)
    return tmp_path


@pytest.fixture(scope="session")
def served(site) -> Iterator[str]:
    """The address of a server on this machine that serves the site."""
    with serving(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """A browser of the machine. Missing: a visible skip, and in CI a failure."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        missing = "no Chromium or Chrome to look at the site with: install one (apt install chromium)"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(site, browser):
    """The explorer, opened once for all tests of a file; whatever went wrong on it fails there."""
    page, wrong = opened(browser, site)
    yield page
    assert page.evaluate("window.pwned") is None
    assert wrong == []
    page.close()
