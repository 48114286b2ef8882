"""Where the book is published: its repository and its site. Both are known only there, and what needs them is dropped without."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote

from sphinx.config import Config
from sphinx.errors import ConfigError

URL = "BOOK_REPOSITORY_URL"
BRANCH = "BOOK_REPOSITORY_BRANCH"
PUBLISHED_BRANCH = "BOOK_PUBLISHED_BRANCH"
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


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub.

    Attributes:
        url: its address, ``https://github.com/OWNER/NAME``.
        branch: with the source of the book.
        published: the branch that holds the built site.
    """

    url: str
    branch: str
    published: str

    @property
    def name(self) -> str:
        """``OWNER/NAME``."""
        return self.url.removeprefix("https://github.com/")

    def colab(self, path: str) -> str:
        """Return the address that opens a notebook of the built site in Colab."""
        return f"https://colab.research.google.com/github/{self.name}/blob/{quote(self.published)}/{path}"

    def binder(self, path: str) -> str:
        """Return the address that opens a notebook of the source on Binder."""
        return f"https://mybinder.org/v2/gh/{self.name}/{quote(self.branch, safe='')}?urlpath=lab/tree/{path}"

    def edit(self, path: str) -> str:
        """Return the address where a file of the source is edited."""
        return f"{self.url}/edit/{quote(self.branch)}/{path}"

    def report(self, path: str) -> str:
        """Return the address of a new issue that names a file of the source."""
        return f"{self.url}/issues/new?title={quote(f'{path}: ', safe='')}"


def known() -> Repository | None:
    """Return the repository that the environment names, or None where it names none.

    Raises:
        ConfigError: the address is not one of a GitHub repository, the only kind that Colab and Binder open by name.
    """
    url = os.environ.get(URL, "").strip().rstrip("/").removesuffix(".git")
    if not url:
        return None
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", url):
        raise ConfigError(f"{URL} is {url!r}; it must read https://github.com/OWNER/NAME")
    branch, published = (os.environ.get(name, "").strip() for name in (BRANCH, PUBLISHED_BRANCH))
    return Repository(url, branch or "main", published or "published")


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
    """Drop what Jupyter Book sets, which is its own repository; the buttons of this book stand in `buttons`."""
    for key in KEYS:
        config.html_theme_options.pop(key, None)
