"""Attention."""

from table import INDEX, Op, Tensor, dim, dtype, flag, indices, option, present

KIND, TITLE = "matmuls and attention", "attention (dense, variable length)"

HEADS = [
    dim("head_dim", "D", "q", "columns of one head, at most 256: a program holds whole heads",
        high=256),
    dtype("dtype", "q"), dim("q_heads", "A", "q", "heads of q"),
    dim("k_heads", "K", "k", "heads of k and v, a divisor of q_heads")]

BAND_FIELDS = [
    flag("causal", "1: no query sees keys to its right"),
    option("window_left", "int64_t", -1, "keys to the left of its own that a query sees; -1 = all",
           -1, 2**31 - 1),
    option("window_right", "int64_t", -1,
           "keys to the right of its own that a query sees, without causal; -1 = all", -1,
           2**31 - 1),
    option("scale", "float", "0.0f", "multiplies q k^T; 0 = 1 / sqrt(head_dim)", 1e-9, 1e9,
           or_zero=True),
    option("softcap", "float", "0.0f", "bound of the scores; 0 = off", 1e-3, 1e30, or_zero=True)]

FIELDS = [*HEADS, dim("n_queries", "S", "q", "tokens of q"),
          dim("n_keys", "T", "k", "tokens of k and v"), *BAND_FIELDS]

SEQUENCE_FIELDS = [
    *HEADS,
    dim("n_bounds",
        "U",
        "cu_seqlens_q",
        "length of cu_seqlens_q and of cu_seqlens_k: number of sequences + 1",
        high=2**31 - 1),
    dtype("index_dtype", "cu_seqlens_q", "of cu_seqlens_q and cu_seqlens_k", INDEX),
    option(
        "max_seqlen_q",
        "int64_t",
        -1,
        "upper bound of the queries of a sequence; it may exceed the number of tokens; 0 counts as "
        "1, -1 is an error",
        -1,
        2**31 - 1,
        command="max(S, 1)"),
    option("max_seqlen_k",
           "int64_t",
           -1,
           "upper bound of the keys of a sequence, like max_seqlen_q",
           -1,
           2**31 - 1,
           command="max(T, 1)"), *BAND_FIELDS
]

BAND = """Query i corresponds to key i + n_keys - n_queries, so the last query corresponds to the
last key. It sees key j if
  i + n_keys - n_queries - window_left <= j <= i + n_keys - n_queries + window_right.
causal sets window_right to 0. Head h of q uses head h k_heads / q_heads, rounded down, of k and
v."""

MEMORY = """The last dimension of tensors with heads has stride 1; the other strides are free. A
tensor in the memory order [batch, head, token, column] is passed with its dimensions transposed.
On a GPU the fast kernels for 16-bit dtypes require that heads begin at multiples of 16 bytes and
that head_dim is a multiple of 8. A plan serves one n_queries and one n_keys, and any number of
batches. Plans share compiled code. Outputs overlap no other tensor."""

SEQUENCES = """The tokens of all sequences are stored one sequence after the other. Sequence n has
the queries [cu_seqlens_q[n], cu_seqlens_q[n + 1]) and the keys
[cu_seqlens_k[n], cu_seqlens_k[n + 1]). Either range may be empty. The device reads these bounds,
and the host does not wait for them.
Each sequence is computed with its own numbers of queries and keys: its last query corresponds to
its last key. The result of a sequence does not depend on values of the other sequences.
Bounds are invalid if
  - a sequence begins before the previous one ends, or is outside the tensors;
  - a sequence is longer than max_seqlen_q or max_seqlen_k;
  - tokens precede the first sequence or follow the last one.
Then ligerdsl_context_check reports the first such sequence (INVALID_BOUNDS). No memory outside the
tensors is accessed, and results are undefined. Tokens that belong to no sequence, such as padding,
must form a sequence of their own."""

SEQUENCE_MEMORY = """The last dimension of tensors with heads has stride 1; the other strides are
free. One plan serves any number of tokens. Plans with different max_seqlen_q, max_seqlen_k and
n_bounds share compiled code. Outputs overlap no other tensor. TMA copies are used where the dense
operations use them: a single sequence takes slightly more time than the dense call."""

BOUNDS = [
    indices("cu_seqlens_q",
            "U",
            "index_dtype",
            "first query of each sequence, then the number of queries",
            bounds="S"),
    indices("cu_seqlens_k",
            "U",
            "index_dtype",
            "first key of each sequence, then the number of keys",
            bounds="T")
]

# Floating-point operations: two matmuls forward and five backward over the query-key pairs that are
# visible without a window. The backward pass counts scores and d_p once, although it computes them
# in two kernels.
SEEN = "(min(S, T) * (T - min(S, T)) + min(S, T) * (min(S, T) + 1) / 2 if causal else S * T)"
FORWARD_FLOPS, BACKWARD_FLOPS = f"4 * A * D * {SEEN}", f"10 * A * D * {SEEN}"
LSE = {"mean": "log(T) + 0.5", "deviation": "0.1"}  # test values near the lse of random q and k

SINKS = Tensor("sinks", "in", "A", "f32", "sink of each head, or NULL", "with_sinks",
               later=True)
# Fields and tensors that belong to optional gradients.
MORE_GRADIENTS = [present("sinks", later=True), present("d_lse", later=True)]
D_SINKS = Tensor("d_sinks", "out", "A", "f32", "gradient of sinks, or NULL", "with_sinks",
                 later=True)
BACKWARD_SINKS = Tensor("sinks", "in", "A", "f32",
                        "the forward's sinks, to compute d_sinks, or NULL", "with_sinks",
                        later=True)


def d_lse(shape):
    return Tensor("d_lse", "in", shape, "f32", "gradient of lse, or NULL = 0", "with_d_lse",
                  later=True)


CASE_SIZES = {"B": 2, "S": "(rows + 1) / 2", "T": "(rows + 4) / 2", "A": 4, "K": 2, "D": 64}
SEQUENCE_CASE_SIZES = {"S": "rows", "T": "rows + 3", "U": 6, "A": 4, "K": 2, "D": 64}

OPS = [
    Op("attention_forward",
       "softmax(scale q k^T) v of every head, without scores in memory",
       f"""o_i = sum_j p_ij v_j, p_ij = e^(z_ij - lse_i), lse_i = log sum_j e^z_ij over the
keys j that query i sees. z = scale q k^T, or softcap tanh(scale q k^T / softcap).
{BAND}
A query that sees no key has o = 0 and lse = -inf.
A sink is an extra logit of a head. It enters the softmax denominator of each query and has no
value:
  lse_i = log(e^sinks_h + sum_j e^z_ij), so a query that sees no key has o = 0 and lse = sinks_h.
-inf means no sink, as do sinks below -2.3e38. Sinks above 2.3e38 are not supported. Neither scale
nor softcap changes sinks.
Matmuls with 16-bit operands run on tensor cores if the device has them; p is rounded to dtype for
that. Accumulators, exponentials and lse are f32.
{MEMORY}""", [*FIELDS, present("lse"), present("sinks", later=True)], [
           Tensor("q", "in", "B S A D", "dtype", "queries"),
           Tensor("k", "in", "B T K D", "dtype", "keys"),
           Tensor("v", "in", "B T K D", "dtype", "values", positive=True),
           Tensor("o", "out", "B S A D", "dtype", "the weighted values"),
           Tensor("lse", "out", "B A S", "f32",
                  "lse of each query, which the backward reads, or NULL", "with_lse"), SINKS
       ],
       rows="batches",
       sharding="groups",
       cases=[
           "dtype=bf16 causal=1 with_lse=1", "window_left=5 window_right=2 softcap=3 D=24",
           "dtype=f16 scale=0.5 D=96", "dtype=bf16 causal=1 with_lse=1 with_sinks=1"
       ],
       recorded=[
           "causal=1 with_lse=1", "dtype=bf16 D=96 window_left=100 window_right=3 softcap=30"
       ],
       checks=[
           "B=2 S=70 T=80 A=4 K=2 D=24 causal=1 with_lse=1",
           "B=1 S=9 T=5 A=2 K=2 D=96 dtype=bf16 window_left=2 window_right=1 softcap=3 with_lse=1",
           "B=1 S=33 T=65 A=3 K=1 D=64 dtype=f16 scale=0.5",
           "B=2 S=80 T=70 A=4 K=2 D=24 causal=1 window_left=30 with_lse=1 with_sinks=1"
       ],
       sizes={"T": 1024},
       flops=f"B * {FORWARD_FLOPS}",
       case_sizes=CASE_SIZES,
       large=["row dtype=bf16 S={16|2} T={16|2} A={8|2} K=1 D=64 causal=1 with_lse=1"],
       bench=[
           "dtype={bf16|f32} B={4|1} S={4096|512} T={4096|512} A=32 K=8 D=128 causal=1 "
           "with_lse=1"
       ]),
    Op("attention_backward",
       "gradients of attention",
       f"""delta_i = o_i . d_o_i - d_lse_i, d_s_ij = p_ij (d_o_i . v_j - delta_i).
With softcap d_s_ij is also multiplied by 1 - (z_ij / softcap)^2.
  d_v_j = sum_i p_ij d_o_i;  d_k_j = scale sum_i d_s_ij q_i;  d_q_i = scale sum_j d_s_ij k_j
d_k and d_v are summed over all heads of q that share a head of k and v. p is computed again from
q, k and lse, so the description must have the forward's values. d_s and p are rounded to dtype
before they are multiplied.
lse already includes the forward's sinks, so d_q, d_k and d_v do not need them. Pass sinks only to
compute their gradient:
  d_sinks_h = -sum of e^(sinks_h - lse_i) delta_i over the queries i of all batches.
{BAND}
A query that sees no key has gradient 0. Without a sink its d_lse is ignored, even if it is NaN.
{MEMORY}
There are no atomics, so every call gives the same bits. The workspace holds delta, 4 bytes per query
and head. With sinks it also holds partial sums, at most 4 bytes per query and head.""",
       [*FIELDS, *MORE_GRADIENTS], [
           Tensor("d_o", "in", "B S A D", "dtype", "gradient of o"),
           Tensor("q", "in", "B S A D", "dtype", "queries"),
           Tensor("k", "in", "B T K D", "dtype", "keys"),
           Tensor("v", "in", "B T K D", "dtype", "values", positive=True),
           Tensor("o", "in", "B S A D", "dtype", "the forward's o"),
           Tensor("lse", "in", "B A S", "f32", "the forward's lse", **LSE),
           Tensor("d_q", "out", "B S A D", "dtype", "gradient of q"),
           Tensor("d_k", "out", "B T K D", "dtype", "gradient of k"),
           Tensor("d_v", "out", "B T K D", "dtype", "gradient of v"), BACKWARD_SINKS,
           d_lse("B A S"), D_SINKS
       ],
       rows="batches",
       sharding="groups",
       cases=[
           "dtype=bf16 causal=1", "window_left=3 softcap=2 D=24 scale=0.2",
           "dtype=bf16 causal=1 with_sinks=1 with_d_lse=1"
       ],
       recorded=["causal=1 dtype=f16", "window_left=100 softcap=30 D=256 dtype=bf16"],
       checks=[
           "B=2 S=70 T=80 A=4 K=2 D=24 causal=1",
           "B=1 S=9 T=5 A=2 K=2 D=96 dtype=bf16 window_left=2 window_right=1 softcap=3",
           "B=1 S=33 T=65 A=3 K=1 D=64 dtype=f16 scale=0.1",
           "B=2 S=80 T=70 A=4 K=2 D=24 causal=1 with_sinks=1 with_d_lse=1",
           "B=3 S=70 T=80 A=4 K=2 D=24 dtype=bf16 with_sinks=1",
           "B=1 S=9 T=12 A=2 K=2 D=8 with_d_lse=1"
       ],
       sizes={"T": 1024},
       flops=f"B * {BACKWARD_FLOPS}",
       case_sizes=CASE_SIZES,
       large=["row dtype=bf16 S={16|2} T={16|2} A={8|2} K=1 D=64 causal=1"],
       bench=["dtype={bf16|f32} B={4|1} S={4096|512} T={4096|512} A=32 K=8 D=128 causal=1"]),
    Op("attention_varlen_forward",
       "attention over sequences of different lengths in one call",
       f"""Computes attention_forward for each sequence.
{SEQUENCES}
{SEQUENCE_MEMORY}""", [*SEQUENCE_FIELDS, present("lse"), present("sinks", later=True)], [
           Tensor("q", "in", "S A D", "dtype", "queries"),
           Tensor("k", "in", "T K D", "dtype", "keys"),
           Tensor("v", "in", "T K D", "dtype", "values", positive=True), *BOUNDS,
           Tensor("o", "out", "S A D", "dtype", "the weighted values"),
           Tensor("lse", "out", "A S", "f32",
                  "lse of each query, which the backward reads, or NULL", "with_lse"), SINKS
       ],
       rows="queries of all sequences, or keys if there are more",
       reports="sequence",
       cases=[
           "dtype=bf16 causal=1 with_lse=1",
           "window_left=5 window_right=2 softcap=3 D=24 index_dtype=i32",
           "causal=1 D=24 with_lse=1 with_sinks=1"
       ],
       recorded=["dtype=bf16 causal=1 with_lse=1"],
       checks=[
           "S=150 T=170 U=6 A=4 K=2 D=24 causal=1 with_lse=1",
           "S=40 T=90 U=4 A=2 K=1 D=64 dtype=bf16 index_dtype=i32 window_left=20 window_right=3 "
           "softcap=3 with_lse=1",
           "S=150 T=140 U=6 A=4 K=2 D=24 causal=1 with_lse=1 with_sinks=1"
       ],
       sizes={"S": 4096, "T": 4096, "U": 9},
       flops=FORWARD_FLOPS,
       case_sizes=SEQUENCE_CASE_SIZES,
       large=["row dtype=bf16 T=70 A={8|2} K=1 D=64 U=2 max_seqlen_q={16777216|4096}"],
       not_compared="the case attention times the formula on sequences of one length",
       bench=[
           "dtype={bf16|f32} U=9 S={12288|1536} T={12288|1536} max_seqlen_q={3072|384} "
           "max_seqlen_k={3072|384} A=32 K=8 D=128 index_dtype=i32 causal=1 with_lse=1"
       ]),
    Op("attention_varlen_backward",
       "gradients of attention over sequences of different lengths",
       f"""Computes attention_backward for each sequence.
{SEQUENCES}
{SEQUENCE_MEMORY}
There are no atomics, so every call gives the same bits. The workspace holds delta, 4 bytes per query
and head. With sinks it also holds partial sums, at most 4 bytes per query and head.""",
       [*SEQUENCE_FIELDS, *MORE_GRADIENTS], [
           Tensor("d_o", "in", "S A D", "dtype", "gradient of o"),
           Tensor("q", "in", "S A D", "dtype", "queries"),
           Tensor("k", "in", "T K D", "dtype", "keys"),
           Tensor("v", "in", "T K D", "dtype", "values", positive=True),
           Tensor("o", "in", "S A D", "dtype", "the forward's o"),
           Tensor("lse", "in", "A S", "f32", "the forward's lse", **LSE), *BOUNDS,
           Tensor("d_q", "out", "S A D", "dtype", "gradient of q"),
           Tensor("d_k", "out", "T K D", "dtype", "gradient of k"),
           Tensor("d_v", "out", "T K D", "dtype", "gradient of v"), BACKWARD_SINKS, d_lse("A S"),
           D_SINKS
       ],
       rows="queries of all sequences, or keys if there are more",
       reports="sequence",
       cases=[
           "dtype=bf16 causal=1 index_dtype=i32", "window_left=3 softcap=2 D=24 scale=0.2",
           "causal=1 D=24 with_sinks=1 with_d_lse=1"
       ],
       recorded=["dtype=bf16 causal=1 index_dtype=i32"],
       checks=[
           "S=150 T=170 U=6 A=4 K=2 D=24 causal=1",
           "S=40 T=90 U=4 A=2 K=1 D=64 dtype=bf16 index_dtype=i32 window_left=20 window_right=3 "
           "softcap=3", "S=150 T=140 U=6 A=4 K=2 D=24 causal=1 with_sinks=1 with_d_lse=1"
       ],
       sizes={"S": 4096, "T": 4096, "U": 9},
       flops=BACKWARD_FLOPS,
       case_sizes=SEQUENCE_CASE_SIZES,
       not_large="its lse has one column per row; the forward pass covers its tensors",
       not_compared="the case attention times the formula on sequences of one length",
       bench=[
           "dtype={bf16|f32} U=9 S={12288|1536} T={12288|1536} max_seqlen_q={3072|384} "
           "max_seqlen_k={3072|384} A=32 K=8 D=128 index_dtype=i32 causal=1"
       ]),
]
