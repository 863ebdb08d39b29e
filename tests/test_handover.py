"""Who runs Python when: trivial tasks stay together, long ones and those without the GIL spread."""

import resource
import threading

import fjpool
import pytest
from fjpool.lab import spin_block

from support import WAIT, held


def trivial():
    pass


def switches():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def submit_and_take(pool, n):
    for future in [pool.submit(trivial) for _ in range(n)]:
        future.result()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_no_condition_is_made_for_submit_and_result(make_pool, monkeypatch, parallelism):
    """A future has a condition, a list of waiters or of callbacks only once somebody looks."""
    pool, made = make_pool(parallelism), []
    with held(pool, parallelism):
        pass  # now every worker's Thread object is there; it has a condition of its own
    original = threading.Condition
    monkeypatch.setattr(threading, "Condition", lambda *args: made.append(1) or original(*args))
    submit_and_take(pool, 100_000)
    assert made == []
    assert pool.submit(trivial)._condition is not None
    assert made == [1]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_trivial_tasks_stay_on_a_thread(make_pool, parallelism):
    """10,000 tasks cost a handful of context switches, not one or two each."""
    pool = make_pool(parallelism)
    submit_and_take(pool, 100)
    before = switches()
    submit_and_take(pool, 10_000)
    assert switches() - before < 1_000


def test_a_task_behind_a_spinning_one_runs(pool2):
    """Python code that never lets go of a worker holds up the other one no longer than a switch."""
    stop = False

    def spin():
        while not stop:
            pass

    def end():
        nonlocal stop
        stop = True

    spinning = pool2.submit(spin)
    pool2.submit(end).result(WAIT)
    assert spinning.result(WAIT) is None


@pytest.mark.parametrize("through", ["submit", "map"])
def test_tasks_that_release_the_gil_use_both_workers(pool2, through):
    """Of eight native calls two run at a time."""
    lock, inside, peak = threading.Lock(), 0, 0

    def call(_):
        nonlocal inside, peak
        with lock:
            inside += 1
            peak = max(peak, inside)
        spin_block(20_000_000)
        with lock:
            inside -= 1

    if through == "map":
        list(pool2.map(call, range(8), timeout=WAIT))
    else:
        fjpool.wait([pool2.submit(call, i) for i in range(8)], timeout=WAIT)
    assert peak == 2
