"""``python -m fjpool``: the experiments of `fjpool.lab` at the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from fjpool.lab import _block, _config, _info, _order, _skew

# Each of these modules offers add_parser(subparsers) and run(args) -> exit status.
COMMANDS = (_info, _skew, _block, _order, _config)


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong first, then the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n{self.format_usage()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; without arguments, ``info``. Return the exit status."""
    parser = Parser(prog="python -m fjpool", description="Experiments with a work-stealing fork/join pool.")
    subparsers = parser.add_subparsers(metavar="command", title="commands (default: info)")
    for command in COMMANDS:
        command.add_parser(subparsers)
    words = sys.argv[1:] if argv is None else list(argv)
    args = parser.parse_args(words or ["info"])
    status: int = args.run(args)
    return status


if __name__ == "__main__":
    sys.exit(main())
