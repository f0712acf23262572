"""Tests that ops.json describes the library next to it.

A C compiler agrees with its layouts. Bindings made from ops.json alone call every kind of function
that an operation has.

Usage: ops_json_test.py ops.json libligerdsl.so CC FOLDER INCLUDE... [-- run]
"""

import ctypes
import json
import math
import pathlib
import shutil
import subprocess
import sys

TYPES = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "float": ctypes.c_float,
         "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32,
         "const ligerdsl_tensor_t *": ctypes.c_void_p}
failures = 0


def expect(right, text):
    global failures
    if not right:
        failures += 1
        print("FAILED:", text)


def c_program(table):
    """Returns a C program that does not compile if a layout or constant is wrong."""
    yield "#include <ligerdsl/ligerdsl.h>"
    for name, value in table["constants"].items():
        yield f'_Static_assert({name} == {value}, "{name}");'
    for op in table["operations"]:
        for part in ("desc", "args"):
            struct = op[part]
            yield (f'_Static_assert(sizeof({struct["struct"]}) == {struct["size"]}, '
                   f'"{struct["struct"]}");')
            for field in struct["fields"]:
                at = f'offsetof({struct["struct"]}, {field["name"]})'
                yield (f'_Static_assert({at} == {field["offset"]}, '
                       f'"{struct["struct"]}.{field["name"]}");')
        # Expands each initialiser macro. Too many values are a compile error, and wrong() finds a
        # missing or misplaced default.
        yield (f'static const {op["desc"]["struct"]} desc_{op["name"]} = '
               f'LIGERDSL_{op["name"].upper()}_DESC_INIT;')
        yield (f'static const {op["args"]["struct"]} args_{op["name"]} = '
               f'LIGERDSL_{op["name"].upper()}_ARGS_INIT;')
    yield "int wrong(void) {\n  int count = 0;"
    for op in table["operations"]:
        for part in ("desc", "args"):
            for field in op[part]["fields"]:
                default = ("0" if field["default"] is None
                           else repr(field["default"]) + ("f" if field["type"] == "float" else ""))
                yield f'  if ({part}_{op["name"]}.{field["name"]} != {default}) ++count;'
    yield "  return count;\n}\nint main(void) { return wrong(); }"


def test_layouts(table, compiler, folder, includes):
    source, program = folder / "layouts.c", folder / "layouts"
    source.write_text("\n".join(c_program(table)) + "\n")
    command = [compiler, "-std=c11", "-Wall", "-Werror", *(f"-I{path}" for path in includes),
               source, "-o", program]
    made = subprocess.run(command, capture_output=True, text=True)
    expect(made.returncode == 0, made.stderr[:4000])
    if made.returncode == 0:
        wrong = subprocess.run([program]).returncode
        expect(wrong == 0, f"{wrong} defaults are not those of the _INIT macros")


class Tensor(ctypes.Structure):  # DLTensor of DLPack
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def context_on_a_cpu(table, library):
    class Config(ctypes.Structure):  # ligerdsl_context_config_t of the first release
        _fields_ = [(f["name"], TYPES[f["type"]]) for f in table["struct_header"]] + [
            ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
            ("num_threads", ctypes.c_int32), ("flags", ctypes.c_uint32)]

    values = {f["name"]: f["value"] for f in table["struct_header"]} | {
        "struct_size": ctypes.sizeof(Config)}
    config, context = Config(device_type=table["constants"]["LIGERDSL_CPU"], num_threads=2,
                             **values), ctypes.c_void_p()
    status = library.ligerdsl_context_create(ctypes.byref(config), ctypes.byref(context))
    expect(status == 0, library.ligerdsl_last_error())
    return context


class Binding:
    """Descriptor and argument structs of an operation, made from its row of ops.json."""

    def __init__(self, table, name):
        self.header = table["struct_header"]
        self.op = next(op for op in table["operations"] if op["name"] == name)
        self.desc, self.args = self.struct(self.op["desc"]), self.struct(self.op["args"])

    def struct(self, row):
        fields = [(f["name"], TYPES[f["type"]]) for f in [*self.header, *row["fields"]]]
        made = type(row["struct"], (ctypes.Structure,), {"_fields_": fields})()
        assert ctypes.sizeof(made) == row["size"]
        for f in self.header:
            setattr(made, f["name"], row["size"] if f["name"] == "struct_size" else f["value"])
        for f in row["fields"]:
            setattr(made, f["name"], f["default"])
        return made


def tensor(values, shape, table):
    code = table["constants"]["LIGERDSL_F32"]
    data = (ctypes.c_float * len(values))(*values)
    dims = (ctypes.c_int64 * len(shape))(*shape)
    made = Tensor(ctypes.cast(data, ctypes.c_void_p), table["constants"]["LIGERDSL_CPU"], 0,
                  len(shape), code & 255, code >> 8 & 255, code >> 16, dims, None, 0)
    made.keep = (data, dims)
    return made


def test_functions(table, library):
    """Every function exists and reads its struct: NULL and missing contexts fail differently."""
    for op in table["operations"]:
        for suffix in ("", "_plan", "_execute"):
            expect(hasattr(library, f"ligerdsl_{op['name']}{suffix}"),
                   f"no function ligerdsl_{op['name']}{suffix}")
        binding = Binding(table, op["name"])
        call = getattr(library, f"ligerdsl_{op['name']}")
        status = call(None, ctypes.byref(binding.desc), ctypes.byref(binding.args), None)
        expect(status == table["constants"]["LIGERDSL_INVALID_NULL_POINTER"],
               f"{op['name']} without a context: {status}")


def test_call(table, library):
    """Calls rms_norm_forward on a CPU, with its row of ops.json alone."""
    context = context_on_a_cpu(table, library)
    rows, width = 3, 5
    x = [math.sin(i) for i in range(rows * width)]
    weight = [1 + i / 8 for i in range(width)]
    binding = Binding(table, "rms_norm_forward")
    tensors = {"x": tensor(x, [rows, width], table),
               "weight": tensor(weight, [width], table),
               "y": tensor([0] * rows * width, [rows, width], table)}
    for name, one in tensors.items():
        setattr(binding.args, name, ctypes.addressof(one))
    status = library.ligerdsl_rms_norm_forward(context, ctypes.byref(binding.desc),
                                               ctypes.byref(binding.args), None)
    expect(status == 0, library.ligerdsl_last_error())
    eps = next(f["default"] for f in binding.op["desc"]["fields"] if f["name"] == "eps")
    for row in range(rows):
        part = x[row * width:(row + 1) * width]
        rstd = 1 / math.sqrt(sum(v * v for v in part) / width + eps)
        for i, v in enumerate(part):
            got = tensors["y"].keep[0][row * width + i]
            expect(abs(got - v * rstd * weight[i]) < 1e-5,
                   f"y[{row}, {i}] = {got}, expected {v * rstd * weight[i]}")
    calls = ctypes.c_int64()
    expect(library.ligerdsl_context_calls(context, b"rms_norm_forward", ctypes.byref(calls)) == 0
           and calls.value == 1,
           f"{calls.value} calls")
    library.ligerdsl_context_destroy(context)


def main():
    ops, path, compiler, folder, *includes = sys.argv[1:]
    run = includes[-2:] == ["--", "run"]
    includes = includes[:-2] if run else includes
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = json.loads(pathlib.Path(ops).read_text())
    expect(table["format"] == 1 and len(table["operations"]) > 0, "no operations")
    test_layouts(table, compiler, folder, includes)
    library = ctypes.CDLL(path)
    library.ligerdsl_last_error.restype = ctypes.c_char_p
    library.ligerdsl_context_destroy.argtypes = [ctypes.c_void_p]
    test_functions(table, library)
    if run:
        test_call(table, library)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
