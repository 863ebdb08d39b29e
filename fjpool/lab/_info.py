"""``python -m fjpool info``: versions, CPUs, and what the common pool looks like here."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

import fjpool
from fjpool._cpus import usable_cpus

from ._arguments import add_command
from ._native import vector_isa

if TYPE_CHECKING:
    from ._arguments import _Subparsers


class Info(NamedTuple):
    """What `info` found; ``str()`` gives one line each."""

    fjpool: str
    python: str
    gil: bool
    os: str
    cpus: int
    cpus_decided_by: str
    vector_isa: str
    common_parallelism: int
    task_ran_on: str
    ran_on_worker: bool
    worker_is_daemon: bool | None

    def __str__(self) -> str:
        if self.ran_on_worker:
            worker = f"{self.task_ran_on} / {self.worker_is_daemon}"
            place = f"{self.task_ran_on}, a worker of the common pool"
        else:
            worker = "none"
            place = f"{self.task_ran_on}, the thread that waited for it"
        lines = {
            "fjpool": self.fjpool,
            "python": self.python + ("" if self.gil else ", without a GIL"),
            "os": self.os,
            "usable CPUs": f"{self.cpus} (decided by: {self.cpus_decided_by})",
            "vector instructions": self.vector_isa,
            "common parallelism": self.common_parallelism,
            "worker name / daemon": worker,
            "submitted task ran on": place,
        }
        return "\n".join(f"{label:<21} = {value}" for label, value in lines.items())


def info() -> Info:
    """Versions, CPUs, and what the common pool looks like on this machine.

    Submits one task to the common pool to see where it runs.

    Returns
    -------
    Info
        A named tuple; ``print`` shows it line by line.

    Notes
    -----
    A common pool of parallelism 0 has no workers: whoever waits for a task runs it. Then
    ``ran_on_worker`` is False and ``worker_is_daemon`` is None.

    Examples
    --------
    >>> import fjpool.lab
    >>> fjpool.lab.info().common_parallelism == fjpool.common_pool().parallelism
    True
    """
    cpus = usable_cpus()
    pool = fjpool.common_pool()
    thread = pool.submit(threading.current_thread).result()
    on_worker = thread is not threading.current_thread()
    return Info(
        fjpool=fjpool.__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        gil=getattr(sys, "_is_gil_enabled", lambda: True)(),
        os=platform.platform(),
        cpus=cpus.count,
        cpus_decided_by=cpus.source,
        vector_isa=vector_isa(),
        common_parallelism=pool.parallelism,
        task_ran_on=thread.name,
        ran_on_worker=on_worker,
        worker_is_daemon=thread.daemon if on_worker else None,
    )


def machine() -> dict[str, object]:
    """The facts that belong beside every measured figure, for JSON."""
    cpus = usable_cpus()
    return {
        "fjpool": fjpool.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "os": platform.platform(),
        "cpus": cpus.count,
        "cpus_decided_by": cpus.source,
        "isa": vector_isa(),
    }


def add_parser(subparsers: _Subparsers) -> None:
    add_command(
        subparsers,
        "info",
        run,
        "versions, CPUs and which limit decided, the common pool and where its tasks run",
        "python -m fjpool info --json",
    )


def run(args: argparse.Namespace) -> int:
    found = info()
    print(json.dumps(found._asdict(), indent=2) if args.json else found)
    return 0
