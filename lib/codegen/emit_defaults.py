"""Writes defaults of the command and of tests, in the order of operations.

- op_defaults.inc: for lib/instance/op_defaults.cpp
- option_words.inc: words of options by name, for lib/instance/settings.cpp
- op_default_sizes.inc: sizes and floating-point operations, evaluated here, for tests/instance
"""

from emit_cases import braces, quoted
from emit_header import CONSTANTS
from emit_json import ENUMERATION, number
from formulas import cpp, evaluate
from table import Value

ENUMERATORS = {name: value for _, names in CONSTANTS for name, value in names}


def tensor(op, t):
    """Returns the TensorDefaults of a tensor, or "" if all of its fields have their defaults."""
    reads = t.accumulate if t.direction == "inout" and op.field_named(t.accumulate) else ""
    parts = [
        f".{name} = {value}" for name, value in (
            ("bounds", quoted(t.bounds)), ("accumulate", quoted(reads)),
            ("positive", str(t.positive).lower()),
            ("contiguous", str(t.contiguous).lower()), ("mean", cpp(t.mean)),
            ("deviation", cpp(t.deviation)), ("moved", cpp(t.moved)))
        if value not in ('""', "false", "nullptr")
    ]
    return braces([f".tensor = {quoted(t.name)}", *parts]) if parts else ""


def entry(op):
    sizes = [op.size(letter) for letter in op.symbols]
    parts = [
        ("op", quoted(op.name)),
        ("sizes", braces("1" if isinstance(size, str) else str(size) for size in sizes)),
        ("small", braces(str(op.small_size(letter)) for letter in op.symbols)),
        ("rows", quoted(op.row_letter)), ("usual", braces(
            quoted(f.name) for f in op.fields if op.usual(f))),
        ("followers",
         braces(braces([quoted(op.leader(f)), quoted(f.name)]) for f in op.fields if op.leader(f))),
        ("derived", braces(braces([quoted(name), cpp(text)]) for name, text in op.derived)),
        ("tensors", braces(filter(None, (tensor(op, t) for t in op.tensors)))),
        ("flops", cpp(op.flops))]
    return braces(f".{name} = {value}" for name, value in parts if value not in ("{}", "nullptr"))


def emit_words(ops):
    """Returns the words of each option whose comment names enumerators, like LIGERDSL_CASTING_*."""
    words = {}
    for op in ops:
        for f in op.fields:
            if prefix := ENUMERATION.search(f.doc):
                known = words.setdefault(f.name, prefix[0])
                assert known == prefix[0], f"{op.name}.{f.name}: {prefix[0]}*, elsewhere {known}*"
    out = ["// Generated from kernels/*/*.op.py: option, then its words and their values."]
    for name, prefix in words.items():
        pairs = [[quoted(each.removeprefix(prefix).lower()), each] for each in ENUMERATORS
                 if each.startswith(prefix)]
        out.append(braces([quoted(name), braces(map(braces, pairs))]) + ",")
    return "\n".join(out + [""])


def numbers_of(op):
    """Returns sizes, fields and values by name for a call without settings."""
    values = [a for a in op.args if isinstance(a, Value)]
    numbers = {f.name: number(f.default, ENUMERATORS) for f in [*op.fields, *values]}
    passed = [f for f in op.fields if op.usual(f) or f.role == "dtype" and not f.optional]
    numbers |= {f.name: 1 for f in passed}
    sizes = {letter: op.size(letter) for letter in op.symbols}
    numbers |= {letter: size for letter, size in sizes.items() if not isinstance(size, str)}
    return numbers | {name: evaluate(text, numbers) for name, text in op.derived}


def expected(op):
    """Returns name, sizes and floating-point operations. The latter are -1 for an operation whose
    formula counts one part."""
    numbers = numbers_of(op)
    sizes = " ".join(f"{letter}={int(numbers[letter])}" for letter in op.symbols)
    parts = any(t.bounds for t in op.tensors)
    flops = evaluate(op.flops, numbers) if op.flops and not parts else -1 if op.flops else 0
    return braces([quoted(op.name), quoted(sizes), repr(float(flops))])


def emit_expected(ops):
    return "\n".join(
        ["// Generated from kernels/*/*.op.py: name, sizes and floating-point operations."] +
        [expected(op) + "," for op in ops] + [""])


def emit(ops):
    return "\n".join(["// Generated from kernels/*/*.op.py: OpDefaults of each operation."] +
                     [entry(op) + "," for op in ops] + [""])
