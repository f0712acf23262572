"""Writes configurations that tests and benchmarks run, in the order of operations.

- every_op_cases.inc: small ones, for tests/every_op and tests/golden
- every_op_large.inc: those on more than 2^31 elements
- every_op_not_large.inc: operations that have none of the second kind
- bench_standard.inc: those of `ligerdsl bench standard`
- bench_shapes.inc: models and sizes of the command's other sets
"""

import re

from table import CASE_SIZES


def braces(items):
    return "{" + ", ".join(items) + "}"


def quoted(text):
    return f'"{text}"'


def sizes(op):
    """Returns the sizes of an operation's configurations by letter, as C++ expressions of
    `rows`."""
    return op.case_sizes or {
        letter: size for letter, size in CASE_SIZES.items() if letter in op.symbols}


def emit(ops):
    out = ["// Generated from kernels/*/*.op.py: name, sizes and settings of each operation."]
    for op in ops:
        pairs = braces(braces([quoted(letter), str(size)]) for letter, size in sizes(op).items())
        out += ([f"{{{quoted(op.name)}, {pairs}, {{"]
                + [f"    {quoted(case)}," for case in op.cases] + ["}},"])
    return "\n".join(out + [""])


def on_devices(text, mark=""):
    """Returns a C++ expression for a text with {value on a GPU|value without}."""
    if "{" not in text:
        return mark + text + mark
    gpu, cpu = (mark + re.sub(r"\{(.*?)\|(.*?)\}", group, text) + mark for group in (r"\1", r"\2"))
    return f"gpu ? {gpu} : {cpu}"


def large_case(op, case, rules):
    """Returns a LargeCase as C++. Its fields have the order of the struct."""
    kind, *settings = case.split()
    which = braces([quoted(op.name), braces(on_devices(word, '"') for word in settings)])
    parts = [f".which = {which}"]
    parts += [f".rows = {quoted(op.row_letter)}"] if op.row_letter != "N" else []
    parts += [".period = prime"] if kind != "row" else []
    parts += [f".weight_scale = {on_devices(rules.weight_scale)}"] if rules.weight_scale else []
    parts += [".many_rows = true"] if kind == "narrow" else []
    parts += [f".tolerance = {braces(map(repr, rules.tolerance))}"] if rules.tolerance else []
    parts += [f".sum_tolerance = {rules.sum_tolerance!r}"] if rules.sum_tolerance else []
    combine = braces(braces([quoted(tensor), function])
                     for tensor, function in rules.combine.items())
    parts += [f".combine = {combine}"] if rules.combine else []
    return braces(parts) + ","


def emit_large(ops):
    out = ["// Generated from kernels/*/*.op.py: cases on more than 2^31 elements."]
    return "\n".join(
        out + [large_case(op, case, rules) for op in ops for case, rules in op.large_cases] + [""])


def emit_not_large(ops):
    out = ["// Generated from kernels/*/*.op.py: operations without a case on more than 2^31 "
           "elements."]
    return "\n".join(
        out + [f"{quoted(op.name)},  // {op.not_large}" for op in ops if op.not_large] + [""])


ROWS = re.compile(r"(\w+)=(?:(\d+)\*)?rows\((\d+)(?:\|(\d+))?\)")


def bench_setting(word):
    """Returns a C++ expression for a setting, with `rows` for one that --rows changes."""
    found = ROWS.fullmatch(word)
    if not found:
        return on_devices(word, '"')
    letter, factor, gpu, cpu = found.groups()
    return f"rows({quoted(letter)}, {factor or 1}, {gpu}, {cpu or gpu})"


def emit_shapes(shapes):
    """Returns the models and the sizes of lib/cli/bench/shapes.json as C++."""
    fields = ("hidden", "ffn", "vocab", "q_heads", "k_heads", "head_dim")
    out = ["// Generated from lib/cli/bench/shapes.json.", "constexpr Model kModels[] = {"]
    for name, model in shapes["models"].items():
        texts = [model.get("gate", "swiglu"), model.get("rope", "half")]
        out.append("    " + braces(
            [quoted(name), *(str(model[field]) for field in fields), *map(quoted, texts)]) + ",")
    return "\n".join(out + [
        "};", f"constexpr int64_t kWidths[] = {braces(map(str, shapes['widths']))};",
        f"constexpr int64_t kVocabularies[] = {braces(map(str, shapes['vocabularies']))};", ""
    ])


def emit_bench(ops):
    out = ["// Generated from kernels/*/*.op.py: cases of the set `standard`."]
    for op in ops:
        out += [braces([quoted(op.name), braces(map(bench_setting, case.split()))]) + ","
                for case in op.bench]
    return "\n".join(out + [""])
