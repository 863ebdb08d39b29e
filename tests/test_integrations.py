"""fjpool where others expect an executor, and map's further ways."""

import itertools
import multiprocessing
import threading

import fjpool
import fjpool.joblib
import numpy
import pytest
from joblib import Parallel, delayed, parallel_config

from support import WAIT, output, reach


def test_joblib_runs_on_the_pool_and_keeps_order(pool2):
    """parallel_config(backend="fjpool") after register(): joblib's results, from our workers."""
    fjpool.joblib.register()
    with fjpool.use(pool2), parallel_config(backend="fjpool", n_jobs=2):
        assert Parallel()(delayed(abs)(-i) for i in range(1000)) == list(range(1000))
        assert set(Parallel()(delayed(fjpool.current_pool)() for _ in range(20))) == {pool2}


def test_joblib_nested_calls_share_the_pool(single):
    """A call inside a call runs on the same worker rather than on threads of its own."""
    fjpool.joblib.register()

    def inner(i):
        return sum(Parallel(n_jobs=2)(delayed(abs)(-j) for j in range(i)))

    with fjpool.use(single), parallel_config(backend="fjpool", n_jobs=2):
        assert Parallel()(delayed(inner)(i) for i in range(6)) == [0, 0, 1, 3, 6, 10]


def test_joblib_nested_calls_run_where_every_worker_makes_one(pool2):
    """More calls inside calls than workers, named or inherited: workers run what they wait for."""
    fjpool.joblib.register()

    def inner(i, **options):
        return list(Parallel(n_jobs=2, **options)(delayed(abs)(-j) for j in range(i)))

    with fjpool.use(pool2), parallel_config(backend="fjpool", n_jobs=2):
        expected = [list(range(i)) for i in range(12)]
        assert Parallel()(delayed(inner)(i) for i in range(12)) == expected
        assert Parallel()(delayed(inner)(i, backend="fjpool") for i in range(12)) == expected
        generators = (delayed(inner)(i, return_as="generator") for i in range(12))
        assert Parallel()(generators) == expected
    assert pool2.pool_size < 12  # one may stand in for a worker that waits, but not one a call


def test_joblib_nested_call_raises_and_times_out_as_any(pool1):
    """A failure inside, and joblib's own TimeoutError, come out of the call inside."""
    fjpool.joblib.register()
    go = threading.Event()

    def inner(function, *args):
        try:
            Parallel(n_jobs=2, timeout=0.01)(delayed(function)(*args) for _ in range(2))
        except (ZeroDivisionError, multiprocessing.TimeoutError) as error:
            return type(error)

    def outer():
        with parallel_config(backend=fjpool.joblib.FJPoolBackend(pool1)):
            return inner(divmod, 1, 0), inner(reach, go)

    # On one worker the call inside runs where it is awaited: only another pool can be late.
    with fjpool.ForkJoinPool(1) as other:
        try:
            assert other.submit(outer).result(WAIT) == (ZeroDivisionError, multiprocessing.TimeoutError)
        finally:
            go.set()


def test_joblib_hands_out_calls_although_one_worker_is_all(pool1):
    """n_jobs=2 on a pool of one: the calls run there, not one by one in the caller."""
    with parallel_config(backend=fjpool.joblib.FJPoolBackend(pool1), n_jobs=2):
        assert set(Parallel()(delayed(fjpool.current_pool)() for _ in range(20))) == {pool1}


def test_joblib_calls_run_in_the_caller_where_callers_run():
    """With no workers in the common pool the caller makes the calls itself, rather than wait for ever."""
    code = """\
        import fjpool.joblib
        from joblib import Parallel, delayed
        fjpool.joblib.register()
        calls = [delayed(threading.get_ident)() for _ in range(3)]
        print(set(Parallel(n_jobs=2, backend="fjpool")(calls)) == {threading.get_ident()})
    """
    assert output(code, env={"FJPOOL_COMMON_PARALLELISM": "0"}) == "True\n"


def test_joblib_raises_what_a_call_raised(pool2):
    """And the pool is usable afterwards."""
    fjpool.joblib.register()
    with fjpool.use(pool2), parallel_config(backend="fjpool", n_jobs=2):
        with pytest.raises(ZeroDivisionError):
            Parallel()(delayed(divmod)(1, i) for i in range(3))
    assert pool2.submit(abs, -1).result(WAIT) == 1


def test_sklearn_fits_a_forest_on_our_workers(pool2):
    """n_jobs=2 through the joblib backend gives the very forest of n_jobs=1."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    fjpool.joblib.register()
    rng = numpy.random.default_rng(0)
    x, y = rng.normal(size=(200, 5)), rng.integers(0, 3, 200)

    def probabilities(n_jobs):
        forest = ensemble.RandomForestClassifier(20, random_state=0, n_jobs=n_jobs)
        return forest.fit(x, y).predict_proba(x)

    alone = probabilities(1)
    assert pool2._completed == 0
    with fjpool.use(pool2), parallel_config(backend="fjpool"):
        assert (probabilities(2) == alone).all()
    assert pool2._completed >= 4  # batches of trees


def test_scipy_takes_the_map_of_a_pool_as_workers(pool2):
    """differential_evolution(workers=pool.map) finds what workers=1 finds, on our workers."""
    optimize = pytest.importorskip("scipy.optimize")
    pools = set()

    def valley(x):
        pools.add(fjpool.current_pool())
        return optimize.rosen(x)

    def minimum(workers):
        return optimize.differential_evolution(
            valley, [(0, 2)] * 3, workers=workers, updating="deferred", maxiter=20, seed=1
        ).x

    assert (minimum(1) == minimum(pool2.map)).all()
    assert pools == {None, pool2}  # None: the caller, with one worker, and to polish the result


def test_map_with_a_buffer_reads_no_further_ahead(pool2):
    """buffersize=8 pulls 8 items of an endless input, then one for each result taken."""
    pulled = []

    def endless():
        for i in itertools.count():
            pulled.append(i)
            yield i

    results = pool2.map(abs, endless(), buffersize=8)
    assert pulled == list(range(8))
    assert [next(results) for _ in range(5)] == list(range(5))
    assert len(pulled) <= 13
    results.close()


def test_map_with_a_buffer_smaller_than_its_chunks_reads_no_further_either(pool2):
    """buffersize bounds what is read, whatever the chunksize."""
    source = iter(range(100))
    results = pool2.map(abs, source, buffersize=3, chunksize=50)
    assert next(source) == 3
    results.close()


def test_map_out_of_order_yields_what_is_ready(pool2):
    """ordered=False: a call that blocks holds up no other result."""
    go = threading.Event()

    def body(i):
        if i == 0:
            reach(go)
        return i

    results = pool2.map(body, range(10), ordered=False)
    first = list(itertools.islice(results, 9))
    go.set()
    assert sorted(first) == list(range(1, 10))
    assert list(results) == [0]


def test_map_leaves_the_rest_of_a_chunk_to_others(pool2):
    """A first item that waits for the last one: the rest of its chunk is stolen and runs."""
    go = threading.Event()

    def body(i):
        if i == 0:
            reach(go)
        if i == 99:
            go.set()
        return i

    assert list(pool2.map(body, range(100))) == list(range(100))
