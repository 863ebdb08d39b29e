# cython: language_level=3
"""A module of somebody else's, in Cython: loops, bodies, `with gil`."""

from libc.stdint cimport int64_t
cimport fjpool

fjpool.import_fjpool()

cdef int square(fjpool.fj_worker_t *worker, int64_t lo, int64_t hi, void *data,
                fjpool.fj_value_t *value) noexcept nogil:
    cdef int64_t i
    value.d = 0
    for i in range(lo, hi):
        value.d += (<double *>data)[i] ** 2
    return 0

cdef void add(fjpool.fj_value_t *left, fjpool.fj_value_t right, void *data) noexcept nogil:
    left.d += right.d

def sum_of_squares(double[::1] numbers, pool=None, int64_t chunk=0):
    cdef fjpool.fj_pool_t *where = fjpool.fj_pool_from_object(pool)
    cdef fjpool.fj_loop_t loop
    cdef fjpool.fj_value_t total
    cdef int code
    total.d = 0
    loop.start, loop.stop, loop.chunk = 0, numbers.shape[0], chunk
    loop.leaf, loop.combine, loop.data = square, add, &numbers[0]
    with nogil:
        code = fjpool.fj_parallel(where, &loop, &total)
    if code:
        fjpool.fj_raise(code)
    return total.d

cdef int note(fjpool.fj_worker_t *worker, int64_t lo, int64_t hi, void *data,
              fjpool.fj_value_t *value) noexcept nogil:
    with gil:
        (<list>data).append((lo, hi))
    return 5 if lo == 3 else 0

def notes(pool, int64_t n):
    """What a leaf that takes the GIL saw; a leaf of position 3 fails with 5."""
    cdef fjpool.fj_pool_t *where = fjpool.fj_pool_from_object(pool)
    cdef fjpool.fj_loop_t loop
    cdef int code
    seen = []
    loop.start, loop.stop, loop.chunk = 0, n, 1
    loop.leaf, loop.combine, loop.data = note, NULL, <void *>seen
    with nogil:
        code = fjpool.fj_parallel(where, &loop, NULL)
    if code:
        fjpool.fj_raise(code)
    return sorted(seen)
