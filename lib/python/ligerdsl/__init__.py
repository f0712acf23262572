"""Fused kernels for training, on the CPU and on NVIDIA GPUs.

ligerdsl.torch has functions, modules and operators for PyTorch. ligerdsl.ops has every operation
on arrays, including NumPy's. load() loads your own kernels."""

from . import library  # noqa: F401  must be imported first: loads the library
from .enums import Activation, Casting, Chunking, Reduction, Rope
from .errors import (BoundsError, CompileError, Error, ExecutionError, InvalidArgument, LabelError,
                     NotSupported)
from .kernels import load
from .library import build_info, calls, check, doctor, poll
from . import ops

__version__ = library.version()
__all__ = ["Activation", "BoundsError", "Casting", "Chunking", "CompileError", "Error",
           "ExecutionError", "InvalidArgument", "LabelError", "NotSupported", "Reduction", "Rope",
           "build_info", "calls", "check", "doctor", "load", "ops", "poll"]


_FROM_HF = ("patch", "unpatch")  # not in __all__: ligerdsl.hf imports torch, which is optional


def __getattr__(name):
    if name in _FROM_HF:
        from . import hf
        return getattr(hf, name)
    raise AttributeError(f"module 'ligerdsl' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_FROM_HF})
