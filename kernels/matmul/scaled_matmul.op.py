"""Matmul of fp8 tensors with scales."""

from fields.large import MATMUL_TOLERANCES
from fields.matmul import SMALL_SIZES
from table import FLOATS, FP8, Large, Op, Tensor, dim, dtype, flag, present

KIND, TITLE = "matmuls and attention", "fp8 matmul"

SCALED_MATMUL = Op(
    "scaled_matmul_nt",
    "matmul a b^T of fp8 operands with a scale per row: a linear layer, whose weight is [N, K]",
    """c[i, j] = round(a_scale[i] b_scale[j] sum_k a[i, k] b[j, k] + bias[j])
A scale that is not passed is 1. One scale for a whole tensor is passed with a stride of 0. The
operation is that of torch's _scaled_mm.
Each multiplication is exact. The tensor cores of sm_90a keep about 14 bits of an fp8 accumulator.
They therefore accumulate only 128 terms, and these partial sums are added in f32 outside. With
fast_accumulation they accumulate all K terms. That is faster, with an error of up to 1e-3 of the
sum of absolute terms. Other devices accumulate in f32: GPUs without such tensor cores multiply in
f16, a CPU in f32.
No output overlaps an input. K and N are at least 1. Few rows may need a workspace for partial
sums, at most 64 N M bytes. On a GPU the fast kernel requires that a and b, and their rows, begin at
multiples of 16 bytes. If one does not, a kernel that moves single elements is used
(LIGERDSL_LOG=debug names the argument).""",
    [dim("n_inner", "K", "a", "width of a"), dim("n_cols", "N", "c", "width of c"),
     dtype("dtype", "a", "of a", FP8), dtype("b_dtype", "b", "of b", FP8),
     dtype("c_dtype", "c", "", FLOATS),
     dtype("bias_dtype", "bias", "f32 or c_dtype; 0 = no bias", optional=True), present("a_scale"),
     present("b_scale"), flag("fast_accumulation", "1: the tensor cores accumulate all K terms")],
    [Tensor("a", "in", "M* K", "dtype", "operand A"),
     Tensor("b", "in", "N K", "b_dtype", "operand B"),
     Tensor("a_scale", "in", "M", "f32", "scale of each row of a, or NULL", "with_a_scale",
            any_stride=True),
     Tensor("b_scale", "in", "N", "f32", "scale of each row of b, or NULL", "with_b_scale",
            any_stride=True),
     Tensor("bias", "in", "N", "bias_dtype", "added to every row, or NULL", "bias_dtype"),
     Tensor("c", "out", "M* N", "c_dtype", "the result")],
    rows="rows of a",
    cases=[
        "c_dtype=bf16",
        "dtype=f8e5m2 b_dtype=f8e4m3 c_dtype=f32 bias_dtype=f32 with_a_scale=1 with_b_scale=1",
        "b_dtype=f8e5m2 c_dtype=f16 fast_accumulation=1 with_b_scale=1"
    ],
    checks=[
        "M=70 N=33 K=40 c_dtype=bf16 with_a_scale=1",
        "M=9 N=33 K=17 dtype=f8e5m2 b_dtype=f8e4m3 c_dtype=f32 bias_dtype=f32 with_b_scale=1"
    ],
    small=SMALL_SIZES,
    case_sizes={"M": "rows", "K": 88, "N": 136},
    large=[Large("row K={4096|64} N=64 c_dtype=f32 with_a_scale=1", **MATMUL_TOLERANCES)],
    not_compared="bench/tiles.py compares it",
    bench=[
        "c_dtype=bf16 with_a_scale=1 with_b_scale=1 M=rows(4096|512) K={8192|4096} N={8192|4096}"])

OPS = [SCALED_MATMUL]
