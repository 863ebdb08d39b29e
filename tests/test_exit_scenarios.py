"""The interpreter ends while a pool is at work: every kind of work, on every kind of pool."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from exit_scenarios import ENDS, POOLS, WORK, Scenario
from support import WAIT


@pytest.mark.timeout(4 * WAIT)
@pytest.mark.parametrize("work", WORK)
def test_exit_neither_crashes_nor_hangs(work):
    """Private pools finish, others let go; what comes too late is told so in Python's words."""
    ends = itertools.islice(itertools.cycle(ENDS), list(WORK).index(work), None)
    with ThreadPoolExecutor(2) as processes:
        chosen = [Scenario(work, pool, end) for pool, end in zip(POOLS, ends, strict=False)]
        failures = [failure for failure in processes.map(Scenario.run, chosen) if failure]
    assert not failures, "\n\n".join(failures)
