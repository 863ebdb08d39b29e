"""The experiments, and the demo leaves they use. ``import fjpool`` does not import this.

Experiments, each also a command (``python -m fjpool skew``):

============  =====================================================================
`skew`        static split against work-stealing on uneven work
`block`       tasks that wait: how long they take, and how many threads they cost
`order`       in which order a worker runs tasks that it forked and never joined
`info`        versions, CPUs, and what the common pool looks like
============  =====================================================================

Native leaves for ``parallel_reduce`` and ``parallel_for``: PyCapsules named by their C signature.
`data` is what the pool's ``data=`` must hold, for example ``array.array('q', [4_000_000])``.

==================  =====================================  ====================================
leaf                signature                              what it does
==================  =====================================  ====================================
`price`             ``double (int64_t, int64_t)``          sums the skewed prices of [lo, hi)
`price_vector`      ``double (int64_t, int64_t)``          the same bits, several at a time
`price_n`           ``double (int64_t, int64_t, void *)``  `price`, data: number of positions
`price_vector_n`    ``double (int64_t, int64_t, void *)``  `price_vector`, data: the same
`primes`            ``int64_t (int64_t, int64_t)``         counts primes by trial division
`count`             ``void (int64_t, int64_t)``            adds hi - lo to a striped counter
`sleep`             ``void (int64_t, int64_t, void *)``    sleeps for every position, data: ns
`spin`              ``void (int64_t, int64_t, void *)``    burns CPU likewise
`fail_at`           ``int (int64_t, int64_t, void *)``     returns 7 at the position in data
==================  =====================================  ====================================

Functions around the same kernels, which release the GIL: `price_block`, `price_block_vector`,
`price_positions`, `sleep_block`, `spin_block`; the counter's `count_total`, `count_stripes` and
`count_reset`; the vector kernels' `vector_isa` and `vector_isas`.
"""

from ._block import block
from ._info import info
from ._native import (
    count,
    count_reset,
    count_stripes,
    count_total,
    fail_at,
    price,
    price_block,
    price_block_vector,
    price_n,
    price_positions,
    price_vector,
    price_vector_n,
    primes,
    sleep,
    sleep_block,
    spin,
    spin_block,
    vector_isa,
    vector_isas,
)
from ._order import order
from ._skew import skew

__all__ = [
    "block",
    "count",
    "count_reset",
    "count_stripes",
    "count_total",
    "fail_at",
    "info",
    "order",
    "price",
    "price_block",
    "price_block_vector",
    "price_n",
    "price_positions",
    "price_vector",
    "price_vector_n",
    "primes",
    "skew",
    "sleep",
    "sleep_block",
    "spin",
    "spin_block",
    "vector_isa",
    "vector_isas",
]
