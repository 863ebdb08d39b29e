"""How many CPUs a process may use: settings, affinity, and quotas of every shape of cgroup tree."""

import os
import subprocess
import sys
import warnings

import pytest

from fjpool import _cpus
from fjpool._cpus import CpuLimit, common_maximum_spares, common_parallelism, usable_cpus

V1_MOUNT = "32 31 0:29 {base} {point} rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct"
V2_MOUNT = "41 31 0:38 {base} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
OTHER_MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset"""


class Machine:
    """A /proc and a /sys below a directory, for a process allowed 64 CPUs."""

    def __init__(self, root):
        self.root = root
        (root / "proc/self").mkdir(parents=True)

    def cgroup(self, *lines):
        (self.root / "proc/self/cgroup").write_text("\n".join(lines) + "\n")
        return self

    def mount(self, *lines):
        text = "\n".join((OTHER_MOUNTS, *lines)) + "\n"
        (self.root / "proc/self/mountinfo").write_text(text)
        return self

    def file(self, name, text):
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self

    def limit(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return usable_cpus(self.root, environ={}, affinity=64)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def v2(machine):
    """A process in /a/b of a pure version 2 hierarchy."""
    machine.cgroup("0::/a/b")
    machine.mount(V2_MOUNT.format(base="/", point="/sys/fs/cgroup"))
    return machine


@pytest.fixture
def v1(machine):
    """A process in /a/b of version 1's cpu hierarchy."""
    machine.cgroup("4:memory:/other", "1:cpu,cpuacct:/a/b", "3:cpuset:/")
    machine.mount(V1_MOUNT.format(base="/", point="/sys/fs/cgroup/cpu"))
    return machine


UNLIMITED = CpuLimit(64, "affinity")


# --- version 2 ---------------------------------------------------------------------------------


def test_cpus_v2_quota_of_own_group_decides(v2):
    """The quota of the process's own group limits the CPUs, and the source names its file."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n")
    assert v2.limit() == CpuLimit(3, "cgroup v2 /sys/fs/cgroup/a/b/cpu.max")


def test_cpus_v2_tighter_ancestor_decides(v2):
    """The minimum over all ancestors counts, not the leaf's or the root's."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n")
    v2.file("/sys/fs/cgroup/a/cpu.max", "200000 100000\n")
    v2.file("/sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert v2.limit() == CpuLimit(2, "cgroup v2 /sys/fs/cgroup/a/cpu.max")


def test_cpus_v2_max_is_no_limit(v2):
    """A quota of "max" leaves what the other groups and the affinity allow."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    assert v2.limit() == UNLIMITED
    v2.file("/sys/fs/cgroup/a/cpu.max", "500000 100000\n")
    assert v2.limit().count == 5


@pytest.mark.parametrize(
    "quota, count",
    [("100000 100000", 1), ("150000 100000", 2), ("10000 100000", 1), ("1 1000000", 1),
     ("250001 50000", 6), ("6400000 100000", 64)],
)
def test_cpus_fractional_quota_rounds_up(v2, quota, count):
    """A fraction of a CPU counts as a whole one, so the result is at least 1."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", quota)
    assert v2.limit().count == count


@pytest.mark.parametrize(
    "text", ["", "\n", "100000", "max", "-1 100000", "0 100000", "100000 0", "100000 -5", "x y",
             "100000 100000 100000", "\xff\xfe", "1e5 1e5"],
)
def test_cpus_malformed_quota_limits_nothing(v2, text):
    """An empty or malformed cpu.max is passed over; the groups above it still count."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", text)
    assert v2.limit() == UNLIMITED
    v2.file("/sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert v2.limit().count == 2


def test_cpus_unreadable_quota_limits_nothing(v2):
    """A quota file that cannot be read (here: a directory of that name) is passed over."""
    (v2.root / "sys/fs/cgroup/a/b/cpu.max").mkdir(parents=True)
    assert v2.limit() == UNLIMITED


def test_cpus_vanished_group_leaves_its_ancestors(v2):
    """A group that was removed has no files, but the groups above it still limit."""
    v2.cgroup("0::/a/gone (deleted)")
    v2.file("/sys/fs/cgroup/a/cpu.max", "200000 100000\n")
    assert v2.limit().count == 2


def test_cpus_v2_root_group(v2):
    """A process in the root group reads the mount point's file, if there is one."""
    v2.cgroup("0::/")
    assert v2.limit() == UNLIMITED
    v2.file("/sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert v2.limit() == CpuLimit(2, "cgroup v2 /sys/fs/cgroup/cpu.max")


def test_cpus_group_names_with_odd_characters(machine):
    """Colons, blanks, dots and non-ASCII letters in the names of groups and mount points."""
    machine.cgroup("0::/a:b/..c d/é")
    machine.mount(V2_MOUNT.format(base="/", point="/mnt/my\\040groups\\134x"))
    machine.file("/mnt/my groups\\x/a:b/..c d/é/cpu.max", "200000 100000\n")
    assert machine.limit().count == 2


# --- version 1 and hybrid ------------------------------------------------------------------------


def test_cpus_v1_quota_of_own_group_decides(v1):
    """Version 1's quota over its period, rounded up."""
    v1.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "250000\n")
    v1.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n")
    assert v1.limit() == CpuLimit(3, "cgroup v1 /sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us")


def test_cpus_v1_tighter_ancestor_decides(v1):
    """The minimum over all ancestors counts in version 1 too; -1 means no quota."""
    for group, quota in (("", "-1"), ("/a", "200000"), ("/a/b", "800000")):
        v1.file(f"/sys/fs/cgroup/cpu{group}/cpu.cfs_quota_us", quota)
        v1.file(f"/sys/fs/cgroup/cpu{group}/cpu.cfs_period_us", "100000")
    assert v1.limit() == CpuLimit(2, "cgroup v1 /sys/fs/cgroup/cpu/a/cpu.cfs_quota_us")


@pytest.mark.parametrize(
    "quota, period",
    [("-1", "100000"), ("", "100000"), ("200000", ""), ("200000", None), (None, "100000"),
     ("200000", "0"), ("two", "100000"), ("0", "100000")],
)
def test_cpus_v1_malformed_quota_limits_nothing(v1, quota, period):
    """A quota or period that is absent, empty, malformed or -1 limits nothing."""
    if quota is not None:
        v1.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", quota)
    if period is not None:
        v1.file("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", period)
    assert v1.limit() == UNLIMITED


def test_cpus_v1_cpuset_is_not_cpu(machine):
    """The cpuset hierarchy is not taken for cpu's, neither its path nor its mount."""
    machine.cgroup("3:cpuset:/a", "5:cpuacct:/a").mount()
    machine.file("/sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "100000")
    machine.file("/sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "100000")
    assert machine.limit() == UNLIMITED


@pytest.mark.parametrize("v1_quota, v2_quota, count", [(2, 4, 2), (4, 2, 2), (None, 2, 2), (2, None, 2)])
def test_cpus_hybrid_takes_the_tighter(machine, v1_quota, v2_quota, count):
    """With both versions mounted, each with a path of its own, the tighter quota counts."""
    machine.cgroup("1:cpu:/one", "0::/two")
    machine.mount(
        V1_MOUNT.format(base="/", point="/sys/fs/cgroup/cpu"),
        V2_MOUNT.format(base="/", point="/sys/fs/cgroup/unified"),
    )
    if v1_quota:
        machine.file("/sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", f"{v1_quota}00000")
        machine.file("/sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000")
    if v2_quota:
        machine.file("/sys/fs/cgroup/unified/two/cpu.max", f"{v2_quota}00000 100000")
    assert machine.limit().count == count


# --- containers ------------------------------------------------------------------------------------


def test_cpus_container_mount_shows_own_group_as_root(machine):
    """A container without a cgroup namespace: the mount's root is the container's group."""
    machine.cgroup("1:cpu,cpuacct:/docker/abc/job")
    machine.mount(V1_MOUNT.format(base="/docker/abc", point="/sys/fs/cgroup/cpu"))
    machine.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000")
    machine.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    machine.file("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000")
    machine.file("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
    assert machine.limit() == CpuLimit(2, "cgroup v1 /sys/fs/cgroup/cpu/cpu.cfs_quota_us")


@pytest.mark.parametrize("base", ["/docker/abc", "/docker/abcd", "/..", "/../.."])
@pytest.mark.parametrize("path", ["/", "/docker/ab", "/system.slice/docker-abc.scope"])
def test_cpus_path_that_is_not_below_the_mount(machine, base, path):
    """A path of another namespace than the mount's: the mount point is the container's group."""
    machine.cgroup(f"0::{path}")
    machine.mount(V2_MOUNT.format(base=base, point="/sys/fs/cgroup"))
    machine.file("/sys/fs/cgroup/cpu.max", "200000 100000")
    assert machine.limit() == CpuLimit(2, "cgroup v2 /sys/fs/cgroup/cpu.max")


def test_cpus_tail_of_a_foreign_path_is_found(machine):
    """If a tail of the foreign path exists below the mount point, its groups count too."""
    machine.cgroup("0::/kubepods/pod1/box/job")
    machine.mount(V2_MOUNT.format(base="/elsewhere", point="/sys/fs/cgroup"))
    machine.file("/sys/fs/cgroup/box/job/cpu.max", "300000 100000")
    machine.file("/sys/fs/cgroup/box/cpu.max", "200000 100000")
    assert machine.limit() == CpuLimit(2, "cgroup v2 /sys/fs/cgroup/box/cpu.max")


@pytest.mark.parametrize("path", ["/..", "/../sibling", "/../../x/y"])
def test_cpus_path_above_the_namespace(machine, path):
    """A process outside its namespace's root is not looked for beside the mount point."""
    machine.cgroup(f"0::{path}")
    machine.mount(V2_MOUNT.format(base="/", point="/sys/fs/cgroup"))
    machine.file("/sys/fs/sibling/cpu.max", "100000 100000")
    machine.file("/sys/fs/cpu.max", "100000 100000")
    machine.file("/sys/fs/cgroup/cpu.max", "300000 100000")
    assert machine.limit() == CpuLimit(3, "cgroup v2 /sys/fs/cgroup/cpu.max")


def test_cpus_mount_of_a_part_does_not_hide_the_whole(machine):
    """Of several mounts the one that shows most of the groups above the process is read."""
    machine.cgroup("0::/a/b")
    machine.mount(
        V2_MOUNT.format(base="/other", point="/mnt/other"),
        V2_MOUNT.format(base="/a/b", point="/mnt/own"),
        V2_MOUNT.format(base="/", point="/sys/fs/cgroup"),
        V2_MOUNT.format(base="/a", point="/mnt/part"),
    )
    machine.file("/mnt/other/cpu.max", "100000 100000")
    machine.file("/sys/fs/cgroup/a/cpu.max", "200000 100000")
    assert machine.limit() == CpuLimit(2, "cgroup v2 /sys/fs/cgroup/a/cpu.max")


@pytest.mark.parametrize("cgroup", [None, "", "\n", "0::", "nonsense", "0:/a", "0::relative", ":::"])
@pytest.mark.parametrize("mounts", [None, "", "41 31 - cgroup2", "x - cgroup2 y z\n - cgroup\n"])
def test_cpus_malformed_proc_limits_nothing(machine, cgroup, mounts):
    """Without /proc/self/cgroup and mountinfo that make sense there is no quota, and no error."""
    if cgroup is not None:
        machine.file("/proc/self/cgroup", cgroup)
    if mounts is not None:
        machine.file("/proc/self/mountinfo", mounts)
    machine.file("/sys/fs/cgroup/cpu.max", "100000 100000")
    assert machine.limit() == UNLIMITED


def test_cpus_v2_without_a_mount_limits_nothing(machine):
    """A hierarchy that is mounted nowhere has no files to read."""
    machine.cgroup("0::/a").mount()
    machine.file("/sys/fs/cgroup/a/cpu.max", "100000 100000")
    assert machine.limit() == UNLIMITED


def test_cpus_quota_looser_than_affinity_does_not_decide(v2):
    """The source is the affinity unless a quota is tighter."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n")
    assert usable_cpus(v2.root, environ={}, affinity=4) == CpuLimit(4, "affinity")
    assert usable_cpus(v2.root, environ={}, affinity=5).count == 4


# --- affinity ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_cpus_affinity_of_a_child_process():
    """A process bound to one CPU counts one, and says that the affinity decided."""
    cpu = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, {{{cpu}}})\n"
        "from fjpool._cpus import usable_cpus, default_parallelism, common_parallelism\n"
        "print(usable_cpus(), default_parallelism(), common_parallelism())"
    )
    assert _child(program) == "CpuLimit(count=1, source='affinity') 1 1"


def test_cpus_of_a_system_without_affinity(monkeypatch, tmp_path):
    """Where there is no affinity (macOS), the CPUs of the machine count."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert usable_cpus(tmp_path, environ={}) == CpuLimit(12, "CPUs of the machine")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cpus(tmp_path, environ={}).count == 1


def test_cpus_of_this_machine():
    """On the real machine the count is sane and at most what the scheduler allows."""
    limit = usable_cpus(environ={})
    assert 1 <= limit.count <= (os.cpu_count() or 1)
    assert limit.source


# --- settings ------------------------------------------------------------------------------------------


def _child(program, *options, **environ):
    """What a fresh interpreter prints, with only those fjpool settings in its environment."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FJPOOL_") and name != "PYTHON_CPU_COUNT"
    }
    run = subprocess.run(
        [sys.executable, *options, "-c", program],
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return run.stdout.strip()


def test_cpus_settings_take_precedence(v2):
    """FJPOOL_NUM_THREADS wins over PYTHON_CPU_COUNT, and that over affinity and quotas."""
    v2.file("/sys/fs/cgroup/a/b/cpu.max", "100000 100000\n")
    both = {"FJPOOL_NUM_THREADS": "100", "PYTHON_CPU_COUNT": "50"}
    assert usable_cpus(v2.root, environ=both) == CpuLimit(100, "FJPOOL_NUM_THREADS")
    del both["FJPOOL_NUM_THREADS"]
    assert usable_cpus(v2.root, environ=both) == CpuLimit(50, "PYTHON_CPU_COUNT")
    both["PYTHON_CPU_COUNT"] = "default"
    assert usable_cpus(v2.root, environ=both).count == 1


def test_cpus_huge_setting_is_clipped():
    """No setting asks for more workers than a pool can have."""
    assert usable_cpus(environ={"FJPOOL_NUM_THREADS": "100000"}).count == 32767


@pytest.mark.parametrize("text", ["abc", "0", "-3", "2.5", "4,2", "9" * 5000])
def test_cpus_unreadable_setting_drops_only_itself(text):
    """A bad value is named in a warning with what was expected; the next setting counts."""
    environ = {"FJPOOL_NUM_THREADS": text, "PYTHON_CPU_COUNT": "7"}
    with pytest.warns(RuntimeWarning, match="FJPOOL_NUM_THREADS=.* expected a positive integer"):
        assert usable_cpus(environ=environ) == CpuLimit(7, "PYTHON_CPU_COUNT")
    with pytest.warns(RuntimeWarning, match="PYTHON_CPU_COUNT"):
        assert usable_cpus(environ={"PYTHON_CPU_COUNT": text}, affinity=1).count == 1


@pytest.mark.parametrize("text", ["", " "])
def test_cpus_blank_setting_is_not_set(text):
    """An empty variable, as shells leave them, is no setting and no mistake."""
    environ = {"FJPOOL_NUM_THREADS": text, "FJPOOL_COMMON_PARALLELISM": text,
               "FJPOOL_COMMON_MAXIMUM_SPARES": text, "PYTHON_CPU_COUNT": "7"}
    assert common_parallelism(environ=environ) == 6
    assert common_maximum_spares(environ=environ) == 256


def test_cpus_settings_of_the_process_are_read():
    """The variables of the process itself count, and -X cpu_count stands before its variable."""
    program = (
        "from fjpool import _cpus\n"
        "print(_cpus.usable_cpus().source, _cpus.default_parallelism(), _cpus.common_parallelism())"
    )
    assert _child(program, FJPOOL_NUM_THREADS="5") == "FJPOOL_NUM_THREADS 5 4"
    assert _child(program, PYTHON_CPU_COUNT="3") == "PYTHON_CPU_COUNT 3 2"
    assert _child(program, "-X", "cpu_count=8", PYTHON_CPU_COUNT="3") == "-X cpu_count 8 7"


@pytest.mark.parametrize("cpus, parallelism", [("1", 1), ("2", 1), ("4", 3), ("40000", 32766)])
def test_common_parallelism_is_one_less_than_the_cpus(cpus, parallelism):
    """The common pool leaves a CPU to the thread that calls it, but has at least one worker."""
    assert common_parallelism(environ={"FJPOOL_NUM_THREADS": cpus}) == parallelism


@pytest.mark.parametrize("text, parallelism", [("0", 0), ("-3", 0), ("1", 1), (" 6 ", 6), ("99999", 32767)])
def test_common_parallelism_setting(text, parallelism):
    """FJPOOL_COMMON_PARALLELISM is taken as it is; a negative one counts as 0."""
    environ = {"FJPOOL_COMMON_PARALLELISM": text, "FJPOOL_NUM_THREADS": "40"}
    assert common_parallelism(environ=environ) == parallelism


def test_common_parallelism_unreadable_setting_drops_only_itself():
    """A bad FJPOOL_COMMON_PARALLELISM leaves FJPOOL_NUM_THREADS in force."""
    environ = {"FJPOOL_COMMON_PARALLELISM": "abc", "FJPOOL_NUM_THREADS": "4"}
    with pytest.warns(RuntimeWarning, match="FJPOOL_COMMON_PARALLELISM='abc'.* an integer"):
        assert common_parallelism(environ=environ) == 3


@pytest.mark.parametrize(
    "environ, spares", [({}, 256), ({"FJPOOL_COMMON_MAXIMUM_SPARES": "0"}, 0),
                        ({"FJPOOL_COMMON_MAXIMUM_SPARES": "-1"}, 0),
                        ({"FJPOOL_COMMON_MAXIMUM_SPARES": "1000"}, 1000),
                        ({"FJPOOL_COMMON_MAXIMUM_SPARES": "40000"}, 32767)],
)
def test_common_maximum_spares(environ, spares):
    """256 spares by default, else the setting, clipped to what a pool can have."""
    assert common_maximum_spares(environ=environ) == spares


def test_common_maximum_spares_unreadable_setting_drops_only_itself():
    """A bad value means the default, with a warning that says what was expected."""
    environ = {"FJPOOL_COMMON_MAXIMUM_SPARES": "lots"}
    with pytest.warns(RuntimeWarning, match="FJPOOL_COMMON_MAXIMUM_SPARES='lots'.* 0 to 32767"):
        assert common_maximum_spares(environ=environ) == 256


# --- the object and the module ----------------------------------------------------------------------------


def test_cpu_limit_is_frozen_and_compares():
    """A CpuLimit is a value: it does not change, compares and hashes by content."""
    limit = CpuLimit(2, "affinity")
    with pytest.raises(AttributeError, match="does not change"):
        limit.count = 3
    assert limit == CpuLimit(2, "affinity") and hash(limit) == hash(CpuLimit(2, "affinity"))
    assert limit != CpuLimit(3, "affinity") and limit != 2
    assert repr(limit) == "CpuLimit(count=2, source='affinity')"


def test_cpus_module_imports_nothing_that_costs_time():
    """Loading the module brings in no module that a bare interpreter does not have."""
    program = (
        "import importlib.util, os, sys\n"
        "before = set(sys.modules)\n"
        f"spec = importlib.util.spec_from_file_location('_cpus', {_cpus.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.common_parallelism()\n"
        "print(sorted(set(sys.modules) - before))"
    )
    assert _child(program) == "[]"
