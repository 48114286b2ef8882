"""A digest of the repository's files, by which a report of tests knows whether it still speaks of what is here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("attn_lib", "benchmarks", "book", "notebooks", "tests")
FILES = (
    "*.py",
    "*.toml",
    "*.txt",
    "*.yml",
    "*.md",
    "*.cff",
    "Makefile",
)  # at the root; anything else there is somebody's own


def files(root: Path) -> Iterator[Path]:
    """What the tests and the pages are made from: no hidden file, and nothing that Python leaves behind."""
    for path in sorted({*(path for name in FOLDERS for path in (root / name).rglob("*")), *globbed(root)}):
        parts = path.relative_to(root).parts
        if path.is_file() and "__pycache__" not in parts and not any(part.startswith(".") for part in parts):
            yield path


def globbed(root: Path) -> Iterator[Path]:
    for pattern in FILES:
        yield from root.glob(pattern)


def state(root: Path) -> str:
    """Return the digest of names and contents: another one when any file is changed, added, renamed or gone."""
    digest = hashlib.sha256()
    for path in files(root):
        for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()
