"""The roles ``query``, ``key`` and ``value``: a word in the colour that its role has in every figure."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

ROLES = ("query", "key", "value")


class ColourRole(SphinxRole):
    """A word that belongs to the queries, the keys or the values."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        return [nodes.inline(self.rawtext, self.text, classes=["role", self.name])], []


def setup(app: Sphinx) -> None:
    """Register the three roles."""
    for role in ROLES:
        app.add_role(role, ColourRole())
