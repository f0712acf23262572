"""Writes plans.cpp: `make_plan` of every operation whose row has a Plan. It calls functions of
lib/abi/ops/support.h."""

from table import Value, pairs


def quoted(name, value):
    return f'{{"{name}", {value}}}'


def rows_symbol(op):
    """Returns the symbol of the first leading dimension that is not reduced."""
    for tensor in op.tensors:
        first = tensor.shape.split()[0]
        if first.endswith("*") and tensor.name not in op.plan.reduced.split():
            return f"op::dim_{first[:-1]}"
    raise ValueError(f"{op.name}: expected a tensor with rows, like 'N* H', that is not reduced")


# ---- Checks derived from the row -----------------------------------------------------------------

def checks_of_sizes(op):
    """Returns checks that a size of an optional tensor is at least 1 if the tensor is passed."""
    given = {t.name: t.given for t in op.tensors}
    return [f'  check_given("{f.name}", d.{f.name}, d.{given[f.source]}, "{f.source}");'
            for f in op.fields if f.role == "dim" and f.optional and given.get(f.source)]


def check_of_queries(op):
    return ["  check_queries(d.causal, d.n_queries);"] if op.field_named("n_queries") else []


def check_of_accumulate(op):
    """Returns checks that an accumulated result does not overwrite an input."""
    inputs = {}
    for output, input in op.aliases:
        inputs.setdefault(output, []).append(input)
    added = [t.name for t in op.tensors if t.direction == "inout" and t.name in inputs]
    return [f'  check_accumulate_alone(d.accumulate, d.in_place, "{name}", '
            f'"{" or ".join(inputs[name])}");' for name in added]


def gradients_of(op, parameter):
    return [f for f in op.fields if f.gradient_of == parameter]


def checks_of_parameters(op):
    """Returns checks of parameters' dtypes, and that each requested gradient has its parameter."""
    out = []
    for f in op.fields:
        if f.same_as:
            out.append(f'  check_same_dtype("{f.name}", d.{f.name}, d.{f.same_as}, '
                       f'"{op.field_named(f.same_as).source}");')
        parameter = op.field_named(f.gradient_of)
        if parameter and parameter.optional:
            out.append(f'  check_has_parameter("{f.name}", d.{f.name}, d.{parameter.name}, '
                       f'"{parameter.source}");')
    return out


def check_of_d_x(op):
    if not op.field_named("without_d_x"):
        return []
    wanted = " || ".join(f"d.{f.name} != 0" for f in op.fields if f.gradient_of)
    also = ", d.with_d_sum" if op.field_named("with_d_sum") else ""
    return [f"  check_without_d_x(d.without_d_x, {wanted}{also});"]


def checks(op):
    return check_of_queries(op) + check_of_accumulate(op) + check_of_d_x(op) + checks_of_parameters(
        op)


# ---- Options and bindings ------------------------------------------------------------------------

def gradients_dtype(op, parameter):
    """Returns the expression for the common gradient dtype of all parameters with this dtype
    field."""
    fields = ", ".join(quoted(f.name, f"d.{f.name}") for f in gradients_of(op, parameter))
    accumulate = "d.accumulate" if op.field_named("accumulate") else "0"
    return f"gradients_dtype({{{fields}}}, d.{parameter}, {accumulate})"


def dtype_for_zero(op, f):
    """Returns the third argument of `set`: the dtype that 0 means, unless that is f32."""
    if op.field_named(f.zero):
        return f", dtype_of(d.{f.zero})"
    return f", DType::{f.dtypes[0]}" if f.optional and f.dtypes[0] != "f32" else ""


def setting(op, option, name):
    """Returns the line that sets an option. Names of dtype options end with `type`."""
    if name.startswith("!"):
        return f"  set(options.{option}, d.{name[1:]} == 0);"
    f = op.field_named(name)
    is_dtype = f.role == "dtype" and option.endswith("type")
    if is_dtype and f.gradient_of:
        return f"  options.{option} = {gradients_dtype(op, f.gradient_of)};"
    return f"  set(options.{option}, d.{name}{dtype_for_zero(op, f) if is_dtype else ''});"


def list_of(name, items):
    return [f"      .{name} = {{{', '.join(items)}}},"] if items else []


def values(op, is_float):
    args = {a.name: a for a in op.args if isinstance(a, Value)}
    return [quoted(argument, f"value_of(&ligerdsl_{op.name}_args_t::{name})")
            for argument, name in pairs(op.plan.values)
            if (args[name].ctype == "float") == is_float]


def rows(op):
    symbol = rows_symbol(op)
    if op.plan.reduced:
        shapes = {t.name: t.shape for t in op.tensors}
        reduced = ", ".join(f'{{op::dim_{shapes[name].rstrip("*")}, "{name}"}}'
                            for name in op.plan.reduced.split())
        return f"rows_with_reduced({symbol}, d.per_row != 0, {{{reduced}}})"
    if op.field_named("n_queries"):
        return f"rows_of_queries({symbol}, d.causal != 0, d.n_queries)"
    return f"size_of_call({symbol})"


def bindings(op):
    fields = lambda text: [quoted(argument, f"d.{name}") for argument, name in pairs(text)]
    out = list_of("numbers", fields(op.plan.numbers)) + list_of("integers",
                                                                fields(op.plan.integers))
    out += list_of("integers_of_call", values(op, False)) + list_of("numbers_of_call",
                                                                    values(op, True))
    out += list_of("renamed",
                   [quoted(argument, f'"{name}"') for argument, name in pairs(op.plan.tensors)])
    if not out:
        return [f"  OperationPlan::Bindings bindings{{.rows = {rows(op)}}};"]
    return ["  OperationPlan::Bindings bindings{", *out, f"      .rows = {rows(op)}}};"]


def plan(op):
    out = []
    if op.plan.hook:
        out += [f"void adjust(const ligerdsl_{op.name}_desc_t& d, OptionsOf<kernels::{op.kernel}>& "
                "options,",
                "            OperationPlan::Bindings& bindings);", ""]
    out += ["std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const "
            f"ligerdsl_{op.name}_desc_t& d) {{",
            f"  namespace op = {op.name};", *checks(op),
            f"  OptionsOf<kernels::{op.kernel}> options;"]
    out += [setting(op, option, name) for option, name in pairs(op.plan.options)] + bindings(op)
    out += ["  adjust(d, options, bindings);"] if op.plan.hook else []
    out += checks_of_sizes(op)  # after the hook, whose dtype errors come first
    return out + ["  return plan_of(context, op::info(), d, configured(context, "
                  f"kernels::{op.kernel}, options), std::move(bindings));",
                  "}", ""]


def emit(ops):
    planned = [op for op in ops if op.plan]
    headers = sorted({op.header for op in planned})
    out = ["// Generated from kernels/*/*.op.py: the plans of operations that are one kernel."]
    out += [f'#include "{header}"' for header in headers]
    out += ['#include "kernels/core/elementwise_schedule.h"', '#include "lib/abi/ops/support.h"',
            "", "namespace ligerdsl::lib {", ""]
    for op in planned:
        out += plan(op)
    return "\n".join(out + ["}  // namespace ligerdsl::lib", ""])
