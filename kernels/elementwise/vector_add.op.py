"""The sum of two tensors."""

from table import Op, Plan, Tensor, dtype, in_place

KIND, TITLE = "elements and rows", "vector addition"

OPS = [
    Op("vector_add", "out = a + b",
       "Adds elements and rounds each once. out may be exactly a or b when in_place is set.",
       [dtype("dtype", "a"), in_place("1: out may be exactly a or b")], [
           Tensor("a", "in", "N*", "dtype", "first summand"),
           Tensor("b", "in", "N*", "dtype", "second summand"),
           Tensor("out", "out", "N*", "dtype", "the sum")
       ],
       rows="elements",
       sharding="elements",
       aliases=[("out", "a"), ("out", "b")],
       plan=Plan("type=dtype"),
       cases=["dtype=bf16", "in_place=1"],
       checks=["N=1000", "dtype=bf16 N=1000 in_place=1", "N=0"],
       sizes={"N": 1 << 24},
       case_sizes={"N": "500 * rows + 3"},
       large=["flat dtype=bf16"],
       bench=["dtype={bf16|f32} N={67108864|16777216}"]),
]
