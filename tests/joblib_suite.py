"""A pytest plugin: of joblib's own tests it keeps those of a backend, and that backend is ours.

Registered before joblib's tests are collected, it is among the backends they run with. The
summary has a line in JSON that says what was exempt and how many tasks ran on the common pool.
"""

import json

import fjpool
import fjpool.joblib

fjpool.joblib.register()

NOT_REGISTERED = "uses the backend by name in processes of loky's, where nobody has registered it"
EXEMPT = {
    "test_nested_loop[loky-fjpool]": NOT_REGISTERED,
    "test_nested_loop[back_compat_backend-fjpool]": NOT_REGISTERED,
}
exempt = []


def is_ours(item):
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(
        value == "fjpool" or isinstance(value, fjpool.joblib.FJPoolBackend) for value in values
    )


def pytest_collection_modifyitems(items):
    ours = [item for item in items if is_ours(item)]
    exempt.extend(item.name for item in ours if item.name in EXEMPT)
    items[:] = [item for item in ours if item.name not in EXEMPT]


def pytest_terminal_summary(terminalreporter):
    counts = {key: len(terminalreporter.stats.get(key, ())) for key in ("passed", "skipped", "failed")}
    terminalreporter.write_line(
        json.dumps({**counts, "exempt": exempt, "tasks": fjpool.common_pool()._completed})
    )
