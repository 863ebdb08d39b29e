"""The extensions and C headers of fjpool; everything else about the package is in pyproject.toml.

FJPOOL_WERROR=1 turns warnings of the C compiler into errors; FJPOOL_DEBUG=1 compiles with the
core's costly assertions. FJPOOL_DECLARE_FREE_THREADED=1 has the modules say that they need no GIL,
which no other build may do until the tests have run on an interpreter without one: it switches
its GIL on when it imports modules that do not say so.
"""

import os
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


def switched_on(name):
    return os.environ.get(name, "") not in ("", "0")


FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-fvisibility=hidden", "-pthread", "-O2"]
MACROS = []
if switched_on("FJPOOL_WERROR"):
    FLAGS.append("-Werror")
if switched_on("FJPOOL_DEBUG"):
    FLAGS += ["-O1", "-g"]
    MACROS.append(("FJ_DEBUG", "1"))
if switched_on("FJPOOL_DECLARE_FREE_THREADED"):
    MACROS.append(("FJ_DECLARE_FREE_THREADED", "1"))


def extension(name, folders, *, without=(), macros=(), flags=(), libraries=()):
    """The extension made of all C files of some folders of csrc."""
    sources = [file for folder in folders for file in sorted(glob(f"csrc/{folder}/*.c"))]
    return Extension(
        name,
        [file for file in sources if file not in without],
        include_dirs=["csrc/core", "csrc/include"],
        depends=sorted(glob("csrc/*/*.h") + glob("csrc/*/*.def")),
        define_macros=[*MACROS, *macros],
        extra_compile_args=[*FLAGS, *flags],
        extra_link_args=["-pthread"],
        libraries=list(libraries),
    )


class BuildWithHeaders(build_py):
    """Puts csrc/include into the package; in place, fjpool.get_include() looks there."""

    def run(self):
        super().run()
        if not self.editable_mode:
            folder = os.path.join(self.build_lib, "fjpool", "include")
            self.mkpath(folder)
            for header in sorted(glob("csrc/include/*.h")):
                self.copy_file(header, folder)


setup(
    cmdclass={"build_py": BuildWithHeaders},
    ext_modules=[
        extension("fjpool._core", ["core", "py"]),
        extension(
            "fjpool.lab._native",
            ["lab"],
            # Every way to run a leaf must give the same bits, so no multiply-add is fused.
            flags=["-O3", "-ffp-contract=off"],
            libraries=["m"],
        ),
        extension(
            "fjpool._selftest",
            ["core", "test"],
            without=["csrc/test/main.c"],
            macros=[("FJ_TESTING", "1")],
        ),
    ]
)
