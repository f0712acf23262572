"""Attention."""

from table import INDEX, Op, Tensor, dim, dtype, flag, indices, option, present

HEADS = [
    dim("head_dim", "D", "q", "columns of one head, at most 256: a program holds whole heads", high=256), dtype("dtype", "q"),
    dim("q_heads", "A", "q", "heads of q"), dim("k_heads", "K", "k", "heads of k and v, a divisor of q_heads")]

BAND_FIELDS = [
    flag("causal", "1: no query sees keys to its right"),
    option("window_left", "int64_t", -1, "keys to its left that a query sees; -1 = all", -1, 2**31 - 1),
    option("window_right", "int64_t", -1, "keys to its right that a query sees, without causal; -1 = all", -1, 2**31 - 1),
    option("scale", "float", "0.0f", "multiplies q k^T; 0 = 1 / sqrt(head_dim)", 1e-9, 1e9, or_zero=True),
    option("softcap", "float", "0.0f", "0 = off", 1e-3, 1e30, or_zero=True)]

FIELDS = [*HEADS, dim("n_queries", "S", "q", "tokens of q"), dim("n_keys", "T", "k", "tokens of k and v"), *BAND_FIELDS]

SEQUENCE_FIELDS = [
    *HEADS,
    dim("n_bounds", "U", "cu_seqlens_q", "numbers in cu_seqlens_q, and in cu_seqlens_k: one more than sequences", high=2**31 - 1),
    dtype("index_dtype", "cu_seqlens_q", "of cu_seqlens_q and cu_seqlens_k", INDEX),
    option("max_seqlen_q", "int64_t", -1, "as many queries as a sequence has at most; more than there are tokens make no difference, 0 is taken as 1, -1 is refused", -1, 2**31 - 1),
    option("max_seqlen_k", "int64_t", -1, "as many keys as a sequence has at most, as max_seqlen_q", -1, 2**31 - 1), *BAND_FIELDS]

BAND = """Query i is where key i + n_keys - n_queries is, so that the last ones are together; it sees key j if
i + n_keys - n_queries - window_left <= j <= i + n_keys - n_queries + window_right; causal: a window_right of 0. Heads h of q take head
h k_heads / q_heads of k and v."""

MEMORY = """Tensors of heads have any strides but a last one of 1, so memory in the order [batch, head, token, column] is one transposed
description away. On a GPU of 16-bit numbers the fast kernels want heads to begin at multiples of 16 bytes and head_dim to be a multiple
of 8. One plan serves one n_queries and one n_keys, and any number of batches; code that is compiled is shared by all. Outputs overlap nothing."""

SEQUENCES = """Tokens of all sequences lie one behind the other: sequence n has the queries from cu_seqlens_q[n] to before cu_seqlens_q[n + 1], maybe none,
and the keys from cu_seqlens_k[n] to before cu_seqlens_k[n + 1], maybe none. They are read on the device; the host does not wait for them. What attention_*
says of queries and keys is true of each sequence, with its own numbers of both: its last query is where its last key is. No result of a sequence depends
on what another one holds. A sequence that begins before the one before it ends, that is outside of the tokens, that is longer than max_seqlen_q or
max_seqlen_k, and tokens in front of the first or behind the last sequence: ligerdsl_context_check reports the first such sequence (INVALID_BOUNDS), nothing outside
of the tensors is touched, and results are not defined. Tokens that belong to nothing, as those that fill a buffer up, make a sequence of their own."""

SEQUENCE_MEMORY = """Tensors of heads have any strides but a last one of 1. One plan serves any numbers of tokens; code that is compiled is shared by all plans
of other max_seqlen_q, max_seqlen_k and n_bounds. Outputs overlap nothing. Where the dense operations' loads go by tensor copies, these do: one sequence
takes 1 to 6 % more time than the dense call."""

BOUNDS = [indices("cu_seqlens_q", "U", "index_dtype", "first query of each sequence, and how many there are"),
          indices("cu_seqlens_k", "U", "index_dtype", "first key of each sequence, and how many there are")]

CASE_SIZES = {"B": 2, "S": "(rows + 1) / 2", "T": "(rows + 4) / 2", "A": 4, "K": 2, "D": 64}
SEQUENCE_CASE_SIZES = {"S": "rows", "T": "rows + 3", "U": 6, "A": 4, "K": 2, "D": 64}

OPS = [
    Op("attention_forward", "softmax(scale q k^T) v of every head, without scores in memory",
       f"""o_i = sum_j p_ij v_j, p_ij = e^(z_ij - lse_i), lse_i = log sum_j e^z_ij over the keys j that query i sees, z = scale q k^T or
softcap tanh(scale q k^T / softcap). {BAND} A query that sees no key has o = 0 and lse = -inf. Products of 16-bit numbers, p rounded to
dtype among them, on tensor cores where the device has them; sums, exponentials and lse in f32. {MEMORY}""",
       [*FIELDS, present("lse")],
       [Tensor("q", "in", "B S A D", "dtype", "queries"), Tensor("k", "in", "B T K D", "dtype", "keys"),
        Tensor("v", "in", "B T K D", "dtype", "values"), Tensor("o", "out", "B S A D", "dtype", "the weighted values"),
        Tensor("lse", "out", "B A S", "f32", "logarithms of the sums, which the backward takes, or NULL", "with_lse")],
       rows="batches",
       cases=["dtype=bf16 causal=1 with_lse=1", "window_left=5 window_right=2 softcap=3 D=24", "dtype=f16 scale=0.5 D=96"],
       sizes={"T": 1024},
       case_sizes=CASE_SIZES,
       large=["row dtype=bf16 S={16|2} T={16|2} A={8|2} K=1 D=64 causal=1 with_lse=1"],
       bench=["dtype={bf16|f32} B={4|1} S={4096|512} T={4096|512} A=32 K=8 D=128 causal=1 with_lse=1"]),

    Op("attention_backward", "gradients of attention",
       f"""With delta_i = o_i . d_o_i and d_s_ij = p_ij (d_o_i . v_j - delta_i), with softcap times 1 - (z_ij / softcap)^2:
d_v_j = sum_i p_ij d_o_i, d_k_j = scale sum_i d_s_ij q_i, d_q_i = scale sum_j d_s_ij k_j; sums of k and v are over all heads of q that share
them. p is made again from q, k and lse, by fields that are the forward's; d_s and p are rounded to dtype before they are multiplied.
{BAND} Where a query sees no key its gradient is 0. {MEMORY}
No atomics: the same bits at every call. The workspace is delta, 4 bytes for each query of each head.""",
       FIELDS,
       [Tensor("d_o", "in", "B S A D", "dtype", "gradient of o"), Tensor("q", "in", "B S A D", "dtype", "queries"),
        Tensor("k", "in", "B T K D", "dtype", "keys"), Tensor("v", "in", "B T K D", "dtype", "values"),
        Tensor("o", "in", "B S A D", "dtype", "the forward's o"), Tensor("lse", "in", "B A S", "f32", "the forward's lse"),
        Tensor("d_q", "out", "B S A D", "dtype", "gradient of q"), Tensor("d_k", "out", "B T K D", "dtype", "gradient of k"),
        Tensor("d_v", "out", "B T K D", "dtype", "gradient of v")],
       rows="batches",
       cases=["dtype=bf16 causal=1", "window_left=3 softcap=2 D=24 scale=0.2"],
       sizes={"T": 1024},
       case_sizes=CASE_SIZES,
       large=["row dtype=bf16 S={16|2} T={16|2} A={8|2} K=1 D=64 causal=1"],
       bench=["dtype={bf16|f32} B={4|1} S={4096|512} T={4096|512} A=32 K=8 D=128 causal=1"]),

    Op("attention_varlen_forward", "attention of sequences of several lengths in one call",
       f"""As attention_forward of each sequence. {SEQUENCES} {SEQUENCE_MEMORY}""",
       [*SEQUENCE_FIELDS, present("lse")],
       [Tensor("q", "in", "S A D", "dtype", "queries"), Tensor("k", "in", "T K D", "dtype", "keys"),
        Tensor("v", "in", "T K D", "dtype", "values"), *BOUNDS, Tensor("o", "out", "S A D", "dtype", "the weighted values"),
        Tensor("lse", "out", "A S", "f32", "logarithms of the sums, which the backward takes, or NULL", "with_lse")],
       rows="queries of all sequences, or keys where these are more", reports="sequence",
       cases=["dtype=bf16 causal=1 with_lse=1", "window_left=5 window_right=2 softcap=3 D=24 index_dtype=i32"],
       sizes={"S": 4096, "T": 4096, "U": 9},
       case_sizes=SEQUENCE_CASE_SIZES,
       large=["row dtype=bf16 T=70 A={8|2} K=1 D=64 U=2 max_seqlen_q={16777216|4096}"],
       bench=[
           "dtype={bf16|f32} U=9 S={12288|1536} T={12288|1536} max_seqlen_q={3072|384} max_seqlen_k={3072|384} A=32 K=8 D=128 index_dtype=i32 causal=1 with_lse=1"]),

    Op("attention_varlen_backward", "gradients of attention of sequences of several lengths",
       f"""As attention_backward of each sequence. {SEQUENCES} {SEQUENCE_MEMORY}
No atomics: the same bits at every call. The workspace is delta, 4 bytes for each query of each head.""",
       SEQUENCE_FIELDS,
       [Tensor("d_o", "in", "S A D", "dtype", "gradient of o"), Tensor("q", "in", "S A D", "dtype", "queries"),
        Tensor("k", "in", "T K D", "dtype", "keys"), Tensor("v", "in", "T K D", "dtype", "values"),
        Tensor("o", "in", "S A D", "dtype", "the forward's o"), Tensor("lse", "in", "A S", "f32", "the forward's lse"), *BOUNDS,
        Tensor("d_q", "out", "S A D", "dtype", "gradient of q"), Tensor("d_k", "out", "T K D", "dtype", "gradient of k"),
        Tensor("d_v", "out", "T K D", "dtype", "gradient of v")],
       rows="queries of all sequences, or keys where these are more", reports="sequence",
       cases=["dtype=bf16 causal=1 index_dtype=i32", "window_left=3 softcap=2 D=24 scale=0.2"],
       sizes={"S": 4096, "T": 4096, "U": 9},
       case_sizes=SEQUENCE_CASE_SIZES,
       not_large="its lse has one column per row; the forward pass covers its tensors",
       bench=[
           "dtype={bf16|f32} U=9 S={12288|1536} T={12288|1536} max_seqlen_q={3072|384} max_seqlen_k={3072|384} A=32 K=8 D=128 index_dtype=i32 causal=1"]),
]
