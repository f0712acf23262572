"""Fields and tensors shared by several losses."""

from table import INDEX, Tensor, dtype, option

LOSS_DTYPE = dtype("loss_dtype", "loss", "also of z_loss", optional=True, zero="f32")
CLASS_WEIGHT_DTYPE = dtype("class_weight_dtype", "class_weight", optional=True, zero="f32",
                           usual=True)
LOSS_DTYPE_ALONE = dtype("loss_dtype", "loss", optional=True, zero="f32")
D_LOSS_DTYPE = dtype("d_loss_dtype", "d_loss", optional=True, zero="f32")
CLASS_WEIGHT_TENSOR = Tensor("class_weight", "in", "V", "class_weight_dtype",
                             "weight of each class, or NULL", "with_class_weight", positive=True)
LOSS_TENSOR = Tensor("loss", "out", "L*", "loss_dtype",
                     "[rows] for NONE, else one element; or NULL", "!without_loss")
TEMPERATURE = option("temperature", "float", "0.0f",
                     "divides the logits after softcap; 0 = off, like 1", 1e-4, 1e30, or_zero=True)
CROSS_ENTROPY_TERMS = [
    option("label_smoothing", "float", "0.0f", "a in the formulas", 0, 1),
    option("lse_square_scale", "float", "0.0f", "weight of the z loss", 0),
    option("softcap", "float", "0.0f", "0 = off", 1e-30, 1e30, or_zero=True)]
ENTROPY_TENSORS = [
    Tensor("entropy", "out", "N*", "f32", "entropy of each row in nats, 0 at ignored rows, or NULL",
           "with_entropy"),
    Tensor("d_entropy", "in", "N*", "f32", "gradient of entropy, or NULL for 0", "with_d_entropy")]
DIVERGENCE_LABELS = [
    dtype("label_dtype", "labels", "0 = every row counts", INDEX, optional=True),
    option("ignore_index", "int64_t", "-100", "rows with this label do not count")]
