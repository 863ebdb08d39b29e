"""map, starmap, reduce, parallel_reduce, parallel_for: equal to the sequential result, whatever the split."""

import functools
import itertools
import operator
import os
import random
import threading
import weakref

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import fjpool
from support import ORDERS, WAIT, Boom, boom, eventually, held, output, reach, thread_name

INT64 = 2**63


@pytest.fixture(scope="module")
def pools():
    """Pools by parallelism and order, for property tests: they are used again and again."""
    made = {
        (parallelism, order): fjpool.ForkJoinPool(parallelism, order=order)
        for parallelism in (1, 2, 3, 5)
        for order in ORDERS
    }
    yield made
    for pool in made.values():
        pool.shutdown()


KINDS = st.tuples(st.sampled_from((1, 2, 3, 5)), st.sampled_from(ORDERS))
CHUNKS = st.one_of(st.none(), st.integers(1, 70), st.sampled_from([10**6, INT64 - 1, 2**70]))
LENGTHS = st.integers(0, 300)


def spans(lo, hi):
    """A leaf whose values, added, are the list of all pieces in order."""
    return [(lo, hi)]


def assert_tiles(pieces, start, stop, chunksize):
    """The pieces lie end to end from start to stop, none empty, none longer than asked for."""
    assert [lo for lo, _ in pieces] == [start, *(hi for _, hi in pieces[:-1])]
    assert pieces[-1][1] == stop
    assert all(0 < hi - lo <= (chunksize or INT64) for lo, hi in pieces)


# --- equal to the sequential result --------------------------------------------------------------


@given(kind=KINDS, items=st.lists(st.integers(), max_size=200), chunksize=CHUNKS)
def test_map_equals_the_builtin(pools, kind, items, chunksize):
    """Same results in the same order, for any length, chunk size, worker count and order."""
    results = pools[kind].map(lambda x: (x, x * x), items, chunksize=chunksize or "auto")
    assert list(results) == list(map(lambda x: (x, x * x), items))


@given(kind=KINDS, lengths=st.lists(LENGTHS, min_size=1, max_size=4), chunksize=CHUNKS)
def test_map_of_several_iterables_ends_with_the_shortest(pools, kind, lengths, chunksize):
    """As the builtin map; any iterable will do."""
    iterables = [iter(range(length)) for length in lengths]
    results = pools[kind].map(lambda *args: args, *iterables, chunksize=chunksize or "auto")
    assert list(results) == list(zip(*map(range, lengths)))


@given(kind=KINDS, pairs=st.lists(st.tuples(st.integers(), st.integers())), chunksize=CHUNKS)
def test_starmap_equals_the_one_of_itertools(pools, kind, pairs, chunksize):
    """Each item is unpacked into arguments."""
    results = pools[kind].starmap(operator.sub, pairs, chunksize=chunksize or "auto")
    assert list(results) == list(itertools.starmap(operator.sub, pairs))


@given(
    kind=KINDS, words=st.lists(st.text(max_size=3), max_size=200), chunksize=CHUNKS, initial=st.text()
)
def test_reduce_keeps_the_order(pools, kind, words, chunksize, initial):
    """An associative function that does not commute gives the sequential result."""
    pool = pools[kind]
    assert pool.reduce(operator.add, words, initial, chunksize=chunksize) == initial + "".join(words)
    if words:
        assert pool.reduce(operator.add, iter(words), chunksize=chunksize) == "".join(words)


@given(kind=KINDS, numbers=st.lists(st.integers(), min_size=1, max_size=200), chunksize=CHUNKS)
def test_reduce_equals_the_one_of_functools(pools, kind, numbers, chunksize):
    """For functions in C and in Python, known to the pool or not."""
    for function in (operator.add, operator.mul, min, max, operator.xor, lambda a, b: max(a, b) - 0):
        sequential = functools.reduce(function, numbers)
        assert pools[kind].reduce(function, numbers, chunksize=chunksize) == sequential


@given(
    kind=KINDS,
    start=st.one_of(st.integers(-500, 500), st.sampled_from([-INT64, INT64 - 400])),
    length=st.integers(1, 300),
    chunksize=CHUNKS,
)
def test_parallel_reduce_visits_each_position_once_in_order(pools, kind, start, length, chunksize):
    """The pieces tile the range, and their values are combined from left to right."""
    pieces = pools[kind].parallel_reduce(spans, start, start + length, chunksize=chunksize)
    assert_tiles(pieces, start, start + length, chunksize)


@given(kind=KINDS, length=st.integers(1, 300), chunksize=CHUNKS)
def test_parallel_for_visits_each_position_once(pools, kind, length, chunksize):
    """Whatever the split: every position is in one piece."""
    visits, pieces = [0] * length, []

    def body(lo, hi):
        pieces.append((lo, hi))
        for i in range(lo, hi):
            visits[i] += 1

    assert pools[kind].parallel_for(body, length, chunksize=chunksize) is None
    assert visits == [1] * length
    assert_tiles(sorted(pieces), 0, length, chunksize)


@given(kind=KINDS, length=LENGTHS, chunksize=CHUNKS, initial=st.integers())
def test_parallel_reduce_equals_the_sum(pools, kind, length, chunksize, initial):
    """With an initial value also for an empty range."""
    total = pools[kind].parallel_reduce(
        lambda lo, hi: sum(i * i for i in range(lo, hi)), length, chunksize=chunksize, initial=initial
    )
    assert total == initial + sum(i * i for i in range(length))


@given(length=st.integers(1, 400), chunksize=CHUNKS, seed=st.integers(0, 2**32))
@hypothesis_settings(max_examples=50)
def test_floating_point_sums_have_the_same_bits_for_every_pool(pools, length, chunksize, seed):
    """The tree depends on the range and the chunk size alone, and so does a rounded result."""
    numbers = [random.Random(seed).uniform(-1, 1) * 10.0 ** (i % 17) for i in range(length)]

    def leaf(lo, hi):
        return functools.reduce(operator.add, numbers[lo:hi])

    sums = {pool.parallel_reduce(leaf, length, chunksize=chunksize).hex() for pool in pools.values()}
    sums |= {pool.reduce(operator.add, numbers, chunksize=chunksize).hex() for pool in pools.values()}
    assert len(sums) == 1


@pytest.mark.parametrize("chunksize", [None, 1, 7, 1000])
def test_parallel_reduce_gives_the_same_bits_for_every_worker_count(make_pool, chunksize):
    """Also for a long sum, with pools of up to seven workers."""

    def leaf(lo, hi):
        total = 0.0
        for i in range(lo, hi):
            total += 1.0 / (i + 1) ** 1.5
        return total

    sums = {
        make_pool(p).parallel_reduce(leaf, 10_007, chunksize=chunksize).hex() for p in (1, 2, 3, 4, 7)
    }
    assert len(sums) == 1


def test_pieces_depend_on_range_and_chunksize_alone(pools):
    """By default a range is cut into some hundreds of pieces, whoever works on it."""
    for n in (1, 255, 256, 1_000, 100_000):
        cuts = {tuple(pool.parallel_reduce(spans, n)) for pool in pools.values()}
        assert len(cuts) == 1
        assert len(cuts.pop()) <= 512


def test_numpy_arrays_come_out_as_a_loop_would_leave_them(pools):
    """Leaves that write disjoint parts of one array, handed over with args=."""
    numpy = pytest.importorskip("numpy")
    x = numpy.arange(10_000.0)

    def body(lo, hi, x, out):
        numpy.sqrt(x[lo:hi], out=out[lo:hi])

    for pool in pools.values():
        out = numpy.zeros_like(x)
        pool.parallel_for(body, len(x), args=(x, out), chunksize=77)
        assert (out == numpy.sqrt(x)).all()
    total = pools[2, "lifo"].parallel_reduce(lambda lo, hi, x: x[lo:hi].sum(), len(x), args=(x,))
    assert total == x.sum()


# --- ranges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(5,), (0, 5), (range(5),), (range(0, 5),)], ids=str)
def test_ranges_may_be_given_in_three_ways(pool1, bounds):
    """n, start and stop, or a range."""
    assert pool1.parallel_reduce(spans, *bounds, chunksize=2) == [(0, 2), (2, 3), (3, 5)]


def test_ranges_may_lie_anywhere(pool1):
    """Negative positions, and whatever can be used as an index."""
    numpy = pytest.importorskip("numpy")
    assert pool1.parallel_reduce(spans, -3, 1, chunksize=2) == [(-3, -1), (-1, 1)]
    assert pool1.parallel_reduce(spans, range(-3, -1)) == [(-3, -2), (-2, -1)]
    assert pool1.parallel_reduce(spans, numpy.int64(2), numpy.int16(4), chunksize=numpy.uint8(9)) == [
        (2, 4)
    ]


@pytest.mark.parametrize("bounds", [(0,), (-3,), (5, 5), (5, 3), (range(0),), (range(5, 2),)], ids=str)
def test_empty_ranges_call_nothing(pool1, bounds):
    """parallel_for does nothing, parallel_reduce gives the initial value or a TypeError; no thread starts."""
    assert pool1.parallel_for(boom, *bounds) is None
    assert pool1.parallel_reduce(boom, *bounds, initial="nothing") == "nothing"
    assert pool1.parallel_reduce(boom, *bounds, initial=None) is None
    with pytest.raises(TypeError, match="empty range with no initial value"):
        pool1.parallel_reduce(boom, *bounds)
    assert pool1.pool_size == 0


def test_empty_iterables_call_nothing(pool1):
    """The same for map, starmap and reduce."""
    assert list(pool1.map(boom, [])) == [] == list(pool1.starmap(boom, []))
    assert list(pool1.map(boom, [], [1, 2])) == []
    assert pool1.reduce(boom, [], "nothing") == "nothing"
    assert pool1.reduce(boom, [], None) is None
    with pytest.raises(TypeError, match="empty iterable with no initial value"):
        pool1.reduce(boom, [])
    assert pool1.pool_size == 0


def test_initial_value_is_combined_once_on_the_left(pool2):
    """It is no identity element that every piece starts from."""
    assert pool2.parallel_reduce(spans, 4, chunksize=1, initial=["first"])[:2] == ["first", (0, 1)]
    assert pool2.reduce(operator.add, [1] * 100, 1000, chunksize=3) == 1100
    assert pool2.reduce(boom, ["only"]) == "only"


def test_long_ranges_cost_no_memory(pool1):
    """Positions up to the ends of int64, in a few long pieces."""
    assert_tiles(pool1.parallel_reduce(spans, 0, INT64 - 1, chunksize=2**60), 0, INT64 - 1, 2**60)
    middle = -(2**62), 2**62 - 1
    assert pool1.parallel_reduce(spans, *middle, chunksize=2**70) == [middle]


# --- bad arguments -------------------------------------------------------------------------------

RANGE = "n, start and stop, or a range of step 1"


@pytest.mark.parametrize(
    "arguments, keywords, error, message",
    [
        ((1.5,), {}, TypeError, RANGE),
        (("3",), {}, TypeError, RANGE),
        ((None,), {}, TypeError, RANGE),
        ((0, 2.0), {}, TypeError, RANGE),
        ((range(0, 10, 2),), {}, ValueError, RANGE),
        ((range(10, 0, -1),), {}, ValueError, RANGE),
        ((range(3), 5), {}, ValueError, RANGE),
        ((INT64,), {}, ValueError, "positions must fit into int64"),
        ((-INT64 - 1, 0), {}, ValueError, "positions must fit into int64"),
        ((-INT64, 1), {}, ValueError, "positions must fit into int64"),
        ((10**30,), {}, ValueError, "positions must fit into int64"),
        ((3,), {"chunksize": 0}, ValueError, "chunksize must be at least 1, not 0"),
        ((3,), {"chunksize": -2}, ValueError, "chunksize must be at least 1, not -2"),
        ((3,), {"chunksize": 1.5}, TypeError, "chunksize must be an integer, not float"),
        ((3,), {"chunksize": "many"}, TypeError, "chunksize must be an integer, not str"),
        ((3,), {"args": 5}, TypeError, "args must be a tuple, not int"),
        ((3,), {"args": None}, TypeError, "args must be a tuple, not NoneType"),
        ((3,), {"data": b"bytes"}, TypeError, "data= is for native leaves"),
    ],
    ids=str,
)
def test_loops_refuse_bad_arguments(pool1, arguments, keywords, error, message):
    """parallel_for and parallel_reduce say what was expected, and call nothing."""
    for method in (pool1.parallel_for, pool1.parallel_reduce):
        with pytest.raises(error, match=message):
            method(boom, *arguments, **keywords)
    assert pool1.pool_size == 0


@pytest.mark.parametrize("wrong", [None, 3, "leaf"])
def test_loops_refuse_what_cannot_be_called(pool1, wrong):
    """As leaf, body, function or combine: a TypeError that names what it got."""
    for use in (
        lambda: pool1.parallel_for(wrong, 3),
        lambda: pool1.parallel_reduce(wrong, 3),
        lambda: pool1.parallel_reduce(boom, 3, combine=wrong),
        lambda: pool1.map(wrong, [1]),
        lambda: pool1.starmap(wrong, [(1,)]),
        lambda: pool1.reduce(wrong, [1]),
    ):
        with pytest.raises(TypeError, match=f"must be callable, not {type(wrong).__name__}"):
            use()
    assert pool1.pool_size == 0


@pytest.mark.parametrize(
    "chunksize, error, message",
    [
        (0, ValueError, "chunksize must be at least 1, not 0"),
        (-1, ValueError, "chunksize must be at least 1, not -1"),
        (2.0, TypeError, "chunksize must be an integer, not float"),
        ("many", TypeError, "chunksize must be an integer, not str"),
    ],
)
def test_map_and_reduce_refuse_a_bad_chunksize(pool1, chunksize, error, message):
    """At the call, before anything is submitted."""
    for use in (
        lambda: pool1.map(boom, [1, 2], chunksize=chunksize),
        lambda: pool1.starmap(boom, [(1,)], chunksize=chunksize),
        lambda: pool1.reduce(boom, [1, 2], chunksize=chunksize),
    ):
        with pytest.raises(error, match=message):
            use()
    assert pool1.pool_size == 0


def test_map_and_reduce_refuse_what_cannot_be_iterated(pool1):
    """As the builtins do."""
    for use in (
        lambda: pool1.map(boom, 3),
        lambda: pool1.starmap(boom, 3),
        lambda: pool1.reduce(boom, 3),
    ):
        with pytest.raises(TypeError, match="iterable|iteration"):
            use()
    assert pool1.pool_size == 0


def test_map_refuses_a_timeout_that_is_no_time(pool1):
    """In the same words as result() and the others."""
    with pytest.raises(TypeError, match="timeout must be a number of seconds or None, not str"):
        list(pool1.map(abs, [1], timeout="soon"))
    with pytest.raises(ValueError, match="timeout must be a number of seconds, not nan"):
        list(pool1.map(abs, [1], timeout=float("nan")))


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parallel_for", "parallel_reduce"])
def test_failure_in_a_leaf_is_raised_as_the_same_object(pool, name):
    """Once, with the leaf's traceback, and the pool works on."""
    error = Boom("here")

    def leaf(lo, hi):
        if lo <= 500 < hi:
            raise error
        return 0

    for _ in range(10):
        with pytest.raises(Boom) as caught:
            getattr(pool, name)(leaf, 1000, chunksize=10)
        assert caught.value is error
        assert caught.traceback[-1].name == "leaf"
        error.__traceback__ = None
    assert pool.parallel_reduce(lambda lo, hi: hi - lo, 1000, chunksize=10) == 1000
    assert pool.await_quiescence(WAIT)


def test_failure_skips_the_leaves_that_have_not_started(single):
    """One worker runs the last piece first; if that fails nothing else runs."""
    ran = []

    def leaf(lo, hi):
        ran.append(hi)
        raise Boom

    with pytest.raises(Boom):
        single.parallel_for(leaf, 1000, chunksize=1)
    assert len(ran) == 1


def test_failure_of_one_worker_skips_the_rest_for_the_others(pool2):
    """While one worker is in a leaf another one's fails: the first finishes it and begins no more."""
    both, begun = threading.Barrier(2), []

    def leaf(lo, hi):
        begun.append(lo)
        if both.wait(WAIT) == 0:
            raise Boom
        eventually(lambda: pool2.active_count == 1)  # the failure is known, nobody else is at work

    with pytest.raises(Boom):
        pool2.parallel_for(leaf, 1000, chunksize=1)
    assert pool2.await_quiescence(WAIT)
    assert len(begun) == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_failure_may_be_of_any_kind(pool, kind):
    """Also one that is no Exception reaches the caller, and the workers live on."""

    def leaf(lo, hi):
        raise kind("stop")

    with pytest.raises(kind, match="stop"):
        pool.parallel_for(leaf, 10, chunksize=1)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


def test_failure_in_combine_is_raised(pool):
    """As one in a leaf is; values that were computed are given up."""

    class Value:
        pass

    values = []

    def leaf(lo, hi):
        value = Value()
        values.append(weakref.ref(value))
        return value

    def combine(left, right):
        raise Boom("combine")

    with pytest.raises(Boom, match="combine"):
        pool.parallel_reduce(leaf, 64, chunksize=1, combine=combine)
    assert pool.await_quiescence(WAIT)
    assert len(values) >= 2 and all(value() is None for value in values)
    with pytest.raises(Boom, match="combine"):
        pool.reduce(combine, [1, 2, 3])
    with pytest.raises(TypeError, match="unsupported operand"):
        pool.parallel_reduce(lambda lo, hi: "text" if lo else 1, 2, chunksize=1)


def test_failure_in_many_leaves_is_raised_once(pool):
    """All of them fail: the caller gets one, and the next call starts afresh."""

    def leaf(lo, hi):
        raise Boom(lo)

    for _ in range(50):
        with pytest.raises(Boom) as caught:
            pool.parallel_for(leaf, 64, chunksize=1)
        assert caught.value.args[0] in range(64)
        assert caught.value.__context__ is None
    assert pool.await_quiescence(WAIT)


def test_failure_in_map_comes_in_its_place(pool):
    """Results before it are yielded, then it is raised, then the iterator is at its end."""

    def call(i):
        if i == 5:
            raise Boom(i)
        return i

    results, got = pool.map(call, range(10), chunksize=1), []
    with pytest.raises(Boom) as caught:
        for result in results:
            got.append(result)
    assert (got, caught.value.args) == (list(range(5)), (5,))
    assert list(results) == []


def test_failure_in_map_cancels_what_has_not_started(pool1):
    """Once it has been raised, no call behind it begins."""
    go, ran = threading.Event(), []

    def call(i):
        ran.append(i)
        if i == 0:
            raise Boom
        reach(go)

    with pytest.raises(Boom):
        list(pool1.map(call, range(5), chunksize=1))
    go.set()
    assert pool1.await_quiescence(WAIT)
    assert ran in ([0], [0, 1])


def test_generator_that_raises_in_the_middle_submits_nothing(pool1):
    """The failure comes out of the call itself, and no function has been called."""

    def generator():
        yield 1
        raise Boom("in the middle")

    for use in (
        lambda: pool1.map(boom, generator()),
        lambda: pool1.map(boom, [1, 2], generator()),
        lambda: pool1.starmap(boom, generator()),
        lambda: pool1.reduce(boom, generator()),
    ):
        with pytest.raises(Boom, match="in the middle"):
            use()
    assert pool1.pool_size == 0


def test_generator_that_raises_in_the_middle_takes_back_what_was_submitted(pool1):
    """With buffersize the items before it may be queued already: none of them is called any more."""

    def generator(good):
        yield from range(good)
        raise Boom("in the middle")

    ran = []
    with held(pool1):
        with pytest.raises(Boom, match="in the middle"):
            pool1.map(ran.append, generator(2), buffersize=5)
    results = pool1.map(ran.append, generator(4), buffersize=3)
    with pytest.raises(Boom, match="in the middle"):
        list(results)
    assert pool1.await_quiescence(WAIT)
    assert ran in ([0, 1, 2], [0, 1, 2, 3])


def test_generator_may_use_the_pool_it_feeds(pool1):
    """An input that is computed by the same pool does not deadlock, outside or in a worker."""

    def generator():
        for i in range(20):
            yield pool1.submit(abs, -i).result()

    assert list(pool1.map(abs, generator())) == list(range(20))
    assert pool1.submit(lambda: list(pool1.map(abs, generator()))).result(WAIT) == list(range(20))


# --- map -----------------------------------------------------------------------------------------


def test_map_reads_its_input_and_starts_at_once(pool1):
    """Everything is submitted before the first result is asked for."""
    numbers, ran = iter(range(10)), threading.Semaphore(0)
    results = pool1.map(lambda i: ran.release() or i, numbers, chunksize=1)
    assert list(numbers) == []
    for _ in range(10):
        reach(ran)
    assert list(results) == list(range(10))


@pytest.mark.parametrize("chunksize, tasks", [(1, 10), (3, 4), (10, 1), (99, 1)])
def test_map_makes_tasks_of_chunksize_calls(pool1, chunksize, tasks):
    """So many submissions, each with that many calls, the last with what is left."""
    with held(pool1):
        before = pool1.queued_submission_count
        results = pool1.map(abs, range(10), chunksize=chunksize)
        assert pool1.queued_submission_count - before == tasks
    assert list(results) == list(range(10))


def test_map_that_is_abandoned_cancels_the_rest(pool1):
    """Closing or dropping the iterator takes back what has not started."""
    for close in (True, False):
        go, ran = threading.Event(), []

        def call(i, go=go, ran=ran):
            ran.append(i)
            if i > 0:
                reach(go)

        results = pool1.map(call, range(5), chunksize=1)
        next(results)
        if close:
            results.close()
        del results
        go.set()
        assert pool1.await_quiescence(WAIT)
        assert ran in ([0], [0, 1])


def test_map_that_times_out_cancels_what_it_waited_for(pool1):
    """Nothing that map submitted starts after its TimeoutError."""
    ran = []
    with held(pool1):
        with pytest.raises(fjpool.TimeoutError):
            list(pool1.map(ran.append, range(3), timeout=0.01, chunksize=1))
    assert pool1.await_quiescence(WAIT)
    assert ran == []


def test_map_counts_its_timeout_from_the_call():
    """As in the standard library the clock starts at map(), not at the first next()."""
    tests = os.path.dirname(__file__)
    printed = output(
        f"""
        import sys, time
        real, later = time.monotonic, []
        time.monotonic = lambda: real() + sum(later)
        sys.path.insert(0, {tests!r})
        from support import *
        import fjpool
        with fjpool.ForkJoinPool(1, blocking="announced") as pool, held(pool):
            results = pool.map(abs, [1], timeout=1_000)
            later.append(2_000)
            try:
                next(results)
            except fjpool.TimeoutError:
                print("timed out")
            later.clear()
        """,
        preamble=False,
    )
    assert printed == "timed out\n"


def test_map_uses_every_worker(make_pool):
    """Calls that wait for each other: as many as there are workers run at once."""
    pool, together = make_pool(4), threading.Barrier(4)
    assert sorted(pool.map(lambda _: together.wait(WAIT), range(4))) == list(range(4))


# --- inside each other ---------------------------------------------------------------------------


def test_nested_loops_complete_on_any_pool(pool):
    """A loop in a leaf, two deep, and a map and a reduce in it."""

    def inner(lo, hi):
        total = pool.parallel_reduce(lambda lo, hi: hi - lo, 10 * (hi - lo), chunksize=3)
        return total + sum(fjpool.map(abs, range(lo, hi))) - fjpool.reduce(operator.add, range(lo, hi))

    def outer(lo, hi):
        return fjpool.parallel_reduce(inner, 5 * (hi - lo), chunksize=2)

    assert pool.parallel_reduce(outer, 8, chunksize=1) == 400


def test_nested_loops_may_go_to_another_pool(make_pool):
    """A leaf that runs a loop on a second pool, whose leaves run one on the first."""
    first, second = make_pool(1), make_pool(1)

    def back(lo, hi):
        return first.parallel_reduce(lambda lo, hi: hi - lo, 5, chunksize=1)

    def there(lo, hi):
        return second.parallel_reduce(back, 3, chunksize=1)

    assert first.parallel_reduce(there, 4, chunksize=1) == 60


def test_nested_loops_in_another_pool_need_no_deep_stack(make_pool):
    """Twenty thousand items that each run a loop in a second pool, with stacks of 1 MiB."""
    outer, inner = make_pool(2, stack_size=2**20), make_pool(2, stack_size=2**20)

    def item(_):
        return inner.parallel_reduce(lambda lo, hi: hi - lo, 2, chunksize=1)

    assert sum(outer.map(item, range(20_000))) == 40_000


def test_nested_failure_comes_out_of_the_outer_loop(pool):
    """Through both, as the same object."""
    error = Boom()

    def inner(lo, hi):
        raise error

    def outer(lo, hi):
        pool.parallel_for(inner, 4, chunksize=1)

    with pytest.raises(Boom) as caught:
        pool.parallel_for(outer, 4, chunksize=1)
    assert caught.value is error


def test_leaves_run_on_the_workers_of_the_pool(make_pool):
    """Never in the calling thread, and inside its own worker a loop may use others."""
    pool, together = make_pool(2, "w"), threading.Barrier(2)

    def leaf(lo, hi):
        reach(together)
        return [thread_name()]

    assert sorted(pool.parallel_reduce(leaf, 2, chunksize=1)) == ["w_0", "w_1"]
    assert sorted(pool.submit(pool.parallel_reduce, leaf, 2, chunksize=1).result(WAIT)) == ["w_0", "w_1"]


def test_leaves_are_nobodys_task(pool):
    """current_task() is None in a leaf, also where a task has called the loop."""
    assert pool.parallel_reduce(lambda lo, hi: [fjpool.current_task()], 3, chunksize=1) == [None] * 3


def test_leaves_and_values_die_with_the_call(pool):
    """When a loop has returned, nothing of it is kept: leaf, arguments, combine, values."""

    class Thing:
        def __call__(self, *args):
            return Thing()

    leaf, combine, argument = Thing(), Thing(), Thing()
    refs = [weakref.ref(thing) for thing in (leaf, combine, argument)]
    result = pool.parallel_reduce(leaf, 16, chunksize=1, combine=combine, args=(argument,))
    refs.append(weakref.ref(result))
    del leaf, combine, argument, result
    assert pool.await_quiescence(WAIT)
    assert [ref() for ref in refs] == [None] * 4


def test_loops_survive_a_shutdown_in_the_middle(make_pool):
    """shutdown lets a loop that has begun finish; shutdown_now ends it with CancelledError."""
    for end, outcome in (
        (lambda p: p.shutdown(wait=False), 100),
        (lambda p: p.shutdown_now(), "cancelled"),
    ):
        pool, begun, go, results = make_pool(1), threading.Event(), threading.Event(), []

        def leaf(lo, hi, begun=begun, go=go):
            begun.set()
            reach(go)
            return hi - lo

        def loop(pool=pool, leaf=leaf, results=results):
            try:
                results.append(pool.parallel_reduce(leaf, 100, chunksize=1))
            except fjpool.CancelledError:
                results.append("cancelled")

        thread = threading.Thread(target=loop)
        thread.start()
        reach(begun)
        end(pool)
        go.set()
        thread.join(WAIT)
        assert results == [outcome]


def test_ctrl_c_in_a_loop_on_a_private_pool_skips_the_rest():
    """KeyboardInterrupt at once in the caller; leaves that have not started never do."""
    printed = output(
        """
        import signal
        pool, go, ran = fjpool.ForkJoinPool(1, blocking="announced"), threading.Event(), []
        def leaf(lo, hi):
            ran.append(lo)
            os.kill(os.getpid(), signal.SIGINT)
            reach(go)
        try:
            pool.parallel_for(leaf, 100, chunksize=1)
        except KeyboardInterrupt:
            print("interrupted")
        go.set()
        print(pool.await_quiescence(WAIT), len(ran), pool.submit(pow, 2, 3).result(WAIT))
        """
    )
    assert printed == "interrupted\nTrue 1 8\n"


def test_fine_splits_are_a_shallow_tree(pool1):
    """A hundred thousand pieces need neither a deep stack nor Python's recursion limit."""
    assert pool1.parallel_reduce(lambda lo, hi: 1, 100_000, chunksize=1) == 100_000
