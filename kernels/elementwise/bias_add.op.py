"""A bias and its gradient."""

from table import Op, Plan, Tensor, dim, dtype, flag, in_place

KIND, TITLE = "elements and rows", "bias"

OPS = [
    Op("bias_add_forward",
       "rows plus a bias",
       "y = round(x + bias) in every row. Arithmetic is f32. y may be exactly x when in_place is "
       "set.",
       [
           dim("n_cols", "F", "x", "row width"),
           dtype("dtype", "x"),
           dtype("bias_dtype", "bias"),
           in_place("1: y may be exactly x")
       ], [
           Tensor("x", "in", "N* F", "dtype", "rows"),
           Tensor("bias", "in", "F", "bias_dtype", "added to every row"),
           Tensor("y", "out", "N* F", "dtype", "x + bias")
       ],
       rows="rows of x",
       sharding="rows x",
       aliases=[("y", "x")],
       plan=Plan("cols=n_cols type=dtype bias_type=bias_dtype"),
       cases=["dtype=bf16", "dtype=f16 bias_dtype=f32 in_place=1"],
       recorded=["in_place=1 dtype=bf16 bias_dtype=f32"],
       checks=["N=5 F=33 dtype=bf16", "N=5 F=33 in_place=1"],
       large=["row dtype=bf16 F={4096|64}", "narrow dtype=bf16 F=2"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
    Op("bias_add_backward",
       "gradient of a bias: column sums",
       """d_bias = sum over rows of d_y, accumulated in f32 in a fixed order. Without rows it
is 0. The gradient of x is d_y itself.""", [
           dim("n_cols", "F", "d_y", "row width"),
           dtype("dtype", "d_y"),
           dtype("d_bias_dtype", "d_bias", "f32 or dtype", gradient_of="dtype"),
           flag("accumulate", "1: d_bias += instead of =; d_bias must be f32")
       ], [
           Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
           Tensor("d_bias", "inout", "F", "d_bias_dtype", "gradient of bias")
       ],
       rows="rows of d_y",
       sharding="rows d_y",
       plan=Plan("cols=n_cols type=dtype out_type=d_bias_dtype accumulate",
                 header="kernels/reduce/column_sums.h"),
       cases=["dtype=bf16", "d_bias_dtype=f32 accumulate=1"],
       recorded=["accumulate=1 d_bias_dtype=f32", "dtype=bf16 F=50000"],
       checks=["N=50 F=33 dtype=bf16", "N=50 F=33 d_bias_dtype=f32 accumulate=1", "N=0 F=33"],
       large=[
           "row dtype=bf16 F={4096|64} d_bias_dtype=f32", "narrow dtype=bf16 F=2 d_bias_dtype=f32"
       ],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
]
