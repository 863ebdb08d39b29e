"""Where the C interface lies."""

import os

__all__ = ["get_include"]


def get_include() -> str:
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
