"""Divergences between rows of two distributions."""

from fields.losses import DIVERGENCE_LABELS, D_LOSS_DTYPE, LOSS_DTYPE_ALONE
from table import Op, Plan, Tensor, absent, dim, dtype, flag, in_place, indices, option, present

KIND, TITLE = "losses", "KL, JSD, TVD"

DIVERGENCE_DOC = """
NONE: one loss per element, V per row. SUM: their sum. MEAN: SUM / (n V). BATCHMEAN: SUM / n.
n = number of rows that count. If n = 0, the loss is 0.
d_input is the gradient of the loss with respect to input, times d_loss if that is passed; target is
a constant. The same pass computes it. If one upstream gradient becomes known later, the operation
scale applies it. Arithmetic is f32. input and target may have different dtypes. d_input may be
exactly input when in_place is set. loss and d_loss of NONE are contiguous."""
DIVERGENCE_LABELS_DOC = """
Rows whose label is ignore_index do not count. Their loss and gradient are 0, and their values are
not used. Other labels have no meaning here."""
DIVERGENCE_FIELDS = [
    dim("n_cols", "V", "input", "row width"), dtype("dtype", "input", "also of d_input"),
    dtype("target_dtype", "target"),
    option("reduction", "int32_t", "LIGERDSL_REDUCTION_BATCHMEAN", "LIGERDSL_REDUCTION_*", 0, 3)]
DIVERGENCE_OUTPUTS = [present("d_loss"), present("d_input"), absent("loss"),
                      in_place("1: d_input may be exactly input"), LOSS_DTYPE_ALONE, D_LOSS_DTYPE]

DIVERGENCE_OPTIONS = (
    "cols=n_cols type=dtype target_type=target_dtype reduction with_loss=!without_loss "
    "loss_type=loss_dtype with_gradient=with_d_input with_d_loss d_loss_type=d_loss_dtype")
DIVERGENCE_LABEL_OPTIONS = " has_labels=label_dtype label_type=label_dtype"


def divergence_tensors(input_doc, target_doc, labels):
    label = [indices(
        "labels", "N*", "label_dtype",
        "label of each row, ignore_index for rows that do not count, or NULL if all count",
        "label_dtype")] if labels else []
    return [Tensor("input", "in", "N* V", "dtype", input_doc),
            Tensor("target", "in", "N* V", "target_dtype", target_doc),
            *label,
            Tensor("d_loss", "in", "G*", "d_loss_dtype",
                   "gradient of the loss, of its shape, or NULL for 1", "with_d_loss"),
            Tensor("loss", "out", "L*", "loss_dtype",
                   "[..., V] as input for NONE, else one element; or NULL", "!without_loss"),
            Tensor("d_input", "out", "N* V", "dtype", "gradient of input, or NULL", "with_d_input")]


KL_DIV = Op(
    "kl_div", "Kullback-Leibler divergence of rows, gradient included",
    """The loss of an element, with x = input, the logarithm of the predicted probability,
and p = target:
  p * (log(max(p, eps)) - x)
with log_target and t = target:
  e^t * (t - x)
It is 0 where p or e^t is 0.""" + DIVERGENCE_DOC,
    [*DIVERGENCE_FIELDS, flag("log_target", "1: target holds logarithms"),
     option("eps", "float", "1e-10f",
            "smallest probability whose logarithm is taken; not with log_target", 0),
     *DIVERGENCE_OUTPUTS],
    divergence_tensors("log-probabilities that are trained",
                       "probabilities, or their logarithms with log_target", False),
    rows="rows of input",
    sharding="losses input",
    aliases=[("d_input", "input")],
    unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS, kernel="divergence_kernel", numbers="eps", hook=True),
    cases=[
        "dtype=bf16", "target_dtype=bf16 log_target=1 reduction=none with_d_loss=1 loss_dtype=f16"
    ],
    recorded=["log_target=1 dtype=bf16", "reduction=none with_d_loss=1"],
    checks=[
        "N=5 V=77", "N=5 V=77 log_target=1 dtype=bf16 target_dtype=f32 reduction=none with_d_loss=1"
    ],
    large=["row dtype=bf16 V={4096|64} reduction=none"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

JSD = Op(
    "jsd", "generalised Jensen-Shannon divergence of rows, gradient included",
    """The loss of an element, with log-probabilities x = input and y = target, Q = e^x, P = e^y,
b = beta, M = b P + (1 - b) Q:
  b P (y - log M) + (1 - b) Q (x - log M)
For b = 0 it is the KL divergence P (y - x), for b = 1 it is Q (x - y). A term whose
factor P or Q is 0 is 0.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
    [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS,
     option("beta", "float", "0.5f", "weight of target in the mixture", 0, 1), *DIVERGENCE_OUTPUTS],
    divergence_tensors("log-probabilities that are trained (student)",
                       "log-probabilities (teacher)", True),
    rows="rows of input",
    sharding="losses input",
    aliases=[("d_input", "input")],
    unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS + DIVERGENCE_LABEL_OPTIONS,
              kernel="divergence_kernel",
              numbers="beta",
              integers="ignore_index",
              hook=True),
    cases=[
        "dtype=bf16 label_dtype=i32 with_d_loss=1",
        "beta=0.1 reduction=sum in_place=1 without_loss=1", "beta=0 reduction=mean label_dtype=i64",
        "beta=1 dtype=f16 with_d_input=0"
    ],
    recorded=[
        "dtype=bf16 label_dtype=i64 V=128256", "beta=0 label_dtype=i32 without_loss=1",
        "beta=1 with_d_input=0"
    ],
    checks=[
        "N=5 V=77 beta=0.1 label_dtype=i32 with_d_loss=1 d_loss_dtype=bf16",
        "N=20 V=1000 dtype=bf16 reduction=sum in_place=1",
        "N=5 V=77 beta=0 reduction=mean label_dtype=i64", "N=5 V=77 beta=1 dtype=f16 loss_dtype=f16"
    ],
    large=["row dtype=bf16 V={4096|64} reduction=sum"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

TVD = Op(
    "tvd", "total variation distance of rows, gradient included",
    """The loss of an element is |x - y| / 2, with x = input and y = target. Its gradient with
respect to x is half the sign of x - y, 0 where x = y.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
    [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS, *DIVERGENCE_OUTPUTS],
    divergence_tensors("probabilities that are trained", "probabilities", True),
    rows="rows of input",
    sharding="losses input",
    aliases=[("d_input", "input")],
    unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS + DIVERGENCE_LABEL_OPTIONS,
              kernel="divergence_kernel",
              integers="ignore_index",
              hook=True),
    cases=[
        "dtype=bf16 target_dtype=f32 reduction=mean label_dtype=i64", "reduction=none in_place=1"
    ],
    recorded=["dtype=bf16 target_dtype=f32 reduction=mean"],
    checks=["N=5 V=77 dtype=bf16 target_dtype=f32 reduction=none in_place=1", "N=0 V=8"],
    large=["row dtype=bf16 V={4096|64} reduction=sum"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

OPS = [KL_DIV, JSD, TVD]
