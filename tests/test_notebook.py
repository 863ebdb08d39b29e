"""In a notebook: interrupting a cell is Ctrl-C, and output of a task belongs to the cell that started it.

All tests share one kernel, since it starts slowly.
"""

import queue
import textwrap
from time import monotonic

import nbclient
import nbformat
import pytest
from jupyter_client import KernelManager

from support import WAIT

# Of Jupyter's own, at import and in the kernel's client.
pytestmark = [
    pytest.mark.timeout(4 * WAIT),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SETUP = """\
import ctypes, sys, threading, warnings
import fjpool
pool = fjpool.ForkJoinPool(2, blocking="announced")
def body(*_):
    global calls
    calls += 1
    started.set()
    go.wait(30)
def late(file=None):
    go.wait(30)
    print("late", file=file)
native = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""
WATCH = """\
def watch():
    started.wait(30)
    print("waiting")
threading.Thread(target=watch).start()
"""


class Notebook:
    """A kernel; each cell's output is collected under its id, whenever it comes."""

    def __init__(self, manager):
        self.manager, self.client = manager, manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(WAIT)
        self.outputs = {}

    def start(self, code):
        """Begin a cell: its id. If it fails, those behind it run all the same."""
        return self.client.execute(textwrap.dedent(code), store_history=False, stop_on_error=False)

    def end(self, cell):
        """Wait for the end of a cell: its reply."""
        while (reply := self.client.get_shell_msg(timeout=WAIT))["parent_header"].get("msg_id") != cell:
            pass
        return reply["content"]

    def run(self, code):
        """Run a cell that must succeed: its id."""
        cell = self.start(code)
        reply = self.end(cell)
        assert reply["status"] == "ok", reply
        return cell

    def until(self, seen):
        """Take output as it comes until `seen(outputs)`, a dict of texts by cell."""
        end = monotonic() + WAIT
        while not seen(self.outputs):
            try:
                message = self.client.get_iopub_msg(timeout=max(0, end - monotonic()))
            except queue.Empty:
                pytest.fail(f"never came: {self.outputs}")
            cell, content = message["parent_header"].get("msg_id"), message["content"]
            text = content.get("text") or content.get("data", {}).get("text/plain", "")
            self.outputs[cell] = self.outputs.get(cell, "") + text

    def interrupt(self):
        self.manager.interrupt_kernel()


@pytest.fixture(scope="module")
def kernel_environment(tmp_path_factory):
    """Nothing of the user's: neither settings nor kernels."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("jupyter")
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name))
        yield


@pytest.fixture(scope="module")
def notebook(kernel_environment):
    """One kernel for all tests, of this very interpreter."""
    manager = KernelManager()
    manager.start_kernel()
    notebook = Notebook(manager)
    try:
        notebook.run(SETUP)
        yield notebook
    finally:
        notebook.client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(autouse=True)
def fresh(notebook):
    """Latches that are shut."""
    notebook.run("go, started, calls = threading.Event(), threading.Event(), 0")


WAITS = {
    "result": "pool.submit(body).result()",
    "join": "pool.submit(body).join()",
    "map": "list(pool.map(body, range(300)))",
    "invoke": "pool.invoke(body)",
    "loop": "pool.parallel_for(body, 300)",
    "loop that the caller takes part in": "fjpool.parallel_for(body, 300, chunksize=1)",  # more than there may be threads
    "native loop": "pool.parallel_for(native(body), 300)",
    "with": "with fjpool.ForkJoinPool(1) as own:\n    own.submit(lambda: (started.set(), fjpool.sleep(1)))",
    "sleep": "started.set(); fjpool.sleep(30)",
    "queue": "started.set(); fjpool.Queue().get()",
}


@pytest.mark.parametrize("wait", WAITS)
def test_interrupted_cell_is_a_keyboard_interrupt(notebook, wait):
    """Once; what the cell had queued never starts, and the next cell finds its pools at work."""
    cell = notebook.start(WATCH + WAITS[wait])
    notebook.until(lambda outputs: "waiting" in outputs.get(cell, ""))
    notebook.interrupt()
    assert notebook.end(cell).get("ename") == "KeyboardInterrupt"
    after = notebook.run(
        """
        go.set()
        assert pool.await_quiescence(30) and fjpool.common_pool().await_quiescence(30)
        print(calls in range(300), pool.invoke(pow, 2, 3), sum(fjpool.map(abs, range(-4, 0))))
        """
    )
    notebook.until(lambda outputs: "\n" in outputs.get(after, ""))
    assert notebook.outputs[after] == "True 8 10\n"


LATE = {
    "submit": "future = pool.submit(late)",
    "common pool": "future = fjpool.submit(late)",
    "stderr": "future = pool.submit(lambda: late(sys.stderr))",
    "display": "future = pool.submit(lambda: (go.wait(30), display('late')))",
    "map": "future = pool.submit(list, pool.map(lambda _: late(), [1, 2], chunksize=1))",
    "task in a task": "future = pool.submit(lambda: fjpool.submit(late).result())",
    "forked task": "future = pool.submit(lambda: fjpool.task(late).fork().join())",
    "task class": """
        class Late(fjpool.RecursiveAction):
            def compute(self):
                late()
        future = Late()
        pool._submit_task(future)
        """,
    "leaf": "future = pool.submit(pool.parallel_for, lambda lo, hi: late(), 2, chunksize=1)",
    "callback": "future = pool.submit(go.wait, 30); future.add_done_callback(lambda _: print('late'))",
    "warning": "future = pool.submit(lambda: (go.wait(30), warnings.warn('late')))",
}


@pytest.mark.parametrize("start", LATE)
def test_late_output_goes_to_the_cell_that_started_it(notebook, start):
    """Not to the cell that runs by then."""
    first = notebook.run(LATE[start])
    second = notebook.run(
        """
        print("second begins")
        go.set()
        fjpool.wait([future], 30)
        assert pool.await_quiescence(30)
        print("second ends")
        """
    )
    notebook.until(
        lambda outputs: "late" in outputs.get(first, "") and "second ends" in outputs.get(second, "")
    )
    assert notebook.outputs[second] == "second begins\nsecond ends\n"


def test_nbclient_runs_on_after_a_cell_that_takes_too_long(kernel_environment):
    """It interrupts that cell, whose output stays with it."""
    cells = [
        "import fjpool, threading\npool, go = fjpool.ForkJoinPool(2, blocking='announced'), threading.Event()",
        "list(pool.map(lambda i: (print('call'), go.wait(30)), range(9)))",
        "go.set(); pool.shutdown(); print('all done')",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        book,
        timeout_func=lambda cell: 1 if cell.source == cells[1] else WAIT,
        interrupt_on_timeout=True,
        allow_errors=True,
    ).execute()
    outputs = [cell.outputs for cell in book.cells]
    assert [(output.get("ename"), output.get("text")) for output in outputs[2]] == [(None, "all done\n")]
    assert "KeyboardInterrupt" in [output.get("ename") for output in outputs[1]]
    assert outputs[1][0].text.count("call") == 2


def test_progress_is_a_bar_of_the_notebook(kernel_environment):
    """progress=True shows tqdm's widget, which ends full: for map, reduce and the loops."""
    cells = [
        "import fjpool, operator\npool = fjpool.ForkJoinPool(2)",
        "assert list(pool.map(abs, range(100), progress=True)) == list(range(100))",
        "assert pool.reduce(operator.add, range(100), progress=True) == 4950",
        "pool.parallel_for(lambda lo, hi: None, 100, chunksize=9, progress=True)",
        "assert pool.parallel_reduce(lambda lo, hi: hi - lo, 100, progress=True) == 100",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=WAIT).execute()
    view, state = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
    widgets = [widget["state"] for widget in book.metadata["widgets"][state]["state"].values()]
    bars = [widget for widget in widgets if widget["_model_name"] == "FloatProgressModel"]
    assert [(bar["value"], bar["max"]) for bar in bars] == [(100.0, 100.0)] * 4
    for cell in book.cells[1:]:
        assert [output.output_type for output in cell.outputs if view in output.get("data", {})] == ["display_data"]
