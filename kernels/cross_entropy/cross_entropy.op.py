"""Cross-entropy over rows of logits."""

from fields.losses import (CLASS_WEIGHT_DTYPE, CLASS_WEIGHT_TENSOR, CROSS_ENTROPY_TERMS,
                           D_LOSS_DTYPE, ENTROPY_TENSORS, LOSS_DTYPE, LOSS_TENSOR, TEMPERATURE)
from table import (INDEX, Op, Plan, Tensor, absent, dim, dtype, flag, in_place, indices, option,
                   present)

KIND, TITLE = "losses", "cross-entropy"

CROSS_ENTROPY = Op(
    "cross_entropy",
    "cross-entropy over rows of logits, with the gradient in the same pass",
    """z = softcap * tanh(x / softcap), or x, divided by temperature. lse = log sum
exp z, V = classes, a = label_smoothing, w = class weights, y = label:
  without weights: l = (1 - a) (lse - z[y]) + a lse - a/V sum z
  with weights:    l = (1 - a) w[y] (lse - z[y]) + a/V (sum w * lse - sum w z)
  zl = lse_square_scale * lse^2, never weighted, included in the loss
n = number of rows whose label is not ignore_index, W = sum of w[y] over them (n without weights).
  - NONE: loss l + zl, z_loss and accuracy are [rows], 0 at ignored rows.
  - SUM: l + zl, summed.
  - MEAN: l / W + zl / n, summed.
SUM and MEAN give one element each, and accuracy is divided by n. If n = 0, loss, accuracy and
gradients are 0. predictions = argmax z, the lowest index if several are equal, -1 at ignored rows.
entropy = lse - sum over c of p_c z_c with p = e^(z - lse), one per row for every reduction.
Rows with |z| above 5e8 may give results that are not finite; temperature is therefore at
least 1e-4. d_logits is the gradient of the loss (not of z_loss or accuracy) times d_loss, plus that
of the entropies times d_entropy; 0 at ignored rows. d_logits may be exactly logits when in_place is
set. The device reads d_loss: one element, or one per row for NONE.
If a label is outside [0, V) and not ignore_index, the row's loss and gradient are NaN, and
ligerdsl_context_check reports it.""", [
        dim("n_classes", "V", "logits", "classes"),
        dtype("dtype", "logits"),
        dtype("label_dtype", "labels", "", INDEX),
        option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*", 0, 2),
        *CROSS_ENTROPY_TERMS,
        present("class_weight"),
        present("z_loss"),
        present("accuracy"),
        present("predictions"),
        present("lse"),
        present("d_logits"),
        in_place("1: d_logits may be exactly logits"), LOSS_DTYPE, CLASS_WEIGHT_DTYPE,
        absent("loss"), TEMPERATURE,
        present("entropy"),
        present("d_entropy"),
        present("d_loss"), D_LOSS_DTYPE
    ], [
        Tensor("logits", "in", "N* V", "dtype", "unnormalised scores"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        CLASS_WEIGHT_TENSOR,
        LOSS_TENSOR,
        Tensor("z_loss", "out", "Z*", "loss_dtype",
               "term of the loss with lse_square_scale, or NULL", "with_z_loss"),
        Tensor("accuracy", "out", "R*", "f32", "1 where argmax z is the label, reduced, or NULL",
               "with_accuracy"),
        Tensor("predictions", "out", "N*", "i64", "argmax z, or NULL", "with_predictions"),
        Tensor("lse", "out", "N*", "f32", "log sum exp z of each row, or NULL", "with_lse"),
        Tensor("d_logits", "out", "N* V", "dtype", "gradient of logits, or NULL", "with_d_logits"),
        *ENTROPY_TENSORS,
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, or NULL for 1",
               "with_d_loss")
    ],
    rows="rows of logits",
    sharding="losses logits",
    aliases=[("d_logits", "logits")],
    cases=[
        "dtype=bf16 in_place=1",
        "reduction=none with_class_weight=1 with_z_loss=1 with_accuracy=1 with_predictions=1 "
        "with_lse=1 label_smoothing=0.1 lse_square_scale=1e-4",
        "softcap=30 label_dtype=i32 with_d_logits=0", "without_loss=1 reduction=none",
        "dtype=bf16 temperature=0.5 with_entropy=1 with_d_entropy=1 with_d_loss=1"
    ],
    recorded=[
        "reduction=none with_class_weight=1 with_z_loss=1 with_accuracy=1 with_predictions=1 "
        "with_lse=1 label_smoothing=0.1",
        "lse_square_scale=1e-4 softcap=30 V=128256 dtype=bf16 in_place=1 label_dtype=i32",
        "with_d_logits=0 with_accuracy=1"
    ],
    checks=[
        "N=5 V=77 in_place=1",
        "reduction=none with_class_weight=1 with_z_loss=1 with_accuracy=1 with_predictions=1 "
        "with_lse=1 label_smoothing=0.1 N=5 V=77",
        "lse_square_scale=1e-4 softcap=30 V=1000 N=20 dtype=bf16 label_dtype=i32",
        "N=20 V=1000 temperature=0.7 with_entropy=1 with_d_entropy=1 with_d_loss=1 reduction=none"
    ],
    large=[
        "row dtype=bf16 V={4096|64} reduction=none with_lse=1 with_predictions=1",
        "row dtype=bf16 V={4096|64} reduction=sum",
        "narrow dtype=bf16 V=2 reduction=none label_dtype=i32"
    ],
    layers=[
        "dtype={bf16|f32} N={tokens} V={vocab} with_d_logits=0",
        "dtype={bf16|f32} N={tokens} V={vocab} in_place=1"
    ],
    bench=[
        "dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_logits=0",
        "dtype={bf16|f32} N=rows(4096|512) V={128256|32000} in_place=1"
    ])

CROSS_ENTROPY_BACKWARD = Op(
    "cross_entropy_backward", "folds the upstream gradient into d_logits",
    """d_logits *= d_loss. The device reads d_loss: one element (MEAN and SUM), or one per row
(NONE).""",
    [dim("n_classes", "V", "d_logits", "classes"), dtype("dtype", "d_logits"),
     flag("per_row", "1: d_loss has one element per row"), D_LOSS_DTYPE],
    [Tensor("d_loss", "in", "L*", "d_loss_dtype", "gradient of the loss"),
     Tensor("d_logits", "inout", "N* V", "dtype",
            "gradient that cross_entropy wrote; scaled in place")],
    rows="rows of d_logits",
    plan=Plan("cols=n_classes type=dtype factor_type=d_loss_dtype per_row",
              kernel="scale_rows_kernel", header="kernels/elementwise/scale_rows.h",
              tensors="in=d_logits out=d_logits factor=d_loss", reduced="d_loss"),
    cases=["dtype=bf16", "per_row=1"],
    recorded=["per_row=1"],
    checks=["per_row=1 N=5 V=77 dtype=bf16"],
    large=["row dtype=bf16 V={4096|64} per_row=1"],
    not_compared="it only scales the gradient that cross_entropy wrote",
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000}"])

OPS = [CROSS_ENTROPY, CROSS_ENTROPY_BACKWARD]
