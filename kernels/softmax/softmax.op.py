"""Softmax of rows."""

from table import Op, Plan, Tensor, dim, dtype, flag, in_place, option, queries

KIND, TITLE = "elements and rows", "softmax"

OPS = [
    Op("softmax_forward",
       "softmax(scale * x) over rows",
       """y = exp(scale * x - m) / sum exp(scale * x - m), m = max(scale * x) over a row. causal:
the last two dimensions of x are queries and keys. Column j of query i counts only if
j <= i + n_cols - n_queries; other columns of y are exactly 0. A row of -inf gives NaN. y may be
exactly x when in_place is set.""",
       [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           option("scale", "float", "1.0f", "multiplies x"),
           flag("causal", "1: query i includes only columns j <= i + n_cols - n_queries"),
           queries("x"),
           in_place("1: y may be exactly x")
       ], [
           Tensor("x", "in", "N* H", "dtype", "logits"),
           Tensor("y", "out", "N* H", "dtype", "probabilities")
       ],
       rows="rows of x",
       sharding="softmax",
       aliases=[("y", "x")],
       plan=Plan("cols=n_cols type=dtype causal", numbers="scale", integers="queries=n_queries"),
       cases=["dtype=bf16", "causal=1"],
       recorded=["causal=1"],
       checks=["causal=1 N=10 H=20"],
       large=[
           "row dtype=bf16 H={4096|64}", "row dtype=bf16 H={4096|64} causal=1 n_queries=61",
           "narrow dtype=bf16 H=2"
       ],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
    Op("softmax_backward",
       "gradient of softmax",
       "d_x = scale * y * (d_y - sum(d_y * y)); masked columns get 0. d_x may be exactly d_y or y "
       "when in_place is set.",
       [
           dim("n_cols", "H", "y", "row width"),
           dtype("dtype", "y"),
           option("scale", "float", "1.0f", "the forward's scale"),
           flag("causal", "1: the forward was causal"),
           queries("y"),
           in_place("1: d_x may be exactly d_y or y")
       ], [
           Tensor("y", "in", "N* H", "dtype", "the forward's y"),
           Tensor("d_y", "in", "N* H", "dtype", "gradient of y"),
           Tensor("d_x", "out", "N* H", "dtype", "gradient of x")
       ],
       rows="rows of y",
       sharding="softmax",
       aliases=[("d_x", "d_y"), ("d_x", "y")],
       plan=Plan("cols=n_cols type=dtype causal", numbers="scale", integers="queries=n_queries"),
       cases=["dtype=bf16", "in_place=1"],
       recorded=["in_place=1"],
       checks=["in_place=1 N=10 H=20 scale=0.3"],
       large=["row dtype=bf16 H={4096|64}"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096}"]),
]
