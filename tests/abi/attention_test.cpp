// Attention by the C ABI: heads that lie side by side in one buffer, and arguments that fit nothing.
#include <cmath>
#include <limits>

#include "execute.h"

namespace ligerdsl::test {
namespace {

// Tokens of queries, keys and values side by side, as a fused projection leaves them.
struct Projection {
  static constexpr int64_t kS = 5, kA = 4, kK = 2, kD = 8, kRow = (kA + 2 * kK) * kD;
  explicit Projection(const Context& context) : memory(LIGERDSL_F32, {kS, kRow}), context(context) {}

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

// Queries of 0 look at all that they see alike: o is a mean of values, lse the logarithm of their number.
TEST_F(Execute, AttentionOfQueriesThatLookAtAllAlike) {
  using P = Projection;
  Projection in(context_), gradients(context_);
  for (int64_t i = 0; i < P::kS * P::kRow; ++i) in.memory.floats()[i] = 0, gradients.memory.floats()[i] = -1;
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
      ASSERT_NEAR(lse.floats()[head * P::kS + token], std::log(static_cast<double>(token + 1)), 1e-6);
      for (int64_t column = 0; column < P::kD; ++column)
        ASSERT_NEAR(o.floats()[(token * P::kA + head) * P::kD + column],
                    static_cast<double>(token) / 2 + static_cast<double>(10 * (head / 2) + 100 * column), 1e-3);
    }

  // Without keys and queries there is no gradient of these; that of a value is the sum of what later tokens give it.
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
      for (int64_t column = 0; column < P::kD; ++column) ASSERT_NEAR(gradients.value(token, head, column), sum, 1e-5);
    for (int64_t i = 0; i < (P::kA + P::kK) * P::kD; ++i)
      ASSERT_EQ(gradients.memory.floats()[token * P::kRow + i], 0) << token << ", " << i;
  }
}

TEST_F(Execute, AttentionRefusesWhatDoesNotFit) {
  Owned q(LIGERDSL_F32, {2, 3, 4, 8}), k(LIGERDSL_F32, {2, 5, 2, 8}), v(LIGERDSL_F32, {2, 5, 2, 8}),
      o(LIGERDSL_F32, {2, 3, 4, 8}), lse(LIGERDSL_F32, {2, 4, 3});
  AttentionForwardDesc desc = attention_forward_desc();
  AttentionForwardArgs args = attention_forward_args();
  args.q = q, args.k = k, args.v = v, args.o = o;
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_attention_forward(context_.get(), &desc, &args, nullptr), status, words);
    desc = attention_forward_desc();
    args = attention_forward_args();
    args.q = q, args.k = k, args.v = v, args.o = o;
  };
  Owned other(LIGERDSL_F32, {2, 6, 2, 8}), three(LIGERDSL_F32, {2, 5, 3, 8}), wide(LIGERDSL_F32, {2, 3, 4, 300}),
      flat(LIGERDSL_F32, {3, 4, 8}), half(LIGERDSL_F16, {2, 5, 2, 8});
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

  // The backward does without nothing.
  AttentionBackwardDesc back = attention_backward_desc();
  AttentionBackwardArgs with = attention_backward_args();
  with.d_o = o, with.q = q, with.k = k, with.v = v, with.o = o, with.d_q = q, with.d_k = k, with.d_v = v;
  expect_failure(ligerdsl_attention_backward(context_.get(), &back, &with, nullptr), LIGERDSL_INVALID_NULL_POINTER,
                 {"`lse`"});
  with.lse = lse;
  expect_failure(ligerdsl_attention_backward(context_.get(), &back, &with, nullptr), LIGERDSL_INVALID_ALIAS, {"`d_q`"});
}

// No batch is no work, whatever the numbers of tokens.
TEST_F(Execute, AttentionOfNoBatches) {
  Owned q(LIGERDSL_F32, {0, 3, 4, 8}), k(LIGERDSL_F32, {0, 5, 2, 8});
  AttentionForwardArgs args = attention_forward_args();
  args.q = args.o = q, args.k = args.v = k;
  attention_forward(context_, attention_forward_desc(), args);
}

}  // namespace
}  // namespace ligerdsl::test
