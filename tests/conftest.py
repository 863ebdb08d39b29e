"""What all tests share."""

import signal

import pytest
from hypothesis import settings

import fjpool
from support import ORDERS, PARALLELISMS, WAIT

# No deadline: a property test may meet a busy machine. Random on every run, also where CI is set
# in the environment (hypothesis would repeat the same examples there); a failure prints the line
# that reproduces it.
settings.register_profile("fjpool", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("fjpool")


# A shell that starts the tests in the background lets them, and their children, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def make_pool():
    """A function like ForkJoinPool; its pools end with the test, whatever that left in them.

    A body that waits for a latch is not stood in for, unless the test asks for blocking="auto":
    what a test has queued behind it stays queued.
    """
    pools = []

    def make(*args, blocking="announced", **kwargs):
        pools.append(fjpool.ForkJoinPool(*args, blocking=blocking, **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.shutdown_now()
    for pool in pools:
        assert pool.await_termination(WAIT), f"{pool!r} did not end"


@pytest.fixture
def pool1(make_pool):
    """A pool with one worker."""
    return make_pool(1)


@pytest.fixture
def pool2(make_pool):
    """A pool with two workers."""
    return make_pool(2)


@pytest.fixture(
    params=[(parallelism, order) for order in ORDERS for parallelism in PARALLELISMS],
    ids=lambda param: f"{param[1]}-{param[0]}",
)
def pool(request, make_pool):
    """A pool of each parallelism and order."""
    parallelism, order = request.param
    return make_pool(parallelism, order=order)


@pytest.fixture(params=ORDERS)
def single(request, make_pool):
    """A pool with one worker, of each order."""
    return make_pool(1, order=request.param)
