"""The types: stubs that agree with the code, and programs as two type checkers see them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fjpool
from support import WAIT
from test_docs import PYTHON_BLOCKS

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(fjpool.__file__).parent

pytestmark = [pytest.mark.once, pytest.mark.timeout(10 * WAIT)]


def run(*command, folder):
    """The finished process of a module, whose output has no colours."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if "COLOR" not in key},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=9 * WAIT,
    )


def mypy(folder, *arguments):
    """What mypy reports: by file name and line."""
    done = run("mypy", "--cache-dir", folder / "cache", "--no-pretty", *arguments, folder=folder)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    found = {}
    for file, line, text in re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE):
        found.setdefault(Path(file).name, {})[int(line)] = text
    assert bool(found) == bool(done.returncode), done.stdout
    return found


def pyright(folder, *paths):
    """What pyright reports: by file name and line."""
    config = {
        "include": [str(path) for path in paths],
        "typeCheckingMode": "standard",
        "useLibraryCodeForTypes": False,  # what has no types has none
        "reportMissingTypeStubs": False,
        "reportMissingModuleSource": False,
        "reportPrivateImportUsage": False,  # numba does not say what it exports
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    options = ("--outputjson", "--project", folder, "--pythonpath", sys.executable)
    done = run("basedpyright", *options, folder=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report, found = json.loads(done.stdout), {}
    assert report["summary"]["filesAnalyzed"] > 0, done.stdout
    for one in report["generalDiagnostics"]:
        if one["severity"] == "error":
            lines = found.setdefault(Path(one["file"]).name, {})
            lines[one["range"]["start"]["line"] + 1] = one["message"]
    return found


def check(checker, folder, *paths):
    """What a type checker reports about annotated programs."""
    return mypy(folder, "--strict", *paths) if checker == "mypy" else pyright(folder, *paths)


both = pytest.mark.parametrize("checker", ["mypy", "pyright"])


@both
def test_types_of_results_and_wrong_uses_are_known(checker, tmp_path):
    """All of typed_right.py is right, and of typed_wrong.py just the marked lines are wrong."""
    right, wrong = TESTS / "typed_right.py", TESTS / "typed_wrong.py"
    lines = wrong.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("  # wrong")}
    found = check(checker, tmp_path, right, wrong)
    assert found.pop(right.name, {}) == {}
    reports = found.pop(wrong.name, {})
    assert {lines[n - 1]: text for n, text in reports.items() if n not in marked} == {}
    assert [lines[n - 1] for n in sorted(marked - reports.keys())] == []
    assert found == {} and len(marked) > 50


@both
def test_readme_examples_have_no_type_errors(checker, tmp_path):
    """Each block is a module; the last one is wrong, so that silence means something."""
    for line, code in PYTHON_BLOCKS:
        (tmp_path / f"line_{line}.py").write_text(code, encoding="utf-8")
    (tmp_path / "wrong.py").write_text("import fjpool\nfjpool.map(abs)\n", encoding="utf-8")
    files = sorted(tmp_path.glob("*.py"))
    if checker == "mypy":
        found = mypy(tmp_path, "--check-untyped-defs", "--ignore-missing-imports", *files)
    else:
        found = pyright(tmp_path, *files)
    assert list(found.pop("wrong.py")) == [2]
    assert found == {}


@both
def test_package_has_no_type_errors(checker, tmp_path):
    """Every stub, and every module without one."""
    files = [
        file for file in sorted(PACKAGE.rglob("*.py*"))
        if file.suffix == ".pyi" or file.suffix == ".py" and not file.with_suffix(".pyi").exists()
    ]  # fmt: skip
    assert len(files) > 20
    assert check(checker, tmp_path, *files) == {}


def test_stubs_agree_with_the_code(tmp_path):
    """Names, arguments and defaults of all modules, as they are at run time."""
    done = run("mypy.stubtest", "fjpool", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"no issues found in (2[5-9]|[3-9]\d) modules", done.stdout), done.stdout
