"""``ForkJoinPool(blas_threads=n)``: BLAS libraries are limited while the pool has workers."""

import os
import threading

try:
    import threadpoolctl
except ModuleNotFoundError as error:
    if error.name != "threadpoolctl":
        raise
    raise ImportError("blas_threads needs threadpoolctl: pip install threadpoolctl") from None

__all__ = ["Limit"]

_lock = threading.Lock()
_workers = 0  # of all pools with a limit
_before = {}  # file of a library: its number before the first of them


def _libraries():
    found = threadpoolctl.ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


def _set(library, threads):
    # threadpoolctl lets one thread at a time decide for OpenBLAS. The workers of a pool come and
    # go and all say the same, so none of them keeps that right, nor finds it taken.
    free = getattr(library, "clear_controlling_thread", lambda force: None)
    free(force=True)
    library.set_num_threads(threads)
    free(force=True)


class Limit:
    """A number of BLAS threads, for the workers of one pool."""

    def __init__(self, threads):
        self._threads = threads

    def _begin(self):
        global _workers
        with _lock:
            for library in _libraries():
                _before.setdefault(library.filepath, library.num_threads)
                _set(library, self._threads)
            _workers += 1

    def _end(self):
        global _workers
        with _lock:
            _workers -= 1
            if _workers == 0:
                for library in _libraries():
                    if _before.get(library.filepath) is not None:
                        _set(library, _before[library.filepath])
                _before.clear()

    def around(self, initializer, initargs):
        """An initializer that sets the limit, then calls the given one."""

        def begin():
            self._begin()
            try:
                if initializer is not None:
                    initializer(*initargs)
            except BaseException:
                self._end()  # after a failure there is no finalizer
                raise

        return begin

    def undone_after(self, finalizer):
        """A finalizer that calls the given one, then leaves BLAS as it was before."""

        def end():
            try:
                if finalizer is not None:
                    finalizer()
            finally:
                self._end()

        return end


def _after_fork():
    global _lock, _workers
    _lock, _workers = threading.Lock(), 0  # what is left set, the next pool's end puts back


os.register_at_fork(after_in_child=_after_fork)
