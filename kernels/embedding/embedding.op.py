"""Rows of a table by index."""

from fields.parameters import ACCUMULATE
from table import INDEX, Large, Op, Plan, Tensor, dim, dtype, flag, indices, option, present

KIND, TITLE = "elements and rows", "embedding"

SHARD_FIELDS = [
    option("first_row", "int64_t", "0", "shard: index of weight's first row in the whole table", 0,
           2**52),
    option("total_rows", "int64_t", "0",
           "shard: rows of the whole table; 0: weight is the whole table", 0, 2**52)]

OPS = [
    Op("embedding_forward",
       "out[i] = weight[indices[i]], optionally plus a row for the position",
       """out[i] = weight[indices[i]], or round(weight[indices[i]] + position_weight[i mod P]). The
latter is for rows that are sequences of P tokens one after the other, as in GPT-2. If an index is
outside [0, n_rows), its row of out is NaN, and ligerdsl_context_check reports it.
Shard (total_rows > 0): weight has rows first_row to first_row + n_rows - 1 of a table of total_rows
rows. For an index of another shard the row of out is 0, without an error, so that the sum of out
over the shards is the embedding. An index outside [0, total_rows) gives NaN and is reported on
every shard. A shard takes no position_weight: add positions once, to the sum.""", [
           dim("n_cols", "H", "weight", "row width"),
           dim("n_rows", "V", "weight", "rows of weight"),
           dtype("dtype", "weight"),
           dtype("index_dtype", "indices", "", INDEX),
           dim("n_positions",
               "P",
               "position_weight",
               "rows of position_weight, 0 without position_weight",
               optional=True),
           present("position_weight"), *SHARD_FIELDS
       ], [
           indices("indices", "N*", "index_dtype", "rows to copy"),
           Tensor("weight", "in", "V H", "dtype", "the table", moved="N * H"),
           Tensor("out", "out", "N* H", "dtype", "the rows"),
           Tensor("position_weight", "in", "P H", "dtype", "one row per position, or NULL",
                  "with_position_weight")
       ],
       rows="indices",
       sharding="embedding",
       reports="index",
       plan=Plan("cols=n_cols vocabulary=n_rows type=dtype index_type=index_dtype",
                 tensors="table=weight position_table=position_weight",
                 hook=True),
       cases=[
           "dtype=bf16", "index_dtype=i32", "dtype=bf16 with_position_weight=1 P=5",
           "dtype=bf16 first_row=10 total_rows=5000"
       ],
       recorded=["index_dtype=i32"],
       checks=["N=10 V=30 H=8 index_dtype=i32"],
       large=["row dtype=bf16 V=1000 H={4096|64}", "narrow dtype=bf16 V=1000 H=1 index_dtype=i32"],
       layers=["dtype={bf16|f32} N={tokens} V={vocab} H={hidden}"],
       bench=["dtype={bf16|f32} N=rows(32768) V={128256|32000} H=2048"]),
    Op(
        "embedding_backward",
        "d_weight[v] = sum of d_out[i] over all i with indices[i] = v, and the gradient of "
        "position_weight",
        """Accumulates in f32 in an order that depends on the indices alone, so every run gives the
same bits.
Rows that no index names become 0, or keep their values with accumulate. Indices outside [0, n_rows)
add nothing to d_weight. d_position_weight[p] = sum of d_out[i] over all i with i mod P = p: the
gradient of the forward's position_weight. If it and d_weight are f32, a CPU reads d_out once for
both. Shard (total_rows > 0): d_weight has rows first_row to first_row + n_rows - 1 of a table.
Indices of other shards add nothing.""",
        [
            dim("n_cols", "H", "d_weight", "row width"),
            dim("n_rows", "V", "d_weight", "rows of d_weight"),
            dtype("dtype", "d_out"),
            dtype("d_weight_dtype", "d_weight", "f32 or dtype", gradient_of="dtype"),
            dtype("index_dtype", "indices", "", INDEX), ACCUMULATE,
            dim("n_positions",
                "P",
                "d_position_weight",
                "rows of d_position_weight, 0 without d_position_weight",
                optional=True),
            dtype("d_position_weight_dtype",
                  "d_position_weight",
                  "f32 or dtype; 0 = d_position_weight is not wanted",
                  optional=True),
            flag("accumulate_positions",
                 "1: d_position_weight += instead of =; d_position_weight must be f32"),
            *SHARD_FIELDS
        ],
        [
            indices("indices", "N*", "index_dtype", "the forward's indices"),
            Tensor("d_out", "in", "N* H", "dtype", "gradient of out"),
            Tensor("d_weight", "inout", "V H", "d_weight_dtype", "gradient of weight"),
            Tensor("d_position_weight",
                   "inout",
                   "P H",
                   "d_position_weight_dtype",
                   "gradient of position_weight, or NULL",
                   "d_position_weight_dtype",
                   accumulate="accumulate_positions")
        ],
        rows="indices",
        sharding="embedding",
        reports="index",
        plan=Plan(
            """cols=n_cols vocabulary=n_rows type=dtype index_type=index_dtype
            d_table_type=d_weight_dtype accumulate
d_position_type=d_position_weight_dtype accumulate_positions""",
            tensors="d_table=d_weight d_position_table=d_position_weight",
            hook=True),
        cases=[
            "dtype=bf16 d_weight_dtype=bf16 first_row=10 total_rows=5000",
            "d_weight_dtype=f32 first_row=10 total_rows=5000 index_dtype=i32",
            "dtype=bf16 d_weight_dtype=bf16", "accumulate=1 d_weight_dtype=f32",
            "dtype=bf16 d_weight_dtype=f32 d_position_weight_dtype=f32 P=3",
            "d_weight_dtype=f32 d_position_weight_dtype=f32 accumulate_positions=1 P=5",
            "dtype=bf16 d_weight_dtype=bf16 d_position_weight_dtype=bf16 P=5"
        ],
        recorded=["accumulate=1 d_weight_dtype=f32"],
        checks=[
            "accumulate=1 d_weight_dtype=f32 N=10 V=5 H=8",
            "d_weight_dtype=f32 d_position_weight_dtype=f32 P=4 N=10 V=5 H=8"
        ],
        large=[
            "row dtype=bf16 V=100 H={4096|64} d_weight_dtype=f32",
            # With P=1 the f32 gradient of the position is the sum of all rows, so its error is
            # larger.
            Large(
                "row dtype=bf16 V=100 H={4096|64} d_weight_dtype=f32 d_position_weight_dtype=f32 "
                "P=1",
                sum_tolerance=1e-3),
            "narrow dtype=bf16 V=100 H=1 index_dtype=i32 d_weight_dtype=f32"
        ],
        bench=["dtype={bf16|f32} N=rows(32768) V={128256|32000} H=2048"]),
]
