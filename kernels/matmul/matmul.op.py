"""Matmuls, one operation for each layout of the operands."""

from fields.large import MATMUL_TOLERANCES
from fields.matmul import SMALL_SIZES
from table import Large, Op, Tensor, dim, dtype, option

KIND, TITLE = "matmuls and attention", "matmul (dense, batched)"

FIELDS = [
    dtype("dtype", "a", "of a and b"),
    dtype("c_dtype", "c", "f32 or dtype", optional=True, zero="dtype"),
    dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
    option("alpha", "float", "1.0f", "multiplies the accumulator"),
    option("beta", "float", "0.0f", "multiplies the previous c; 0: c is not read"),
    option("epilogue", "int32_t", "LIGERDSL_EPILOGUE_NONE", "LIGERDSL_EPILOGUE_*", 0, 5)]

# For each layout: the shapes of a, b and c in memory, and the formula. c is [M, N], the inner
# dimension is K.
LAYOUTS = {"nn": ("M* K", "K N", "M* N", "a b"), "nt": ("M* K", "N K", "M* N", "a b^T"),
           "tn": ("K* M", "K* N", "M N", "a^T b"), "tt": ("K* M", "N K", "M N", "a^T b^T")}
USES = {"nn": "the gradient of a linear layer's input: d_y weight",
        "nt": "a linear layer, whose weight is [N, K]: x weight^T + bias",
        "tn": "the gradient of a linear layer's weight: d_y^T x; beta = 1 adds to c",
        "tt": "both operands stored by columns"}

CASES = {
    "nn": ["dtype=bf16 c_dtype=f32", "beta=1 alpha=0.5 bias_dtype=f32"],
    "nt": ["dtype=f16 bias_dtype=f16 c_dtype=f16 epilogue=gelu_tanh", ""],
    "tn": ["dtype=bf16 c_dtype=f32 beta=1", "c_dtype=f32 epilogue=silu"],
    "tt": ["dtype=bf16 c_dtype=bf16"]}
BATCHED_CASES = {
    "nn": ["dtype=bf16 c_dtype=f32"],
    "nt": ["dtype=f16 bias_dtype=f32 epilogue=relu", ""],
    "tn": ["dtype=bf16 c_dtype=f32 beta=1"],
    "tt": ["dtype=bf16 alpha=0.5"]}
CHECKS = {
    "nn": "M=20 N=33 K=17 dtype=bf16 c_dtype=f32 bias_dtype=f32 epilogue=gelu_erf",
    "nt": "M=70 N=33 K=40 alpha=-2 beta=0.5",
    "tn": "K=50 M=9 N=33 dtype=f16 c_dtype=f32 beta=1",
    "tt": "K=7 M=20 N=33 dtype=bf16 bias_dtype=bf16"
}
BATCHED_CHECKS = {
    "nn": "B=3 M=20 N=33 K=17 dtype=bf16 c_dtype=f32 bias_dtype=f32 epilogue=gelu_erf",
    "nt": "B=2 M=70 N=33 K=40 alpha=-2 beta=0.5",
    "tn": "B=4 K=50 M=9 N=33 dtype=f16 c_dtype=f32 beta=1",
    "tt": "B=2 K=7 M=20 N=33 dtype=bf16"
}
LARGE = {
    "nn": [Large("row dtype=bf16 K={4096|64} N=64 c_dtype=f32", **MATMUL_TOLERANCES)],
    "nt": [Large("row dtype=bf16 K={2048|32} N={4096|64}", **MATMUL_TOLERANCES)],
    "tn": [Large("row dtype=bf16 M={4096|64} N=64 c_dtype=f32", **MATMUL_TOLERANCES)]}
BENCH = {
    "nn": ["dtype={bf16|f32} M=rows(4096|512) K={8192|4096} N={8192|4096}"],
    "nt": ["dtype={bf16|f32} M=rows(4096|512) K={8192|4096} N={8192|4096}"],
    "tn": ["dtype={bf16|f32} K=rows(4096|512) M={8192|4096} N={8192|4096}"]}
NOT_LARGE = {"tt": "its b has one column per row; matmul_tn covers its a, and matmul_nt its b"}


def case_sizes(layout):
    rows, other = ("K", "M") if layout[0] == "t" else ("M", "K")
    return {rows: "rows", other: 88, "N": 136}


def product(layout):
    a, b, c, formula = LAYOUTS[layout]
    transposed = layout[0] == "t"
    inner = dim("n_rows", "M", "a", "rows of c, width of a") if transposed else dim(
        "n_inner", "K", "a", "width of a")
    empty = ("Without rows the matmul is 0, and c is written."
             if transposed else "K and N are at least 1.")
    return Op(
        f"matmul_{layout}", f"matmul {formula}: {USES[layout].split(':')[0]}",
        f"""c = round(f(alpha {formula} + bias) + beta c), with the function f that epilogue
selects.
Use: {USES[layout]}.
bias is added to every row of c. With beta = 0 c is not read. alpha = 0 multiplies nevertheless, so
an infinity in a or b gives a NaN. With beta = 1 subnormal f32 accumulators may become 0.
Accumulators are f32. 16-bit operands are multiplied on tensor cores if the device has them. The K
terms are added in one chain or a few, so the error grows with K. The order of additions depends on
shapes, number of rows, alignment, device and schedule. {empty}
c overlaps no other tensor. Partial sums take at most 64 N M bytes of the workspace with few rows,
otherwise at most a tile of f32 per SM (16.5 MiB on an H200). Copies of operands need more memory.
On a GPU the fast kernels for 16-bit dtypes require that a and b, and their rows, begin at multiples
of 16 bytes. If row lengths prevent that and the matmul is large enough, unaligned operands are first
copied to the workspace, where rows begin at multiples of 128 bytes. On sm_90a 16-bit operands whose
address or row pitch is not a multiple of 32 bytes are also copied, if that saves time. The
one-call form does so. A plan's execute does if its workspace has the bytes that
ligerdsl_plan_workspace_bytes_with_copies returns; at most 1 GiB is copied. Otherwise a kernel moves
single elements of rows that do not begin at multiples of 16 bytes (LIGERDSL_LOG=debug names the
argument). If only c or bias is unaligned, that tensor alone is moved by single elements.
The library's own kernels are used on every device.""",
        [inner, dim("n_cols", "N", "c", "width of c"), *FIELDS],
        [Tensor("a", "in", a, "dtype", "operand A"), Tensor("b", "in", b, "dtype", "operand B"),
         Tensor("bias", "in", "N", "bias_dtype", "added to every row, or NULL", "bias_dtype"),
         Tensor("c", "inout", c, "c_dtype", "the result")],
        rows="rows of a in memory",
        cases=CASES[layout],
        checks=[CHECKS[layout]],
        small=SMALL_SIZES,
        case_sizes=case_sizes(layout),
        large=LARGE.get(layout, []),
        not_large=NOT_LARGE.get(layout, ""),
        not_compared="no layer of a model has this layout" if layout == "tt" else "",
        bench=BENCH.get(layout, []))


def batched(layout):
    """Returns the operation on every matrix of a batch."""
    one = product(layout)
    for tensor in one.args:
        tensor.shape = (
            tensor.shape if tensor.name == "bias" else "B " + tensor.shape.replace("*", ""))
    formula = LAYOUTS[layout][3].replace("a", "a[i]").replace("b", "b[i]")
    return Op(
        f"batched_matmul_{layout}", one.brief.split(":")[0] + " of every matrix of a batch",
        f"""c[i] = round(f(alpha {formula} + bias) + beta c[i]) for every matrix i of a batch.
All else is as in matmul_{layout}. Strides of the batch and of rows are free, so the heads of a
projection can be the matrices. A batch stride of 0 repeats one matrix; the kernel that moves single
elements then runs, as for all unaligned operands. There is no workspace.""",
        [dim("n_batch", "B", "c", "matrices", high=2**30), *one.fields],
        one.args,
        rows="rows of a matrix of a in memory",
        cases=BATCHED_CASES[layout],
        checks=[BATCHED_CHECKS[layout]],
        small=SMALL_SIZES,
        case_sizes={**case_sizes(layout), "B": 3},
        not_large=f"a plan fixes the number of matrices; matmul_{layout} covers each of them",
        not_compared=f"matmul_{layout} computes each of its matrices")


OPS = [*(product(layout) for layout in LAYOUTS), *(batched(layout) for layout in LAYOUTS)]
