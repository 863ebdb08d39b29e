/* module.c - the programs as one Python extension module, `_programs`.
 *
 *     problem = _programs.Problem("fib", 30)
 *     seconds = problem.fork_join(pool)      # and sequential(), loop(pool, chunk)
 *     problem.answer, problem.error
 *
 * No run holds the GIL, and the seconds are those of the program alone: not of Python,
 * nor of what resets and checks. One problem is run by one thread at a time.
 */
#include "native.h"

#include "cilksort.c"
#include "fft.c"
#include "fib.c"
#include "heat.c"
#include "integrate.c"
#include "knapsack.c"
#include "latency.c"
#include "matmul.c"
#include "nqueens.c"
#include "skew.c"
#include "skynet.c"
#include "strassen.c"
#include "uts.c"

static const program_t *const programs[] = {
    &fib_program,      &fib_counted_program, &nqueens_program, &integrate_program, &skynet_program,
    &matmul_program,   &cilksort_program,    &heat_program,    &fft_program,       &strassen_program,
    &knapsack_program, &uts_program,         &skew_program,
};

enum { PROGRAMS = sizeof programs / sizeof programs[0] };

typedef struct problem_object {
    PyObject_HEAD
    const program_t *program;
    bool is_set_up, busy;
    problem_t problem;
} problem_object_t;

static const program_t *find_program(const char *name)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (strcmp(programs[i]->name, name) == 0) {
            return programs[i];
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no program %s", name);
    return NULL;
}

static PyObject *problem_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    const char *name;
    long long size[SIZES] = {0};
    if (keywords != NULL && PyDict_GET_SIZE(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "Problem() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "s|LLLL", &name, &size[0], &size[1], &size[2], &size[3])) {
        return NULL;
    }
    const program_t *program = find_program(name);
    if (program == NULL) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(args) - 1 != program->sizes) {
        return PyErr_Format(PyExc_TypeError, "%s takes %d sizes", name, program->sizes);
    }
    problem_object_t *self = (problem_object_t *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->program = program;
    for (int i = 0; i < SIZES; i++) {
        self->problem.size[i] = size[i];
    }
    self->is_set_up = program->set_up == NULL || program->set_up(&self->problem);
    if (!self->is_set_up) {
        Py_DECREF(self);
        return PyErr_Format(PyExc_MemoryError, "%s: no memory, or of no use at this size", name);
    }
    return (PyObject *)self;
}

static void problem_dealloc(problem_object_t *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (self->is_set_up && self->program->tear_down != NULL) {
        self->program->tear_down(&self->problem);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- runs ---- */

static int fork_join_body(fj_worker_t *worker, void *data)
{
    problem_object_t *self = data;
    self->program->fork_join(worker, &self->problem);
    return 0;
}

static int loop_body(fj_worker_t *worker, void *data)
{
    problem_object_t *self = data;
    (void)worker;
    return self->program->loop(&self->problem);
}

/* One run, in the pool; without a body the twin, in the calling thread. Seconds. */
static PyObject *run(problem_object_t *self, fj_pool_t *pool, fj_body_t body)
{
    const program_t *program = self->program;
    problem_t *problem = &self->problem;
    int code = 0;
    int64_t begun, ended;
    if (self->busy) {
        return PyErr_Format(PyExc_RuntimeError, "this problem is being run");
    }
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    memset(problem->answer, 0, sizeof problem->answer);
    problem->error = 0;
    problem->work = 0;
    if (program->reset != NULL) {
        program->reset(problem);
    }
    begun = now_ns();
    if (body != NULL) {
        code = fj_run(pool, body, self);
    } else {
        program->sequential(problem);
    }
    ended = now_ns();
    if (program->check != NULL && code == 0) {
        program->check(problem);
    }
    Py_END_ALLOW_THREADS
    self->busy = false;
    return code != 0 ? fj_raise(code) : PyFloat_FromDouble((double)(ended - begun) / 1e9);
}

static PyObject *problem_sequential(problem_object_t *self, PyObject *none)
{
    (void)none;
    return run(self, NULL, NULL);
}

static PyObject *problem_fork_join(problem_object_t *self, PyObject *object)
{
    fj_pool_t *pool = fj_pool_from_object(object);
    if (pool == NULL) {
        return NULL;
    }
    if (self->program->fork_join == NULL) {
        return PyErr_Format(PyExc_TypeError, "%s has no fork/join version", self->program->name);
    }
    return run(self, pool, fork_join_body);
}

static PyObject *problem_loop(problem_object_t *self, PyObject *args)
{
    PyObject *object;
    long long chunk = 0;
    if (!PyArg_ParseTuple(args, "O|L", &object, &chunk)) {
        return NULL;
    }
    fj_pool_t *pool = fj_pool_from_object(object);
    if (pool == NULL) {
        return NULL;
    }
    if (self->program->loop == NULL) {
        return PyErr_Format(PyExc_TypeError, "%s is no loop", self->program->name);
    }
    self->problem.chunk = chunk;
    return run(self, pool, loop_body);
}

static PyObject *problem_answer(problem_object_t *self, void *none)
{
    (void)none;
    PyObject *answer = PyTuple_New(self->program->answers);
    for (int i = 0; answer != NULL && i < self->program->answers; i++) {
        PyObject *value = PyLong_FromLongLong(self->problem.answer[i]);
        if (value == NULL) {
            Py_CLEAR(answer);
        } else {
            PyTuple_SET_ITEM(answer, i, value);
        }
    }
    return answer;
}

static PyObject *problem_error(problem_object_t *self, void *none)
{
    (void)none;
    return PyFloat_FromDouble(self->problem.error);
}

static PyObject *problem_work(problem_object_t *self, void *none)
{
    (void)none;
    return PyLong_FromLongLong(self->problem.work);
}

static PyMethodDef problem_methods[] = {
    {"sequential", (PyCFunction)problem_sequential, METH_NOARGS,
     "Run the twin in this thread; the seconds it took."},
    {"fork_join", (PyCFunction)problem_fork_join, METH_O,
     "Run in a pool; the seconds it took."},
    {"loop", (PyCFunction)problem_loop, METH_VARARGS,
     "Run as a loop with that chunk, 0: automatic, in a pool; the seconds it took."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef problem_getset[] = {
    {"answer", (getter)problem_answer, NULL, "What the latest run found.", NULL},
    {"error", (getter)problem_error, NULL, "How far it was off, for floating-point results.", NULL},
    {"work", (getter)problem_work, NULL, "How much it did, if runs differ in that.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot problem_slots[] = {
    {Py_tp_new, problem_new},
    {Py_tp_dealloc, problem_dealloc},
    {Py_tp_methods, problem_methods},
    {Py_tp_getset, problem_getset},
    {Py_tp_doc, "Problem(name, *sizes): a program and its data."},
    {0, NULL},
};

static PyType_Spec problem_spec = {
    .name = "_programs.Problem", .basicsize = sizeof(problem_object_t),
    .flags = Py_TPFLAGS_DEFAULT, .slots = problem_slots,
};

static PyMethodDef functions[] = {
    {"wake_ups", wake_ups, METH_VARARGS,
     "wake_ups(pool, n, pause_us): ns from fj_run to the body's first line, n times."},
    {"futex_round_trips", futex_round_trips, METH_VARARGS,
     "futex_round_trips(n, pause_us): ns of n wake-ups there and back, and of the ways there."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_programs", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__programs(void)
{
    PyObject *module = import_fjpool() < 0 ? NULL : PyModule_Create(&definition);
    PyObject *type = module != NULL ? PyType_FromSpec(&problem_spec) : NULL;
    PyObject *names = type != NULL ? PyTuple_New(PROGRAMS) : NULL;
    for (int i = 0; names != NULL && i < PROGRAMS; i++) {
        PyObject *name = PyUnicode_FromString(programs[i]->name);
        if (name == NULL) {
            Py_CLEAR(names);
        } else {
            PyTuple_SET_ITEM(names, i, name);
        }
    }
    if (names == NULL || PyModule_AddObjectRef(module, "Problem", type) < 0
        || PyModule_AddObjectRef(module, "NAMES", names) < 0) {
        Py_CLEAR(module);
    }
    Py_XDECREF(type);
    Py_XDECREF(names);
    return module;
}
