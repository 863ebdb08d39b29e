"""What a task inherits: context variables, and what NumPy and decimal keep in them.

Capture, isolation and thread-locals are in test_tasks.py (``test_context_...``,
``test_thread_locals_...``).
"""

import contextvars
import decimal
import operator
import threading
from decimal import Decimal

import numpy
import pytest

import fjpool
from support import WAIT, Boom, Held, boom, reach

variable = contextvars.ContextVar("variable", default="default")


class Third(fjpool.RecursiveTask):
    """A task that computes in whatever decimal context it finds."""

    def compute(self):
        return Decimal(1) / 3


def third(*_):
    return Decimal(1) / 3


WAYS = {
    "submit": lambda pool: pool.submit(third).result(WAIT),
    "task": lambda pool: pool.invoke(Third()),
    "map": lambda pool: list(pool.map(third, range(8), chunksize=1))[-1],
    "map with a buffer": lambda pool: list(pool.map(third, range(8), buffersize=2))[-1],
    "fork": lambda pool: pool.invoke(lambda: Third().fork().join()),
    "leaf": lambda pool: pool.parallel_reduce(third, 8, chunksize=1, combine=min),
}


@pytest.mark.parametrize("way", WAYS)
def test_decimal_context_follows(pool2, way):
    """A task computes with the precision of whoever submitted it."""
    with decimal.localcontext() as context:
        context.prec = 50
        assert WAYS[way](pool2) == third()
        assert len(str(WAYS[way](pool2))) == 52


@pytest.mark.parametrize("combine", [operator.add, lambda a, b: a + b], ids=["operator", "function"])
def test_decimal_context_follows_into_combine(make_pool, combine):
    """Sums are rounded as the caller would round them, whoever adds."""
    with decimal.localcontext() as context:
        context.prec = 50
        for pool in make_pool(1), make_pool(4), fjpool.common_pool():
            assert pool.parallel_reduce(third, 8, chunksize=1, combine=combine) == 8 * third()
            assert pool.reduce(combine, [third()] * 8, chunksize=1) == 8 * third()


def test_decimal_context_changes_do_not_leak(single):
    """A task that sets another decimal context sets it for itself."""
    precision = decimal.getcontext().prec

    def change():
        decimal.setcontext(decimal.Context(prec=5))

    single.submit(change).result(WAIT)
    assert single.submit(lambda: decimal.getcontext().prec).result(WAIT) == precision
    assert single.invoke(lambda: fjpool.task(change).fork().join() or decimal.getcontext().prec) == precision
    assert decimal.getcontext().prec == precision


@pytest.mark.skipif(int(numpy.__version__.split(".")[0]) < 2, reason="errstate is per thread before NumPy 2")
def test_numpy_errstate_follows(pool2):
    """Into tasks, leaves and maps; after the block others divide as before."""
    zero = numpy.zeros(1)

    def divide(*_):
        return (1 / zero)[0]

    with numpy.errstate(divide="raise"):
        for way in (
            lambda: pool2.submit(divide).result(WAIT),
            lambda: list(pool2.map(divide, range(3))),
            lambda: pool2.parallel_for(divide, 3, chunksize=1),
        ):
            with pytest.raises(FloatingPointError):
                way()
    with numpy.errstate(divide="ignore"):
        assert pool2.submit(divide).result(WAIT) == numpy.inf


@pytest.mark.parametrize("end", [None, boom], ids=["returns", "raises"])
def test_callbacks_run_in_the_context_of_the_task(single, end):
    """They see what the task saw and set, and change nobody else's variables."""
    seen, called = [], threading.Event()
    body = Held()

    def task():
        reach(body.release)
        variable.set("by the task")
        if end is not None:
            end()

    def callback(_):
        seen.append(variable.get())
        variable.set("by the callback")
        called.set()

    variable.set("submitted")
    future = single.submit(task)
    future.add_done_callback(callback)
    body.release.set()
    reach(called)
    assert seen == ["by the task"]
    assert single.submit(variable.get).result(WAIT) == "submitted"
    assert variable.get() == "submitted"
    assert isinstance(future.exception(WAIT), (Boom, type(None)))


def test_thread_locals_of_workers_are_apart(make_pool):
    """Each worker keeps its own value from task to task, and never sees another's."""
    pool, local, meet = make_pool(2), threading.local(), threading.Barrier(2)

    def remember(_):
        reach(meet)  # so both workers take part
        name = threading.current_thread().name
        before, local.name = getattr(local, "name", name), name
        return before == name

    assert all(pool.map(remember, range(40), chunksize=1))
