"""operations_plans.py: checks the code generated from a row's Plan (lib/codegen/emit_plans.py),
that invalid plans are refused, and that lib/abi defines the hooks."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib/codegen"))
import emit_plans
from ops import OPS, ROOT
from table import INDEX, Op, Plan, Tensor, absent, dim, dtype, flag, in_place, option

failures = []


def expect(condition, message):
    if not condition:
        failures.append(str(message))


def row(plan, fields=(), tensors=(), **more):
    x = Tensor("x", "in", "N* H", "dtype", "rows")
    op = Op("sample", "a row", "",
            [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), *fields], [x, *tensors],
            "rows of x", plan=plan, **more)
    op.place = "kernels/family/sample"
    return op


def refusal(op):
    try:
        op.check()
    except AssertionError as error:
        return str(error)
    return ""


WIDTH = "cols=n_cols type=dtype"
WEIGHT = dtype("weight_dtype", "weight", optional=True)
D_WEIGHT = dtype("d_weight_dtype", "d_weight", optional=True, gradient_of="weight_dtype")
WEIGHTS = [Tensor("weight", "in", "H", "weight_dtype", "weight", "weight_dtype"),
           Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient", "d_weight_dtype")]

for plan, fields, line in [
        (Plan(WIDTH), [], "set(options.cols, d.n_cols);"),
        (Plan(WIDTH + " with_y=!without_y"), [flag("without_y", "")],
         "set(options.with_y, d.without_y == 0);"),
        (Plan(WIDTH + " kind"), [option("kind", "int32_t", 0, "")], "set(options.kind, d.kind);"),
        (Plan(WIDTH, numbers="eps scale=factor"),
         [option("eps", "float", 0, ""), option("factor", "float", 0, "")],
         '.numbers = {{"eps", d.eps}, {"scale", d.factor}},'),
        (Plan(WIDTH + " label_type=label_dtype"),
         [dtype("label_dtype", "x", "", INDEX, optional=True, zero="f32")],
         "set(options.label_type, d.label_dtype, DType::i64);"),
        (Plan(WIDTH + " out_type=out_dtype"),
         [dtype("out_dtype", "x", optional=True, zero="dtype")],
         "set(options.out_type, d.out_dtype, dtype_of(d.dtype));"),
        (Plan(WIDTH, hook=True), [], "adjust(d, options, bindings);")]:
    op = row(plan, fields)
    expect(not refusal(op), f"{plan}: {refusal(op)}")
    expect(any(line in got for got in emit_plans.plan(op)), f"{plan}: no line {line}")

gradient = row(Plan(f"{WIDTH} has_weight=weight_dtype d_weight_type=d_weight_dtype without_d_x"),
               [WEIGHT, D_WEIGHT, absent("d_x")],
               [*WEIGHTS, Tensor("d_x", "out", "N* H", "dtype", "gradient", "!without_d_x")])
text = "\n".join(emit_plans.plan(gradient))
expect(not refusal(gradient), refusal(gradient))
for line in ["check_without_d_x(d.without_d_x, d.d_weight_dtype != 0);",
             'check_has_parameter("d_weight_dtype", d.d_weight_dtype, d.weight_dtype, "weight");',
             'options.d_weight_type = gradients_dtype({{"d_weight_dtype", d.d_weight_dtype}}, '
             'd.weight_dtype, 0);']:
    expect(line in text, f"gradients: no line {line}")

added = row(Plan(WIDTH + " accumulate"), [flag("accumulate", ""), in_place("")],
            [Tensor("y", "inout", "N* H", "dtype", "result")], aliases=[("y", "x")])
expect('check_accumulate_alone(d.accumulate, d.in_place, "y", "x");'
       in "\n".join(emit_plans.plan(added)),
       "accumulate in place is not checked")

for op, why in [(row(Plan(WIDTH + " with_y")), "the plan names {'with_y'}"),
                (row(Plan(WIDTH), [flag("causal", "")]), "the plan does not use ['causal']"),
                (row(Plan(WIDTH, tensors="in=z")), "the plan names {'z'}"),
                (row(Plan(WIDTH, values="seed")), "the plan names {'seed'}"),
                (row(Plan(WIDTH, reduced="x")), "reduced tensors need a field per_row"),
                (row(Plan(f"{WIDTH} has_weight=weight_dtype want=d_weight_dtype"),
                     [WEIGHT, D_WEIGHT], WEIGHTS),
                 "no option takes the dtype of ['d_weight_dtype']")]:
    expect(why in refusal(op), f"{op.plan}: expected '{why}', got '{refusal(op)}'")

sources = "\n".join(path.read_text() for path in (ROOT / "lib/abi").rglob("*.cpp"))
for op in OPS:
    desc = rf"const\s+ligerdsl_{op.name}_desc_t&"
    hooks = len(re.findall(rf"\badjust\({desc}", sources))
    expect(hooks == bool(op.plan and op.plan.hook),
           f"{op.name}: lib/abi defines adjust {hooks} times, but hook is "
           f"{bool(op.plan and op.plan.hook)}")
    if op.plan:
        header = ROOT / op.header
        expect(header.exists() and op.kernel in header.read_text(),
               f"{op.name}: {op.header} does not declare {op.kernel}")

print("\n".join(failures))
sys.exit(bool(failures))
