"""Readers with a screen reader or a keyboard alone: what the themes leave out, added while a page is made.

What only the finished page knows (which boxes scroll, where the focus was) is left to ``book/assets/accessible.js``.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
LABELS = {
    # This label would hide the words that tell one folded cell from another.
    '<summary aria-label="Toggle hidden content">': "<summary>",
    # The parts of a list are its items; the role that docutils gives them is deprecated.
    'role="doc-biblioentry"': 'role="listitem"',
}
# The parameters of a signature are lines of one term, no list of definitions without terms.
LINES = {
    "<dl>": '<span class="sig-lines">',
    "</dl>": "</span>",
    "<dd>": '<span class="sig-line">',
    "</dd>": "</span>",
}


def configure(config: Config) -> None:
    """Let title and search form the header of the site."""
    config.html_sidebars = {"**": ["site-header.html", "sbt-sidebar-nav.html"]}


def name_navigation(tree: BeautifulSoup) -> BeautifulSoup:
    """Say of each list of chapters which part it is, of each fold what it hides, and which page is open.

    The captions are no headings: they would stand above the title of the page.
    """
    for number, caption in enumerate(tree.select("p.caption"), 1):
        for attribute in ("role", "aria-level"):
            caption.attrs.pop(attribute, None)
        caption["id"] = f"part-{number}"
        caption.find_next_sibling("ul")["aria-labelledby"] = caption["id"]
    for summary in tree.select("li > details > summary"):
        page = summary.find_parent("li").a.get_text(strip=True)
        summary["aria-label"] = f"Pages under {page}"
    for link in tree.select("a.current"):
        if link["href"] == "#":
            link["aria-current"] = "page"
    return tree


def mend_body(body: str) -> str:
    """Return the text of a page with the labels and lists that a screen reader can follow."""
    return SIGNATURE.sub(lambda found: replaced(found[0], LINES), replaced(body, LABELS))


def replaced(text: str, pairs: dict[str, str]) -> str:
    """Return a text with each of some strings replaced."""
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def mend_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Mend the text of a page, and the navigation beside it when the template asks for it."""
    if generate := context.get("generate_toctree_html"):
        context["generate_toctree_html"] = lambda *args, **kwargs: name_navigation(generate(*args, **kwargs))
    if "body" in context:
        context["body"] = mend_body(context["body"])


def setup(app: Sphinx) -> None:
    """Register the step and the script."""
    app.connect("html-page-context", mend_page, priority=900)  # after the themes' own
    app.add_js_file("accessible.js", loading_method="defer")
