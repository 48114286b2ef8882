"""Read a file that somebody else wrote: bytes to dicts, lists and strings, with the line of each."""

from __future__ import annotations

import os
import re
import stat

from attn_lib.worked_examples.example import shown

MAX_BYTES = 1_000_000
MAX_DEPTH = 8  # the format needs six

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Fault(Exception):
    """What does not fit, and where: a path of keys and indices, or a line of the file."""

    def __init__(self, message: str, path: tuple = (), line: int | None = None):
        super().__init__(message)
        self.message, self.path, self.line = message, path, line


def read_text(path: str | os.PathLike) -> str:
    """The text of a regular file. A pipe or a device could hang or never end, so neither is read.

    Raises:
        Fault: it cannot be opened, is not a regular file, too large, or not UTF-8.
    """
    try:
        if os.path.isdir(path):
            raise Fault("is a directory; a YAML file would fit")
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Fault("is not a regular file; a YAML file would fit")
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}; a YAML file would fit") from None
    if len(content) > MAX_BYTES:
        raise Fault(f"is too large; at most {MAX_BYTES} bytes would fit")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte {content[error.start]:#04x} is not UTF-8; text saved as UTF-8 would fit"
        raise Fault(message, (), line) from None


def parse_yaml(text: str, lines: dict[tuple, int]) -> object:
    """YAML to dicts, lists and strings; ``lines`` receives the lines of keys and list items by their path.

    Built from the parser's events on a stack of our own: nothing recurses, every scalar stays the
    string that was printed (0.930 keeps its digits), and what numbers have no use for (aliases, tags,
    a second document) is refused before anything is made of it.

    Raises:
        Fault: it is not YAML, or holds one of those, a key twice, a control character, or too many levels.

    >>> parse_yaml("weights: [0.930, 0.070]", {})
    {'weights': ['0.930', '0.070']}
    """
    import yaml

    bad = _CONTROL.search(text.replace("\r\n", "\n").replace("\x85", "\n"))
    if bad:
        line = text.count("\n", 0, text.index(bad[0])) + 1
        raise Fault(f"control character {bad[0]!a}; printable text would fit", (), line)
    root: list = []
    stack: list[tuple[list | dict, tuple]] = [(root, ())]  # the open containers and their paths
    keys: list[str | None] = [None]  # for each, the key that waits for its value
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            line = event.start_mark.line + 1
            container, path = stack[-1]
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop(), keys.pop()
            elif isinstance(event, yaml.DocumentStartEvent) and root:
                raise Fault("a second document begins here; one example a file would fit", (), line)
            if not isinstance(event, yaml.NodeEvent):
                continue
            if event.anchor is not None or getattr(event, "tag", None) is not None:
                raise Fault("an alias, anchor or tag; plain words and numbers, written out, would fit", path, line)
            scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
            if scalar is not None and _CONTROL.search(scalar):
                raise Fault(f"control character in {shown(scalar)}; printable text would fit", path, line)
            if isinstance(container, dict) and keys[-1] is None:  # this node is a key
                if scalar is None:
                    raise Fault("a list or mapping as a key; a word would fit", path, line)
                if scalar in container:
                    raise Fault("this key stands twice; once would fit", (*path, scalar), line)
                keys[-1] = scalar
                lines[*path, scalar] = line
                continue
            node = scalar if scalar is not None else {} if isinstance(event, yaml.MappingStartEvent) else []
            if isinstance(container, dict):
                child = (*path, keys[-1])
                container[keys[-1]], keys[-1] = node, None
            else:
                child = (*path, len(container)) if len(stack) > 1 else ()
                container.append(node)
                if lines.get(path) != line:  # else the line of the list says it
                    lines[child] = line
            if scalar is None:
                if len(stack) > MAX_DEPTH:
                    raise Fault(f"nested too deep; {MAX_DEPTH} levels would fit", child[:2], line)
                stack.append((node, child)), keys.append(None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
        message = f"is not YAML: {shown(problem)}; keys, lists and numbers as in the built-in examples would fit"
        raise Fault(message, (), mark and mark.line + 1) from None
    return root[0] if root else None
