"""fjpool.testing: the test that would have caught it, on code that passes and code that does not."""

import concurrent.futures
import doctest
import functools
import threading
from pathlib import Path

import pytest

import fjpool
import fjpool.testing
from fjpool.testing import assert_scales
from support import Boom, boom, eventually, output, thread_count


def plain(downstream):
    """Blocks, and tells nobody."""
    downstream()


@fjpool.managed_block()
def managed(downstream):
    """Says that it blocks."""
    downstream()


def bounded(limiter, downstream):
    """The good example: so many at a time, and the pool is told."""
    with limiter:
        managed(downstream)


# --- what passes -------------------------------------------------------------------------------


def test_bounded_announced_calls_pass():
    """40 calls through a limiter of 50 places."""
    assert assert_scales(functools.partial(bounded, fjpool.CapacityLimiter(50))) is None


def test_announced_calls_pass():
    """Or any number of them, as long as the pool knows."""
    assert_scales(managed, 20)


def test_a_downstream_that_announces_itself_passes():
    """A client that waits in fjpool's own primitives needs no more."""
    assert_scales(plain, 20, sleep=fjpool.sleep)


def test_waiting_on_the_caller_passes():
    """The other good example: the calls run on an executor of their own, whose futures are awaited."""
    with concurrent.futures.ThreadPoolExecutor(20) as executor:

        @fjpool.managed_block()
        def elsewhere(downstream):
            executor.submit(downstream).result()

        assert_scales(elsewhere, 20)


def test_more_calls_than_threads_pass_when_they_are_bounded():
    """300 calls, 50 at a time, take six turns; that most of them wait for theirs is no fault."""
    assert_scales(functools.partial(bounded, fjpool.CapacityLimiter(50)), 300, at_once=50)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell")
def test_blocking_auto_lets_the_pool_find_out():
    """What nobody announces passes where the program relies on detection, and says so."""
    assert_scales(plain, 20, wait=0.5, blocking="auto")


# --- what fails --------------------------------------------------------------------------------


def explanation(*args, **kwargs):
    """The message of the AssertionError, in one line, and the dump below it."""
    with pytest.raises(AssertionError) as caught:
        assert_scales(*args, **kwargs)
    words, _, dump = str(caught.value).partition("\n\nWhat the pool was doing:\n")
    assert "\n" not in words
    return words, dump


def test_unannounced_blocking_fails_with_an_explanation():
    """What was measured, what to do about it, and what the one worker was doing."""
    words, dump = explanation(plain, 20, wait=0.1)
    assert words.startswith("20 calls of plain at once take longer than one: ")
    assert "with fjpool.managed_block():" in words
    assert f": plain ({__file__}:" in dump
    assert "submissions" in dump


@pytest.mark.timeout(60)
def test_a_verdict_does_not_wait_for_late_calls():
    """4,000 calls one after another would take 200 s."""
    words, _ = explanation(plain, 4_000, wait=0.05)
    assert words.startswith("4000 calls of plain at once take longer")


def test_a_hidden_limit_fails_and_is_named():
    """Calls that wait for each other take turns; whether that is on purpose, the caller must say."""
    limited = functools.partial(bounded, fjpool.CapacityLimiter(5))
    words, _ = explanation(limited, 40, wait=0.1)
    assert "At most 5 were inside the downstream at a time" in words
    assert "pass at_once=5" in words
    assert_scales(limited, 40, wait=0.1, at_once=5)


def test_more_inside_than_the_downstream_takes_fails():
    """at_once= is a promise about the code, too."""
    words, _ = explanation(managed, 20, at_once=10)
    assert words.endswith("calls of managed were inside the downstream at a time, which takes 10")


def test_taking_all_threads_fails():
    """300 calls that wait at the same time, though the pool carries on."""
    words, dump = explanation(managed, 300, wait=1)
    assert words.startswith("300 calls of managed at once took all 257 threads")
    assert "CapacityLimiter" in words
    assert dump.count("managed-blocked") > 100


def test_thread_limit_exceeded_fails():
    """The same where the program's pools raise."""
    words, dump = explanation(managed, 300, wait=1, saturate="raise")
    assert "Thread limit exceeded replacing blocked worker" in words
    assert "CapacityLimiter" in words
    assert dump.count("managed-blocked") > 100


def test_a_predicate_decides_at_the_limit():
    """saturate= takes whatever the program's pools have."""
    asked = []

    def refuse(pool):
        asked.append(pool.max_workers)
        return False

    words, _ = explanation(managed, 300, wait=1, saturate=refuse)
    assert "Thread limit exceeded" in words
    assert set(asked) == {257}


def test_the_thread_limit_is_found_in_what_wraps_it():
    """Code under test may raise its own error from it, or while handling it."""

    def wrap(cause):
        try:
            try:
                raise fjpool.RejectedExecutionError("Thread limit exceeded replacing blocked worker")
            except fjpool.RejectedExecutionError as error:
                raise Boom("lookup failed") from (error if cause else None)
        except Boom as error:
            return error

    assert fjpool.testing._is_thread_limit(wrap(True))
    assert fjpool.testing._is_thread_limit(wrap(False))
    assert not fjpool.testing._is_thread_limit(Boom("lookup failed"))


def test_code_that_never_calls_the_downstream_fails():
    """A test that tests nothing is no test."""
    words, _ = explanation(lambda downstream: None)
    assert "did not call the downstream" in words


def test_an_error_of_the_code_is_raised():
    """The very object, whether it comes at once or only among many calls."""
    with pytest.raises(Boom):
        assert_scales(boom)
    calls = []

    def third_time(downstream):
        downstream()
        calls.append(1)
        if len(calls) > 2:
            raise Boom

    with pytest.raises(Boom):
        assert_scales(third_time, 5, wait=0.05)


# --- arguments and manners ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, error, name",
    [
        ({"fn": 5}, TypeError, "fn"),
        ({"sleep": 5}, TypeError, "sleep"),
        ({"calls": 4}, ValueError, "calls"),
        ({"calls": 40.0}, TypeError, "calls"),
        ({"wait": 0.01}, ValueError, "wait"),
        ({"wait": 31}, ValueError, "wait"),
        ({"wait": float("nan")}, ValueError, "wait"),
        ({"wait": "1"}, TypeError, "wait"),
        ({"at_once": 2}, ValueError, "at_once"),
        ({"at_once": 2.5}, TypeError, "at_once"),
        ({"blocking": "never"}, ValueError, "blocking"),
        ({"saturate": "never"}, ValueError, "saturate"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, name):
    """Before anything runs."""
    with pytest.raises(error, match=name):
        assert_scales(**{"fn": plain, **arguments})


def test_no_thread_is_left():
    """Whatever the verdict, the pool has gone, and what still ran with it."""
    before = thread_count()
    assert_scales(managed, 5, wait=0.05)
    with pytest.raises(AssertionError):
        assert_scales(plain, 20, wait=0.05)
    eventually(lambda: thread_count() <= before)


def test_the_downstream_takes_any_arguments():
    """It stands for whatever is called."""
    seen = []

    def ask(downstream):
        with fjpool.managed_block():
            seen.append(downstream("EUR/USD", timeout=3))

    assert_scales(ask, 5, wait=0.05)
    assert set(seen) == {None}


def test_the_calls_run_in_their_own_pool():
    """What they submit goes there, not to the common pool."""
    pools = set()
    lock = threading.Lock()

    def look(downstream):
        with lock:
            pools.add(fjpool.current_pool().parallelism)
        fjpool.submit(managed, downstream).result()

    assert_scales(look, 5, wait=0.05)
    assert pools == {1}


def test_docstring_examples_run():
    """As they stand."""
    assert doctest.testmod(fjpool.testing).failed == 0


def test_import_leaves_testing_alone():
    """Programs do not pay for their tests."""
    assert output("print('fjpool.testing' in sys.modules)") == "False\n"
