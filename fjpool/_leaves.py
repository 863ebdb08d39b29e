"""What counts as a native leaf: a C function with one of a few signatures.

Imported when the first leaf is resolved. None of the libraries whose functions are recognised
is imported here: an object of theirs can only exist if they are.
"""

import sys

from . import _core

__all__ = ["Native", "resolve"]

# Numbers shared with csrc/py/leaf.c.
KINDS = {"double": 1, "int64": 2, "void": 3}
CODE = 4
WITH_DATA = 8
INTO_PYTHON = 16

EXPECTED = (
    "double(int64, int64), int64(int64, int64) or void(int64, int64), each also with a trailing "
    "void *, or int(int64, int64, void *)"
)

INT64_NAMES = {"int64", "int64_t", "long long", "long long int", "signed long long", "Py_ssize_t",
               "ssize_t", "ptrdiff_t", "npy_int64", "npy_longlong", "npy_intp", "intptr_t", "PY_LONG_LONG",
               "intp", "Py_intptr_t"}  # fmt: skip
if sys.maxsize > 2**32 and sys.platform != "win32":
    INT64_NAMES |= {"long", "long int", "signed long", "npy_long"}
DOUBLE_NAMES = {"double", "float64", "npy_double", "npy_float64"}
INT_NAMES = {"int", "int32", "int32_t", "signed int", "npy_int", "intc"}
POINTER_NAMES = {"void *", "void*", "voidptr", "none*"}


def _type(name):
    """One spelling for every C type that matters here; others as they are."""
    words = name.replace("*", " * ").split()
    name = " ".join(word for word in words if word != "const")
    if name.endswith("*"):
        return "void *" if name == "void *" else name
    if name in INT64_NAMES:
        return "int64"
    if name in DOUBLE_NAMES:
        return "double"
    if name in INT_NAMES:
        return "int"
    return name


class Native:
    """A resolved native leaf; holds on to the object that the code belongs to."""

    __slots__ = ("kind", "signature", "address", "context", "owner")

    def __init__(self, result, arguments, address, owner, context=0, into_python=False):
        result, arguments = _type(result), [_type(argument) for argument in arguments]
        self.signature = f"{result}({', '.join(arguments)})"
        self.address, self.owner, self.context = address, owner, context
        with_data = arguments[2:] == ["void *"]
        if arguments[:2] != ["int64", "int64"] or not (with_data or len(arguments) == 2):
            raise self._wrong()
        if result in KINDS:
            self.kind = KINDS[result] | (WITH_DATA if with_data else 0)
        elif result == "int" and with_data:
            self.kind = CODE | WITH_DATA
        else:
            raise self._wrong()
        if into_python:
            self.kind |= INTO_PYTHON
        if not address:
            raise ValueError("the native leaf is a null pointer")
        if not _is_code(address):
            raise ValueError(
                f"the native leaf points to {address:#x}, where no code is: was its library closed?"
            )

    def _wrong(self):
        return TypeError(f"a native leaf must be {EXPECTED}, not {self.signature}")

    @property
    def has_value(self):
        return self.kind & ~(WITH_DATA | INTO_PYTHON) in (KINDS["double"], KINDS["int64"])

    def data_for(self, data):
        """The buffer, or an address, that goes with a call."""
        if not self.kind & WITH_DATA:
            if data is not None:
                raise TypeError(f"the native leaf {self.signature} takes no data")
            return None
        if data is None:
            return self.context
        try:
            memoryview(data).release()
        except TypeError:
            raise TypeError(f"data must be a buffer, not {type(data).__name__}") from None
        return data


def _is_code(address):
    if _core.in_library(address):
        return True
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                where, rights = line.split(maxsplit=2)[:2]
                low, high = (int(end, 16) for end in where.split("-"))
                if low <= address < high:
                    return "x" in rights
    except OSError:
        return True  # no way to tell
    return False


def _split_signature(text):
    """'double (int64_t, int64_t)' -> 'double', ['int64_t', 'int64_t']."""
    result, bracket, rest = text.partition("(")
    arguments, closing, _ = rest.rpartition(")")
    if not (result.strip() and bracket and closing):
        raise TypeError(f"a native leaf's capsule must be named by its signature, {EXPECTED}, not {text!r}")
    return result.strip(), [argument.strip() for argument in arguments.split(",")]


def _from_capsule(capsule, owner):
    name, address, context = _core.capsule_info(capsule)
    if name is None:
        raise TypeError(f"a native leaf's capsule must be named by its signature, {EXPECTED}")
    return Native(*_split_signature(name), address, owner, context)


def _from_ctypes(function):
    import ctypes

    def name(kind):
        if kind is None:
            return "void"
        if kind is ctypes.c_void_p:
            return "void *"
        if isinstance(kind, type) and issubclass(kind, ctypes._SimpleCData):
            if kind._type_ in "bhilq" and ctypes.sizeof(kind) == 8:
                return "int64"
            if kind is ctypes.c_int:
                return "int"
            if kind is ctypes.c_double:
                return "double"
        if isinstance(kind, type) and issubclass(kind, ctypes._Pointer):
            return "void *"
        return getattr(kind, "__name__", repr(kind))

    if function.argtypes is None:
        raise TypeError(f"the ctypes function needs its argtypes and restype set: {EXPECTED}")
    if function._flags_ & ctypes._FUNCFLAG_PYTHONAPI:
        raise TypeError("a ctypes.PyDLL function needs the GIL; a native leaf runs without it")
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    # What a callback made of a Python function holds on to.
    into_python = any(type(held).__name__ == "CThunkObject" for held in (function._objects or {}).values())
    arguments = [name(kind) for kind in function.argtypes]
    return Native(name(function.restype), arguments, address, function, into_python=into_python)


def _from_cffi(pointer):
    import _cffi_backend

    ffi_type = _cffi_backend.typeof(pointer)
    if ffi_type.kind != "function":
        raise TypeError(f"a native leaf must be {EXPECTED}, not a cffi {ffi_type.cname}")
    address = int(_cffi_backend.FFI().cast("uintptr_t", pointer))
    names = ["void *" if kind.kind == "pointer" else kind.cname for kind in ffi_type.args]
    into_python = type(pointer).__name__ == "__CDataOwnGC"  # ffi.callback; a function of C is plain CData
    return Native(ffi_type.result.cname, names, address, pointer, into_python=into_python)


def _from_numba(cfunc):
    signature = cfunc._sig
    result = "void" if str(signature.return_type) == "none" else str(signature.return_type)
    return Native(
        result,
        ["void *" if "*" in str(kind) or str(kind) == "voidptr" else str(kind) for kind in signature.args],
        cfunc.address,
        cfunc,
    )


def resolve(leaf):
    """The native leaf behind an object, or None if it is not one.

    Raises
    ------
    TypeError, ValueError
        It is a native function with a wrong signature, null, or dead.
    """
    kind = type(leaf)
    if kind.__name__ == "PyCapsule":
        return _from_capsule(leaf, leaf)
    module = kind.__module__
    if module == "scipy._lib._ccallback" and isinstance(leaf, tuple):
        return _from_capsule(tuple.__getitem__(leaf, 0), leaf)
    if module.startswith("numba.") and hasattr(leaf, "_sig") and hasattr(leaf, "address"):
        return _from_numba(leaf)
    if module == "_cffi_backend":
        return _from_cffi(leaf)
    if "_ctypes" in sys.modules and isinstance(leaf, sys.modules["_ctypes"].CFuncPtr):
        return _from_ctypes(leaf)
    return None
