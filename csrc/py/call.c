/* call.c - the only file that attaches a thread state and runs Python.
 *
 * A worker makes its own thread state the first time it has Python to run, with
 * PyGILState_Ensure, so that PyGILState in foreign code finds the same one, and
 * keeps it for life. It stays attached from one Python task to the next and
 * detaches when the core says so: before it searches, parks, sleeps in a join,
 * or runs a native leaf.
 */
#include "fjpy.h"

#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Stack that one more nested task must find: its own frames, and C libraries it calls. */
enum { STACK_RESERVE = 192 * 1024, FRAME_RESERVE = 150 };

static _Thread_local PyThreadState *own_state;   /* while detached */
static _Thread_local bool initialized;           /* what the finalizer is to undo */
static _Thread_local bool owns_state;            /* made here, so it goes with the thread */
static _Thread_local fjpy_local_t local;
static _Thread_local PyObject *orphans_failure;  /* in a forked child: how its task ended */
static _Thread_local fj_worker_t *me;           /* the worker this thread is, to its end */

fjpy_local_t *fjpy_local(void)
{
    return &local;
}

/* ---- attaching ---- */

static fjpy_shared_t *shared_of(fj_worker_t *worker)
{
    return fj_pool_user(fj_worker_pool(worker));
}

/* The interpreter is going: a worker that was left behind never attaches
 * again. It holds no lock, and the process ends without it. */
static void stay_out_if_abandoned(void)
{
    while (me != NULL && fj_load_relaxed(&shared_of(me)->abandoned)) {
        (void)pause();
    }
}

/* The system keeps the end of a long name, so that workers differ. */
static void name_thread(fj_worker_t *worker)
{
    fjpy_shared_t *shared = shared_of(worker);
    size_t size = strlen(shared->prefix) + 12; /* and ten digits */
    char *name = malloc(size);
    if (name != NULL) {
        (void)snprintf(name, size, "%s%u", shared->prefix,
                       fj_worker_number(worker) - 1 + shared->first);
        fj_os_name_thread(name);
        free(name);
    }
}

PyObject *fjpy_worker_name(fjpy_shared_t *shared, uint32_t number)
{
    return PyUnicode_FromFormat("%s%u", shared->prefix, number - 1 + shared->first);
}

static void report(PyObject *result, PyObject *about)
{
    if (result == NULL) {
        PyErr_WriteUnraisable(about);
    }
    Py_XDECREF(result);
}

static void introduce(fj_worker_t *worker)
{
    owns_state = true;
    local.ident = PyThread_get_thread_ident();
    fj_worker_set_local(worker, &local);
    PyObject *text = fjpy_worker_name(shared_of(worker), fj_worker_number(worker));
    report(text != NULL ? fjpy_hook("worker_started", text) : NULL, text);
    Py_XDECREF(text);
}

/* PyGILState_Check says yes to everybody once a subinterpreter has been made. Up to
 * 3.11 the current state is that of whoever runs, so it is compared with ours. */
bool fjpy_is_attached(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyThreadState *state = PyThreadState_GetUnchecked();
#else
    PyThreadState *state = _PyThreadState_UncheckedGet();
#endif
    return state != NULL && state == PyGILState_GetThisThreadState();
}

void fjpy_attach(void)
{
    if (fjpy_is_attached()) {
        return;
    }
    stay_out_if_abandoned();
    PyThreadState *state = own_state;
    own_state = NULL;                        /* foreign code that made it may end it meanwhile */
    if (state == NULL && owns_state) {       /* foreign code has detached it */
        state = PyGILState_GetThisThreadState();
    }
    if (state != NULL) {
        PyEval_RestoreThread(state);
        return;
    }
    (void)PyGILState_Ensure();
    if (me != NULL) {
        introduce(me);
    }
}

void fjpy_keep_state(void)
{
    if (me != NULL && !owns_state) {
        fjpy_attach();
        fjpy_detach(me);
    }
}

void fjpy_detach(fj_worker_t *worker)
{
    (void)worker;
    if (fjpy_is_attached()) {
        own_state = PyEval_SaveThread();
    }
}

/* ---- hooks of the core ---- */

bool fjpy_worker_start(fj_worker_t *worker)
{
    fjpy_shared_t *shared = shared_of(worker);
    me = worker;
    name_thread(worker);
    if (shared->initializer == NULL) {
        initialized = true;
        return true;                         /* attaches when there is Python to run */
    }
    fj_slow_start(worker);
    fjpy_attach();
    PyObject *result = PyObject_CallObject(shared->initializer, shared->initargs);
    bool ok = initialized = result != NULL;
    Py_XDECREF(result);
    if (!ok) {
        PyObject *exception = fjpy_take_exception();
        shared->broken = true;
        report(fjpy_hook("initializer_failed", exception), NULL);
        Py_XDECREF(exception);
    }
    fjpy_detach(worker);
    return ok;                               /* false: the pool stops, see task_cancel */
}

void fjpy_worker_stop(fj_worker_t *worker)
{
    fjpy_shared_t *shared = shared_of(worker);
    if (fj_load_relaxed(&shared->abandoned)) {
        return;
    }
    if (shared->finalizer != NULL && initialized) {
        fjpy_attach();
        report(PyObject_CallNoArgs(shared->finalizer), shared->finalizer);
    }
    if (!owns_state) {
        return;
    }
    fjpy_attach();
    report(fjpy_hook("worker_stopped", Py_None), NULL);
    fj_worker_set_local(worker, NULL);       /* attached: nobody is looking at it now */
    PyGILState_Release(PyGILState_UNLOCKED); /* the Ensure in fjpy_attach: the state goes */
    own_state = NULL;
    owns_state = false;
}

void fjpy_forget_worker(void)
{
    me = NULL;
    owns_state = false;
}

/* The child of a fork in a task ends when the task does, with its outcome as status. */
void fjpy_orphaned(void)
{
    fjpy_attach();
    PyObject *exception = orphans_failure != NULL ? orphans_failure : Py_None;
    report(fjpy_hook("orphaned", exception), NULL); /* does not return */
    _exit(1);
}

/* Python frames that may still be stacked on this thread. */
static int frames_left(void)
{
    PyThreadState *state = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    int left = state->py_recursion_remaining;
    return left < state->c_recursion_remaining ? left : state->c_recursion_remaining;
#elif PY_VERSION_HEX >= 0x030B0000
    return state->recursion_remaining;
#else
    return Py_GetRecursionLimit() - state->recursion_depth;
#endif
}

bool fjpy_may_nest(fj_worker_t *worker)
{
    (void)worker;
    return fj_os_stack_left() > STACK_RESERVE
        && (!fjpy_is_attached() || frames_left() > FRAME_RESERVE);
}

int fjpy_at_limit(fjpy_shared_t *shared)
{
    PyObject *owner = shared->owner;
    if (shared->saturate == Py_True) {
        return 0;
    }
    if (shared->saturate != NULL) {
        PyObject *answer = PyObject_CallOneArg(shared->saturate, owner != NULL ? owner : Py_None);
        int carry_on = answer != NULL ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return carry_on;
    }
    if (!shared->warned && owner != NULL) {
        shared->warned = true;
        PyObject *result = fjpy_hook("limit_reached", owner);
        Py_XDECREF(result);
        return result != NULL ? 1 : -1;
    }
    return 1;
}

/* The core's hook, in a join: false, perhaps with an exception set. */
bool fjpy_saturate(fj_worker_t *worker)
{
    fjpy_attach();
    bool carry_on = fjpy_at_limit(shared_of(worker)) == 1;
    fjpy_detach(worker);
    return carry_on;
}

/* Does a futex word belong to the interpreter's lock? Everything of it lies in
 * one static structure, whose place and size the dynamic linker knows. */
bool fjpy_own_word(uintptr_t word)
{
#if defined(__GLIBC__)                     /* dladdr1 */
    static _Atomic(uintptr_t) start;
    static _Atomic(uintptr_t) size;
    if (fj_load_acquire(&start) == 0) {
        void *runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
        Dl_info info;
        ElfW(Sym) *symbol = NULL;
        if (runtime == NULL || dladdr1(runtime, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0
            || symbol == NULL) {
            return false;
        }
        fj_store_relaxed(&size, (uintptr_t)symbol->st_size);
        fj_store_release(&start, (uintptr_t)runtime); /* pairs with the load above */
    }
    return word - fj_load_relaxed(&start) < fj_load_relaxed(&size);
#else
    (void)word;
    return false;
#endif
}

/* ---- calling ---- */

PyObject *fjpy_hook(const char *name, PyObject *argument)
{
    PyObject *function = PyDict_GetItemString(fjpy.hooks, name);
    if (function == NULL) {
        PyErr_Format(PyExc_SystemError, "fjpool: hook %s is missing", name);
        return NULL;
    }
    return PyObject_CallOneArg(function, argument);
}

PyObject *fjpy_take_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        (void)PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
    }
    Py_DECREF(type);
    return value;
#endif
}

static PyObject *call_body(fjpy_task_t *self)
{
    PyObject *result;
    switch ((fjpy_body_t)self->body) {
    case FJPY_CALL: {
        /* The callable and its arguments die with their use. */
        PyObject *function = self->function, *args = self->args, *kwargs = self->kwargs;
        self->function = self->args = self->kwargs = NULL;
        result = PyObject_Call(function, args, kwargs);
        Py_DECREF(function);
        Py_DECREF(args);
        Py_XDECREF(kwargs);
        return result;
    }
    case FJPY_COMPUTE:
        return PyObject_CallMethodNoArgs((PyObject *)self, fjpy.s_compute);
    case FJPY_ACTION:
        result = PyObject_CallMethodNoArgs((PyObject *)self, fjpy.s_compute);
        if (result != NULL) {
            Py_SETREF(result, Py_NewRef(Py_None));
        }
        return result;
    case FJPY_NO_BODY:
        break;
    }
    PyErr_SetString(PyExc_RuntimeError, "this future has nothing to run");
    return NULL;
}

void fjpy_raise_again(PyObject *exception)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                  PyException_GetTraceback(exception));
}

void fjpy_leave_context(PyObject *context)
{
    if (context != NULL) {
        PyObject *exception = PyErr_Occurred() ? fjpy_take_exception() : NULL;
        (void)PyContext_Exit(context);       /* cannot fail: it is the current one */
        Py_DECREF(context);
        if (exception != NULL) {
            fjpy_raise_again(exception);
        }
    }
}

/* The task's context, if it has one, is *context from here on, which leave_context takes. */
static bool enter_context(fjpy_task_t *self, PyObject **context)
{
    *context = self->context;
    self->context = NULL;
    if (*context != NULL && PyContext_Enter(*context) < 0) {
        Py_CLEAR(*context);
        return false;
    }
    return true;
}

static void task_run(fj_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    fjpy_task_t *self = fjpy_task_of(task);
    fjpy_attach();
    if (fj_task_is_done(task)) {
        return;                              /* completed by hand since it was claimed */
    }
    Py_INCREF(self);
    self->outer = local.current;
    self->runner = &local;
    local.current = self;
    PyObject *context;                       /* its callbacks run in it as well */
    PyObject *result = enter_context(self, &context) ? call_body(self) : NULL;
    local.current = self->outer;
    self->outer = NULL;
    self->runner = NULL;
    if (result != NULL) {
        Py_CLEAR(orphans_failure);           /* set by a task inside, whose failure this one caught */
        (void)fjpy_task_finish(self, FJ_NORMAL, result);
    } else {
        PyObject *exception = fjpy_take_exception();
        if (self->epoch != fjpy_epoch) {
            Py_XSETREF(orphans_failure, Py_NewRef(exception));
        }
        if (self->unseen) {
            report(fjpy_hook("uncaught", exception), exception);
        }
        (void)fjpy_task_finish(self, FJ_FAILED, exception);
    }
    fjpy_leave_context(context);
    Py_DECREF(self);
}

static void task_drop(fj_task_t *task)
{
    fjpy_attach();
    Py_DECREF(fjpy_task_of(task));
}

static void task_cancel(fj_task_t *task)
{
    bool attached = fjpy_is_attached();
    fjpy_attach();
    fjpy_task_t *self = fjpy_task_of(task);
    fj_pool_t *pool = fj_task_pool(task);
    if (fjpy_shared_is_broken(pool) && fj_task_try_claim(task)) {
        (void)fjpy_raise_broken();
        (void)fjpy_task_finish(self, FJ_FAILED, fjpy_take_exception());
    } else {
        (void)fjpy_task_finish(self, FJ_CANCELLED, NULL);
    }
    if (!attached) {
        fjpy_detach(NULL);
    }
}

const fj_task_ops_t fjpy_task_ops = {task_run, task_drop, task_cancel, false};
