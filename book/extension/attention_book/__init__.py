"""What this book needs from Sphinx beyond Jupyter Book: small things, a module each.

* `repository`: where the book is published, and the addresses that follow from it
* `buttons`: the buttons over a page; those that need an address are there only where it is known
* `self_contained`: each chapter as a notebook that runs on its own (with `wheel` and `bring_along`)
* `mathematics`: equations are drawn at build time, and a wrong one fails the build
* `facts`: numbers and settings that a page names come from the library, never from a keyboard
* `colours`: the roles that colour a word as query, key or value
* `solutions`: folded solutions are named so
* `accessible`: labels and landmarks that the themes leave out
* `calculation`: the ``worked-example`` directive, one row of a checked calculation as a table
* `explorer`: the ``explorer`` directive, the page on which a reader changes the numbers
* `light`: what no page asks for is taken out of the site
* `descriptions`: what a search engine says of each page
* `findable`: what search engines and shared links are told where the site's address is known; `card`, the picture they show
* `citation`: how to cite a page, at its foot
* `health`: the ``health`` directive, what ran and what came out; from `reports` of the tests, `chapters` counted, and the state of the `tree`
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from . import (
    accessible,
    buttons,
    calculation,
    citation,
    colours,
    descriptions,
    explorer,
    facts,
    findable,
    health,
    light,
    mathematics,
    repository,
    self_contained,
    solutions,
)

ROOT = Path(__file__).resolve().parents[3]
PARTS = (
    mathematics,
    colours,
    solutions,
    calculation,
    explorer,
    descriptions,
    findable,
    citation,
    health,
    buttons,
    accessible,
    self_contained,
    light,
)


def fingerprint() -> str:
    """Return a digest of everything outside the pages that decides what they say and how they look."""
    digest = hashlib.sha256()
    for folder in ("attn_lib", "book/assets", "book/extension", "book/templates"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".yml", ".json", ".css", ".svg", ".png", ".js", ".html"}:
                digest.update(path.read_bytes())
    digest.update((ROOT / citation.NAME).read_bytes())
    return digest.hexdigest()


def configure(app: Sphinx, config: Config) -> None:
    """Set what depends on the repository and on the library, before any other extension reads it."""
    repository.configure(config)
    findable.configure(config)
    accessible.configure(config)
    config.myst_substitutions = {**config.myst_substitutions, **facts.substitutions(ROOT)}
    config.attention_book_fingerprint = fingerprint()
    config.attention_book_addresses = f"{repository.known()} {repository.site_address()}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # Pages are made again when these values change: else a number computed by an older library would stay,
    # a changed style would not even be copied, and a button would lead to an earlier address.
    app.add_config_value("attention_book_fingerprint", "", "env", types=[str])
    app.add_config_value("attention_book_addresses", "", "html", types=[str])
    app.connect("config-inited", configure, priority=100)
    for part in PARTS:
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
