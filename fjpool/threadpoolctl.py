"""The common pool for threadpoolctl: after ``register()`` it shows up and can be limited."""

import threadpoolctl

from . import __version__
from ._common import common_pool

__all__ = ["CommonPoolController", "register"]

_registered = False


class CommonPoolController(threadpoolctl.LibController):
    """How threadpoolctl reads and limits the parallelism of the common pool.

    Notes
    -----
    A limit holds for the whole process, whichever thread sets it. Workers that are busy finish
    their tasks first. Pools of your own have the parallelism that they were made with.
    """

    user_api = "fjpool"
    internal_api = "fjpool"
    filename_prefixes = ("_core.",)
    check_symbols = ("fjpool_get_num_threads", "fjpool_set_num_threads")

    def get_num_threads(self):
        """The parallelism of the common pool, which is made if there is none yet."""
        common_pool()
        return max(self.dynlib.fjpool_get_num_threads(), 1)

    def set_num_threads(self, num_threads):
        """Sets it, within 1 and the pool's max_workers."""
        self.dynlib.fjpool_set_num_threads(max(1, min(num_threads, common_pool().max_workers)))

    def get_version(self):
        """fjpool's."""
        return __version__


def register():
    """Makes the common pool known to threadpoolctl, as ``user_api="fjpool"``.

    Examples
    --------
    >>> import fjpool.threadpoolctl, threadpoolctl
    >>> fjpool.threadpoolctl.register()
    >>> with threadpoolctl.threadpool_limits(1, user_api="fjpool"):
    ...     fjpool.common_pool().parallelism
    1
    """
    global _registered
    if not _registered:
        threadpoolctl.register(CommonPoolController)
        _registered = True
