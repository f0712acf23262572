"""Sparsemax of rows."""

from table import Op, Plan, Tensor, dim, dtype, in_place

KIND, TITLE = "elements and rows", "sparsemax"

OPS = [
    Op("sparsemax_forward",
       "sparsemax of rows: the nearest point of the simplex",
       """y = max(x - tau, 0) with the tau for which each row of y has the sum 1; most elements are exactly 0.
Arithmetic is f32, rounded once. A row of -inf alone, or with a NaN or +inf, gives NaN. The last
dimension has stride 1, so sparsemax over another dimension needs a transposed copy. y may be exactly x
when in_place is set.""", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           in_place("1: y may be exactly x")
       ], [
           Tensor("x", "in", "N* H", "dtype", "scores"),
           Tensor("y", "out", "N* H", "dtype", "probabilities")
       ],
       rows="rows of x",
       sharding="rows x",
       aliases=[("y", "x")],
       plan=Plan("cols=n_cols type=dtype"),
       cases=["dtype=bf16", "in_place=1"],
       recorded=["H=65536 dtype=bf16"],
       checks=["N=10 H=20 in_place=1", "N=5 H=1001 dtype=bf16"],
       large=["row dtype=bf16 H={4096|64}", "narrow dtype=bf16 H=2"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("sparsemax_backward",
       "gradient of sparsemax",
       """d_x = d_y - mean of d_y over the support of the row (y > 0). Elsewhere d_x is 0, even if d_y is not
finite. A y that was rounded to 0 is not in the support. d_x may be exactly d_y or y when in_place is set.""",
       [
           dim("n_cols", "H", "y", "row width"),
           dtype("dtype", "y"),
           in_place("1: d_x may be exactly d_y or y")
       ], [
           Tensor("y", "in", "N* H", "dtype", "the forward's y"),
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("d_x", "out", "N* H", "dtype", "gradient of x")
       ],
       rows="rows of y",
       sharding="rows y",
       aliases=[("d_x", "d_y"), ("d_x", "y")],
       plan=Plan("cols=n_cols type=dtype"),
       cases=["dtype=bf16", "in_place=1"],
       recorded=["in_place=1"],
       checks=["N=10 H=20 dtype=f16"],
       large=["row dtype=bf16 H={4096|64}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
]
