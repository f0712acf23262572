// execute takes no memory: every allocation of the process is counted while plans run.
#include <atomic>

#include "allocation_counter.h"
#include "support.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {
std::atomic<int64_t> counted{0};
}

extern "C" {
void* malloc(size_t bytes) {
  ++counted;
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  ++counted;
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++counted;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t align, size_t bytes) {
  ++counted;
  return __libc_memalign(align, bytes);
}
int posix_memalign(void** out, size_t align, size_t bytes) {
  ++counted;
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : 12;
}
}

namespace ligerdsl::test {

int64_t allocations() {
  return counted;
}

namespace {

// Allocations of ten calls, after one that may warm things up.
template <class Body>
int64_t count(Body body) {
  body();
  const int64_t before = allocations();
  for (int i = 0; i < 10; ++i) body();
  return allocations() - before;
}

class Allocation : public testing::Test {
 protected:
  Context context_ = Context::cpu(2);
};

// Also what the library itself takes: a context allocates.
TEST_F(Allocation, TheCounterCounts) {
  EXPECT_GE(count([] { const Context another = Context::cpu(1); }), 10);
}

TEST_F(Allocation, Norm) {
  Owned x(LIGERDSL_F32, {16, 64}), d_y(LIGERDSL_F32, {16, 64}), d_x(LIGERDSL_F32, {16, 64}), weight(LIGERDSL_F32, {64});
  Owned rstd(LIGERDSL_F32, {16}), d_weight(LIGERDSL_F32, {64});
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = 64;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  const RmsNormBackwardPlan plan(context_, desc);
  const Buffer workspace(context_, plan.workspace_bytes(16));
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = d_y;
  args.x = x;
  args.weight = weight;
  args.rstd = rstd;
  args.d_x = d_x;
  args.d_weight = d_weight;
  EXPECT_EQ(count([&] { plan(args, workspace.data(), workspace.bytes()); }), 0);
}

TEST_F(Allocation, CrossEntropyAndNormOfAList) {
  Owned logits(LIGERDSL_F32, {16, 64}), labels(LIGERDSL_I64, {16}), loss(LIGERDSL_F32, {1}), norm(LIGERDSL_F32, {1});
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.n_classes = 64;
  desc.dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_logits = desc.in_place = 1;
  const CrossEntropyPlan plan(context_, desc);
  GlobalNormDesc norm_desc = global_norm_desc();
  norm_desc.dtype = LIGERDSL_F32;
  const GlobalNormPlan norm_plan(context_, norm_desc);
  const Buffer workspace(context_, std::max(plan.workspace_bytes(16), norm_plan.workspace_bytes(16 * 64 + 65536)));
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = args.d_logits = logits;
  args.labels = labels;
  args.loss = loss;
  GlobalNormArgs norm_args = global_norm_args();
  norm_args.tensors = &logits.tensor.raw();
  norm_args.n_tensors = 1;
  norm_args.norm = norm;
  EXPECT_EQ(count([&] {
              plan(args, workspace.data(), workspace.bytes());
              norm_plan(norm_args, workspace.data(), workspace.bytes());
            }),
            0);
}

// Chunks, conversions and products; what CBLAS itself takes is not the library's, so it is asked for once before.
TEST_F(Allocation, FusedLinearCrossEntropy) {
  Owned x(LIGERDSL_BF16, {10, 24}), weight(LIGERDSL_BF16, {32, 24}), labels(LIGERDSL_I64, {10});
  Owned loss(LIGERDSL_F32, {1}), d_x(LIGERDSL_BF16, {10, 24}), d_weight(LIGERDSL_BF16, {32, 24});
  FusedLinearCrossEntropyDesc desc = fused_linear_cross_entropy_desc();
  desc.n_classes = 32;
  desc.n_cols = 24;
  desc.dtype = desc.d_weight_dtype = LIGERDSL_BF16;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_x = 1;
  desc.chunk_rows = 4;
  const FusedLinearCrossEntropyPlan plan(context_, desc);
  const Buffer workspace(context_, plan.workspace_bytes(10));
  FusedLinearCrossEntropyArgs args = fused_linear_cross_entropy_args();
  args.x = x;
  args.weight = weight;
  args.labels = labels;
  args.loss = loss;
  args.d_x = d_x;
  args.d_weight = d_weight;
  EXPECT_EQ(count([&] { plan(args, workspace.data(), workspace.bytes()); }), 0);
}

TEST_F(Allocation, RopeThroughDerivedViews) {
  Owned q(LIGERDSL_F32, {2, 3, 2, 8}), k(LIGERDSL_F32, {2, 3, 1, 8}), cos(LIGERDSL_F32, {3, 8}),
      sin(LIGERDSL_F32, {3, 8});
  RopeDesc desc = rope_desc();
  desc.head_dim = 8;
  desc.q_heads = 2;
  desc.k_heads = 1;
  desc.dtype = desc.table_dtype = LIGERDSL_F32;
  desc.with_k = desc.in_place = 1;
  const RopePlan plan(context_, desc);
  RopeArgs args = rope_args();
  args.q = args.q_out = q;
  args.k = args.k_out = k;
  args.cos = cos;
  args.sin = sin;
  EXPECT_EQ(count([&] { plan(args); }), 0);
}

}  // namespace
}  // namespace ligerdsl::test
