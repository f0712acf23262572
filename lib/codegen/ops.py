"""The operations of the C ABI, one row each. generate.py turns this into ops.h, ops.hpp, checks and entry points.

Formulas name sections of no other document: each text stands alone, because it becomes the comment in ops.h.
"""

from table import INDEX, Field, Op, Tensor, TensorList, Value, absent, dim, dtype, flag, in_place, indices, option, present, queries

CASTING = option("casting", "int32_t", "LIGERDSL_CASTING_LLAMA", "LIGERDSL_CASTING_*: where the norm rounds", 0, 2)
EPS = option("eps", "float", "1e-6f", "added to the mean square", 0)
OFFSET = option("offset", "float", "0.0f", "added to every weight; 1 for zero-centred weights")
ACCUMULATE = flag("accumulate", "1: d_weight += instead of =; d_weight must be f32")
ACTIVATION = option("kind", "int32_t", "LIGERDSL_ACTIVATION_GELU_TANH", "LIGERDSL_ACTIVATION_*", 0, 4)
LOSS_DTYPE = dtype("loss_dtype", "loss", "that of z_loss too", optional=True, zero="f32")
CLASS_WEIGHT_DTYPE = dtype("class_weight_dtype", "class_weight", optional=True, zero="f32")
LOSS_DTYPE_ALONE = dtype("loss_dtype", "loss", optional=True, zero="f32")
D_LOSS_DTYPE = dtype("d_loss_dtype", "d_loss", optional=True, zero="f32")
TEMPERATURE = option("temperature", "float", "0.0f", "divides the logits, behind the softcap; 0 = off, as 1", 1e-4, 1e30, or_zero=True)
SOFTCAP = option("softcap", "float", "0.0f", "0 = off", 1e-30, 1e30, or_zero=True)
ENTROPY_TENSORS = [
    Tensor("entropy", "out", "N*", "f32", "entropy of each row's probabilities in nats, 0 at ignored rows, or NULL", "with_entropy"),
    Tensor("d_entropy", "in", "N*", "f32", "gradient of entropy, or NULL for 0", "with_d_entropy")]

SHARD_FIELDS = [
    dim("n_classes", "V", "logits", "classes of the shard"), dtype("dtype", "logits"), dtype("label_dtype", "labels", "", INDEX),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
    option("first_class", "int64_t", "0", "the shard's first class", 0, 2**52),
    option("total_classes", "int64_t", "0", "classes of the whole vocabulary; 0 = first_class + n_classes: the shard is the last one", 0, 2**52)]
SHARD_LABELS_DOC = """Shard s has V_s = n_classes of the total_classes classes, from first_class on; labels are classes of the whole vocabulary, the same on all
ranks. The shards have every class once, and may be of different sizes."""

DEVICE_SEED = present("device_seed", "1: device_seed and device_offset are passed, so that a captured graph can be replayed")
DROPOUT_DOC = """s = 1 / (1 - p), rounded to f32, 0 <= p < 1: where p is 1 there is nothing to compute. No mask is stored: element i = row * n_cols + column
has random bits w_i, word i mod 4 of the Philox4x32-10 counter offset + i / 4 (the low and the high word of the counter's four, the others 0)
under the key seed (its low and its high word). So which elements stay depends on seed, offset and i alone, not on dtype, strides, device
or schedule. P(dropped) = floor(p * 2^32) / 2^32; p = 0 copies. n elements take the counters offset to offset + ceil(n / 4) - 1: give
the next tensor an offset behind these, or another seed.
with_device_seed: the seed is *device_seed and the offset is offset + *device_offset, read when the kernel runs; `seed` is not read. In a
captured graph each call has an `offset` of its own, and *device_offset grows between two replays by all the counters that the graph
takes, by a copy or a kernel of the caller's."""
DROPOUT_VALUES = [
    Value("p", "float", "0.5f", "probability that an element is dropped", 0, 1, below_high=True),
    Value("seed", "int64_t", "0", "any 64 bits, unless device_seed is passed", unless="with_device_seed"),
    Value("offset", "int64_t", "0", "the first counter: any 64 bits; sums wrap")]
DROPOUT_DEVICE_TENSORS = [
    Tensor("device_seed", "in", "1", "i64", "seed on the device, or NULL", "with_device_seed"),
    Tensor("device_offset", "in", "1", "i64", "added to offset, on the device, or NULL", "with_device_seed")]

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
DIVERGENCE_LABELS = [
    dtype("label_dtype", "labels", "0 = every row counts", INDEX, optional=True),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count")]
DIVERGENCE_OUTPUTS = [present("d_loss"), present("d_input"), absent("loss"), in_place("1: d_input may be exactly input"), LOSS_DTYPE_ALONE,
                      D_LOSS_DTYPE]


def divergence_tensors(input_doc, target_doc, labels):
    label = [indices("labels", "N*", "label_dtype", "which rows count, or NULL for all", "label_dtype")] if labels else []
    return [Tensor("input", "in", "N* V", "dtype", input_doc),
            Tensor("target", "in", "N* V", "target_dtype", target_doc),
            *label,
            Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, of its shape, or NULL for 1", "with_d_loss"),
            Tensor("loss", "out", "L*", "loss_dtype", "[..., V] as input for NONE, else one element; or NULL", "!without_loss"),
            Tensor("d_input", "out", "N* V", "dtype", "gradient of input, or NULL", "with_d_input")]


GATED_FUSED = Field("fused", "int32_t", 0, "1: gate and up are the two halves of one tensor `gate_up`", "present", "gate_up",
                    low=0, high=1)
MULTIPLIERS = [option("gate_multiplier", "float", "1.0f", "multiplies gate before the activation"),
               option("down_multiplier", "float", "1.0f", "multiplies the result")]

GATED_IN_PLACE = in_place("1: d_gate may be exactly gate, d_up exactly up, d_gate_up exactly gate_up")
GATED_IN_PLACE_DOC = """Each gradient may be exactly its input when in_place is set; a
second backward is then impossible."""
GATED_FORWARD_TENSORS = [
    Tensor("gate", "in", "N* F", "dtype", "gate, unless fused", "!fused"),
    Tensor("up", "in", "N* F", "dtype", "up, unless fused", "!fused"),
    Tensor("gate_up", "in", "N* 2F", "dtype", "gate in columns [0, F), up in [F, 2F); only when fused", "fused"),
    Tensor("out", "out", "N* F", "dtype", "the activation")]
GATED_BACKWARD_TENSORS = [
    Tensor("d_out", "in", "N* F", "dtype", "gradient of out"),
    Tensor("gate", "in", "N* F", "dtype", "the forward's gate, unless fused", "!fused"),
    Tensor("up", "in", "N* F", "dtype", "the forward's up, unless fused", "!fused"),
    Tensor("gate_up", "in", "N* 2F", "dtype", "the forward's gate_up; only when fused", "fused"),
    Tensor("d_gate", "out", "N* F", "dtype", "gradient of gate, unless fused", "!fused"),
    Tensor("d_up", "out", "N* F", "dtype", "gradient of up, unless fused", "!fused"),
    Tensor("d_gate_up", "out", "N* 2F", "dtype", "gradient of gate_up; only when fused", "fused")]
GATED_ALIASES = [("d_gate", "gate"), ("d_up", "up"), ("d_gate_up", "gate_up")]

NORM_DOC = """ms = mean(x^2) over a row, rstd = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight).
LLAMA: y = round(round(x * rstd) * w'); GEMMA and NONE: y = round(x * rstd * w'). Arithmetic in f32, rounding to dtype."""
NORM_GRAD = """m = d_y * w', d_x = rstd * (m - x * rstd^2 * mean(m * x)), d_weight = sum over rows of d_y * n with
n = round(x * rstd) for LLAMA, else x * rstd. Sums in f32, in a fixed order."""

MODULATED_DOC = """s and h are the row of scale and of shift that stands for the row: of N rows and K modulations row i takes row i / (N / K), rounded
down; N is a multiple of K. ms = mean(x^2) over a row, rstd = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight), n = round(x * rstd) for
LLAMA, x * rstd for GEMMA and NONE."""
MODULATED_VALUE = """
y = round(n * w' * (1 + s) + h), h = 0 without a shift. Arithmetic in f32."""
MODULATED_GRAD = """
p = d_y * (1 + s): d_x = rstd * (p * w' - x * rstd^2 * mean(p * w' * x)), d_weight = sum over rows of p * n, d_scale = sum over the rows of a
modulation of d_y * n * w', d_shift = sum over these rows of d_y. Sums in f32, in a fixed order. Without rows they are 0. d_x may be exactly d_y
when in_place is set."""
MODULATION_HINT = "one row for all rows of x is [1, n_cols]"
MODULATED_SIZES = [dim("n_cols", "H", "x", "row width"), dim("n_modulations", "K", "scale", "rows of scale and shift, which divide those of x")]

LAYER_NORM_DOC = """mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps) of a row; y = round((x - mean) * rstd * weight + bias), without bias 0. Arithmetic in f32; the
statistics keep their accuracy when the mean is far above the deviations."""
LAYER_NORM_GRAD = """n = (x - mean) * rstd, q = d_y * weight; d_x = rstd * (q - n * mean(n * q) - mean(q)), d_weight = sum over rows of d_y * n,
d_bias = sum over rows of d_y. Sums in f32, in a fixed order."""
LAYER_NORM_EPS = option("eps", "float", "1e-6f", "added to the variance", 0)
NORM_BIAS = dtype("bias_dtype", "bias", "weight_dtype; 0 = no bias", optional=True)
NORM_D_WEIGHT = dtype("d_weight_dtype", "d_weight", "f32 or weight_dtype; 0 = d_weight is not wanted", optional=True)
NORM_D_BIAS = dtype("d_bias_dtype", "d_bias", "f32 or weight_dtype, that of d_weight; 0 = d_bias is not wanted", optional=True)
NORM_ACCUMULATE = flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32")

DYT_DOC = """t = tanh(alpha * x), y = round(weight * t + bias), without bias 0. Arithmetic in f32; tanh is right to 5e-6 of its value."""
DYT_GRAD = """t = tanh(alpha * x), g = d_y * (1 - t^2); d_x = round(alpha * weight * g), d_alpha = sum of x * weight * g, d_weight = sum over rows of d_y * t,
d_bias = sum over rows of d_y. Sums in f32, in a fixed order. Without rows they are 0. d_x may be exactly d_y when in_place is set."""

GROUP_NORM_DOC = """x is [..., C, S]: C channels of S positions, one after the other; images are [N, C, height * width]. K groups of C / K neighbouring
channels. mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps) of each group of each batch; y = round((x - mean) * rstd * weight + bias) with
weight and bias of the channel, without bias 0. Arithmetic in f32; the statistics keep their accuracy when the mean is far above the
deviations. Batches may lie any number of elements apart. mean and rstd are contiguous."""
GROUP_NORM_GRAD = """n = (x - mean) * rstd, q = d_y * weight; d_x = round(rstd * (q - n * mean(n * q) - mean(q))) with means over a group of a batch; d_weight = sum
of d_y * n and d_bias = sum of d_y over the batches and positions of a channel. Sums in f32, in a fixed order. Without batches they are 0.
x, d_y and d_x are [..., C, S] as the forward's x. d_x may be exactly d_y when in_place is set."""
IMAGE_HINT = "an image [N, C, height, width] is passed as [N, C, height * width]"
GROUP_NORM_SIZES = [dim("n_channels", "C", "weight", "channels"), dim("n_positions", "S", "x", "elements of a channel"),
                    dim("n_groups", "K", "mean", "groups, a divisor of n_channels")]

POLY_NORM_DOC = """u_p = x^p / sqrt(mean(x^2p) + eps) over a row, p = 1, 2, 3; y = round(weight[0] * u_3 + weight[1] * u_2 + weight[2] * u_1 + bias). rstd holds
1 / sqrt(mean(x^2p) + eps) in the order of weight. Arithmetic in f32: sums of x^6 are finite up to |x| = 1e6."""
POLY_NORM_GRAD = """r_p of rstd, v_p of weight, s_p = sum over a row of d_y * x^p: d_x = sum over p of p * v_p * (r_p * x^(p-1) * d_y - r_p^3 * x^(2p-1) * s_p / H),
d_weight of x^p = sum over rows of r_p * s_p, d_bias = sum of d_y. Sums in f32, in a fixed order. Without rows they are 0.
d_x may be exactly d_y when in_place is set."""

OPS = [
    Op("vector_add", "out = a + b", "Element by element, rounded once. out may be a or b when in_place is set.",
       [dtype("dtype", "a"), in_place("1: out may be exactly a or b")],
       [Tensor("a", "in", "N*", "dtype", "first summand"),
        Tensor("b", "in", "N*", "dtype", "second summand"),
        Tensor("out", "out", "N*", "dtype", "the sum")],
       rows="elements", aliases=[("out", "a"), ("out", "b")]),

    Op("scale", "rows times a factor that is read on the device",
       """out = round(x * factor): one factor for all rows, or one of each row. Arithmetic in f32. A factor of 0 leaves a NaN where x is not
finite. out may be exactly x when in_place is set.""",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), flag("per_row", "1: factor has one element per row"),
        dtype("factor_dtype", "factor", optional=True, zero="f32"), in_place("1: out may be exactly x")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("factor", "in", "L*", "factor_dtype", "one element, or one per row"),
        Tensor("out", "out", "N* H", "dtype", "x * factor")],
       rows="rows of x", aliases=[("out", "x")]),

    Op("rms_norm_forward", "RMSNorm", NORM_DOC,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", optional=True),
        CASTING, EPS, OFFSET, present("rstd")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL", "weight_dtype"),
        Tensor("y", "out", "N* H", "dtype", "normalised rows"),
        Tensor("rstd", "out", "N*", "f32", "1 / sqrt(ms + eps) of each row: what the backward needs", "with_rstd")],
       rows="rows of x"),

    Op("rms_norm_backward", "gradient of RMSNorm", NORM_GRAD + "\nd_x may be exactly d_y when in_place is set.",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", optional=True),
        dtype("d_weight_dtype", "d_weight", "f32 or weight_dtype; 0 = d_weight is not wanted", optional=True),
        ACCUMULATE, CASTING, OFFSET, in_place("1: d_x may be exactly d_y"), absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("x", "in", "N* H", "dtype", "the forward's x"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL", "weight_dtype"),
        Tensor("rstd", "in", "N*", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "!without_d_x"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype")],
       rows="rows of x", aliases=[("d_x", "d_y")]),

    Op("fused_add_rms_norm_forward", "residual sum and RMSNorm in one pass",
       "sum = round(x + residual), y = RMSNorm(sum), from the rounded sum.\n" + NORM_DOC +
       "\nsum may be exactly x or residual when in_place is set.",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", optional=True),
        CASTING, EPS, OFFSET, present("rstd"), in_place("1: sum may be exactly x or residual")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("residual", "in", "N* H", "dtype", "rows added to x"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL", "weight_dtype"),
        Tensor("y", "out", "N* H", "dtype", "normalised rows"),
        Tensor("sum", "out", "N* H", "dtype", "x + residual"),
        Tensor("rstd", "out", "N*", "f32", "1 / sqrt(ms + eps) of each row: what the backward needs", "with_rstd")],
       rows="rows of x", aliases=[("sum", "x"), ("sum", "residual")]),

    Op("fused_add_rms_norm_backward", "gradient of fused_add_rms_norm",
       "d_x = round(RMSNorm gradient of d_y at sum + d_sum); it is the gradient of x and of residual.\n" + NORM_GRAD +
       "\nd_x may be exactly d_y or d_sum when in_place is set.",
       [dim("n_cols", "H", "sum", "row width"), dtype("dtype", "sum"), dtype("weight_dtype", "weight", optional=True),
        dtype("d_weight_dtype", "d_weight", "f32 or weight_dtype; 0 = d_weight is not wanted", optional=True),
        ACCUMULATE, CASTING, OFFSET, present("d_sum"), in_place("1: d_x may be exactly d_y or d_sum"), absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("d_sum", "in", "N* H", "dtype", "gradient that reaches sum by other ways, or NULL", "with_d_sum"),
        Tensor("sum", "in", "N* H", "dtype", "the forward's sum"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL", "weight_dtype"),
        Tensor("rstd", "in", "N*", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x and of residual, or NULL", "!without_d_x"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype")],
       rows="rows of sum", aliases=[("d_x", "d_y"), ("d_x", "d_sum")]),

    Op("modulated_rms_norm_forward", "RMSNorm with a scale and a shift of each stretch of rows (AdaLN)", MODULATED_DOC + MODULATED_VALUE,
       [*MODULATED_SIZES, dtype("dtype", "x"), dtype("weight_dtype", "weight", optional=True), dtype("scale_dtype", "scale", "that of shift too"),
        CASTING, EPS, OFFSET, present("shift"), present("rstd")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL", "weight_dtype"),
        Tensor("scale", "in", "K H", "scale_dtype", "what is added to 1, of each modulation", hint=MODULATION_HINT),
        Tensor("shift", "in", "K H", "scale_dtype", "added to the scaled rows of each modulation, or NULL", "with_shift", hint=MODULATION_HINT),
        Tensor("y", "out", "N* H", "dtype", "modulated rows"),
        Tensor("rstd", "out", "N*", "f32", "1 / sqrt(ms + eps) of each row: what the backward needs", "with_rstd")],
       rows="rows of x"),

    Op("modulated_rms_norm_backward", "gradient of modulated_rms_norm", MODULATED_DOC + MODULATED_GRAD,
       [*MODULATED_SIZES, dtype("dtype", "x"), dtype("weight_dtype", "weight", optional=True), dtype("scale_dtype", "scale"),
        dtype("d_weight_dtype", "d_weight", "f32 or weight_dtype; 0 = d_weight is not wanted", optional=True),
        dtype("d_scale_dtype", "d_scale", "f32 or scale_dtype; 0 = d_scale is not wanted", optional=True),
        dtype("d_shift_dtype", "d_shift", "f32 or scale_dtype, that of d_scale; 0 = d_shift is not wanted", optional=True),
        flag("accumulate", "1: d_weight +=, d_scale += and d_shift += instead of =; all must be f32"), CASTING, OFFSET,
        in_place("1: d_x may be exactly d_y"), absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("x", "in", "N* H", "dtype", "the forward's x"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL", "weight_dtype"),
        Tensor("scale", "in", "K H", "scale_dtype", "the forward's scale", hint=MODULATION_HINT),
        Tensor("rstd", "in", "N*", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "!without_d_x"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_scale", "inout", "K H", "d_scale_dtype", "gradient of scale, or NULL", "d_scale_dtype", hint=MODULATION_HINT),
        Tensor("d_shift", "inout", "K H", "d_shift_dtype", "gradient of shift, or NULL", "d_shift_dtype", hint=MODULATION_HINT)],
       rows="rows of x", aliases=[("d_x", "d_y")]),

    Op("layer_norm_forward", "LayerNorm",
       LAYER_NORM_DOC,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight"),
        LAYER_NORM_EPS, present("mean"), present("rstd"), NORM_BIAS],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column"),
        Tensor("bias", "in", "H", "bias_dtype", "added to each column, or NULL", "bias_dtype"),
        Tensor("y", "out", "N* H", "dtype", "normalised rows"),
        Tensor("mean", "out", "N*", "f32", "mean of each row: what the backward needs, or NULL", "with_mean"),
        Tensor("rstd", "out", "N*", "f32", "rstd of each row: what the backward needs, or NULL", "with_rstd")],
       rows="rows of x"),

    Op("layer_norm_backward", "gradient of LayerNorm",
       LAYER_NORM_GRAD + " d_x may be exactly d_y when in_place is set.",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight"),
        NORM_D_WEIGHT, NORM_ACCUMULATE, in_place("1: d_x may be exactly d_y"), NORM_D_BIAS,
        absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("x", "in", "N* H", "dtype", "the forward's x"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
        Tensor("mean", "in", "N*", "f32", "the forward's mean"),
        Tensor("rstd", "in", "N*", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "!without_d_x"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "H", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")],
       rows="rows of x", aliases=[("d_x", "d_y")]),

    Op("fused_add_layer_norm_forward", "residual sum and LayerNorm in one pass",
       "sum = round(x + residual), y = LayerNorm(sum), from the rounded sum: x stands for it below.\n" + LAYER_NORM_DOC +
       "\nsum may be exactly x or residual when in_place is set.",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight"), NORM_BIAS,
        LAYER_NORM_EPS, present("mean"), present("rstd"), in_place("1: sum may be exactly x or residual")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("residual", "in", "N* H", "dtype", "rows added to x"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column"),
        Tensor("bias", "in", "H", "bias_dtype", "added to each column, or NULL", "bias_dtype"),
        Tensor("y", "out", "N* H", "dtype", "normalised rows"),
        Tensor("sum", "out", "N* H", "dtype", "x + residual"),
        Tensor("mean", "out", "N*", "f32", "mean of each row: what the backward needs, or NULL", "with_mean"),
        Tensor("rstd", "out", "N*", "f32", "rstd of each row: what the backward needs, or NULL", "with_rstd")],
       rows="rows of x", aliases=[("sum", "x"), ("sum", "residual")]),

    Op("fused_add_layer_norm_backward", "gradient of fused_add_layer_norm",
       "d_x = round(LayerNorm gradient of d_y at sum + d_sum); it is the gradient of x and of residual. With x for sum:\n" +
       LAYER_NORM_GRAD + "\nd_x may be exactly d_y or d_sum when in_place is set.",
       [dim("n_cols", "H", "sum", "row width"), dtype("dtype", "sum"), dtype("weight_dtype", "weight"),
        NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE, present("d_sum"),
        in_place("1: d_x may be exactly d_y or d_sum"), absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("d_sum", "in", "N* H", "dtype", "gradient that reaches sum by other ways, or NULL", "with_d_sum"),
        Tensor("sum", "in", "N* H", "dtype", "the forward's sum"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
        Tensor("mean", "in", "N*", "f32", "the forward's mean"),
        Tensor("rstd", "in", "N*", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x and of residual, or NULL", "!without_d_x"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "H", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")],
       rows="rows of sum", aliases=[("d_x", "d_y"), ("d_x", "d_sum")]),

    Op("group_norm_forward", "GroupNorm", GROUP_NORM_DOC,
       [*GROUP_NORM_SIZES, dtype("dtype", "x"), dtype("weight_dtype", "weight"), LAYER_NORM_EPS, present("mean"), present("rstd"), NORM_BIAS],
       [Tensor("x", "in", "N* C S", "dtype", "channels", hint=IMAGE_HINT),
        Tensor("weight", "in", "C", "weight_dtype", "scale of each channel"),
        Tensor("bias", "in", "C", "bias_dtype", "added to each channel, or NULL", "bias_dtype"),
        Tensor("y", "out", "N* C S", "dtype", "normalised channels", hint=IMAGE_HINT),
        Tensor("mean", "out", "N* K", "f32", "mean of each group: what the backward needs, or NULL", "with_mean"),
        Tensor("rstd", "out", "N* K", "f32", "rstd of each group: what the backward needs, or NULL", "with_rstd")],
       rows="batches of x"),

    Op("group_norm_backward", "gradient of GroupNorm", GROUP_NORM_GRAD,
       [*GROUP_NORM_SIZES, dtype("dtype", "x"), dtype("weight_dtype", "weight"), NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE,
        in_place("1: d_x may be exactly d_y"), absent("d_x")],
       [Tensor("d_y", "in", "N* C S", "dtype", "gradient of y", hint=IMAGE_HINT),
        Tensor("x", "in", "N* C S", "dtype", "the forward's x", hint=IMAGE_HINT),
        Tensor("weight", "in", "C", "weight_dtype", "the forward's weight"),
        Tensor("mean", "in", "N* K", "f32", "the forward's mean"),
        Tensor("rstd", "in", "N* K", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* C S", "dtype", "gradient of x, or NULL", "!without_d_x", hint=IMAGE_HINT),
        Tensor("d_weight", "inout", "C", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "C", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")],
       rows="batches of x", aliases=[("d_x", "d_y")]),

    Op("poly_norm_forward", "PolyNorm: a weighted sum of normalised powers", POLY_NORM_DOC,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", "that of bias too"), EPS, present("rstd")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "3", "weight_dtype", "of x^3, x^2 and x"),
        Tensor("bias", "in", "1", "weight_dtype", "added to every element"),
        Tensor("y", "out", "N* H", "dtype", "the sum"),
        Tensor("rstd", "out", "N* 3", "f32", "of x^3, x^2 and x of each row: what the backward needs, or NULL", "with_rstd")],
       rows="rows of x"),

    Op("poly_norm_backward", "gradient of PolyNorm", POLY_NORM_GRAD,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight"),
        NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE, in_place("1: d_x may be exactly d_y")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("x", "in", "N* H", "dtype", "the forward's x"),
        Tensor("weight", "in", "3", "weight_dtype", "the forward's weight"),
        Tensor("rstd", "in", "N* 3", "f32", "the forward's rstd"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x"),
        Tensor("d_weight", "inout", "3", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "1", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")],
       rows="rows of x", aliases=[("d_x", "d_y")]),

    Op("dyt_forward", "DyT: dynamic tanh of rows", DYT_DOC + " y may be exactly x when in_place is set.",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", "that of alpha too"), NORM_BIAS,
        in_place("1: y may be exactly x")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("alpha", "in", "1", "weight_dtype", "multiplies every element"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column"),
        Tensor("bias", "in", "H", "bias_dtype", "added to each column, or NULL", "bias_dtype"),
        Tensor("y", "out", "N* H", "dtype", "the scaled tanh")],
       rows="rows of x", aliases=[("y", "x")]),

    Op("dyt_backward", "gradient of DyT", DYT_GRAD,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), dtype("weight_dtype", "weight", "that of alpha too"),
        dtype("d_alpha_dtype", "d_alpha", "f32 or weight_dtype, that of d_weight; 0 = d_alpha is not wanted", optional=True),
        NORM_D_WEIGHT, NORM_D_BIAS, flag("accumulate", "1: d_alpha +=, d_weight += and d_bias += instead of =; all must be f32"),
        in_place("1: d_x may be exactly d_y"), absent("d_x")],
       [Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("x", "in", "N* H", "dtype", "the forward's x"),
        Tensor("alpha", "in", "1", "weight_dtype", "the forward's alpha"),
        Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "!without_d_x"),
        Tensor("d_alpha", "inout", "1", "d_alpha_dtype", "gradient of alpha, or NULL", "d_alpha_dtype"),
        Tensor("d_weight", "inout", "H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "H", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype")],
       rows="rows of x", aliases=[("d_x", "d_y")]),

    Op("bias_add_forward", "rows plus a bias",
       "y = round(x + bias) in every row. Arithmetic in f32. y may be exactly x when in_place is set.",
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), dtype("bias_dtype", "bias"), in_place("1: y may be exactly x")],
       [Tensor("x", "in", "N* F", "dtype", "rows"), Tensor("bias", "in", "F", "bias_dtype", "added to every row"),
        Tensor("y", "out", "N* F", "dtype", "x + bias")],
       rows="rows of x", aliases=[("y", "x")]),

    Op("bias_add_backward", "gradient of a bias: sums of columns",
       """d_bias = sum over rows of d_y, in f32 and in a fixed order. Without rows it is 0. The gradient of x is d_y itself.""",
       [dim("n_cols", "F", "d_y", "row width"), dtype("dtype", "d_y"), dtype("d_bias_dtype", "d_bias", "f32 or dtype"),
        flag("accumulate", "1: d_bias += instead of =; d_bias must be f32")],
       [Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
        Tensor("d_bias", "inout", "F", "d_bias_dtype", "gradient of bias")],
       rows="rows of d_y"),

    Op("activation_forward", "GELU, SiLU, ReLU or ReLU squared",
       """GELU_TANH: f(u) = u / 2 * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 u^3))). GELU_ERF: f(u) = u / 2 * (1 + erf(u / sqrt(2))).
SILU: f(u) = u * sigmoid(u). RELU: f(u) = max(u, 0). RELU_SQUARED: f(u) = max(u, 0)^2. y = round(f(x)). Arithmetic in f32, with
the digits of f kept where it is small; a NaN gives a NaN. y may be exactly x when in_place is set.""",
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), ACTIVATION, in_place("1: y may be exactly x")],
       [Tensor("x", "in", "N* F", "dtype", "rows"), Tensor("y", "out", "N* F", "dtype", "f(x)")],
       rows="rows of x", aliases=[("y", "x")]),

    Op("activation_backward", "gradient of activation_forward",
       """d_x = round(d_y * f'(x)); with accumulate d_x = round(d_x + d_y * f'(x)), in every dtype. Arithmetic in f32. Where x <= 0 what RELU
and RELU_SQUARED give is 0, even if d_y is not finite. d_x may be exactly d_y or x when in_place is set, which excludes accumulate.""",
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), ACTIVATION, flag("accumulate", "1: d_x += instead of ="),
        in_place("1: d_x may be exactly d_y or x")],
       [Tensor("d_y", "in", "N* F", "dtype", "gradient of y"), Tensor("x", "in", "N* F", "dtype", "the forward's x"),
        Tensor("d_x", "inout", "N* F", "dtype", "gradient of x")],
       rows="rows of x", aliases=[("d_x", "d_y"), ("d_x", "x")]),

    Op("dropout_forward", "dropout, with or without a residual sum",
       """y_i = round(x_i * s) where w_i >= floor(p * 2^32), else 0 whatever x_i is; with a residual y_i = round(residual_i + x_i * s), else
residual_i. Arithmetic in f32. y may be exactly x or residual when in_place is set.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), present("residual"), DEVICE_SEED,
        in_place("1: y may be exactly x or residual")],
       [*DROPOUT_VALUES,
        Tensor("x", "in", "N* F", "dtype", "rows"),
        Tensor("residual", "in", "N* F", "dtype", "rows added to what is left of x, or NULL", "with_residual"),
        Tensor("y", "out", "N* F", "dtype", "what is left of x"), *DROPOUT_DEVICE_TENSORS],
       rows="rows of x", aliases=[("y", "x"), ("y", "residual")]),

    Op("dropout_backward", "gradient of dropout_forward",
       """d_x_i = round(d_y_i * s) where the forward kept x_i, else 0 whatever d_y_i is; with accumulate d_x_i = round(d_x_i + d_y_i * s), else d_x_i,
in every dtype. p, seed and offset are the forward's. The gradient of residual is d_y itself. d_x may be exactly d_y when in_place is set,
which excludes accumulate.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "d_y", "row width"), dtype("dtype", "d_y"), flag("accumulate", "1: d_x += instead of ="), DEVICE_SEED,
        in_place("1: d_x may be exactly d_y")],
       [*DROPOUT_VALUES,
        Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
        Tensor("d_x", "inout", "N* F", "dtype", "gradient of x"), *DROPOUT_DEVICE_TENSORS],
       rows="rows of d_y", aliases=[("d_x", "d_y")]),

    Op("swiglu_forward", "SiLU(gate) * up",
       "u = gate_multiplier * gate; out = round(down_multiplier * round(u * sigmoid(u)) * up). Arithmetic in f32.",
       [dim("n_cols", "F", "out", "width of out"), dtype("dtype", "out"), GATED_FUSED, *MULTIPLIERS],
       GATED_FORWARD_TENSORS, rows="rows of out"),

    Op("swiglu_backward", "gradient of swiglu",
       """u = gate_multiplier * gate, s = sigmoid(u), g = down_multiplier * d_out; d_up = g * u * s,
d_gate = gate_multiplier * g * up * (s + u * s * (1 - s)). """ + GATED_IN_PLACE_DOC,
       [dim("n_cols", "F", "d_out", "width of d_out"), dtype("dtype", "d_out"), GATED_FUSED, *MULTIPLIERS, GATED_IN_PLACE],
       GATED_BACKWARD_TENSORS, rows="rows of d_out", aliases=GATED_ALIASES),

    Op("geglu_forward", "GELU(gate) * up, tanh form",
       """gelu(u) = u / 2 * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 u^3))); out = round(round(gelu(gate)) * up). Arithmetic in f32, with an
accurate tanh.""",
       [dim("n_cols", "F", "out", "width of out"), dtype("dtype", "out"), GATED_FUSED],
       GATED_FORWARD_TENSORS, rows="rows of out"),

    Op("geglu_backward", "gradient of geglu",
       """t = tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3)); d_up = d_out * round(gelu(gate)),
d_gate = round(d_out * up) * ((1 + t) / 2 + gate / 2 * (1 - t^2) * sqrt(2 / pi) * (1 + 3 * 0.044715 gate^2)), which rounds where
PyTorch does. """ + GATED_IN_PLACE_DOC,
       [dim("n_cols", "F", "d_out", "width of d_out"), dtype("dtype", "d_out"), GATED_FUSED, GATED_IN_PLACE],
       GATED_BACKWARD_TENSORS, rows="rows of d_out", aliases=GATED_ALIASES),

    Op("rope", "rotary position embedding; backward with inverse = 1",
       """R = rotary_dim columns of each head are rotated (0: all), h = R / 2 rounded down; further columns, and the last of an odd R, are
copied. With c = cos[i], s = sin[i] and the pair (a, b) of columns that angle i < h turns: a' = a c - b s, b' = b c + a s.
HALF: columns i and i + h. INTERLEAVED: columns 2 i and 2 i + 1. MULTIMODAL: as HALF, with angle i taken from the first plane of
cos and sin for i < time_section, from the second for the next height_section angles, from the third for the last width_section.
inverse = 1 uses -s: the gradient.
q and k are [batch, position, head, column] with any strides but a last one of 1, so memory in the order [batch, head, position,
column] is one transposed description away. cos and sin are [S, D], [1, S, D] or [B, S, D], MULTIMODAL [3, 1, S, D] or [3, B, S, D];
only their first h columns are read. complex_table: cos holds cos of angle i in column 2 i and sin in column 2 i + 1; sin is NULL.
Arithmetic in f32, one rounding to dtype. q_out may be exactly q, and k_out exactly k, when in_place is set.""",
       [dim("head_dim", "D", "q", "columns of one head, at most 65536: a program holds whole heads", high=65536), dtype("dtype", "q"),
        dtype("table_dtype", "cos"),
        dim("q_heads", "A", "q", "heads of q"), dim("k_heads", "K", "k", "heads of k, 0 without k", optional=True),
        flag("inverse", "1: rotate back (the backward)"), present("k", "1: k and k_out are passed"),
        flag("complex_table", "1: cos holds complex numbers, there is no sin"),
        option("layout", "int32_t", 0, "LIGERDSL_ROPE_*", 0, 2),
        option("rotary_dim", "int64_t", 0, "columns that are rotated; 0 = head_dim", 0, 2**31 - 1),
        option("time_section", "int64_t", 0, "MULTIMODAL: angles of the first plane", 0, 2**31 - 1),
        option("height_section", "int64_t", 0, "MULTIMODAL: angles of the second plane", 0, 2**31 - 1),
        option("width_section", "int64_t", 0, "MULTIMODAL: angles of the third plane", 0, 2**31 - 1),
        in_place("1: q_out may be exactly q, k_out exactly k")],
       [Tensor("q", "in", "B S A D", "dtype", "queries"),
        Tensor("k", "in", "B S K D", "dtype", "keys, with any number of heads, or NULL", "with_k"),
        Tensor("cos", "in", "?", "table_dtype", "cosines by position, or complex numbers"),
        Tensor("sin", "in", "?", "table_dtype", "sines by position; NULL with complex_table", "!complex_table"),
        Tensor("q_out", "out", "B S A D", "dtype", "rotated queries"),
        Tensor("k_out", "out", "B S K D", "dtype", "rotated keys, or NULL", "with_k")],
       rows="positions of all batches", aliases=[("q_out", "q"), ("k_out", "k")]),

    Op("softmax_forward", "softmax(scale * x) over rows",
       """y = exp(scale * x - m) / sum exp(scale * x - m). causal: the last two dimensions of x are queries and keys; column j of
query i counts only if j <= i + n_cols - n_queries, other columns of y are exactly 0. A row of -inf gives NaN.
y may be exactly x when in_place is set.""",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), option("scale", "float", "1.0f", "multiplies x"),
        flag("causal", "1: mask the future"),
        queries("x"),
        in_place("1: y may be exactly x")],
       [Tensor("x", "in", "N* H", "dtype", "logits"), Tensor("y", "out", "N* H", "dtype", "probabilities")],
       rows="rows of x", aliases=[("y", "x")]),

    Op("softmax_backward", "gradient of softmax",
       "d_x = scale * y * (d_y - sum(d_y * y)); masked columns get 0. d_x may be exactly d_y or y when in_place is set.",
       [dim("n_cols", "H", "y", "row width"), dtype("dtype", "y"), option("scale", "float", "1.0f", "the forward's scale"),
        flag("causal", "1: the forward was causal"),
        queries("y"),
        in_place("1: d_x may be exactly d_y or y")],
       [Tensor("y", "in", "N* H", "dtype", "the forward's y"), Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x")],
       rows="rows of y", aliases=[("d_x", "d_y"), ("d_x", "y")]),

    Op("sparsemax_forward", "sparsemax of rows: the nearest point of the simplex",
       """y = max(x - tau, 0) with the tau for which each row of y adds up to 1; most elements are exactly 0. Arithmetic in f32, rounded once.
A row of -inf alone, or with a NaN or +inf, gives NaN. Another dimension than the last one takes a transposed copy: the last dimension
has a stride of 1. y may be exactly x when in_place is set.""",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), in_place("1: y may be exactly x")],
       [Tensor("x", "in", "N* H", "dtype", "scores"), Tensor("y", "out", "N* H", "dtype", "probabilities")],
       rows="rows of x", aliases=[("y", "x")]),

    Op("sparsemax_backward", "gradient of sparsemax",
       """d_x = d_y - mean of d_y over the support of the row, which is where y > 0; 0 elsewhere, whatever d_y is there. A result that dtype
rounded to 0 is not in the support. d_x may be exactly d_y or y when in_place is set.""",
       [dim("n_cols", "H", "y", "row width"), dtype("dtype", "y"), in_place("1: d_x may be exactly d_y or y")],
       [Tensor("y", "in", "N* H", "dtype", "the forward's y"), Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x")],
       rows="rows of y", aliases=[("d_x", "d_y"), ("d_x", "y")]),

    Op("cross_entropy", "cross-entropy over rows of logits, with the gradient in the same pass",
       """z = softcap * tanh(x / softcap), or x, divided by temperature; lse = log sum exp z; V classes, a = label_smoothing, w = class weights,
y = label:
  without weights: l = (1 - a) (lse - z[y]) + a lse - a/V sum z
  with weights:    l = (1 - a) w[y] (lse - z[y]) + a/V (sum w * lse - sum w z)
  zl = lse_square_scale * lse^2, never weighted, already contained in the loss
n = rows whose label is not ignore_index, W = sum of w[y] over them (n without weights). MEAN: l / W + zl / n; SUM, NONE: l + zl.
NONE: loss, z_loss and accuracy are [rows], 0 at ignored rows; otherwise one element each, accuracy being divided by n.
Nothing valid: loss, accuracy and gradients are 0. predictions: argmax z, the lowest index of equals, -1 at ignored rows.
entropy = lse - sum over c of p_c z_c with p = e^(z - lse), whatever the reduction.
z is finite up to an absolute value of 5e8; in rows with larger ones results may not be, so temperature may not be less than 1e-4.
d_logits: gradient of the loss (not of z_loss or accuracy) times d_loss, and of the entropies times d_entropy; 0 at ignored rows; may be
exactly logits when in_place is set. d_loss is read on the device: one element, or one per row for NONE.
A label outside [0, V) that is not ignore_index: that row's loss and gradient are NaN and ligerdsl_context_check reports it.""",
       [dim("n_classes", "V", "logits", "classes"), dtype("dtype", "logits"), dtype("label_dtype", "labels", "", INDEX),
        option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*", 0, 2),
        option("label_smoothing", "float", "0.0f", "a in the formulas", 0, 1),
        option("lse_square_scale", "float", "0.0f", "weight of the z loss", 0),
        SOFTCAP,
        present("class_weight"), present("z_loss"), present("accuracy"), present("predictions"), present("lse"),
        present("d_logits"), in_place("1: d_logits may be exactly logits"), LOSS_DTYPE, CLASS_WEIGHT_DTYPE,
        absent("loss"), TEMPERATURE, present("entropy"), present("d_entropy"), present("d_loss"), D_LOSS_DTYPE],
       [Tensor("logits", "in", "N* V", "dtype", "unnormalised scores"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("class_weight", "in", "V", "class_weight_dtype", "weight of each class, or NULL", "with_class_weight"),
        Tensor("loss", "out", "L*", "loss_dtype", "[rows] for NONE, else one element; or NULL", "!without_loss"),
        Tensor("z_loss", "out", "Z*", "loss_dtype", "the part of the loss that lse_square_scale adds, or NULL", "with_z_loss"),
        Tensor("accuracy", "out", "R*", "f32", "1 where argmax z is the label, reduced, or NULL", "with_accuracy"),
        Tensor("predictions", "out", "N*", "i64", "argmax z, or NULL", "with_predictions"),
        Tensor("lse", "out", "N*", "f32", "log sum exp z of each row, or NULL", "with_lse"),
        Tensor("d_logits", "out", "N* V", "dtype", "gradient of logits, or NULL", "with_d_logits"),
        *ENTROPY_TENSORS,
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, or NULL for 1", "with_d_loss")],
       rows="rows of logits", aliases=[("d_logits", "logits")]),

    Op("fused_linear_cross_entropy", "cross-entropy of x * weight^T + bias from a bounded piece of the logits at a time, gradients included",
       """logits = x weight^T + bias, then loss, z_loss, accuracy, predictions and entropy as cross_entropy defines them, with n, W and
sum w taken over all rows. With d = d_logits of cross_entropy, d_loss and d_entropy as there:
  d_x = d weight;  d_weight = d^T x;  d_bias = sum of the rows of d
Where d_weight is wanted, x of ignored rows must be finite: 0 times it is added.
Chunks of rows are multiplied, turned into d in place, and multiplied again, so that one chunk of logits is all that exists; a
batch that fits one chunk has all its logits in the workspace.
d_weight and d_bias are summed in f32 and rounded once; as f32 they are summed in the caller's memory, otherwise several chunks
need f32 sums in the workspace. Each gradient is made only if wanted. d_x may be exactly x when in_place is set.
use_token_scaling: loss, z_loss and their part of d are multiplied by the probability of the row's label, taken as a constant.
d_loss is read on the device: one element, or one per row for NONE. A later upstream gradient of one element:
cross_entropy_backward scales d_x and d_weight; one per row: fused_linear_cross_entropy_backward makes them from lse.
Chunks: chunk_rows if it is not 0, else as chunking says. WORKSPACE: as many rows as max_workspace_bytes leaves room for, all the
workspace counted, INVALID_ARGUMENT from execute and no workspace size when not even one row fits; 0 = chunks of at most 1 GiB of logits, and a single
chunk where that takes no more memory than several with their sums. So the default workspace stays below 1 GiB, + 4 V H bytes for
a 16-bit d_weight, + 32 MiB on a GPU for products, + 20 bytes a row (CPU, 16-bit dtype: + f32 copies of weight and of a chunk of x
and d_x). Chunks so small that adding to d_weight for each would take longer make d_weight from logits that are multiplied a
second time, in blocks of the vocabulary (not when d_x overwrites x). PUBLISHED: 2^ceil(log2(ceil(rows / ceil(V / H)))).
An f32 weight with 16-bit x: on a GPU it is rounded to dtype in the workspace, 2 V H bytes more, once a call; where max_workspace_bytes
leaves no room for that beside large chunks, in blocks, for each product of a chunk anew, whose parts of d_x are added in f32. A CPU takes
it as it is.
Matrix products: cuBLASLt in dtype on a GPU, CBLAS in f32 on a CPU; NOT_SUPPORTED from plan when there is no such library. The
logits are rounded to dtype on a GPU. cuBLASLt chooses its kernels when ligerdsl_plan_workspace_bytes_for is asked for a number
of rows, else in the first call with it, which then takes host memory. A CBLAS library may take memory of its own: OpenBLAS
0.3.21 has its buffers from the first product on, takes 512 KiB for the time of a product of more than 262,144 multiply-adds
that it spreads over threads, and, on processors with AVX-512, at most 64 bytes a class for that of a smaller one.
A label outside [0, V) that is not ignore_index: loss and gradients are NaN and ligerdsl_context_check reports it.""",
       [dim("n_classes", "V", "weight", "classes"), dim("n_cols", "H", "x", "width of x"), dtype("dtype", "x", "of x and of the products"),
        dtype("label_dtype", "labels", "", INDEX), dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
        dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True),
        dtype("d_bias_dtype", "d_bias", "f32 or bias_dtype; 0 = d_bias is not wanted", optional=True),
        flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32"),
        option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*", 0, 2),
        option("label_smoothing", "float", "0.0f", "a in the formulas", 0, 1),
        option("lse_square_scale", "float", "0.0f", "weight of the z loss", 0),
        SOFTCAP,
        flag("use_token_scaling", "1: weigh every row by the probability of its label"),
        present("class_weight"), present("z_loss"), present("accuracy"), present("predictions"), present("d_loss"),
        present("d_x", "1: `d_x` is wanted"), in_place("1: d_x may be exactly x"),
        option("chunking", "int32_t", "LIGERDSL_CHUNKING_WORKSPACE", "LIGERDSL_CHUNKING_*", 0, 1),
        option("max_workspace_bytes", "int64_t", "0", "limit of the workspace; 0 = see above", 0),
        option("chunk_rows", "int64_t", "0", "rows of a chunk; 0 = as chunking says", 0), LOSS_DTYPE, CLASS_WEIGHT_DTYPE, D_LOSS_DTYPE,
        absent("loss"), TEMPERATURE, present("entropy"), present("d_entropy"),
        dtype("weight_dtype", "weight", "f32 or dtype", optional=True, zero="dtype"), present("lse")],
       [Tensor("x", "in", "N* H", "dtype", "hidden states"),
        Tensor("weight", "in", "V H", "weight_dtype", "the head"),
        Tensor("bias", "in", "V", "bias_dtype", "added to the logits, or NULL", "bias_dtype"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("class_weight", "in", "V", "class_weight_dtype", "weight of each class, or NULL", "with_class_weight"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, or NULL for 1", "with_d_loss"),
        Tensor("loss", "out", "L*", "loss_dtype", "[rows] for NONE, else one element; or NULL", "!without_loss"),
        Tensor("z_loss", "out", "Z*", "loss_dtype", "the part of the loss that lse_square_scale adds, or NULL", "with_z_loss"),
        Tensor("accuracy", "out", "R*", "f32", "1 where argmax z is the label, reduced, or NULL", "with_accuracy"),
        Tensor("predictions", "out", "N*", "i64", "argmax z, or NULL", "with_predictions"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "with_d_x"),
        Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "V", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype"),
        *ENTROPY_TENSORS,
        Tensor("lse", "out", "N*", "f32", "log sum exp z of each row, 0 at ignored rows, or NULL", "with_lse")],
       rows="rows of x", aliases=[("d_x", "x")]),

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
without multiplying a second time. d_loss is read on the device: one element, or one per row for NONE. lse is one number of f32, so p is off
by up to |lse| 2^-23 of it: in rows whose label has nearly all the probability, 1 - p[y] keeps fewer digits than in the forward.
d_x may be exactly x when in_place is set.""",
       [dim("n_classes", "V", "weight", "classes"), dim("n_cols", "H", "x", "width of x"), dtype("dtype", "x", "of x and of the products"),
        dtype("label_dtype", "labels", "", INDEX), dtype("bias_dtype", "bias", "f32 or dtype; 0 = no bias", optional=True),
        dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True),
        dtype("d_bias_dtype", "d_bias", "f32 or bias_dtype; 0 = d_bias is not wanted", optional=True),
        flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32"),
        option("ignore_index", "int64_t", "-100", "rows with this label do not count"),
        option("reduction", "int32_t", "LIGERDSL_REDUCTION_MEAN", "LIGERDSL_REDUCTION_*: the forward's", 0, 2),
        option("label_smoothing", "float", "0.0f", "a in the formulas", 0, 1),
        option("lse_square_scale", "float", "0.0f", "weight of the z loss", 0),
        SOFTCAP,
        flag("use_token_scaling", "1: the forward weighed every row by the probability of its label"),
        present("class_weight"), present("d_x", "1: `d_x` is wanted"), in_place("1: d_x may be exactly x"),
        option("chunking", "int32_t", "LIGERDSL_CHUNKING_WORKSPACE", "LIGERDSL_CHUNKING_*", 0, 1),
        option("max_workspace_bytes", "int64_t", "0", "limit of the workspace; 0 = as the forward", 0),
        option("chunk_rows", "int64_t", "0", "rows of a chunk; 0 = as chunking says", 0), CLASS_WEIGHT_DTYPE, D_LOSS_DTYPE,
        TEMPERATURE, present("d_entropy", "1: `entropy` and `d_entropy` are passed"),
        dtype("weight_dtype", "weight", "f32 or dtype", optional=True, zero="dtype")],
       [Tensor("x", "in", "N* H", "dtype", "hidden states"),
        Tensor("weight", "in", "V H", "weight_dtype", "the head"),
        Tensor("bias", "in", "V", "bias_dtype", "added to the logits, or NULL", "bias_dtype"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("class_weight", "in", "V", "class_weight_dtype", "weight of each class, or NULL", "with_class_weight"),
        Tensor("lse", "in", "N*", "f32", "the forward's lse"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss: one element, or one per row for NONE"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "with_d_x"),
        Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype"),
        Tensor("d_bias", "inout", "V", "d_bias_dtype", "gradient of bias, or NULL", "d_bias_dtype"),
        Tensor("entropy", "in", "N*", "f32", "the forward's entropy, or NULL", "with_d_entropy"),
        Tensor("d_entropy", "in", "N*", "f32", "gradient of entropy, or NULL for 0", "with_d_entropy")],
       rows="rows of x", aliases=[("d_x", "x")]),

    Op("cross_entropy_backward", "folds the upstream gradient into d_logits",
       """d_logits *= d_loss, which is read on the device: one element (MEAN and SUM), or one per row (NONE).""",
       [dim("n_classes", "V", "d_logits", "classes"), dtype("dtype", "d_logits"),
        flag("per_row", "1: d_loss has one element per row"), D_LOSS_DTYPE],
       [Tensor("d_loss", "in", "L*", "d_loss_dtype", "gradient of the loss"),
        Tensor("d_logits", "inout", "N* V", "dtype", "what cross_entropy wrote; scaled in place")],
       rows="rows of d_logits"),

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
NaN, and ligerdsl_context_check of every rank reports it.""",
       [*SHARD_FIELDS, flag("with_smoothing", "1: the numbers that label_smoothing needs are there too")],
       [Tensor("logits", "in", "N* V", "dtype", "unnormalised scores of the shard"),
        indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("partials", "out", "N* C", "f32", "3 or 5 numbers of each row")],
       rows="rows of logits"),

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
every rank reports it.""",
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
       rows="rows of logits", aliases=[("d_logits", "logits")]),

    Op("kl_div", "Kullback-Leibler divergence of rows, gradient included",
       """With x of input, the logarithms of the predicted probabilities, and p = target:
  p * (log(max(p, eps)) - x), and with log_target, t of target, e^t * (t - x).
Where p or e^t is 0, it is 0.""" + DIVERGENCE_DOC,
       [*DIVERGENCE_FIELDS, flag("log_target", "1: target holds logarithms"),
        option("eps", "float", "1e-10f", "the least probability whose logarithm is taken; not with log_target", 0), *DIVERGENCE_OUTPUTS],
       divergence_tensors("log-probabilities that are trained", "probabilities, or their logarithms with log_target", False),
       rows="rows of input", aliases=[("d_input", "input")]),

    Op("jsd", "generalised Jensen-Shannon divergence of rows, gradient included",
       """With log-probabilities x of input and y of target, Q = e^x, P = e^y, b = beta, M = b P + (1 - b) Q:
  b P (y - log M) + (1 - b) Q (x - log M), for b = 0 the KL divergence P (y - x), for b = 1 Q (x - y).
What has a probability of 0 as its factor is 0.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
       [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS, option("beta", "float", "0.5f", "weight of target in the mixture", 0, 1), *DIVERGENCE_OUTPUTS],
       divergence_tensors("log-probabilities that are trained (of the student)", "log-probabilities (of the teacher)", True),
       rows="rows of input", aliases=[("d_input", "input")]),

    Op("fused_linear_jsd", "jsd of the softmaxes of x * weight^T and target_x * target_weight^T from a bounded piece of the logits at a time",
       """Z = x weight^T and T = target_x target_weight^T, both divided by temperature; the loss is that of jsd with log-probabilities
log softmax Z as input and log softmax T as target, over classes V, with its beta. With D the gradient of that loss by log softmax Z, times
d_loss, and d = (D - softmax(Z) sum over c of D_c) / temperature, the gradient of x weight^T:
  d_x = d weight;  d_weight = d^T x.  The teacher, target_x and target_weight, has no gradient; its width T may be another.
SUM: of all; MEAN: SUM / (n V); BATCHMEAN: SUM / n, n the rows that count, and 0 where there are none. labels:
rows with ignore_index do not count, their loss and their part of d are 0; where d_weight is wanted their x must be finite (0 * x is added).
Chunks of rows are multiplied, turned into d in place, and multiplied again, so that one chunk of both logits is all that exists: chunk_rows
if it is not 0, else as many rows as max_workspace_bytes leaves room for, all the workspace counted, INVALID_ARGUMENT from execute and no
workspace size when not even one row fits; 0 = chunks whose logits take at most 1 GiB together, and a single chunk where that takes no more
memory than several with their sums.
d_weight is summed in f32 and rounded once; as f32 it is summed in the caller's memory, otherwise several chunks need f32 sums in the
workspace, 4 V H bytes. Each gradient is made only if wanted. d_x may be exactly x when in_place is set. d_loss is read on the device; a later
upstream gradient: scale.
Matrix products: as in fused_linear_cross_entropy; on a CPU 16-bit tensors are copied to f32, both weights whole.""",
       [dim("n_classes", "V", "weight", "classes"), dim("n_cols", "H", "x", "width of x"),
        dim("n_target_cols", "T", "target_x", "width of target_x"), dtype("dtype", "x", "of x, weight, target_x and target_weight"),
        *DIVERGENCE_LABELS, dtype("d_weight_dtype", "d_weight", "f32 or dtype; 0 = d_weight is not wanted", optional=True),
        ACCUMULATE, option("reduction", "int32_t", "LIGERDSL_REDUCTION_BATCHMEAN", "LIGERDSL_REDUCTION_*, but NONE", 1, 3),
        option("beta", "float", "0.5f", "weight of the teacher in the mixture", 0, 1),
        option("temperature", "float", "0.0f", "divides both logits; 0 = off, as 1", 1e-4, 1e30, or_zero=True),
        present("d_loss"), present("d_x", "1: `d_x` is wanted"), absent("loss"), in_place("1: d_x may be exactly x"),
        option("max_workspace_bytes", "int64_t", "0", "limit of the workspace; 0 = see above", 0),
        option("chunk_rows", "int64_t", "0", "rows of a chunk; 0 = see above", 0), LOSS_DTYPE_ALONE, D_LOSS_DTYPE],
       [Tensor("x", "in", "N* H", "dtype", "hidden states of the student"),
        Tensor("weight", "in", "V H", "dtype", "its head"),
        Tensor("target_x", "in", "N* T", "dtype", "hidden states of the teacher"),
        Tensor("target_weight", "in", "V T", "dtype", "its head"),
        indices("labels", "N*", "label_dtype", "which rows count, or NULL for all", "label_dtype"),
        Tensor("d_loss", "in", "G*", "d_loss_dtype", "gradient of the loss, one element, or NULL for 1", "with_d_loss"),
        Tensor("loss", "out", "L*", "loss_dtype", "one element, or NULL", "!without_loss"),
        Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "with_d_x"),
        Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight, or NULL", "d_weight_dtype")],
       rows="rows of x", aliases=[("d_x", "x")]),

    Op("tvd", "total variation distance of rows, gradient included",
       """With x of input and y of target: |x - y| / 2. Its gradient by x is that of the sign, 0 where x = y.""" + DIVERGENCE_DOC + DIVERGENCE_LABELS_DOC,
       [*DIVERGENCE_FIELDS, *DIVERGENCE_LABELS, *DIVERGENCE_OUTPUTS],
       divergence_tensors("probabilities that are trained", "probabilities", True),
       rows="rows of input", aliases=[("d_input", "input")]),

    Op("target_counts", "what a mean over targets divides by, counted on the device",
       """n = labels that are not ignore_index, S = sum of class_weight[label] over them (n without weights; labels outside [0, V) add
nothing), W = sum of class_weight (0 without). counts = 1/n, 1/S, W, n; 1/n and 1/S are 0 when n is 0. Sums in f32, in a fixed order.""",
       [dtype("label_dtype", "labels", "", INDEX),
        dim("n_classes", "V", "class_weight", "classes, 0 without class_weight", optional=True),
        option("ignore_index", "int64_t", "-100", "labels that do not count"), present("class_weight"), CLASS_WEIGHT_DTYPE],
       [indices("labels", "N*", "label_dtype", "class of each row, or ignore_index"),
        Tensor("class_weight", "in", "V", "class_weight_dtype", "weight of each class, or NULL", "with_class_weight"),
        Tensor("counts", "out", "4", "f32", "1/n, 1/S, W, n")],
       rows="labels"),

    Op("embedding_forward", "out[i] = weight[indices[i]], and a row for the position",
       """out[i] = weight[indices[i]], or round(weight[indices[i]] + position_weight[i mod P]): the rows of sequences of P tokens, one after
the other, as GPT-2 has them; position_weight's gradient is bias_add_backward of d_out as rows of P * H. An index outside [0, n_rows): that
row of out is NaN and ligerdsl_context_check reports it.""",
       [dim("n_cols", "H", "weight", "row width"), dim("n_rows", "V", "weight", "rows of weight"), dtype("dtype", "weight"),
        dtype("index_dtype", "indices", "", INDEX),
        dim("n_positions", "P", "position_weight", "rows of position_weight, 0 without position_weight", optional=True),
        present("position_weight")],
       [indices("indices", "N*", "index_dtype", "rows to copy"), Tensor("weight", "in", "V H", "dtype", "the table"),
        Tensor("out", "out", "N* H", "dtype", "the rows"),
        Tensor("position_weight", "in", "P H", "dtype", "a row of each position, or NULL", "with_position_weight")],
       rows="indices"),

    Op("embedding_backward", "d_weight[v] = sum of d_out[i] over indices[i] = v",
       """Sums in f32 and in an order that the indices alone decide, so every run gives the same bits; rows that no index names
become 0 (stay, with accumulate). Indices outside [0, n_rows) add nothing.""",
       [dim("n_cols", "H", "d_weight", "row width"), dim("n_rows", "V", "d_weight", "rows of d_weight"), dtype("dtype", "d_out"),
        dtype("d_weight_dtype", "d_weight", "f32 or dtype"), dtype("index_dtype", "indices", "", INDEX), ACCUMULATE],
       [indices("indices", "N*", "index_dtype", "the forward's indices"),
        Tensor("d_out", "in", "N* H", "dtype", "gradient of out"),
        Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight")],
       rows="indices"),

    Op("adamw_step", "AdamW on one tensor",
       """g = grad * clip_factor; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
param -= lr * (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps) + weight_decay * param). Arithmetic in f32, one
rounding into param and one into param_copy. Updates param, m and v in place.""",
       [dtype("dtype", "param", "of param"), dtype("grad_dtype", "grad"),
        dtype("copy_dtype", "param_copy", "of param_copy; 0 = no copy", optional=True), present("clip_factor"),
        present("device_step", "1: device_lr and device_step are passed, so that a captured graph can be replayed")],
       [Value("lr", "float", "1e-3f", "learning rate, unless device_lr is passed", 0, unless="with_device_step"),
        Value("beta1", "float", "0.9f", "decay of m", 0, 1, below_high=True),
        Value("beta2", "float", "0.999f", "decay of v", 0, 1, below_high=True),
        Value("eps", "float", "1e-8f", "added to the root", 0),
        Value("weight_decay", "float", "0.0f", "decoupled decay", 0),
        Value("step", "int64_t", "1", "number of this step, unless device_step is passed", 1, unless="with_device_step"),
        Tensor("param", "inout", "N*", "dtype", "parameters"), Tensor("grad", "in", "N*", "grad_dtype", "gradient"),
        Tensor("m", "inout", "N*", "f32", "first moment"), Tensor("v", "inout", "N*", "f32", "second moment"),
        Tensor("param_copy", "out", "N*", "copy_dtype", "rounded copy of param, or NULL", "copy_dtype"),
        Tensor("clip_factor", "in", "1", "f32", "multiplies grad, or NULL", "with_clip_factor"),
        Tensor("device_lr", "in", "1", "f32", "learning rate on the device, or NULL", "with_device_step"),
        Tensor("device_step", "in", "1", "i64", "step on the device, or NULL", "with_device_step")],
       rows="elements"),

    Op("global_norm", "norm of a list of tensors and the factor that clips it",
       """norm = sqrt(sum over all tensors of g^2), clip_factor = min(1, max_norm / (norm + 1e-6)); f32, fixed order. A NaN or Inf
anywhere gives a norm that is not finite. An empty list gives 0 and 1.""",
       [dtype("dtype", "", "of every tensor; the one-call form takes it from the first"), present("clip_factor"),
        present("nonfinite")],
       [TensorList("tensors", "contiguous tensors of one dtype"),
        Value("max_norm", "float", "1.0f", "largest norm that is not scaled down", 0, infinite=True),
        Tensor("norm", "out", "1", "f32", "the norm"),
        Tensor("clip_factor", "out", "1", "f32", "what to multiply gradients with, or NULL", "with_clip_factor"),
        Tensor("nonfinite", "out", "1", "i32", "1 if the norm is NaN or infinite, else 0; or NULL", "with_nonfinite")],
       rows="elements of all tensors, plus 65,536 for each tensor"),
]
