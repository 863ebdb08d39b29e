"""What every worker is doing at this moment, in words: ForkJoinPool.dump and dump_on_signal."""

import operator
import os
import platform
import queue
import signal
import sys
import threading
from concurrent.futures import thread as _futures_thread

from . import _blocking, _pool

__all__ = ["dump", "dump_on_signal"]

# ---- system calls ----

# Those that threads are found asleep in: name, number on x86-64, number on aarch64.
_CALLS = """
    accept 43 202, accept4 288 242, clock_nanosleep 230 115, connect 42 203, epoll_pwait 281 22,
    epoll_pwait2 441 441, epoll_wait 232 -, fcntl 72 25, fdatasync 75 83, flock 73 32, fsync 74 82,
    futex 202 98, futex_waitv 449 449, getdents64 217 61, io_getevents 208 4,
    io_uring_enter 426 426, mq_timedreceive 243 183, mq_timedsend 242 182, msgrcv 70 188,
    msgsnd 69 189, nanosleep 35 101, open 2 -, openat 257 56, pause 34 -, poll 7 -, ppoll 271 73,
    pread64 17 67, pselect6 270 72, pwrite64 18 68, read 0 63, readv 19 65, recvfrom 45 207,
    recvmmsg 299 243, recvmsg 47 212, restart_syscall 219 128, rt_sigsuspend 130 133,
    rt_sigtimedwait 128 137, select 23 -, semop 65 193, semtimedop 220 192, sendfile 40 71,
    sendmmsg 307 269, sendmsg 46 211, sendto 44 206, splice 275 76, wait4 61 260, waitid 247 95,
    write 1 64, writev 20 66
"""


def call_names(machine):
    """Names of system calls by number, for a `platform.machine()`; unknown machines have none."""
    column = {"x86_64": 1, "aarch64": 2}.get(machine)
    if column is None:
        return {}
    rows = [row.split() for row in _CALLS.split(",")]
    return {int(row[column]): row[0] for row in rows if row[column] != "-"}


_names = call_names(platform.machine())


def _call_name(number):
    return _names.get(number, f"system call {number}")


# ---- what a worker runs ----

# Whoever waits in these files waits on behalf of the caller: it is the caller that is named.
_HERE = os.path.dirname(__file__)
_PLUMBING = (threading.__file__, queue.__file__)
_FUTURES = os.path.dirname(_futures_thread.__file__)


def _is_plumbing(file):
    return os.path.dirname(file) in (_HERE, _FUTURES) or file in _PLUMBING


def _where(frame):
    """Function, file and line of the innermost frame that is neither fjpool nor its waiting."""
    while frame is not None and _is_plumbing(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    return f"{getattr(code, 'co_qualname', code.co_name)} ({code.co_filename}:{frame.f_lineno})"


def _what(frame, task, waits_for_gil):
    if (where := _where(frame)) is not None:
        return where
    if task is not None:
        return f"no Python code, for {_task(task)}"
    return "no Python code yet" if waits_for_gil else "a native leaf"


def _task(task):
    """As its repr, without a lock or a line of its class: this may be a signal's handler."""
    return f"<{type(task).__name__} at {id(task):#x} state={task._state.lower()}>"


# ---- its state ----


def _waits_in_a_primitive(frame):
    """sleep, Queue and the like wait for futures, too, but in that file."""
    return frame is not None and frame.f_code.co_filename == _blocking.__file__


def _state(activity, frame, awaited, call, waits_for_gil):
    if activity == "joining":
        if awaited is None or _waits_in_a_primitive(frame):
            return "managed-blocked"
        return f"joining {_task(awaited)}"
    if waits_for_gil and activity != "managed-blocked":
        return "waiting for the GIL"
    if call < 0:
        return activity
    return f"{activity.replace('running', 'blocked unannounced')} in {_call_name(call)}"


def _line(row, frames):
    name, activity, seconds, _, ident, task, awaited, call, waits_for_gil = row
    if activity == "idle":
        return f"  {name}: idle"
    if activity == "searching":
        return f"  {name}: looking for work"
    frame = frames.get(ident)
    state = _state(activity, frame, awaited, call, waits_for_gil)
    return f"  {name}: {_what(frame, task, waits_for_gil)}, {seconds:.1f} s, {state}"


def dump(pool):
    """The text of `ForkJoinPool.dump`."""
    frames = sys._current_frames()
    try:
        lines = [_line(row, frames) for row in pool._worker_states()]
    finally:
        frames.clear()  # this function's own frame is in it
    size, unannounced = pool.pool_size, pool._unannounced
    return "\n".join(
        [
            repr(pool),
            *lines,
            f"queued: {pool.queued_task_count} tasks, {pool.queued_submission_count} submissions",
            f"threads: {size}, spares: {max(0, size - pool.parallelism)}, limit: {pool.max_workers}, "
            f"reached: {pool._at_limit} times, refused by the system: {pool._refused}",
            f"blocked: {max(0, pool._blocked - unannounced)} announced, {unannounced} unannounced, "
            f"detections: {pool._detections}, by: {pool.detection_source or 'nothing'}",
        ]
    )


# ---- on a signal ----


def _is_live(pool):
    return not pool._is_inherited() and not pool.is_terminated


def _dump_all():
    pools = [ref() for ref in _pool.live.valuerefs()]
    texts = [dump(pool) for pool in pools if pool is not None and _is_live(pool)]
    return "\n".join([*texts, ""]) if texts else "no fjpool.ForkJoinPool in this process\n"


def _write(text, file):
    """Like faulthandler straight to the descriptor, where there is one: the signal may have come
    in the middle of a write to the same file object."""
    try:
        descriptor = file if isinstance(file, int) else file.fileno()
    except (AttributeError, OSError, ValueError):  # io.StringIO
        file.write(text)
        return
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]


_NOT_FOR_HANDLERS = {
    number
    for name in ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGBUS", "SIGILL", "SIGKILL", "SIGSTOP")
    if (number := getattr(signal, name, None)) is not None
}


def _check_signal(signum):
    try:
        number = operator.index(signum)
    except TypeError:
        raise TypeError(f"signum must be the number of a signal, not {type(signum).__name__}") from None
    if number not in signal.valid_signals():
        raise ValueError(f"signum must be the number of a signal, not {number}")
    if number in _NOT_FOR_HANDLERS:
        raise ValueError(f"{signal.Signals(number).name} cannot be used to ask for a dump")
    return number


def _check_file(file):
    if file is None or hasattr(file, "write"):
        return
    if not isinstance(file, int) or isinstance(file, bool):
        raise TypeError(
            f"file must be a file, a descriptor or None for sys.stderr, not {type(file).__name__}"
        )
    if file < 0:
        raise ValueError(f"file must be a descriptor of at least 0, not {file}")


def dump_on_signal(signum, file):
    """See `fjpool.dump_on_signal`."""
    number = _check_signal(signum)
    _check_file(file)

    def write_dump(_signum, _frame):
        target = sys.stderr if file is None else file
        if target is None:
            return  # a program without one
        try:
            _write(_dump_all(), target)
        except (OSError, ValueError):
            pass  # closed: no reason to fail whatever the main thread is at

    return signal.signal(number, write_dump)
