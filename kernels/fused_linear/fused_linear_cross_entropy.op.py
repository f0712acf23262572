"""The lm_head's matmul with cross-entropy."""

from fields import fused_linear
from fields.large import MATMUL_TOLERANCES
from fields.losses import (CLASS_WEIGHT_DTYPE, CLASS_WEIGHT_TENSOR, CROSS_ENTROPY_TERMS,
                           D_LOSS_DTYPE, ENTROPY_TENSORS, LOSS_DTYPE, LOSS_TENSOR, TEMPERATURE)
from table import INDEX, Large, Op, Tensor, absent, dtype, flag, in_place, indices, option, present

KIND, TITLE = "losses", "fused linear cross-entropy"

FIRST_FIELDS = [
    *fused_linear.SIZES, dtype("dtype", "x", "of x and of the matmuls"),
    dtype("label_dtype", "labels", "", INDEX),
    dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
    dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True,
          usual=True),
    dtype("d_bias_dtype", "d_bias", "f32 or bias_dtype; 0 = d_bias is not wanted", optional=True),
    flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32"),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count")]
CHUNKING = option("chunking", "int32_t", "LIGERDSL_CHUNKING_WORKSPACE", "LIGERDSL_CHUNKING_*", 0, 1)
WEIGHT_DTYPE = dtype("weight_dtype", "weight", "f32 or dtype", optional=True, zero="dtype",
                     usual=True)
FIRST_TENSORS = [
    Tensor("x", "in", "N* H", "dtype", "hidden states"),
    Tensor("weight",
           "in",
           "V H",
           "weight_dtype",
           "weight of the lm_head",
           deviation=fused_linear.WEIGHT_DEVIATION),
    Tensor("bias", "in", "V", "bias_dtype", "added to the logits, or NULL", "bias_dtype"),
    indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
    CLASS_WEIGHT_TENSOR]
GRADIENTS = [
    *fused_linear.GRADIENTS,
    Tensor("d_bias", "inout", "V", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")]

OPS = [
    Op("fused_linear_cross_entropy",
       "cross-entropy of x * weight^T + bias with gradients, one chunk of the logits at a time",
       """logits = x weight^T + bias. loss, z_loss, accuracy, predictions and entropy are those of
cross_entropy for these logits, with n, W and sum w over all rows. d = d_logits of cross_entropy,
scaled by d_loss and d_entropy as there:
  d_x = d weight;  d_weight = d^T x;  d_bias = sum of the rows of d
x of ignored rows may hold anything, NaN included; it is treated as zeros.
""" + fused_linear.chunks("the logits") + """
If all rows fit in one chunk, the workspace holds all logits.
d_weight and d_bias are accumulated in f32 and rounded once. If they are f32, the caller's memory is
the accumulator. Otherwise several chunks need an f32 accumulator in the workspace.
""" + fused_linear.EACH_GRADIENT + """
use_token_scaling: loss, z_loss and their part of d are multiplied by the probability of the row's
label, taken as a constant.
The device reads d_loss: one element, or one per row for NONE. If the upstream gradient becomes
known later, cross_entropy_backward scales d_x and d_weight by one element. For one element per row,
fused_linear_cross_entropy_backward computes the gradients from lse.

Size of chunks: chunk_rows if it is not 0, else by chunking:
  - WORKSPACE: the most rows for which the whole workspace fits in max_workspace_bytes. If not even
    one row fits, execute returns INVALID_ARGUMENT and ligerdsl_plan_workspace_bytes_for SIZE_MAX.
    With max_workspace_bytes = 0 a chunk has at most 1 GiB of logits. A single chunk is used if it
    takes no more memory than several with their accumulators.
  - PUBLISHED: 2^ceil(log2(ceil(rows / ceil(V / H)))) rows.
The default workspace is thus below 1 GiB plus:
  - 4 V H bytes for a 16-bit d_weight
  - 32 MiB on a GPU for the matmul library
  - 20 bytes per row
  - on a CPU with a 16-bit dtype, f32 copies of weight and of a chunk of x and d_x
  - copies of weight and of a chunk of x, if the library's kernels run and H is not a multiple of 8

If chunks are so small that adding each of them to d_weight would take longer, logits are computed a
second time, in blocks of the vocabulary, and each block of d_weight is written once. This is not
possible if d_x overwrites x.

Under max_workspace_bytes the library's own kernels that store no logits keep exponentials in
d_weight's memory until d_weight is computed there. This requires that
  - d_weight is contiguous and not accumulated to;
  - d_bias is not wanted;
  - weight_dtype is dtype, and weight is not copied (see below);
  - d_x does not overwrite x.
Then logits of up to H rows (2 H with 16-bit x and f32 d_weight) are computed once. The same holds
for more rows if d_weight is f32 and large chunks of the other rows fit. Otherwise the logits of all
but the last chunk are computed twice, and a 16-bit d_weight is rounded after each of a few parts of
the rows.

An f32 weight with 16-bit x: a GPU rounds it to dtype in the workspace, once per call, which takes
2 V H bytes. If max_workspace_bytes leaves no room for that next to large chunks, each matmul of a
chunk rounds it again, in blocks, and parts of d_x are added in f32. A CPU uses the f32 weight
itself. With 16 bits on a GPU with wgmma and H not a multiple of 8, the library's kernels copy
weight and x in the same way. Rows of the copies begin at multiples of 128 bytes.

Matmuls are in dtype on a GPU and in f32 on a CPU. `products` selects their implementation:
  - AUTO: cuBLASLt or CBLAS if it is found, else the library's own kernels. If an environment
    variable names a library, that one must be found. On a GPU with wgmma (sm_90a) AUTO always uses
    the library's kernels in these cases:
      16 bits, V or H is not a multiple of 8: cuBLASLt is several times slower there
      bf16, lse is neither written nor read, no gradient is wanted
      bf16, lse is neither written nor read, exponentials may use d_weight's memory
  - LIBRARY: cuBLASLt or CBLAS. If it is not found, plan returns NOT_SUPPORTED.
  - KERNELS: the library's kernels. They need no other library and no workspace for matmuls. plan
    compiles them.
The library's kernels store no logits if dtype is bf16 or f32 (on a CPU, any dtype). They store
exponentials relative to the label's logit. Without gradients they store only 8 to 20 bytes per row
and tile of classes. They skip tiles whose rows are all ignored (128 rows, or 64 in f32 on a GPU),
except where logits are computed a second time or from an lse. Calls that compute gradients with
d_entropy, or with both label_smoothing and softcap, store logits. Stored logits are rounded to
dtype on a GPU.

cuBLASLt chooses its kernels when ligerdsl_plan_workspace_bytes_for is called with a number of rows,
else in the first execute with this number, which then allocates host memory. A CBLAS library may
allocate memory of its own. OpenBLAS 0.3.21 keeps its buffers from the first matmul on. A matmul of
more than 262,144 multiply-adds that it distributes over threads takes 512 KiB while it runs. On
processors with AVX-512 a smaller one takes at most 64 bytes per class.
If a label is outside [0, V) and not ignore_index, loss and gradients are NaN, and
ligerdsl_context_check reports it.""", [
           *FIRST_FIELDS,
           option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*", 0,
                  2), *CROSS_ENTROPY_TERMS,
           flag("use_token_scaling", "1: weight each row by the probability of its label"),
           present("class_weight"),
           present("z_loss"),
           present("accuracy"),
           present("predictions"),
           present("d_loss"),
           present("d_x", "1: `d_x` is wanted"),
           in_place("1: d_x may be exactly x"), CHUNKING, *fused_linear.chunk_fields(), LOSS_DTYPE,
           CLASS_WEIGHT_DTYPE, D_LOSS_DTYPE,
           absent("loss"), TEMPERATURE,
           present("entropy"),
           present("d_entropy"), WEIGHT_DTYPE,
           present("lse"), fused_linear.PRODUCTS
       ], [
           *FIRST_TENSORS,
           Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, or NULL for 1",
                  "with_d_loss"),
           LOSS_TENSOR,
           Tensor("z_loss", "out", "Z*", "loss_dtype",
                  "term of the loss with lse_square_scale, or NULL", "with_z_loss"),
           Tensor("accuracy", "out", "R*", "f32", "1 where argmax z is the label, reduced, or NULL",
                  "with_accuracy"),
           Tensor("predictions", "out", "N*", "i64", "argmax z, or NULL", "with_predictions"),
           *GRADIENTS, *ENTROPY_TENSORS,
           Tensor("lse", "out", "N*", "f32",
                  "log sum exp z of each row, 0 at ignored rows, or NULL", "with_lse")
       ],
       rows="rows of x",
       sharding="losses x",
       aliases=[("d_x", "x")],
       cases=[
           "dtype=bf16 d_weight_dtype=bf16", "without_loss=1 with_accuracy=1 with_d_loss=1",
           "dtype=bf16 d_weight_dtype=bf16 products=kernels", "d_weight_dtype=f32 chunk_rows=2",
           "d_weight_dtype=f32 temperature=2 with_entropy=1 with_d_entropy=1",
           "dtype=bf16 d_weight_dtype=f32 with_lse=1 reduction=none",
           "dtype=bf16 weight_dtype=f32 d_weight_dtype=f32"
       ],
       checks=[
           "N=20 V=50 H=16 d_weight_dtype=f32 bias_dtype=f32 d_bias_dtype=f32 softcap=5",
           "N=20 V=50 H=16 d_weight_dtype=f32 use_token_scaling=1 with_class_weight=1 "
           "lse_square_scale=1e-3 with_z_loss=1",
           "N=20 V=50 H=16 dtype=bf16 d_weight_dtype=bf16 reduction=none with_d_loss=1 "
           "with_accuracy=1 with_predictions=1",
           "N=20 V=50 H=16 d_weight_dtype=f32 temperature=2 softcap=5 with_entropy=1 "
           "with_d_entropy=1 use_token_scaling=1",
           "N=20 V=50 H=16 dtype=bf16 weight_dtype=f32 d_weight_dtype=f32",
           "N=20 V=51 H=16 dtype=bf16 d_weight_dtype=bf16 products=kernels"
       ],
       flops=fused_linear.FLOPS,
       case_sizes=fused_linear.CASE_SIZES,
       large=[Large("row H={2048|64} V=128 reduction=sum d_weight_dtype=f32", **MATMUL_TOLERANCES)],
       bench=[
           "dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} "
           "d_weight_dtype={bf16|f32}"
       ]),
    Op("fused_linear_cross_entropy_backward",
       "gradients of fused_linear_cross_entropy from its lse, once d_loss is known",
       """Computes d of fused_linear_cross_entropy from lse, which that operation wrote, and from
logits that are computed again. It needs no other pass over them for statistics.
With z, V, a, w, n and W as cross_entropy defines them, p = e^(z - lse), y = label:
  without weights: d = d_loss (p - (1 - a) [c = y] - a/V + 2 lse_square_scale lse p)
  with weights:    d = d_loss ((1 - a) w[y] (p - [c = y]) + a/V (sum w p - w[c])
                               + 2 lse_square_scale lse p)
For MEAN the last term is divided by n and the others by W. With use_token_scaling all terms are
also multiplied by p[y]. Then d -= d_entropy p (z - lse + entropy);
d *= 1 - (softcapped z / softcap)^2; d /= temperature. d is 0 at ignored rows.
  d_x = d weight;  d_weight = d^T x;  d_bias = sum of the rows of d
Tensors and options are the forward's, and its rules hold for chunks, workspace, accumulation, an
f32 weight, matmuls and labels. At least one gradient must be wanted; the others are not computed.
If only d_weight is wanted, chunks too small to add to it are replaced by blocks of the vocabulary,
and nothing is computed twice. `products` must be that of the forward, because the library's kernels
write the lse of logits that are not rounded.
The device reads d_loss: one element, or one per row for NONE. lse is one f32 number, so p has a
relative error of up to |lse| 2^-23. In rows whose label has nearly all the probability, 1 - p[y]
keeps fewer digits than in the forward. d_x may be exactly x when in_place is set.""", [
           *FIRST_FIELDS,
           option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN",
                  "LIGERDSL_REDUCTION_*: the forward's", 0, 2), *CROSS_ENTROPY_TERMS,
           flag("use_token_scaling",
                "1: the forward weighted each row by the probability of its label"),
           present("class_weight"),
           present("d_x", "1: `d_x` is wanted"),
           in_place("1: d_x may be exactly x"), CHUNKING,
           *fused_linear.chunk_fields(no_limit="the forward's default"), CLASS_WEIGHT_DTYPE,
           D_LOSS_DTYPE, TEMPERATURE,
           present("d_entropy",
                   "1: `entropy` and `d_entropy` are passed"), WEIGHT_DTYPE, fused_linear.PRODUCTS
       ], [
           *FIRST_TENSORS,
           Tensor(
               "lse", "in", "N*", "f32", "the forward's lse", mean="log(V) + 0.5", deviation="0.1"),
           Tensor("d_loss", "in", "G*", "d_loss_dtype",
                  "gradient of the loss: one element, or one per row for NONE"), *GRADIENTS,
           Tensor("entropy", "in", "N*", "f32", "the forward's entropy, or NULL", "with_d_entropy"),
           Tensor("d_entropy", "in", "N*", "f32", "gradient of entropy, or NULL for 0",
                  "with_d_entropy")
       ],
       rows="rows of x",
       sharding="losses x",
       aliases=[("d_x", "x")],
       cases=[
           "dtype=f16 d_weight_dtype=f32 products=kernels chunk_rows=2",
           "dtype=bf16 d_weight_dtype=bf16 reduction=none",
           "d_weight_dtype=f32 bias_dtype=f32 d_bias_dtype=f32 chunk_rows=2 softcap=5",
           "with_d_x=0 d_weight_dtype=f32 accumulate=1 label_smoothing=0.1 with_class_weight=1",
           "in_place=1 d_weight_dtype=none use_token_scaling=1 lse_square_scale=0.01",
           "dtype=bf16 weight_dtype=f32 d_weight_dtype=f32 temperature=2 with_d_entropy=1"
       ],
       checks=[
           "N=20 V=50 H=16 dtype=bf16 d_weight_dtype=bf16 reduction=none",
           "N=20 V=50 H=16 d_weight_dtype=f32 bias_dtype=f32 d_bias_dtype=f32 softcap=5 "
           "label_smoothing=0.1 chunk_rows=7",
           "N=20 V=50 H=16 d_weight_dtype=f32 with_d_x=0 accumulate=1 use_token_scaling=1 "
           "with_class_weight=1",
           "N=20 V=50 H=16 d_weight_dtype=f32 temperature=2 with_d_entropy=1 lse_square_scale=1e-3 "
           "in_place=1"
       ],
       flops=fused_linear.FLOPS,
       case_sizes=fused_linear.CASE_SIZES,
       large=[
           Large("row H={2048|64} V=128 reduction=sum d_weight_dtype=f32",
                 **MATMUL_TOLERANCES,
                 weight_scale="{1.0 / 64|1}")
       ],
       bench=[
           "dtype={bf16|f32} N=rows(4096|512) V={128256|32000} H={4096|256} "
           "d_weight_dtype={bf16|f32}"
       ]),
]
