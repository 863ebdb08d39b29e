"""How many CPUs this process may use, and what decides it.

The settings of the environment come first, then the CPU affinity and the CPU
quotas of the process's control group and of all groups above it, version 1 and
version 2. `import fjpool` runs this, so it imports nothing that costs time.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "CpuLimit",
    "usable_cpus",
    "default_parallelism",
    "common_parallelism",
    "common_maximum_spares",
]

MAX_PARALLELISM = 32767
"""No pool has more workers than this, spares included."""

DEFAULT_SPARES = 256


class CpuLimit:
    """A number of CPUs and, in words, the limit that decided it.

    Attributes
    ----------
    count : int
        CPUs, at least 1.
    source : str
        The environment variable, ``"affinity"``, or the file of the quota.
    """

    __slots__ = ("count", "source")

    count: int
    source: str

    def __init__(self, count: int, source: str) -> None:
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "source", source)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a CpuLimit does not change: cannot set {name!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CpuLimit):
            return NotImplemented
        return self.count == other.count and self.source == other.source

    def __hash__(self) -> int:
        return hash((self.count, self.source))

    def __repr__(self) -> str:
        return f"CpuLimit(count={self.count}, source={self.source!r})"


def usable_cpus(
    root: "str | os.PathLike[str]" = "/",
    *,
    environ: "Mapping[str, str] | None" = None,
    affinity: "int | None" = None,
) -> CpuLimit:
    """Return how many CPUs this process may use, and what decided it.

    ``FJPOOL_NUM_THREADS`` wins over ``PYTHON_CPU_COUNT`` (or ``-X cpu_count``),
    and that over what the system grants: the CPU affinity and the tightest
    quota of the control groups, a fraction rounded up.

    Parameters
    ----------
    root : str, optional
        Where ``/proc`` and ``/sys`` are looked for; a test has others.
    environ : mapping, optional
        In place of `os.environ`.
    affinity : int, optional
        In place of the number of CPUs that the scheduler allows.

    Returns
    -------
    CpuLimit

    Warns
    -----
    RuntimeWarning
        For a setting that is not a positive integer; it is ignored.

    Notes
    -----
    A file that is missing, empty, malformed or unreadable limits nothing.
    Nothing is remembered: a later call sees a changed affinity or quota.

    Examples
    --------
    >>> usable_cpus(environ={"FJPOOL_NUM_THREADS": "6"})
    CpuLimit(count=6, source='FJPOOL_NUM_THREADS')
    """
    if environ is None:
        environ = os.environ
    settings = [("FJPOOL_NUM_THREADS", environ.get("FJPOOL_NUM_THREADS"))]
    if "cpu_count" in sys._xoptions:  # stands before the variable, as in Python
        settings.append(("-X cpu_count", str(sys._xoptions["cpu_count"])))
    else:
        settings.append(("PYTHON_CPU_COUNT", environ.get("PYTHON_CPU_COUNT")))
    if settings[1][1] == "default":
        del settings[1]
    for name, text in settings:
        count = _setting(name, text, "a positive integer", least=1)
        if count is not None:
            return CpuLimit(min(count, MAX_PARALLELISM), name)

    root = os.fspath(root).rstrip("/")
    limit = _affinity() if affinity is None else CpuLimit(affinity, "affinity")
    for count, source in _quotas(root):
        if count < limit.count:
            limit = CpuLimit(count, source)
    return limit


def default_parallelism(*, environ: "Mapping[str, str] | None" = None) -> int:
    """Return the parallelism of a pool that is told none: the usable CPUs."""
    return min(usable_cpus(environ=environ).count, MAX_PARALLELISM)


def common_parallelism(*, environ: "Mapping[str, str] | None" = None) -> int:
    """Return the parallelism of the common pool.

    Parameters
    ----------
    environ : mapping, optional
        In place of `os.environ`.

    Returns
    -------
    int
        ``FJPOOL_COMMON_PARALLELISM`` if it is set, a negative one counting as
        0; otherwise one less than the usable CPUs, at least 1. With 0 there are
        no workers: whoever waits for a task runs it.

    Warns
    -----
    RuntimeWarning
        For a setting that is not an integer; it is ignored.

    Examples
    --------
    >>> common_parallelism(environ={"FJPOOL_NUM_THREADS": "6"})
    5
    >>> common_parallelism(environ={"FJPOOL_COMMON_PARALLELISM": "0"})
    0
    """
    if environ is None:
        environ = os.environ
    name = "FJPOOL_COMMON_PARALLELISM"
    count = _setting(name, environ.get(name), "an integer (0: the caller runs its tasks)")
    if count is not None:
        return min(max(count, 0), MAX_PARALLELISM)
    return max(1, default_parallelism(environ=environ) - 1)


def common_maximum_spares(*, environ: "Mapping[str, str] | None" = None) -> int:
    """Return how many spares the common pool may have beyond its parallelism.

    Parameters
    ----------
    environ : mapping, optional
        In place of `os.environ`.

    Returns
    -------
    int
        ``FJPOOL_COMMON_MAXIMUM_SPARES``, clipped to 0…32767; 256 if not set.

    Warns
    -----
    RuntimeWarning
        For a setting that is not an integer; it is ignored.

    Examples
    --------
    >>> common_maximum_spares(environ={})
    256
    """
    if environ is None:
        environ = os.environ
    name = "FJPOOL_COMMON_MAXIMUM_SPARES"
    count = _setting(name, environ.get(name), f"an integer from 0 to {MAX_PARALLELISM}")
    if count is None:
        return DEFAULT_SPARES
    return min(max(count, 0), MAX_PARALLELISM)


def _setting(
    name: str, text: "str | None", expected: str, least: "int | None" = None
) -> "int | None":
    """The integer that `text` spells; None if it spells nothing, with a warning unless blank."""
    if text is None or not text.strip():
        return None
    try:
        value = int(text)
    except ValueError:
        pass
    else:
        if least is None or value >= least:
            return value
    import warnings

    warnings.warn(f"{name}={text!r} is ignored: expected {expected}", RuntimeWarning, stacklevel=3)
    return None


def _affinity() -> CpuLimit:
    """The CPUs that the scheduler allows, or where that is not known, all there are."""
    try:
        return CpuLimit(len(os.sched_getaffinity(0)), "affinity")
    except (AttributeError, OSError):
        return CpuLimit(os.cpu_count() or 1, "CPUs of the machine")


# --- quotas ----------------------------------------------------------------------------------
#
# /proc/self/cgroup has a line for each hierarchy, "ID:CONTROLLERS:PATH", where version 2 is
# "0::PATH". /proc/self/mountinfo says where the hierarchies are mounted, and for each mount
# which group is its root: in a container that is often the container's own, so that the groups
# above it cannot be seen from inside. A quota binds whatever the groups below it say, so all
# files from the process's group up to the root of the mount are read.


def _quotas(root: str) -> "Iterator[tuple[int, str]]":
    """Yield (CPUs, source) for each quota of this process's groups."""
    groups = _read(root, "/proc/self/cgroup")
    if not groups:
        return
    paths: dict[str, str] = {}
    for line in groups.split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[2].startswith("/"):
            if parts[0] == "0" and not parts[1]:
                paths["v2"] = parts[2]
            elif "cpu" in parts[1].split(","):
                paths["v1"] = parts[2]
    if not paths:
        return
    mounts = _mounts(root)
    for version, path in paths.items():
        read = _quota_v1 if version == "v1" else _quota_v2
        place = _place(root, path, mounts[version])
        if place is None:
            continue
        top, below = place
        while True:
            limit = read(root, top + below)
            if limit is not None:
                yield limit
            if not below:
                break
            below = below.rpartition("/")[0]


def _mounts(root: str) -> "dict[str, list[tuple[str, str]]]":
    """The mounts of each version as lists of (root of the mount, mount point)."""
    mounts: dict[str, list[tuple[str, str]]] = {"v1": [], "v2": []}
    for line in _read(root, "/proc/self/mountinfo").split("\n"):
        # ID PARENT DEVICE ROOT POINT OPTIONS [FIELD ...] - TYPE SOURCE SUPER_OPTIONS
        if " - cgroup" not in line:
            continue
        left, _, right = line.partition(" - ")
        mount, kind = left.split(" "), right.split(" ")
        if len(mount) < 6 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            version = "v2"
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            version = "v1"
        else:
            continue
        mounts[version].append((_unescape(mount[3]).rstrip("/"), _unescape(mount[4]).rstrip("/")))
    return mounts


def _place(root: str, path: str, mounts: "list[tuple[str, str]]") -> "tuple[str, str] | None":
    """Where the group `path` is: (mount point, path below it), or None without a mount."""
    path = path.rstrip("/")
    best = None
    for base, point in mounts:
        below = path[len(base) :]
        contains = path == base + below and below[:1] in ("", "/") and not _climbs(below)
        if contains and (best is None or len(below) > len(best[1])):
            best = point, below  # shows more of the groups above
    if best is not None or not mounts:
        return best
    # The path belongs to another namespace than the mount. The tail of it that exists below
    # the mount point is the best guess; the mount point itself is the container's group.
    point = mounts[0][1]
    below = "" if _climbs(path) else path
    while below and not os.path.isdir(root + point + below):
        _, slash, tail = below[1:].partition("/")
        below = slash + tail
    return point, below


def _climbs(path: str) -> bool:
    """Whether it leads out: groups above a namespace's own show as ".."."""
    return ".." in path and ".." in path.split("/")


def _quota_v2(root: str, group: str) -> "tuple[int, str] | None":
    """The quota of a version 2 group as (CPUs, source), or None."""
    name = group + "/cpu.max"
    numbers = _read(root, name).split()
    if len(numbers) == 2:
        return _cpus(numbers[0], numbers[1], "cgroup v2 " + name)
    return None


def _quota_v1(root: str, group: str) -> "tuple[int, str] | None":
    """The quota of a version 1 group as (CPUs, source), or None."""
    name = group + "/cpu.cfs_quota_us"
    quota = _read(root, name)
    if not quota or quota.startswith("-"):
        return None
    period = _read(root, group + "/cpu.cfs_period_us")
    return _cpus(quota, period, "cgroup v1 " + name)


def _cpus(quota: str, period: str, source: str) -> "tuple[int, str] | None":
    """Quota over period, rounded up; None unless both are positive numbers ("max" is none)."""
    try:
        share, whole = int(quota), int(period)
    except ValueError:
        return None
    if share <= 0 or whole <= 0:
        return None
    return -(-share // whole), source


def _unescape(name: str) -> str:
    """A path of mountinfo, where blanks and backslashes are octal escapes."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        if "\\" not in name:
            break
        name = name.replace(escape, character)
    return name


def _read(root: str, name: str) -> str:
    """The text of a file, "" if it cannot be had."""
    try:
        with open(root + name, "rb", 0) as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""
