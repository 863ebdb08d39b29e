"""fjpool as a backend of joblib: ``fjpool.joblib.register()``, then ``backend="fjpool"``."""

import multiprocessing

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

from . import _core, _errors
from ._common import ambient_pool

__all__ = ["FJPoolBackend", "register"]


class FJPoolBackend(AutoBatchingMixin, ParallelBackendBase):
    """Runs joblib's batches on a fork/join pool, nested calls included.

    Parameters
    ----------
    pool : ForkJoinPool, optional
        Default: the pool of the calling worker, else that of ``with fjpool.use(pool)``, else the
        common pool.

    Notes
    -----
    The pool's size says how many calls run at a time, n_jobs only how many joblib hands out ahead;
    n_jobs=1 runs in the caller. A nested call runs on the same pool: there are never cores times
    cores threads. In a nested call that returns a generator the worker itself makes the calls, one
    after another.
    """

    supports_sharedmem = True
    supports_timeout = True
    supports_return_generator = True
    uses_threads = True

    def __init__(self, pool=None, **options):
        super().__init__(**options)
        self._given = pool
        self._pool = None
        # joblib waits by looking every 10 ms. A worker must not: it takes what it waits for, and
        # runs it if nobody else has.
        self.supports_retrieve_callback = _core.current_pool() is None

    def effective_n_jobs(self, n_jobs):
        """What joblib is to take for n_jobs; from -1 down it is the workers of the pool."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs == 1:
            return 1
        pool = self._given or ambient_pool()
        if not _core.Pool.parallelism.__get__(pool):
            return 1  # nobody but the caller
        # Not less than was asked for: of 1 joblib would make a loop in the caller, and a pool
        # with fewer workers replaces those that block.
        return n_jobs if n_jobs > 0 else pool.parallelism

    def configure(self, n_jobs=1, parallel=None, **options):
        """Called by joblib before the first batch."""
        self.parallel = parallel
        self._pool = self._given or ambient_pool()
        if parallel is not None and parallel.return_generator and not self.supports_retrieve_callback:
            return 1
        return self.effective_n_jobs(n_jobs)

    def submit(self, func, callback=None):
        """Schedules a batch."""
        future = self._pool.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit

    def retrieve_result_callback(self, future):
        """What the batch returned; raises what it raised."""
        return future.result()

    def retrieve_result(self, future, timeout=None):
        """The same where a worker waits."""
        try:
            return future.result(timeout)
        except _errors.TimeoutError:
            if future.done():
                raise  # the batch's own
            raise multiprocessing.TimeoutError from None

    def get_nested_backend(self):
        """Nested calls share the pool."""
        nested = type(self)(self._given, nesting_level=(self.nesting_level or 0) + 1)
        nested.supports_retrieve_callback = False
        return nested, None

    def abort_everything(self, ensure_ready=True):
        """joblib cancels what it submitted; the pool itself goes on."""
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)


def register(name="fjpool"):
    """Makes ``parallel_config(backend="fjpool")`` known to joblib.

    Examples
    --------
    >>> import fjpool.joblib
    >>> from joblib import Parallel, delayed, parallel_config
    >>> fjpool.joblib.register()
    >>> with parallel_config(backend="fjpool", n_jobs=2):
    ...     Parallel()(delayed(abs)(-i) for i in range(3))
    [0, 1, 2]
    """
    register_parallel_backend(name, FJPoolBackend)
