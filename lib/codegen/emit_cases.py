"""Writes configurations that tests and benchmarks run, in the order of operations.

- every_op_cases.inc: small ones, for tests/every_op and tests/golden
- every_op_large.inc: configurations on more than 2^31 elements
- every_op_not_large.inc: operations without large configurations
- bench_standard.inc: configurations of `ligerdsl bench --set standard`
- bench_layers.inc: layers of the models in lib/cli/bench/shapes.json
- bench_shapes.inc: names of these models, and sizes of the command's other sets
"""

import re

import formulas
from table import CASE_SIZES, MODEL_WORDS


def braces(items):
    return "{" + ", ".join(items) + "}"


def quoted(text):
    return f'"{text}"'


def sizes(op):
    """Returns the sizes in an operation's configurations by letter, as C++ expressions of
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
    """Returns a C++ expression for a text with {value on a GPU|value on a CPU}."""
    if "{" not in text:
        return mark + text + mark
    gpu, cpu = (mark + re.sub(r"\{(.*?)\|(.*?)\}", group, text) + mark for group in (r"\1", r"\2"))
    return f"gpu ? {gpu} : {cpu}"


def large_case(op, case, rules):
    """Returns a LargeCase as C++, with fields in the struct's order."""
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
    """Returns a C++ expression for a setting; it uses `rows` if --rows changes the setting."""
    found = ROWS.fullmatch(word)
    if not found:
        return on_devices(word, '"')
    letter, factor, gpu, cpu = found.groups()
    return f"rows({quoted(letter)}, {factor or 1}, {gpu}, {cpu or gpu})"


def emit_shapes(shapes):
    """Returns the names of the models and the sizes of lib/cli/bench/shapes.json as C++."""
    return "\n".join([
        "// Generated from lib/cli/bench/shapes.json.",
        f"constexpr const char* kModels[] = {braces(map(quoted, shapes['models']))};",
        f"constexpr int64_t kWidths[] = {braces(map(str, shapes['widths']))};",
        f"constexpr int64_t kVocabularies[] = {braces(map(str, shapes['vocabularies']))};", ""
    ])


def layers_of(ops, model):
    """Yields (operation, [(setting, value)]) for each layer of a model, with the model's words and
    numbers in the values. Formulas of `tokens` remain as {formula}."""
    numbers = MODEL_WORDS | model
    for op in ops:
        for text in op.layers:
            words = [word.split("=", 1) for word in text.split()]
            if all(numbers[name] == value for name, value in words if name in MODEL_WORDS):
                yield op, [(name, filled(value, numbers)) for name, value in words
                           if name not in MODEL_WORDS]


def filled(value, numbers):
    """Returns a setting's value with each {formula} replaced by the model's word or number."""
    formula = value[1:-1]
    if not value.startswith("{") or "|" in value or "tokens" in formulas.names(formula):
        return value
    return str(formulas.evaluate(formula, numbers))


def layer_setting(name, value):
    """Returns a C++ expression for a setting. In it, n("tokens") is the number of tokens."""
    if not value.startswith("{") or "|" in value:
        return on_devices(f"{name}={value}", '"')
    number = formulas.number(formulas.parsed(value[1:-1]))
    return f"Builder::size({quoted(name)}, static_cast<int64_t>({number}))"


def emit_layers(ops, shapes):
    out = ["// Generated from kernels/*/*.op.py and lib/cli/bench/shapes.json: layers of models."]
    for name, model in shapes["models"].items():
        out += [f"if (model == {quoted(name)}) {{", "  return {"]
        for op, settings in layers_of(ops, model):
            words = braces(layer_setting(*word) for word in settings)
            out.append(f"    {braces([quoted(op.name), words])},")
        out += ["  };", "}"]
    return "\n".join(out + [""])


def emit_bench(ops):
    out = ["// Generated from kernels/*/*.op.py: cases of the set `standard`."]
    for op in ops:
        out += [braces([quoted(op.name), braces(map(bench_setting, case.split()))]) + ","
                for case in op.bench]
    return "\n".join(out + [""])
