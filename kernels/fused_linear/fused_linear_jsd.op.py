"""The lm_heads' matmuls of a student and its teacher with jsd."""

from fields import fused_linear
from fields.large import MATMUL_TOLERANCES
from fields.losses import DIVERGENCE_LABELS, D_LOSS_DTYPE, LOSS_DTYPE_ALONE
from fields.parameters import ACCUMULATE
from table import Large, Op, Tensor, absent, dim, dtype, in_place, indices, option, present

KIND, TITLE = "losses", "fused linear JSD"

OPS = [
    Op("fused_linear_jsd",
       "jsd of the softmaxes of x * weight^T and target_x * target_weight^T, one chunk of the "
       "logits at a time",
       """Z = x weight^T and T = target_x target_weight^T, both divided by temperature. The loss is
that of jsd with input = log softmax Z, target = log softmax T and the same beta, over V classes.
D = gradient of that loss with respect to log softmax Z, times d_loss.
d = (D - softmax(Z) sum over c of D_c) / temperature, the gradient of x weight^T:
  d_x = d weight;  d_weight = d^T x
The teacher, target_x and target_weight, has no gradient. Its width T may differ.
SUM: the sum of all terms. MEAN: SUM / (n V). BATCHMEAN: SUM / n. n = number of rows that count. If
n = 0, the loss is 0. Rows whose label is ignore_index do not count: their loss and their part of d
are 0, and their x and target_x may hold anything, NaN included.
Both logits are f32 and never rounded to dtype. d is rounded once, to dtype on a GPU.
""" + fused_linear.chunks("both logits") + """
Rows of a chunk: chunk_rows if it is not 0, else the most rows for which the whole workspace fits in
max_workspace_bytes. If not even one row fits, execute returns INVALID_ARGUMENT and
ligerdsl_plan_workspace_bytes_for SIZE_MAX. With max_workspace_bytes = 0 both logits of a chunk take
at most 1 GiB together in f32, to which a 16-bit d adds a quarter. A single chunk is used if it
takes no more memory than several with their accumulators.
d_weight is accumulated in f32 and rounded once. If it is f32, the caller's memory is the
accumulator. Otherwise several chunks need an f32 accumulator in the workspace, 4 V H bytes.
""" + fused_linear.EACH_GRADIENT + """
The device reads d_loss. If the upstream gradient becomes known later, the operation scale applies it.
Matmuls are those of fused_linear_cross_entropy. On a CPU 16-bit tensors are copied to f32, both
weights as a whole. If H or T is not a multiple of 8, x, weight and both targets are copied in the
cases in which fused_linear_cross_entropy copies them, but only if both weights fit in half of
max_workspace_bytes.""", [
           *fused_linear.SIZES,
           dim("n_target_cols", "T", "target_x", "width of target_x"),
           dtype("dtype", "x", "of x, weight, target_x and target_weight"), *DIVERGENCE_LABELS,
           dtype("d_weight_dtype",
                 "d_weight",
                 "f32 or dtype; 0 = d_weight is not wanted",
                 optional=True,
                 usual=True), ACCUMULATE,
           option("reduction", "int32_t", "LIGERDSL_REDUCTION_BATCHMEAN",
                  "LIGERDSL_REDUCTION_*, but NONE", 1, 3),
           option("beta", "float", "0.5f", "weight of the teacher in the mixture", 0, 1),
           option("temperature",
                  "float",
                  "0.0f",
                  "divides both logits; 0 = off, like 1",
                  1e-4,
                  1e30,
                  or_zero=True),
           present("d_loss"),
           present("d_x", "1: `d_x` is wanted"),
           absent("loss"),
           in_place("1: d_x may be exactly x"), *fused_linear.chunk_fields(no_rows="see above"),
           LOSS_DTYPE_ALONE, D_LOSS_DTYPE, fused_linear.PRODUCTS
       ], [
           Tensor("x", "in", "N* H", "dtype", "hidden states of the student"),
           Tensor("weight",
                  "in",
                  "V H",
                  "dtype",
                  "weight of the student's lm_head",
                  deviation=fused_linear.WEIGHT_DEVIATION),
           Tensor("target_x", "in", "N* T", "dtype", "hidden states of the teacher"),
           Tensor("target_weight",
                  "in",
                  "V T",
                  "dtype",
                  "weight of the teacher's lm_head",
                  deviation=fused_linear.WEIGHT_DEVIATION),
           indices(
               "labels", "N*", "label_dtype",
               "label of each row, ignore_index for rows that do not count, or NULL if all count",
               "label_dtype"),
           Tensor("d_loss", "in", "G*", "d_loss_dtype",
                  "gradient of the loss, one element, or NULL for 1", "with_d_loss"),
           Tensor("loss", "out", "L*", "loss_dtype", "one element, or NULL", "!without_loss"),
           *fused_linear.GRADIENTS
       ],
       rows="rows of x",
       aliases=[("d_x", "x")],
       cases=[
           "dtype=bf16 d_weight_dtype=bf16 label_dtype=i32 with_d_loss=1",
           "beta=0 temperature=2 d_weight_dtype=f32 accumulate=1 chunk_rows=2",
           "beta=1 without_loss=1 in_place=1 reduction=sum"
       ],
       checks=[
           "N=20 V=50 H=16 T=24 d_weight_dtype=f32",
           "N=20 V=50 H=16 T=24 dtype=bf16 d_weight_dtype=bf16 beta=0 temperature=2 "
           "label_dtype=i32 with_d_loss=1",
           "N=20 V=50 H=16 T=8 beta=1 reduction=sum in_place=1 d_weight_dtype=f32 accumulate=1 "
           "chunk_rows=7"
       ],
       flops=f"{fused_linear.FLOPS} + 2 * N * V * T",
       case_sizes=fused_linear.CASE_SIZES,
       large=[
           Large("row H={2048|64} T=64 V=128 reduction=sum d_weight_dtype=f32", **MATMUL_TOLERANCES)
       ],
       bench=[
           "dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} T={4096|256} "
           "d_weight_dtype={bf16|f32}"
       ]),
]
