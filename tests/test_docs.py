"""The examples: every docstring's, and every block of README.rst."""

import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from pathlib import Path

import pytest

import fjpool
from support import WAIT, output

README = Path(__file__).resolve().parent.parent / "README.rst"


# --- docstrings ----------------------------------------------------------------------------------


def module_names():
    """fjpool and all modules in it, but for the command line and the C tests."""
    found = pkgutil.walk_packages(fjpool.__path__, "fjpool.", onerror=lambda name: None)
    others = {"fjpool.__main__", "fjpool._selftest"}
    return ["fjpool", *sorted({info.name for info in found} - others)]


def load(name):
    """The module; a test is skipped where a library that it connects fjpool to is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "fjpool":
            raise
        pytest.skip(f"{name} needs {error.name}")


def described(module):
    """(name, docstring) of everything that the module defines, getters of C types included."""
    seen = set()

    def visit(thing, name):
        if id(thing) in seen:
            return
        seen.add(id(thing))
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str):
            yield name, text
        if inspect.isclass(thing):
            for key, value in vars(thing).items():
                value = getattr(value, "__func__", value)
                if (
                    inspect.isroutine(value)
                    or inspect.isclass(value)
                    or isinstance(
                        value, (property, types.GetSetDescriptorType, types.MemberDescriptorType)
                    )
                ):
                    yield from visit(value, f"{name}.{key}")

    yield module.__name__, module.__doc__ or ""
    for key, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__:
            yield from visit(value, f"{module.__name__}.{key}")


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples_give_what_they_say(name):
    """Each runs on its own, from the import to the last line."""
    module = load(name)
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE),
    )
    failures = []
    for where, text in described(module):
        if ">>>" not in text:
            continue
        example = parser.get_doctest(
            text, vars(module).copy(), where, getattr(module, "__file__", None), 0
        )
        assert example.examples, f"{where}: its >>> are no examples"
        runner.run(example, out=failures.append)
    assert "".join(failures) == ""


def test_docstring_examples_are_found():
    """The search above misses none that can be seen in the source files."""
    found = {}
    for name in module_names():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        source = getattr(module, "__file__", None) or ""
        if source.endswith(".py"):
            prompts = sum(text.count(">>> ") for _, text in described(module))
            found[name] = prompts, Path(source).read_text(encoding="utf-8").count(">>> ")
    assert {name: pair for name, pair in found.items() if pair[0] < pair[1]} == {}


@pytest.mark.parametrize(
    "name", [name for name in fjpool.__all__ if inspect.isroutine(getattr(fjpool, name))]
)
def test_docstring_of_every_public_function_has_an_example(name):
    """What a newcomer meets first can be copied and run."""
    assert ">>> import fjpool" in getattr(fjpool, name).__doc__


@pytest.mark.parametrize(
    "name", [name for name in fjpool.__all__ if inspect.isclass(getattr(fjpool, name))]
)
def test_docstring_of_every_public_class_and_its_methods_exists(name):
    """help() has something to say about everything that is fjpool's own."""
    kind = getattr(fjpool, name)
    if not kind.__module__.startswith("fjpool"):
        return  # a name of the standard library's
    assert kind.__doc__
    for key, value in vars(kind).items():
        if not key.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
            assert value.__doc__, f"{name}.{key}"


# --- README.rst ----------------------------------------------------------------------------------


def blocks(language):
    """(line, text) of the code blocks of that language."""
    lines = README.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if re.fullmatch(rf"\s*\.\. code-block::\s+{language}\s*", line):
            indent, body = len(line) - len(line.lstrip()), []
            for following in lines[number:]:
                if following.strip() and len(following) - len(following.lstrip()) <= indent:
                    break
                body.append(following)
            text = textwrap.dedent("\n".join(body)).strip("\n")
            found.append((number, re.sub(r"\A(:.*\n)+\n*", "", text) + "\n"))
    return found


PYTHON_BLOCKS = blocks("python")


@pytest.mark.parametrize("line, code", PYTHON_BLOCKS, ids=[f"line-{line}" for line, _ in PYTHON_BLOCKS])
def test_readme_example_runs_and_prints_what_it_says(line, code):
    """Each block alone, as a script; ``print(...)  # x`` prints x."""
    for library in ("numba", "numpy", "scipy", "joblib", "dask", "trio"):
        if re.search(rf"^\s*(import|from) {library}\b", code, re.MULTILINE):
            pytest.importorskip(library)
    expected = re.findall(r"^\s*print\(.*\)  # (.+)$", code, re.MULTILINE)
    printed = output(code, preamble=False, timeout=4 * WAIT).splitlines()
    assert [text for text in printed if text in expected] == expected, printed


def test_readme_has_python_examples():
    """So that the test above is not an empty one."""
    assert len(PYTHON_BLOCKS) >= 5
    assert sum("  # " in code for _, code in PYTHON_BLOCKS) >= 3


def test_readme_has_exactly_two_commands_for_the_shell():
    """One installs and runs the comparison, one installs the test extra and runs every test."""
    assert [language for language in ("bash", "shell", "console") if blocks(language)] == []
    (_, first), (_, second) = blocks("sh")
    assert first.rstrip("\n").endswith("-m fjpool skew") and "[test]" not in first
    assert second.rstrip("\n").endswith("-m pytest") and "[test]" in second
    for command in (first, second):
        assert command.count("\n") == 1 and "pip install -e" in command
