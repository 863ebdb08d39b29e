"""map, reduce, parallel_for: what a pool's methods and the module's functions share."""

import functools
import operator

from . import _core
from ._progress import Progress, check_progress

__all__ = [
    "invoke",
    "invoke_all",
    "map",
    "parallel_for",
    "parallel_reduce",
    "reduce",
    "starmap",
    "submit",
]


class _Missing:
    def __repr__(self) -> str:
        return "<no value>"


MISSING = _Missing()

INT64 = 2**63

# Numbers shared with csrc/py/leaf.c.
PYTHON_LEAF = 0
CALL, NOTHING = 0, 5
OPERATIONS = {operator.add: 1, operator.mul: 2, min: 3, max: 4}

# Leaves when no chunksize is given: enough to even out a skew, few enough that a Python leaf's
# cost does not show. Not a matter of workers, so that the tree, and a sum's bits, are the same.
LEAVES = 256


def _chunk(chunksize, n):
    if chunksize is None:
        return max(1, n // LEAVES)
    try:
        chunk = operator.index(chunksize)
    except TypeError:
        raise TypeError(f"chunksize must be an integer, not {type(chunksize).__name__}") from None
    if chunk < 1:
        raise ValueError(f"chunksize must be at least 1, not {chunk}")
    return min(chunk, INT64 - 1)


def check_tuple(name, value):
    """The value as a tuple."""
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(f"{name} must be a tuple, not {type(value).__name__}") from None


def _check_callable(name, function):
    if not callable(function):
        raise TypeError(f"{name} must be callable, not {type(function).__name__}")


# ---- ranges ----


def _bounds(start, stop):
    if isinstance(start, range):
        if stop is not None or start.step != 1:
            raise ValueError(f"expected n, start and stop, or a range of step 1, not {start}")
        start, stop = start.start, max(start.start, start.stop)
    elif stop is None:
        start, stop = 0, start
    try:
        start, stop = operator.index(start), operator.index(stop)
    except TypeError:
        raise TypeError(
            "the range must be given in integers: n, start and stop, or a range of step 1"
        ) from None
    if not (-INT64 <= start < INT64 and -INT64 <= stop < INT64 and stop - start < INT64):
        raise ValueError("positions must fit into int64")
    return start, stop


def _leaf(leaf, args, data, wants_value):
    """kind, owner, address, data: what the core needs to call a leaf."""
    from . import _leaves

    native = _leaves.resolve(leaf)
    if native is None:
        _check_callable("leaf" if wants_value else "body", leaf)
        if data is not None:
            raise TypeError("data= is for native leaves; give a Python leaf args=")
        return PYTHON_LEAF, leaf, 0, None
    if args:
        raise TypeError("args= is for Python leaves; give a native leaf data=, a buffer")
    if wants_value and not native.has_value:
        raise TypeError(
            "parallel_reduce needs a leaf with a value, double(int64, int64) or "
            f"int64(int64, int64), not {native.signature}; use parallel_for"
        )
    return native.kind, native, native.address, native.data_for(data)


# Reports on native leaves, at least so many if there are as many leaves.
REPORTS = 64


def _in_int64(combine):
    """The Python twin of combining int64 natively."""

    def combined(a, b):
        value = combine(a, b)
        if isinstance(value, int) and not -INT64 <= value < INT64:
            raise OverflowError(
                "the combined value does not fit into int64; combine in Python, for example with "
                "lambda a, b: a + b"
            )
        return value

    return combined


def _run(pool, leaf, args, start, stop, chunk, operation, combine, progress):
    """The range, natively; with progress, leaves in Python that tell of themselves.

    Native leaves tell nobody, so for them these are larger pieces. They are halved further in
    the same places, and so everything is combined as it is without progress.
    """
    kind, owner, address, data = leaf

    def native(lo, hi):
        return pool._range(kind, owner, address, args, lo, hi, chunk, operation, combine, data)

    if progress is None:
        return native(start, stop)
    with Progress(progress, stop - start) as seen:
        if kind == PYTHON_LEAF:
            leaf, piece, how, together = owner, chunk, operation, combine
        else:
            leaf, piece = native, max(chunk, (stop - start) // REPORTS)
            how = NOTHING if operation == NOTHING else CALL
            together = _in_int64(combine) if operation != CALL else combine
        leaf = seen.after(leaf)
        return pool._range(PYTHON_LEAF, leaf, 0, args, start, stop, piece, how, together, None)


def parallel_reduce_on(pool, leaf, start, stop, chunksize, combine, initial, args, data, progress):
    """`ForkJoinPool.parallel_reduce`."""
    check_progress(progress)
    _check_callable("combine", combine)
    args = check_tuple("args", args)
    start, stop = _bounds(start, stop)
    leaf = _leaf(leaf, args, data, True)
    chunk = _chunk(chunksize, stop - start)
    if start >= stop:
        if initial is MISSING:
            raise TypeError("parallel_reduce of an empty range with no initial value")
        return initial
    try:
        operation = OPERATIONS.get(combine, CALL)
    except TypeError:  # an unhashable callable
        operation = CALL
    total = _run(pool, leaf, args, start, stop, chunk, operation, combine, progress)
    return total if initial is MISSING else combine(initial, total)


def parallel_for_on(pool, body, start, stop, chunksize, args, data, progress):
    """`ForkJoinPool.parallel_for`."""
    check_progress(progress)
    args = check_tuple("args", args)
    start, stop = _bounds(start, stop)
    body = _leaf(body, args, data, False)
    chunk = _chunk(chunksize, stop - start)
    if start < stop:
        _run(pool, body, args, start, stop, chunk, NOTHING, None, progress)


def reduce_on(pool, fn, iterable, initial, chunksize, progress):
    """`ForkJoinPool.reduce`."""
    check_progress(progress)
    _check_callable("fn", fn)
    items = list(iterable)
    chunk = _chunk(chunksize, len(items))
    if not items:
        if initial is MISSING:
            raise TypeError("reduce of an empty iterable with no initial value")
        return initial

    def leaf(lo, hi):
        return functools.reduce(fn, items[lo:hi])

    leaf = PYTHON_LEAF, leaf, 0, None
    total = _run(pool, leaf, (), 0, len(items), chunk, CALL, fn, progress)
    return total if initial is MISSING else fn(initial, total)


# ---- the same on the ambient pool ----


def _pool_or_ambient(pool=None):
    from . import _common, _pool

    if pool is None:
        return _common.ambient_pool()
    if not isinstance(pool, _pool.ForkJoinPool):
        raise TypeError(f"pool must be a ForkJoinPool or None, not {type(pool).__name__}")
    return pool


def submit(fn, /, *args, **kwargs):
    """`ForkJoinPool.submit` on the ambient pool.

    That is the calling worker's own pool, else the one of ``with fjpool.use(pool)``, else the
    common pool.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.submit(pow, 2, 10).result()
    1024
    """
    return _pool_or_ambient().submit(fn, *args, **kwargs)


def invoke(task, /, *args, **kwargs):
    """`ForkJoinPool.invoke` on the ambient pool.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.invoke(pow, 2, 10)
    1024
    """
    return _pool_or_ambient().invoke(task, *args, **kwargs)


def map(
    fn,
    /,
    *iterables,
    timeout=None,
    chunksize="auto",
    buffersize=None,
    ordered=True,
    progress=None,
    pool=None,
):
    """`ForkJoinPool.map` on `pool`, by default the ambient one.

    Examples
    --------
    >>> import fjpool
    >>> list(fjpool.map(abs, [-1, 2]))
    [1, 2]
    """
    return _pool_or_ambient(pool).map(
        fn,
        *iterables,
        timeout=timeout,
        chunksize=chunksize,
        buffersize=buffersize,
        ordered=ordered,
        progress=progress,
    )


def starmap(
    fn,
    iterable,
    *,
    timeout=None,
    chunksize="auto",
    buffersize=None,
    ordered=True,
    progress=None,
    pool=None,
):
    """`ForkJoinPool.starmap` on `pool`, by default the ambient one.

    Examples
    --------
    >>> import fjpool
    >>> list(fjpool.starmap(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    return _pool_or_ambient(pool).starmap(
        fn,
        iterable,
        timeout=timeout,
        chunksize=chunksize,
        buffersize=buffersize,
        ordered=ordered,
        progress=progress,
    )


def reduce(fn, iterable, initial=MISSING, *, chunksize=None, progress=None, pool=None):
    """`ForkJoinPool.reduce` on `pool`, by default the ambient one.

    Examples
    --------
    >>> import fjpool, operator
    >>> fjpool.reduce(operator.add, range(1000), initial=0)
    499500
    """
    return _pool_or_ambient(pool).reduce(
        fn, iterable, initial, chunksize=chunksize, progress=progress
    )


def parallel_reduce(
    leaf,
    start,
    stop=None,
    *,
    chunksize=None,
    combine=operator.add,
    initial=MISSING,
    args=(),
    data=None,
    progress=None,
    pool=None,
):
    """`ForkJoinPool.parallel_reduce` on `pool`, by default the ambient one.

    On the common pool a caller outside of workers works on the leaves of its own call.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.parallel_reduce(lambda lo, hi: sum(range(lo, hi)), 1000)
    499500
    """
    pool = _pool_or_ambient(pool)
    return parallel_reduce_on(
        pool, leaf, start, stop, chunksize, combine, initial, args, data, progress
    )


def parallel_for(
    body, start, stop=None, *, chunksize=None, args=(), data=None, progress=None, pool=None
):
    """`ForkJoinPool.parallel_for` on `pool`, by default the ambient one.

    On the common pool a caller outside of workers works on the leaves of its own call.

    Examples
    --------
    >>> import fjpool
    >>> seen = [0] * 8
    >>> def body(lo, hi):
    ...     seen[lo:hi] = range(lo, hi)
    >>> fjpool.parallel_for(body, 8)
    >>> seen
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    parallel_for_on(_pool_or_ambient(pool), body, start, stop, chunksize, args, data, progress)


def invoke_all(*tasks):
    """Runs tasks in parallel and returns when all are done.

    All but the first are forked, last first; the first runs here; then they are joined in
    order, so that one worker runs them in order.

    Parameters
    ----------
    *tasks : Future
        Tasks that have not been forked; or one iterable of them.

    Returns
    -------
    list
        Their results.

    Raises
    ------
    BaseException
        What the first failing one raised; those that have not started are cancelled.
    TypeError
        Something is not a task; nothing has been forked.

    Examples
    --------
    >>> import fjpool
    >>> class Square(fjpool.RecursiveTask):
    ...     def __init__(self, x):
    ...         super().__init__()
    ...         self.x = x
    ...     def compute(self):
    ...         return self.x * self.x
    >>> fjpool.invoke_all(Square(2), Square(3))
    [4, 9]
    """
    if len(tasks) == 1 and not isinstance(tasks[0], _core.Task):
        tasks = tuple(tasks[0])
    for task in tasks:
        if not isinstance(task, _core.Task):
            raise TypeError(f"invoke_all expects tasks, not {type(task).__name__}")
    try:
        for task in reversed(tasks[1:]):
            task.fork()
        return [task.join() if i else task.invoke() for i, task in enumerate(tasks)]
    except BaseException:
        for task in tasks:
            task.cancel()
        raise
