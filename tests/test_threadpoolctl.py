"""threadpoolctl: the common pool shows up in it, and blas_threads= limits BLAS through it."""

import threading

import pytest

import fjpool
from support import WAIT, boom, eventually, output

threadpoolctl = pytest.importorskip("threadpoolctl")


# --- the common pool as one of its libraries -----------------------------------------------------


def test_register_makes_the_common_pool_show_up_once():
    """Registered twice, it is there once, with its size and version."""
    code = """\
        import fjpool.threadpoolctl, threadpoolctl
        fjpool.threadpoolctl.register(), fjpool.threadpoolctl.register()
        [info] = [info for info in threadpoolctl.threadpool_info() if info["user_api"] == "fjpool"]
        print(info["num_threads"], info["version"] == fjpool.__version__, info["prefix"])
    """
    assert output(code, env={"FJPOOL_COMMON_PARALLELISM": "3"}) == "3 True _core.\n"


def test_threadpool_limits_hold_for_the_common_pool_until_they_end():
    """In the block the pool has one worker for a hundred tasks; afterwards as many as before."""
    code = """\
        import fjpool.threadpoolctl, threadpoolctl
        fjpool.threadpoolctl.register()
        pool = fjpool.common_pool()
        with threadpoolctl.threadpool_limits(1, user_api="fjpool"):
            futures = [pool.submit(sum, range(100_000)) for _ in range(100)]
            say(pool.parallelism, len({future.result(WAIT) for future in futures}), pool.pool_size)
        say(pool.parallelism)
    """
    assert output(code, env={"FJPOOL_COMMON_PARALLELISM": "3"}) == "1 1 1\n3\n"


def test_c_functions_read_and_set_what_there_is():
    """Nothing before there is a common pool, nor in a forked child; else any number, within bounds."""
    code = """\
        import ctypes
        core = ctypes.CDLL(fjpool._core.__file__)
        core.fjpool_set_num_threads(5)
        say(core.fjpool_get_num_threads())
        pool = fjpool.common_pool()
        for n in (2, 0, 10**6):
            core.fjpool_set_num_threads(n)
            say(core.fjpool_get_num_threads(), pool.parallelism)
        child = os.fork()
        if child == 0:
            say(core.fjpool_get_num_threads())
            os._exit(0)
        os.waitpid(child, 0)
    """
    options = ("-W", "ignore::DeprecationWarning")  # of forking beside the thread that watches the time
    printed = output(code, env={"FJPOOL_COMMON_PARALLELISM": "3"}, options=options)
    assert printed.splitlines() == ["0", "2 2", "1 1", "32767 32767", "0"]


def test_c_functions_leave_a_pool_alone_whose_callers_run():
    """FJPOOL_COMMON_PARALLELISM=0 stays what it is; threadpoolctl is told of one thread."""
    code = """\
        import ctypes, fjpool.threadpoolctl, threadpoolctl
        fjpool.threadpoolctl.register()
        with threadpoolctl.threadpool_limits(2, user_api="fjpool"):
            infos = threadpoolctl.threadpool_info()
            say([info["num_threads"] for info in infos if info["user_api"] == "fjpool"])
        say(ctypes.CDLL(fjpool._core.__file__).fjpool_get_num_threads())
    """
    assert output(code, env={"FJPOOL_COMMON_PARALLELISM": "0"}) == "[1]\n0\n"


# --- blas_threads --------------------------------------------------------------------------------


def blas():
    """The numbers of threads of all BLAS libraries, as the calling thread sees them."""
    infos = threadpoolctl.threadpool_info()
    return {info["num_threads"] for info in infos if info["user_api"] == "blas"}


@pytest.fixture
def blas3():
    """A BLAS that would use three threads."""
    pytest.importorskip("numpy")
    if not blas():
        pytest.skip("NumPy comes without a BLAS that threadpoolctl knows")
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        yield


@pytest.mark.usefixtures("blas3")
def test_blas_threads_limits_blas_in_tasks_and_no_longer(make_pool):
    """Each task sees the number; when the workers have gone, everybody sees the old one."""
    pool = make_pool(2, blas_threads=1)
    assert blas() == {3}  # not before there is a worker
    together = threading.Barrier(2)

    def task():
        together.wait(WAIT)
        return blas()

    assert [future.result(WAIT) for future in [pool.submit(task) for _ in range(2)]] == [{1}, {1}]
    pool.shutdown()
    assert blas() == {3}


@pytest.mark.usefixtures("blas3")
def test_blas_threads_ends_with_the_last_worker_of_all_pools(make_pool):
    """Of two pools the first to end does not lift the limit of the other."""
    one, other = make_pool(1, blas_threads=1), make_pool(1, blas_threads=1)
    assert one.submit(blas).result(WAIT) == other.submit(blas).result(WAIT) == {1}
    one.shutdown()
    assert other.submit(blas).result(WAIT) == {1}
    other.shutdown()
    assert blas() == {3}


@pytest.mark.usefixtures("blas3")
def test_blas_threads_is_set_around_initializer_and_finalizer(make_pool):
    """Both are called, in the worker, with their arguments, and see the limit."""
    seen = []
    pool = make_pool(
        1,
        blas_threads=2,
        initializer=lambda word: seen.append((word, blas())),
        initargs=("begin",),
        finalizer=lambda: seen.append(("end", blas())),
    )
    assert pool.submit(blas).result(WAIT) == {2}
    pool.shutdown()
    assert seen == [("begin", {2}), ("end", {2})] and blas() == {3}


@pytest.mark.usefixtures("blas3")
def test_blas_threads_is_taken_back_when_the_initializer_fails(make_pool, caplog):
    """The pool breaks as any would, and BLAS has its threads again."""
    pool = make_pool(1, blas_threads=1, initializer=boom)
    with pytest.raises(fjpool.BrokenThreadPool):
        pool.submit(abs, 1).result(WAIT)
    eventually(lambda: blas() == {3})
    assert "Boom" in caplog.text


@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (-1, ValueError), ("2", TypeError), (1.5, TypeError)]
)
def test_blas_threads_must_be_a_positive_integer(value, error):
    """Anything else is refused before there is a pool, by the argument's name."""
    with pytest.raises(error, match="blas_threads"):
        fjpool.ForkJoinPool(1, blas_threads=value)


def test_blas_threads_needs_threadpoolctl_and_says_so():
    """One clear ImportError, from the pool that wants it only."""
    code = """\
        sys.modules["threadpoolctl"] = None
        fjpool.ForkJoinPool(1).submit(abs, 1).result(WAIT)
        try:
            fjpool.ForkJoinPool(1, blas_threads=1)
        except ImportError as error:
            print(error)
    """
    assert output(code) == "blas_threads needs threadpoolctl: pip install threadpoolctl\n"


def test_import_of_fjpool_imports_nobody_elses_library():
    """What fjpool connects to is imported by whoever asks for it."""
    code = """\
        fjpool.ForkJoinPool(1).submit(abs, 1).result(WAIT)
        others = {"threadpoolctl", "joblib", "tqdm", "numpy", "dask", "anyio", "trio"}
        print(sorted(others & {name.split(".")[0] for name in sys.modules}))
    """
    assert output(code) == "[]\n"
