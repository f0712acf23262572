"""Fields and tensors for norm parameters and for parameter gradients."""

from table import Tensor, dtype, flag, option

ACCUMULATE = flag("accumulate", "1: d_weight += instead of =; d_weight must be f32")
EPS = option("eps", "float", "1e-6f", "added to the mean square", 0)
LAYER_NORM_EPS = option("eps", "float", "1e-6f", "added to the variance", 0)
NORM_BIAS = dtype("bias_dtype", "bias", "weight_dtype; 0 = no bias", optional=True,
                  same_as="weight_dtype")
NORM_D_WEIGHT = dtype("d_weight_dtype", "d_weight",
                      "f32 or weight_dtype; 0 = d_weight is not wanted", optional=True,
                      gradient_of="weight_dtype")
NORM_D_BIAS = dtype("d_bias_dtype", "d_bias",
                    "f32 or weight_dtype, the same as d_weight_dtype; 0 = d_bias is not wanted",
                    optional=True, gradient_of="weight_dtype")
NORM_ACCUMULATE = flag("accumulate", "1: d_weight += and d_bias += instead of =; both must be f32")
CASTING = option("casting", "int32_t", "LIGERDSL_CASTING_LLAMA",
                 "LIGERDSL_CASTING_*: where the norm rounds", 0, 2)
OFFSET = option("offset", "float", "0.0f", "added to every weight; 1 for zero-centred weights")

NORM_WEIGHT_TENSOR = Tensor("weight", "in", "H", "weight_dtype", "scale of each column")
NORM_BIAS_TENSOR = Tensor("bias", "in", "H", "bias_dtype", "added to each column, or NULL",
                          "bias_dtype")
NORM_RSTD_TENSOR = Tensor("rstd", "in", "N*", "f32", "the forward's rstd", positive=True)
NORM_D_X_TENSOR = Tensor("d_x", "out", "N* H", "dtype", "gradient of x, or NULL", "!without_d_x")
NORM_D_WEIGHT_TENSOR = Tensor("d_weight", "inout", "H", "d_weight_dtype",
                              "gradient of weight, or NULL", "d_weight_dtype")
NORM_D_BIAS_TENSOR = Tensor("d_bias", "inout", "H", "d_bias_dtype", "gradient of bias, or NULL",
                            "d_bias_dtype")

NORM_RANGE = """
Squares and their sum are f32:
  - if the sum of squares of a row is above 3.4e38 (4,096 values of 2.9e17), rstd and y are 0;
  - if the mean of squares plus eps is below 1e-38, rstd is above 1e19 or infinite, and y has lost
    digits.
So rstd reveals both cases."""
