"""All benchmarks and their report: ``python -m benchmarks [--full] [--folder FOLDER] [pytest's words]``.

Run it where nothing else runs. ``-k native`` and the like choose; what comes out is in FOLDER:
``benchmarks.json`` (pytest-benchmark's), ``report.txt`` and ``report.png``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Run the benchmarks and write a table and a chart of what they found.",
        epilog="Other words are for pytest: -k native, -x, a file.",
    )
    parser.add_argument("--full", action="store_true", help="published sizes instead of reduced ones")
    parser.add_argument("--folder", type=Path, default=Path(".benchmarks"), help="default: %(default)s")
    args, words = parser.parse_known_args()
    sys.path.insert(0, str(HERE))
    import report

    saved = args.folder.resolve() / "benchmarks.json"
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.unlink(missing_ok=True)
    files = [] if any(Path(word.split("::")[0]).exists() for word in words) else [str(HERE)]
    options = [f"--benchmark-json={saved}", *(["--full"] if args.full else [])]
    status = pytest.main(["-q", *options, *files, *words])
    if saved.exists() and saved.stat().st_size > 0:
        report.write(saved, args.folder)
        print(f"\nin {args.folder}: {', '.join(sorted(path.name for path in args.folder.iterdir()))}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
