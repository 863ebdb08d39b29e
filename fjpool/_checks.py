"""What a pool's constructor accepts; each check raises one error that names what was expected."""

import operator
import sys

from . import _core, _cpus

MAX_WORKERS = _core.MAX_WORKERS
SPARES = 256
LEAST_KEEP_ALIVE = 0.02
MOST_KEEP_ALIVE = 1e9
LEAST_STACK = 64 * 1024
MOST_CAPACITY = 2**26
MAX_UNANNOUNCED = 64
LEAST_WINDOW = 0.02


def integer(name, value, low, high):
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if value < low:
        raise ValueError(f"{name} must be greater than {low - 1} and at most {high}, not {value}")
    if value > high:
        raise ValueError(f"{name} must be at most {high}, not {value}")
    return value


def sizes(parallelism, max_workers):
    """Both numbers, each given or derived from the other."""
    if parallelism is not None:
        parallelism = integer("parallelism", parallelism, 1, MAX_WORKERS)
    if max_workers is not None:
        max_workers = integer("max_workers", max_workers, 1, MAX_WORKERS)
    if parallelism is None:
        parallelism = max_workers or _cpus.default_parallelism()
    if max_workers is None:
        max_workers = min(parallelism + SPARES, MAX_WORKERS)
    if max_workers < parallelism:
        raise ValueError(f"max_workers must be at least parallelism ({parallelism}), not {max_workers}")
    return parallelism, max_workers


def keep_alive_seconds(value):
    if value is None:
        return float("inf")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"keep_alive must be seconds or None, not {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"keep_alive must be positive seconds or None, not {value}")
    if MOST_KEEP_ALIVE < value < float("inf"):
        raise ValueError(f"keep_alive must be at most {MOST_KEEP_ALIVE:g} seconds, or None")
    return max(float(value), LEAST_KEEP_ALIVE)


def check_prefix(value):
    if not isinstance(value, str):
        raise TypeError(f"thread_name_prefix must be a str, not {type(value).__name__}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"thread_name_prefix must be text without NUL and surrogates, not {value!r}")


def callable_or_none(name, value):
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a callable or None, not {type(value).__name__}")
    return value


def saturate_policy(value):
    """What the core wants: None to wait, True to raise, or the predicate."""
    if value == "wait":
        return None
    if value == "raise":
        return True
    if not callable(value):
        raise ValueError(f'saturate must be "wait", "raise" or a predicate of the pool, not {value!r}')
    return value


def window():
    """Seconds asleep before a worker counts as blocked: no GIL waiter sleeps so long."""
    return max(LEAST_WINDOW, 2 * sys.getswitchinterval())
