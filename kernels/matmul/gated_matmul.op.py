"""The gate and up projections of a gated MLP with its activation, and their gradients without either in memory."""

from fields.large import MATMUL_TOLERANCES
from table import Large, Op, Tensor, dim, dtype, option, present

CASE_SIZES = {"M": "rows", "K": 88, "F": 136}

GATED_MATMUL = Op(
    "gated_matmul_nt", "f(x W_gate^T) * (x W_up^T): the first half of a gated MLP, SwiGLU or GeGLU, in one kernel",
    """gate = round(x W_gate^T), up = round(x W_up^T); out = round(round(f(gate)) * up), f by activation (the functions are those of
activation_forward). W_gate is the first F rows of weight, W_up the others. It rounds as matmul_nt and then swiglu_forward or geglu_forward of one
tensor, whether gate_up is passed or not: out has the same bits either way. With gate_up, the gradients are those of swiglu_backward (SILU) or
geglu_backward (GELU_TANH) with fused, and of two products: d_x = d_gate_up weight, d_weight = d_gate_up^T x. Products and sums in f32, of 16-bit
factors on tensor cores where the device has them; the order of a sum depends on shapes, number of rows, alignment, device and schedule. out and gate_up
overlap nothing. K and F are at least 1. On a GPU of 16-bit factors the fast kernels want x and weight, and their rows, to begin at multiples of 16
bytes; where one does not, a kernel that moves single elements takes all (LIGERDSL_LOG=debug says which argument). Where only out or gate_up, or the
second half of its rows, does not, these alone are moved so. There is no workspace.""",
    [dim("n_inner", "K", "x", "terms of a sum, width of x"), dim("n_cols", "F", "out", "width of out"), dtype("dtype", "x", "of all tensors"),
     option("activation", "int32_t", "LIGERDSL_ACTIVATION_SILU", "LIGERDSL_ACTIVATION_*", 0, 4), present("gate_up")],
    [Tensor("x", "in", "M* K", "dtype", "rows"), Tensor("weight", "in", "2F K", "dtype", "W_gate in rows [0, F), W_up in [F, 2F)"),
     Tensor("gate_up", "out", "M* 2F", "dtype", "gate in columns [0, F), up in [F, 2F), or NULL", "with_gate_up"),
     Tensor("out", "out", "M* F", "dtype", "the activation")],
    rows="rows of x",
    cases=["dtype=bf16", "with_gate_up=1", "dtype=f16 activation=gelu_tanh with_gate_up=1"],
    sizes={"M": 4096},
    case_sizes=CASE_SIZES,
    large=[
        Large("row dtype=bf16 K={4096|64} F=32", "row dtype=bf16 K={1024|16} F={2048|32} with_gate_up=1", **MATMUL_TOLERANCES)],
    bench=[
        "dtype={bf16|f32} with_gate_up=0 M=rows(4096|512) K={4096|1024} F={14336|4096}",
        "dtype={bf16|f32} with_gate_up=1 M=rows(4096|512) K={4096|1024} F={14336|4096}"])

GATED_MATMUL_BACKWARD = Op(
    "gated_matmul_nt_backward", "gradients of gate and up, which are made again from x, in one kernel",
    """gate = round(x W_gate^T) and up = round(x W_up^T) of gated_matmul_nt, which no memory holds; with f by activation (the functions are those
of activation_forward) d_up = d_out * f(gate), d_gate = d_out * up * f'(gate), of the same bits as swiglu_backward (SILU) or geglu_backward (GELU_TANH)
with fused makes them of what gated_matmul_nt stores with the same schedule; out as it makes it. A layer that is computed again so writes and reads
4 F elements a row less, 5 F without out. d_x = d_gate_up weight and d_weight = d_gate_up^T x are products of their own. Products and sums in f32, of 16-bit factors on
tensor cores where the device has them; the order of a sum depends on shapes, number of rows, alignment, device and schedule. d_gate_up and out
overlap nothing. K and F are at least 1. On a GPU of 16-bit factors the fast kernels want x and weight, and their rows, to begin at multiples of 16
bytes; where one does not, a kernel that moves single elements takes all (LIGERDSL_LOG=debug says which argument). Where only another tensor, or the
second half of its rows, does not, all but x and weight are moved so. There is no workspace.""",
    [dim("n_inner", "K", "x", "terms of a sum, width of x"), dim("n_cols", "F", "d_out", "width of d_out"), dtype("dtype", "x", "of all tensors"),
     option("activation", "int32_t", "LIGERDSL_ACTIVATION_SILU", "LIGERDSL_ACTIVATION_*", 0, 4), present("out")],
    [Tensor("x", "in", "M* K", "dtype", "rows"), Tensor("weight", "in", "2F K", "dtype", "W_gate in rows [0, F), W_up in [F, 2F)"),
     Tensor("d_out", "in", "M* F", "dtype", "gradient of out"),
     Tensor("d_gate_up", "out", "M* 2F", "dtype", "gradient of gate in columns [0, F), of up in [F, 2F)"),
     Tensor("out", "out", "M* F", "dtype", "the activation, or NULL", "with_out")],
    rows="rows of x",
    cases=["dtype=bf16 with_out=1", "dtype=f16 activation=gelu_tanh", "activation=relu"],
    sizes={"M": 4096},
    case_sizes=CASE_SIZES,
    large=[Large("row dtype=bf16 K={1024|16} F={2048|32} with_out=1", **MATMUL_TOLERANCES)],
    bench=["dtype={bf16|f32} with_out=1 M=rows(4096|512) K={4096|1024} F={14336|4096}"])

OPS = [GATED_MATMUL, GATED_MATMUL_BACKWARD]
