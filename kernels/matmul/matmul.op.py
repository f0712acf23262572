"""Matrix products, one operation for each way in which the factors lie in memory."""

from fields.large import MATMUL_TOLERANCES
from table import Large, Op, Tensor, dim, dtype, option

FIELDS = [
    dtype("dtype", "a", "of a and b"), dtype("c_dtype", "c", "f32 or dtype", optional=True, zero="dtype"),
    dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
    option("alpha", "float", "1.0f", "factor of the sums"), option("beta", "float", "0.0f", "factor of what is in c; 0: it is not read"),
    option("epilogue", "int32_t", "LIGERDSL_EPILOGUE_NONE", "LIGERDSL_EPILOGUE_*", 0, 5)]

# How a and b lie in memory, and c; by the letters of a product of M rows, N columns and K terms.
LAYOUTS = {"nn": ("M* K", "K N", "M* N", "a b"), "nt": ("M* K", "N K", "M* N", "a b^T"),
           "tn": ("K* M", "K* N", "M N", "a^T b"), "tt": ("K* M", "N K", "M N", "a^T b^T")}
USES = {"nn": "the gradient of a linear layer's input: d_y weight",
        "nt": "a linear layer, whose weight is [N, K]: x weight^T + bias",
        "tn": "the gradient of a linear layer's weight: d_y^T x; beta = 1 adds to what is in c",
        "tt": "both factors by columns"}

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
    inner = dim("n_rows", "M", "a", "rows of c, width of a") if transposed else dim("n_inner", "K", "a", "terms of a sum, width of a")
    return Op(
        f"matmul_{layout}", f"matrix product {formula}: {USES[layout].split(':')[0]}",
        f"""c = round(f(alpha {formula} + bias) + beta c), f by epilogue; {USES[layout]}. Subnormal sums of f32 may become 0 where beta is 1. Products and sums in f32, of 16-bit factors on tensor cores
where the device has them; a sum of K terms is one chain of additions, or a few, so its error grows with K. The order depends on shapes, number of
rows, alignment, device and schedule. bias is added to every row of c. Where beta is 0 c is not read; alpha = 0 multiplies all the same, so an
infinity in a or b gives a NaN. {"Without rows the sums are 0, and c is written." if transposed else "K and N are at least 1."} c overlaps nothing.
On a GPU of 16-bit factors the fast kernels want a and b, and their rows, to begin at multiples of 16 bytes; where one does not, a kernel that moves
single elements takes all (LIGERDSL_LOG=debug says which argument). Where only c or bias does not, these alone are moved so. Few rows may need a workspace for parts of
sums, at most 64 N M bytes. Made by the library's own kernels on every device.""",
        [inner, dim("n_cols", "N", "c", "width of c"), *FIELDS],
        [Tensor("a", "in", a, "dtype", "first factor"), Tensor("b", "in", b, "dtype", "second factor"),
         Tensor("bias", "in", "N", "bias_dtype", "added to every row, or NULL", "bias_dtype"),
         Tensor("c", "inout", c, "c_dtype", "the product")],
        rows="rows of a in memory",
        cases=CASES[layout],
        case_sizes=case_sizes(layout),
        large=LARGE.get(layout, []),
        not_large=NOT_LARGE.get(layout, ""),
        bench=BENCH.get(layout, []))


def batched(layout):
    """The same of every matrix of a batch."""
    one = product(layout)
    for tensor in one.args:
        tensor.shape = tensor.shape if tensor.name == "bias" else "B " + tensor.shape.replace("*", "")
    transposed = layout[0] == "t"
    return Op(
        f"batched_matmul_{layout}", one.brief.replace("matrix product", "matrix products").split(":")[0] + " of every matrix of a batch",
        f"""c[i] = round(f(alpha {LAYOUTS[layout][3].replace("a", "a[i]").replace("b", "b[i]")} + bias) + beta c[i]) for every matrix i of a batch; else as matmul_{layout}. Strides of a batch and of rows are any, so
heads of a projection are matrices that lie side by side. A batch whose matrices are one (a stride of 0) is right, by the kernel that moves single elements.
There is no workspace.""",
        [dim("n_batch", "B", "c", "matrices", high=2**30), *one.fields], one.args, rows="rows of a matrix of a in memory",
        cases=BATCHED_CASES[layout],
        case_sizes={**case_sizes(layout), "B": 3},
        not_large=f"a plan fixes the number of matrices; matmul_{layout} covers each of them")


OPS = [*(product(layout) for layout in LAYOUTS), *(batched(layout) for layout in LAYOUTS)]
