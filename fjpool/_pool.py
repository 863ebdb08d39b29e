"""ForkJoinPool: Python's habits around _core.Pool."""

import itertools
import operator
import weakref
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

from . import _blocking, _checks, _core, _map, _parallel

__all__ = ["ForkJoinPool"]

_numbers = itertools.count(1)  # for pools without a prefix; next() is one step under the GIL
ARRIVAL_SECONDS = 1.0  # what a worker gets to start before the work it comes for is cancelled
live = weakref.WeakValueDictionary()  # every pool by its id, for dump_on_signal


class ForkJoinPool(_core.Pool, ThreadPoolExecutor):
    """A work-stealing pool of threads for tasks that split, wait for tasks, or release the GIL.

    Parameters
    ----------
    parallelism : int, optional
        Workers that should run at once, 1 to 32767. Default: `max_workers` if that is given,
        else the CPUs this process may use (CPU affinity and every cgroup quota).
    thread_name_prefix : str, optional
        Workers are named ``<prefix>_0``, ``<prefix>_1``...; without it
        ``ForkJoinPool-<pool>-worker-1`` and so on.
    initializer : callable, optional
        Called with `initargs` in each worker before its first task. If it raises, the pool is
        broken: waiting tasks and later submissions raise BrokenThreadPool.
    initargs : tuple, optional
        Arguments for `initializer`.
    max_workers : int, optional
        The most threads there will ever be, those that stand in for blocked ones included.
        Default: parallelism + 256.
    order : {"lifo", "fifo"}
        Which of its own forked tasks a worker takes first, the newest or the oldest. Thieves
        always take the oldest.
    keep_alive : float or None
        Seconds after which the workers of an idle pool leave; None: they stay. At least 0.02.
    stack_size : int, optional
        Bytes of stack a worker gets, at least 65536. Default: the system's.
    queue_capacity : int
        Tasks that one queue may hold, 2 to 2**26. Past it `RejectedExecutionError` is raised.
    finalizer : callable, optional
        Called in each worker as it leaves, to close what `initializer` opened.
    blocking : {"auto", "announced"}
        Whether workers that block without saying so are found (within 25 ms, on Linux) and
        replaced like those that do.
    max_unannounced : int
        The most threads that stand in for those, 0 to 32767.
    min_runnable : int, optional
        A blocked worker is replaced by a new thread only if fewer than so many run. Default:
        parallelism.
    saturate : {"wait", "raise"} or callable
        What happens when a worker blocks, work is queued and `max_workers` is reached: carry on
        without a replacement (counted, and warned about once a pool); raise
        `RejectedExecutionError` in the blocking task; or whatever ``saturate(pool)`` says, True
        meaning carry on.
    max_queued : int, optional
        The most tasks that threads outside may have queued, 1 to 2**26; the pool's own tasks are
        not limited. A cancelled task counts until a worker comes by. Default: no limit.
    when_full : {"wait", "raise"}
        What a thread outside meets then: it waits (Ctrl-C gets through), or
        `RejectedExecutionError`.
    join_at_exit : bool
        Whether the interpreter waits for this pool's work before it exits.
    blas_threads : int, optional
        Threads that BLAS libraries (NumPy's, SciPy's...) may use inside this pool's tasks; needs
        threadpoolctl. See Notes. Default: they are left alone.

    Raises
    ------
    ValueError, TypeError
        For a number out of range or a wrong type, before anything is created.
    ImportError
        `blas_threads` is given and threadpoolctl is not installed.

    Notes
    -----
    Building a pool starts no thread; threads come with work. Workers are daemons. Leaving the
    ``with`` block finishes what was submitted. After `os.fork` a pool of the parent raises a
    RuntimeError in the child.

    `blas_threads` is set as each worker starts, for the libraries that are loaded by then. MKL, and
    libraries built on OpenMP, keep such a number for each thread, and only the workers have it.
    OpenBLAS with threads of its own, as in NumPy's wheels, has one number for the process: it is
    changed for all threads from the start of the first worker until the last one has gone, and of
    several pools with different numbers the one that starts a worker last decides.

    The behaviour is Java's ForkJoinPool's, the interface that of
    `concurrent.futures.ThreadPoolExecutor`, which it is by isinstance.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     list(pool.map(abs, [-1, 2, -3]))
    [1, 2, 3]
    """

    def __init__(
        self,
        parallelism=None,
        thread_name_prefix="",
        initializer=None,
        initargs=(),
        *,
        max_workers=None,
        order="lifo",
        keep_alive=60.0,
        stack_size=None,
        queue_capacity=2**24,
        finalizer=None,
        blocking="auto",
        max_unannounced=_checks.MAX_UNANNOUNCED,
        min_runnable=None,
        saturate="wait",
        max_queued=None,
        when_full="wait",
        join_at_exit=True,
        blas_threads=None,
        _eager=False,
    ):
        parallelism, max_workers = _checks.sizes(parallelism, max_workers)
        _checks.check_prefix(thread_name_prefix)
        if order not in ("lifo", "fifo"):
            raise ValueError(f'order must be "lifo" or "fifo", not {order!r}')
        if stack_size is not None:
            stack_size = _checks.integer("stack_size", stack_size, _checks.LEAST_STACK, 2**40)
        queue_capacity = _checks.integer("queue_capacity", queue_capacity, 2, _checks.MOST_CAPACITY)
        keep_alive = _checks.keep_alive_seconds(keep_alive)
        _checks.callable_or_none("initializer", initializer)
        _checks.callable_or_none("finalizer", finalizer)
        if blocking not in ("auto", "announced"):
            raise ValueError(f'blocking must be "auto" or "announced", not {blocking!r}')
        max_unannounced = _checks.integer("max_unannounced", max_unannounced, 0, _checks.MAX_WORKERS)
        if min_runnable is not None:
            min_runnable = _checks.integer("min_runnable", min_runnable, 0, _checks.MAX_WORKERS)
        if max_queued is not None:
            max_queued = _checks.integer("max_queued", max_queued, 1, _checks.MOST_CAPACITY)
        if when_full not in ("wait", "raise"):
            raise ValueError(f'when_full must be "wait" or "raise", not {when_full!r}')
        initargs = _parallel.check_tuple("initargs", initargs)
        if blas_threads is not None:
            from . import _blas

            limit = _blas.Limit(_checks.integer("blas_threads", blas_threads, 1, _checks.MAX_WORKERS))
            initializer, initargs = limit.around(initializer, initargs), ()
            finalizer = limit.undone_after(finalizer)
        prefix = f"{thread_name_prefix}_" if thread_name_prefix else ""
        super().__init__(
            parallelism=parallelism,
            max_workers=max_workers,
            fifo=order == "fifo",
            keep_alive=keep_alive,
            stack_size=stack_size or 0,
            queue_capacity=queue_capacity,
            prefix=prefix or f"ForkJoinPool-{next(_numbers)}-worker-",
            first=0 if prefix else 1,
            initializer=initializer,
            initargs=initargs,
            finalizer=finalizer,
            join_at_exit=bool(join_at_exit),
            common=False,
            min_runnable=_checks.MAX_WORKERS if min_runnable is None else min_runnable,
            eager=_eager,
            monitor=blocking == "auto",
            max_unannounced=max_unannounced,
            window=_checks.window(),
            saturate=_checks.saturate_policy(saturate),
            max_queued=max_queued or 0,
            waits_for_room=when_full == "wait",
        )
        self._most_at_once = max_queued
        self._order = order
        self._detects = blocking == "auto"
        self._limit = max_workers
        live[id(self)] = self

    # -- running things ------------------------------------------------------

    def invoke(self, task, /, *args, **kwargs):
        """Runs a task, or a callable with arguments, and returns its result.

        Parameters
        ----------
        task : Future or callable
            A RecursiveTask, RecursiveAction or any other task; or a function.
        *args, **kwargs
            Arguments for a function.

        Raises
        ------
        BaseException
            What the task raised, the same object.
        TypeError
            `task` is neither, or arguments were given for a task.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     pool.invoke(pow, 2, 5)
        32
        """
        if isinstance(task, _core.Task):
            if args or kwargs:
                raise TypeError("a task takes no arguments here; give them to its constructor")
            if self._is_mine():
                return task.invoke()
            return self._result_of(self._submit_task, task)
        if not callable(task):
            raise TypeError(f"invoke expects a task or a callable, not {type(task).__name__}")
        if self._is_mine():
            return task(*args, **kwargs)
        return self._result_of(self.submit, task, *args, **kwargs)

    def submit_many(self, fn, iterable, /):
        """Submits ``fn(item)`` for each item, and hands all of them in at once.

        Parameters
        ----------
        fn : callable
            Called with one item.
        iterable : iterable
            Read to its end before anything is handed in; with `max_queued`, so many at a time.

        Returns
        -------
        list of Future
            One for each item, in order.

        Raises
        ------
        RuntimeError
            The pool takes no more tasks; what was handed in already is cancelled.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     [future.result() for future in pool.submit_many(abs, [-1, 2, -3])]
        [1, 2, 3]
        """
        return self._in_pieces(fn, iterable, False)

    def execute_many(self, fn, iterable, /):
        """Runs ``fn(item)`` for each item as `execute` does; handed in as by `submit_many`.

        Examples
        --------
        >>> import fjpool
        >>> seen = []
        >>> with fjpool.ForkJoinPool(1) as pool:
        ...     pool.execute_many(seen.append, range(3))
        >>> seen
        [0, 1, 2]
        """
        self._in_pieces(fn, iterable, True)

    def _in_pieces(self, fn, iterable, unseen):
        if self._most_at_once is None:
            return self._submit_many(fn, iterable, unseen)
        futures, items = [], iter(iterable)
        try:
            while piece := list(itertools.islice(items, self._most_at_once)):
                futures += self._submit_many(fn, piece, unseen)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return futures

    @staticmethod
    def _result_of(submit, /, *args, **kwargs):
        future = None
        try:
            future = submit(*args, **kwargs)
            return future.result()
        except BaseException:
            if future is not None:
                future.cancel()  # an interrupted wait takes back what it submitted
            raise
        finally:
            del future  # an exception that is kept would keep it, and the other way round

    def map(
        self,
        fn,
        /,
        *iterables,
        timeout=None,
        chunksize="auto",
        buffersize=None,
        ordered=True,
        progress=None,
    ):
        """Calls `fn` with the items of the iterables in parallel; yields results in order.

        Parameters
        ----------
        fn : callable
            Called with one item of each iterable.
        *iterables : iterable
            Read at once, unless `buffersize` is given; the shortest one decides the number of
            calls.
        timeout : float, optional
            Seconds from now within which each result must be there.
        chunksize : int or "auto"
            Calls that one task makes. "auto" begins with single calls, and offers what is left of
            a task's calls to other workers while it runs.
        buffersize : int, optional
            Read at most so many items ahead of the results taken: for long or endless inputs.
        ordered : bool
            False: results come as they are ready.
        progress : True or callable, optional
            True shows a tqdm bar; a callable is called as ``progress(done, total)`` for each
            result taken (total is None if `buffersize` is given).

        Returns
        -------
        iterator
            Of the results; it raises what a call raised.

        Raises
        ------
        TimeoutError
            From the iterator, when a result is not there in time.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     list(pool.map(pow, [2, 3], [5, 2]))
        [32, 9]
        """
        return _map.map_on(
            self, fn, iterables, False, timeout, chunksize, buffersize, ordered, progress
        )

    def starmap(
        self,
        fn,
        iterable,
        *,
        timeout=None,
        chunksize="auto",
        buffersize=None,
        ordered=True,
        progress=None,
    ):
        """Like `map`, for items that are tuples of arguments.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     list(pool.starmap(pow, [(2, 5), (3, 2)]))
        [32, 9]
        """
        return _map.map_on(
            self, fn, (iterable,), True, timeout, chunksize, buffersize, ordered, progress
        )

    def reduce(self, fn, iterable, initial=_parallel.MISSING, *, chunksize=None, progress=None):
        """Combines the items with an associative function, as a tree, keeping their order.

        Parameters
        ----------
        fn : callable
            ``fn(a, b)``; it must be associative and need not be commutative.
        iterable : iterable
            Read at once.
        initial : object, optional
            Combined on the left of everything, once.
        chunksize : int, optional
            Items that one task combines one after another.
        progress : True or callable, optional
            As for `parallel_reduce`, in items.

        Raises
        ------
        TypeError
            The iterable is empty and there is no `initial`.

        Examples
        --------
        >>> import fjpool, operator
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     pool.reduce(operator.add, ["a", "b", "c"], initial="")
        'abc'
        """
        return _parallel.reduce_on(self, fn, iterable, initial, chunksize, progress)

    def parallel_reduce(
        self,
        leaf,
        start,
        stop=None,
        *,
        chunksize=None,
        combine=operator.add,
        initial=_parallel.MISSING,
        args=(),
        data=None,
        progress=None,
    ):
        """Splits a range into leaves, runs them in parallel, and combines their values in order.

        The range is halved until a piece has at most `chunksize` positions, so the tree, and with
        it a floating-point result, is the same for every number of workers.

        Parameters
        ----------
        leaf : callable or native leaf
            ``leaf(lo, hi, *args) -> value`` for the positions [lo, hi). A native leaf is a C
            function ``double(int64, int64)`` or ``int64(int64, int64)``, each also with a
            trailing ``void *``: a Numba @cfunc, a ctypes function with its argtypes, a cffi
            function pointer, a PyCapsule named by its signature, a SciPy LowLevelCallable. It
            runs without the GIL.
        start, stop : int
            The range [start, stop). One number n means [0, n); a ``range`` of step 1 will do.
        chunksize : int, optional
            Most positions of one leaf.
        combine : callable
            ``combine(a, b)``, associative. operator.add, operator.mul, min and max combine the
            values of native leaves natively; int64 overflow raises OverflowError.
        initial : object, optional
            Combined on the left of everything, once; the result of an empty range.
        args : tuple, optional
            More arguments for a Python leaf.
        data : buffer, optional
            What a native leaf's ``void *`` points to; kept alive.
        progress : True or callable, optional
            True shows a tqdm bar; a callable is called as ``progress(done, total)``, in positions,
            when a leaf is done (a group of them if they are native), by whichever thread ran it
            but by one at a time. What it raises ends the call.

        Raises
        ------
        BaseException
            What a leaf or combine raised, the first; leaves that have not started are skipped.
        TypeError, ValueError
            Bad arguments, before anything runs; an empty range without `initial`.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     pool.parallel_reduce(lambda lo, hi: sum(range(lo, hi)), 0, 1000, chunksize=100)
        499500
        """
        return _parallel.parallel_reduce_on(
            self, leaf, start, stop, chunksize, combine, initial, args, data, progress
        )

    def parallel_for(
        self, body, start, stop=None, *, chunksize=None, args=(), data=None, progress=None
    ):
        """Runs ``body(lo, hi, *args)`` for pieces that make up a range, in parallel.

        Parameters
        ----------
        body : callable or native leaf
            As the leaf of `parallel_reduce`; also ``void(int64, int64)`` and
            ``int(int64, int64, void *)``, whose result other than 0 skips the rest and raises
            `LeafError`. What it returns otherwise is ignored.
        start, stop, chunksize, args, data, progress
            As for `parallel_reduce`.

        Examples
        --------
        >>> import fjpool
        >>> squares = [0] * 10
        >>> def body(lo, hi):
        ...     for i in range(lo, hi):
        ...         squares[i] = i * i
        >>> with fjpool.ForkJoinPool(2) as pool:
        ...     pool.parallel_for(body, 10)
        >>> squares[9]
        81
        """
        _parallel.parallel_for_on(self, body, start, stop, chunksize, args, data, progress)

    # -- the end -------------------------------------------------------------

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Takes no more outside work; what was submitted still runs.

        Parameters
        ----------
        wait : bool
            Return only when every task has run and every worker has gone.
        cancel_futures : bool
            Cancel what has not started. Workers that are being woken or started for it at this
            moment still get a task each.

        Raises
        ------
        RuntimeError
            `wait` from one of the pool's own tasks: it could never end.

        Notes
        -----
        The pool's own tasks may go on to fork and submit, and that runs as well. Only a chain of
        a million tasks since the shutdown, each submitted by the one before, is taken for an
        endless one: its last submission raises `RejectedExecutionError`.
        """
        if self._is_inherited():
            return  # after os.fork: the parent's, and nothing of it runs here
        if cancel_futures:
            try:
                self._let_workers_arrive()
            finally:
                self._stop()
        else:
            self._refuse()
        if wait:
            self._await_termination(None)

    def _let_workers_arrive(self):
        """Who submits and cancels at once finds the first calls started, as with other pools."""
        end = monotonic() + ARRIVAL_SECONDS
        while self._searching and monotonic() < end:
            if not self.queued_submission_count and not self.queued_task_count:
                return
            sleep(0.0001)

    def shutdown_now(self):
        """Takes no more work, cancels what has not started, asks what runs to stop.

        A running task is woken with CancelledError where it waits in fjpool, and sees
        ``fjpool.current_task().cancel_requested``. Does not wait.
        """
        self._stop()
        self._interrupt()

    def close(self):
        """Finishes what was submitted and waits for it; ``with`` does this at its end.

        Interrupted by Ctrl-C, it cancels what has not started, waits for the rest, and raises.
        """
        try:
            self.shutdown(wait=True)
        except KeyboardInterrupt:
            self.shutdown(wait=True, cancel_futures=True)
            raise

    def __exit__(self, kind, value, traceback):
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self.shutdown(wait=True, cancel_futures=True)
        else:
            self.close()
        return False

    def await_termination(self, timeout=None):
        """Waits until a pool that was shut down has ended.

        Returns
        -------
        bool
            False: the time, in seconds, was not enough.
        """
        return self._await_termination(timeout)

    def await_quiescence(self, timeout=None):
        """Waits until nothing is queued and no worker is busy.

        Returns
        -------
        bool
            False: the time, in seconds, was not enough.
        """
        return self._await_quiescence(timeout)

    @property
    def is_shutdown(self) -> bool:
        """Whether outside work is refused."""
        return bool(self._phase() & _core.SHUTDOWN)

    @property
    def is_terminated(self) -> bool:
        """Whether it was shut down and every worker has gone."""
        return bool(self._phase() & _core.TERMINATED)

    @property
    def is_quiescent(self) -> bool:
        """Whether, for a moment at least, nothing was queued and no worker busy."""
        return self._is_quiescent()

    # -- looking at it -------------------------------------------------------

    @property
    def order(self) -> str:
        """Which of its own tasks a worker takes first: "lifo" or "fifo"."""
        return self._order

    @property
    def max_workers(self) -> int:
        """The most threads there will ever be."""
        return self._limit

    @property
    def _shutdown(self) -> bool:  # the standard pool's attribute
        return self.is_shutdown

    @property
    def _broken(self):
        return self._is_broken()

    @property
    def _threads(self):  # those it could join: workers are started in C, and `pool_size` counts them
        return set()

    @property
    def _max_workers(self) -> int:  # what dask and joblib look at
        return self.parallelism

    def managed_block(self, blocker):
        """Runs a `ManagedBlocker`: see there."""
        _blocking.run_blocker(blocker)

    def dump(self):
        """What each worker is doing, one line a worker, then the pool's numbers.

        Returns
        -------
        str
            Worker name, what it runs (function, file, line), for how long, and its state:
            running, joining a task, managed-blocked, blocked unannounced in a system call,
            waiting for the GIL, idle. Then queues, spares and limit.

        Examples
        --------
        >>> import fjpool
        >>> with fjpool.ForkJoinPool(1) as pool:
        ...     print(pool.dump())  # doctest: +ELLIPSIS
        <ForkJoinPool [Running, parallelism = 1, ...
        """
        from . import _dump

        return _dump.dump(self)

    @property
    def detection_source(self) -> "str | None":
        """How workers that block unannounced are found, in words; None: they are not.

        That is so with ``blocking="announced"``, where callers run their own tasks, and where the
        system does not say what a thread is doing.
        """
        return _core.detection_source() if self._detects else None

    def leaf_counts(self):
        """How many leaves of parallel_for and parallel_reduce each worker has run.

        Returns
        -------
        dict of str to int
            By worker name; a caller that took part counts as "caller".
        """
        counts = {}
        for name, leaves, _, _ in self._worker_rows():
            if leaves:
                counts[name] = counts.get(name, 0) + leaves
        return counts

    def __repr__(self) -> str:
        if self._is_inherited():
            return f"<{type(self).__name__} of the parent process>"
        phase = self._phase()
        state = (
            "Terminated" if phase & _core.TERMINATED
            else "Terminating" if phase & _core.STOP
            else "Shutting down" if phase & _core.SHUTDOWN
            else "Running"
        )  # fmt: skip
        return (
            f"<{type(self).__name__} [{state}, parallelism = {self.parallelism}, "
            f"size = {self.pool_size}, active = {self.active_count}, running = {self.running_count}, "
            f"steals = {self.steal_count}, tasks = {self.queued_task_count}, "
            f"submissions = {self.queued_submission_count}]>"
        )
