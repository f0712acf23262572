"""Cross-entropy over a vocabulary that is split between ranks."""

from fields.losses import D_LOSS_DTYPE, LOSS_DTYPE_ALONE, LOSS_TENSOR
from table import INDEX, Op, Tensor, absent, dim, dtype, flag, in_place, indices, option, present

KIND, TITLE = "losses", "vocabulary-parallel cross-entropy"

SHARD_FIELDS = [
    dim("n_classes", "V", "logits", "classes of the shard"), dtype("dtype", "logits"),
    dtype("label_dtype", "labels", "", INDEX),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
    option("first_class", "int64_t", "0", "the shard's first class", 0, 2**52),
    option("total_classes", "int64_t", "0", "classes of the whole vocabulary, or 0; see above", 0,
           2**52)]
SHARD_LABELS_DOC = """Shard s has V_s = n_classes of the total_classes classes, beginning with
first_class. Labels are classes of the whole vocabulary, equal on all ranks. Each class is in
exactly one shard. Shards may have different sizes."""

OPS = [
    Op("vocab_parallel_cross_entropy_partials",
       "statistics of rows of one shard of the vocabulary, for vocab_parallel_cross_entropy",
       SHARD_LABELS_DOC + """
Writes C numbers for each row, with x = logits of the row and y = its label:
  0: m, the largest x of the shard, exact; -inf if all are -inf
  1: sum of e^(x - m) over the shard's classes except y
  2: x[y] if y is one of these classes, else 0
  3: sum of x - m over the shard's classes (only with_smoothing)
  4: V_s (only with_smoothing)
C is 5 with_smoothing, else 3. Arithmetic is f32. The caller exchanges the numbers between ranks, in
one of two ways:
  - by an all-gather to [P, ..., C], one shard after the other;
  - by all-reduces to numbers of the whole vocabulary:
      M = maximum of number 0 over the ranks, the new number 0
      number 1 *= e^(m - M), number 3 += V_s (m - M); if m = -inf, number 1 = 0 and number 3 stays
      numbers 1 to 4 are summed over the ranks
Rows with ignore_index are not read, and their numbers are 0. If a label is outside
[0, total_classes) and not ignore_index, the row's numbers are NaN, and ligerdsl_context_check
reports it on every rank. total_classes = 0: the number is unknown, and no label >= 0 is reported.""",
       [
           *SHARD_FIELDS,
           flag("with_smoothing", "1: also write the numbers that label_smoothing needs")
       ], [
           Tensor("logits", "in", "N* V", "dtype", "unnormalised scores of the shard"),
           indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
           Tensor("partials", "out", "N* C", "f32", "3 or 5 numbers per row")
       ],
       rows="rows of logits",
       reports="shard_label",
       sizes={"C": "5 if with_smoothing else 3"},
       cases=["dtype=bf16", "with_smoothing=1 label_dtype=i32 total_classes=5000"],
       recorded=["V=16032 dtype=bf16 total_classes=128256"],
       checks=[
           "N=5 V=77 dtype=bf16 first_class=40 total_classes=200",
           "N=5 V=77 with_smoothing=1 label_dtype=i32"
       ],
       large=["row dtype=bf16 V={4096|64}", "narrow dtype=bf16 V=2 label_dtype=i32"],
       bench=["dtype={bf16|f32} N=rows(4096|512) V={16032|4000}"]),
    Op("vocab_parallel_cross_entropy",
       "cross-entropy from the statistics of all shards, with the gradient of one shard's logits",
       SHARD_LABELS_DOC + """
partials holds the numbers that vocab_parallel_cross_entropy_partials wrote on every rank,
[P, ..., C], one shard after the other. It may also hold the numbers of the whole vocabulary,
[..., C] (P = 1), unless shard_smoothing is set. The operation does not communicate.
p = probabilities over the whole vocabulary, y = label:
  loss = (1 - a) (-log p[y]) + a mean of -log p over K classes
K = total_classes. With shard_smoothing K = V_s, the shard's classes, so that each rank has a loss
of its own. a = label_smoothing. With smooth_others a = label_smoothing K / (K - 1), so that
the K - 1 classes other than y share label_smoothing.
n = number of rows whose label is not ignore_index. NONE: loss is [rows], 0 at ignored rows.
SUM: their sum. MEAN: their sum / n. If n = 0, loss and gradient are 0.
d_logits is the gradient of the loss with respect to the shard's logits, times d_loss; 0 at ignored
rows:
  p_c - a / K - (1 - a) [c = y], for MEAN divided by n
d_logits may be exactly logits when in_place is set. The device reads d_loss: one element, or one
per row for NONE. Without d_logits the logits are not read. Without shard_smoothing all ranks get
the same bits of the loss.
If a label is outside [0, total_classes) and not ignore_index, the row's loss and gradient are NaN
on every rank, and ligerdsl_context_check reports it on every rank. total_classes = 0 stands for
first_class + n_classes, which is right for the last or only shard. Partials of several shards
require total_classes.""", [
           *SHARD_FIELDS,
           option("reduction", "int32_t", "LIGERDSL_REDUCTION_NONE", "LIGERDSL_REDUCTION_*", 0, 2),
           option("label_smoothing", "float", "0.0f", "see above", 0, 1),
           flag("shard_smoothing", "1: K is the number of the shard's classes"),
           flag("smooth_others", "1: the classes other than the label share label_smoothing"),
           option("shard", "int64_t", "0",
                  "shard_smoothing: index of this shard in partials, from 0", 0, 2**31 - 1),
           present("d_loss"),
           present("d_logits"),
           absent("loss"),
           in_place("1: d_logits may be exactly logits"), LOSS_DTYPE_ALONE, D_LOSS_DTYPE
       ], [
           Tensor("logits",
                  "in",
                  "N* V",
                  "dtype",
                  "unnormalised scores of the shard",
                  moved="N * V if with_d_logits else 0"),
           indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
           Tensor("partials", "in", "M* C", "f32",
                  "[P, ..., C]: 3 numbers per row, or 5 with label_smoothing", positive=True),
           Tensor("d_loss", "in", "G*", "d_loss_dtype",
                  "gradient of the loss, of its shape, or NULL for 1", "with_d_loss"),
           LOSS_TENSOR,
           Tensor("d_logits", "out", "N* V", "dtype", "gradient of logits, or NULL",
                  "with_d_logits")
       ],
       rows="rows of logits",
       reports="shard_label",
       aliases=[("d_logits", "logits")],
       sizes={"C": "5 if label_smoothing else 3"},
       cases=[
           "dtype=bf16 in_place=1",
           "reduction=mean label_smoothing=0.1 with_d_loss=1 first_class=400 total_classes=5000",
           "label_smoothing=0.1 shard_smoothing=1 smooth_others=1 with_d_logits=0 reduction=sum"
       ],
       recorded=[
           "V=16032 dtype=bf16 M=32768 in_place=1 label_smoothing=0.1",
           "with_d_logits=0 reduction=mean"
       ],
       checks=[
           "N=5 V=77 M=15 total_classes=231 dtype=bf16 in_place=1",
           "N=5 V=77 M=10 total_classes=154 label_smoothing=0.1 smooth_others=1 with_d_loss=1 "
           "reduction=mean first_class=40",
           "N=5 V=77 M=10 total_classes=154 label_smoothing=0.1 shard_smoothing=1 shard=1 "
           "reduction=sum loss_dtype=bf16", "N=5 V=77 with_d_logits=0"
       ],
       large=["row dtype=bf16 V={4096|64}", "narrow dtype=bf16 V=2 label_dtype=i32"],
       bench=[
           "dtype={bf16|f32} N=rows(4096|512) V={16032|4000} M=8*rows(4096|512) "
           "total_classes={128256|32000} in_place=1"
       ]),
]
