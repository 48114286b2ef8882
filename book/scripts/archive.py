"""Packs the built site into one zip that is read without a network and without this repository.

python book/scripts/archive.py SITE ZIP      (`make archive` calls it)
"""

import argparse
import sys
import zipfile
from pathlib import Path

FOLDER = "attention-number-by-number"
LEFT_OUT = {".buildinfo"}  # Sphinx's note to itself


def archive(site: Path, target: Path) -> Path:
    """Pack a site; the same site gives the same bytes. Returns the path of the zip.

    Raises:
        SystemExit: there is no site in that folder.
    """
    if not (site / "index.html").is_file():
        raise SystemExit(f"{site} holds no site: it has no index.html; make book builds one")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in sorted(path for path in site.rglob("*") if path.is_file() and path.name not in LEFT_OUT):
            # Without a date of its own an entry has the first that zip knows.
            entry = zipfile.ZipInfo(f"{FOLDER}/{path.relative_to(site).as_posix()}")
            entry.external_attr = 0o644 << 16
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return target


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Pack the built site into one zip.")
    parser.add_argument("site", type=Path)
    parser.add_argument("zip", type=Path)
    given = parser.parse_args(arguments)
    target = archive(given.site, given.zip)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB. Unpack it and open {FOLDER}/index.html")


if __name__ == "__main__":
    sys.exit(main())
