"""Folded cells of an exercise say what they are: one tagged ``check`` opens under Check, one tagged ``solution`` under Solution."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

PROMPTS = {"tag_check": "Check", "tag_solution": "Solution"}


def name_solutions(app: Sphinx, doctree: nodes.document) -> None:
    """Give each folded check and solution its own prompt, before the cells are folded."""
    for cell in doctree.findall(nodes.container):
        for tag, prompt in PROMPTS.items():
            if tag in cell["classes"] and "prompt_show" in cell:
                cell["prompt_show"] = cell["prompt_hide"] = prompt


def setup(app: Sphinx) -> None:
    """Register the step."""
    app.connect("doctree-read", name_solutions)
