"""What the commands' argument parsers share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The type of argparse's add_subparsers(), which has no public name.
    _Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_PARALLELISM = 32_767


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """The argparse type of a whole number from `low` to `high`."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"need a whole number from {low} to {high}, not {text!r}")
        return number

    return convert


def add_command(
    subparsers: _Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add the command `name`, which calls `run`, with ``--json`` and an example under its help."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.set_defaults(run=run)
    return parser
