"""Products of groups of rows by a matrix of each group, one operation for each way in which the factors lie in memory."""

from fields.large import MATMUL_TOLERANCES
from table import INDEX, Large, Op, Tensor, dim, dtype, flag, indices

OFFSETS = """The rows of a lie sorted by group: group e has the rows from offsets[e] to before offsets[e + 1], maybe none; 0 <= offsets[0]. They are
read on the device: no size of a group is known to the host, which does not wait for one. Offsets that decrease or are beyond the rows of a:
ligerdsl_context_check reports the first such group (INVALID_BOUNDS), nothing outside of the tensors is touched, and what is in c is not defined."""
ACCURACY = """Products and sums in f32, of 16-bit factors on tensor cores where the device has them; the order of a sum depends on shapes,
alignment, device and schedule. c overlaps nothing. On a GPU of 16-bit factors the fast kernels want a, b and c, and their rows, to begin at
multiples of 16 bytes, and rows of whole 16 bytes; where one does not, a kernel that moves single elements takes all (LIGERDSL_LOG=debug says
which argument)."""

TYPES = [dtype("dtype", "a", "of a and b"), dtype("c_dtype", "c", "f32 or dtype", optional=True, zero="dtype"),
         dtype("index_dtype", "offsets", "", INDEX)]

CASES = {"nt": ["dtype=bf16", "c_dtype=f32 index_dtype=i32"], "nn": ["dtype=f16"]}
LARGE = {"nt": "row dtype=bf16 K={4096|64} N=64 E=1 c_dtype=f32", "nn": "row dtype=bf16 K={2048|32} N={4096|64} E=1"}


def of_rows(layout):
    b, formula = {"nt": ("E N K", "a b[e]^T"), "nn": ("E K N", "a b[e]")}[layout]
    use = {"nt": "linear layers of experts, whose weights are [E, N, K]",
           "nn": "the gradient of such layers' input, d_y weight[e], and layers whose weights are [E, K, N]"}[layout]
    return Op(
        f"grouped_matmul_{layout}", f"matrix product {formula} of the rows of each group: {use.split(',')[0]}",
        f"""c = round({formula}) in the rows of group e; {use}. Rows of c that no group has become 0.
May need a workspace for a list of tiles, at most 32 (M / 16 + E + 3) bytes.
{OFFSETS}
{ACCURACY}""",
        [dim("n_inner", "K", "a", "terms of a sum, width of a"), dim("n_cols", "N", "c", "width of c"),
         dim("n_groups", "E", "b", "groups, matrices in b"), *TYPES],
        [Tensor("a", "in", "M* K", "dtype", "rows, sorted by group"), Tensor("b", "in", b, "dtype", "a matrix of each group"),
         indices("offsets", "O", "index_dtype", "first row of each group, and where the last one ends: E + 1 numbers"),
         Tensor("c", "out", "M* N", "c_dtype", "the products")],
        rows="rows of a", reports="group",
        cases=CASES[layout],
        case_sizes={"M": "rows", "K": 88, "N": 136, "E": 5},
        large=[Large(LARGE[layout], **MATMUL_TOLERANCES)],
        bench=["dtype={bf16|f32} E={128|8} M=8*rows(8192|64) K={2048|512} N={1536|512}"])


GRADIENT = Op(
    "grouped_matmul_tn", "matrix product a^T b of the rows of each group: the gradient of a matrix of each",
    f"""c[e] = round(a^T b) of the rows that group e has of both, or with accumulate c[e] += a^T b; 0, or nothing added, of a group without
rows. The gradient of the weights of grouped_matmul_nt is that of its c by its a, of grouped_matmul_nn that of its a by its c.
{OFFSETS}
{ACCURACY}""",
    [dim("n_rows", "M", "a", "rows of c[e], width of a"), dim("n_cols", "N", "b", "width of c"), dim("n_groups", "E", "c", "groups, matrices in c"),
     *TYPES, flag("accumulate", "1: c += instead of =; c must be f32")],
    [Tensor("a", "in", "K* M", "dtype", "rows, sorted by group"), Tensor("b", "in", "K* N", "dtype", "rows, sorted by group"),
     indices("offsets", "O", "index_dtype", "first row of each group, and where the last one ends: E + 1 numbers"),
     Tensor("c", "inout", "E M N", "c_dtype", "a matrix of each group")],
    rows="rows of a", reports="group",
    cases=["dtype=bf16", "dtype=bf16 c_dtype=f32 accumulate=1 index_dtype=i32"],
    case_sizes={"K": "rows", "M": 88, "N": 136, "E": 5},
    large=[Large("row dtype=bf16 M={4096|64} N=64 E=1 c_dtype=f32", **MATMUL_TOLERANCES)],
    bench=["dtype={bf16|f32} E={128|8} K=8*rows(8192|64) M={2048|512} N={1536|512}"])

OPS = [of_rows("nt"), of_rows("nn"), GRADIENT]
