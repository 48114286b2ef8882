"""attn_lib as a wheel, built by the backend that pyproject.toml names: the same bytes for the same files."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from sphinx.errors import ExtensionError

PACKAGE = "attn_lib"
BUILD = "import sys; from importlib import import_module; import_module(sys.argv[1]).build_wheel(sys.argv[2])"
# The first moment that an entry of a zip file can have.
MOMENT = "315532800"


def sources(root: Path) -> list[Path]:
    """Return every file that the wheel is made of, relative to the folder of the repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = ["pyproject.toml", "MANIFEST.in", project["readme"], *project["license-files"]]
    package = (path for path in (root / PACKAGE).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted([*map(Path, named), *(path.relative_to(root) for path in package)])


def build_wheel(root: Path, kept: Path) -> bytes:
    """Return the wheel; it is built only where its files have changed since it was kept.

    Args:
        root: the folder of the repository. Nothing is written there.
        kept: a folder for the last wheel that was built.

    Raises:
        ExtensionError: it cannot be built; the message has what the backend said.
    """
    files = sources(root)
    digest = hashlib.sha256()
    for path in files:
        content = (root / path).read_bytes()
        digest.update(f"{path.as_posix()}\n{len(content)}\n".encode() + content)
    wheel = kept / f"{digest.hexdigest()}.whl"
    if wheel.is_file():
        return wheel.read_bytes()
    content = built(root, files)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    wheel.write_bytes(content)
    return content


def built(root: Path, files: list[Path]) -> bytes:
    """Return a wheel that is built in a copy, so that the backend leaves nothing behind."""
    backend = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["build-backend"]
    with tempfile.TemporaryDirectory(prefix="wheel-") as folder:
        copy, output = Path(folder, "copy"), Path(folder, "output")
        output.mkdir()
        for path in files:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, copy / path)
            (copy / path).chmod(0o644)  # a wheel stores modes, and they differ from one checkout to another
        backend_said = subprocess.run(
            [sys.executable, "-c", BUILD, backend, output],
            cwd=copy,
            env={**os.environ, "SOURCE_DATE_EPOCH": MOMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if backend_said.returncode:
            raise ExtensionError(f"{backend} cannot build a wheel of {PACKAGE}:\n{backend_said.stdout}")
        (wheel,) = output.glob("*.whl")
        return wheel.read_bytes()
