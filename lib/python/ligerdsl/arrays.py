"""Allocates results with the array library of the inputs."""

import ctypes
import sys

NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
         "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def _dtype(module, dtype):
    """Returns the dtype of `module` for one of this package's names. Returns other dtypes
    unchanged."""
    if not isinstance(dtype, str):
        return dtype
    name = NAMES.get(dtype, dtype)
    found = getattr(module, name, None)
    if found is None:
        raise TypeError(f"{module.__name__} has no dtype {name}; allocate the result yourself and "
                        "pass it as a keyword argument")
    return found


def _library(like):
    name = type(like).__module__.partition(".")[0]
    if (name in ("numpy", "torch")
        or "torch" in sys.modules and isinstance(like, sys.modules["torch"].Tensor)):
        return sys.modules["numpy" if name == "numpy" else "torch"]
    raise TypeError(f"expected numpy or torch arrays, got a {type(like).__name__}: results are "
                    "allocated only with these libraries; allocate each result yourself and "
                    "pass it as a keyword argument")


def empty(like, shape, dtype):
    module = _library(like)
    place = {} if module.__name__ == "numpy" else {"device": like.device}
    return module.empty(shape, dtype=_dtype(module, dtype), **place)


def empty_like(like):
    return _library(like).empty_like(like)


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class Host:
    """Wraps an array.array of floats as a DLPack array, for use without another array library."""

    def __init__(self, values):
        self.values = values
        address, count = values.buffer_info()
        self.shape = (ctypes.c_int64 * 1)(count)
        self.tensor = _Tensor(address, (1, 0), 1, 2, 32, 1, ctypes.addressof(self.shape), None, 0,
                              None, None)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (ctypes.py_object,
                                     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p])
        return new(ctypes.addressof(self.tensor), b"dltensor", None)
