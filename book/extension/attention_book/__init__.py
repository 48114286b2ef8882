"""What this book needs from Sphinx beyond Jupyter Book: seven small things, a module each.

* `repository`: the address of the repository, and the buttons that need it
* `mathematics`: equations are drawn at build time, and a wrong one fails the build
* `facts`: numbers and settings that a page names come from the library, never from a keyboard
* `colours`: the roles that colour a word as query, key or value
* `solutions`: folded solutions are named so
* `calculation`: the ``worked-example`` directive, one row of a checked calculation as a table
* `explorer`: the ``explorer`` directive, the page on which a reader changes the numbers
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

from . import calculation, colours, explorer, facts, mathematics, repository, solutions

ROOT = Path(__file__).resolve().parents[3]


def fingerprint() -> str:
    """Return a digest of everything outside the pages that decides what they say and how they look."""
    digest = hashlib.sha256()
    for folder in ("attn_lib", "book/assets", "book/extension"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".yml", ".json", ".css", ".js", ".svg"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def configure(app: Sphinx, config: Config) -> None:
    """Set what depends on the repository and on the library, before any other extension reads it."""
    repository.configure(config)
    config.myst_substitutions = {**config.myst_substitutions, **facts.substitutions(ROOT)}
    config.attention_book_fingerprint = fingerprint()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    # Pages are made again when this value changes: else a number computed by an older library would stay,
    # and a changed style would not even be copied.
    app.add_config_value("attention_book_fingerprint", "", "env", types=[str])
    app.connect("config-inited", configure, priority=100)
    mathematics.setup(app)
    colours.setup(app)
    solutions.setup(app)
    calculation.setup(app)
    explorer.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
