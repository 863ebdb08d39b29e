"""Every interleaving of a few operations of the core's lock-free parts, and seeded faults.

csrc/test/explore is a program that runs the core's own text on coroutines and goes through all
states; csrc/README.rst ("Every interleaving") says what that covers. To follow one scenario, build
the program as `Explorer` does and name it on the command line.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"
CORE = ("fj_os", "fj_task", "fj_deque", "fj_spawn", "fj_lane", "fj_registry", "fj_idle")
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-O2", "-g", "-pthread"]
FLAGS += ["-include", "test/explore/explore.h", "-Icore", "-Iinclude", "-Itest/explore"]
SCENARIOS = [
    name
    for group in ("litmus", "deque", "spawn", "task", "lane", "idle")
    for name in re.findall(
        r'\.name = "(\w+\.\w+)"', (CSRC / f"test/explore/{group}.c").read_text()
    )
]
LARGE = [name for name in SCENARIOS if name.startswith("large.")]  # take minutes; by hand

pytestmark = [
    pytest.mark.sanitizer,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64",
        reason="the explorer changes stacks as x86-64 Linux does",
    ),
]


def _call(*command, timeout=100):
    """Run a command in csrc; (exit status, everything it printed)."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=CSRC,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return done.returncode, done.stdout


class Explorer:
    """The program, compiled once; and variants in which one file of the core is another text."""

    def __init__(self, folder):
        self.folder = folder
        self.compiler = next(
            (
                name
                for name in (os.environ.get("CC"), "cc", "gcc", "clang")
                if name and shutil.which(name)
            ),
            None,
        )
        if self.compiler is None:
            pytest.fail("no C compiler here; leave these tests out with -m 'not sanitizer'")
        self.objects = {name: self._compile(CSRC / f"core/{name}.c") for name in CORE}
        for file in sorted((CSRC / "test/explore").glob("*.c")):
            self.objects["explore/" + file.stem] = self._compile(file)
        self.program = self._link("explore", self.objects)

    def _compile(self, source, *flags):
        target = self.folder / f"{source.parent.name}-{source.stem}.o"
        status, output = _call(self.compiler, *FLAGS, *flags, "-c", source, "-o", target)
        assert status == 0, f"{self.compiler} does not take {source.name}:\n{output}"
        return target

    def _link(self, name, objects):
        program = self.folder / name
        status, output = _call(self.compiler, *objects.values(), "-pthread", "-o", program)
        assert status == 0, f"{self.compiler} does not link the explorer:\n{output}"
        return program

    def with_fault(self, name, old, new):
        """The program with one piece of core/name.c replaced, which must be there once."""
        text = (CSRC / f"core/{name}.c").read_text()
        assert text.count(old) == 1, f"{name}.c has changed: say here what the fault is now"
        folder = self.folder / "fault"
        folder.mkdir(exist_ok=True)
        source = folder / f"{name}.c"
        source.write_text(text.replace(old, new))
        changed = {**self.objects, name: self._compile(source, "-Wno-error", "-O0", "-g0")}
        return self._link("with_fault", changed)


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    return Explorer(tmp_path_factory.mktemp("explore"))


MODELS = ("sc", "tso", "pso")  # each allows all that those before it allow


def _check(explorer, model, name):
    status, output = _call(explorer.program, "--model", model, name)
    assert status == 0, output
    assert output.startswith(f"ok      {name} "), output


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in LARGE])
def test_explore_scenario(explorer, name):
    """In no interleaving, and under no delay of stores that the weakest model allows, a promise is
    broken."""
    _check(explorer, MODELS[-1], name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("litmus.")])
def test_explore_litmus(explorer, model, name):
    """A model allows just what it should."""
    _check(explorer, model, name)


def test_explore_lists_these_scenarios(explorer):
    """The program holds the scenarios that are named here, so none is left out."""
    status, output = _call(explorer.program, "--list")
    assert status == 0
    assert output.split() == SCENARIOS


@pytest.mark.parametrize(
    "arguments", [["deque.no_such"], ["--model"], ["--model", "arm"], ["--relax"], ["--lost"]]
)
def test_explore_refuses_wrong_arguments(explorer, arguments):
    """A wrong argument is the usage and exit status 2, not a search through nothing."""
    status, output = _call(explorer.program, *arguments)
    assert status == 2
    assert output.startswith("usage: explore")


# --- seeded faults -----------------------------------------------------------------------------

# The stores of that function are relaxed: found by a model that delays them, and not by one that
# does not, so it is the order that was needed.
RELAXED = [
    ("fj_deque_pop", "deque.two_entries_one_thief", "tso", "it is taken twice"),
    ("fj_deque_push", "deque.last_entry_one_thief", "pso", "it is taken twice"),
    ("grow", "deque.growth_one_thief", "pso", ""),
    ("fj_deque_push", "idle.one_task", "tso", "it is slept through"),
    ("open_gate", "spawn.requests_at_a_join", "tso", "nobody asks at the next"),
]


@pytest.mark.parametrize(
    ("function", "name", "model", "complaint"), RELAXED, ids=[f"{fault[0]}-{fault[2]}" for fault in RELAXED]
)
def test_explore_finds_a_relaxed_store(explorer, function, name, model, complaint):
    """A store whose order is weaker than the argument needs is found under the model that tells."""
    status, output = _call(explorer.program, "--model", model, "--relax", function, name)
    assert status == 1 and output.startswith(f"FAILED  {name}\n") and complaint in output, output
    weaker = MODELS[MODELS.index(model) - 1]
    status, output = _call(explorer.program, "--model", weaker, "--relax", function, name)
    assert status == 0, output


# What is wrong, file, text, what stands there instead, the scenario, what it says.
FAULTS = [
    (
        "pop_takes_the_last_without_a_swap",
        "fj_deque",
        "if (left < 0 || !take_base(deque, base)) {",
        "if (left < 0) {",
        "deque.last_entry_one_thief",
        "it is taken twice",
    ),
    (
        "pop_reads_base_before_it_stores_top",
        "fj_deque",
        "    fj_store_seqcst(&deque->top, top);       /* the proof: top, then base */\n"
        "    size_t base = fj_load_seqcst(&deque->base);\n",
        "    size_t base = fj_load_seqcst(&deque->base);\n"
        "    fj_store_seqcst(&deque->top, top);\n",
        "deque.two_entries_one_thief",
        "it is taken twice",
    ),
    (
        "thief_reads_top_before_base",
        "fj_deque",
        "    *base = fj_load_seqcst(&deque->base);    /* the proof: base, then top */\n"
        "    size_t top = fj_load_seqcst(&deque->top); /* and pairs with push: the slot is written */\n",
        "    size_t top = fj_load_seqcst(&deque->top);\n"
        "    *base = fj_load_seqcst(&deque->base);\n",
        "deque.two_entries_one_thief",
        "",
    ),
    (
        "base_moves_without_a_swap",
        "fj_deque",
        "return fj_cas_seqcst(&deque->base, &base, base + 1);",
        "return fj_load_seqcst(&deque->base) == base\n"
        "        && (fj_store_seqcst(&deque->base, base + 1), true);",
        "deque.last_entry_one_thief",
        "it is taken twice",
    ),
    (
        "thief_reads_the_array_before_top",
        "fj_deque",
        "    size_t top = fj_load_seqcst(&deque->top); /* and pairs with push: the slot is written */\n"
        "    if ((ptrdiff_t)(top - *base) <= 0) {\n"
        "        return false;\n"
        "    }\n"
        "    *task = slot_get(fj_load_acquire(&deque->array), *base); /* pairs with grow */\n",
        "    fj_array_t *array = fj_load_acquire(&deque->array);\n"
        "    size_t top = fj_load_seqcst(&deque->top);\n"
        "    if ((ptrdiff_t)(top - *base) <= 0) {\n"
        "        return false;\n"
        "    }\n"
        "    *task = slot_get(array, *base);\n",
        "deque.growth_one_thief",
        "",
    ),
    (
        "helper_does_not_look_whether_it_is_done",
        "fj_deque",
        "if (fj_task_is_done(awaited)) {",
        "if (false) {",
        "deque.descendant",
        "it does not descend",
    ),
    (
        "helper_ignores_the_mark",
        "fj_deque",
        " && (int32_t)((uint32_t)base - mark) >= 0",
        "",
        "deque.descendant_above_a_stranger",
        "it does not descend",
    ),
    (
        "no_version",
        "fj_spawn",
        "(word >> 2 * INDEX_BITS) + 1;",
        "(word >> 2 * INDEX_BITS);",
        "spawn.descendant_then_stranger",
        "it does not descend",
    ),
    (
        "helper_of_a_frame_does_not_look_whether_it_is_done",
        "fj_spawn",
        "if (awaited != NULL && fj_task_is_done(awaited)) {",
        "if (false) {",
        "spawn.descendant_then_stranger",
        "it does not descend",
    ),
    (
        "helper_of_a_frame_ignores_the_mark",
        "fj_spawn",
        "tail >= split || tail < mark",
        "tail >= split",
        "spawn.descendant_above_a_stranger",
        "it does not descend",
    ),
    (
        "thief_closes_before_its_swap",
        "fj_spawn",
        "        if (fj_cas_weak_seqcst(&victim->shared, &word, word + 1)) { /* partner: answer */\n"
        "            if (tail + 1 == split) {\n"
        "                close_gate(victim);\n"
        "            }\n",
        "        if (tail + 1 == split) {\n"
        "            close_gate(victim);\n"
        "        }\n"
        "        if (fj_cas_weak_seqcst(&victim->shared, &word, word + 1)) {\n",
        "spawn.requests",
        "nobody asks at the next",
    ),
    (
        "thief_does_not_close",
        "fj_spawn",
        "                close_gate(victim);\n",
        "",
        "spawn.requests",
        "nobody asks at the next",
    ),
    (
        "owner_reads_the_word_before_it_opens",
        "fj_spawn",
        "    open_gate(worker, split);\n"
        "    shared_t word = fj_load_seqcst(&worker->shared); /* see above */\n",
        "    shared_t word = fj_load_seqcst(&worker->shared);\n"
        "    open_gate(worker, split);\n",
        "spawn.requests_at_a_join",
        "nobody asks at the next",
    ),
    (
        "headers_are_written_after_the_swap",
        "fj_spawn",
        "    for (uint32_t i = split; i < end; i++) {\n",
        "    open_gate(worker, end);\n"
        "    while (!fj_cas_weak_seqcst(&worker->shared, &word, changed(word, tail_of(word), end))) {\n"
        "    }\n"
        "    for (uint32_t i = split; i < end; i++) {\n",
        "spawn.one_at_a_time",
        "",
    ),
    (
        "a_frame_is_done_because_one_before_it_was",
        "fj_spawn",
        "        atomic_init(&task->status, FJ_RUNNING); /* by whoever takes it: nobody claims it */\n",
        "        if (fj_load_relaxed(&task->status) == FJ_NEW) {\n"
        "            atomic_init(&task->status, FJ_RUNNING);\n"
        "        }\n",
        "spawn.one_at_a_time",
        "",
    ),
    (
        "frames_are_taken_back_without_a_swap",
        "fj_spawn",
        "if (fj_cas_weak_acqrel(&worker->shared, &word, changed(word, tail, half))) {",
        "if (fj_store_seqcst(&worker->shared, changed(word, tail, half)), true) {",
        "spawn.shared_and_taken_back",
        "",
    ),
    (
        "frames_are_stolen_without_a_swap",
        "fj_spawn",
        "if (fj_cas_weak_seqcst(&victim->shared, &word, word + 1)) {",
        "if (fj_store_seqcst(&victim->shared, word + 1), true) {",
        "spawn.shared_and_taken_back_two_thieves",
        "",
    ),
    (
        "late_frames_leave_the_floor_open",
        "fj_spawn",
        "        close_gate(worker);                  /* joins of late frames must come here */\n",
        "",
        "spawn.room_for_two",
        "",
    ),
    (
        "the_waiter_does_not_say_that_it_waits",
        "fj_task",
        "fj_or_acqrel(&task->status, FJ_TASK_WAITED) | FJ_TASK_WAITED;",
        "fj_load_acquire(&task->status);",
        "task.completion_wakes_a_waiter",
        "nobody can go on",
    ),
    (
        "a_poke_leaves_the_word_as_it_is",
        "fj_task",
        "((status + FJ_TASK_POKE) & FJ_TASK_POKES)",
        "(status & FJ_TASK_POKES)",
        "task.a_stop_wakes_a_waiter",
        "nobody can go on",
    ),
    (
        "a_poke_flips_a_bit",
        "fj_task",
        "((status + FJ_TASK_POKE) & FJ_TASK_POKES)",
        "((status ^ FJ_TASK_POKE) & FJ_TASK_POKES)",
        "task.two_stops_wake_a_waiter",
        "",
    ),
    (
        "the_lock_forgets_that_somebody_sleeps",
        "fj_os",
        "    while (fj_exchange_acquire(&mutex->word, 2) != 0) { /* pairs with unlock */\n"
        "        (void)fj_os_wait(&mutex->word, 2, FJ_FOREVER);\n",
        "    while (fj_exchange_acquire(&mutex->word, 1) != 0) {\n"
        "        (void)fj_os_wait(&mutex->word, 1, FJ_FOREVER);\n",
        "lane.the_lock",
        "nobody can go on",
    ),
    (
        "a_closed_lane_is_seen_too_early",
        "fj_lane",
        "    fj_mutex_lock(&lane->lock);\n    fj_status_t status = lane->closed && !inside",
        "    bool closed = lane->closed;\n    fj_mutex_lock(&lane->lock);\n"
        "    fj_status_t status = closed && !inside",
        "lane.close",
        "",
    ),
    (
        "who_goes_to_sleep_does_not_look_again",
        "fj_idle",
        "    (void)look_again(pool);                  /* nobody is refused: it is on the stack itself */\n",
        "",
        "idle.one_task",
        "it is slept through",
    ),
    (
        "who_goes_to_sleep_looks_again_too_early",
        "fj_idle",
        "    fj_store_relaxed(&worker->parker, FJ_PARKER_IDLE); /* published by the swap */\n",
        "    (void)look_again(pool);\n"
        "    fj_store_relaxed(&worker->parker, FJ_PARKER_IDLE);\n"
        "#define look_again(pool) true\n",
        "idle.one_task",
        "it is slept through",
    ),
    (
        "a_searcher_that_found_something_does_not_look_again",
        "fj_idle",
        "    (void)look_again(pool);                  /* refused: the caller is there to work */\n",
        "",
        "idle.two_long_tasks_two_workers",
        "nobody can go on",
    ),
    (
        "who_blocks_shares_too_late",
        "fj_idle",
        "    bool exposed = fj_spawn_expose(worker);  /* others take its forks meanwhile */\n",
        "    bool exposed = false;\n",
        "idle.two_frames_and_a_block",
        "nobody can go on",
    ),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "scenario", "complaint"),
    [fault[1:] for fault in FAULTS],
    ids=[fault[0] for fault in FAULTS],
)
def test_explore_finds_a_fault(explorer, name, old, new, scenario, complaint):
    """A fault that is put into the core's text is found with nothing but interleaving."""
    status, output = _call(explorer.with_fault(name, old, new), "--model", "sc", scenario)
    assert status == 1, output
    assert output.startswith(f"FAILED  {scenario}\n") and complaint in output, output
