"""Where the C interface lies: `get_include`, and the command ``config``."""

import os
import sysconfig

__all__ = ["get_include"]


def get_include():
    """The folder of fjpool.h, for code in C, C++ and Cython.

    Returns
    -------
    str
        A directory for the compiler's include path. ``cimport fjpool`` in Cython finds
        ``fjpool/__init__.pxd`` by itself.

    Raises
    ------
    FileNotFoundError
        If the installation has no fjpool.h.

    Examples
    --------
    >>> import fjpool, os
    >>> os.path.exists(os.path.join(fjpool.get_include(), "fjpool.h"))
    True
    """
    package = os.path.dirname(os.path.abspath(__file__))
    source_tree = os.path.join(os.path.dirname(package), "csrc", "include")
    for folder in os.path.join(package, "include"), source_tree:
        if os.path.exists(os.path.join(folder, "fjpool.h")):
            return folder
    raise FileNotFoundError(f"there is no fjpool.h beside {package}")


def add_parser(subparsers):
    """``config``: what a compiler needs to know."""
    parser = subparsers.add_parser(
        "config",
        help="flags for compiling C, C++ and Cython code that uses fjpool.h",
        description="Print flags for compiling C, C++ and Cython code that uses fjpool.h.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cflags", action="store_true", help="-I flags for fjpool.h and Python.h")
    what.add_argument("--include", action="store_true", help="the folder of fjpool.h")
    parser.set_defaults(run=run)


def run(args):
    if args.include:
        print(get_include())
    else:
        python = sysconfig.get_path("include")
        print(f"-I{get_include()} -I{python}")
    return 0
