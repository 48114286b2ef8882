"""The command line: ``python -m attn_lib check | measure | report``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from attn_lib.commands import check, measure, report
from attn_lib.commands.output import UNREADABLE, Refusal, print_whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status: 0 when all is right, 1 when something differs, 2 when something cannot be read or written,
        130 when it was interrupted.
    """
    parser = argparse.ArgumentParser(prog="python -m attn_lib", description="Attention, number by number.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (check, measure, report):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except Refusal as refusal:
        for line in refusal.args:
            print_whole(line, sys.stderr)
        return UNREADABLE


if __name__ == "__main__":
    sys.exit(main())
