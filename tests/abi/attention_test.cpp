// Attention through the C ABI: heads in one fused buffer, sequences, and mismatched arguments.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "execute.h"

namespace ligerdsl::test::attention_test {
namespace {

// Queries, keys and values of each token in one row, as a fused projection writes them.
struct Projection {
  static constexpr int64_t kS = 5, kA = 4, kK = 2, kD = 8, kRow = (kA + 2 * kK) * kD;
  explicit Projection(const Context& context)
      : memory(LIGERDSL_F32, {kS, kRow}), context(context) {}

  Tensor part(int64_t first, int64_t heads) {
    return Tensor(memory.floats() + first * kD, context.device(), LIGERDSL_F32, {1, kS, heads, kD},
                  {kS * kRow, kRow, kD, 1});
  }
  Tensor q() { return part(0, kA); }
  Tensor k() { return part(kA, kK); }
  Tensor v() { return part(kA + kK, kK); }
  float& value(int64_t token, int64_t head, int64_t column) {
    return memory.floats()[token * kRow + (kA + kK + head) * kD + column];
  }

  Owned memory;
  const Context& context;
};

// With q = 0, all visible keys have equal weight: o is the mean of their values, and lse is
// ln(number of keys).
TEST_F(Execute, AttentionOfZeroQueriesAveragesValues) {
  using P = Projection;
  Projection in(context_), gradients(context_);
  for (int64_t i = 0; i < P::kS * P::kRow; ++i)
    in.memory.floats()[i] = 0, gradients.memory.floats()[i] = -1;
  for (int64_t token = 0; token < P::kS; ++token)
    for (int64_t head = 0; head < P::kK; ++head)
      for (int64_t column = 0; column < P::kD; ++column)
        in.value(token, head, column) = static_cast<float>(token + 10 * head + 100 * column);
  Owned o(LIGERDSL_F32, {1, P::kS, P::kA, P::kD}), lse(LIGERDSL_F32, {1, P::kA, P::kS});
  AttentionForwardDesc desc = attention_forward_desc();
  desc.causal = 1;
  AttentionForwardArgs args = attention_forward_args();
  const Tensor q = in.q(), k = in.k(), v = in.v();
  args.q = q, args.k = k, args.v = v, args.o = o, args.lse = lse;
  attention_forward(context_, desc, args);
  for (int64_t token = 0; token < P::kS; ++token)
    for (int64_t head = 0; head < P::kA; ++head) {
      ASSERT_NEAR(lse.floats()[head * P::kS + token], std::log(static_cast<double>(token + 1)),
                  1e-6);
      for (int64_t column = 0; column < P::kD; ++column)
        ASSERT_NEAR(
            o.floats()[(token * P::kA + head) * P::kD + column],
            static_cast<double>(token) / 2 + static_cast<double>(10 * (head / 2) + 100 * column),
            1e-3);
    }

  // With q = k = 0, d_q and d_k are 0. For d_o = 1, the gradient of a value is the sum of its
  // weights in all queries that see it.
  Owned d_o(LIGERDSL_F32, {1, P::kS, P::kA, P::kD});
  for (int64_t i = 0; i < P::kS * P::kA * P::kD; ++i) d_o.floats()[i] = 1;
  AttentionBackwardDesc back = attention_backward_desc();
  back.causal = 1;
  AttentionBackwardArgs with = attention_backward_args();
  const Tensor d_q = gradients.q(), d_k = gradients.k(), d_v = gradients.v();
  with.d_o = d_o, with.q = q, with.k = k, with.v = v, with.o = o, with.lse = lse;
  with.d_q = d_q, with.d_k = d_k, with.d_v = d_v;
  attention_backward(context_, back, with);
  for (int64_t token = 0; token < P::kS; ++token) {
    double sum = 0;
    for (int64_t later = token; later < P::kS; ++later) sum += 2 / static_cast<double>(later + 1);
    for (int64_t head = 0; head < P::kK; ++head)
      for (int64_t column = 0; column < P::kD; ++column)
        ASSERT_NEAR(gradients.value(token, head, column), sum, 1e-5);
    for (int64_t i = 0; i < (P::kA + P::kK) * P::kD; ++i)
      ASSERT_EQ(gradients.memory.floats()[token * P::kRow + i], 0) << token << ", " << i;
  }
}

// With queries of 0, a sink of 0 counts like one more key with value 0: o is the sum of T values
// divided by T + 1. For d_o = 1 and d_lse = 2, each query adds (2 - o) / (T + 1) to d_sinks.
TEST_F(Execute, AttentionSinkOfZeroIsOneMoreKey) {
  constexpr int64_t kS = 3, kT = 4, kD = 8;
  Owned q(LIGERDSL_F32, {1, kS, 2, kD}), k(LIGERDSL_F32, {1, kT, 1, kD}),
      v(LIGERDSL_F32, {1, kT, 1, kD}), o(LIGERDSL_F32, {1, kS, 2, kD}),
      lse(LIGERDSL_F32, {1, 2, kS}), sinks(LIGERDSL_F32, {2}), d_o(LIGERDSL_F32, {1, kS, 2, kD}),
      d_lse(LIGERDSL_F32, {1, 2, kS}), d_q(LIGERDSL_F32, {1, kS, 2, kD}),
      d_k(LIGERDSL_F32, {1, kT, 1, kD}), d_v(LIGERDSL_F32, {1, kT, 1, kD}),
      d_sinks(LIGERDSL_F32, {2});
  std::fill_n(q.floats(), kS * 2 * kD, 0.0f), std::fill_n(k.floats(), kT * kD, 1.0f);
  for (int64_t i = 0; i < kT * kD; ++i) v.floats()[i] = static_cast<float>(i / kD + 1);
  std::fill_n(d_o.floats(), kS * 2 * kD, 0.0f), std::fill_n(d_lse.floats(), kS * 2, 2.0f);
  for (int64_t i = 0; i < kS * 2; ++i) d_o.floats()[i * kD] = 1;
  sinks.floats()[0] = 0, sinks.floats()[1] = -INFINITY;
  AttentionForwardArgs args = attention_forward_args();
  args.q = q, args.k = k, args.v = v, args.o = o, args.lse = lse, args.sinks = sinks;
  attention_forward(context_, attention_forward_desc(), args);
  AttentionBackwardArgs with = attention_backward_args();
  with.d_o = d_o, with.q = q, with.k = k, with.v = v, with.o = o, with.lse = lse;
  with.d_q = d_q, with.d_k = d_k, with.d_v = d_v;
  with.sinks = sinks, with.d_lse = d_lse, with.d_sinks = d_sinks;
  attention_backward(context_, attention_backward_desc(), with);
  for (int64_t i = 0; i < kS; ++i) {
    EXPECT_NEAR(lse.floats()[i], std::log(5.0), 1e-6);
    EXPECT_NEAR(lse.floats()[kS + i], std::log(4.0), 1e-6);
    EXPECT_NEAR(o.floats()[i * 2 * kD], 10.0 / 5, 1e-6);
    EXPECT_NEAR(o.floats()[(i * 2 + 1) * kD], 10.0 / 4, 1e-6);
  }
  EXPECT_NEAR(d_sinks.floats()[0], 0, 1e-5);  // 2 - o is 0
  EXPECT_EQ(d_sinks.floats()[1], 0);
  for (int64_t i = 0; i < kS * 2; ++i) d_lse.floats()[i] = 12;
  attention_backward(context_, attention_backward_desc(), with);
  EXPECT_NEAR(d_sinks.floats()[0], kS * (12.0 - 2) / 5, 1e-5);

  // `sinks` requires `d_sinks` and has one element per head.
  with.d_sinks = nullptr;
  AttentionBackwardDesc back = attention_backward_desc();
  expect_failure(ligerdsl_attention_backward(context_.get(), &back, &with, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`d_sinks`"});
  AttentionForwardDesc desc = attention_forward_desc();
  Owned three(LIGERDSL_F32, {3});
  args.sinks = three;
  expect_failure(ligerdsl_attention_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`sinks`"});
}

// Programs built before sinks and d_lse were added pass shorter structs.
TEST_F(Execute, AttentionAcceptsStructsWithoutLaterFields) {
  Owned q(LIGERDSL_F32, {1, 3, 2, 8}), k(LIGERDSL_F32, {1, 3, 2, 8}), o(LIGERDSL_F32, {1, 3, 2, 8}),
      lse(LIGERDSL_F32, {1, 2, 3}), d_q(LIGERDSL_F32, {1, 3, 2, 8}),
      d_k(LIGERDSL_F32, {1, 3, 2, 8}), d_v(LIGERDSL_F32, {1, 3, 2, 8});
  for (Owned* tensor : {&q, &k, &o}) std::fill_n(tensor->floats(), 48, 1.0f);
  std::fill_n(lse.floats(), 6, std::log(3.0f));
  AttentionBackwardDesc desc = attention_backward_desc();
  AttentionBackwardArgs args = attention_backward_args();
  args.d_o = o, args.q = q, args.k = k, args.v = k, args.o = o, args.lse = lse;
  args.d_q = d_q, args.d_k = d_k, args.d_v = d_v;
  args.sinks = q;  // struct_size excludes this field, so it is ignored
  desc.struct_size = offsetof(AttentionBackwardDesc, with_sinks);
  args.struct_size = offsetof(AttentionBackwardArgs, sinks);
  EXPECT_EQ(ligerdsl_attention_backward(context_.get(), &desc, &args, nullptr), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  args.struct_size -= sizeof(void*);
  expect_failure(ligerdsl_attention_backward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_ABI_MISMATCH, {"struct_size"});

  // A struct of an older header ends where `with_sinks` begins. Bytes after struct_size may have
  // any value.
  AttentionForwardDesc forward = attention_forward_desc();
  AttentionForwardArgs tensors = attention_forward_args();
  tensors.q = q, tensors.k = k, tensors.v = k, tensors.o = o;
  forward.struct_size = offsetof(AttentionForwardDesc, with_sinks);
  EXPECT_EQ(forward.struct_size % alignof(AttentionForwardDesc), 0u);
  forward.with_sinks = 0x5a5a5a5a;
  tensors.struct_size = offsetof(AttentionForwardArgs, sinks);
  EXPECT_EQ(ligerdsl_attention_forward(context_.get(), &forward, &tensors, nullptr),
            LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
}

TEST_F(Execute, AttentionRefusesMismatchedArguments) {
  Owned q(LIGERDSL_F32, {2, 3, 4, 8}), k(LIGERDSL_F32, {2, 5, 2, 8}), v(LIGERDSL_F32, {2, 5, 2, 8}),
      o(LIGERDSL_F32, {2, 3, 4, 8}), lse(LIGERDSL_F32, {2, 4, 3});
  AttentionForwardDesc desc = attention_forward_desc();
  AttentionForwardArgs args = attention_forward_args();
  args.q = q, args.k = k, args.v = v, args.o = o;
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_attention_forward(context_.get(), &desc, &args, nullptr), status,
                   words);
    desc = attention_forward_desc();
    args = attention_forward_args();
    args.q = q, args.k = k, args.v = v, args.o = o;
  };
  Owned other(LIGERDSL_F32, {2, 6, 2, 8}), three(LIGERDSL_F32, {2, 5, 3, 8}),
      wide(LIGERDSL_F32, {2, 3, 4, 300}), flat(LIGERDSL_F32, {3, 4, 8}),
      half(LIGERDSL_F16, {2, 5, 2, 8});
  args.v = other;
  refused(LIGERDSL_INVALID_SHAPE, {"`v`", "[2, 5, 2, 8]", "[2, 6, 2, 8]"});
  args.k = args.v = three;
  refused(LIGERDSL_INVALID_SHAPE, {"`k_heads`", "divisor of q_heads = 4", "got 3"});
  args.q = wide;
  refused(LIGERDSL_INVALID_SHAPE, {"head_dim", "256", "300"});
  args.q = flat;
  refused(LIGERDSL_INVALID_SHAPE, {"`q`"});
  args.k = half;
  refused(LIGERDSL_INVALID_DTYPE, {"`k`"});
  args.o = q;
  refused(LIGERDSL_INVALID_ALIAS, {"`o`", "`q`"});
  const Tensor columns(q.floats(), context_.device(), LIGERDSL_F32, {2, 3, 4, 4}, {96, 32, 8, 2});
  args.q = columns;
  refused(LIGERDSL_INVALID_SHAPE, {"`q`"});
  args.lse = q;
  refused(LIGERDSL_INVALID_SHAPE, {"`lse`"});
  args.v = nullptr;
  refused(LIGERDSL_INVALID_NULL_POINTER, {"`v`"});
  desc.window_left = -2;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`window_left`", "-2"});
  desc.scale = -1;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`scale`", "-1"});
  desc.scale = std::numeric_limits<float>::quiet_NaN();
  refused(LIGERDSL_INVALID_ARGUMENT, {"`scale`"});
  desc.softcap = -1;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`softcap`", "-1"});
  desc.n_keys = 4;
  refused(LIGERDSL_INVALID_SHAPE, {"`k`", "4", "5"});
  desc.q_heads = -1;
  refused(LIGERDSL_INVALID_SHAPE, {"q_heads"});

  // The backward pass fails without lse, and if d_q overwrites q.
  AttentionBackwardDesc back = attention_backward_desc();
  AttentionBackwardArgs with = attention_backward_args();
  with.d_o = o, with.q = q, with.k = k, with.v = v, with.o = o, with.d_q = q, with.d_k = k,
  with.d_v = v;
  expect_failure(ligerdsl_attention_backward(context_.get(), &back, &with, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`lse`"});
  with.lse = lse;
  expect_failure(ligerdsl_attention_backward(context_.get(), &back, &with, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`d_q`"});
}

// Sequences of 3, 0 and 4 tokens, with causal attention and q = 0. o and lse are computed from a
// token's own sequence only, and so are gradients of values.
TEST_F(Execute, AttentionVarlenSeparatesSequences) {
  constexpr int64_t kTokens = 7, kD = 8;
  Owned q(LIGERDSL_F32, {kTokens, 2, kD}), k(LIGERDSL_F32, {kTokens, 1, kD}),
      v(LIGERDSL_F32, {kTokens, 1, kD});
  Owned o(LIGERDSL_F32, {kTokens, 2, kD}), lse(LIGERDSL_F32, {2, kTokens}),
      bounds(LIGERDSL_I32, {4});
  Owned d_o(LIGERDSL_F32, {kTokens, 2, kD}), d_q(LIGERDSL_F32, {kTokens, 2, kD}),
      d_k(LIGERDSL_F32, {kTokens, 1, kD}), d_v(LIGERDSL_F32, {kTokens, 1, kD});
  const int32_t ends[] = {0, 3, 3, 7};
  std::memcpy(bounds.floats(), ends, sizeof ends);
  for (int64_t i = 0; i < kTokens * 2 * kD; ++i) q.floats()[i] = 0, d_o.floats()[i] = 1;
  for (int64_t i = 0; i < kTokens * kD; ++i)
    k.floats()[i] = 1, v.floats()[i] = static_cast<float>(i / kD);
  AttentionVarlenForwardDesc desc = attention_varlen_forward_desc();
  desc.causal = 1, desc.max_seqlen_q = desc.max_seqlen_k = 4;
  AttentionVarlenForwardArgs args = attention_varlen_forward_args();
  args.q = q, args.k = k, args.v = v, args.cu_seqlens_q = args.cu_seqlens_k = bounds, args.o = o,
  args.lse = lse;
  attention_varlen_forward(context_, desc, args);
  AttentionVarlenBackwardDesc back = attention_varlen_backward_desc();
  back.causal = 1, back.max_seqlen_q = back.max_seqlen_k = 4;
  AttentionVarlenBackwardArgs with = attention_varlen_backward_args();
  with.d_o = d_o, with.q = q, with.k = k, with.v = v, with.o = o, with.lse = lse;
  with.cu_seqlens_q = with.cu_seqlens_k = bounds, with.d_q = d_q, with.d_k = d_k, with.d_v = d_v;
  attention_varlen_backward(context_, back, with);
  for (int64_t token = 0; token < kTokens; ++token) {
    const int64_t first = token < 3 ? 0 : 3, end = token < 3 ? 3 : 7;
    const auto seen = static_cast<double>(token - first + 1);
    double sum = 0;
    for (int64_t later = token; later < end; ++later)
      sum += 2 / static_cast<double>(later - first + 1);
    for (int64_t head = 0; head < 2; ++head)
      ASSERT_NEAR(lse.floats()[head * kTokens + token], std::log(seen), 1e-6);
    for (int64_t i = 0; i < 2 * kD; ++i)
      ASSERT_NEAR(o.floats()[token * 2 * kD + i], static_cast<double>(first + token) / 2, 1e-5);
    for (int64_t i = 0; i < kD; ++i) ASSERT_NEAR(d_v.floats()[token * kD + i], sum, 1e-5);
  }
}

TEST_F(Execute, AttentionVarlenRefusesMismatchedArguments) {
  Owned q(LIGERDSL_F32, {6, 4, 8}), k(LIGERDSL_F32, {5, 2, 8}), v(LIGERDSL_F32, {5, 2, 8}),
      o(LIGERDSL_F32, {6, 4, 8});
  Owned bounds(LIGERDSL_I32, {3}), more(LIGERDSL_I32, {4}), one(LIGERDSL_I32, {1}),
      wide(LIGERDSL_I64, {3}), turned(LIGERDSL_F32, {6, 4});
  const int32_t queries[] = {0, 2, 6};
  std::memcpy(bounds.floats(), queries, sizeof queries);
  AttentionVarlenForwardDesc desc;
  AttentionVarlenForwardArgs args;
  const auto reset = [&] {
    desc = attention_varlen_forward_desc(), args = attention_varlen_forward_args();
    desc.max_seqlen_q = desc.max_seqlen_k = 6;
    args.q = q, args.k = k, args.v = v, args.cu_seqlens_q = args.cu_seqlens_k = bounds, args.o = o;
  };
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_attention_varlen_forward(context_.get(), &desc, &args, nullptr), status,
                   words);
    reset();
  };
  reset();
  args.cu_seqlens_k = more;
  refused(LIGERDSL_INVALID_SHAPE, {"`cu_seqlens_k`", "3", "4"});
  args.cu_seqlens_q = args.cu_seqlens_k = one;
  refused(LIGERDSL_INVALID_SHAPE, {"`n_bounds`", "2 or more", "got 1"});
  args.cu_seqlens_k = wide;
  refused(LIGERDSL_INVALID_DTYPE, {"`cu_seqlens_k`"});
  args.cu_seqlens_q = nullptr;
  refused(LIGERDSL_INVALID_NULL_POINTER, {"`cu_seqlens_q`"});
  desc.max_seqlen_q = attention_varlen_forward_desc().max_seqlen_q;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`max_seqlen_q`", "longest sequence", "got -1"});
  desc.max_seqlen_k = -1;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`max_seqlen_k`", "-1"});
  args.lse = turned;
  refused(LIGERDSL_INVALID_SHAPE, {"`lse`"});
  args.o = q;
  refused(LIGERDSL_INVALID_ALIAS, {"`o`", "`q`"});
  // cu_seqlens_k = {0, 2, 6} exceeds the five rows of k in sequence 1.
  ASSERT_EQ(ligerdsl_attention_varlen_forward(context_.get(), &desc, &args, nullptr),
            LIGERDSL_SUCCESS);
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_BOUNDS,
                 {"attention_varlen_forward: cu_seqlens out of bounds at sequence 1"});
  // max_seqlen_k = 0 promises that no sequence has keys, but sequence 0 has two.
  desc.max_seqlen_k = 0;
  ASSERT_EQ(ligerdsl_attention_varlen_forward(context_.get(), &desc, &args, nullptr),
            LIGERDSL_SUCCESS);
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_BOUNDS,
                 {"attention_varlen_forward: cu_seqlens out of bounds at sequence 0"});
}

// All sequences of the call lack keys, queries or both: outputs and gradients are 0.
TEST_F(Execute, AttentionVarlenAcceptsEmptySequences) {
  for (const auto& [queries, keys] : {std::pair{5, 0}, {0, 5}, {0, 0}}) {
    SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
    const auto poisoned = [](std::vector<int64_t> shape) {
      Owned tensor(LIGERDSL_F32, shape);
      std::fill_n(tensor.floats(),
                  std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()),
                  NAN);
      return tensor;
    };
    const int64_t s = queries, t = keys;
    Owned q(LIGERDSL_F32, {s, 4, 8}), k(LIGERDSL_F32, {t, 2, 8}), v(LIGERDSL_F32, {t, 2, 8}),
        d_o(LIGERDSL_F32, {s, 4, 8});
    Owned o = poisoned({s, 4, 8}), lse = poisoned({4, s}), d_q = poisoned({s, 4, 8}),
          d_k = poisoned({t, 2, 8}), d_v = poisoned({t, 2, 8});
    std::fill_n(d_o.floats(), s * 32, 1.0f);
    Owned of_queries(LIGERDSL_I32, {3}), of_keys(LIGERDSL_I32, {3});
    const int32_t q_bounds[] = {0, queries / 2, queries}, k_bounds[] = {0, keys / 2, keys};
    std::memcpy(of_queries.floats(), q_bounds, sizeof q_bounds);
    std::memcpy(of_keys.floats(), k_bounds, sizeof k_bounds);
    AttentionVarlenForwardDesc desc = attention_varlen_forward_desc();
    desc.max_seqlen_q = (s + 1) / 2, desc.max_seqlen_k = (t + 1) / 2;
    AttentionVarlenForwardArgs args = attention_varlen_forward_args();
    args.q = q, args.k = k, args.v = v, args.o = o, args.lse = lse, args.cu_seqlens_q = of_queries,
    args.cu_seqlens_k = of_keys;
    attention_varlen_forward(context_, desc, args);
    for (int64_t i = 0; i < s * 32; ++i) ASSERT_EQ(o.floats()[i], 0);
    for (int64_t i = 0; i < s * 4; ++i) ASSERT_EQ(lse.floats()[i], -INFINITY);
    AttentionVarlenBackwardDesc back = attention_varlen_backward_desc();
    back.max_seqlen_q = desc.max_seqlen_q, back.max_seqlen_k = desc.max_seqlen_k;
    AttentionVarlenBackwardArgs with = attention_varlen_backward_args();
    with.d_o = d_o, with.q = q, with.k = k, with.v = v, with.o = o, with.lse = lse;
    with.cu_seqlens_q = of_queries, with.cu_seqlens_k = of_keys, with.d_q = d_q, with.d_k = d_k,
    with.d_v = d_v;
    attention_varlen_backward(context_, back, with);
    for (int64_t i = 0; i < s * 32; ++i) ASSERT_EQ(d_q.floats()[i], 0);
    for (int64_t i = 0; i < t * 16; ++i) ASSERT_EQ(d_k.floats()[i], 0);
    for (int64_t i = 0; i < t * 16; ++i) ASSERT_EQ(d_v.floats()[i], 0);
    EXPECT_EQ(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_SUCCESS)
        << ligerdsl_last_error();
  }
}

// A batch size of 0 launches no work, whatever the token counts are.
TEST_F(Execute, AttentionAcceptsEmptyBatch) {
  Owned q(LIGERDSL_F32, {0, 3, 4, 8}), k(LIGERDSL_F32, {0, 5, 2, 8});
  AttentionForwardArgs args = attention_forward_args();
  args.q = args.o = q, args.k = args.v = k;
  attention_forward(context_, attention_forward_desc(), args);
}

}  // namespace
}  // namespace ligerdsl::test::attention_test
