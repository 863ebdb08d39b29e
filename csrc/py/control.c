/* control.c - the size of the common pool for those who look for C symbols.
 *
 * threadpoolctl opens the shared libraries of a process and calls functions of
 * theirs through ctypes, without the GIL; fjpool/threadpoolctl.py tells it of
 * these two. They are the only symbols of the extension that can be seen apart
 * from its PyInit function, any thread may call them, and neither touches Python.
 */
#include "fjpy.h"

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int fjpool_get_num_threads(void);
VISIBLE void fjpool_set_num_threads(int n);

/* How many workers of the common pool may run at a time. 0: it does not exist
 * yet, or has none because callers run their own tasks. */
int fjpool_get_num_threads(void)
{
    fj_pool_t *pool = fjpy_common_pool();
    uint32_t parallelism = 0;
    if (pool != NULL) {
        parallelism = fj_pool_stats(pool).parallelism;
        fj_pool_release(pool);
    }
    return (int)parallelism;
}

/* Sets that, to at least 1 and at most what a pool may have. Workers that are
 * busy finish their tasks; those that are too many then stay idle. Without a
 * common pool, or where callers run their own tasks, nothing happens. */
void fjpool_set_num_threads(int n)
{
    fj_pool_t *pool = fjpy_common_pool();
    uint32_t wanted = n < 1 ? 1 : n > (int)FJ_MAX_WORKERS ? FJ_MAX_WORKERS : (uint32_t)n;
    if (pool == NULL) {
        return;
    }
    if (fj_pool_stats(pool).parallelism > 0) {
        (void)fj_pool_set_parallelism(pool, wanted);
    }
    fj_pool_release(pool);
}
