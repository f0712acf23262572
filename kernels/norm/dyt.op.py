"""DyT, a tanh instead of a norm."""

from fields.parameters import (NORM_BIAS, NORM_BIAS_TENSOR, NORM_D_BIAS, NORM_D_BIAS_TENSOR,
                               NORM_D_WEIGHT, NORM_D_WEIGHT_TENSOR, NORM_D_X_TENSOR,
                               NORM_WEIGHT_TENSOR)
from table import Op, Plan, Tensor, absent, dim, dtype, flag, in_place

KIND, TITLE = "norms", "DyT"

DYT_DOC = """t = tanh(alpha * x), y = round(weight * t + bias); bias is 0 if it is not passed. Arithmetic is f32.
tanh has a relative error of at most 5e-6."""
DYT_GRAD = """t = tanh(alpha * x), g = d_y * (1 - t^2):
  d_x = round(alpha * weight * g)
  d_alpha = sum over all elements of x * weight * g
  d_weight = sum over rows of d_y * t
  d_bias = sum over rows of d_y
Accumulates in f32 in a fixed order. Without rows d_alpha, d_weight and d_bias are 0. d_x may be
exactly d_y when in_place is set."""

OPS = [
    Op("dyt_forward",
       "DyT: dynamic tanh of rows",
       DYT_DOC + "\ny may be exactly x when in_place is set.", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", "also of alpha"), NORM_BIAS,
           in_place("1: y may be exactly x")
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           Tensor("alpha", "in", "1", "weight_dtype", "multiplies every element"),
           NORM_WEIGHT_TENSOR,
           NORM_BIAS_TENSOR,
           Tensor("y", "out", "N* H", "dtype", "the scaled tanh")
       ],
       rows="rows of x",
       sharding="rows x",
       aliases=[("y", "x")],
       plan=Plan("cols=n_cols type=dtype weight_type=weight_dtype without_bias=!bias_dtype"),
       cases=["dtype=bf16", "bias_dtype=none in_place=1"],
       checks=["N=5 H=100 dtype=bf16", "N=5 H=100 bias_dtype=none in_place=1"],
       large=["row dtype=bf16 H={4096|64}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("dyt_backward",
       "gradient of DyT",
       DYT_GRAD, [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", "also of alpha"),
           dtype("d_alpha_dtype",
                 "d_alpha",
                 "f32 or weight_dtype, equal to d_weight_dtype; 0 = d_alpha is not wanted",
                 optional=True,
                 gradient_of="weight_dtype"), NORM_D_WEIGHT, NORM_D_BIAS,
           flag("accumulate",
                "1: d_alpha +=, d_weight += and d_bias += instead of =; all must be f32"),
           in_place("1: d_x may be exactly d_y"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("x", "in", "N* H", "dtype", "the forward's x"),
           Tensor("alpha", "in", "1", "weight_dtype", "the forward's alpha"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight"),
           NORM_D_X_TENSOR,
           Tensor("d_alpha", "inout", "1", "d_alpha_dtype", "gradient of alpha, or NULL",
                  "d_alpha_dtype"),
           NORM_D_WEIGHT_TENSOR,
           NORM_D_BIAS_TENSOR
       ],
       rows="rows of x",
       sharding="rows d_y",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           """cols=n_cols type=dtype weight_type=weight_dtype want_d_alpha=d_alpha_dtype want_d_weight=d_weight_dtype
want_d_bias=d_bias_dtype d_weight_type=d_weight_dtype accumulate without_d_x"""),
       cases=["dtype=bf16 d_weight_dtype=f32", "without_d_x=1 d_weight_dtype=f32 accumulate=1"],
       checks=["N=50 H=100 dtype=bf16 d_weight_dtype=f32 accumulate=1", "N=50 H=100 without_d_x=1"],
       large=["row dtype=bf16 H={4096|64} d_weight_dtype=f32"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
]
