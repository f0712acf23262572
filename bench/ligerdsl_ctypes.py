"""libligerdsl's C ABI through ctypes, for torch tensors on torch's stream; lib/codegen has the
operation table.

On a CPU torch is not needed: any object with torch's data_ptr(), shape, stride(), dtype and is_cuda
works.

    lib = Library("build/release/lib/libligerdsl.so")
    context = lib.context(torch.device("cuda:0"))
    forward = context.plan("rms_norm_forward", n_cols=4096, dtype="bf16", weight_dtype="bf16",
                           with_rstd=1)
    run = forward.bind(rows, x=x, weight=w, y=y, rstd=rstd)  # builds the tensor descriptors once
    run()  # one execute on torch's current stream
"""

import ctypes as c
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib" / "codegen"))
from ops import OPS  # noqa: E402
from emit_header import CONSTANTS  # noqa: E402
from table import Tensor, TensorList  # noqa: E402

MAGIC, VERSION = 0x4C494752, 200  # LIGERDSL_MAGIC, LIGERDSL_VERSION of 0.2.0
WORKSPACE_ALIGN = 256
INVALID_SHAPE = 2002
CODES = {"i32": 0x12000, "i64": 0x14000, "f16": 0x11002, "f32": 0x12002, "bf16": 0x11004}
DLPACK = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16), "int32": (0, 32),
          "int64": (0, 64)}  # torch's dtype name -> DLPack type code and bits
CTYPES = {"int32_t": c.c_int32, "int64_t": c.c_int64, "float": c.c_float}


class DType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DeviceId(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class TensorDesc(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", DeviceId), ("ndim", c.c_int32), ("dtype", DType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("byte_offset", c.c_uint64)]


HEADER = [("struct_size", c.c_size_t), ("magic", c.c_uint32), ("version", c.c_uint32)]


class ContextConfig(c.Structure):
    _fields_ = HEADER + [("device", DeviceId), ("num_threads", c.c_int32), ("flags", c.c_uint32)]


def describe(tensor):
    """Returns a tensor descriptor that keeps its arrays alive."""
    n = len(tensor.shape)
    shape, strides = ((c.c_int64 * max(n, 1))(*tensor.shape),
                      (c.c_int64 * max(n, 1))(*tensor.stride()))
    kind = DeviceId(2, tensor.device.index or 0) if tensor.is_cuda else DeviceId(1, 0)
    code, bits = DLPACK[str(tensor.dtype).rsplit(".", 1)[-1]]
    desc = TensorDesc(tensor.data_ptr(), kind, n, DType(code, bits, 1), shape, strides, 0)
    desc.keep = (shape, strides, tensor)
    return desc


def struct_of(name, fields):
    return type(name, (c.Structure,), {"_fields_": HEADER + fields})


def desc_type(op):
    return struct_of(op.name + "_desc", [(f.name, CTYPES[f.ctype]) for f in op.fields])


def args_type(op):
    fields = []
    for a in op.args:
        if isinstance(a, Tensor):
            fields.append((a.name, c.POINTER(TensorDesc)))
        elif isinstance(a, TensorList):
            fields += [(a.name, c.POINTER(TensorDesc)), ("n_" + a.name, c.c_int64)]
        else:
            fields.append((a.name, CTYPES[a.ctype]))
    return struct_of(op.name + "_args", fields)


def default_of(field):
    """Returns a field's default, which the table has as a number, a C literal or an enumerator."""
    named = dict(constant for _, constants in CONSTANTS for constant in constants)
    text = str(field.default)
    if text in named:
        return named[text]
    return float(text.rstrip("f")) if field.ctype == "float" else int(text)


class Error(RuntimeError):
    pass


class Library:
    def __init__(self, path):
        self.c = c.CDLL(str(path))
        self.c.ligerdsl_last_error.restype = c.c_char_p
        self.c.ligerdsl_build_info.restype = c.c_char_p
        self.c.ligerdsl_status_name.restype = c.c_char_p
        for suffix in "for", "with_copies":
            bytes_of = getattr(self.c, f"ligerdsl_plan_workspace_bytes_{suffix}")
            bytes_of.restype, bytes_of.argtypes = c.c_size_t, [c.c_void_p, c.c_int64]
        self.ops = {op.name: op for op in OPS}

    def check(self, status):
        if status != 0:
            raise Error(f"{self.c.ligerdsl_status_name(status).decode()}: "
                        f"{self.c.ligerdsl_last_error().decode()}")

    def build_info(self):
        return self.c.ligerdsl_build_info().decode()

    def context(self, device):
        return Context(self, device)


def current_stream(device):
    """Returns the handle of torch's current stream, or None on a CPU."""
    if device.type != "cuda":
        return None
    import torch
    return torch.cuda.current_stream(device).cuda_stream


def allocate(size, device):
    """Allocates a workspace; returns its address and the object that owns it."""
    if device.type == "cuda":
        import torch
        memory = torch.empty(size + WORKSPACE_ALIGN, dtype=torch.uint8, device=device)
        address = memory.data_ptr()
    else:
        memory = c.create_string_buffer(size + WORKSPACE_ALIGN)
        address = c.addressof(memory)
    return -(-address // WORKSPACE_ALIGN) * WORKSPACE_ALIGN, memory


class Context:
    """device: a torch.device, or any object with its type and index."""

    def __init__(self, library, device):
        self.library, self.device, self.handle = library, device, c.c_void_p()
        kind = DeviceId(2, device.index or 0) if device.type == "cuda" else DeviceId(1, 0)
        config = ContextConfig(c.sizeof(ContextConfig), MAGIC, VERSION, kind, 0, 0)
        library.check(library.c.ligerdsl_context_create(c.byref(config), c.byref(self.handle)))

    def plan(self, name, **fields):
        return Plan(self, self.library.ops[name], fields)

    def check(self):
        self.library.check(self.library.c.ligerdsl_context_check(
            self.handle, c.c_void_p(current_stream(self.device))))


class Plan:
    """Fields are those of the operation's desc; dtypes are names. Omitted fields have the table's
    defaults."""

    def __init__(self, context, op, fields):
        self.context, self.op, self.handle = context, op, c.c_void_p()
        struct = desc_type(op)
        desc = struct(c.sizeof(struct), MAGIC, VERSION)
        for f in op.fields:
            value = fields.pop(f.name, default_of(f))
            setattr(desc, f.name, CODES[value] if isinstance(value, str) else value)
        if fields:
            raise Error(f"{op.name}: unknown fields: {', '.join(fields)}; expected names from "
                        f"{', '.join(f.name for f in op.fields)}")
        lib = context.library
        lib.check(getattr(lib.c, f"ligerdsl_{op.name}_plan")(context.handle, c.byref(desc),
                                                             c.byref(self.handle)))
        self.execute = getattr(lib.c, f"ligerdsl_{op.name}_execute")

    def workspace_bytes(self, rows, suffix="for"):
        """suffix: "with_copies" includes memory for copies of unaligned operands."""
        bytes_of = getattr(self.context.library.c, f"ligerdsl_plan_workspace_bytes_{suffix}")
        size = bytes_of(self.handle, rows)
        if size == 2**64 - 1:
            self.context.library.check(INVALID_SHAPE)
        return size

    def bind(self, rows, **values):
        """Returns a function that executes the plan on these tensors and on the current stream of
        this call."""
        struct = args_type(self.op)
        args, keep = struct(c.sizeof(struct), MAGIC, VERSION), []
        for a in self.op.args:
            value = values.pop(a.name, None)
            if isinstance(a, Tensor):
                if value is not None:
                    keep.append(describe(value))
                    setattr(args, a.name, c.pointer(keep[-1]))
            elif isinstance(a, TensorList):
                array = (TensorDesc * max(len(value), 1))()
                for i, tensor in enumerate(value):
                    keep.append(describe(tensor))
                    array[i] = keep[-1]
                keep.append(array)
                setattr(args, a.name, c.cast(array, c.POINTER(TensorDesc)))
                setattr(args, "n_" + a.name, len(value))
            else:
                setattr(args, a.name, default_of(a) if value is None else value)
        if values:
            raise Error(f"{self.op.name}: unknown arguments: {', '.join(values)}; expected names "
                        "from "
                        f"{', '.join(a.name for a in self.op.args)}")
        size = self.workspace_bytes(rows, "with_copies")
        address, memory = allocate(size, self.context.device)
        stream = current_stream(self.context.device)
        execute, check, handle = self.execute, self.context.library.check, self.handle
        call = (handle, c.byref(args), c.c_void_p(address), c.c_size_t(size), c.c_void_p(stream))

        def run():
            status = execute(*call)
            if status:
                check(status)

        run.keep = (args, keep, memory)
        run.workspace_bytes = self.workspace_bytes(rows)
        return run
