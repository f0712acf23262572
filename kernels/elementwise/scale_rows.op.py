"""Rows multiplied by a factor that the device reads."""

from table import Op, Plan, Tensor, dim, dtype, flag, in_place

KIND, TITLE = "elements and rows", "scaling"

OPS = [
    Op("scale",
       "rows multiplied by a factor that the device reads",
       """out = round(x * factor), with one factor for all rows or one per row. Arithmetic is f32. A factor of 0
gives NaN where x is not finite. out may be exactly x when in_place is set.""", [
           dim("n_cols", "H", "x", "row width"),
           dtype("dtype", "x"),
           flag("per_row", "1: factor has one element per row"),
           dtype("factor_dtype", "factor", optional=True, zero="f32"),
           in_place("1: out may be exactly x")
       ], [
           Tensor("x", "in", "N* H", "dtype", "rows"),
           Tensor("factor", "in", "L*", "factor_dtype", "one element, or one per row"),
           Tensor("out", "out", "N* H", "dtype", "x * factor")
       ],
       rows="rows of x",
       sharding="scale",
       aliases=[("out", "x")],
       plan=Plan("cols=n_cols type=dtype factor_type=factor_dtype per_row",
                 kernel="scale_rows_kernel", tensors="in=x", reduced="factor"),
       cases=["dtype=bf16", "dtype=f16 factor_dtype=f16 per_row=1 in_place=1"],
       recorded=["dtype=bf16", "per_row=1 in_place=1"],
       checks=["N=5 H=33 dtype=bf16", "N=5 H=33 in_place=1", "N=5 H=33 dtype=f16 per_row=1"],
       large=["row dtype=bf16 H={4096|64}", "narrow dtype=bf16 H=2 per_row=1"],
       bench=["dtype={bf16|f32} N=rows(16384) H={8192|4096} in_place=1"]),
]
