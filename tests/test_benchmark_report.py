"""benchmarks/report.py: what the table and the chart say of saved benchmarks."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parent.parent / "benchmarks" / "report.py"


@pytest.fixture(scope="module")
def report():
    spec = importlib.util.spec_from_file_location("report", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["report"] = module
    spec.loader.exec_module(module)
    return module


SAVED = {
    "machine_info": {"python_implementation": "CPython", "python_version": "3.11.7", "cpu": {"count": 2}},
    "commit_info": {"id": "0123456789abcdef"},
    "datetime": "2026-01-02T03:04:05",
    "benchmarks": [
        {
            "fullname": "benchmarks/test_native.py::test_one",
            "extra_info": {
                "twin / ours": 0.97,
                "time on 64 / on 2": 1.5,
                "twin: ms": 12.5,
                "Java": "missing: no JDK found",
                "targets": {
                    "twin / ours": {"at_least": 0.95, "at_most": None},
                    "time on 64 / on 2": {"at_least": None, "at_most": 1.25},
                    "twin: ms": {"at_least": None, "at_most": None},
                },
            },
        },
        {"fullname": "benchmarks/test_old.py::test_without_targets", "extra_info": {"a / b": 2}},
        {"fullname": "benchmarks/test_old.py::test_without_figures", "extra_info": {}},
    ],
}


def test_table_lists_figures_targets_and_what_was_missing(report):
    lines = report.table(SAVED).splitlines()
    assert lines == [
        "CPython 3.11.7, 2 CPUs, ?; commit 0123456789; 2026-01-02T03:04",
        "",
        "native",
        "------",
        "twin / ours              0.97  >= 0.95        yes",
        "time on 64 / on 2         1.5  <= 1.25        NO",
        "twin: ms                 12.5",
        "",
        "old",
        "---",
        "a / b                       2",
        "",
        "missing",
        "-------",
        "native: Java: no JDK found",
        "",
        "1 of 2 targets reached; missing peers: 1",
    ]


def test_report_is_written(report, tmp_path, capsys):
    """The table always, the chart where there is matplotlib."""
    (tmp_path / "saved.json").write_text(json.dumps(SAVED))
    report.write(tmp_path / "saved.json", tmp_path / "out")
    printed = capsys.readouterr()
    assert (tmp_path / "out" / "report.txt").read_text() == printed.out == report.table(SAVED)
    if importlib.util.find_spec("matplotlib") is None:
        assert printed.err == "no chart: No module named 'matplotlib'\n"
    else:
        assert (tmp_path / "out" / "report.png").read_bytes().startswith(b"\x89PNG")


def test_report_of_nothing_is_empty(report):
    assert report.table({**SAVED, "benchmarks": []}).endswith("\n0 of 0 targets reached; missing peers: 0\n")
