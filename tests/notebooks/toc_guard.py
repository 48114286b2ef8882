"""The table of contents names every page that exists, once, and no other."""

from pathlib import Path

import yaml
from sphinx_external_toc.parsing import MalformedError, parse_toc_data


def toc_faults(root: Path) -> list[str]:
    """Compares `_toc.yml` with notebooks/*.ipynb, book/*.md and book/api/*.md under `root`."""
    try:
        toc = parse_toc_data(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")))
    except (yaml.YAMLError, MalformedError) as error:  # a page that stands twice is one of these
        return [f"_toc.yml: {error}"]
    if toc.globs():
        return [f"_toc.yml: {pattern} is a pattern; name every page" for pattern in sorted(toc.globs())]
    patterns = ("notebooks/*.ipynb", "book/*.md", "book/api/*.md")
    paths = [path.relative_to(root) for pattern in patterns for path in root.glob(pattern)]
    exists = {path.with_suffix("").as_posix(): path for path in paths}
    named = {name.removesuffix(".ipynb").removesuffix(".md") for name in toc}
    missing = [f"_toc.yml: names {name}, which does not exist" for name in sorted(named - exists.keys())]
    return missing + [f"_toc.yml: leaves out {exists[name]}" for name in sorted(exists.keys() - named)]
