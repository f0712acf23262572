"""The package without torch: NumPy arrays, DLPack, errors, any object as an argument, fork."""

import ctypes
import json
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

import ligerdsl
from ligerdsl import InvalidArgument, LabelError, ops


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def test_torch_is_not_imported():
    code = "import sys, ligerdsl; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    environment = dict(os.environ, PYTHONPATH=os.environ.get("LIGERDSL_PYTHON_PATH", ""))
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_doctor():
    text = ligerdsl.doctor()
    assert "cpu        ready" in text and "compiler   works" in text


def test_forward_and_backward():
    x, w, d_y = random(5, 33), random(33), random(5, 33)
    y, rstd = ops.rms_norm_forward(x, w, eps=1e-5, with_rstd=True)
    expected = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1) + 1e-5)
    np.testing.assert_allclose(rstd, expected, rtol=1e-6)
    np.testing.assert_allclose(y, x * expected[:, None] * w, rtol=1e-5, atol=1e-6)
    d_x, d_weight = ops.rms_norm_backward(d_y, x, w, rstd, d_weight_dtype="f32")
    assert d_x.shape == x.shape and d_weight.shape == w.shape
    np.testing.assert_allclose(d_weight, (d_y * x * expected[:, None]).sum(0), rtol=1e-4, atol=1e-5)


def test_results_by_name():
    x = random(4, 8)
    y = np.empty_like(x)
    assert ops.softmax_forward(x, y=y) is y
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)
    assert ops.softmax_forward(x, y=x) is x  # in place
    np.testing.assert_array_equal(x, y)


def test_unwanted_results_are_none():
    y, rstd = ops.rms_norm_forward(random(2, 4))
    assert rstd is None and y.shape == (2, 4)


def test_accumulate():
    x, w, d_y = random(5, 8), random(8), random(5, 8)
    _, rstd = ops.rms_norm_forward(x, w, with_rstd=True)
    _, once = ops.rms_norm_backward(d_y, x, w, rstd, d_weight_dtype="f32")
    total = np.ones(8, np.float32)
    ops.rms_norm_backward(d_y, x, w, rstd, d_weight=total, accumulate=True)
    np.testing.assert_allclose(total, once + 1, rtol=1e-6)


def test_list_of_arrays():
    norm, factor, nonfinite = ops.global_norm([random(3), random(4, 5)], max_norm=1.0,
                                              with_clip_factor=True, with_nonfinite=True)
    expected = np.sqrt((random(3) ** 2).sum() + (random(4, 5) ** 2).sum())
    np.testing.assert_allclose(norm, expected, rtol=1e-6)
    np.testing.assert_allclose(factor, 1 / (expected + 1e-6), rtol=1e-6)
    assert nonfinite == 0


def test_every_function_documents_its_parameters():
    table = [name for name in ops.__all__]
    assert len(table) > 40
    for name in table:
        assert "Parameters:" in getattr(ops, name).__doc__


def test_counts_calls():
    before = ligerdsl.calls("vector_add")
    ops.vector_add(random(3), random(3))
    assert ligerdsl.calls("vector_add") == before + 1
    with pytest.raises(InvalidArgument):
        ligerdsl.calls("no_such_operation")


@pytest.mark.parametrize("call, kind, words", [
    (lambda: ops.rms_norm_forward(random(2, 4), random(5)), InvalidArgument, "`weight`: expected"),
    (lambda: ops.rms_norm_forward(random(4, 2).T, None), InvalidArgument, "stride of 1"),
    (lambda: ops.rms_norm_forward(random(2, 4).astype(np.float64)), InvalidArgument,
     "INVALID_DTYPE"),
    (lambda: ops.rms_norm_forward(random(2, 4), eps=-1.0), InvalidArgument,
     "`eps`: expected a finite number >= 0"),
    (lambda: ops.rms_norm_forward(random(2, 4), eps=float("nan")), InvalidArgument, "`eps`"),
    (lambda: ops.rms_norm_forward(random(2, 4), eps="small"), TypeError,
     "`eps`: expected a number"),
    (lambda: ops.rms_norm_forward(random(2, 4), casting=2**40), ValueError, "32 bits"),
    (lambda: ops.rms_norm_forward(random(2, 4), casting=9), InvalidArgument, "`casting`"),
    (lambda: ops.rms_norm_forward([1.0, 2.0]), TypeError, "list"),
    (lambda: ops.rms_norm_forward(None), TypeError, "NoneType"),
    (lambda: ops.rms_norm_forward(random(2, 4), y=3), TypeError, "`y`: expected a torch.Tensor"),
    (lambda: ops.rms_norm_forward(random(2, 4), wrong=1), TypeError, "wrong"),
    (lambda: ops.global_norm(random(3)), TypeError, "expected a list"),
    (lambda: ops.softmax_forward(np.zeros((2,) * 9, np.float32)), InvalidArgument, "dimensions"),
    (lambda: ops.cross_entropy(random(2, 4), np.array([0, 4])), LabelError,
     "out of bounds in row 1"),
    (lambda: ops.embedding_forward(np.array([7]), random(4, 3)), LabelError, "embedding_forward"),
])
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words.replace("(", r"\(")):
        call()
    ops.vector_add(random(3), random(3))  # after a failed call, the next one works


def test_read_only_arrays_are_read_and_not_written():
    x = random(2, 4)
    x.flags.writeable = False
    y = ops.softmax_forward(x)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        ops.softmax_forward(y, y=x)


def test_errors_have_a_status():
    with pytest.raises(ligerdsl.Error) as caught:
        ops.rms_norm_forward(random(2, 4), random(5))
    assert (caught.value.status, caught.value.name) == (2002, "INVALID_SHAPE")


def test_any_object_is_refused_or_accepted():
    """No argument crashes the interpreter."""
    from ligerdsl import _bind
    odd = [None, 1, -1.5, "x", b"x", [], (), {}, object(), random(2, 4), random(4),
           np.zeros((0, 4), np.float32), np.int64(3), type, np.zeros(3, "U1"), np.array(1.0), 2**70,
           float("inf"), lambda: 0]
    generator = np.random.default_rng(3)
    names = [name for name in ops.__all__]
    refused = 0
    for _ in range(3000):
        name = names[generator.integers(len(names))]
        arguments = [odd[i] for i in generator.integers(len(odd), size=generator.integers(0, 20))]
        try:
            getattr(_bind, name)(*arguments)
        except Exception:
            refused += 1
    assert refused > 2900
    others = [name for name in vars(_bind)
              if callable(getattr(_bind, name)) and not name.startswith("__") and name not in names]
    assert {"load", "set_torch", "kernel_launch", "direct_forward"} < set(others)
    for name in others:
        for value in odd:
            if name.startswith("set_") and callable(value):
                continue
            for arguments in ((value,), (value, value), (value,) * 9):
                try:
                    previous = getattr(_bind, name)(*arguments)
                    if name == "set_check_labels":
                        _bind.set_check_labels(previous)
                except Exception:
                    pass
    _bind.set_main_grad(False)


class Exported:
    """An array of another library that has only DLPack's two methods."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_any_array_with_dlpack():
    x, y = random(2, 4), np.empty((2, 4), np.float32)
    ops.softmax_forward(Exported(x), y=Exported(y))
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)
    with pytest.raises(TypeError, match="allocate each result yourself"):
        ops.softmax_forward(Exported(x))
    with pytest.raises(ValueError, match="on a GPU"):
        ops.softmax_forward(Exported(x, (2, 0)), y=Exported(y))
    for device in (3, None, (1,), ("a", "b")):
        with pytest.raises((TypeError, ValueError)):
            ops.softmax_forward(Exported(x, device), y=y)


class _Managed(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class Described:
    """An array of 4 x 8 f32 elements whose DLPack description each test changes."""

    def __init__(self, **fields):
        self.memory = np.zeros((4, 8), np.float32)
        self.shape, self.strides = (np.array(fields.pop("shape", (4, 8)), np.int64),
                                    np.array(fields.pop("strides", (8, 1)), np.int64))
        self.tensor = _Managed(self.memory.ctypes.data, (1, 0), 2, 2, 32, 1, self.shape.ctypes.data,
                               self.strides.ctypes.data, 0, None, None)
        for name, value in fields.items():
            setattr(self.tensor, name, value)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (ctypes.py_object,
                                     [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p])
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize("fields, words", [
    ({"ndim": 2**31 - 1}, "expected 0 to 16 dimensions, got 2147483647"),
    ({"ndim": -1}, "expected 0 to 16 dimensions, got -1"),
    ({"ndim": -2**31}, "expected 0 to 16 dimensions"),
    ({"ndim": 17}, "expected 0 to 16 dimensions, got 17"),
    ({"shape_pointer": None}, "expected 2 sizes, got a shape that is NULL"),
    ({"shape": (4, -8)}, "expected sizes of 0 or more, got -8"),
    ({"shape": (-2**63, 8)}, "expected sizes of 0 or more"),
    ({"lanes": 4}, "expected elements of 1 lane, got 4"),
    ({"lanes": 0}, "expected elements of 1 lane, got 0"), ({"data": None}, "data is NULL"),
    ({"bits": 33}, "33 bits"), ({"code": 17}, "dtype"),
    ({"device": (ctypes.c_int32 * 2)(2, 0)}, "reports another device"),
    ({"shape": (2**60, 8)}, "elements"), ({"strides": (2**62, 1)}, "strides"),
    ({"byte_offset": 2**63}, "byte_offset")])
def test_invalid_descriptions_are_refused(fields, words):
    """Invalid descriptions are refused with a message and without allocating memory for them."""
    from ligerdsl import _bind
    array = Described(**{name: value for name, value in fields.items() if name != "shape_pointer"})
    if "shape_pointer" in fields:
        array.tensor.shape = None
    with pytest.raises((InvalidArgument, ValueError, TypeError), match=re.escape(words)):
        ops.softmax_forward(array, y=np.empty((4, 8), np.float32))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for look in (_bind.look, ligerdsl.check):
        try:
            look(array)
        except (InvalidArgument, ValueError, TypeError) as error:
            assert len(str(error)) < 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # kilobytes


@pytest.mark.parametrize("fields, shape",
                         [({"strides_pointer": None}, (4, 8)),
                          ({"shape": (0, 8), "data": None}, (0, 8)), ({"ndim": 0}, ())])
def test_unusual_valid_descriptions_are_accepted(fields, shape):
    from ligerdsl import _bind
    array = Described(**{
        name: value for name, value in fields.items() if name != "strides_pointer"})
    if "strides_pointer" in fields:
        array.tensor.strides = None
    assert _bind.look(array)[3] == shape
    if shape:
        ops.softmax_forward(array, y=np.empty(shape, np.float32))


def test_fork():
    """A forked child of a process with a context can compute."""
    expected = ops.softmax_forward(random(3, 5))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(ops.softmax_forward(random(3, 5)).tolist()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        np.testing.assert_array_equal(np.array(json.load(text), np.float32), expected)
    assert os.waitpid(child, 0)[1] == 0
