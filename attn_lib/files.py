"""Files that are written whole or not at all: a reader never meets half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write into a file beside it, which then takes its name.

    What is there and is not a regular file stays: to replace a device or a folder would destroy it.

    Raises:
        OSError: it cannot be written; then nothing has changed.
        ValueError: a name that no file can have.
    """
    if path.exists() and not path.is_file():
        raise OSError(None, "it is there and is not a regular file")
    if not path.name:
        raise OSError(None, "it names no file")
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(beside, 0o644)  # temporary files are for their owner alone
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
