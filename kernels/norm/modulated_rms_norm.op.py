"""RMSNorm with one scale and shift per segment of rows."""

from fields.parameters import (CASTING, EPS, NORM_D_WEIGHT, NORM_D_WEIGHT_TENSOR, NORM_D_X_TENSOR,
                               NORM_RANGE, NORM_RSTD_TENSOR, OFFSET)
from table import Op, Plan, Tensor, absent, dim, dtype, flag, in_place, present

KIND, TITLE = "norms", "modulated RMSNorm"

MODULATED_DOC = """s and h are the rows of scale and shift that belong to a row of x. With N rows and K modulations, row i
has modulation i / (N / K), rounded down. N is a multiple of K. ms = mean(x^2) over a row,
rstd = 1 / sqrt(ms + eps), w' = offset + weight (1 without a weight), n = round(x * rstd) for LLAMA,
x * rstd for GEMMA and NONE."""
MODULATED_VALUE = """
  y = round(n * w' * (1 + s) + h)
h is 0 if shift is not passed. Arithmetic is f32.""" + NORM_RANGE
MODULATED_GRAD = """
With p = d_y * (1 + s):
  d_x = rstd * (p * w' - x * rstd^2 * mean(p * w' * x))
  d_weight = sum over rows of p * n
  d_scale = sum over the rows of a modulation of d_y * n * w'
  d_shift = sum over the rows of a modulation of d_y
Accumulates in f32 in a fixed order. Without rows d_weight, d_scale and d_shift are 0. d_x may be
exactly d_y when in_place is set."""
MODULATION_HINT = "one row for all rows of x is [1, n_cols]"
MODULATED_SIZES = [
    dim("n_cols", "H", "x", "row width"),
    dim("n_modulations", "K", "scale", "rows of scale and shift, a divisor of the rows of x")]
MODULATED_CASE_SIZES = {"N": "(rows + 2) / 3 * 3", "K": 3, "H": 520}

OPS = [
    Op("modulated_rms_norm_forward", "RMSNorm with one scale and shift per segment of rows (AdaLN)",
       MODULATED_DOC + MODULATED_VALUE,
       [*MODULATED_SIZES, dtype("dtype", "x"),
        dtype("weight_dtype", "weight", optional=True, usual=True),
        dtype("scale_dtype", "scale", "also of shift"), CASTING, EPS, OFFSET,
        present("shift", usual=True), present("rstd", usual=True)],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "H", "weight_dtype", "scale of each column, or NULL",
               "weight_dtype"),
        Tensor("scale", "in", "K H", "scale_dtype", "row of each modulation, added to 1",
               hint=MODULATION_HINT),
        Tensor("shift", "in", "K H", "scale_dtype",
               "row of each modulation, added to the scaled rows, or NULL", "with_shift",
               hint=MODULATION_HINT),
        Tensor("y", "out", "N* H", "dtype", "modulated rows"),
        Tensor("rstd", "out", "N*", "f32",
               "1 / sqrt(ms + eps) of each row, which the backward reads", "with_rstd")],
       rows="rows of x",
       sharding="modulated",
       plan=Plan(
           """cols=n_cols type=dtype casting has_weight=weight_dtype weight_type=weight_dtype has_offset=offset
scale_type=scale_dtype has_shift=with_shift with_rstd""",
           numbers="eps offset",
           hook=True),
       cases=["dtype=bf16", "casting=gemma offset=1 with_shift=0 K=1"],
       checks=[
           "dtype=bf16 N=6 H=100 K=2",
           "casting=gemma offset=1 scale_dtype=f32 dtype=f16 N=6 H=100 K=6 with_shift=0"
       ],
       sizes={"K": 2},
       case_sizes=MODULATED_CASE_SIZES,
       large=["row dtype=bf16 H={4096|64} K=1", "narrow dtype=bf16 H=2 K=1"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} K=4"]),
    Op("modulated_rms_norm_backward",
       "gradient of modulated_rms_norm",
       MODULATED_DOC + MODULATED_GRAD, [
           *MODULATED_SIZES,
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight", optional=True, usual=True),
           dtype("scale_dtype", "scale"), NORM_D_WEIGHT,
           dtype("d_scale_dtype",
                 "d_scale",
                 "f32 or scale_dtype; 0 = d_scale is not wanted",
                 optional=True,
                 gradient_of="scale_dtype"),
           dtype("d_shift_dtype",
                 "d_shift",
                 "f32 or scale_dtype, equal to d_scale_dtype; 0 = d_shift is not wanted",
                 optional=True,
                 gradient_of="scale_dtype"),
           flag("accumulate",
                "1: d_weight +=, d_scale += and d_shift += instead of =; all must be f32"), CASTING,
           OFFSET,
           in_place("1: d_x may be exactly d_y"),
           absent("d_x")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("x", "in", "N* H", "dtype", "the forward's x"),
           Tensor("weight", "in", "H", "weight_dtype", "the forward's weight, or NULL",
                  "weight_dtype"),
           Tensor("scale", "in", "K H", "scale_dtype", "the forward's scale", hint=MODULATION_HINT),
           NORM_RSTD_TENSOR,
           NORM_D_X_TENSOR,
           NORM_D_WEIGHT_TENSOR,
           Tensor("d_scale",
                  "inout",
                  "K H",
                  "d_scale_dtype",
                  "gradient of scale, or NULL",
                  "d_scale_dtype",
                  hint=MODULATION_HINT),
           Tensor("d_shift",
                  "inout",
                  "K H",
                  "d_shift_dtype",
                  "gradient of shift, or NULL",
                  "d_shift_dtype",
                  hint=MODULATION_HINT)
       ],
       rows="rows of x",
       sharding="modulated",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           """cols=n_cols type=dtype modulations=n_modulations casting has_weight=weight_dtype weight_type=weight_dtype has_offset=offset
scale_type=scale_dtype want_d_weight=d_weight_dtype d_weight_type=d_weight_dtype want_d_scale=d_scale_dtype want_d_shift=d_shift_dtype
d_scale_type=d_scale_dtype accumulate without_d_x""",
           numbers="offset",
           hook=True),
       cases=[
           "dtype=bf16 d_weight_dtype=f32", "in_place=1 accumulate=1",
           "without_d_x=1 d_scale_dtype=none"
       ],
       checks=[
           "dtype=bf16 d_weight_dtype=f32 accumulate=1 N=60 H=100 K=3",
           "weight_dtype=none d_weight_dtype=none N=6 H=100 K=1 in_place=1",
           "without_d_x=1 N=60 H=100 K=3 d_shift_dtype=none", "N=0 H=100 K=3"
       ],
       sizes={"K": 2},
       case_sizes=MODULATED_CASE_SIZES,
       large=["row dtype=bf16 H={4096|64} K=1 d_weight_dtype=f32",
              "narrow dtype=bf16 H=2 K=1 d_weight_dtype=f32"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} K=4"]),
]
