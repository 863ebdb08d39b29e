# fjpool.h for Cython: `cimport fjpool`, then fjpool.import_fjpool() once in the module.
# The rules stand in fjpool.h. FJ_TASK is a macro of C; here the leaves of a loop and bodies
# are plain functions, `noexcept nogil`.

from libc.stdint cimport int64_t, uint32_t

cdef extern from "fjpool.h" nogil:
    ctypedef struct fj_pool_t:
        pass
    ctypedef struct fj_worker_t:
        pass

    enum: FJPOOL_ABI
    enum: FJ_CODE_OK
    enum: FJ_CODE_CANCELLED
    enum: FJ_CODE_REFUSED
    enum: FJ_CODE_NO_MEMORY
    enum: FJ_CODE_INTERRUPTED

    ctypedef union fj_value_t:
        double d
        int64_t i
        void *p

    ctypedef int (*fj_body_t)(fj_worker_t *worker, void *data) noexcept nogil

    ctypedef struct fj_loop_t:
        int64_t start
        int64_t stop
        int64_t chunk
        int (*leaf)(fj_worker_t *worker, int64_t lo, int64_t hi, void *data,
                    fj_value_t *value) noexcept nogil
        void (*combine)(fj_value_t *left, fj_value_t right, void *data) noexcept nogil
        void *data

    int fj_run(fj_pool_t *pool, fj_body_t body, void *data)
    int fj_parallel(fj_pool_t *pool, const fj_loop_t *loop, fj_value_t *value)
    fj_worker_t *fj_worker()
    uint32_t fj_worker_index(fj_worker_t *worker)
    uint32_t fj_worker_bound(fj_pool_t *pool)
    bint fj_cancelled(fj_worker_t *worker)
    void fj_fail(fj_worker_t *worker, int code)
    void fj_block_begin(fj_worker_t *worker)
    void fj_block_end(fj_worker_t *worker)

cdef extern from "fjpool.h":
    int import_fjpool() except -1
    fj_pool_t *fj_pool_from_object(object pool) except NULL
    object fj_raise(int code)
