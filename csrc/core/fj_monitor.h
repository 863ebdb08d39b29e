/* fj_monitor.h - layer 3: finds workers that block without saying so. */
#ifndef FJ_MONITOR_H
#define FJ_MONITOR_H

#include "fj_types.h"

/* The life of a pool's monitor, until the pool stops. */
void fj_monitor_run(fj_pool_t *pool);

#endif /* FJ_MONITOR_H */
