"""LayerNorm, with and without a residual sum before it."""

from fields.parameters import (LAYER_NORM_EPS, NORM_ACCUMULATE, NORM_BIAS, NORM_BIAS_TENSOR,
                               NORM_D_BIAS, NORM_D_BIAS_TENSOR, NORM_D_WEIGHT,
                               NORM_D_WEIGHT_TENSOR, NORM_D_X_TENSOR, NORM_RSTD_TENSOR,
                               NORM_WEIGHT_TENSOR)
from table import Op, Plan, Tensor, absent, dim, dtype, in_place, present

KIND, TITLE = "norms", "LayerNorm (with residual addition)"

LAYER_NORM_DOC = """mean and rstd = 1 / sqrt(mean((x - mean)^2) + eps) are those of a row:
  y = round((x - mean) * rstd * weight + bias)
bias is 0 if it is not passed. Arithmetic is f32. The statistics stay accurate if the mean is much
larger than the deviations. Squares and their sum are f32:
  - if the sum of squared deviations of a row is above 3.4e38 (4,096 deviations of 2.9e17), rstd
    is 0 or NaN;
  - if its variance plus eps is below 1e-38, rstd is above 1e19, infinite or NaN, and y has lost
    digits.
rstd thus shows both."""
LAYER_NORM_GRAD = """n = (x - mean) * rstd, q = d_y * weight:
  d_x = rstd * (q - n * mean(n * q) - mean(q))
  d_weight = sum over rows of d_y * n
  d_bias = sum over rows of d_y
Accumulates in f32 in a fixed order."""

OPS = [
    Op("layer_norm_forward",
       "LayerNorm",
       LAYER_NORM_DOC, [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), LAYER_NORM_EPS,
           present("mean", usual=True),
           present("rstd", usual=True), NORM_BIAS
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           NORM_WEIGHT_TENSOR,
           NORM_BIAS_TENSOR,
           Tensor("y", "out", "N* H", "dtype", "normalised rows"),
           Tensor("mean", "out", "N*", "f32", "mean of each row, which the backward reads, or NULL",
                  "with_mean"),
           Tensor("rstd", "out", "N*", "f32", "rstd of each row, which the backward reads, or NULL",
                  "with_rstd")
       ],
       rows="rows of x",
       sharding="rows x",
       plan=Plan(
           "cols=n_cols type=dtype weight_type=weight_dtype with_mean with_rstd "
           "without_bias=!bias_dtype",
           numbers="eps"),
       cases=["dtype=bf16", "with_mean=0 with_rstd=0", "dtype=bf16 bias_dtype=none"],
       recorded=["dtype=bf16", "with_mean=0 with_rstd=0 H=50000"],
       checks=["dtype=bf16 N=5 H=100"],
       large=["row dtype=bf16 H={4096|64}", "narrow dtype=bf16 H=2"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("layer_norm_backward",
       "gradient of LayerNorm",
       LAYER_NORM_GRAD + "\nd_x may be exactly d_y when in_place is set.", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), NORM_D_WEIGHT, NORM_ACCUMULATE,
           in_place("1: d_x may be exactly d_y"), NORM_D_BIAS,
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("x", "in", "N* H", "dtype", "the forward's x"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
           Tensor("mean", "in", "N*", "f32", "the forward's mean"),
           NORM_RSTD_TENSOR,
           NORM_D_X_TENSOR,
           NORM_D_WEIGHT_TENSOR,
           NORM_D_BIAS_TENSOR
       ],
       rows="rows of x",
       sharding="rows d_y",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           "cols=n_cols type=dtype weight_type=weight_dtype d_weight_type=d_weight_dtype "
           "accumulate without_d_x",
           hook=True),
       cases=[
           "dtype=bf16", "dtype=bf16 d_bias_dtype=none", "d_weight_dtype=none d_bias_dtype=f32",
           "d_weight_dtype=f32 accumulate=1", "dtype=bf16 without_d_x=1",
           "dtype=bf16 without_d_x=1 d_weight_dtype=none d_bias_dtype=bf16"
       ],
       recorded=[
           "dtype=bf16 d_weight_dtype=f32 accumulate=1", "in_place=1 H=65536",
           "d_weight_dtype=none", "dtype=f16 without_d_x=1"
       ],
       checks=[
           "dtype=f16 d_weight_dtype=f32 N=5 H=100 accumulate=1",
           "without_d_x=1 N=50 H=100 dtype=f16 d_weight_dtype=none d_bias_dtype=f32"
       ],
       large=[
           "row dtype=bf16 H={4096|64} d_weight_dtype=f32",
           "row dtype=bf16 H={4096|64} d_weight_dtype=f32 without_d_x=1"
       ],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
    Op("fused_add_layer_norm_forward",
       "residual sum and LayerNorm in one pass",
       "sum = round(x + residual), y = LayerNorm(sum) of the rounded sum. In the formulas x is "
       "sum:\n"
       + LAYER_NORM_DOC + "\nsum may be exactly x or residual when in_place is set.", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), NORM_BIAS, LAYER_NORM_EPS,
           present("mean", usual=True),
           present("rstd", usual=True),
           in_place("1: sum may be exactly x or residual")
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           Tensor("residual", "in", "N* H", "dtype", "rows added to x"),
           NORM_WEIGHT_TENSOR,
           NORM_BIAS_TENSOR,
           Tensor("y", "out", "N* H", "dtype", "normalised rows"),
           Tensor("sum", "out", "N* H", "dtype", "x + residual"),
           Tensor("mean", "out", "N*", "f32", "mean of each row, which the backward reads, or NULL",
                  "with_mean"),
           Tensor("rstd", "out", "N*", "f32", "rstd of each row, which the backward reads, or NULL",
                  "with_rstd")
       ],
       rows="rows of x",
       sharding="rows x",
       aliases=[("sum", "x"), ("sum", "residual")],
       plan=Plan(
           "cols=n_cols type=dtype weight_type=weight_dtype with_mean with_rstd "
           "without_bias=!bias_dtype",
           numbers="eps"),
       cases=["dtype=bf16", "in_place=1 bias_dtype=none"],
       recorded=["in_place=1", "dtype=bf16 bias_dtype=none H=65536"],
       checks=["in_place=1 N=5 H=100 dtype=bf16", "bias_dtype=none N=5 H=100"],
       large=["row dtype=bf16 H={4096|64}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("fused_add_layer_norm_backward",
       "gradient of fused_add_layer_norm",
       "d_x = round(LayerNorm gradient of d_y at sum + d_sum), the gradient of x and of residual. "
       "In the\nformulas x is sum:\n"
       + LAYER_NORM_GRAD + "\nd_x may be exactly d_y or d_sum when in_place is set.", [
           dim("n_cols", "H", "sum", "row width"),
           dtype("dtype", "sum"),
           dtype("weight_dtype", "weight"), NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE,
           present("d_sum"),
           in_place("1: d_x may be exactly d_y or d_sum"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("d_sum", "in", "N* H", "dtype", "gradient of sum from its other uses, or NULL",
                  "with_d_sum"),
           Tensor("sum", "in", "N* H", "dtype", "the forward's sum"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
           Tensor("mean", "in", "N*", "f32", "the forward's mean"),
           NORM_RSTD_TENSOR,
           Tensor("d_x", "out", "N* H", "dtype", "gradient of x and of residual, or NULL",
                  "!without_d_x"),
           NORM_D_WEIGHT_TENSOR,
           NORM_D_BIAS_TENSOR
       ],
       rows="rows of sum",
       sharding="rows d_y",
       aliases=[("d_x", "d_y"), ("d_x", "d_sum")],
       plan=Plan(
           "cols=n_cols type=dtype weight_type=weight_dtype d_weight_type=d_weight_dtype "
           "accumulate without_d_x with_d_sum",
           hook=True),
       cases=[
           "dtype=bf16 with_d_sum=1", "with_d_sum=1 in_place=1 d_bias_dtype=none",
           "without_d_x=1 accumulate=1"
       ],
       recorded=["with_d_sum=1 in_place=1", "d_bias_dtype=none dtype=bf16 H=131072"],
       checks=[
           "with_d_sum=1 in_place=1 N=5 H=100 d_weight_dtype=f32",
           "N=5 H=100 dtype=f16 d_weight_dtype=none d_bias_dtype=f32 accumulate=1",
           "N=50 H=100 dtype=bf16 without_d_x=1"
       ],
       large=["row dtype=bf16 H={4096|64} d_weight_dtype=f32 with_d_sum=1"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
]
