"""Each chapter as a notebook that runs on its own: the package in a first, folded cell, and no link that leads nowhere."""

from __future__ import annotations

import base64
import hashlib
import inspect
import posixpath
import re
import textwrap
from collections.abc import Callable, Collection
from pathlib import Path

import nbformat
from markdown_it import MarkdownIt
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from . import repository
from .bring_along import bring_attn_lib_along
from .wheel import build_wheel

FOLDER = "download"  # in the site; the addresses in it are told to others, so they stay
TITLE = "Bring attn_lib along"
FOLDED = {
    "cellView": "form",  # in Colab
    "jupyter": {"source_hidden": True},  # in JupyterLab
    "_kg_hide-input": True,  # in Kaggle
}
LINE = 120  # characters of the wheel: one line of all of it would stop an editor that unfolds the cell
MARKDOWN = MarkdownIt("commonmark").enable("table")
LABEL = r"(?<!!)\[((?:\\.|[^\[\]\\]|\[[^\[\]]*\])*)\]"


def first_cell(wheel: bytes) -> nbformat.NotebookNode:
    """Return the cell that makes ``import attn_lib`` work wherever the notebook runs."""
    lines = textwrap.fill(base64.b64encode(wheel).decode(), LINE)
    source = (
        f"# @title {TITLE}\n"
        f"{inspect.getsource(bring_attn_lib_along)}\n\n"
        f'bring_attn_lib_along(\n    sha256="{hashlib.sha256(wheel).hexdigest()}",\n    wheel="""\n{lines}\n""",\n)'
    )
    return nbformat.v4.new_code_cell(source, id="bring-attn-lib-along", metadata=FOLDED)


def self_contained(notebook: nbformat.NotebookNode, wheel: bytes, address: Callable[[str], str | None]) -> str:
    """Return a notebook as the text of a file that runs on its own. What its cells showed stays.

    Args:
        notebook: a chapter.
        wheel: the package.
        address: takes a relative link and returns where it leads from everywhere, or None where that is unknown.
    """
    cells = [first_cell(wheel)]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell = nbformat.from_dict({**cell, "source": with_links(cell.source, address)})
        cells.append(cell)
    whole = nbformat.from_dict({**notebook, "cells": cells})
    nbformat.validate(whole)
    return nbformat.writes(whole, version=nbformat.NO_CONVERT) + "\n"


def relative_links(text: str) -> list[str]:
    """Return the targets of links and pictures in Markdown that mean something only beside other files.

    A picture that is attached to its cell is not one of them.
    """
    inline = (child for token in MARKDOWN.parse(text) for child in token.children or [])
    targets = [child.attrGet("href" if child.type == "link_open" else "src") for child in inline if child.attrs]
    return [target for target in targets if target and not re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE)]


def with_links(text: str, address: Callable[[str], str | None]) -> str:
    """Return Markdown in which each relative link leads to its address, or is plain text where it has none.

    Raises:
        ExtensionError: a relative link or picture is written in another way than ``[text](target)``, so it would stay.
    """
    for target in dict.fromkeys(relative_links(text)):
        leads_to = address(target)
        text = re.sub(rf"{LABEL}\({re.escape(target)}\)", rf"[\1]({leads_to})" if leads_to else r"\1", text)
    if left := relative_links(text):
        raise ExtensionError(
            f"a lone notebook cannot show {', '.join(left)}: write links as [text](target), no picture"
        )
    return text


def published(docname: str, documents: Collection[str], site: str | None) -> Callable[[str], str | None]:
    """Return what finds the address of a relative link of a page in the published site.

    Args:
        docname: the page, as in the table of contents.
        documents: every page.
        site: the address of the site, if it is known.
    """

    def address(target: str) -> str | None:
        path, mark, place = target.partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(docname), path)) if path else docname
        name = posixpath.splitext(page)[0] if path else page
        if name not in documents:
            raise ExtensionError(
                f"{docname} links to {target}, and there is no such page for a lone notebook to link to"
            )
        return f"{site}/{name}.html{mark}{place}" if site else None

    return address


def path_in_site(docname: str) -> str:
    """Return where in the site the self-contained notebook of a chapter lies."""
    return f"{FOLDER}/{posixpath.basename(docname)}.ipynb"


def chapters(app: Sphinx) -> list[str]:
    """Return the pages that are notebooks."""
    return sorted(name for name in app.env.found_docs if is_notebook(app, name))


def is_notebook(app: Sphinx, docname: str) -> bool:
    """Say whether a page is a notebook."""
    return str(app.env.doc2path(docname, base=False)).endswith(".ipynb")


def write_all(app: Sphinx, exception: Exception | None) -> None:
    """Write the self-contained notebooks of all chapters into the site."""
    if exception or app.builder.name != "html":
        return
    wheel = build_wheel(Path(app.srcdir), Path(app.doctreedir, "attn_lib_wheel"))
    folder = Path(app.outdir, FOLDER)
    folder.mkdir(exist_ok=True)
    written = set()
    for docname in chapters(app):
        notebook = nbformat.read(app.env.doc2path(docname), as_version=4)
        find = published(docname, app.env.found_docs, repository.site_address())
        path = Path(app.outdir, path_in_site(docname))
        path.write_text(self_contained(notebook, wheel, find), encoding="utf-8", newline="\n")
        written.add(path)
    for path in set(folder.glob("*.ipynb")) - written:
        path.unlink()  # a chapter of an earlier build


def setup(app: Sphinx) -> None:
    """Register what writes the notebooks."""
    app.connect("build-finished", write_all)
