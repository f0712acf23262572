"""Divergences between rows of two distributions."""

from fields.losses import DIVERGENCE_LABELS, D_LOSS_DTYPE, LOSS_DTYPE_ALONE
from table import Op, Plan, Tensor, absent, dim, dtype, flag, in_place, indices, option, present

DIVERGENCE_DOC = """
NONE: each element, V of a row; SUM: of all; MEAN: SUM / (n V); BATCHMEAN: SUM / n, n the rows that count, and 0 where there are none.
d_input: gradient of the loss by input (target is a constant), times d_loss when that is passed. It is made in the same pass; a
later upstream gradient of one element: scale. Arithmetic in f32. input and target may be of different dtypes. d_input may be exactly input
when in_place is set. loss and d_loss of NONE are contiguous."""
DIVERGENCE_LABELS_DOC = """
labels: rows with ignore_index do not count: their loss and gradient are 0, whatever they hold. Other labels have no meaning here."""
DIVERGENCE_FIELDS = [
    dim("n_cols", "V", "input", "row width"), dtype("dtype", "input", "that of d_input too"), dtype("target_dtype", "target"),
    option("reduction", "int32_t", "LIGERDSL_REDUCTION_BATCHMEAN", "LIGERDSL_REDUCTION_*", 0, 3)]
DIVERGENCE_OUTPUTS = [present("d_loss"), present("d_input"), absent("loss"), in_place("1: d_input may be exactly input"), LOSS_DTYPE_ALONE,
                      D_LOSS_DTYPE]

DIVERGENCE_OPTIONS = """cols=n_cols type=dtype target_type=target_dtype reduction with_loss=!without_loss loss_type=loss_dtype
with_gradient=with_d_input with_d_loss d_loss_type=d_loss_dtype"""
DIVERGENCE_LABEL_OPTIONS = " has_labels=label_dtype label_type=label_dtype"


def divergence_tensors(input_doc, target_doc, labels):
    label = [indices("labels", "N*", "label_dtype", "which rows count, or NULL for all", "label_dtype")] if labels else []
    return [Tensor("input", "in", "N* V", "dtype", input_doc),
            Tensor("target", "in", "N* V", "target_dtype", target_doc),
            *label,
            Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, of its shape, or NULL for 1", "with_d_loss"),
            Tensor("loss", "out", "L*", "loss_dtype", "[..., V] as input for NONE, else one element; or NULL", "!without_loss"),
            Tensor("d_input", "out", "N* V", "dtype", "gradient of input, or NULL", "with_d_input")]


KL_DIV = Op("kl_div", "Kullback-Leibler divergence of rows, gradient included",
    """With x of input, the logarithms of the predicted probabilities, and p = target:
  p * (log(max(p, eps)) - x), and with log_target, t of target, e^t * (t - x).
Where p or e^t is 0, it is 0.""" + DIVERGENCE_DOC,
    [*DIVERGENCE_FIELDS, flag("log_target", "1: target holds logarithms"),
     option("eps", "float", "1e-10f", "the least probability whose logarithm is taken; not with log_target", 0), *DIVERGENCE_OUTPUTS],
    divergence_tensors("log-probabilities that are trained", "probabilities, or their logarithms with log_target", False),
    rows="rows of input", aliases=[("d_input", "input")], unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS, kernel="divergence_kernel", numbers="eps", hook=True),
    cases=["dtype=bf16", "target_dtype=bf16 log_target=1 reduction=none with_d_loss=1 loss_dtype=f16"],
    large=["row dtype=bf16 V={4096|64} reduction=none"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

JSD = Op("jsd", "generalised Jensen-Shannon divergence of rows, gradient included",
    """With log-probabilities x of input and y of target, Q = e^x, P = e^y, b = beta, M = b P + (1 - b) Q:
  b P (y - log M) + (1 - b) Q (x - log M), for b = 0 the KL divergence P (y - x), for b = 1 Q (x - y).
What has a probability of 0 as its factor is 0.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
    [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS, option("beta", "float", "0.5f", "weight of target in the mixture", 0, 1), *DIVERGENCE_OUTPUTS],
    divergence_tensors("log-probabilities that are trained (of the student)", "log-probabilities (of the teacher)", True),
    rows="rows of input", aliases=[("d_input", "input")], unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS + DIVERGENCE_LABEL_OPTIONS, kernel="divergence_kernel", numbers="beta", integers="ignore_index", hook=True),
    cases=[
        "dtype=bf16 label_dtype=i32 with_d_loss=1",
        "beta=0.1 reduction=sum in_place=1 without_loss=1",
        "beta=0 reduction=mean label_dtype=i64",
        "beta=1 dtype=f16 with_d_input=0"],
    large=["row dtype=bf16 V={4096|64} reduction=sum"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

TVD = Op("tvd", "total variation distance of rows, gradient included",
    """With x of input and y of target: |x - y| / 2. Its gradient by x is that of the sign, 0 where x = y.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
    [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS, *DIVERGENCE_OUTPUTS],
    divergence_tensors("probabilities that are trained", "probabilities", True),
    rows="rows of input", aliases=[("d_input", "input")], unreduced="N V",
    plan=Plan(DIVERGENCE_OPTIONS + DIVERGENCE_LABEL_OPTIONS, kernel="divergence_kernel", integers="ignore_index", hook=True),
    cases=["dtype=bf16 target_dtype=f32 reduction=mean label_dtype=i64", "reduction=none in_place=1"],
    large=["row dtype=bf16 V={4096|64} reduction=sum"],
    bench=["dtype={bf16|f32} N=rows(4096|512) V={128256|32000} with_d_input=1"])

OPS = [KL_DIV, JSD, TVD]
