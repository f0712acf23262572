"""Sums and products of elements."""

from table import Op, Tensor, dim, dtype, flag, in_place

OPS = [
    Op("vector_add", "out = a + b", "Element by element, rounded once. out may be a or b when in_place is set.",
       [dtype("dtype", "a"), in_place("1: out may be exactly a or b")],
       [Tensor("a", "in", "N*", "dtype", "first summand"),
        Tensor("b", "in", "N*", "dtype", "second summand"),
        Tensor("out", "out", "N*", "dtype", "the sum")],
       rows="elements", aliases=[("out", "a"), ("out", "b")]),

    Op("scale", "rows times a factor that is read on the device",
       """out = round(x * factor): one factor for all rows, or one of each row. Arithmetic in f32. A factor of 0 leaves a NaN where x is not
finite. out may be exactly x when in_place is set.""",
       [dim("n_cols", "H", "x", "row width"), dtype("dtype", "x"), flag("per_row", "1: factor has one element per row"),
        dtype("factor_dtype", "factor", optional=True, zero="f32"), in_place("1: out may be exactly x")],
       [Tensor("x", "in", "N* H", "dtype", "rows"),
        Tensor("factor", "in", "L*", "factor_dtype", "one element, or one per row"),
        Tensor("out", "out", "N* H", "dtype", "x * factor")],
       rows="rows of x", aliases=[("out", "x")]),
]
