"""Dropout. The backward computes the mask again."""

from table import Op, Plan, Tensor, Value, dim, dtype, flag, in_place, present

KIND, TITLE = "elements and rows", "dropout"

DEVICE_SEED = present(
    "device_seed",
    "1: device_seed and device_offset are passed, so that a captured graph can be replayed")
DROPOUT_DOC = """s = 1 / (1 - p), rounded to f32, with 0 <= p < 1. No mask is stored: each element
has random bits. The bits w_i of element i = row * n_cols + column are word i mod 4 of
Philox4x32-10. Its counter is offset + i / 4, which fills the low two of the counter's four words;
the others are 0. The key is seed (low word, high word). So seed, offset and i alone decide which
elements are kept, not dtype, strides, device or schedule. P(dropped) = floor(p * 2^32) / 2^32,
so p = 0 copies. n elements use the counters offset to offset + ceil(n / 4) - 1. Give the next
tensor an offset after these, or another seed.
with_device_seed: the seed is *device_seed and the offset is offset + *device_offset, both read when
the kernel runs; `seed` is not read. In a captured graph each call needs its own `offset`. Between
two replays the caller must increase *device_offset by the number of counters that the graph
uses."""
DROPOUT_VALUES = [
    Value("p", "float", "0.5f", "probability that an element is dropped", 0, 1, below_high=True),
    Value("seed", "int64_t", "0", "any 64 bits, unless device_seed is passed",
          unless="with_device_seed"),
    Value("offset", "int64_t", "0", "first counter: any 64 bits; additions wrap")]
DROPOUT_DEVICE_TENSORS = [
    Tensor("device_seed", "in", "1", "i64", "seed on the device, or NULL", "with_device_seed"),
    Tensor("device_offset", "in", "1", "i64", "added to offset, on the device, or NULL",
           "with_device_seed")]

# Cases on more than 2^31 elements have p = 0: checks need equal rows, but masks differ by row.
OPS = [
    Op("dropout_forward", "dropout, with or without a residual sum",
       """y_i = round(x_i * s) if w_i >= floor(p * 2^32), else 0 even if x_i is not finite. With a
residual y_i = round(residual_i + x_i * s), else residual_i. Arithmetic is f32. y may be
exactly x or residual when in_place is set.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "x", "row width"), dtype("dtype", "x"), present("residual"), DEVICE_SEED,
        in_place("1: y may be exactly x or residual")],
       [*DROPOUT_VALUES,
        Tensor("x", "in", "N* F", "dtype", "rows"),
        Tensor("residual", "in", "N* F", "dtype", "rows added to the result, or NULL",
               "with_residual"),
        Tensor("y", "out", "N* F", "dtype", "x after dropout, plus residual"),
        *DROPOUT_DEVICE_TENSORS],
       rows="rows of x", aliases=[("y", "x"), ("y", "residual")],
       plan=Plan("cols=n_cols type=dtype add=with_residual device_seed=with_device_seed",
                 values="seed offset", hook=True),
       cases=["dtype=bf16 p=0.1", "with_residual=1 in_place=1"],
       recorded=["with_residual=1 dtype=bf16", "in_place=1 F=41"],
       checks=[
           "N=5 F=33 p=0.25 seed=-81985529216486896 offset=4294967290",
           "N=5 F=32 dtype=bf16 with_residual=1 in_place=1", "N=5 F=32 p=0"
       ],
       large=["row dtype=bf16 F={4096|64} p=0", "narrow dtype=bf16 F=2 p=0"],
       bench=[
           "dtype={bf16|f32} N=rows(16384) F={14336|4096}",
           "dtype={bf16|f32} N=rows(16384) F={14336|4096} with_residual=1"]),

    Op("dropout_backward", "gradient of dropout_forward",
       """d_x_i = round(d_y_i * s) if the forward kept x_i, else 0 even if d_y_i is not finite. With
accumulate d_x_i = round(d_x_i + d_y_i * s) or d_x_i, in every dtype. p, seed and offset are the
forward's. The gradient of residual is d_y itself. d_x may be exactly d_y when in_place is set, but
not together with accumulate.
""" + DROPOUT_DOC,
       [dim("n_cols", "F", "d_y", "row width"), dtype("dtype", "d_y"),
        flag("accumulate", "1: d_x += instead of ="), DEVICE_SEED,
        in_place("1: d_x may be exactly d_y")],
       [*DROPOUT_VALUES,
        Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
        Tensor("d_x", "inout", "N* F", "dtype", "gradient of x"), *DROPOUT_DEVICE_TENSORS],
       rows="rows of d_y", aliases=[("d_x", "d_y")],
       plan=Plan("cols=n_cols type=dtype add=accumulate device_seed=with_device_seed",
                 values="seed offset", hook=True),
       cases=["dtype=bf16 with_device_seed=1", "accumulate=1 F=701", "in_place=1"],
       recorded=["accumulate=1 with_device_seed=1"],
       checks=["N=5 F=34 p=0.9 with_device_seed=1 offset=1000", "N=5 F=32 dtype=f16 accumulate=1"],
       large=["row dtype=bf16 F={4096|64} p=0"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
]
