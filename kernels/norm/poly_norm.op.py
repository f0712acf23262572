"""PolyNorm."""

from fields.parameters import EPS, NORM_ACCUMULATE, NORM_D_BIAS, NORM_D_WEIGHT
from table import Op, Plan, Tensor, dim, dtype, in_place, present

KIND, TITLE = "norms", "PolyNorm"

POLY_NORM_DOC = """u_p = x^p / sqrt(mean(x^2p) + eps) over a row, p = 1, 2, 3:
  y = round(weight[0] * u_3 + weight[1] * u_2 + weight[2] * u_1 + bias)
rstd holds 1 / sqrt(mean(x^2p) + eps) in the order of weight. Arithmetic is f32: the sum of x^6 is
finite for |x| up to 1e6."""
POLY_NORM_GRAD = """r_p and v_p are the elements of rstd and weight for x^p, s_p = sum over a row of
d_y * x^p:
  d_x = sum over p of p * v_p * (r_p * x^(p-1) * d_y - r_p^3 * x^(2p-1) * s_p / H)
  d_weight for x^p = sum over rows of r_p * s_p
  d_bias = sum of d_y
Accumulates in f32 in a fixed order. Without rows d_weight and d_bias are 0. d_x may be exactly d_y
when in_place is set."""

OPS = [
    Op("poly_norm_forward", "PolyNorm: a weighted sum of normalised powers", POLY_NORM_DOC,
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"),
        dtype("weight_dtype", "weight", "also of bias"), EPS, present("rstd", usual=True)],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("weight", "in", "3", "weight_dtype", "weights of x^3, x^2 and x"),
        Tensor("bias", "in", "1", "weight_dtype", "added to every element"),
        Tensor("y", "out", "N* H", "dtype", "weighted sum of the normalised powers"),
        Tensor("rstd", "out", "N* 3", "f32",
               "rstd of x^3, x^2 and x of each row, which the backward reads, or NULL",
               "with_rstd")],
       rows="rows of x",
       sharding="rows x",
       plan=Plan("cols=n_cols type=dtype weight_type=weight_dtype with_rstd", numbers="eps"),
       cases=["with_rstd=0"],
       checks=["N=5 H=100 dtype=bf16", "with_rstd=0 N=5 H=100"],
       large=["row dtype=bf16 H={4096|64}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("poly_norm_backward",
       "gradient of PolyNorm",
       POLY_NORM_GRAD, [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           dtype("weight_dtype", "weight"), NORM_D_WEIGHT, NORM_D_BIAS, NORM_ACCUMULATE,
           in_place("1: d_x may be exactly d_y")
       ], [
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("x", "in", "N* H", "dtype", "the forward's x"),
           Tensor("weight", "in", "3", "weight_dtype", "the forward's weight"),
           Tensor("rstd", "in", "N* 3", "f32", "the forward's rstd", positive=True),
           Tensor("d_x", "out", "N* H", "dtype", "gradient of x"),
           Tensor("d_weight", "inout", "3", "d_weight_dtype", "gradient of weight, or NULL",
                  "d_weight_dtype"),
           Tensor("d_bias", "inout", "1", "d_bias_dtype", "gradient of bias, or NULL",
                  "d_bias_dtype")
       ],
       rows="rows of x",
       sharding="rows d_y",
       aliases=[("d_x", "d_y")],
       plan=Plan(
           """cols=n_cols type=dtype weight_type=weight_dtype want_d_weight=d_weight_dtype want_d_bias=d_bias_dtype
d_weight_type=d_weight_dtype accumulate"""),
       cases=["dtype=bf16", "accumulate=1 in_place=1"],
       checks=["N=50 H=100 accumulate=1 in_place=1", "N=0 H=100 dtype=f16"],
       large=["row dtype=bf16 H={4096|64} d_weight_dtype=f32"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} d_weight_dtype=f32"]),
]
