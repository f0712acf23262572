"""Writes the generated part of the Python package: bind_operations.c, ligerdsl/enums.py,
ligerdsl/ops.py for arrays of any library, and ligerdsl/torch/ops.py for torch's tensors and its
operator registry.

A Python function takes the operation's tensors. All else is passed by keyword:
  - numbers, both those of the descriptor and those of the call
  - with_* and without_*, which request or omit results
  - *_dtype for results whose dtype no input determines
The one-call form derives the remaining fields from the tensors: dims, dtypes of inputs, which
inputs are passed, and which tensors are the same.
"""

import re
import textwrap

import formulas
from emit_header import CONSTANTS
from emit_json import number
from table import DTYPES, Tensor, TensorList, Value, range_text

ENUMS = {name: value for _, names in CONSTANTS for name, value in names}
CTYPES = {"int32_t": "BIND_INT32", "int64_t": "BIND_INT64", "float": "BIND_FLOAT"}
LOSSES = ("L", "Z", "R")  # letters of sizes: rows or 1, depending on the reduction


def letter_of(spec):
    return spec.rstrip("*").lstrip("0123456789")


class Surface:
    """The Python signature of an operation."""

    def __init__(self, op):
        self.op = op
        fields = {f.name: f for f in op.fields}
        self.fields = fields
        self.accumulates = "accumulate" in fields
        # one Python argument `accumulate` sets all these fields
        self.accumulate_fields = [f for f in op.fields if f.name.startswith("accumulate")]
        self.list = next((a for a in op.args if isinstance(a, TensorList)), None)
        written = lambda t: t.direction == "out" or (t.direction == "inout" and self.accumulates)
        self.mutated = [t for t in op.tensors if t.direction == "inout" and not self.accumulates]
        # an in-place operation, such as adamw_step, gets all its results as arguments
        if any(not t.given for t in self.mutated):
            self.mutated += [t for t in op.tensors if t.direction == "out"]
        self.outputs = [t for t in op.tensors if written(t) and t not in self.mutated]
        self.inputs = [t for t in op.tensors if t not in self.outputs]
        self.dims = [f for f in op.fields if f.role == "dim" and not self.place(f.symbol) and any(
            f.symbol == letter_of(s) for t in self.outputs for s in t.shape.split())]
        numbers = [f for f in op.fields if f.role == "option" and f not in self.accumulate_fields]
        self.numbers = self.dims + numbers + [a for a in op.args if isinstance(a, Value)]
        self.flags = [f for f in op.fields if f.role in ("present", "absent")
                                              and f.source in [t.name for t in self.outputs]]
        self.dtypes = [f for f in op.fields if f.role == "dtype" and not self.with_dtype(f.name)
                       and any(t.dtype == f.name for t in self.outputs)]

    def input(self, name):
        return next((t for t in self.inputs if t.name == name), None)

    def with_dtype(self, field):
        """Returns inputs with the field's dtype: one that is always passed, or else all."""
        found = [t for t in self.inputs if t.dtype == field]
        sure = [t for t in found if not t.given]
        return sure[:1] or found

    def place(self, letter):
        """Returns the input dimension with this size: (tensor, axis from the end, factor), or
        None."""
        for t in sorted(self.inputs, key=lambda t: bool(t.given)):
            specs = t.shape.split()
            for i, spec in enumerate(specs):
                if letter_of(spec) == letter and not spec.endswith("*"):
                    return t, i - len(specs), int(re.match(r"\d*", spec)[0] or 1)
        return None

    def condition(self, t):
        """Returns the condition for making an output; "" means always."""
        if not t.given:
            return ""
        field = self.fields[t.given.lstrip("!")]
        zero = t.given.startswith("!")
        if field in self.flags:
            return f"not {field.name}" if zero else field.name
        if field in self.dtypes:
            return f"{field.name} is not None"
        return f"{field.source} is None" if zero else f"{field.source} is not None"

    def source(self, t):
        """Returns an input with the output's shape, preferably the one with the matching name, or
        None."""
        names = {"d_" + i.name: i for i in self.inputs} | {i.name + "_out": i for i in self.inputs}
        named = names.get(t.name)
        if named and named.shape == t.shape and "?" not in t.shape:
            return named
        first = t.shape.split()[0]
        if not first.endswith("*") or letter_of(first) in LOSSES:
            return None
        return next((i for i in self.inputs if i.shape == t.shape and not i.given), None)

    def rows(self, t):
        """Returns an expression for the leading sizes of a shape with a star."""
        for i in sorted(self.inputs, key=lambda i: bool(i.given)):
            specs = i.shape.split()
            if specs[0] == t.shape.split()[0]:
                return (
                    f"{i.name}.shape[:-{len(specs) - 1}]" if len(specs) > 1 else f"{i.name}.shape")
        first = t.shape.split()[0]
        raise ValueError(f"{self.op.name}.{t.name}: no input's shape begins with '{first}', so the "
                         f"leading sizes of '{t.shape}' are unknown; add such an input")

    def loss_shape(self):
        if self.fields["reduction"].low != 0:
            return "()"
        labels = self.input("labels")
        rows = "labels.shape" if labels and not labels.given else "input.shape"
        return f"({rows} if reduction == {ENUMS['LIGERDSL_REDUCTION_NONE']} else ())"

    def size(self, spec):
        letter = letter_of(spec)
        factor = int(re.match(r"\d*", spec)[0] or 1)
        if not letter:
            return spec
        for f in self.dims:
            if f.symbol == letter:
                return f.name
        default = self.op.size(letter)
        if isinstance(default, str) and not formulas.names(default) & set(self.op.symbols):
            return f"({default})"  # the default is a formula of options only
        t, axis, times = self.place(letter)
        text = f"{t.name}.shape[{axis}]"
        if times != factor:
            text += f" // {times}" if factor == 1 else f" * {factor} // {times}"
        return text

    def shape(self, t):
        specs = t.shape.split()
        if letter_of(specs[0]) in LOSSES and specs[0].endswith("*"):
            return self.loss_shape()
        if t.shape == "1":
            return "(1,)" if t.name.startswith("d_") else "()"
        if specs[0].endswith("*"):
            rest = ", ".join(self.size(s) for s in specs[1:])
            return f"(*{self.rows(t)}, {rest})" if rest else self.rows(t)
        return "(" + ", ".join(self.size(s) for s in specs) + ("," if len(specs) == 1 else "") + ")"

    def made(self, t, dialect):
        """Returns an expression that allocates the output."""
        fused = self.fields.get("fused")
        if fused and not t.given:  # result like gate, or like half of gate_up
            whole = f"(*gate_up.shape[:-1], gate_up.shape[-1] // 2)"
            return (f"{dialect.like(self.input('gate'))} if gate_up is None else "
                    f"{dialect.empty('gate_up', whole, 'gate_up.dtype')}")
        dtype = self.dtype(t, dialect)
        source = self.source(t)
        if source and source.dtype == t.dtype:
            return dialect.like(source)
        if source:
            return dialect.like_but(source, dtype)
        made = dialect.empty(self.anchor(), self.shape(t), dtype)
        before = self.outputs[:self.outputs.index(t)]
        flags = [f.name for f in self.flags]
        twin = next((o for o in before
                     if (o.shape, o.dtype) == (t.shape, t.dtype) and self.condition(o) in flags),
                    None)
        return (f"({dialect.like(twin)} if {self.condition(twin)} else {made})"
                if twin and dialect.twins else made)

    def anchor(self):
        """Returns an input that determines the library and device of the outputs."""
        if self.list:
            return f"{self.list.name}[0]"
        return next(t for t in self.inputs if not t.given).name

    def dtype(self, t, dialect):
        if t.dtype in DTYPES:
            return dialect.dtype(t.dtype)
        field = self.fields[t.dtype]
        if field not in self.dtypes:
            inputs = self.with_dtype(t.dtype)
            named = [i for i in inputs if t.name in ("d_" + i.name, i.name + "_out")]
            return f"{(named or inputs)[0].name}.dtype"
        if field.zero == "none":
            return field.name
        default = (dialect.dtype("f32") if field.zero == "f32"
                   else f"{self.with_dtype('dtype')[0].name}.dtype")
        return f"{field.name} or {default}"

    def default(self, n):
        return number(n.default, ENUMS)

    def kind(self, n):
        """Returns the Python type of a number."""
        if n.ctype == "float":
            return "float"
        is_flag = (n.low, n.high) == (0, 1) and n.ctype == "int32_t" and "LIGERDSL_" not in n.doc
        return "bool" if is_flag else "int"

    def needs_value(self, n):
        return n in self.dims and not n.optional

    def trailing(self, t):
        """Returns true if a call may omit the input: it and all later inputs are optional."""
        return all(i.given for i in self.inputs[self.inputs.index(t):])

    def call(self, given):
        """Returns the arguments of the function in _bind. `given` maps an argument of the C ABI to
        its expression."""
        tensors = [a.name for a in self.op.args if isinstance(a, (Tensor, TensorList))]
        numbers = [n.name for n in self.numbers] + ["accumulate"] * len(self.accumulate_fields)
        return ", ".join(given(name) for name in tensors + numbers)


# ---- C -------------------------------------------------------------------------------------------

def emit_c(ops):
    out = [
        "/* Generated from lib/codegen/ops.py: offsets of Python's arguments in the C structs. */",
        '#include "bind.h"', '#include "call_limits.h"', ""]
    for op in ops:
        s, n = Surface(op), op.name
        args = f"ligerdsl_{n}_args_t"
        out += [f"static const ligerdsl_{n}_desc_t desc_{n} = LIGERDSL_{n.upper()}_DESC_INIT;",
                f"static const {args} args_{n} = LIGERDSL_{n.upper()}_ARGS_INIT;",
                f"_Static_assert(sizeof desc_{n} <= BIND_MAX_STRUCT && sizeof args_{n} <= "
                "BIND_MAX_STRUCT, \"raise BIND_MAX_STRUCT\");"]
        tensors = [a for a in op.args if isinstance(a, (Tensor, TensorList))]
        kinds = {"in": "BIND_IN", "out": "BIND_OUT", "inout": "BIND_INOUT"}
        out += [f"_Static_assert({len(tensors)} <= BIND_MAX_TENSORS, \"raise BIND_MAX_TENSORS\");",
                f"static const TensorArgument tensors_{n}[] = {{"]
        out += [f'    {{"{t.name}", offsetof({args}, {t.name}), '
                f'{kinds[t.direction] if isinstance(t, Tensor) else "BIND_LIST"}}},'
                for t in tensors] + ["};"]
        numbers = s.numbers + s.accumulate_fields
        out.append(f"static const NumberArgument numbers_{n}[] = {{")
        for f in numbers:
            struct = args if isinstance(f, Value) else f"ligerdsl_{n}_desc_t"
            out.append(f'    {{"{f.name}", {int(not isinstance(f, Value))}, offsetof({struct}, '
                       f'{f.name}), {CTYPES[f.ctype]}}},')
        out += ['    {NULL, 0, 0, BIND_INT32}};', ""]
    out += [f"const int bind_n_operations = {len(ops)};",
            f"_Static_assert({len(ops)} <= BIND_MAX_OPERATIONS, \"raise BIND_MAX_OPERATIONS\");",
            "const Operation bind_operations[] = {"]
    for op in ops:
        s, n = Surface(op), op.name
        numbers = len(s.numbers) + len(s.accumulate_fields)
        labels = int(any(t.any_stride and t.dtype != "f32" for t in op.tensors))
        out.append(f'    {{"{n}", "ligerdsl_{n}", &desc_{n}, &args_{n}, sizeof desc_{n}, sizeof '
                   f'args_{n}, tensors_{n}, sizeof tensors_{n} / sizeof tensors_{n}[0], '
                   f'numbers_{n}, {numbers}, {labels}}},')
    out += ["};", ""]
    for index, op in enumerate(ops):
        out += [f"static PyObject* call_{op.name}(PyObject* self, PyObject* const* args, "
                f"Py_ssize_t n) {{",
                "  (void)self;", f"  return bind_call({index}, args, n);", "}"]
    out += ["", "PyMethodDef bind_operation_methods[] = {"]
    out += [f'    {{"{op.name}", (PyCFunction)(void (*)(void))call_{op.name}, METH_FASTCALL, '
            f'NULL}},' for op in ops]
    return "\n".join(out + ["    {NULL, NULL, 0, NULL}};", ""])


# ---- Python --------------------------------------------------------------------------------------

class Arrays:
    """Expressions for arrays of any library, which ligerdsl/arrays.py allocates."""

    twins = False

    def like(self, tensor):
        return f"empty_like({tensor.name})"

    def like_but(self, tensor, dtype):
        return self.empty(tensor.name, f"{tensor.name}.shape", dtype)

    def empty(self, name, shape, dtype):
        return f"empty({name}, {shape}, {dtype})"

    def dtype(self, name):
        return f'"{name}"'


class Torch:
    """Expressions for torch's tensors. torch.empty_like takes less than half the time of
    torch.empty, and separate sizes take half the time of a torch.Size."""

    twins = True  # allocate a result like an earlier result of the same shape and dtype

    def like(self, tensor):
        return f"empty_like({tensor.name})"

    def like_but(self, tensor, dtype):
        return f"empty_like({tensor.name}, dtype={dtype})"

    def empty(self, name, shape, dtype):
        if shape != "()" and shape.startswith("(") and not shape.endswith("else ())"):
            sizes = shape[1:-1].rstrip(",")
        else:  # the shape of a scalar is an empty tuple
            sizes = shape if shape == "()" else f"*({shape} or ((),))"
        return f"{name}.new_empty({sizes}, dtype={dtype})"

    def dtype(self, name):
        return {"f32": "float32", "i64": "int64", "i32": "int32"}[name]


class Fake(Torch):
    """Expressions for fake tensors. Their strides are those of the operator's results, even if it
    copies an input first."""

    def like(self, tensor):
        return f"_like({self.arguments(tensor)})"

    def like_but(self, tensor, dtype):
        return f"_like({self.arguments(tensor)}, dtype={dtype})"

    def arguments(self, tensor):
        specs = tensor.shape.split()
        columns = len(specs) - specs[0].endswith("*")
        return f"{tensor.name}, {columns}" + (", True" if tensor.any_stride else "")


def emit_enums():
    out = ['"""Enumerations of option values. Generated from lib/codegen/emit_header.py."""', "",
           "from enum import IntEnum", ""]
    for doc, names in CONSTANTS:
        prefix = names[0][0].removeprefix("LIGERDSL_").split("_")[0]
        out += ["", f"class {prefix.capitalize()}(IntEnum):", f'    """{doc}."""', ""]
        out += [f"    {name.removeprefix(f'LIGERDSL_{prefix}_')} = {value}"
                for name, value in names] + [""]
    return "\n".join(out)


def wrapped(text, indent, first=""):
    return textwrap.wrap(text, 118 - len(indent), initial_indent=indent + first,
                         subsequent_indent=indent + " " * len(first))


def python_text(text):
    """Returns a comment of the C header with Python's names."""
    return re.sub(r"LIGERDSL_([A-Z0-9]+)_(\w+|\*)", lambda m: m[1].capitalize() + "." + m[2],
                  text).replace("NULL", "None")


def documentation(s, outputs_given):
    op = s.op
    out = [f'    """{python_text(op.brief)}', ""]
    for line in python_text(op.doc).split("\n"):
        out += textwrap.wrap(line, 100, initial_indent="    ",
                             subsequent_indent="    ") if len(line) > 96 else ["    " + line]
    out += ["", "    Parameters:"]
    if s.list:
        out += wrapped(f"{s.list.name}: {s.list.doc}", "      ")
    for t in s.inputs:
        role = " (written)" if t in s.mutated else ""
        out += wrapped(f"{t.name}{role}: [{', '.join(t.shape.split())}], {python_text(t.doc)}",
                       "      ")
    for n in s.numbers:
        bounds = range_text(n)
        out += wrapped(f"{n.name}: {python_text(n.doc)}" + (f" ({bounds})" if bounds else ""),
                       "      ")
    for f in s.flags:
        out += wrapped(f"{f.name}: {'omit' if f.role == 'absent' else 'compute'} `{f.source}`",
                       "      ")
    for f in s.dtypes:
        rest = {"none": "None: not computed", "f32": "None: f32"}.get(
            f.zero, "None: that of the input")
        out += wrapped(
            f"{f.name}: dtype of `{f.source}`, "
            f"{python_text(re.sub(r'[,;] 0 = .*', '', f.doc)) + '; ' if f.doc else ''}{rest}",
            "      ")
    if s.accumulates and outputs_given:
        out += wrapped(f"accumulate: {s.fields['accumulate'].doc}; pass the array to add to",
                       "      ")
    if s.outputs:
        out += ["",
                "    Returns" + ("; results that are not computed are None. A result is written to "
                                 "the array that is passed with its name:" if outputs_given
                                 else "; results that are not computed are None:")]
        for t in s.outputs:
            out += wrapped(f"{t.name}: [{', '.join(t.shape.split())}], {python_text(t.doc)}",
                           "      ")
    return [line.rstrip() for line in out] + ['    """']


def parameters(s, annotate):
    """Returns the positional parameters (inputs) and the keyword parameters."""
    text = lambda name, kind, default: f"{name}: {kind}" + (
        f" = {default}" if default
        else "") if annotate else name + (f"={default}" if default else "")
    positional = [text(s.list.name, "Sequence[Array]", "")] if s.list else []
    for t in s.inputs:
        kind = "Optional[Array]" if t.given else "Array"
        positional.append(text(t.name, kind, "None" if s.trailing(t) else ""))
    named = []
    for n in s.numbers:
        named.append(text(n.name, s.kind(n),
                          "" if s.needs_value(n)
                          else repr(bool(s.default(n)) if s.kind(n) == "bool" else s.default(n))))
    named += [text(f.name, "bool", "False") for f in s.flags]
    named += [text(f.name, "Any", "None") for f in s.dtypes]
    return positional, named


def function(s, name, positional, named):
    # "\0" keeps a parameter on one line
    parts = [part.replace(" ", "\0") for part in positional + (["*"] + named if named else [])]
    lines = textwrap.wrap(f"def {name}({', '.join(parts)}):", 100,
                          subsequent_indent=" " * (5 + len(name)), break_long_words=False)
    return [line.replace("\0", " ") for line in lines]


def returned(names):
    return f"    return {', '.join(names)}" if names else "    return None"


def emit_arrays(ops):
    out = ['"""Every operation of the library on arrays: NumPy arrays, torch tensors, and DLPack '
           'arrays on a CPU.',
           "",
           "There is no autograd; ligerdsl.torch has it. Results are new arrays unless given by "
           "name. Generated from",
           'lib/codegen/ops.py."""', "", "from typing import Any, Optional, Sequence", "",
           "from . import _bind", "from .arrays import empty, empty_like", "", "Array = Any",
           f"__all__ = {[op.name for op in ops]!r}", ""]
    for op in ops:
        s = Surface(op)
        positional, named = parameters(s, True)
        named += ["accumulate: bool = False"] if s.accumulates else []
        named += [f"{t.name}: Optional[Array] = None" for t in s.outputs]
        out += ["", *function(s, op.name, positional, named), *documentation(s, True)]
        for t in s.outputs:
            condition = s.condition(t)
            accumulated = " and not accumulate" if s.accumulates and t.direction == "inout" else ""
            test = (
                f"if {t.name} is None" + (f" and ({condition})" if condition else "") + accumulated)
            out += [f"    {test}:", f"        {t.name} = {s.made(t, Arrays())}"]
        out += [f"    _bind.{op.name}({s.call(lambda name: name)})",
                returned([t.name for t in s.outputs]), ""]
    return "\n".join(out)


SCHEMA_TYPES = {"float": "float", "int": "int", "bool": "bool"}


def schema(s, accumulate):
    """Returns the operator's signature for torch.library."""
    letters = iter("abcdefgh")
    positional = [f"Tensor[] {s.list.name}"] if s.list else []
    for t in s.inputs:
        mutable = f"({next(letters)}!)" if t in s.mutated else ""
        positional.append(f"Tensor{mutable}{'?' if t.given else ''} {t.name}"
                          + ("=None" if s.trailing(t) and not accumulate else ""))
    if accumulate:
        positional += [f"Tensor({next(letters)}!){'?' if t.given else ''} {t.name}"
                       for t in s.outputs if t.direction == "inout"]
    named = []
    for n in s.numbers:
        default = ("" if s.needs_value(n)
                   else "=" + repr(bool(s.default(n)) if s.kind(n) == "bool" else s.default(n)))
        named.append(f"{SCHEMA_TYPES[s.kind(n)]} {n.name}{default}")
    made = outputs_of(s, accumulate)
    named += [f"bool {f.name}=False" for f in s.flags if f.source in [t.name for t in made]]
    named += [f"ScalarType? {f.name}=None" for f in dtypes_of(s, accumulate)]
    results = ", ".join(f"Tensor {t.name}" for t in made)
    return f"({', '.join(positional + (['*'] + named if named else []))}) -> ({results})"


def outputs_of(s, accumulate):
    return [t for t in s.outputs if not (accumulate and t.direction == "inout")]


def dtypes_of(s, accumulate):
    made = [t.dtype for t in outputs_of(s, accumulate)]
    return [f for f in s.dtypes if f.name in made]


def allocations(s, made, dialect):
    lines = []
    for t in made:
        condition = s.condition(t)
        lines.append(f"    {t.name} = {s.made(t, dialect)}"
                     + (f" if {condition} else None" if condition else ""))
    return lines


def copying_call(s, name, positional, named, call):
    """Returns the call, with a retry: if the library refuses an input's strides, the input is
    copied."""
    read = [t.name for t in s.inputs if t not in s.mutated]
    if s.list or not read:
        return ["    " + call]
    rest = [p.split("=")[0] for p in positional + named]
    pairs = lambda names: "{" + ", ".join(f'"{n}": {n}' for n in names) + "}"
    again = (f"return _retried(error, {name}, {pairs(read)}, "
             f"{pairs([n for n in rest if n not in read])})")
    return ["    try:", f"        {call}", "    except _InvalidArgument as error:",
            f"        {again}"]


def torch_function(s, accumulate):
    """Returns the operation on torch's tensors: a direct call, an operator, and its fake for
    torch.library."""
    op, suffix = s.op, "_" if accumulate else ""
    name = op.name + suffix
    made = outputs_of(s, accumulate)
    positional, named = parameters(s, False)
    if accumulate:
        positional = [p.split("=")[0] for p in positional] + [
            t.name for t in s.outputs if t.direction == "inout"]
        kept = ({f.name for f in s.flags if f.source in [t.name for t in made]}
                | {f.name for f in dtypes_of(s, True)} | {n.name for n in s.numbers})
        named = [n for n in named if n.split("=")[0] in kept]
    out = ["", *function(s, name, positional, named)]
    out += [f'    """{op.brief}{", added to the previous gradients" if accumulate else ""}: see '
            f'ligerdsl.ops.{op.name}."""']
    given = lambda n: "1" if n == "accumulate" and accumulate else "0" if n == "accumulate" else n
    out += allocations(s, made, Torch()) + copying_call(s, name, positional, named,
                                                        f"_bind.{op.name}({s.call(given)})")
    out += [returned([t.name for t in made]), ""]
    by_name = lambda parts: [p.split("=")[0] for p in parts]
    call = ", ".join(by_name(positional) + [f"{n}={n}" for n in by_name(named)])
    results = [f"_or_empty({t.name}, {s.anchor()})" if s.condition(t) else t.name for t in made]
    out += ["", *function(s, f"_operator_{name}", positional, named)]
    if made:
        out += [f"    {', '.join(t.name for t in made)} = {name}({call})", returned(results), ""]
    else:
        out += [f"    {name}({call})", ""]
    out += ["", *function(s, f"_fake_{name}", positional, named), *allocations(s, made, Fake()),
            returned(results), ""]
    out += [f'_register("{name}", "{schema(s, accumulate)}", _operator_{name}, _fake_{name})', ""]
    return out


def emit_torch(ops):
    out = ['"""Every operation of the library on torch\'s tensors: a function that calls it '
           'directly, and an operator torch.ops.ligerdsl.NAME for',
           "torch.compile, fake tensors and modes. There is no autograd. For a result that is not "
           "wanted the function returns None, and the",
           'operator an empty tensor. NAME_ adds to gradients that are passed. Generated from '
           'lib/codegen/ops.py."""',
           "", "from torch import empty_like, float32, int32, int64", "", "from .. import _bind",
           "from ..errors import InvalidArgument as _InvalidArgument",
           "from .copies import retried as _retried",
           "from .register import like as _like, or_empty as _or_empty, register as _register", ""]
    for op in ops:
        s = Surface(op)
        out += torch_function(s, False)
        if s.accumulates:
            out += torch_function(s, True)
    rules = {op.name: op.sharding for op in ops if op.sharding}
    out += ["", "# Rules of sharding.py for DTensors, by operator.", "SHARDING = {"]
    out += [f'    "{name}": "{rule}",' for name, rule in rules.items()] + ["}", ""]
    return "\n".join(out)
