"""fjpool as a backend of joblib: ``fjpool.joblib.register()``, then ``backend="fjpool"``."""

from joblib import register_parallel_backend
from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase

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
    The pool's size counts, not n_jobs, except that n_jobs=1 runs in the caller. A nested call
    runs on the same pool: there are never cores times cores threads.
    """

    supports_retrieve_callback = True
    supports_sharedmem = True
    uses_threads = True

    def __init__(self, pool=None, **options):
        super().__init__(**options)
        self._given = pool
        self._pool = None

    def effective_n_jobs(self, n_jobs):
        """How many jobs run at once."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs == 1:
            return 1
        pool = self._given or ambient_pool()
        return pool.parallelism if n_jobs < 0 else min(n_jobs, pool.parallelism)

    def configure(self, n_jobs=1, parallel=None, **options):
        """Called by joblib before the first batch."""
        self.parallel = parallel
        self._pool = self._given or ambient_pool()
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

    def get_nested_backend(self):
        """Nested calls share the pool."""
        return FJPoolBackend(self._given, nesting_level=(self.nesting_level or 0) + 1), None

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
