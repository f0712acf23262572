"""Writes op_defaults.inc: defaults of the command and of tests, for lib/instance/op_defaults.cpp, in the order of operations."""

from emit_cases import braces, quoted


def emit(ops):
    out = ["// Generated from kernels/*/*.op.py: sizes by letter, fields of usual tensors, dtypes that follow another, letters of losses."]
    for op in ops:
        sizes = braces(str(op.size(letter)) for letter in op.symbols)
        usual = braces(quoted(f.name) for f in op.fields if op.usual(f))
        followers = braces(braces([quoted(op.leader(f)), quoted(f.name)]) for f in op.fields if op.leader(f))
        out.append(f"{{{quoted(op.name)}, {sizes}, {usual}, {followers}, {braces(map(quoted, op.unreduced.split()))}}},")
    return "\n".join(out + [""])
