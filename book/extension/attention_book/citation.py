"""The line at the foot of every page that opens on how to cite it, from CITATION.cff."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import latexcodec  # noqa: F401  (its import registers the codec)
import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ConfigError

from . import repository

NAME = "CITATION.cff"


def book(root: Path) -> dict[str, str]:
    """Return author, title and version of the book.

    Raises:
        ConfigError: the file is gone or broken, or lacks one of them.
    """
    try:
        cited = yaml.safe_load((root / NAME).read_text(encoding="utf-8"))["preferred-citation"]
        return {
            "author": " and ".join(author["name"] for author in cited["authors"]),
            "title": str(cited["title"]),
            "version": str(cited["version"]),
        }
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigError(f"{NAME} must hold preferred-citation with authors, title and version: {error!r}") from error


def plain(book: dict[str, str], year: str, page: str | None, address: str | None) -> str:
    """Return the citation as a sentence.

    >>> plain({"author": "the authors of X", "title": "X", "version": "1"}, "2026", "A page", None)
    'The authors of X (2026). “A page”. In: X, version 1.'
    """
    author = book["author"][0].upper() + book["author"][1:]
    inside = f"“{page}”. In: " if page else ""
    where = f" {address}" if address else ""
    return f"{author} ({year}). {inside}{book['title']}, version {book['version']}.{where}"


def bibtex(book: dict[str, str], year: str, page: str | None, address: str | None) -> str:
    """Return the citation as an entry for BibTeX; without ``page`` that of the whole book."""
    key = nodes.make_id(book["title"]) + (f":{nodes.make_id(page)}" if page else "")
    fields = {"author": in_braces(book["author"]), "title": in_braces(page or book["title"])}
    if page:
        fields["booktitle"] = in_braces(book["title"])
    fields |= {"year": year, "note": f"Version {book['version']}"}
    if address:
        fields["url"] = address  # never escaped: BibTeX's styles print it as it is
    width = max(map(len, fields))
    lines = "\n".join(f"  {name:<{width}} = {{{value}}}," for name, value in fields.items())
    return f"@{'incollection' if page else 'book'}{{{key},\n{lines}\n}}"


def in_braces(text: str) -> str:
    """The text for LaTeX, in braces that keep its capitals and keep an organisation from being read as names."""
    return f"{{{codecs.encode(text, 'ulatex', 'keep')}}}"


def add_citation(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Hand the template of the foot what it shows."""
    if doctree is None:
        return
    site = repository.site_address()
    parts = (
        book(Path(app.srcdir)),
        app.config.copyright,
        None if page == app.config.root_doc else app.env.titles[page].astext(),
        f"{site}/{app.builder.get_target_uri(page)}" if site else None,
    )
    highlight = app.builder.highlighter.highlight_block
    context["citation"] = {
        "plain": highlight(plain(*parts), "text"),
        "bibtex": highlight(bibtex(*parts), "bibtex"),
    }


def setup(app: Sphinx) -> None:
    """Register the step."""
    app.connect("html-page-context", add_citation)
