"""The heads' products of a student and its teacher with jsd."""

from fields import fused_linear
from fields.large import MATMUL_TOLERANCES
from fields.losses import DIVERGENCE_LABELS, D_LOSS_DTYPE, LOSS_DTYPE_ALONE
from fields.parameters import ACCUMULATE
from table import Large, Op, Tensor, absent, dim, dtype, in_place, indices, option, present

OPS = [
    Op("fused_linear_jsd", "jsd of the softmaxes of x * weight^T and target_x * target_weight^T from a bounded piece of the logits at a time",
       """Z = x weight^T and T = target_x target_weight^T, both divided by temperature; the loss is that of jsd with log-probabilities
log softmax Z as input and log softmax T as target, over classes V, with its beta. With D the gradient of that loss by log softmax Z, times
d_loss, and d = (D - softmax(Z) sum over c of D_c) / temperature, the gradient of x weight^T:
  d_x = d weight;  d_weight = d^T x.  The teacher, target_x and target_weight, has no gradient; its width T may be another.
SUM: of all; MEAN: SUM / (n V); BATCHMEAN: SUM / n, n the rows that count, and 0 where there are none. labels:
rows with ignore_index do not count, their loss and their part of d are 0, and their x and target_x may hold anything, NaN included.
Both logits are f32 and never rounded to dtype; d is rounded once, to dtype on a GPU.
""" + fused_linear.chunks("both logits") + """: chunk_rows
if it is not 0, else as many rows as max_workspace_bytes leaves room for, all the workspace counted, INVALID_ARGUMENT from execute and no
workspace size when not even one row fits; 0 = chunks whose logits, f32, take at most 1 GiB together, to which a 16-bit d adds a quarter, and a single
chunk where that takes no more memory than several with their sums.
d_weight is summed in f32 and rounded once; as f32 it is summed in the caller's memory, otherwise several chunks need f32 sums in the
workspace, 4 V H bytes. """ + fused_linear.EACH_GRADIENT + """ d_loss is read on the device; a later
upstream gradient: scale.
Matrix products: as in fused_linear_cross_entropy; on a CPU 16-bit tensors are copied to f32, both weights whole.""",
       [*fused_linear.SIZES, dim("n_target_cols", "T", "target_x", "width of target_x"), dtype("dtype", "x", "of x, weight, target_x and target_weight"),
        *DIVERGENCE_LABELS, dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True, usual=True),
        ACCUMULATE, option("reduction", "int32_t", "LIGERDSL_REDUCTION_BATCHMEAN", "LIGERDSL_REDUCTION_*, but NONE", 1, 3),
        option("beta", "float", "0.5f", "weight of the teacher in the mixture", 0, 1),
        option("temperature", "float", "0.0f", "divides both logits; 0 = off, as 1", 1e-4, 1e30, or_zero=True),
        present("d_loss"), present("d_x", "1: `d_x` is wanted"), absent("loss"), in_place("1: d_x may be exactly x"),
        *fused_linear.chunk_fields(no_rows="see above"), LOSS_DTYPE_ALONE, D_LOSS_DTYPE,
        fused_linear.PRODUCTS],
       [Tensor("x", "in", "N* H", "dtype", "hidden states of the student"),
        Tensor("weight", "in", "V H", "dtype", "its head"),
        Tensor("target_x", "in", "N* T", "dtype", "hidden states of the teacher"),
        Tensor("target_weight", "in", "V T", "dtype", "its head"),
        indices("labels", "N*", "label_dtype", "which rows count, or NULL for all", "label_dtype"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, one element, or NULL for 1", "with_d_loss"),
        Tensor("loss", "out", "L*", "loss_dtype", "one element, or NULL", "!without_loss"),
        *fused_linear.GRADIENTS],
       rows="rows of x", aliases=[("d_x", "x")],
       cases=[
           "dtype=bf16 d_weight_dtype=bf16 label_dtype=i32 with_d_loss=1",
           "beta=0 temperature=2 d_weight_dtype=f32 accumulate=1 chunk_rows=2",
           "beta=1 without_loss=1 in_place=1 reduction=sum"],
       case_sizes=fused_linear.CASE_SIZES,
       large=[Large("row H={2048|64} T=64 V=128 reduction=sum d_weight_dtype=f32", **MATMUL_TOLERANCES)],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} T={4096|256} d_weight_dtype={bf16|f32}"]),
]
