"""progress=: a callable that is told, or a tqdm bar in the terminal or the notebook."""

import threading

__all__ = ["Progress", "check_progress", "with_progress"]


def check_progress(progress):
    """Refuses what is neither None nor True nor a callable, and True where there is no tqdm."""
    if progress is True:
        _tqdm()
    if progress is not None and progress is not True and not callable(progress):
        raise TypeError(f"progress must be True or a callable, not {type(progress).__name__}")


def _tqdm():
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "tqdm":
            raise
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    return tqdm


def with_progress(results, progress, total):
    """The same results, each told of as it is taken."""
    if progress is True:
        return iter(_tqdm()(results, total=total))

    def report():
        for done, result in enumerate(results, 1):
            progress(done, total)
            yield result

    return report()


class Progress:
    """Counts positions as leaves are done, whichever worker ran them: one at a time, going up.

    The lock can be entered again, since what `progress` calls may run another leaf right there.
    """

    def __init__(self, progress, total):
        self._bar = _tqdm()(total=total) if progress is True else None
        self._tell, self._total = progress, total
        self._done, self._lock = 0, threading.RLock()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if self._bar is not None:
            self._bar.close()
        return False

    def add(self, positions):
        with self._lock:
            self._done += positions
            if self._bar is not None:
                self._bar.update(positions)
            else:
                self._tell(self._done, self._total)

    def after(self, leaf):
        """A leaf that tells when it is done."""

        def told(lo, hi, *args):
            value = leaf(lo, hi, *args)
            self.add(hi - lo)
            return value

        return told
