"""Counts of targets, the divisors of a mean over them."""

from fields.losses import CLASS_WEIGHT_DTYPE, CLASS_WEIGHT_TENSOR
from table import INDEX, Large, Op, Plan, Tensor, dim, dtype, indices, option, present

KIND, TITLE = "losses", "counts of targets"

TARGET_COUNTS = Op(
    "target_counts", "divisors of a mean over targets, counted on the device",
    """n = number of labels that are not ignore_index. S = sum of class_weight[label] over them
(n without weights); labels outside [0, V) add nothing to S. W = sum of class_weight
(0 without weights). counts = 1/n, 1/S, W, n. If n is 0, 1/n and 1/S are 0. Accumulates in f32 in a
fixed order.""",
    [dtype("label_dtype", "labels", "", INDEX),
     dim("n_classes", "V", "class_weight", "classes, 0 without class_weight", optional=True),
     option("ignore_index", "int64_t", "-100", "labels that do not count"), present("class_weight"),
     CLASS_WEIGHT_DTYPE],
    [indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
     CLASS_WEIGHT_TENSOR,
     Tensor("counts", "out", "4", "f32", "1/n, 1/S, W, n")],
    rows="labels",
    plan=Plan("label_type=label_dtype has_weight=with_class_weight classes=n_classes "
              "weight_type=class_weight_dtype",
              integers="ignore_index", tensors="weight=class_weight"),
    cases=["", "with_class_weight=1 label_dtype=i32"],
    recorded=["with_class_weight=0 label_dtype=i32"],
    checks=["N=30 V=10"],
    case_sizes={"N": "500 * rows + 3"},
    large=[Large("flat label_dtype=i32 with_class_weight=1 V=1000", combine={"counts": "counts"})],
    not_compared="it is one pass over the labels",
    bench=["N={67108864|16777216}"])

OPS = [TARGET_COUNTS]
