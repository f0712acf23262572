"""The gate and up projections of a gated MLP with its activation, and their gradients without
storing either."""

from fields.large import MATMUL_TOLERANCES
from fields.matmul import SMALL_SIZES
from table import Large, Op, Tensor, dim, dtype, option, present

KIND, TITLE = "matmuls and attention", "gated matmul"

CASE_SIZES = {"M": "rows", "K": 88, "F": 136}

ACCURACY = """Accumulators are f32. 16-bit operands are multiplied on tensor cores if the device has
them. The order of additions depends on shapes, number of rows, alignment, device and schedule.
"""

GATED_MATMUL = Op(
    "gated_matmul_nt",
    "f(x W_gate^T) * (x W_up^T): the first half of a gated MLP, SwiGLU or GeGLU, in one kernel",
    """gate = round(x W_gate^T), up = round(x W_up^T); out = round(round(f(gate)) * up)
activation selects f, one of the functions of activation_forward. W_gate is the first F rows of
weight, W_up the others. Roundings are those of matmul_nt followed by swiglu_forward or
geglu_forward with fused. out has the same bits whether gate_up is passed or not.
With gate_up the gradients are computed by swiglu_backward (SILU) or geglu_backward (GELU_TANH)
with fused, and by two matmuls: d_x = d_gate_up weight, d_weight = d_gate_up^T x.
""" + ACCURACY
    + """K and F are at least 1. There is no workspace. out and gate_up overlap no other tensor.
On a GPU the fast kernels for 16-bit dtypes require that x and weight, and their rows, begin at
multiples of 16 bytes. If one does not, a kernel that moves single elements is used
(LIGERDSL_LOG=debug names the argument). If only out, gate_up or the second half of its rows does
not, single elements are moved for that tensor alone.""",
    [dim("n_inner", "K", "x", "width of x"), dim("n_cols", "F", "out", "width of out"),
     dtype("dtype", "x", "of all tensors"),
     option("activation", "int32_t", "LIGERDSL_ACTIVATION_SILU", "LIGERDSL_ACTIVATION_*", 0, 4),
     present("gate_up")],
    [Tensor("x", "in", "M* K", "dtype", "rows"),
     Tensor("weight", "in", "2F K", "dtype", "W_gate in rows [0, F), W_up in [F, 2F)"),
     Tensor("gate_up", "out", "M* 2F", "dtype", "gate in columns [0, F), up in [F, 2F), or NULL",
            "with_gate_up"),
     Tensor("out", "out", "M* F", "dtype", "the activation")],
    rows="rows of x",
    cases=["dtype=bf16", "with_gate_up=1", "dtype=f16 activation=gelu_tanh with_gate_up=1"],
    checks=[
        "M=70 F=33 K=40", "M=9 F=40 K=24 dtype=bf16 with_gate_up=1",
        "M=20 F=33 K=17 dtype=f16 with_gate_up=1 activation=gelu_tanh",
        "M=0 F=33 K=17 with_gate_up=1"
    ],
    sizes={"M": 4096},
    small=SMALL_SIZES,
    flops="4 * M * F * K",
    case_sizes=CASE_SIZES,
    large=[
        Large("row dtype=bf16 K={4096|64} F=32",
              "row dtype=bf16 K={1024|16} F={2048|32} with_gate_up=1", **MATMUL_TOLERANCES)],
    not_compared="nobody has written a contender",
    bench=[
        "dtype={bf16|f32} with_gate_up=0 M=rows(4096|512) K={4096|1024} F={14336|4096}",
        "dtype={bf16|f32} with_gate_up=1 M=rows(4096|512) K={4096|1024} F={14336|4096}"])

GATED_MATMUL_BACKWARD = Op(
    "gated_matmul_nt_backward",
    "gradients of gate and up, which are computed again from x, in one kernel",
    """gate and up are those of gated_matmul_nt. They are computed again and not stored. activation
selects f, one of the functions of activation_forward:
  d_up = d_out * f(gate);  d_gate = d_out * up * f'(gate)
d_gate_up has the bits that swiglu_backward (SILU) or geglu_backward (GELU_TANH) with fused computes
from gate_up of gated_matmul_nt with the same schedule. out has the bits of gated_matmul_nt. A layer
that is computed again thus reads and writes 4 F elements less per row, 5 F without out. Two matmuls
compute d_x = d_gate_up weight and d_weight = d_gate_up^T x.
""" + ACCURACY
    + """K and F are at least 1. There is no workspace. d_gate_up and out overlap no other tensor.
On a GPU the fast kernels for 16-bit dtypes require that x and weight, and their rows, begin at
multiples of 16 bytes. If one does not, a kernel that moves single elements is used
(LIGERDSL_LOG=debug names the argument). If only another tensor or the second half of its rows does
not, single elements are moved for all tensors but x and weight.""",
    [dim("n_inner", "K", "x", "width of x"), dim("n_cols", "F", "d_out", "width of d_out"),
     dtype("dtype", "x", "of all tensors"),
     option("activation", "int32_t", "LIGERDSL_ACTIVATION_SILU", "LIGERDSL_ACTIVATION_*", 0, 4),
     present("out")],
    [Tensor("x", "in", "M* K", "dtype", "rows"),
     Tensor("weight", "in", "2F K", "dtype", "W_gate in rows [0, F), W_up in [F, 2F)"),
     Tensor("d_out", "in", "M* F", "dtype", "gradient of out"),
     Tensor("d_gate_up", "out", "M* 2F", "dtype",
            "gradient of gate in columns [0, F), of up in [F, 2F)"),
     Tensor("out", "out", "M* F", "dtype", "the activation, or NULL", "with_out")],
    rows="rows of x",
    cases=["dtype=bf16 with_out=1", "dtype=f16 activation=gelu_tanh", "activation=relu"],
    checks=[
        "M=70 F=33 K=40", "M=9 F=40 K=24 dtype=bf16 with_out=1",
        "M=20 F=33 K=17 dtype=f16 activation=gelu_tanh", "M=0 F=33 K=17 activation=relu_squared"
    ],
    sizes={"M": 4096},
    small=SMALL_SIZES,
    flops="4 * M * F * K",
    case_sizes=CASE_SIZES,
    large=[Large("row dtype=bf16 K={1024|16} F={2048|32} with_out=1", **MATMUL_TOLERANCES)],
    not_compared="nobody has written a contender",
    bench=["dtype={bf16|f32} with_out=1 M=rows(4096|512) K={4096|1024} F={14336|4096}"])

OPS = [GATED_MATMUL, GATED_MATMUL_BACKWARD]
