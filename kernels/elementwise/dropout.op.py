"""Dropout, whose mask is drawn again in the backward."""

from table import Op, Plan, Tensor, Value, dim, dtype, flag, in_place, present

DEVICE_SEED = present("device_seed", "1: device_seed and device_offset are passed, so that a captured graph can be replayed")
DROPOUT_DOC = """s = 1 / (1 - p), rounded to f32, 0 <= p < 1: where p is 1 there is nothing to compute. No mask is stored: element i = row * n_cols + column
has random bits w_i, word i mod 4 of the Philox4x32-10 counter offset + i / 4 (the low and the high word of the counter's four, the others 0)
under the key seed (its low and its high word). So which elements stay depends on seed, offset and i alone, not on dtype, strides, device
or schedule. P(dropped) = floor(p * 2^32) / 2^32; p = 0 copies. n elements take the counters offset to offset + ceil(n / 4) - 1: give
the next tensor an offset behind these, or another seed.
with_device_seed: the seed is *device_seed and the offset is offset + *device_offset, read when the kernel runs; `seed` is not read. In a
captured graph each call has an `offset` of its own, and *device_offset grows between two replays by all the counters that the graph
takes, by a copy or a kernel of the caller's."""
DROPOUT_VALUES = [
    Value("p", "float", "0.5f", "probability that an element is dropped", 0, 1, below_high=True),
    Value("seed", "int64_t", "0", "any 64 bits, unless device_seed is passed", unless="with_device_seed"),
    Value("offset", "int64_t", "0", "the first counter: any 64 bits; sums wrap")]
DROPOUT_DEVICE_TENSORS = [
    Tensor("device_seed", "in", "1", "i64", "seed on the device, or NULL", "with_device_seed"),
    Tensor("device_offset", "in", "1", "i64", "added to offset, on the device, or NULL", "with_device_seed")]

# Large cases have p = 0, because a mask does not repeat with the rows.
OPS = [
    Op("dropout_forward", "dropout, with or without a residual sum",
       """y_i = round(x_i * s) where w_i >= floor(p * 2^32), else 0 whatever x_i is; with a residual y_i = round(residual_i + x_i * s), else
residual_i. Arithmetic in f32. y may be exactly x or residual when in_place is set.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), present("residual"), DEVICE_SEED,
        in_place("1: y may be exactly x or residual")],
       [*DROPOUT_VALUES,
        Tensor("x", "in", "N* F", "dtype", "rows"),
        Tensor("residual", "in", "N* F", "dtype", "rows added to what is left of x, or NULL", "with_residual"),
        Tensor("y", "out", "N* F", "dtype", "what is left of x"), *DROPOUT_DEVICE_TENSORS],
       rows="rows of x", aliases=[("y", "x"), ("y", "residual")],
       plan=Plan("cols=n_cols type=dtype add=with_residual device_seed=with_device_seed", values="seed offset", hook=True),
       cases=["dtype=bf16 p=0.1", "with_residual=1 in_place=1"],
       large=["row dtype=bf16 F={4096|64} p=0", "narrow dtype=bf16 F=2 p=0"],
       bench=[
           "dtype={bf16|f32} N=rows(16384) F={14336|4096}",
           "dtype={bf16|f32} N=rows(16384) F={14336|4096} with_residual=1"]),

    Op("dropout_backward", "gradient of dropout_forward",
       """d_x_i = round(d_y_i * s) where the forward kept x_i, else 0 whatever d_y_i is; with accumulate d_x_i = round(d_x_i + d_y_i * s), else d_x_i,
in every dtype. p, seed and offset are the forward's. The gradient of residual is d_y itself. d_x may be exactly d_y when in_place is set,
which excludes accumulate.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "d_y", "row width"), dtype("dtype", "d_y"), flag("accumulate", "1: d_x += instead of ="), DEVICE_SEED,
        in_place("1: d_x may be exactly d_y")],
       [*DROPOUT_VALUES,
        Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
        Tensor("d_x", "inout", "N* F", "dtype", "gradient of x"), *DROPOUT_DEVICE_TENSORS],
       rows="rows of d_y", aliases=[("d_x", "d_y")],
       plan=Plan("cols=n_cols type=dtype add=accumulate device_seed=with_device_seed", values="seed offset", hook=True),
       cases=["dtype=bf16 with_device_seed=1", "accumulate=1 F=701", "in_place=1"],
       large=["row dtype=bf16 F={4096|64} p=0"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
]
