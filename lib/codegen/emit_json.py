"""Writes ligerdsl/ops.json: the table and the enumerators, for binding generators. It is one
object:

format         1; a reader refuses other numbers
version        of the headers to which the file belongs
struct_header  fields at the beginning of every desc and args struct, and their values
constants      every enumerator of ligerdsl.h and ops.h
operations     name, brief, doc, rows (unit of the workspace), desc, args, and aliases:
               [output, input] pairs that may be the same memory if in_place is set

desc and args have the struct's C name, its size in bytes, and its fields in order. A field has
a C type, a byte offset (64-bit systems), a default and a doc. minimum, maximum, exclusive_maximum,
infinite and or_zero give the range of a number.

role of a field of desc:
  option             `enumerators` lists its values if it has names for them
  dim                `symbol` is the letter of the size
  dtype              `dtypes` lists the allowed ones. `zero` is the meaning of 0 in a plan: "none"
                     for no tensor, "f32" or a dtype field for its dtype, null if 0 is not allowed
  present, absent    the flag is set if a tensor is passed, or not passed
  in_place, queries
`tensor` is the tensor from which the one-call form reads a field that is 0.

kind of a field of args:
  tensor             direction, shape, dtype (a name or a field of desc), any_stride
                     (also along the last dimension), given: null if the tensor is always passed,
                     else the field of desc that decides, and the value with which the tensor is
                     passed: zero or nonzero
  list, length       a list of tensors and its length
  value              a number; it is ignored if the field of desc that `unless` names is set
"""

import ctypes
import json
import re

from emit_header import CONSTANTS
from table import DTYPES, Tensor, TensorList

TENSOR = "const ligerdsl_tensor_t *"
CTYPES = {
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "float": ctypes.c_float,
    "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, TENSOR: ctypes.c_void_p
}
ENUMERATION = re.compile(r"LIGERDSL_\w+_(?=\*)")  # names the enumerators in an option's comment
HEADER = [("struct_size", "size_t"), ("magic", "uint32_t"), ("version", "uint32_t")]


def constants_of(header):
    """Returns the enumerators of ligerdsl.h and of ops.h."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    named = {name: int(value, 0) for body in re.findall(r"\benum\s*\{(.*?)\}", text, flags=re.S)
             for name, value in re.findall(r"(\w+)\s*=\s*(\w+)", body)}
    return named | {name: value for _, names in CONSTANTS for name, value in names}


def defined(header, name):
    return int(re.search(rf"#define {name} (\w+)", header)[1].rstrip("u"), 0)


def number(value, constants):
    if value in constants:
        return constants[value]
    text = str(value).removesuffix("f")
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def bounds(f):
    known = {"minimum": f.low, "exclusive_maximum" if f.below_high else "maximum": f.high}
    return ({name: value for name, value in known.items() if value is not None}
            | ({"infinite": True} if f.infinite else {}) | ({"or_zero": True} if f.or_zero else {}))


def desc_field(f, constants):
    row = {"name": f.name, "type": f.ctype, "default": number(f.default, constants), "role": f.role,
           "doc": f.doc}
    if f.source:
        row["tensor"] = f.source
    if prefix := ENUMERATION.search(f.doc):
        row["enumerators"] = [name for name in constants if name.startswith(prefix[0])]
    if f.role == "dim":
        row["symbol"] = f.symbol
    if f.role == "dtype":
        row["dtypes"] = [DTYPES[d] for d in f.dtypes]
        row["zero"] = f.zero or None
    if f.role in ("dim", "dtype"):
        row["optional"] = f.optional
    return row | bounds(f)


def arg_fields(a, constants):
    if isinstance(a, Tensor):
        given = {"field": a.given.lstrip("!"),
                 "when": "zero" if a.given.startswith("!") else "nonzero"} if a.given else None
        return [{"name": a.name, "type": TENSOR, "default": None, "kind": "tensor",
                 "direction": a.direction, "shape": a.shape.split(), "dtype": a.dtype,
                 "given": given, "any_stride": a.any_stride, "doc": a.doc}]
    if isinstance(a, TensorList):
        return [{"name": a.name, "type": TENSOR, "default": None, "kind": "list",
                 "length": f"n_{a.name}", "doc": a.doc},
                {"name": f"n_{a.name}", "type": "int64_t", "default": 0, "kind": "length",
                 "doc": f"length of {a.name}"}]
    row = {"name": a.name, "type": a.ctype, "default": number(a.default, constants),
           "kind": "value", "doc": a.doc} | bounds(a)
    return [row | ({"unless": a.unless} if a.unless else {})]


def struct(name, fields):
    """Returns the struct, with its fields' C offsets."""
    layout = type(name, (ctypes.Structure,),
                  {"_fields_": HEADER_TYPES + [(f["name"], CTYPES[f["type"]]) for f in fields]})
    placed = [{"name": f["name"], "type": f["type"], "offset": getattr(layout, f["name"]).offset}
              | f for f in fields]
    return {"struct": name, "size": ctypes.sizeof(layout), "fields": placed}


HEADER_TYPES = [(name, CTYPES[ctype]) for name, ctype in HEADER]


def operation(op, constants):
    return {
        "name": op.name,
        "brief": op.brief,
        "doc": op.doc,
        "rows": op.rows,
        "aliases": [list(pair) for pair in op.aliases],
        "desc": struct(f"ligerdsl_{op.name}_desc_t", [desc_field(f, constants) for f in op.fields]),
        "args": struct(f"ligerdsl_{op.name}_args_t",
                       [row for a in op.args for row in arg_fields(a, constants)])}


def emit(ops, header):
    constants = constants_of(header)
    version = [defined(header, f"LIGERDSL_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
    values = {"struct_size": "the struct's size", "magic": defined(header, "LIGERDSL_MAGIC"),
              "version": version[0] * 10000 + version[1] * 100 + version[2]}
    table = {"format": 1,
             "version": ".".join(map(str, version)),
             "struct_header": [
                 {"name": name, "type": ctype, "value": values[name]} for name, ctype in HEADER],
             "constants": constants,
             "operations": [operation(op, constants) for op in ops]}
    return json.dumps(table, indent=1) + "\n"
