"""Matmuls of groups of rows with one matrix per group, one operation for each layout of the
operands."""

from fields.large import MATMUL_TOLERANCES
from fields.matmul import SMALL_SIZES
from table import INDEX, Large, Op, Tensor, dim, dtype, flag, indices

KIND, TITLE = "matmuls and attention", "grouped matmul (mixtures of experts)"

OFFSETS = """The rows of a are sorted by group. Group e has the rows [offsets[e], offsets[e + 1]), which may be
empty, and 0 <= offsets[0]. The device reads the offsets; the host neither knows the sizes of groups
nor waits for them. If offsets decrease or exceed the rows of a, ligerdsl_context_check reports the
first such group (INVALID_BOUNDS). No memory outside the tensors is accessed, and c is undefined."""
ACCURACY = """Accumulators are f32. 16-bit operands are multiplied on tensor cores if the device has them. The order
of additions depends on shapes, alignment, device and schedule. c overlaps no other tensor.
On a GPU the fast kernels for 16-bit dtypes require that a, b and c, and their rows, begin at
multiples of 16 bytes, and that rows have a multiple of 16 bytes. If one does not, a kernel that moves
single elements is used (LIGERDSL_LOG=debug names the argument)."""

TYPES = [dtype("dtype", "a", "of a and b"),
         dtype("c_dtype", "c", "f32 or dtype", optional=True, zero="dtype"),
         dtype("index_dtype", "offsets", "", INDEX)]

CASES = {"nt": ["dtype=bf16", "c_dtype=f32 index_dtype=i32"], "nn": ["dtype=f16"]}
CHECKS = {
    "nt": ["M=70 N=33 K=40 E=5 dtype=bf16", "M=9 N=33 K=17 E=12 index_dtype=i32"],
    "nn": ["M=70 N=33 K=40 E=3 dtype=f16 c_dtype=f32", "M=0 N=33 K=40 E=3"]
}
LARGE = {
    "nt": "row dtype=bf16 K={4096|64} N=64 E=1 c_dtype=f32",
    "nn": "row dtype=bf16 K={2048|32} N={4096|64} E=1"
}


def of_rows(layout):
    b, formula = {"nt": ("E N K", "a b[e]^T"), "nn": ("E K N", "a b[e]")}[layout]
    use = {"nt": "linear layers of experts, whose weights are [E, N, K]",
           "nn": "the gradient of the input of such layers, d_y weight[e]; also layers whose "
                 "weights are [E, K, N]"}[layout]
    return Op(f"grouped_matmul_{layout}",
              f"matmul {formula} of the rows of each group: {use.split(',')[0]}",
              f"""c = round({formula}) in the rows of group e.
Use: {use}.
Rows of c that belong to no group become 0. A list of tiles may need a workspace of at most
32 (M / 16 + E + 3) bytes.
{OFFSETS}
{ACCURACY}""", [
                  dim("n_inner", "K", "a", "width of a"),
                  dim("n_cols", "N", "c", "width of c"),
                  dim("n_groups", "E", "b", "groups, matrices in b"), *TYPES
              ], [
                  Tensor("a", "in", "M* K", "dtype", "rows, sorted by group"),
                  Tensor("b", "in", b, "dtype", "one matrix per group"),
                  indices("offsets",
                          "O",
                          "index_dtype",
                          "first row of each group, then the end of the last one: E + 1 numbers",
                          bounds="M"),
                  Tensor("c", "out", "M* N", "c_dtype", "the result")
              ],
              rows="rows of a",
              reports="group",
              cases=CASES[layout],
              checks=CHECKS[layout],
              small=SMALL_SIZES,
              case_sizes={"M": "rows", "K": 88, "N": 136, "E": 5},
              large=[Large(LARGE[layout], **MATMUL_TOLERANCES)],
              not_compared="" if layout == "nt" else "bench/tiles_experts.py compares it",
              bench=["dtype={bf16|f32} E={128|8} M=8*rows(8192|64) K={2048|512} N={1536|512}"])


GRADIENT = Op(
    "grouped_matmul_tn",
    "matmul a^T b of the rows of each group: the gradient of each group's matrix",
    f"""c[e] = round(a^T b) over the rows of group e in a and b, or c[e] += a^T b with accumulate.
For a group without rows c[e] becomes 0, or keeps its values with accumulate. To get the gradient of
the weights of grouped_matmul_nt, pass the gradient of its c as a and its a as b. For
grouped_matmul_nn pass its a as a and the gradient of its c as b.
{OFFSETS}
{ACCURACY}""", [
        dim("n_rows", "M", "a", "rows of c[e], width of a"),
        dim("n_cols", "N", "b", "width of c"),
        dim("n_groups", "E", "c", "groups, matrices in c"), *TYPES,
        flag("accumulate", "1: c += instead of =; c must be f32")
    ], [
        Tensor("a", "in", "K* M", "dtype", "rows, sorted by group"),
        Tensor("b", "in", "K* N", "dtype", "rows, sorted by group"),
        indices("offsets",
                "O",
                "index_dtype",
                "first row of each group, then the end of the last one: E + 1 numbers",
                bounds="K"),
        Tensor("c", "inout", "E M N", "c_dtype", "one matrix per group")
    ],
    rows="rows of a",
    reports="group",
    cases=["dtype=bf16", "dtype=bf16 c_dtype=f32 accumulate=1 index_dtype=i32"],
    checks=[
        "K=70 M=20 N=33 E=5 dtype=bf16", "K=70 M=20 N=33 E=6 dtype=bf16 c_dtype=f32 accumulate=1",
        "K=0 M=20 N=33 E=2"
    ],
    small=SMALL_SIZES,
    case_sizes={"K": "rows", "M": 88, "N": 136, "E": 5},
    large=[Large("row dtype=bf16 M={4096|64} N=64 E=1 c_dtype=f32", **MATMUL_TOLERANCES)],
    not_compared="bench/tiles_experts.py compares it",
    bench=["dtype={bf16|f32} E={128|8} K=8*rows(8192|64) M={2048|512} N={1536|512}"])

OPS = [of_rows("nt"), of_rows("nn"), GRADIENT]
