"""The buttons over a page: download, run elsewhere, edit and report. A button that would lead nowhere is not there."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from . import repository, self_contained

Button = dict[str, Any]


def link(url: str, text: str, tooltip: str, icon: str, label: str) -> Button:
    """Return a button as the theme's templates take it."""
    return {"type": "link", "url": url, "text": text, "tooltip": tooltip, "icon": icon, "label": label}


def group(buttons: list[Button], tooltip: str, icon: str, label: str) -> Button:
    """Return a button that opens a list of buttons."""
    return {"type": "group", "buttons": buttons, "tooltip": tooltip, "icon": icon, "label": label}


def notebook_download(url: str) -> Button:
    """Return the button that gives a chapter's self-contained notebook."""
    tooltip = "A notebook that runs on its own"
    return link(url, ".ipynb", tooltip, "fas fa-file-code", "download-notebook-button")


def run_elsewhere(known: repository.Repository, source: str, lone: str) -> Button:
    """Return the buttons that open a chapter on a machine of others.

    Args:
        known: the repository.
        source: the notebook in it.
        lone: the self-contained notebook in the built site.
    """
    buttons = [
        link(known.colab(lone), "Colab", "Open in Colab", "_static/images/logo_colab.png", "colab-button"),
        link(known.binder(source), "Binder", "Open on Binder", "_static/images/logo_binder.svg", "binder-button"),
    ]
    return group(buttons, "Run this chapter elsewhere", "fas fa-rocket", "launch-buttons")


def at_the_source(known: repository.Repository, source: str) -> Button:
    """Return the buttons that lead to the repository.

    Args:
        known: the repository.
        source: the page's file in it.
    """
    buttons = [
        link(known.url, "Repository", "The repository", "fab fa-github", "source-repository-button"),
        link(known.edit(source), "Edit this page", "Suggest a change", "fas fa-pencil-alt", "source-edit-button"),
        link(known.report(source), "Report an error", "Open an issue", "fas fa-bug", "source-issues-button"),
    ]
    return group(buttons, "Edit this page, report an error", "fab fa-github", "source-buttons")


def arrange(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document) -> None:
    """Put this book's buttons in the place of the theme's.

    The theme downloads a page's source, which needs the repository beside it: a chapter gives its self-contained notebook
    instead, and a page of prose, whose Markdown only this book can read, gives nothing but its print. Its buttons for Colab,
    for editing and for issues know no second branch and no page's title.
    """
    if doctree is None:  # the search and the index have no source
        return
    notebook = self_contained.is_notebook(app, pagename)
    lone = self_contained.path_in_site(pagename)
    for button in context["header_buttons"]:
        if button.get("label") == "download-buttons":
            printed = [each for each in button["buttons"] if each["label"] == "download-pdf-button"]
            button["buttons"] = [notebook_download(context["pathto"](lone, 1))] * notebook + printed
    known = repository.known()
    if known is None:
        return
    source = str(app.env.doc2path(pagename, base=False))
    more = [run_elsewhere(known, source, lone)] * notebook + [at_the_source(known, source)]
    context["header_buttons"][:0] = more


def setup(app: Sphinx) -> None:
    """Register the handler, after those of the theme."""
    app.connect("html-page-context", arrange, priority=600)
