"""RMSNorm, with and without a residual sum before it."""

from fields.parameters import (ACCUMULATE, CASTING, EPS, NORM_D_WEIGHT, NORM_D_WEIGHT_TENSOR,
                               NORM_D_X_TENSOR, NORM_RANGE, NORM_RSTD_TENSOR, OFFSET)
from table import Op, Plan, Tensor, absent, dim, dtype, in_place, present

KIND, TITLE = "norms", "RMSNorm (with residual addition)"

NORM_DOC = """ms = mean(x^2) over a row, rstd = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight):
  LLAMA: y = round(round(x * rstd) * w')
  GEMMA and NONE: y = round(x * rstd * w')
Arithmetic is f32; round() rounds to dtype.""" + NORM_RANGE
NORM_GRAD = """m = d_y * w', n = round(x * rstd) for LLAMA, else x * rstd:
  d_x = rstd * (m - x * rstd^2 * mean(m * x))
  d_weight = sum over rows of d_y * n
Accumulates in f32 in a fixed order."""

OPS = [
    Op("rms_norm_forward",
       "RMSNorm",
       NORM_DOC, [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", optional=True, usual=True), CASTING, EPS, OFFSET,
           present("rstd", usual=True)
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL",
                  "weight_dtype"),
           Tensor("y", "out", "N* H", "dtype", "normalised rows"),
           Tensor("rstd", "out", "N*", "f32",
                  "1 / sqrt(ms + eps) of each row, which the backward reads", "with_rstd")
       ],
       rows="rows of x",
       sharding="rows x",
       plan=Plan(
           "cols=n_cols type=dtype casting has_weight=weight_dtype weight_type=weight_dtype "
           "has_offset=offset with_rstd",
           numbers="eps offset"),
       cases=["dtype=bf16 casting=gemma", "dtype=f16 weight_dtype=none with_rstd=0"],
       recorded=["dtype=bf16 casting=gemma", "weight_dtype=none with_rstd=0"],
       checks=["dtype=bf16 N=5 H=100", "dtype=f16 casting=gemma offset=1 N=5 H=100"],
       large=["row dtype=bf16 H={4096|64}", "narrow dtype=bf16 H=2"],
       layers=["dtype={bf16|f32} N={tokens} H={hidden}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("rms_norm_backward",
       "gradient of RMSNorm",
       NORM_GRAD + "\nd_x may be exactly d_y when in_place is set.", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", optional=True, usual=True), NORM_D_WEIGHT, ACCUMULATE,
           CASTING, OFFSET,
           in_place("1: d_x may be exactly d_y"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("x", "in", "N* H", "dtype", "the forward's x"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL",
                  "weight_dtype"),
           NORM_RSTD_TENSOR,
           NORM_D_X_TENSOR,
           NORM_D_WEIGHT_TENSOR
       ],
       rows="rows of x",
       sharding="rows d_y",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           """cols=n_cols type=dtype casting has_weight=weight_dtype weight_type=weight_dtype
           has_offset=offset
want_d_weight=d_weight_dtype d_weight_type=d_weight_dtype accumulate without_d_x""",
           numbers="offset"),
       cases=[
           "dtype=bf16 d_weight_dtype=f32", "d_weight_dtype=f32 accumulate=1 in_place=1",
           "dtype=bf16 d_weight_dtype=f32 without_d_x=1"
       ],
       recorded=[
           "dtype=bf16 d_weight_dtype=f32 accumulate=1", "dtype=bf16 H=131072",
           "dtype=bf16 H=131072 without_d_x=1"
       ],
       checks=[
           "dtype=bf16 d_weight_dtype=f32 accumulate=1 N=50 H=100",
           "weight_dtype=none d_weight_dtype=none N=5 H=100 in_place=1",
           "dtype=bf16 without_d_x=1 N=50 H=100 d_weight_dtype=f32", "without_d_x=1 N=0 H=100"
       ],
       large=[
           "row dtype=bf16 H={4096|64} d_weight_dtype=f32",
           "row dtype=bf16 H={4096|64} d_weight_dtype=f32 without_d_x=1",
           "narrow dtype=bf16 H=2 d_weight_dtype=f32",
           "narrow dtype=bf16 H=2 d_weight_dtype=f32 without_d_x=1"
       ],
       layers=["dtype={bf16|f32} N={tokens} H={hidden} d_weight_dtype=f32"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
    Op("fused_add_rms_norm_forward",
       "residual sum and RMSNorm in one pass",
       "sum = round(x + residual), y = RMSNorm(sum) of the rounded sum. In the formulas x is sum:\n"
       + NORM_DOC + "\nsum may be exactly x or residual when in_place is set.", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", optional=True, usual=True), CASTING, EPS, OFFSET,
           present("rstd", usual=True),
           in_place("1: sum may be exactly x or residual")
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           Tensor("residual", "in", "N* H", "dtype", "rows added to x"),
           Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL",
                  "weight_dtype"),
           Tensor("y", "out", "N* H", "dtype", "normalised rows"),
           Tensor("sum", "out", "N* H", "dtype", "x + residual"),
           Tensor("rstd", "out", "N*", "f32",
                  "1 / sqrt(ms + eps) of each row, which the backward reads", "with_rstd")
       ],
       rows="rows of x",
       sharding="rows x",
       aliases=[("sum", "x"), ("sum", "residual")],
       plan=Plan(
           "cols=n_cols type=dtype casting has_weight=weight_dtype weight_type=weight_dtype "
           "has_offset=offset with_rstd",
           numbers="eps offset"),
       cases=["dtype=bf16", "in_place=1"],
       recorded=["in_place=1"],
       checks=["in_place=1 N=5 H=100 dtype=bf16"],
       large=["row dtype=bf16 H={4096|64}"],
       layers=["dtype={bf16|f32} N={tokens} H={hidden}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("fused_add_rms_norm_backward",
       "gradient of fused_add_rms_norm",
       "d_x = round(RMSNorm gradient of d_y at sum + d_sum), the gradient of x and of residual. In "
       "the\nformulas x is sum:\n"
       + NORM_GRAD + "\nd_x may be exactly d_y or d_sum when in_place is set.", [
           dim("n_cols", "H", "sum", "row width"),
           dtype("dtype", "sum"),
           dtype("weight_dtype", "weight", optional=True, usual=True), NORM_D_WEIGHT, ACCUMULATE,
           CASTING, OFFSET,
           present("d_sum"),
           in_place("1: d_x may be exactly d_y or d_sum"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("d_sum", "in", "N* H", "dtype", "gradient of sum from its other uses, or NULL",
                  "with_d_sum"),
           Tensor("sum", "in", "N* H", "dtype", "the forward's sum"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL",
                  "weight_dtype"),
           NORM_RSTD_TENSOR,
           Tensor("d_x", "out", "N* H", "dtype", "gradient of x and of residual, or NULL",
                  "!without_d_x"),
           NORM_D_WEIGHT_TENSOR
       ],
       rows="rows of sum",
       sharding="rows d_y",
       aliases=[("d_x", "d_y"), ("d_x", "d_sum")],
       plan=Plan(
           """cols=n_cols type=dtype casting has_weight=weight_dtype weight_type=weight_dtype
           has_offset=offset
want_d_weight=d_weight_dtype d_weight_type=d_weight_dtype accumulate without_d_x with_d_sum""",
           numbers="offset"),
       cases=["dtype=bf16 with_d_sum=1", "with_d_sum=1 in_place=1", "without_d_x=1 casting=none"],
       recorded=["with_d_sum=1 in_place=1"],
       checks=["with_d_sum=1 in_place=1 N=5 H=100 d_weight_dtype=f32"],
       large=["row dtype=bf16 H={4096|64} d_weight_dtype=f32 with_d_sum=1"],
       layers=["dtype={bf16|f32} N={tokens} H={hidden} d_weight_dtype=f32"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
]
