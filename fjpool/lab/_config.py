"""``python -m fjpool config``: what a compiler needs to know about fjpool.h."""

from __future__ import annotations

import argparse
import json
import sysconfig
from typing import TYPE_CHECKING

import fjpool

from ._arguments import add_command

if TYPE_CHECKING:
    from ._arguments import _Subparsers


def add_parser(subparsers: _Subparsers) -> None:
    parser = add_command(
        subparsers,
        "config",
        run,
        "flags for compiling C, C++ and Cython code that uses fjpool.h",
        "cc -shared -fPIC $(python -m fjpool config --cflags) module.c -o module.so",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cflags", action="store_true", help="-I flags for fjpool.h and Python.h (default)")
    what.add_argument("--include", action="store_true", help="the folder of fjpool.h")


def run(args: argparse.Namespace) -> int:
    include = fjpool.get_include()
    cflags = f"-I{include} -I{sysconfig.get_path('include')}"
    if args.json:
        print(json.dumps({"include": include, "cflags": cflags}, indent=2))
    else:
        print(include if args.include else cflags)
    return 0
