"""A table and a chart of what the benchmarks found: ``python benchmarks/report.py SAVED.json [FOLDER]``.

The JSON is pytest-benchmark's (``--benchmark-json``). ``report.txt`` lists every figure with its target;
``report.png`` shows the ratios, as far as matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Figure:
    """One line of the report."""

    file: str  # the benchmark's, as a heading
    name: str
    value: float
    at_least: float | None
    at_most: float | None

    @property
    def is_ratio(self) -> bool:
        return " / " in self.name

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None without one."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    @property
    def target(self) -> str:
        words = []
        if self.at_least is not None:
            words.append(f">= {self.at_least:g}")
        if self.at_most is not None:
            words.append(f"<= {self.at_most:g}")
        return ", ".join(words)


def read(saved: dict) -> tuple[list[Figure], list[tuple[str, str, str]]]:
    """The figures, and (file, peer, reason) of those that were missing."""
    figures, missing = [], []
    for benchmark in saved["benchmarks"]:
        file = Path(benchmark["fullname"].split("::")[0]).stem.removeprefix("test_")
        info = benchmark["extra_info"]
        targets = info.get("targets", {})
        for name, value in info.items():
            if name == "targets":
                continue
            if isinstance(value, str):
                missing.append((file, name, value.removeprefix("missing: ")))
            else:
                target = targets.get(name, {})
                figures.append(Figure(file, name, value, target.get("at_least"), target.get("at_most")))
    return figures, missing


def heading(saved: dict) -> str:
    machine = saved["machine_info"]
    cpu = machine.get("cpu", {})
    commit = saved.get("commit_info", {}).get("id") or "unknown"
    return (
        f"{machine.get('python_implementation')} {machine.get('python_version')}, "
        f"{cpu.get('count', '?')} CPUs, {cpu.get('brand_raw', machine.get('machine', '?'))}; "
        f"commit {commit[:10]}; {saved.get('datetime', '')[:16]}"
    )


def table(saved: dict) -> str:
    """Every figure, file by file, and at the end how many targets were reached."""
    figures, missing = read(saved)
    width = max([len(figure.name) for figure in figures], default=0)
    lines, file = [heading(saved)], None
    for figure in figures:
        if figure.file != file:
            file = figure.file
            lines += ["", file, "-" * len(file)]
        judged = "" if figure.met is None else "yes" if figure.met else "NO"
        lines.append(f"{figure.name:<{width}}  {figure.value:>10.4g}  {figure.target:<14} {judged}".rstrip())
    if missing:
        lines += ["", "missing", "-------", *(f"{file}: {peer}: {reason}" for file, peer, reason in missing)]
    judged_ones = [figure for figure in figures if figure.met is not None]
    reached = sum(1 for figure in judged_ones if figure.met)
    lines += ["", f"{reached} of {len(judged_ones)} targets reached; missing peers: {len(missing)}"]
    return "\n".join(lines) + "\n"


COLOURS = {True: "tab:green", False: "tab:red", None: "tab:blue"}
LABELS = {True: "target reached", False: "target missed", None: "no target"}


def chart(saved: dict, path: Path) -> None:
    """The ratios on a logarithmic axis: a dot each, and a bar where the target is.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    ratios = [figure for figure in read(saved)[0] if figure.is_ratio and figure.value > 0]
    rows: list[Figure | str] = []  # a heading before each file's
    for figure in ratios:
        if not any(isinstance(row, Figure) and row.file == figure.file for row in rows):
            rows.append(figure.file)
        rows.append(figure)
    canvas = Canvas(figsize=(12, 1.6 + 0.21 * len(rows)), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots()
    labelled = set()
    for y, row in enumerate(rows):
        if isinstance(row, str):
            axes.axhspan(y - 0.5, y + 0.5, color="0.93", zorder=0)
            continue
        label = None if row.met in labelled else LABELS[row.met]
        labelled.add(row.met)
        axes.plot([1, row.value], [y, y], color=COLOURS[row.met], linewidth=1, alpha=0.5)
        axes.plot(row.value, y, "o", color=COLOURS[row.met], markersize=5, label=label)
        for limit in {row.at_least, row.at_most} - {None}:
            axes.plot(limit, y, "|", color="black", markersize=11, markeredgewidth=1.5)
        axes.annotate(
            f"{row.value:.3g}", (1, y), xycoords=("axes fraction", "data"), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=7,
        )
    axes.axvline(1, color="0.4", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, position: f"{x:g}")
    axes.grid(axis="x", color="0.9", zorder=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [row if isinstance(row, str) else row.name for row in rows], fontsize=7)
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if isinstance(row, str) else "normal")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", top=True, labeltop=True, labelsize=8)
    axes.set_title(f"Ratios; the bar | is the target\n{heading(saved)}", fontsize=9)
    if labelled:
        canvas.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    canvas.savefig(path, dpi=110)


def write(saved_json: Path, folder: Path) -> None:
    """report.txt and report.png in `folder`; prints the table."""
    saved = json.loads(saved_json.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    text = table(saved)
    (folder / "report.txt").write_text(text, encoding="utf-8")
    print(text, end="")
    try:
        chart(saved, folder / "report.png")
    except ImportError as error:
        print(f"no chart: {error}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="A table and a chart of saved benchmarks.")
    parser.add_argument("json", type=Path, help="what pytest --benchmark-json=... has saved")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(), help="where the report goes (default: .)")
    args = parser.parse_args()
    write(args.json, args.folder)


if __name__ == "__main__":
    main()
