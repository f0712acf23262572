"""Gated activations."""

from table import Field, Op, Plan, Tensor, dim, dtype, in_place, option

KIND, TITLE = "elements and rows", "SwiGLU, GeGLU"

GATED_FUSED = Field("fused",
                    "int32_t",
                    0,
                    "1: gate and up are the two halves of one tensor `gate_up`",
                    "present",
                    "gate_up",
                    low=0,
                    high=1)
MULTIPLIERS = [option("gate_multiplier", "float", "1.0f", "multiplies gate before the activation"),
               option("down_multiplier", "float", "1.0f", "multiplies the result")]
GATED_IN_PLACE = in_place("1: d_gate may be exactly gate, d_up exactly up, d_gate_up exactly "
                          "gate_up")
GATED_IN_PLACE_DOC = """
Each gradient may be exactly its input when in_place is set. A second backward is then
impossible."""
GATED_FORWARD_TENSORS = [
    Tensor("gate", "in", "N* F", "dtype", "gate, unless fused", "!fused"),
    Tensor("up", "in", "N* F", "dtype", "up, unless fused", "!fused"),
    Tensor("gate_up", "in", "N* 2F", "dtype",
           "gate in columns [0, F), up in [F, 2F); only when fused", "fused"),
    Tensor("out", "out", "N* F", "dtype", "the activation")]
GATED_BACKWARD_TENSORS = [
    Tensor("d_out", "in", "N* F", "dtype", "gradient of out"),
    Tensor("gate", "in", "N* F", "dtype", "the forward's gate, unless fused", "!fused"),
    Tensor("up", "in", "N* F", "dtype", "the forward's up, unless fused", "!fused"),
    Tensor("gate_up", "in", "N* 2F", "dtype", "the forward's gate_up; only when fused", "fused"),
    Tensor("d_gate", "out", "N* F", "dtype", "gradient of gate, unless fused", "!fused"),
    Tensor("d_up", "out", "N* F", "dtype", "gradient of up, unless fused", "!fused"),
    Tensor("d_gate_up", "out", "N* 2F", "dtype", "gradient of gate_up; only when fused", "fused")]
GATED_ALIASES = [("d_gate", "gate"), ("d_up", "up"), ("d_gate_up", "gate_up")]

OPS = [
    Op("swiglu_forward",
       "SiLU(gate) * up",
       "u = gate_multiplier * gate, out = round(down_multiplier * round(u * sigmoid(u)) * up). "
       "Arithmetic is f32.",
       [
           dim("n_cols", "F", "out", "width of out"),
           dtype("dtype", "out"), GATED_FUSED, *MULTIPLIERS
       ],
       GATED_FORWARD_TENSORS,
       rows="rows of out",
       sharding="elements",
       plan=Plan("cols=n_cols type=dtype", numbers="gate_multiplier down_multiplier", hook=True),
       cases=["dtype=bf16 fused=1", ""],
       recorded=["fused=1"],
       checks=["fused=1 N=5 F=33 gate_multiplier=0.5", "N=0 F=8"],
       large=["row dtype=bf16 F={4096|64}", "narrow dtype=bf16 F=2"],
       layers=["gate=swiglu dtype={bf16|f32} N={tokens} F={ffn}"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
    Op("swiglu_backward",
       "gradient of swiglu",
       """u = gate_multiplier * gate, s = sigmoid(u), g = down_multiplier * d_out:
  d_up = g * u * s
  d_gate = gate_multiplier * g * up * (s + u * s * (1 - s))""" + GATED_IN_PLACE_DOC, [
           dim("n_cols", "F", "d_out", "width of d_out"),
           dtype("dtype", "d_out"), GATED_FUSED, *MULTIPLIERS, GATED_IN_PLACE
       ],
       GATED_BACKWARD_TENSORS,
       rows="rows of d_out",
       sharding="elements",
       aliases=GATED_ALIASES,
       plan=Plan("cols=n_cols type=dtype", numbers="gate_multiplier down_multiplier", hook=True),
       cases=["dtype=bf16", "fused=1 in_place=1"],
       recorded=["fused=1 in_place=1"],
       checks=["fused=1 in_place=1 N=5 F=33 down_multiplier=2"],
       large=["row dtype=bf16 F={4096|64}", "row dtype=bf16 F={2048|32} fused=1"],
       layers=["gate=swiglu dtype={bf16|f32} N={tokens} F={ffn}"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
    Op("geglu_forward",
       "GELU(gate) * up, tanh form",
       """gelu(u) = u / 2 * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 u^3))), out =
       round(round(gelu(gate)) * up).
Arithmetic is f32, with an accurate tanh.""",
       [dim("n_cols", "F", "out", "width of out"),
        dtype("dtype", "out"), GATED_FUSED],
       GATED_FORWARD_TENSORS,
       rows="rows of out",
       sharding="elements",
       plan=Plan("cols=n_cols type=dtype", hook=True),
       cases=["dtype=bf16", "fused=1"],
       recorded=["fused=1 dtype=bf16"],
       checks=["N=5 F=33 dtype=bf16"],
       large=["row dtype=bf16 F={4096|64}"],
       layers=["gate=geglu dtype={bf16|f32} N={tokens} F={ffn}"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
    Op("geglu_backward",
       "gradient of geglu",
       """t = tanh(sqrt(2 / pi) * (gate + 0.044715 gate^3)):
  d_up = d_out * round(gelu(gate))
  d_gate = round(d_out * up)
           * ((1 + t) / 2 + gate / 2 * (1 - t^2) * sqrt(2 / pi) * (1 + 3 * 0.044715 gate^2))
These are the roundings of PyTorch.""" + GATED_IN_PLACE_DOC, [
           dim("n_cols", "F", "d_out", "width of d_out"),
           dtype("dtype", "d_out"), GATED_FUSED, GATED_IN_PLACE
       ],
       GATED_BACKWARD_TENSORS,
       rows="rows of d_out",
       sharding="elements",
       aliases=GATED_ALIASES,
       plan=Plan("cols=n_cols type=dtype", hook=True),
       cases=["dtype=f16", "fused=1 in_place=1"],
       recorded=["fused=1 in_place=1", "dtype=f16"],
       checks=["fused=1 N=5 F=33 in_place=1"],
       large=["row dtype=bf16 F={4096|64}"],
       layers=["gate=geglu dtype={bf16|f32} N={tokens} F={ffn}"],
       bench=["dtype={bf16|f32} N=rows(16384) F={14336|4096}"]),
]
