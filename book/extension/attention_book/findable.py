"""What search engines and shared links are told: canonical addresses, Open Graph, a sitemap, and an entry page that says the same.

All of it needs the address of the site, which is known only where the book is published (`repository.site_address`). Elsewhere
pages keep their titles and descriptions, and nothing that would be a dead link.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from . import card, repository

CARD = "_static/card.png"
# Pages that Sphinx adds, and what they are. Nobody looks for them.
GENERATED = {"genindex": "Every name in the library's API, from A to Z", "search": "Search the pages of the book"}
# Beside the logo, for browsers and phones that take no SVG.
ICONS = (("icon", "32x32", "_static/icon-32.png"), ("apple-touch-icon", "180x180", "_static/apple-touch-icon.png"))


def configure(config: Config) -> None:
    """Set what the extensions need to know, if they were loaded."""
    address = repository.site_address()
    if address is None:
        return
    title = config.html_title
    config.html_baseurl = config.ogp_site_url = f"{address}/"
    config.ogp_site_name = title
    config.ogp_image = f"{address}/{CARD}"
    config.ogp_image_alt = card.alt()
    config.ogp_enable_meta_description = False  # `descriptions` has written one
    config.ogp_custom_meta_tags = [
        f'<meta property="og:image:width" content="{card.WIDTH}" />',
        f'<meta property="og:image:height" content="{card.HEIGHT}" />',
        '<meta name="twitter:card" content="summary_large_image" />',
    ]
    config.sitemap_url_scheme = "{link}"  # one language, one version
    config.sitemap_locales = [None]
    config.sitemap_excludes = [f"{page}.html" for page in GENERATED]


def everything(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> set[str]:
    """All pages are made again where the site is published: the sitemap lists those that are made."""
    return set(env.found_docs) if repository.site_address() else set()


def tell(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Complete what the head of a page says, before Open Graph's extension writes its part."""
    if page == app.config.root_doc:
        context["docstitle"] = ""  # the front page is the book: else its title would be the book's, twice
    head = [
        f'<link rel="{rel}" type="image/png" sizes="{sizes}" href="{escape(context["pathto"](file, resource=True))}" />'
        for rel, sizes, file in ICONS
    ]
    if doctree is None:
        text = escape(f"{GENERATED.get(page, page)}: {app.config.html_title}")
        head += [f'<meta name="description" content="{text}" />', '<meta name="robots" content="noindex" />']
    else:
        # Its extension describes a page by whatever text comes first, formulas in LaTeX too. A field of the page goes before that.
        context["meta"] = {**context["meta"], "og:description": escape(context["meta"]["description"])}
    context["metatags"] = "\n".join([context.get("metatags", ""), *head, ""])


def finish(app: Sphinx, error: Exception | None) -> None:
    """Write the entry page, and where the address is known the picture and what robots are told."""
    if error is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    front = f"{app.config.root_doc}.html"
    (site / "index.html").write_text(entry((site / front).read_text(encoding="utf-8"), front), encoding="utf-8")
    address = repository.site_address()
    if address is None:
        for name in ("robots.txt", "sitemap.xml", CARD):  # of an earlier build
            (site / name).unlink(missing_ok=True)
        return
    card.draw(site / CARD, app.config.html_title)
    # Robots look for it at the root of the host: it is read where the site has a host of its own.
    (site / "robots.txt").write_text(f"User-agent: *\nAllow: /\nSitemap: {address}/sitemap.xml\n", encoding="utf-8")


def entry(front_page: str, path: str) -> str:
    """Return the page at the site's root: it leads to the front page, and says of itself what that says, for it is what people share.

    Args:
        front_page: the front page as HTML.
        path: where the front page stands in the site.
    """
    from bs4 import BeautifulSoup

    head = BeautifulSoup(front_page, "html.parser").head
    up = "../" * path.count("/")
    tags = head.select(
        'title, meta[name="description"], meta[property], meta[name^="twitter:"], link[rel="canonical"], '
        'link[rel="icon"], link[rel="apple-touch-icon"]'
    )
    for tag in tags:
        if tag.name == "link":
            tag["href"] = tag["href"].removeprefix(up)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        + "".join(f"{tag}\n" for tag in tags)
        + f'<meta http-equiv="refresh" content="0; url={path}"/>\n</head>\n'
        f'<body><p><a href="{path}">{escape(head.title.get_text())}</a></p></body>\n</html>\n'
    )


def setup(app: Sphinx) -> None:
    """Register the steps; where the address is known, the extensions as well."""
    if repository.site_address():
        app.setup_extension("sphinxext.opengraph")
        app.setup_extension("sphinx_sitemap")
    app.connect("env-get-outdated", everything)
    app.connect("html-page-context", tell, priority=400)
    # Before the table of contents' own extension leads from the root to the front page, and says nothing there.
    app.connect("build-finished", finish, priority=400)
