"""Building the book in a process of its own, as `make book` does."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from sphinx_external_toc.parsing import parse_toc_data

ROOT = Path(__file__).resolve().parents[2]
# What the site is built from.
PARTS = (
    "_config.yml",
    "_toc.yml",
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CITATION.cff",
    "attn_lib",
    "book",
    "notebooks",
)


def build(source: Path, output: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the book in `source` below `output`; warnings are errors. Its warnings and errors, without colours, are in `stderr`."""
    program = Path(sys.executable).parent / "jupyter-book"
    known = {key: value for key, value in os.environ.items() if not key.startswith("BOOK_")}
    built = subprocess.run(
        [program, "build", source, "--path-output", output, "-W", "-n", "--keep-going"],
        env={**known, "PYTHONPATH": str(source), **environment},
        capture_output=True,
        text=True,
    )
    built.stderr = re.sub(r"\x1b\[[0-9;]*m", "", built.stderr)
    return built


def toc_pages() -> list[str]:
    """The pages that `_toc.yml` names, as addresses in the site."""
    toc = parse_toc_data(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    return [f"{name.removesuffix('.ipynb').removesuffix('.md')}.html" for name in toc]
