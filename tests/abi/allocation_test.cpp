// execute allocates no memory: these tests count every allocation of the process while plans run.
#include <atomic>
#include <thread>

#include "allocation_counter.h"
#include "support.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {
// Numbers of allocations and releases. `of_products` counts those on any thread while a CBLAS
// matmul runs, and `ours` counts all others.
struct Counts {
  std::atomic<int64_t> taken{0}, freed{0};
};
Counts ours, of_products;
std::atomic<int64_t> products{0};  // CBLAS matmuls started so far
std::atomic<int> products_under_way{0};

Counts& counts() {
  return products_under_way > 0 ? of_products : ours;
}

// A static initialiser sets the variable, because the library reads its environment only once.
const bool environment_set = setenv("LIGERDSL_LIBCBLAS", BRACKETED_CBLAS, 1) == 0;
}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  ++counts().taken;
  return __libc_malloc(bytes);
}
void* calloc(size_t n, size_t bytes) {
  ++counts().taken;
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++counts().taken;
  if (old) ++counts().freed;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t align, size_t bytes) {
  ++counts().taken;
  return __libc_memalign(align, bytes);
}
int posix_memalign(void** out, size_t align, size_t bytes) {
  ++counts().taken;
  *out = __libc_memalign(align, bytes);
  return *out ? 0 : 12;
}
void free(void* memory) {
  if (memory) ++counts().freed;
  __libc_free(memory);
}

// Called by bracketed_cblas.cpp.
__attribute__((visibility("default"))) void product_begins() {
  ++products;
  ++products_under_way;
}
__attribute__((visibility("default"))) void product_ends() {
  --products_under_way;
}
}

namespace ligerdsl::test {

int64_t allocations() {
  return ours.taken;
}

namespace {

// Returns the number of allocations in ten calls, after one uncounted call that may fill caches.
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

// The counter also sees allocations of the library itself: creating a context allocates.
TEST_F(Allocation, CounterSeesAllocations) {
  EXPECT_GE(count([] { const Context another = Context::cpu(1); }), 10);
}

TEST_F(Allocation, Norm) {
  Owned x(LIGERDSL_F32, {16, 64}), d_y(LIGERDSL_F32, {16, 64}), d_x(LIGERDSL_F32, {16, 64}),
      weight(LIGERDSL_F32, {64});
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
  int64_t of_first = -1;
  std::thread([&] {
    const int64_t before = allocations();
    plan(args, workspace.data(), workspace.bytes());
    of_first = allocations() - before;
  }).join();
  EXPECT_EQ(of_first, 0) << "allocations by the first execute of a thread";
}

TEST_F(Allocation, CrossEntropyAndNormOfAList) {
  Owned logits(LIGERDSL_F32, {16, 64}), labels(LIGERDSL_I64, {16}), loss(LIGERDSL_F32, {1}),
      norm(LIGERDSL_F32, {1});
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.n_classes = 64;
  desc.dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_logits = desc.in_place = 1;
  const CrossEntropyPlan plan(context_, desc);
  GlobalNormDesc norm_desc = global_norm_desc();
  norm_desc.dtype = LIGERDSL_F32;
  const GlobalNormPlan norm_plan(context_, norm_desc);
  const Buffer workspace(
      context_, std::max(plan.workspace_bytes(16), norm_plan.workspace_bytes(16 * 64 + 65536)));
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

// Covers chunks, conversions, and matmuls both small and large enough for several CBLAS threads.
// The CBLAS library may allocate memory in a matmul, but must free it before the matmul ends.
TEST_F(Allocation, FusedLinearCrossEntropy) {
  ASSERT_TRUE(environment_set);
  for (const int64_t rows : {10, 64}) {
    const int64_t classes = rows == 10 ? 32 : 128, cols = rows == 10 ? 24 : 128;
    SCOPED_TRACE(rows);
    Owned x(LIGERDSL_BF16, {rows, cols}), weight(LIGERDSL_BF16, {classes, cols}),
        labels(LIGERDSL_I64, {rows});
    Owned loss(LIGERDSL_F32, {1}), d_x(LIGERDSL_BF16, {rows, cols}),
        d_weight(LIGERDSL_BF16, {classes, cols});
    FusedLinearCrossEntropyDesc desc = fused_linear_cross_entropy_desc();
    desc.n_classes = classes;
    desc.n_cols = cols;
    desc.dtype = desc.d_weight_dtype = LIGERDSL_BF16;
    desc.label_dtype = LIGERDSL_I64;
    desc.with_d_x = 1;
    desc.chunk_rows = rows == 10 ? 4 : 64;
    const FusedLinearCrossEntropyPlan plan(context_, desc);
    const Buffer workspace(context_, plan.workspace_bytes(rows));
    FusedLinearCrossEntropyArgs args = fused_linear_cross_entropy_args();
    args.x = x;
    args.weight = weight;
    args.labels = labels;
    args.loss = loss;
    args.d_x = d_x;
    args.d_weight = d_weight;
    plan(args, workspace.data(),
         workspace.bytes());  // CBLAS may keep memory that its first calls allocate
    const int64_t begun = products, held = of_products.taken - of_products.freed;
    EXPECT_EQ(count([&] { plan(args, workspace.data(), workspace.bytes()); }), 0);
    EXPECT_GE(products - begun, 30) << "the library multiplied without being counted";
    EXPECT_EQ(of_products.taken - of_products.freed, held)
        << "matmuls do not free all memory that they allocate";

    Owned lse(LIGERDSL_F32, {rows}), d_loss(LIGERDSL_F32, {1});
    FusedLinearCrossEntropyBackwardDesc later = fused_linear_cross_entropy_backward_desc();
    later.n_classes = classes;
    later.n_cols = cols;
    later.dtype = later.d_weight_dtype = LIGERDSL_BF16;
    later.label_dtype = LIGERDSL_I64;
    later.with_d_x = 1;
    later.chunk_rows = desc.chunk_rows;
    const FusedLinearCrossEntropyBackwardPlan backward(context_, later);
    const Buffer memory(context_, backward.workspace_bytes(rows));
    FusedLinearCrossEntropyBackwardArgs gradients = fused_linear_cross_entropy_backward_args();
    gradients.x = x;
    gradients.weight = weight;
    gradients.labels = labels;
    gradients.lse = lse;
    gradients.d_loss = d_loss;
    gradients.d_x = d_x;
    gradients.d_weight = d_weight;
    backward(gradients, memory.data(), memory.bytes());
    EXPECT_EQ(count([&] { backward(gradients, memory.data(), memory.bytes()); }), 0);
  }
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
