/* results.c - both ends of map: many calls into a list, and _core.Results, which
 * map returns. It walks the lists that a generator yields at the speed of a list's
 * own iterator, and lets go of each item as it hands it out.
 */
#include "fjpy.h"

static PyObject *call(PyObject *fn, PyObject *item, bool star)
{
    if (!star) {
        return PyObject_CallOneArg(fn, item);
    }
    PyObject *args = PySequence_Tuple(item);
    PyObject *result = args != NULL ? PyObject_CallObject(fn, args) : NULL;
    Py_XDECREF(args);
    return result;
}

/* append_calls(results, fn, items, star): appends fn(item), or fn(*item), for each
 * item; raises what a call raised, with the results before it in the list. */
PyObject *fjpy_append_calls(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 4 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected a list, a callable, an iterable and a bool");
        return NULL;
    }
    bool star = args[3] == Py_True;
    PyObject *items = PyObject_GetIter(args[2]), *item;
    while (items != NULL && (item = PyIter_Next(items)) != NULL) {
        PyObject *result = call(args[1], item, star);
        Py_DECREF(item);
        int appended = result != NULL ? PyList_Append(args[0], result) : -1;
        Py_XDECREF(result);
        if (appended < 0) {
            break;
        }
    }
    Py_XDECREF(items);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

typedef struct results {
    PyObject_HEAD
    PyObject *parts;             /* the generator; NULL once it has ended */
    PyObject *list;              /* its present list, ours alone, or NULL */
    Py_ssize_t next;
} results_t;

static PyObject *results_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *parts;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "expected a generator of lists");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O:Results", &parts)) {
        return NULL;
    }
    results_t *self = (results_t *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->parts = Py_NewRef(parts);
    }
    return (PyObject *)self;
}

static PyObject *results_next(PyObject *object)
{
    results_t *self = (results_t *)object;
    while (self->list == NULL || self->next >= PyList_GET_SIZE(self->list)) {
        Py_CLEAR(self->list);
        PyObject *list = self->parts != NULL ? PyIter_Next(self->parts) : NULL;
        if (list == NULL) {
            Py_CLEAR(self->parts);           /* its end, or what it raised */
            return NULL;
        }
        self->list = list;
        self->next = 0;
    }
    PyObject *item = PyList_GET_ITEM(self->list, self->next);
    PyList_SET_ITEM(self->list, self->next, Py_NewRef(Py_None));
    self->next++;
    return item;
}

static PyObject *results_close(PyObject *object, PyObject *Py_UNUSED(none))
{
    results_t *self = (results_t *)object;
    PyObject *parts = self->parts;
    self->parts = NULL;
    Py_CLEAR(self->list);
    PyObject *result = parts != NULL ? PyObject_CallMethod(parts, "close", NULL)
                                     : Py_NewRef(Py_None);
    Py_XDECREF(parts);
    return result;
}

static int results_traverse(PyObject *object, visitproc visit, void *arg)
{
    results_t *self = (results_t *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->parts);
    Py_VISIT(self->list);
    return 0;
}

static int results_clear(PyObject *object)
{
    results_t *self = (results_t *)object;
    Py_CLEAR(self->parts);
    Py_CLEAR(self->list);
    return 0;
}

static void results_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)results_clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(close_doc,
"close($self, /)\n--\n\n"
"Takes no more results; calls that have not started are cancelled.");

static PyMethodDef results_methods[] = {
    {"close", results_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot results_slots[] = {
    {Py_tp_new, results_new},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, results_next},
    {Py_tp_methods, results_methods},
    {Py_tp_traverse, results_traverse},
    {Py_tp_clear, results_clear},
    {Py_tp_dealloc, results_dealloc},
    {0, NULL},
};

static PyType_Spec results_spec = {
    .name = "fjpool._core.Results",
    .basicsize = sizeof(results_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = results_slots,
};

int fjpy_results_add(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &results_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int result = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return result;
}
