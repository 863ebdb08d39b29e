"""The package as others get it: source distribution, wheel, and what a build may switch on."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from support import WAIT

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = sysconfig.get_path("include")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = pytest.mark.timeout(10 * WAIT)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="for Linux only")


def run(*command, folder, first_on_path=Path(sys.executable).parent, **env):
    """The output of a command that must succeed; the test's own settings do not reach it."""
    clean = {
        key: value for key, value in os.environ.items()
        if not key.startswith(("FJPOOL_", "PYTHON", "CFLAGS", "CIBW_"))
    }  # fmt: skip
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**clean, "PATH": f"{first_on_path}{os.pathsep}{os.environ['PATH']}", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=9 * WAIT,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(what, source, folder):
    """The file that the build backend makes of a source tree; an installer does no more."""
    code = f"import sys, setuptools.build_meta as b; b.build_{what}(sys.argv[1])"
    folder.mkdir()
    run(sys.executable, "-c", code, folder, folder=source, FJPOOL_WERROR="1")
    (made,) = folder.iterdir()
    return made


def source_files(*names):
    """What belongs to the project, without what builds and runs have left there."""
    found = set()
    for name in names:
        for path in [ROOT / name, *(ROOT / name).rglob("*")]:
            left = path.suffix in (".so", ".pyc", ".class") or "__pycache__" in path.parts
            if path.is_file() and not left:
                found.add(path.relative_to(ROOT).as_posix())
    return found


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    """A source distribution, from a copy: a build leaves files in its source tree."""
    folder = tmp_path_factory.mktemp("sdist")
    left = (
        ".git", ".venv*", ".*cache*", ".hyp*", "build", "dist", "*.egg-info", "*.so", "__pycache__",
    )  # fmt: skip
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*left))
    return build("sdist", folder / "source", folder / "dist")


@pytest.fixture(scope="session")
def wheel(sdist, tmp_path_factory):
    """A wheel, from what the source distribution holds and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    run("tar", "-xzf", sdist, folder=folder)
    return build("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder / "dist")


@pytest.fixture(scope="session")
def bare(wheel, tmp_path_factory):
    """The folder of an environment with the wheel, installed without an index, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", folder=folder)
    python = folder / "env" / "bin" / "python"
    options = ("--isolated", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, folder=folder)
    return folder / "env"


# --- the distributions ---------------------------------------------------------------------------


@pytest.mark.once
def test_sdist_holds_all_of_the_source(sdist):
    """Also the tests, the benchmarks and the script that checks a change."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = source_files(
        "csrc", "fjpool", "tests", "benchmarks", ".ci", "pyproject.toml", "setup.py",
        "MANIFEST.in", "README.rst", "LICENSE",
    )  # fmt: skip
    assert len(wanted) > 100 and "fjpool/py.typed" in wanted
    assert wanted - names == set()
    assert [name for name in names if name.endswith((".so", ".pyc", ".class"))] == []


@pytest.mark.once
def test_wheel_holds_the_package_and_its_types_only(wheel):
    """All modules, all stubs and py.typed, the three extensions, the C headers, and the licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    extensions = {f"fjpool/{name}{suffix}" for name in ("_core", "_selftest", "lab/_native")}
    about = {name for name in names if ".dist-info/" in name}
    headers = {f"fjpool/include/{name}" for name in ("fjpool.h", "fjpool_serial.h")}
    assert names - about == source_files("fjpool") | extensions | headers
    assert any(name.endswith("/licenses/LICENSE") for name in about)


@pytest.mark.once
def test_wheel_requires_no_other_package(wheel):
    """What it lists is for the tests."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(archive.read(name).decode())
    required = about.get_all("Requires-Dist")
    assert [line for line in required if not re.search(r"extra == ['\"]test['\"]", line)] == []
    assert about["Requires-Python"] == ">=3.10"


@pytest.mark.once
def test_wheel_works_where_nothing_else_is_installed(bare):
    """The command line, pools, futures, native leaves."""
    python = bare / "bin" / "python"
    packages = bare / "lib" / f"python{VERSION}" / "site-packages"
    assert all(path.name.startswith("fjpool") for path in packages.iterdir())
    assert "task ran on" in run(python, "-I", "-m", "fjpool", "info", folder=bare)
    code = """if True:
        import fjpool, fjpool.lab, fjpool.testing, sys
        print(fjpool.__file__)
        with fjpool.ForkJoinPool(2) as pool:
            print(list(pool.map(abs, [-1, 2])), pool.submit(pow, 2, 5).result())
            print(pool.parallel_reduce(fjpool.lab.primes, 100))
    """
    where, *printed = run(python, "-I", "-c", code, folder=bare).splitlines()
    assert Path(where).parent == packages / "fjpool"
    assert printed == ["[1, 2] 32", "25"]


@pytest.mark.once
def test_wheel_has_a_type_for_every_public_name(bare):
    """As pyright sees the package where it is installed, without those that two classes derive from."""
    found = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--verifytypes", "fjpool"],
        cwd=bare,
        env={**os.environ, "PATH": f"{bare / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=9 * WAIT,
    )
    report = json.loads(found.stdout)["typeCompleteness"]
    assert Path(report["pyTypedPath"]).is_relative_to(bare.resolve()), report["pyTypedPath"]
    symbols = {symbol["name"]: symbol for symbol in report["symbols"]}
    assert len(symbols) > 200
    bad = {n for n, s in symbols.items() if not s["isTypeKnown"] or s.get("isTypeAmbiguous")}
    foreign = "fjpool.joblib.FJPoolBackend", "fjpool.threadpoolctl.CommonPoolController"
    assert {name for name in bad if not name.startswith(foreign)} == set()


@pytest.mark.once
@on_linux
def test_wheel_is_consistent_with_a_manylinux_policy(wheel, tmp_path):
    """It needs of the system what every Linux of some age has; a repair only renames it."""
    if "musl" in sysconfig.get_config_var("EXT_SUFFIX"):
        pytest.skip("another C library")
    auditwheel = (sys.executable, "-m", "auditwheel")
    shown = " ".join(run(*auditwheel, "show", wheel, folder=tmp_path).split())
    consistent = r'is consistent with the following platform tag: "manylinux_\d+_\d+_'
    assert re.search(consistent, shown), shown
    run(*auditwheel, "repair", "--wheel-dir", tmp_path / "repaired", wheel, folder=tmp_path)
    (repaired,) = (tmp_path / "repaired").iterdir()
    assert "manylinux_" in repaired.name
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(repaired) as after:
        assert {name for name in after.namelist() if not name.endswith("/")} == {*before.namelist()}


# --- the configuration of the builds -------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize(
    "platform, tags",
    [
        ("linux", ["manylinux_x86_64", "manylinux_aarch64"]),
        ("macos", ["macosx_x86_64", "macosx_arm64"]),
        ("windows", []),
    ],
)
def test_cibuildwheel_builds_for_every_supported_interpreter(platform, tags, tmp_path):
    """Every CPython that the classifiers name, on what the package is made for."""
    pytest.importorskip("cibuildwheel")
    options = ("--print-build-identifiers", "--allow-empty", "--platform", platform)
    printed = run(sys.executable, "-m", "cibuildwheel", *options, ROOT, folder=tmp_path)
    classifiers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    minors = re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', classifiers)
    assert set(printed.split()) == {f"cp3{minor}-{tag}" for minor in minors for tag in tags}
    assert minors


MACROS = """
import json, runpy, setuptools
def setup(*, ext_modules, **others):
    print(json.dumps({extension.name: dict(extension.define_macros) for extension in ext_modules}))
setuptools.setup = setup
runpy.run_path("setup.py")
"""


def test_build_declares_free_threading_only_when_told_to():
    """All three extensions or none: one that does not would switch the GIL on for all."""
    for value, said in ("", False), ("0", False), ("1", True):
        printed = run(sys.executable, "-c", MACROS, folder=ROOT, FJPOOL_DECLARE_FREE_THREADED=value)
        declared = ["FJ_DECLARE_FREE_THREADED" in macros for macros in json.loads(printed).values()]
        assert declared == [said] * 3, value


headers_know = pytest.mark.skipif(
    sys.version_info < (3, 13), reason="older headers know of no build without a GIL"
)
FREE_THREADED = (
    "cc", "-std=c11", "-pthread", "-DPy_GIL_DISABLED=1", "-DFJ_TESTING=1",
    "-I", ROOT / "csrc" / "core", "-I", ROOT / "csrc" / "include", "-I", INCLUDE,
)  # fmt: skip


@headers_know
@pytest.mark.parametrize("folder", ["core", "py", "lab", "test"])
def test_code_compiles_clean_without_a_gil(folder, tmp_path):
    """Every C file, with the reference counts of such a build."""
    sources = sorted((ROOT / "csrc" / folder).glob("*.c"))
    assert len(sources) > 2
    flags = ("-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-c")
    run(*FREE_THREADED, *flags, *sources, folder=tmp_path)
    shared = [file.stem for file in tmp_path.iterdir() if b"_Py_DecRefShared" in file.read_bytes()]
    assert len(list(tmp_path.iterdir())) == len(sources)
    assert bool(shared) == (folder != "core"), shared


@headers_know
@pytest.mark.parametrize("folder", ["py", "lab", "test"])
def test_module_declares_free_threading_only_when_told_to(folder, tmp_path):
    """The slot is there with the macro of setup.py, and only with it."""
    slot = re.compile(r"\{\s*4\s*,\s*\(\(void \*\)1\)\s*\}")  # {Py_mod_gil, Py_MOD_GIL_NOT_USED}
    module = ROOT / "csrc" / folder / "module.c"
    for macros, said in ((), False), (("-DFJ_DECLARE_FREE_THREADED=1",), True):
        code = run(*FREE_THREADED, *macros, "-E", "-P", module, folder=tmp_path)
        assert bool(slot.search(code)) == said
