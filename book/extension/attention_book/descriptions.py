"""What a search engine says of a page: a sentence or two, the page's own first words.

A page that begins with nothing that stands alone sets ``description`` itself, in its front matter or in the notebook's metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

logger = logging.getLogger(__name__)

LONGEST = 160  # characters; search engines cut what is longer
LEAST = 30  # characters that say something
SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+(?=[^a-z])")
UNSAYABLE = "\0"  # stands for what is no text: a formula, a work cited, a link that gets its words later


def set_description(app: Sphinx, doctree: nodes.document) -> None:
    """Give the page that has just been read its description: the one that it sets, else its first sentences."""
    metadata = app.env.metadata[app.env.docname]
    text = " ".join(metadata.get("description", "").split()) or describe(doctree)
    metadata["description"] = text
    meta = nodes.meta()
    meta.attributes.update(name="description", content=text)
    doctree.insert(0, meta)


def describe(doctree: nodes.document) -> str:
    """Return the first sentences of a page, no longer than search engines show and nothing but text."""
    description = ""
    for sentence in sentences(doctree):
        if UNSAYABLE in sentence:
            if len(description) >= LEAST:
                break  # what follows may lean on what is left out
            continue
        longer = f"{description} {sentence}".strip()
        if description and len(longer) > LONGEST:
            break
        description = longer
    return shortened(description)


def sentences(doctree: nodes.document) -> Iterator[str]:
    """The sentences before the first section of a page."""
    for section in doctree.findall(nodes.section):
        for paragraph in section.children:
            if isinstance(paragraph, nodes.section):
                return
            if isinstance(paragraph, nodes.paragraph):
                yield from SENTENCE_END.split(" ".join(said(paragraph).split()))
        return


def said(node: nodes.Node) -> str:
    """The text of a node, with a mark where something stands that has none yet, or none that can be read aloud."""
    if isinstance(node, nodes.Text):
        return node.astext()
    citation = isinstance(node, pending_xref) and node.get("refdomain") == "cite"
    if citation or isinstance(node, (nodes.math, nodes.image, nodes.footnote_reference)) or not node.astext().strip():
        return UNSAYABLE
    return "".join(map(said, node.children))


def shortened(text: str) -> str:
    """The text, cut between two words if it is too long, with an ellipsis."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1].rsplit(None, 1)[0].rstrip(",;:") + "…"


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of a page that says too little of itself, or too much, or the same as another; under -W the build then fails."""
    seen: dict[str, str] = {}
    for page in sorted(env.found_docs):
        text = env.metadata[page]["description"]
        if not LEAST <= len(text) <= LONGEST:
            logger.warning(
                "its description has %d characters, not %d to %d: %r; set description in its front matter or metadata",
                len(text),
                LEAST,
                LONGEST,
                text,
                location=page,
            )
        elif text in seen:
            logger.warning("its description is that of %s: %r", seen[text], text, location=page)
        seen[text] = page


def setup(app: Sphinx) -> None:
    """Register the two steps."""
    app.connect("doctree-read", set_description)
    app.connect("env-check-consistency", check)
