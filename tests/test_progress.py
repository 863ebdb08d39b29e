"""progress=: bars of tqdm, and callables; tqdm's own executor functions over our pool."""

import ctypes
import itertools
import operator
import re
import threading

import pytest

import fjpool
from support import WAIT, Boom, output

tqdm = pytest.importorskip("tqdm")


class Seen(list):
    """A progress callable that keeps what it was told."""

    def __call__(self, done, total):
        self.append((done, total))

    def check(self, total):
        """It was told of everything, upwards, always with the total; how often."""
        done = [each for each, _ in self]
        assert done == sorted(set(done)) and done[-1] == total
        assert {each for _, each in self} == {total}
        return len(self)


def tenths(lo, hi):
    return sum(0.1 * i for i in range(lo, hi))


def native(result, function):
    """A native leaf, which here calls back into Python."""
    return ctypes.CFUNCTYPE(result, ctypes.c_int64, ctypes.c_int64)(function)


# --- callables -----------------------------------------------------------------------------------


def test_map_tells_its_progress(pool2):
    """progress is called with the results taken and their number."""
    seen = Seen()
    assert list(pool2.map(abs, [-1, -2, -3], progress=seen)) == [1, 2, 3]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_reduce_tells_its_progress_in_items(pool):
    """Item by item if the chunks are of one, and the result is in order."""
    seen = Seen()
    assert pool.reduce(operator.add, "abcdefgh", chunksize=1, progress=seen) == "abcdefgh"
    assert seen.check(8) == 8


def test_parallel_reduce_tells_its_progress_in_positions(pool):
    """Leaf by leaf, each leaf as large as it is."""
    seen = Seen()
    assert pool.parallel_reduce(lambda lo, hi: hi - lo, 0, 100, chunksize=25, progress=seen) == 100
    assert seen == [(25, 100), (50, 100), (75, 100), (100, 100)]


def test_parallel_for_tells_its_progress_and_hands_arguments_over(pool):
    """args= reach the body as without progress."""
    seen, marks = Seen(), [0] * 10

    def body(lo, hi, marks, by):
        for i in range(lo, hi):
            marks[i] += by

    pool.parallel_for(body, 10, chunksize=1, args=(marks, 3), progress=seen)
    assert seen.check(10) == 10 and marks == [3] * 10


def test_progress_on_the_common_pool_and_by_the_functions():
    """The module's functions take it too; there the caller works as well."""
    for call in (
        lambda seen: fjpool.reduce(max, range(1000), progress=seen),
        lambda seen: fjpool.parallel_for(tenths, 1000, progress=seen),
        lambda seen: fjpool.parallel_reduce(tenths, 1000, progress=seen),
        lambda seen: fjpool.parallel_reduce(native(ctypes.c_double, tenths), 1000, progress=seen),
    ):
        seen = Seen()
        call(seen)
        assert seen.check(1000) > 10


@pytest.mark.parametrize("chunksize", [None, 1, 7, 5000])
def test_progress_of_native_leaves_changes_no_bit_of_the_result(pool2, chunksize):
    """They are told of in groups; the tree in which they are combined is the same."""
    leaf, seen = native(ctypes.c_double, tenths), Seen()
    plain = pool2.parallel_reduce(leaf, 5000, chunksize=chunksize)
    assert pool2.parallel_reduce(leaf, 5000, chunksize=chunksize, progress=seen) == plain
    assert seen.check(5000) in (range(1, 2) if chunksize == 5000 else range(64, 129))
    seen.clear()
    last = native(ctypes.c_int64, lambda lo, hi: hi)
    assert pool2.parallel_reduce(last, 5000, combine=max, progress=seen) == 5000
    assert seen.check(5000) >= 64


def test_progress_of_native_leaves_keeps_int64(pool2):
    """A sum that does not fit is an OverflowError, between groups as within."""
    leaf = native(ctypes.c_int64, lambda lo, hi: 2**62)
    for chunksize in (1, 500):
        with pytest.raises(OverflowError, match="does not fit into int64"):
            pool2.parallel_reduce(leaf, 1000, chunksize=chunksize, progress=Seen())


def test_progress_of_native_bodies_tells_where_one_failed(pool2):
    """LeafError names the positions, and the rest is skipped."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    body = kind(lambda lo, hi, data: 7 if lo == 500 else 0)
    with pytest.raises(fjpool.LeafError) as caught:
        pool2.parallel_for(body, 1000, chunksize=1, progress=Seen())
    assert (caught.value.code, caught.value.lo, caught.value.hi) == (7, 500, 501)


def test_progress_is_told_by_one_thread_at_a_time(make_pool):
    """Whichever workers run the leaves, the callable need not be thread-safe."""
    pool, inside, seen = make_pool(4), threading.Lock(), Seen()

    def tell(done, total):
        assert inside.acquire(blocking=False)
        seen(done, total)
        inside.release()

    pool.parallel_for(lambda lo, hi: None, 2000, chunksize=1, progress=tell)
    assert seen.check(2000) == 2000


def test_progress_that_raises_ends_the_call(pool2):
    """Its exception is the call's, and leaves that had not started are skipped."""
    ran = []

    def tell(done, total):
        raise Boom(done)

    with pytest.raises(Boom):
        pool2.parallel_for(lambda lo, hi: ran.append(lo), 10_000, chunksize=1, progress=tell)
    assert len(ran) < 10_000


def test_progress_of_nothing_is_not_told(pool2):
    """An empty range has no leaf."""
    seen = Seen()
    pool2.parallel_for(print, 0, progress=seen)
    assert pool2.parallel_reduce(print, 0, initial=1, progress=seen) == 1
    assert pool2.reduce(max, [], 2, progress=seen) == 2 and seen == []


@pytest.mark.parametrize("progress", [False, 1, "bar"])
def test_progress_must_be_true_or_a_callable(pool2, progress):
    """Anything else is refused by name before anything runs."""
    for call in (
        lambda: pool2.map(abs, [1], progress=progress),
        lambda: pool2.reduce(max, [1], progress=progress),
        lambda: pool2.parallel_for(print, 1, progress=progress),
        lambda: pool2.parallel_reduce(print, 1, progress=progress),
    ):
        with pytest.raises(TypeError, match="progress must be True or a callable"):
            call()


# --- bars ----------------------------------------------------------------------------------------


def test_progress_true_draws_a_bar_in_a_terminal(pool2, capsys):
    """From nothing to everything, with the bar closed at the end."""
    for call, total in (
        (lambda: list(pool2.map(abs, range(30), progress=True)), 30),
        (lambda: pool2.reduce(max, range(40), chunksize=1, progress=True), 40),
        (lambda: pool2.parallel_for(tenths, 50, chunksize=1, progress=True), 50),
        (lambda: pool2.parallel_reduce(tenths, 60, chunksize=1, progress=True), 60),
    ):
        call()
        drawn = capsys.readouterr().err
        assert f" 0/{total} " in drawn and f"100%|██████████| {total}/{total} " in drawn
        assert drawn.endswith("\n")


def test_progress_true_draws_a_widget_in_a_notebook(pool2, monkeypatch):
    """What tqdm.auto has chosen is what is drawn: there, its notebook class."""
    import tqdm.auto

    bars = []

    class Widget(tqdm.std.tqdm):
        def __init__(self, *args, **options):
            super().__init__(*args, **options, gui=True)  # draws nothing itself
            bars.append(self)

        def display(self, *args, **options):
            pass

    monkeypatch.setattr(tqdm.auto, "tqdm", Widget)
    list(pool2.map(abs, range(30), progress=True))
    pool2.parallel_for(tenths, 50, progress=True)
    assert [(bar.n, bar.total, bar.disable) for bar in bars] == [(30, 30, True), (50, 50, True)]


def test_progress_true_needs_tqdm_and_says_so():
    """One clear ImportError, before anything runs."""
    code = """\
        sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
        for call in (
            lambda: fjpool.map(print, [1], progress=True),
            lambda: fjpool.parallel_for(print, 1, progress=True),
        ):
            try:
                call()
            except ImportError as error:
                print(error)
    """
    assert output(code).splitlines() == ["progress=True needs tqdm: pip install tqdm"] * 2


def test_tqdm_drives_the_pool_with_its_own_executor_function(capsys):
    """What is behind tqdm's thread_map, over our class: the bar moves call by call to its end."""
    from tqdm.contrib.concurrent import _executor_map

    results = _executor_map(
        fjpool.ForkJoinPool, abs, range(-40, 0), max_workers=2, mininterval=0, miniters=1
    )
    assert results == list(range(40, 0, -1))
    steps = [int(step) for step in re.findall(r"\| (\d+)/40 ", capsys.readouterr().err)]
    assert steps[0] == 0 and steps[-1] == 40
    assert len(set(steps)) > 20 and all(a <= b for a, b in itertools.pairwise(steps))
