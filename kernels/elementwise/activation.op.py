"""Ungated activations."""

from table import Op, Plan, Tensor, dim, dtype, flag, in_place, option

KIND, TITLE = "elements and rows", "activations"

ACTIVATION = option("kind", "int32_t", "LIGERDSL_ACTIVATION_GELU_TANH", "LIGERDSL_ACTIVATION_*", 0,
                    4)
BENCH = [f"dtype={{bf16|f32}} N=rows(16384) kind={kind} F={{14336|4096}}"
         for kind in ("gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared")]

OPS = [
    Op("activation_forward", "GELU, SiLU, ReLU or ReLU squared",
       """y = round(f(x)), with the function f that `kind` selects:
  - GELU_TANH: f(u) = u / 2 * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 u^3)))
  - GELU_ERF: f(u) = u / 2 * (1 + erf(u / sqrt(2)))
  - SILU: f(u) = u * sigmoid(u)
  - RELU: f(u) = max(u, 0)
  - RELU_SQUARED: f(u) = max(u, 0)^2
Arithmetic is f32 and keeps the relative accuracy of f where it is small. A NaN gives a NaN. y may be
exactly x when in_place is set.""", [
           dim("n_cols", "F", "x", "row width"),
           dtype("dtype", "x"), ACTIVATION,
           in_place("1: y may be exactly x")
       ], [Tensor("x", "in", "N* F", "dtype", "rows"),
           Tensor("y", "out", "N* F", "dtype", "f(x)")],
       rows="rows of x",
       sharding="elements",
       aliases=[("y", "x")],
       plan=Plan("cols=n_cols type=dtype kind"),
       cases=["dtype=bf16", "kind=gelu_erf in_place=1"],
       recorded=["kind=gelu_erf in_place=1", "dtype=f16 kind=relu"],
       checks=[
           "N=5 F=33 dtype=bf16", "kind=gelu_erf N=5 F=33 in_place=1",
           "kind=silu N=5 F=33 dtype=f16", "kind=relu N=5 F=33", "kind=relu_squared N=5 F=33"
       ],
       large=["row dtype=bf16 F={4096|64}", "narrow dtype=bf16 F=2 kind=relu"],
       bench=BENCH),
    Op("activation_backward",
       "gradient of activation_forward",
       """d_x = round(d_y * f'(x)). With accumulate d_x = round(d_x + d_y * f'(x)), in every dtype. Arithmetic is
f32. Where x <= 0, RELU and RELU_SQUARED give 0, even if d_y is not finite. d_x may be exactly d_y or x
when in_place is set, but not together with accumulate.""", [
           dim("n_cols", "F", "x", "row width"),
           dtype("dtype", "x"), ACTIVATION,
           flag("accumulate", "1: d_x += instead of ="),
           in_place("1: d_x may be exactly d_y or x")
       ], [
           Tensor("d_y", "in", "N* F", "dtype", "gradient of y"),
           Tensor("x", "in", "N* F", "dtype", "the forward's x"),
           Tensor("d_x", "inout", "N* F", "dtype", "gradient of x")
       ],
       rows="rows of x",
       sharding="elements",
       aliases=[("d_x", "d_y"), ("d_x", "x")],
       plan=Plan("cols=n_cols type=dtype kind accumulate"),
       cases=["dtype=bf16 kind=gelu_erf", "kind=relu_squared accumulate=1", "kind=silu in_place=1"],
       recorded=["kind=relu_squared accumulate=1 dtype=bf16", "kind=silu in_place=1"],
       checks=[
           "N=5 F=33", "kind=gelu_erf N=5 F=33 dtype=bf16 accumulate=1",
           "kind=silu N=5 F=33 in_place=1", "kind=relu N=5 F=33 accumulate=1",
           "kind=relu_squared N=5 F=33 dtype=f16"
       ],
       large=["row dtype=bf16 F={4096|64} kind=gelu_erf"],
       bench=BENCH),
]
