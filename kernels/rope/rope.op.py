"""Rotary position embedding."""

from table import Op, Tensor, dim, dtype, flag, in_place, option, present

KIND, TITLE = "matmuls and attention", "RoPE"
OF_MODEL = (" layout={rope} B={max(tokens/2048,1)} S={min(tokens,2048)} A={q_heads} K={k_heads} "
            "D={head_dim}")

OPS = [
    Op("rope", "rotary position embedding; backward with inverse = 1",
       """R = rotary_dim columns of each head are rotated (0: all), h = R / 2 rounded down. The
columns after them, and the last of an odd R, are copied. For angle i < h, c = cos[i], s = sin[i]
and its pair (a, b) of columns:
  a' = a c - b s, b' = b c + a s
layout selects the pair:
  - HALF: columns i and i + h
  - INTERLEAVED: columns 2 i and 2 i + 1
  - MULTIMODAL: the pairs of HALF. Angle i is in the first plane of cos and sin
    for i < time_section, in the second for the next height_section angles, in the third for the
    last width_section angles.
inverse = 1 uses -s: the gradient.
q and k are [batch, position, head, column]. The last dimension has stride 1; the other strides are
free. A tensor in the memory order [batch, head, position, column] is passed with its dimensions
transposed. cos and sin are [S, D], [1, S, D] or [B, S, D]; for MULTIMODAL [3, 1, S, D] or
[3, B, S, D]. Only their first h columns are read. complex_table: cos holds the cosine of angle i in
column 2 i and the sine in column 2 i + 1; sin is NULL.
Arithmetic is f32 with one rounding to dtype. q_out may be exactly q, and k_out exactly k, when
in_place is set.""", [
           dim("head_dim",
               "D",
               "q",
               "columns of one head, at most 65536: a program holds whole heads",
               high=65536),
           dtype("dtype", "q"),
           dtype("table_dtype", "cos"),
           dim("q_heads", "A", "q", "heads of q"),
           dim("k_heads", "K", "k", "heads of k, 0 without k", optional=True),
           flag("inverse", "1: rotate back (the backward)"),
           present("k", "1: k and k_out are passed", usual=True),
           flag("complex_table", "1: cos holds complex numbers, there is no sin"),
           option("layout", "int32_t", 0, "LIGERDSL_ROPE_*", 0, 2),
           option("rotary_dim", "int64_t", 0, "columns that are rotated; 0 = head_dim", 0,
                  2**31 - 1),
           option("time_section", "int64_t", 0, "MULTIMODAL: angles of the first plane", 0,
                  2**31 - 1),
           option("height_section", "int64_t", 0, "MULTIMODAL: angles of the second plane", 0,
                  2**31 - 1),
           option("width_section", "int64_t", 0, "MULTIMODAL: angles of the third plane", 0,
                  2**31 - 1),
           in_place("1: q_out may be exactly q, k_out exactly k")
       ], [
           Tensor("q", "in", "B S A D", "dtype", "queries"),
           Tensor("k", "in", "B S K D", "dtype", "keys, with any number of heads, or NULL",
                  "with_k"),
           Tensor("cos", "in", "?", "table_dtype", "cosines by position, or complex numbers"),
           Tensor("sin", "in", "?", "table_dtype", "sines by position; NULL with complex_table",
                  "!complex_table"),
           Tensor("q_out", "out", "B S A D", "dtype", "rotated queries"),
           Tensor("k_out", "out", "B S K D", "dtype", "rotated keys, or NULL", "with_k")
       ],
       rows="positions of all batches",
       sharding="rope",
       aliases=[("q_out", "q"), ("k_out", "k")],
       cases=[
           "dtype=bf16", "inverse=1 in_place=1 D=46", "layout=interleaved with_k=0",
           "layout=multimodal time_section=8 height_section=12 width_section=12"
       ],
       recorded=[
           "D=92", "D=41 in_place=1 dtype=bf16", "with_k=0", "layout=interleaved D=41 in_place=1",
           "layout=multimodal time_section=16 height_section=24 width_section=24 D=128 dtype=bf16",
           "rotary_dim=32 D=128 complex_table=1"
       ],
       checks=[
           "B=2 S=3 A=4 K=2 D=10",
           "B=2 S=3 A=4 K=2 D=10 layout=interleaved rotary_dim=6 complex_table=1",
           "B=2 S=3 A=4 K=2 D=10 layout=multimodal time_section=1 height_section=3 width_section=1",
           "D=41 in_place=1 dtype=bf16 B=2 S=3 A=4 K=2 inverse=1", "with_k=0 B=2 S=3 A=4 D=8"
       ],
       case_sizes={"B": 2, "S": "(rows + 1) / 2", "A": 4, "K": 2, "D": 64},
       large=["row dtype=bf16 S={16|2} A={8|2} K=1 D=64"],
       layers=[
           "dtype={bf16|f32} table_dtype=f32 inverse=0" + OF_MODEL,
           "dtype={bf16|f32} table_dtype=f32 inverse=1" + OF_MODEL
       ],
       bench=[
           "dtype={bf16|f32} table_dtype=f32 inverse=0 layout=half B={8|1} S=2048 A=32 K=8 D=128",
           "dtype={bf16|f32} table_dtype=f32 inverse=1 layout=half B={8|1} S=2048 A=32 K=8 D=128"]),
]
