"""The built site and a browser, one of each for all the checks."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .building import ROOT, build

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# Without a display, a sandbox of its own (CI runs as root) or a word to anyone outside.
FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split()


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the built site: the one that `make site` has just built, else one built here."""
    if given := os.environ.get("BOOK_SITE"):
        return (ROOT / given).resolve()
    output = tmp_path_factory.mktemp("book")
    built = build(ROOT, output)
    assert built.returncode == 0, built.stderr
    return output / "_build" / "html"


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


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A server that keeps no log."""

    def log_message(self, *_) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def served(site) -> Iterator[str]:
    """The address of the site on a server of its own."""
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
