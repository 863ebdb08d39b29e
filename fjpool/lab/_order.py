"""``python -m fjpool order``: in which order a worker runs what it forked and never joined."""

from __future__ import annotations

import argparse
import json
import threading
from typing import TYPE_CHECKING, Literal, NamedTuple

import fjpool

from ._arguments import add_command

if TYPE_CHECKING:
    from ._arguments import _Subparsers

TASKS = 6


class Order(NamedTuple):
    """The order in which the six tasks ran; ``str()`` gives one line each."""

    lifo: list[int]
    fifo: list[int]

    def __str__(self) -> str:
        return f"order=lifo  {self.lifo}\norder=fifo  {self.fifo}"


class Note(fjpool.RecursiveAction):
    """Writes its number down; the last one opens the latch."""

    def __init__(self, number: int, ran: list[int], all_ran: threading.Event) -> None:
        super().__init__()
        self.number, self.ran, self.all_ran = number, ran, all_ran

    def compute(self) -> None:
        self.ran.append(self.number)
        if len(self.ran) == TASKS:
            self.all_ran.set()


def _run_order(order: Literal["lifo", "fifo"]) -> list[int]:
    ran: list[int] = []
    all_ran = threading.Event()

    def fork_all() -> None:
        for number in range(1, TASKS + 1):
            Note(number, ran, all_ran).fork()

    with fjpool.ForkJoinPool(1, order=order) as pool:
        pool.submit(fork_all).result()  # the parent has ended; its children may still be queued
        all_ran.wait()
    return ran


def order() -> Order:
    """In which order one worker runs six tasks that it forked and never joined.

    Returns
    -------
    Order
        A named tuple: ``lifo`` (the default order, newest first, right for recursion) and
        ``fifo`` (oldest first, right for events).

    Examples
    --------
    >>> import fjpool.lab
    >>> print(fjpool.lab.order())
    order=lifo  [6, 5, 4, 3, 2, 1]
    order=fifo  [1, 2, 3, 4, 5, 6]
    """
    return Order(lifo=_run_order("lifo"), fifo=_run_order("fifo"))


def add_parser(subparsers: _Subparsers) -> None:
    add_command(
        subparsers,
        "order",
        run,
        "the order in which one worker runs six forked tasks that nobody joins, LIFO and FIFO",
        "python -m fjpool order",
    )


def run(args: argparse.Namespace) -> int:
    ran = order()
    print(json.dumps(ran._asdict()) if args.json else ran)
    return 0
