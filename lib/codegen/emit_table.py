"""Writes op_table.h and op_table.cpp: the operation table as data for the library
(lib/abi/op_info.h), and the C entry points."""

from table import TensorList, Value

TYPES = {"int32_t": "i32", "int64_t": "i64", "float": "f32"}


def range_of(f):
    # these bounds are float literals, rounded like the field's values
    suffix = "f" if f.ctype == "float" and f.or_zero else ""
    parts = [f".{name} = {getattr(f, name)!r}{suffix}" for name in ("low", "high")
             if getattr(f, name) is not None]
    parts += [
        f".{name} = true" for name in ("below_high", "infinite", "or_zero") if getattr(f, name)]
    return "{" + ", ".join(parts) + "}"


def field_row(op, f):
    source = [t.name for t in op.tensors].index(f.source) if f.source else -1
    symbol = op.symbols.index(f.symbol) if f.symbol else -1
    if f.role == "queries":  # the one-call form fills it in only if `causal` is set
        symbol = [other.name for other in op.fields].index("causal")
    mask = " | ".join(f"bit(DType::{d})" for d in f.dtypes) or "0"
    return (f'    {{"{f.name}", offsetof(D, {f.name}), FieldType::{TYPES[f.ctype]}, '
            f'FieldRole::{f.role}, {source}, {symbol}, {range_of(f)}, {mask}, '
            f'{str(f.optional).lower()}}},')


def dims(op, spec):
    parts = []
    for part in spec.split():
        letter = part.rstrip("*").lstrip("0123456789")
        factor = part.rstrip("*")[:len(part.rstrip("*")) - len(letter)] or "1"
        parts.append(f"{{{op.symbols.index(letter) if letter else -1}, {factor}}}")
    return "{" + ", ".join(parts) + "}", len(parts)


def tensor_row(op, t):
    names = [f.name for f in op.fields]
    kind = "leading" if "*" in t.shape else "free" if t.shape == "?" else "fixed"
    spec, rank = ("{}", 0) if kind == "free" else dims(op, t.shape)
    fixed, by_field = ("f32", names.index(t.dtype)) if t.dtype in names else (t.dtype, -1)
    zero = op.fields[by_field].zero if by_field >= 0 else ""
    otherwise = names.index(zero) if zero in names else -1
    given = names.index(t.given.lstrip("!")) if t.given else -1
    return (f'    {{"{t.name}", offsetof(A, {t.name}), Direction::{t.direction}, '
            f'ShapeKind::{kind}, {rank}, {spec}, DType::{fixed}, {by_field}, {otherwise}, {given}, '
            f'{str(t.given.startswith("!")).lower()}, {str(t.any_stride).lower()}, "{t.hint}"}},')


def value_row(op, v):
    unless = [f.name for f in op.fields].index(v.unless) if v.unless else -1
    return (f'    {{"{v.name}", offsetof(A, {v.name}), FieldType::{TYPES[v.ctype]}, {range_of(v)}, '
            f'{unless}}},')


def table(index, op):
    n = op.camel
    last_field, last_arg = (
        [one.name for one in all_ if not getattr(one, "later", False)][-1]
        for all_ in (op.fields, op.args))
    names = [t.name for t in op.tensors]
    in_place = [f.name for f in op.fields].index("in_place") if op.aliases else -1
    values = [a for a in op.args if isinstance(a, Value)]
    lists = [a for a in op.args if isinstance(a, TensorList)]
    rows = lambda kind, name, lines: (
        [f"const {kind} k{n}{name}[] = {{"] + lines + ["};"]) if lines else []
    out = [f"// {op.name}", f"namespace table_{op.name} {{",
           f"using D = ligerdsl_{op.name}_desc_t;", f"using A = ligerdsl_{op.name}_args_t;",
           "static_assert(sizeof(D) <= kMaxStruct && sizeof(A) <= kMaxStruct);",
           "const D kDescDefaults = LIGERDSL_" + op.name.upper() + "_DESC_INIT;",
           "const A kArgsDefaults = LIGERDSL_" + op.name.upper() + "_ARGS_INIT;"]
    out += rows("FieldInfo", "Fields", [field_row(op, f) for f in op.fields])
    out += rows("TensorInfo", "Tensors", [tensor_row(op, t) for t in op.tensors])
    out += rows("ValueInfo", "Values", [value_row(op, v) for v in values])
    out += rows("AliasInfo", "Aliases",
                [f"    {{{names.index(a)}, {names.index(b)}}}," for a, b in op.aliases])
    out += rows("char* const", "Symbols", [f'    "{s}",' for s in op.symbols])
    span = lambda name, have: f"k{n}{name}" if have else "{}"
    out += [
        f"std::unique_ptr<OpPlan> make(const ContextRef& context, const void* desc) {{",
        "  return make_plan(context, *static_cast<const D*>(desc));", "}",
        f"const OpInfo kInfo = {{",
        f'    {index}, "{op.name}", "{op.brief}", "{op.rows}", Reported::{op.reports},',
        f"    sizeof(D), offsetof(D, {last_field}) + sizeof(D::{last_field}), &kDescDefaults,",
        f"    sizeof(A), offsetof(A, {last_arg}) + sizeof(A::{last_arg}), &kArgsDefaults,",
        f"    {span('Fields', op.fields)}, {span('Tensors', op.tensors)}, "
        f"{span('Values', values)}, {span('Aliases', op.aliases)}, {span('Symbols', op.symbols)}, "
        f"{in_place}, {'offsetof(A, ' + lists[0].name + ')' if lists else '-1'}, make}};",
        "}  // namespace", f"const OpInfo& {op.name}::info() {{ return table_{op.name}::kInfo; }}",
        ""]
    return out


def entry_points(op):
    n, d, a = (op.name, f"const ligerdsl_{op.name}_desc_t* desc",
               f"const ligerdsl_{op.name}_args_t* args")
    info = f"ligerdsl::lib::table_{n}::kInfo"
    return [f"ligerdsl_status_t ligerdsl_{n}_plan(ligerdsl_context_t context, {d}, "
            f"ligerdsl_plan_t* plan) {{",
            f"  return ligerdsl::lib::plan_entry({info}, context, desc, plan);", "}",
            f"ligerdsl_status_t ligerdsl_{n}_execute(ligerdsl_plan_t plan, {a}, void* workspace, "
            f"size_t bytes, ligerdsl_stream_t stream) {{",
            f"  return ligerdsl::lib::execute_entry({info}, plan, args, workspace, bytes, stream);",
            "}",
            f"ligerdsl_status_t ligerdsl_{n}(ligerdsl_context_t context, {d}, {a}, "
            f"ligerdsl_stream_t stream) {{",
            f"  return ligerdsl::lib::call_entry({info}, context, desc, args, stream);", "}"]


def emit_source(ops):
    out = ['// Generated from lib/codegen/ops.py.', '#include "op_table.h"', '',
           '#include <cstddef>', '', '#include "lib/abi/entry.h"', '', 'namespace ligerdsl::lib {',
           '']
    for index, op in enumerate(ops):
        out += table(index, op)
    out += ["namespace {",
            "const OpInfo* const kAll[] = {"] + [f"    &table_{op.name}::kInfo," for op in ops] + [
        "};", "}  // namespace", "std::span<const OpInfo* const> op_table() { return kAll; }",
        "}  // namespace ligerdsl::lib", "", 'extern "C" {']
    for op in ops:
        out += entry_points(op)
    return "\n".join(out + ['}  // extern "C"', ""])


def emit_header(ops):
    out = ["// Generated from lib/codegen/ops.py: positions of tensors and symbols, and the "
           "functions that lib/abi/ops/ defines.",
           "#pragma once", "", '#include "lib/abi/op_info.h"', '#include "ligerdsl/ligerdsl.h"', "",
           "namespace ligerdsl::lib {", ""]
    for op in ops:
        out.append(f"namespace {op.name} {{")
        if op.tensors:
            out.append(
                "enum Tensor : int { " + ", ".join(f"k_{t.name}" for t in op.tensors) + " };")
        if op.symbols:
            out.append("enum Symbol : int { " + ", ".join(f"dim_{s}" for s in op.symbols) + " };")
        out += ["const OpInfo& info();", f"}}  // namespace {op.name}",
                "std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const "
                f"ligerdsl_{op.name}_desc_t& desc);",
                ""]
    return "\n".join(out + ["}  // namespace ligerdsl::lib", ""])
