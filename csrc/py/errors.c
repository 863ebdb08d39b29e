/* errors.c - core status to Python exception, in one table. */
#include "fjpy.h"

PyObject *fjpy_raise(fj_status_t status)
{
    switch (status) {
    case FJ_TIMEOUT:
        PyErr_SetNone(fjpy.timeout_error);
        break;
    case FJ_REJECTED:
        if (fjpy_exiting) {                  /* word for word the standard pool's */
            PyErr_SetString(PyExc_RuntimeError,
                            "cannot schedule new futures after interpreter shutdown");
        } else {
            PyErr_SetString(fjpy.rejected_error, "cannot schedule new futures after shutdown");
        }
        break;
    case FJ_QUEUE_FULL:
        PyErr_SetString(fjpy.rejected_error, "queue capacity exceeded");
        break;
    case FJ_NO_ROOM:
        PyErr_SetString(fjpy.rejected_error,
                        "as many tasks are queued as max_queued allows, and when_full is \"raise\"");
        break;
    case FJ_NO_MEMORY:
        PyErr_NoMemory();
        break;
    case FJ_NO_THREAD:
        PyErr_SetString(PyExc_RuntimeError, "can't start new thread");
        break;
    case FJ_AT_LIMIT:
        PyErr_SetString(fjpy.rejected_error, "Thread limit exceeded replacing blocked worker");
        break;
    case FJ_STARVED:
        PyErr_SetString(fjpy.rejected_error,
                        "every worker waits in a join, work is queued, and the thread limit "
                        "(max_workers) is reached: nothing could ever run again");
        break;
    case FJ_STOPPED:
        PyErr_SetString(fjpy.cancelled_error, "the task was asked to stop");
        break;
    case FJ_OK:
    case FJ_INTERRUPTED:
        PyErr_SetString(PyExc_SystemError, "fjpool: no error to raise");
        break;
    }
    return NULL;
}

PyObject *fjpy_raise_broken(void)
{
    PyErr_SetString(fjpy.broken_error,
                    "A thread initializer failed, the thread pool is not usable anymore");
    return NULL;
}
