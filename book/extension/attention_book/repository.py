"""The addresses of the repository and of the site, known only where the book is published: what needs one is dropped without it."""

from __future__ import annotations

import os
import re

from sphinx.config import Config
from sphinx.errors import ConfigError

URL = "BOOK_REPOSITORY_URL"
BRANCH = "BOOK_REPOSITORY_BRANCH"
SITE = "BOOK_SITE_URL"
KEYS = (
    "repository_url",
    "repository_branch",
    "launch_buttons",
    "use_repository_button",
    "use_issues_button",
    "use_edit_page_button",
    "path_to_docs",
)


def address() -> tuple[str, str] | None:
    """Return the repository's address and branch from the environment, or None where the address is unset.

    Raises:
        ConfigError: the address is not one of a GitHub repository, the only kind that Colab and Binder open by name.
    """
    url = os.environ.get(URL, "").strip().rstrip("/").removesuffix(".git")
    if not url:
        return None
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", url):
        raise ConfigError(f"{URL} is {url!r}; it must read https://github.com/OWNER/NAME")
    return url, os.environ.get(BRANCH, "").strip() or "main"


def site_address() -> str | None:
    """Return the address that the site is published under, without a slash at its end, or None where it is unset.

    Raises:
        ConfigError: the address does not begin with https://, or has no host, or more than a path.
    """
    url = os.environ.get(SITE, "").strip().rstrip("/")
    if not url:
        return None
    if not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~%-]+)*", url):
        raise ConfigError(f"{SITE} is {url!r}; it must read https://HOST or https://HOST/PATH")
    return url


def configure(config: Config) -> None:
    """Point the theme's buttons to the repository, or drop them: Jupyter Book's default links to its own repository."""
    options = config.html_theme_options
    for key in KEYS:
        options.pop(key, None)
    known = address()
    if known is None:
        return
    url, branch = known
    options.update(
        repository_url=url,
        repository_branch=branch,
        use_repository_button=True,
        use_issues_button=True,
        launch_buttons={
            "notebook_interface": "jupyterlab",
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
        },
    )
