"""What commands print and write, and how they refuse."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from attn_lib.files import write_whole
from attn_lib.worked_examples.example import shown

RIGHT, WRONG, UNREADABLE, INTERRUPTED = 0, 1, 2, 130  # exit statuses; the last as shells have it


class Refusal(Exception):
    """Something cannot be read, written or run: the lines to say so."""


def write_file(name: str, content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(Path(name), content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        fits = "a file in a folder that exists would fit"
        raise Refusal(f"{shown(name)}: cannot be written: {reason}; {fits}") from None


def print_whole(text: str, stream=None) -> None:
    """Print whole, in any encoding, to a reader who may have left."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        # Python flushes again at exit; let that go nowhere instead of into a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise Refusal(f"standard output: cannot be written: {error.strerror}") from None
