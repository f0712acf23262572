// Execution of calls: plans, the one-call form, in-place, workspaces, empty calls, threads, invalid
// labels.
#include "execute.h"

#include <cmath>
#include <map>
#include <numeric>
#include <thread>

namespace ligerdsl::test::execute_test {
namespace {

VectorAddArgs add_args(Owned& a, Owned& b, Owned& out) {
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  return args;
}

TEST_F(Execute, VectorAdd) {
  Owned a(LIGERDSL_F32, {1001}), b(LIGERDSL_F32, {1001}), out(LIGERDSL_F32, {1001});
  std::iota(a.floats(), a.floats() + 1001, 0.0f);
  std::fill_n(b.floats(), 1001, 0.5f);
  out.floats()[1001] = 77;
  vector_add(context_, vector_add_desc(), add_args(a, b, out));
  for (int i = 0; i < 1001; ++i) ASSERT_EQ(out.floats()[i], static_cast<float>(i) + 0.5f) << i;
  EXPECT_EQ(out.floats()[1001], 77) << "written past the end";
}

TEST_F(Execute, OnePlanServesEveryLength) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan plan(context_, desc);
  for (const int64_t n : {1, 7, 1024, 4097}) {
    Owned a(LIGERDSL_F32, {n}), b(LIGERDSL_F32, {n}), out(LIGERDSL_F32, {n});
    std::fill_n(a.floats(), n, 2.0f);
    std::fill_n(b.floats(), n, 3.0f);
    plan(add_args(a, b, out));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.floats()[i], 5.0f) << i << " of " << n;
  }
}

TEST_F(Execute, InPlaceMustBeDescribed) {
  Owned a(LIGERDSL_F32, {64}), b(LIGERDSL_F32, {64});
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan separate(context_, desc);
  VectorAddArgs args = add_args(a, b, a);
  expect_failure(ligerdsl_vector_add_execute(separate.get(), &args, nullptr, 0, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`out`", "in_place"});
  std::fill_n(a.floats(), 64, 1.0f);
  std::fill_n(b.floats(), 64, 2.0f);
  desc.in_place = 1;
  VectorAddPlan(context_, desc)(args);
  vector_add(context_, vector_add_desc(), args);  // the one-call form detects the alias
  for (int i = 0; i < 64; ++i) ASSERT_EQ(a.floats()[i], 5.0f);
}

TEST_F(Execute, NoWork) {
  const Tensor none(nullptr, context_.device(), LIGERDSL_F32, {0});
  VectorAddArgs args = vector_add_args();
  args.a = args.b = args.out = none;
  EXPECT_EQ(VectorAddPlan(context_,
                          [] {
                            VectorAddDesc desc = vector_add_desc();
                            desc.dtype = LIGERDSL_F32;
                            return desc;
                          }())
                .workspace_bytes(0),
            0u);
  vector_add(context_, vector_add_desc(), args);
}

TEST_F(Execute, DeadAndForeignPlans) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  ligerdsl_plan_t plan = nullptr;
  check(ligerdsl_vector_add_plan(context_.get(), &desc, &plan));
  const SoftmaxForwardArgs other = softmax_forward_args();
  expect_failure(ligerdsl_softmax_forward_execute(plan, &other, nullptr, 0, nullptr),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"expected a plan of softmax_forward", "got one of vector_add"});
  ligerdsl_plan_destroy(plan);
  const VectorAddArgs args = vector_add_args();
  EXPECT_EQ(ligerdsl_vector_add_execute(plan, &args, nullptr, 0, nullptr), LIGERDSL_DEAD_HANDLE);
}

TEST_F(Execute, PlanOutlivesItsContext) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  Context context = Context::cpu(1);
  const VectorAddPlan plan(context, desc);
  context = Context::cpu(1);  // destroys the plan's context
  Owned a(LIGERDSL_F32, {8}), b(LIGERDSL_F32, {8}), out(LIGERDSL_F32, {8});
  std::fill_n(a.floats(), 8, 4.0f);
  plan(add_args(a, b, out));
  EXPECT_EQ(out.floats()[7], 4.0f);
}

// Compares d_weight of three rows with values computed by hand.
TEST_F(Execute, WorkspaceIsCheckedAndUsed) {
  constexpr int64_t kRows = 3, kCols = 4;
  Owned x(LIGERDSL_F32, {kRows, kCols}), d_y(LIGERDSL_F32, {kRows, kCols}),
      d_x(LIGERDSL_F32, {kRows, kCols});
  Owned weight(LIGERDSL_F32, {kCols}), rstd(LIGERDSL_F32, {kRows}), d_weight(LIGERDSL_F32, {kCols});
  for (int i = 0; i < kRows * kCols; ++i)
    x.floats()[i] = static_cast<float>(i), d_y.floats()[i] = 1;
  std::fill_n(weight.floats(), kCols, 1.0f);
  std::fill_n(rstd.floats(), kRows, 1.0f);
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = kCols;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = d_y;
  args.x = x;
  args.weight = weight;
  args.rstd = rstd;
  args.d_x = d_x;
  args.d_weight = d_weight;
  const RmsNormBackwardPlan plan(context_, desc);
  const size_t bytes = plan.workspace_bytes(kRows);
  ASSERT_GT(bytes, 0u);
  EXPECT_LE(bytes, plan.workspace_bytes(1000));
  const Buffer workspace(context_, bytes);
  expect_failure(
      ligerdsl_rms_norm_backward_execute(plan.get(), &args, workspace.data(), bytes - 1, nullptr),
      LIGERDSL_WORKSPACE_TOO_SMALL, {"expected ", "got "});
  expect_failure(ligerdsl_rms_norm_backward_execute(plan.get(), &args, nullptr, bytes, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`workspace`"});
  const Tensor inside(static_cast<float*>(workspace.data()), context_.device(), LIGERDSL_F32,
                      {kRows, kCols});
  args.d_x = inside;
  expect_failure(
      ligerdsl_rms_norm_backward_execute(plan.get(), &args, workspace.data(), bytes, nullptr),
      LIGERDSL_INVALID_ALIAS, {"`workspace`", "`d_x`"});
  args.d_x = d_x;
  plan(args, workspace.data(), bytes);
  for (int j = 0; j < kCols; ++j)
    EXPECT_EQ(d_weight.floats()[j], static_cast<float>(j + (j + 4) + (j + 8)));
  std::fill_n(d_weight.floats(), kCols, -1.0f);
  rms_norm_backward(context_, rms_norm_backward_desc(), args);  // uses the context's workspace
  for (int j = 0; j < kCols; ++j)
    EXPECT_EQ(d_weight.floats()[j], static_cast<float>(j + (j + 4) + (j + 8)));
}

TEST_F(Execute, LabelOutOfBounds) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  const int64_t values[] = {0, 5, -100, int64_t{1} << 40};
  std::copy(std::begin(values), std::end(values), labels.storage.begin());
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  cross_entropy(context_, desc, args);
  EXPECT_NEAR(loss.floats()[0], std::log(5.0), 1e-6);
  EXPECT_TRUE(std::isnan(loss.floats()[1]));
  EXPECT_EQ(loss.floats()[2], 0);
  EXPECT_TRUE(std::isnan(loss.floats()[3]));
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                 {"cross_entropy", "out of bounds", "row 1"});
  EXPECT_EQ(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_SUCCESS)
      << "the report was not cleared";
}

TEST_F(Execute, PollNamesTheOperation) {
  EXPECT_FALSE(context_.poll_labels());
  Owned weight(LIGERDSL_F32, {4, 2}), ids(LIGERDSL_I64, {3}), out(LIGERDSL_F32, {3, 2});
  ids.storage[2] = 4;
  EmbeddingForwardArgs embedding = embedding_forward_args();
  embedding.weight = weight;
  embedding.indices = ids;
  embedding.out = out;
  embedding_forward(context_, embedding_forward_desc(), embedding);
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {1});
  labels.storage[1] = -1;
  CrossEntropyArgs entropy = cross_entropy_args();
  entropy.logits = logits;
  entropy.labels = labels;
  entropy.loss = loss;
  cross_entropy(context_, cross_entropy_desc(), entropy);
  std::map<std::string, int64_t> found;
  while (const auto fault = context_.poll_labels())
    ASSERT_TRUE(found.emplace(fault->operation, fault->row).second);
  EXPECT_EQ(found,
            (std::map<std::string, int64_t>{{"cross_entropy", 1}, {"embedding_forward", 2}}));
  // ligerdsl_context_poll zeroes fields of a later version, and refuses a struct that is too small.
  struct {
    ligerdsl_fault_t known;
    int64_t later = -1;
  } fault;
  EXPECT_EQ(ligerdsl_context_poll(context_.get(), &fault.known, sizeof fault), LIGERDSL_SUCCESS);
  EXPECT_TRUE(fault.known.operation == nullptr && fault.later == 0);
  expect_failure(ligerdsl_context_poll(context_.get(), &fault.known, sizeof fault.known - 1),
                 LIGERDSL_INVALID_ARGUMENT, {"fault_bytes"});
  expect_failure(ligerdsl_context_poll(context_.get(), nullptr, 0), LIGERDSL_INVALID_NULL_POINTER,
                 {"fault"});
}

// Shard with rows 10 to 13 of a 20-row table: other rows give 0, and a row beyond the table is a
// fault.
TEST_F(Execute, EmbeddingShardZeroesRowsOfOtherShards) {
  Owned weight(LIGERDSL_F32, {4, 2}), ids(LIGERDSL_I64, {3}), out(LIGERDSL_F32, {3, 2});
  for (int i = 0; i < 8; ++i) weight.floats()[i] = static_cast<float>(i + 1);
  ids.storage = {11, 3, 19};
  EmbeddingForwardDesc desc = embedding_forward_desc();
  desc.first_row = 10;
  desc.total_rows = 20;
  EmbeddingForwardArgs args = embedding_forward_args();
  args.weight = weight;
  args.indices = ids;
  args.out = out;
  embedding_forward(context_, desc, args);
  EXPECT_EQ(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_SUCCESS);
  const float expected[] = {3, 4, 0, 0, 0, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out.floats()[i], expected[i]) << i;
  ids.storage[1] = 20;
  embedding_forward(context_, desc, args);
  EXPECT_TRUE(std::isnan(out.floats()[2]));
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                 {"embedding_forward", "index out of bounds at position 1", "total_rows"});

  const auto refused = [&](std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_embedding_forward(context_.get(), &desc, &args, nullptr),
                   LIGERDSL_INVALID_ARGUMENT, words);
  };
  desc.total_rows = 13;
  refused({"`total_rows`", "10 + 4", "got 13"});
  desc.total_rows = 0;
  refused({"`first_row`", "without `total_rows`", "got 10"});
}

// A program may retry after INVALID_LABEL. Invalid offsets need another status, INVALID_BOUNDS.
TEST_F(Execute, InvalidGroupOffsetsAreInvalidBounds) {
  Owned a(LIGERDSL_F32, {6, 4}), b(LIGERDSL_F32, {3, 5, 4}), offsets(LIGERDSL_I64, {4}),
      c(LIGERDSL_F32, {6, 5});
  const int64_t decreasing[] = {0, 4, 2, 6};
  std::copy(std::begin(decreasing), std::end(decreasing), offsets.storage.begin());
  GroupedMatmulNtArgs args = grouped_matmul_nt_args();
  args.a = a;
  args.b = b;
  args.offsets = offsets;
  args.c = c;
  const GroupedMatmulNtDesc desc = grouped_matmul_nt_desc();
  grouped_matmul_nt(context_, desc, args);
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_BOUNDS,
                 {"grouped_matmul_nt", "offsets out of bounds at group 1"});
  EXPECT_STREQ(ligerdsl_status_name(LIGERDSL_INVALID_BOUNDS), "INVALID_BOUNDS");

  grouped_matmul_nt(context_, desc, args);
  ligerdsl_fault_t fault{};
  expect_failure(ligerdsl_context_poll(context_.get(), &fault, sizeof fault),
                 LIGERDSL_INVALID_BOUNDS, {"group 1"});
  EXPECT_STREQ(fault.operation, "grouped_matmul_nt");
  EXPECT_EQ(fault.row, 1);

  grouped_matmul_nt(context_, desc, args);
  const auto polled = context_.poll_labels();
  ASSERT_TRUE(polled);
  EXPECT_STREQ(polled->operation, "grouped_matmul_nt");
  EXPECT_FALSE(context_.poll_labels()) << "the report was not cleared";
}

TEST_F(Execute, ThreadsShareAPlan) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan plan(context_, desc);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Owned a(LIGERDSL_F32, {500}), b(LIGERDSL_F32, {500}), out(LIGERDSL_F32, {500});
      std::fill_n(a.floats(), 500, static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        plan(add_args(a, b, out));
        wrong[t] += out.floats()[499] != static_cast<float>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(Execute, GlobalNormAcceptsAnEmptyList) {
  Owned norm(LIGERDSL_F32, {1}), factor(LIGERDSL_F32, {1}), nonfinite(LIGERDSL_I32, {1});
  norm.floats()[0] = factor.floats()[0] = 7;
  GlobalNormDesc desc = global_norm_desc();
  desc.dtype = LIGERDSL_F32;
  GlobalNormArgs args = global_norm_args();
  args.norm = norm;
  args.clip_factor = factor;
  args.nonfinite = nonfinite;
  global_norm(context_, desc, args);
  EXPECT_EQ(norm.floats()[0], 0);
  EXPECT_EQ(factor.floats()[0], 1);
  for (const float limit : {-1.0f, std::nanf("")}) {
    args.max_norm = limit;  // a negative limit would flip every gradient's sign
    expect_failure(ligerdsl_global_norm(context_.get(), &desc, &args, nullptr),
                   LIGERDSL_INVALID_ARGUMENT, {"`max_norm`", ">= 0", "got "});
  }
}

// AdamW reads the norm's `nonfinite` flag and step counters on the device, so the host does not
// wait.
TEST_F(Execute, NonfiniteNormSkipsAndCountsTheStep) {
  Owned norm(LIGERDSL_F32, {1}), factor(LIGERDSL_F32, {1}), nonfinite(LIGERDSL_I32, {1}),
      steps(LIGERDSL_I64, {1}), skipped(LIGERDSL_I64, {1}), lr(LIGERDSL_F32, {1}),
      gradient(LIGERDSL_F32, {100}), parameter(LIGERDSL_F32, {100}), m(LIGERDSL_F32, {100}),
      v(LIGERDSL_F32, {100}), copy(LIGERDSL_BF16, {100});
  lr.floats()[0] = 0.1f;
  for (int i = 0; i < 100; ++i) gradient.floats()[i] = 0.5f, parameter.floats()[i] = 1.0f;
  const auto step = [&] {
    const ligerdsl_tensor_t* list = gradient;
    GlobalNormDesc norm_desc = global_norm_desc();
    GlobalNormArgs norm_args = global_norm_args();
    norm_args.tensors = list, norm_args.n_tensors = 1;
    norm_args.norm = norm, norm_args.clip_factor = factor, norm_args.nonfinite = nonfinite;
    norm_args.steps = steps, norm_args.skipped = skipped;
    global_norm(context_, norm_desc, norm_args);
    AdamwStepDesc desc = adamw_step_desc();
    AdamwStepArgs args = adamw_step_args();
    args.param = parameter, args.grad = gradient, args.m = m, args.v = v, args.param_copy = copy;
    args.clip_factor = factor, args.device_lr = lr, args.device_step = steps, args.skip = nonfinite;
    adamw_step(context_, desc, args);
  };
  const auto count = [](Owned& counter) {
    return *static_cast<int64_t*>(static_cast<void*>(counter.floats()));
  };
  step();
  const float once = parameter.floats()[7];
  EXPECT_NEAR(once, 0.9f, 1e-3f);
  gradient.floats()[3] = INFINITY;
  step();
  step();
  EXPECT_EQ(count(steps), 1);
  EXPECT_EQ(count(skipped), 2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(parameter.floats()[i], once);
  gradient.floats()[3] = 0.5f;
  step();
  EXPECT_EQ(count(steps), 2);
  EXPECT_NEAR(parameter.floats()[3], 0.8f, 2e-3f);
  EXPECT_EQ(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_SUCCESS);
}

TEST_F(Execute, DeviceStepBelowOneIsAFault) {
  Owned lr(LIGERDSL_F32, {1}), step(LIGERDSL_I64, {1}), gradient(LIGERDSL_F32, {100}),
      parameter(LIGERDSL_F32, {100}), m(LIGERDSL_F32, {100}), v(LIGERDSL_F32, {100});
  AdamwStepDesc desc = adamw_step_desc();
  AdamwStepArgs args = adamw_step_args();
  args.param = parameter, args.grad = gradient, args.m = m, args.v = v, args.device_lr = lr,
  args.device_step = step;
  adamw_step(context_, desc, args);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(parameter.floats()[i], 0);
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_BOUNDS,
                 {"adamw_step", "device_step", "expected 1 or more"});
}

TEST_F(Execute, NormRefusesAWorkspaceOverItsTensors) {
  GlobalNormDesc desc = global_norm_desc();
  desc.dtype = LIGERDSL_F32;
  const GlobalNormPlan plan(context_, desc);
  Owned norm(LIGERDSL_F32, {1}), memory(LIGERDSL_F32, {4096});
  const ligerdsl_tensor_t* list = memory;
  GlobalNormArgs args = global_norm_args();
  args.norm = norm;
  args.tensors = list;
  args.n_tensors = 1;
  auto inside = reinterpret_cast<uintptr_t>(memory.floats() + 1024) / 256 * 256;
  expect_failure(ligerdsl_global_norm_execute(plan.get(), &args, reinterpret_cast<void*>(inside),
                                              8192, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`tensors`", "workspace"});
}

}  // namespace
}  // namespace ligerdsl::test::execute_test
