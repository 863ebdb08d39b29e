/* docs.h - the docstrings of _core.Task and _core.Pool, as users of
 * fjpool.Future and fjpool.ForkJoinPool read them.
 *
 * numpydoc. The first line of a method's is its signature for
 * inspect.signature. The examples run as tests.
 */
#ifndef FJPY_DOCS_H
#define FJPY_DOCS_H

/* ---- Task ---- */

#define FJPY_TASK_DOC \
    "Task()\n--\n\n" \
    "What fjpool.Future adds to concurrent.futures.Future."

#define FJPY_TASK_FORK_DOC \
    "fork($self, /)\n--\n\n" \
    "Queues the task and returns it.\n\n" \
    "Inside a worker it goes onto that worker's own deque, where an idle worker\n" \
    "may steal it; elsewhere to the pool of ``with fjpool.use(pool)``, else to\n" \
    "the common pool. A task that is done is only returned.\n\n" \
    "Returns\n" \
    "-------\n" \
    "Future\n" \
    "    The task itself.\n\n" \
    "Raises\n" \
    "------\n" \
    "RuntimeError\n" \
    "    It is queued or running already.\n" \
    "TypeError\n" \
    "    It has nothing to run: a bare `Future`.\n" \
    "RejectedExecutionError\n" \
    "    The pool takes no more work, or its queue is full.\n\n" \
    "Notes\n" \
    "-----\n" \
    "Java's ForkJoinTask.fork. The task runs in a copy of the context variables\n" \
    "that the forker has now.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> class Answer(fjpool.RecursiveTask):\n" \
    "...     def compute(self):\n" \
    "...         return 42\n" \
    ">>> Answer().fork().join()\n" \
    "42"

#define FJPY_TASK_JOIN_DOC \
    "join($self, /)\n--\n\n" \
    "Waits for the task and returns its result.\n\n" \
    "A worker runs the task itself if nobody has started it. If another worker\n" \
    "is at it, the caller helps with what that one has forked for it; if there\n" \
    "is nothing to help with, it sleeps and a spare may run in its place.\n\n" \
    "Returns\n" \
    "-------\n" \
    "object\n" \
    "    What the body returned.\n\n" \
    "Raises\n" \
    "------\n" \
    "BaseException\n" \
    "    What the body raised: the same object, with the task's own traceback.\n" \
    "CancelledError\n" \
    "    The task was cancelled.\n" \
    "BrokenThreadPool\n" \
    "    It was queued before `os.fork`, in the parent process.\n\n" \
    "Notes\n" \
    "-----\n" \
    "Java's ForkJoinTask.join. While it waits, a worker runs only descendants of\n" \
    "what it waits for. Ctrl-C ends a wait in the main thread; the task goes on.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> class Answer(fjpool.RecursiveTask):\n" \
    "...     def compute(self):\n" \
    "...         return 42\n" \
    ">>> task = Answer()\n" \
    ">>> task.fork() is task\n" \
    "True\n" \
    ">>> task.join()\n" \
    "42"

#define FJPY_TASK_QUIETLY_JOIN_DOC \
    "quietly_join($self, /)\n--\n\n" \
    "Like `join`, but returns None and raises nothing that the task did.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> class Fails(fjpool.RecursiveTask):\n" \
    "...     def compute(self):\n" \
    "...         raise ValueError(\"no\")\n" \
    ">>> task = Fails().fork()\n" \
    ">>> task.quietly_join()\n" \
    ">>> task.exception()\n" \
    "ValueError('no')"

#define FJPY_TASK_INVOKE_DOC \
    "invoke($self, /)\n--\n\n" \
    "Runs the task here and now and returns its result.\n\n" \
    "If it is queued or running already, this is `join`.\n\n" \
    "Returns\n" \
    "-------\n" \
    "object\n" \
    "    What the body returned.\n\n" \
    "Raises\n" \
    "------\n" \
    "BaseException\n" \
    "    What the body raised, the same object.\n" \
    "CancelledError\n" \
    "    The task was cancelled.\n\n" \
    "Notes\n" \
    "-----\n" \
    "Java's ForkJoinTask.invoke. The body runs in the calling thread, whichever\n" \
    "that is; `ForkJoinPool.invoke` runs it on one of the pool's workers.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> class Answer(fjpool.RecursiveTask):\n" \
    "...     def compute(self):\n" \
    "...         return 42\n" \
    ">>> Answer().invoke()\n" \
    "42"

#define FJPY_TASK_QUIETLY_INVOKE_DOC \
    "quietly_invoke($self, /)\n--\n\n" \
    "Like `invoke`, but returns None and raises nothing that the task did."

#define FJPY_TASK_TRY_UNFORK_DOC \
    "try_unfork($self, /)\n--\n\n" \
    "Takes the task back, if it is what the calling worker forked last.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool\n" \
    "    True: it is queued no longer, as if it had not been forked. False: it\n" \
    "    is not on top of the caller's own deque; somebody may have stolen it.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> class Answer(fjpool.RecursiveTask):\n" \
    "...     def compute(self):\n" \
    "...         return 42\n" \
    ">>> def body():\n" \
    "...     task = Answer().fork()\n" \
    "...     return task.try_unfork(), task.invoke()\n" \
    ">>> with fjpool.ForkJoinPool(1) as pool:\n" \
    "...     pool.invoke(body)\n" \
    "(True, 42)"

#define FJPY_TASK_DONE_DOC \
    "done($self, /)\n--\n\n" \
    "Whether the task has ended: returned, raised, or was cancelled.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_IS_DONE_DOC \
    "is_done($self, /)\n--\n\n" \
    "The same as `done`, under Java's name.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_RUNNING_DOC \
    "running($self, /)\n--\n\n" \
    "Whether the body is running.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_CANCELLED_DOC \
    "cancelled($self, /)\n--\n\n" \
    "Whether the task was cancelled.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_IS_CANCELLED_DOC \
    "is_cancelled($self, /)\n--\n\n" \
    "The same as `cancelled`, under Java's name.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_CANCEL_DOC \
    "cancel($self, /)\n--\n\n" \
    "Cancels the task, unless its body has started.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool\n" \
    "    True: it is cancelled, now or earlier, and its body never runs. False:\n" \
    "    the body is running, or the task is done.\n\n" \
    "Notes\n" \
    "-----\n" \
    "As in `concurrent.futures`, not as in Java, where a running task can be\n" \
    "cancelled too. It costs the same however many tasks are queued.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future = fjpool.Future()\n" \
    ">>> future.cancel(), future.cancel(), future.cancelled()\n" \
    "(True, True, True)"

#define FJPY_TASK_REQUEST_CANCEL_DOC \
    "request_cancel($self, /)\n--\n\n" \
    "Cancels the task, or asks it to stop if it runs.\n\n" \
    "A running task is woken with CancelledError where it waits in fjpool, and\n" \
    "sees ``cancel_requested``; what it does then is its own affair.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool\n" \
    "    False: it was done already.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> with fjpool.ForkJoinPool(1) as pool:\n" \
    "...     asleep = pool.submit(fjpool.sleep, 3600)\n" \
    "...     asleep.request_cancel()\n" \
    "True"

#define FJPY_TASK_CANCEL_REQUESTED_DOC \
    "Whether `request_cancel` was called, or the pool's `shutdown_now`, while\n" \
    "the task ran."

#define FJPY_TASK_IS_COMPLETED_NORMALLY_DOC \
    "is_completed_normally($self, /)\n--\n\n" \
    "Whether the task has ended with a result.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_IS_COMPLETED_ABNORMALLY_DOC \
    "is_completed_abnormally($self, /)\n--\n\n" \
    "Whether the task has raised or was cancelled.\n\n" \
    "Returns\n" \
    "-------\n" \
    "bool"

#define FJPY_TASK_GET_RAW_RESULT_DOC \
    "get_raw_result($self, /)\n--\n\n" \
    "The result as it is now: never waits and never raises.\n\n" \
    "Returns\n" \
    "-------\n" \
    "object or None\n" \
    "    None until there is a result, and if there will be none.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future = fjpool.Future()\n" \
    ">>> future.get_raw_result() is None\n" \
    "True\n" \
    ">>> future.complete(3)\n" \
    ">>> future.get_raw_result()\n" \
    "3"

#define FJPY_TASK_RESULT_DOC \
    "result($self, /, timeout=None)\n--\n\n" \
    "Waits for the task and returns its result: `join` with a time-out.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "timeout : float, optional\n" \
    "    Seconds to wait; None: for ever. A worker that has begun to run the\n" \
    "    task itself does not stop at the time-out.\n\n" \
    "Returns\n" \
    "-------\n" \
    "object\n" \
    "    What the body returned.\n\n" \
    "Raises\n" \
    "------\n" \
    "BaseException\n" \
    "    What the body raised, the same object.\n" \
    "CancelledError\n" \
    "    The task was cancelled.\n" \
    "TimeoutError\n" \
    "    It is not done in time.\n" \
    "BrokenThreadPool\n" \
    "    It was queued before `os.fork`, in the parent process.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> with fjpool.ForkJoinPool(1) as pool:\n" \
    "...     pool.submit(pow, 2, 10).result(timeout=60)\n" \
    "1024"

#define FJPY_TASK_EXCEPTION_DOC \
    "exception($self, /, timeout=None)\n--\n\n" \
    "Waits for the task and returns the exception that its body raised.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "timeout : float, optional\n" \
    "    Seconds to wait; None: for ever.\n\n" \
    "Returns\n" \
    "-------\n" \
    "BaseException or None\n" \
    "    None: the body returned.\n\n" \
    "Raises\n" \
    "------\n" \
    "CancelledError\n" \
    "    The task was cancelled.\n" \
    "TimeoutError\n" \
    "    It is not done in time.\n" \
    "BrokenThreadPool\n" \
    "    It was queued before `os.fork`, in the parent process.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> with fjpool.ForkJoinPool(1) as pool:\n" \
    "...     pool.submit(int, \"x\").exception()\n" \
    "ValueError(\"invalid literal for int() with base 10: 'x'\")"

#define FJPY_TASK_COMPLETE_DOC \
    "complete($self, result, /)\n--\n\n" \
    "Ends the task with a result; of one that is done, replaces the result.\n\n" \
    "A task that has failed or was cancelled goes on raising. A body that has not started never runs; one that is running runs on, and\n" \
    "what it returns is dropped.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "result : object\n" \
    "    What `join` and `result` return.\n\n" \
    "Notes\n" \
    "-----\n" \
    "Java's ForkJoinTask.complete.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future = fjpool.Future()\n" \
    ">>> future.complete(3)\n" \
    ">>> future.complete(4)\n" \
    ">>> future.result()\n" \
    "4"

#define FJPY_TASK_COMPLETE_EXCEPTIONALLY_DOC \
    "complete_exceptionally($self, exception, /)\n--\n\n" \
    "Ends the task with an exception; without effect on one that is done.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "exception : BaseException or type\n" \
    "    What `join` and `result` raise; of a class, a new instance.\n\n" \
    "Raises\n" \
    "------\n" \
    "TypeError\n" \
    "    It is no exception.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future = fjpool.Future()\n" \
    ">>> future.complete_exceptionally(OSError(\"gone\"))\n" \
    ">>> future.exception()\n" \
    "OSError('gone')"

#define FJPY_TASK_SET_RESULT_DOC \
    "set_result($self, /, result)\n--\n\n" \
    "Ends the task with a result: `complete` for one that is not done.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "result : object\n" \
    "    What `join` and `result` return.\n\n" \
    "Raises\n" \
    "------\n" \
    "InvalidStateError\n" \
    "    The task is done.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future = fjpool.Future()\n" \
    ">>> future.set_result(3)\n" \
    ">>> future.result()\n" \
    "3"

#define FJPY_TASK_SET_EXCEPTION_DOC \
    "set_exception($self, /, exception)\n--\n\n" \
    "Ends the task with an exception, if it is not done.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "exception : BaseException or type\n" \
    "    What `join` and `result` raise; of a class, a new instance.\n\n" \
    "Raises\n" \
    "------\n" \
    "InvalidStateError\n" \
    "    The task is done.\n" \
    "TypeError\n" \
    "    It is no exception."

#define FJPY_TASK_ADD_DONE_CALLBACK_DOC \
    "add_done_callback($self, /, fn)\n--\n\n" \
    "Has a function called with the task once it is done.\n\n" \
    "Callbacks are called in the order they were added, by the thread that ends\n" \
    "the task; at once, by the caller, if it is done already. An exception that\n" \
    "one raises is logged by ``concurrent.futures`` and stops none of the others.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "fn : callable\n" \
    "    ``fn(task)``; what it returns is ignored.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> future, seen = fjpool.Future(), []\n" \
    ">>> future.add_done_callback(lambda future: seen.append(future.result()))\n" \
    ">>> future.set_result(3)\n" \
    ">>> seen\n" \
    "[3]"

/* ---- Pool ---- */

#define FJPY_POOL_EXECUTE_DOC \
    "execute($self, fn, /, *args, **kwargs)\n--\n\n" \
    "Runs ``fn(*args, **kwargs)`` in a worker; nobody is told how it ends.\n" \
    "\n" \
    "What it raises goes to `threading.excepthook`, which prints it.\n" \
    "\n" \
    "Raises\n" \
    "------\n" \
    "RuntimeError\n" \
    "    The pool takes no more tasks, as for `submit`.\n" \
    "\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> seen = []\n" \
    ">>> with fjpool.ForkJoinPool(2) as pool:\n" \
    "...     pool.execute(seen.append, 1)\n" \
    ">>> seen\n" \
    "[1]\n"

#define FJPY_POOL_SUBMIT_DOC \
    "submit($self, fn, /, *args, **kwargs)\n--\n\n" \
    "Queues a call of ``fn(*args, **kwargs)`` and returns its future.\n\n" \
    "Parameters\n" \
    "----------\n" \
    "fn : callable\n" \
    "    The function.\n" \
    "*args, **kwargs\n" \
    "    Its arguments. They and `fn` are given up once the call has ended.\n\n" \
    "Returns\n" \
    "-------\n" \
    "Future\n\n" \
    "Raises\n" \
    "------\n" \
    "RejectedExecutionError\n" \
    "    The pool was shut down, or its queue is full.\n" \
    "BrokenThreadPool\n" \
    "    The initializer failed in a worker.\n" \
    "RuntimeError\n" \
    "    The pool was made before `os.fork`, in the parent process; or it has no\n" \
    "    worker and the system refuses a thread.\n" \
    "TypeError\n" \
    "    `fn` is not callable.\n\n" \
    "Notes\n" \
    "-----\n" \
    "What one thread submits from outside is taken in that order. A worker's own\n" \
    "submissions go to its inbox, oldest first, and may be stolen. The call runs\n" \
    "in a copy of the context variables that the submitter has now. Only\n" \
    "`max_queued` holds a fast submitter back.\n\n" \
    "Examples\n" \
    "--------\n" \
    ">>> import fjpool\n" \
    ">>> with fjpool.ForkJoinPool(2) as pool:\n" \
    "...     pool.submit(pow, 2, 10).result()\n" \
    "1024"

#define FJPY_POOL_PARALLELISM_DOC \
    "Workers that should run at once."

#define FJPY_POOL_POOL_SIZE_DOC \
    "Worker threads there are now, those that stand in for waiting ones included."

#define FJPY_POOL_ACTIVE_COUNT_DOC \
    "Workers that run a task or look for one; those that wait in a join do not count."

#define FJPY_POOL_RUNNING_COUNT_DOC \
    "Workers that are inside a task and do not wait in a join."

#define FJPY_POOL_QUEUED_TASK_COUNT_DOC \
    "Tasks queued by workers, forked or submitted, that have not started.\n\n" \
    "Cancelled ones may count until a worker meets them."

#define FJPY_POOL_QUEUED_SUBMISSION_COUNT_DOC \
    "Tasks submitted from outside that no worker has taken.\n\n" \
    "Cancelled ones may count until a worker meets them."

#define FJPY_POOL_STEAL_COUNT_DOC \
    "Tasks that workers have taken from anywhere but their own queues.\n\n" \
    "A task from outside counts once when it is taken; one run to help a join\n" \
    "does not. The count lags while workers are busy and is exact when the pool\n" \
    "is quiescent.\n\n" \
    "Notes\n" \
    "-----\n" \
    "Java's getStealCount. It is no health metric: a few steals can mean perfect\n" \
    "balance, since each may carry half of the work, and many can mean tiny tasks."

#endif /* FJPY_DOCS_H */
