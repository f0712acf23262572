"""The matrix product of numbers of 8 bits with their scales."""

from fields.large import MATMUL_TOLERANCES
from table import FLOATS, FP8, Large, Op, Tensor, dim, dtype, flag, present

SCALED_MATMUL = Op(
    "scaled_matmul_nt", "matrix product a b^T of fp8 with scales of rows: a linear layer, whose weight is [N, K]",
    """c[i, j] = round(a_scale[i] b_scale[j] sum_k a[i, k] b[j, k] + bias[j]); a scale that is not passed is 1. One scale of a whole tensor is a
stride of 0. Products are exact. Tensor cores of sm_90a keep some 14 bits of sums of fp8: sums of 128 terms are made there, and added up in f32
outside; with fast_accumulation all K terms are (an error of up to 1e-3 of the sum of absolute products, and faster). Elsewhere sums are
f32: GPUs without such tensor cores multiply as f16, a CPU as f32. a, b and c overlap nothing that is written. K and N are at least 1. On
a GPU the fast kernel wants a and b, and their rows, to begin at multiples of 16 bytes; where one does not, a kernel that moves single elements takes
all (LIGERDSL_LOG=debug says which argument). Few rows may need a workspace for parts of sums, at most 64 N M bytes. As torch's _scaled_mm.""",
    [dim("n_inner", "K", "a", "terms of a sum, width of a"), dim("n_cols", "N", "c", "width of c"),
     dtype("dtype", "a", "of a", FP8), dtype("b_dtype", "b", "of b", FP8), dtype("c_dtype", "c", "", FLOATS),
     dtype("bias_dtype", "bias", "f32 or c_dtype; 0 = no bias", optional=True), present("a_scale"), present("b_scale"),
     flag("fast_accumulation", "1: sums of all terms by tensor cores")],
    [Tensor("a", "in", "M* K", "dtype", "first factor"), Tensor("b", "in", "N K", "b_dtype", "second factor"),
     Tensor("a_scale", "in", "M", "f32", "of every row of a, or NULL", "with_a_scale", any_stride=True),
     Tensor("b_scale", "in", "N", "f32", "of every row of b, or NULL", "with_b_scale", any_stride=True),
     Tensor("bias", "in", "N", "bias_dtype", "added to every row, or NULL", "bias_dtype"),
     Tensor("c", "out", "M* N", "c_dtype", "the product")],
    rows="rows of a",
    cases=[
        "c_dtype=bf16",
        "dtype=f8e5m2 b_dtype=f8e4m3 c_dtype=f32 bias_dtype=f32 with_a_scale=1 with_b_scale=1",
        "b_dtype=f8e5m2 c_dtype=f16 fast_accumulation=1 with_b_scale=1"],
    case_sizes={"M": "rows", "K": 88, "N": 136},
    large=[Large("row K={4096|64} N=64 c_dtype=f32 with_a_scale=1", **MATMUL_TOLERANCES)],
    bench=["c_dtype=bf16 with_a_scale=1 with_b_scale=1 M=rows(4096|512) K={8192|4096} N={8192|4096}"])

OPS = [SCALED_MATMUL]
