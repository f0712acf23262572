"""Writes every_op_cases.inc: configurations that tests/every_op and tests/golden run, in the order of operations."""

from table import CASE_SIZES


def braces(items):
    return "{" + ", ".join(items) + "}"


def quoted(text):
    return f'"{text}"'


def sizes(op):
    """Returns the sizes of an operation's configurations by letter, as C++ expressions of `rows`."""
    return op.case_sizes or {letter: size for letter, size in CASE_SIZES.items() if letter in op.symbols}


def emit(ops):
    out = ["// Generated from kernels/*/*.op.py: name, sizes and settings of each operation."]
    for op in ops:
        pairs = braces(braces([quoted(letter), str(size)]) for letter, size in sizes(op).items())
        out += [f"{{{quoted(op.name)}, {pairs}, {{"] + [f"    {quoted(case)}," for case in op.cases] + ["}},"]
    return "\n".join(out + [""])
