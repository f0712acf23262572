"""Cross-entropy over a vocabulary that is split between ranks."""

from fields.losses import D_LOSS_DTYPE, LOSS_DTYPE_ALONE
from table import INDEX, Op, Tensor, absent, dim, dtype, flag, in_place, indices, option, present

SHARD_FIELDS = [
    dim("n_classes", "V", "logits", "classes of the shard"), dtype("dtype", "logits"), dtype("label_dtype", "labels", "", INDEX),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
    option("first_class", "int64_t", "0", "the shard's first class", 0, 2**52),
    option("total_classes", "int64_t", "0", "classes of the whole vocabulary, or 0, see below", 0, 2**52)]
SHARD_LABELS_DOC = """Shard s has V_s = n_classes of the total_classes classes, from first_class on; labels are classes of the whole vocabulary, the same on all
ranks. The shards have every class once, and may be of different sizes."""

OPS = [
    Op("vocab_parallel_cross_entropy_partials", "statistics of rows of one shard of the vocabulary, for vocab_parallel_cross_entropy",
       SHARD_LABELS_DOC + """
C numbers of each row, with x of logits and y = label:
  0: m, the largest x of the shard, to the last bits; -inf where all are
  1: sum of e^(x - m) over the shard's classes other than y
  2: x[y] where y is one of them, else 0
  with_smoothing also   3: sum of x - m over the shard's classes   4: V_s
C is 3, or 5 with_smoothing. Arithmetic in f32. What exchanges them between ranks is the caller's: an all-gather to [P, ..., C], shard
after shard, or all-reduces to the same numbers of the whole vocabulary: M = the maximum of 0 by ranks; then 1 *= e^(m - M), with_smoothing 3 += V_s (m - M)
(m = -inf: 1 = 0, 3 as it is), and the sums of 1, 2, 3 and 4 by ranks, beside 0 = M.
Rows with ignore_index are not read: their numbers are 0. A label outside [0, total_classes) that is not ignore_index: the row's numbers are
NaN, and ligerdsl_context_check of every rank reports it. total_classes = 0: the number is not known here, and no label of at least 0
is reported.""",
       [*SHARD_FIELDS, flag("with_smoothing", "1: the numbers that label_smoothing needs are there too")],
       [Tensor("logits", "in", "N* V", "dtype", "unnormalised scores of the shard"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("partials", "out", "N* C", "f32", "3 or 5 numbers of each row")],
       rows="rows of logits", reports="shard_label",
       cases=["dtype=bf16", "with_smoothing=1 label_dtype=i32 total_classes=5000"],
       large=["row dtype=bf16 V={4096|64}", "narrow dtype=bf16 V=2 label_dtype=i32"],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={16032|4000}"]),

    Op("vocab_parallel_cross_entropy", "cross-entropy from the statistics of all shards, with the gradient of one shard's logits",
       SHARD_LABELS_DOC + """
partials: what vocab_parallel_cross_entropy_partials wrote on every rank, [P, ..., C] with the shards one after the other, or the numbers of the
whole vocabulary, [..., C] (P = 1; not with shard_smoothing). The operation does not communicate.
With p the probabilities over the whole vocabulary and y = label:
  loss = (1 - a) (-log p[y]) + a mean of -log p over K classes
K = total_classes; with shard_smoothing the shard's V_s classes, so that ranks have losses of their own. a = label_smoothing; with
smooth_others a = label_smoothing K / (K - 1), the form in which the K - 1 classes other than y share label_smoothing.
n = rows whose label is not ignore_index. NONE: loss is [rows], 0 at ignored rows; SUM: the sum; MEAN: the sum / n. Nothing valid: loss and
gradient are 0. d_logits: the gradient of the loss by the shard's logits, times d_loss; 0 at ignored rows:
  p_c - a / K - (1 - a) [c = y], MEAN: / n
It may be exactly logits when in_place is set. d_loss is read on the device: one element, or one per row for NONE.
Without d_logits the logits are not read. Without shard_smoothing all ranks have a loss of the same bits.
A label outside [0, total_classes) that is not ignore_index: that row's loss and gradient are NaN on every rank, and ligerdsl_context_check of
every rank reports it. total_classes = 0: first_class + n_classes, for the last or only shard; several shards' partials need the number.""",
       [*SHARD_FIELDS,
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_NONE", "LIGERDSL_REDUCTION_*", 0, 2),
        option("label_smoothing", "float", "0.0f", "see above", 0, 1),
        flag("shard_smoothing", "1: K is of the shard alone"), flag("smooth_others", "1: label_smoothing is of the other classes"),
        option("shard", "int64_t", "0", "shard_smoothing: which of partials' shards is this one, from 0", 0, 2**31 - 1),
        present("d_loss"), present("d_logits"), absent("loss"), in_place("1: d_logits may be exactly logits"), LOSS_DTYPE_ALONE, D_LOSS_DTYPE],
       [Tensor("logits", "in", "N* V", "dtype", "unnormalised scores of the shard"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("partials", "in", "M* C", "f32", "[P, ..., C]: 3 numbers of each row, or 5 with label_smoothing"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, of its shape, or NULL for 1", "with_d_loss"),
        Tensor("loss", "out", "L*", "loss_dtype", "[rows] for NONE, else one element; or NULL", "!without_loss"),
        Tensor("d_logits", "out", "N* V", "dtype", "gradient of logits, or NULL", "with_d_logits")],
       rows="rows of logits", reports="shard_label", aliases=[("d_logits", "logits")],
       cases=[
           "dtype=bf16 in_place=1",
           "reduction=mean label_smoothing=0.1 with_d_loss=1 first_class=400 total_classes=5000",
           "label_smoothing=0.1 shard_smoothing=1 smooth_others=1 with_d_logits=0 reduction=sum"],
       large=["row dtype=bf16 V={4096|64}", "narrow dtype=bf16 V=2 label_dtype=i32"],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={16032|4000} M=8*rows(4096|512) total_classes={128256|32000} in_place=1"]),
]
