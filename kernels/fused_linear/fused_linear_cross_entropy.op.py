"""The head's product with cross-entropy."""

from fields import fused_linear
from fields.large import MATMUL_TOLERANCES
from fields.losses import CLASS_WEIGHT_DTYPE, CROSS_ENTROPY_TERMS, D_LOSS_DTYPE, ENTROPY_TENSORS, LOSS_DTYPE, TEMPERATURE
from table import INDEX, Large, Op, Tensor, absent, dtype, flag, in_place, indices, option, present

FIRST_FIELDS = [
    *fused_linear.SIZES, dtype("dtype", "x", "of x and of the products"),
    dtype("label_dtype", "labels", "", INDEX), dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
    dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True, usual=True),
    dtype("d_bias_dtype", "d_bias", "f32 or bias_dtype; 0 = d_bias is not wanted", optional=True),
    flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32"),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count")]
CHUNKING = option("chunking", "int32_t", "LIGERDSL_CHUNKING_WORKSPACE", "LIGERDSL_CHUNKING_*", 0, 1)
WEIGHT_DTYPE = dtype("weight_dtype", "weight", "f32 or dtype", optional=True, zero="dtype", usual=True)
FIRST_TENSORS = [
    Tensor("x", "in", "N* H", "dtype", "hidden states"),
    Tensor("weight", "in", "V H", "weight_dtype", "the head"),
    Tensor("bias", "in", "V", "bias_dtype", "added to the logits, or NULL", "bias_dtype"),
    indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
    Tensor("class_weight", "in", "V", "class_weight_dtype", "weight of each class, or NULL", "with_class_weight")]
GRADIENTS = [
    *fused_linear.GRADIENTS,
    Tensor("d_bias", "inout", "V", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")]

OPS = [
    Op("fused_linear_cross_entropy", "cross-entropy of x * weight^T + bias from a bounded piece of the logits at a time, gradients included",
       """logits = x weight^T + bias, then loss, z_loss, accuracy, predictions and entropy as cross_entropy defines them, with n, W and
sum w taken over all rows. With d = d_logits of cross_entropy, d_loss and d_entropy as there:
  d_x = d weight;  d_weight = d^T x;  d_bias = sum of the rows of d
x of ignored rows may hold anything, NaN included: the results are those of zeros there.
""" + fused_linear.chunks("logits") + """; a
batch that fits one chunk has all its logits in the workspace.
d_weight and d_bias are summed in f32 and rounded once; as f32 they are summed in the caller's memory, otherwise several chunks
need f32 sums in the workspace. """ + fused_linear.EACH_GRADIENT + """
use_token_scaling: loss, z_loss and their part of d are multiplied by the probability of the row's label, taken as a constant.
d_loss is read on the device: one element, or one per row for NONE. A later upstream gradient of one element:
cross_entropy_backward scales d_x and d_weight; one per row: fused_linear_cross_entropy_backward makes them from lse.
Chunks: chunk_rows if it is not 0, else as chunking says. WORKSPACE: as many rows as max_workspace_bytes leaves room for, all the
workspace counted, INVALID_ARGUMENT from execute and no workspace size when not even one row fits; 0 = chunks of at most 1 GiB of logits, and a single
chunk where that takes no more memory than several with their sums. So the default workspace stays below 1 GiB, + 4 V H bytes for
a 16-bit d_weight, + 32 MiB on a GPU for products, + 20 bytes a row (CPU, 16-bit dtype: + f32 copies of weight and of a chunk of x
and d_x). Chunks so small that adding to d_weight for each would take longer make d_weight from logits that are multiplied a
second time, in blocks of the vocabulary (not when d_x overwrites x). Under max_workspace_bytes products by the library's own kernels
that store no logits use d_weight's memory for exponentials until d_weight is made there, where it is contiguous, not accumulated to,
d_bias is not wanted, weight_dtype is that of the products and d_x does not overwrite x: up to H rows (2 H with 16-bit x and an f32 d_weight)
nothing is multiplied twice then, nor of more rows where d_weight is f32 and large chunks of the others fit; else logits of all but
the last chunk are, and a 16-bit d_weight is rounded after each of a few parts of the rows. PUBLISHED: 2^ceil(log2(ceil(rows / ceil(V / H)))).
An f32 weight with 16-bit x: on a GPU it is rounded to dtype in the workspace, 2 V H bytes more, once a call; where max_workspace_bytes
leaves no room for that beside large chunks, in blocks, for each product of a chunk anew, whose parts of d_x are added in f32. A CPU takes
it as it is.
Matrix products, in dtype on a GPU and in f32 on a CPU, by products: AUTO takes cuBLASLt or CBLAS where it is found, and the library's own
kernels where it is not, unless an environment variable names one; and whatever is found or named, these on a GPU with wgmma (sm_90a): in
16 bits where V is no multiple of 8 and H is one, for which cuBLASLt is several times slower, and in bf16 for losses alone and where they may use d_weight's memory, if neither lse is written nor read; LIBRARY is NOT_SUPPORTED from plan then; KERNELS needs no other library,
no workspace for products, and its plan compiles them. They store no logits where dtype is bf16 or f32 (on a CPU any),
but exponentials relative to the label's logit, and without gradients not those either: then 8 to 20 bytes a row and tile of classes. There
stretches of ignored rows are not multiplied (tiles of 128 rows, or 64 in f32 on a GPU, that have no others), but where they are a second time or from an lse. In
calls that make gradients d_entropy, or label_smoothing beside softcap, has them stored. Stored logits are rounded to dtype on a GPU.
cuBLASLt chooses its kernels when ligerdsl_plan_workspace_bytes_for is asked for a number of rows, else in the first call with it, which
then takes host memory. A CBLAS library may take memory of its own: OpenBLAS 0.3.21 has its buffers from the first product on, takes
512 KiB for the time of a product of more than 262,144 multiply-adds that it spreads over threads, and, on processors with AVX-512, at
most 64 bytes a class for that of a smaller one.
A label outside [0, V) that is not ignore_index: loss and gradients are NaN and ligerdsl_context_check reports it.""",
       [*FIRST_FIELDS,
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*", 0, 2),
        *CROSS_ENTROPY_TERMS,
        flag("use_token_scaling", "1: weigh every row by the probability of its label"),
        present("class_weight"), present("z_loss"), present("accuracy"), present("predictions"), present("d_loss"),
        present("d_x", "1: `d_x` is wanted"), in_place("1: d_x may be exactly x"),
        CHUNKING,
        *fused_linear.chunk_fields(), LOSS_DTYPE, CLASS_WEIGHT_DTYPE, D_LOSS_DTYPE,
        absent("loss"), TEMPERATURE, present("entropy"), present("d_entropy"),
        WEIGHT_DTYPE, present("lse"), fused_linear.PRODUCTS],
       [*FIRST_TENSORS,
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, or NULL for 1", "with_d_loss"),
        Tensor("loss", "out", "L*", "loss_dtype", "[rows] for NONE, else one element; or NULL", "!without_loss"),
        Tensor("z_loss", "out", "Z*", "loss_dtype", "the part of the loss that lse_square_scale adds, or NULL", "with_z_loss"),
        Tensor("accuracy", "out", "R*", "f32", "1 where argmax z is the label, reduced, or NULL", "with_accuracy"),
        Tensor("predictions", "out", "N*", "i64", "argmax z, or NULL", "with_predictions"),
        *GRADIENTS,
        *ENTROPY_TENSORS,
        Tensor("lse", "out", "N*", "f32", "log sum exp z of each row, 0 at ignored rows, or NULL", "with_lse")],
       rows="rows of x", aliases=[("d_x", "x")],
       cases=[
           "dtype=bf16 d_weight_dtype=bf16",
           "without_loss=1 with_accuracy=1 with_d_loss=1",
           "dtype=bf16 d_weight_dtype=bf16 products=kernels",
           "d_weight_dtype=f32 chunk_rows=2",
           "d_weight_dtype=f32 temperature=2 with_entropy=1 with_d_entropy=1",
           "dtype=bf16 d_weight_dtype=f32 with_lse=1 reduction=none",
           "dtype=bf16 weight_dtype=f32 d_weight_dtype=f32"],
       case_sizes=fused_linear.CASE_SIZES,
       large=[Large("row H={2048|64} V=128 reduction=sum d_weight_dtype=f32", **MATMUL_TOLERANCES)],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} d_weight_dtype={bf16|f32}"]),

    Op("fused_linear_cross_entropy_backward", "gradients of fused_linear_cross_entropy from its lse, once d_loss is known",
       """d of fused_linear_cross_entropy is made from logits that are multiplied again and from lse, which it wrote, without another pass
over them for statistics; with z, V, a, w, n and W as cross_entropy defines them, p = e^(z - lse), y = label:
  without weights: d = d_loss (p - (1 - a) [c = y] - a/V + 2 lse_square_scale lse p)
  with weights:    d = d_loss ((1 - a) w[y] (p - [c = y]) + a/V (sum w p - w[c]) + 2 lse_square_scale lse p)
MEAN: the last term / n, the others / W. d -= d_entropy p (z - lse + entropy); d *= 1 - (softcapped z / softcap)^2; d /= temperature. 0 at ignored
rows. use_token_scaling: what d_loss multiplies also times p[y].
  d_x = d weight;  d_weight = d^T x;  d_bias = sum of the rows of d
Tensors and options are the forward's, and so is what it says of chunks, workspace, sums, an f32 weight, matrix products and labels. At least one
gradient is wanted; those that are not are not made, and where it is d_weight alone, chunks too small to add to it go by blocks of the vocabulary
without multiplying a second time. Give products as the forward had them: by the own kernels lse is that of logits that were not rounded.
d_loss is read on the device: one element, or one per row for NONE. lse is one number of f32, so p is off
by up to |lse| 2^-23 of it: in rows whose label has nearly all the probability, 1 - p[y] keeps fewer digits than in the forward.
d_x may be exactly x when in_place is set.""",
       [*FIRST_FIELDS,
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*: the forward's", 0, 2),
        *CROSS_ENTROPY_TERMS,
        flag("use_token_scaling", "1: the forward weighed every row by the probability of its label"),
        present("class_weight"), present("d_x", "1: `d_x` is wanted"), in_place("1: d_x may be exactly x"),
        CHUNKING,
        *fused_linear.chunk_fields(no_limit="as the forward"), CLASS_WEIGHT_DTYPE, D_LOSS_DTYPE,
        TEMPERATURE, present("d_entropy", "1: `entropy` and `d_entropy` are passed"),
        WEIGHT_DTYPE, fused_linear.PRODUCTS],
       [*FIRST_TENSORS,
        Tensor("lse", "in", "N*", "f32", "the forward's lse"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss: one element, or one per row for NONE"),
        *GRADIENTS,
        Tensor("entropy", "in", "N*", "f32", "the forward's entropy, or NULL", "with_d_entropy"),
        Tensor("d_entropy", "in", "N*", "f32", "gradient of entropy, or NULL for 0", "with_d_entropy")],
       rows="rows of x", aliases=[("d_x", "x")],
       cases=[
           "dtype=f16 d_weight_dtype=f32 products=kernels chunk_rows=2",
           "dtype=bf16 d_weight_dtype=bf16 reduction=none",
           "d_weight_dtype=f32 bias_dtype=f32 d_bias_dtype=f32 chunk_rows=2 softcap=5",
           "with_d_x=0 d_weight_dtype=f32 accumulate=1 label_smoothing=0.1 with_class_weight=1",
           "in_place=1 d_weight_dtype=none use_token_scaling=1 lse_square_scale=0.01",
           "dtype=bf16 weight_dtype=f32 d_weight_dtype=f32 temperature=2 with_d_entropy=1"],
       case_sizes=fused_linear.CASE_SIZES,
       large=[
           Large("row H={2048|64} V=128 reduction=sum d_weight_dtype=f32", **MATMUL_TOLERANCES,
                    weight_scale="{1.0 / 64|1}")],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} d_weight_dtype={bf16|f32}"]),
]
