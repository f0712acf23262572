// A plan that holds different kernels for few and for many rows. The row count of a call selects
// the bucket, and the plan loads every kernel when it is made. Kernels do not run.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/core/elementwise_schedule.h"
#include "kernels/elementwise/vector_add.h"
#include "lib/abi/failure.h"
#include "lib/abi/plan.h"
#include "op_table.h"
#include "program/serialize.h"

namespace ligerdsl::test::row_buckets_test {
namespace {

using lib::OperationPlan;

struct Launched {
  int kernel;  // index in order of loading
  int64_t programs;
  bool operator==(const Launched&) const = default;
};

struct Log {
  std::vector<std::string> loaded;
  std::vector<Launched> launched;
};

class LoggingKernel final : public runtime::LoadedKernel {
 public:
  LoggingKernel(Log* log, int number) : log_(log), number_(number) {}
  void launch(const uint64_t*, const runtime::Grid& grid, runtime::Stream) override {
    log_->launched.push_back({number_, grid.x});
  }

 private:
  Log* log_;
  int number_;
};

class LoggingContext final : public lib::Context {
 public:
  explicit LoggingContext(Log* log) : Context({.num_threads = 1}), log_(log) {}
  kernels::Machine machine() const override { return {}; }
  program::CompileOptions base_options() override { return {}; }
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions&) override {
    log_->loaded.push_back(program);
    return std::make_shared<LoggingKernel>(log_, static_cast<int>(log_->loaded.size()) - 1);
  }

 private:
  Log* log_;
};

// c = a + b with `vectors` vectors per thread, and an unused workspace of `scratch` f32 elements.
kernels::Operation adding(int vectors, const Size& scratch) {
  const kernels::ElementwiseConfig config{.num_warps = 4, .vectors = vectors};
  kernels::Operation operation = kernels::vector_add_kernel.build({}, {f32}, config);
  operation.workspace.push_back({.name = "unused", .dtype = f32, .shape = {scratch}, .room = {}});
  return operation;
}

class RowBuckets : public ::testing::Test {
 protected:
  std::unique_ptr<OperationPlan> plan(std::vector<OperationPlan::Bucket> buckets) {
    desc_.dtype = LIGERDSL_F32;
    return std::make_unique<OperationPlan>(
        context_, lib::vector_add::info(), &desc_, std::move(buckets),
        OperationPlan::Bindings{.rows = [](const lib::Call& call) { return call.rows; }});
  }
  Launched execute(const OperationPlan& plan, int64_t rows, std::byte* data = nullptr) {
    lib::Call call{};
    call.rows = rows;
    for (lib::BoundTensor& tensor : call.tensors) {
      tensor = {};
      tensor.dims[0] = rows;
      tensor.strides[0] = 1;
      tensor.rank = 1;
      tensor.dtype = f32;
      tensor.present = true;
      tensor.data = data;
    }
    log_.launched.clear();
    plan.execute(call);
    EXPECT_EQ(log_.launched.size(), 1u);
    return log_.launched.at(0);
  }

  Log log_;
  std::shared_ptr<LoggingContext> context_ = std::make_shared<LoggingContext>(&log_);
  ligerdsl_vector_add_desc_t desc_ = LIGERDSL_VECTOR_ADD_DESC_INIT;
};

TEST_F(RowBuckets, RowCountSelectsBucketAndNothingIsLoadedLater) {
  const auto made =
      plan({{1000, adding(1, 4)}, {100000, adding(4, 4)}, {OperationPlan::kAnyRows, adding(2, 4)}});
  EXPECT_EQ(log_.loaded.size(), 3u);
  for (int twice = 0; twice < 2; ++twice) {  // the second round loads nothing
    EXPECT_EQ(execute(*made, 1), (Launched{0, 1}));
    EXPECT_EQ(execute(*made, 1000), (Launched{0, 2}));
    EXPECT_EQ(execute(*made, 1001), (Launched{1, 1}));
    EXPECT_EQ(execute(*made, 100000), (Launched{1, 49}));
    EXPECT_EQ(execute(*made, 100001), (Launched{2, 98}));
  }
  EXPECT_EQ(log_.loaded.size(), 3u);
}

TEST_F(RowBuckets, SharedKernelsAreLoadedOnce) {
  const auto made =
      plan({{10, adding(1, 4)}, {20, adding(2, 4)}, {OperationPlan::kAnyRows, adding(1, 4)}});
  EXPECT_EQ(log_.loaded.size(), 2u);
  EXPECT_EQ(made->launchers().size(), 2u);
  EXPECT_EQ(execute(*made, 5).kernel, 0);
  EXPECT_EQ(execute(*made, 15).kernel, 1);
  EXPECT_EQ(execute(*made, 25).kernel, 0);
}

bool begins_elsewhere(const lib::Call& call) {
  return reinterpret_cast<uintptr_t>(call.tensors[0].data) % 16 != 0;
}

TEST_F(RowBuckets, TensorPlacementSelectsBucket) {
  const auto made = plan(
      {{10, adding(1, 4)},
       {OperationPlan::kAnyRows, adding(4, Size::rows() * 64), &begins_elsewhere, "another kind"},
       {OperationPlan::kAnyRows, adding(2, 4)}});
  alignas(16) std::byte memory[32];
  EXPECT_EQ(execute(*made, 5, memory + 4).kernel, 0);
  EXPECT_EQ(execute(*made, 11, memory + 4).kernel, 1);
  EXPECT_EQ(execute(*made, 11, memory).kernel, 2);
  EXPECT_EQ(made->workspace_bytes(1000), 256000u);  // the largest workspace of any bucket
  lib::Call call{};
  call.rows = 11;
  call.tensors[0].data = memory + 4;
  EXPECT_EQ(made->facts(call).at(0).value, "for another kind");
  EXPECT_EQ(made->schedule(call), 1u);
  call.rows = 10;
  EXPECT_EQ(made->schedule(call), 0u);
  call.rows = 11, call.tensors[0].data = memory;
  EXPECT_EQ(made->schedule(call), 2u);
}

// A workspace for many rows also serves fewer rows, whichever bucket needs the most.
TEST_F(RowBuckets, WorkspaceServesAllSmallerCalls) {
  const auto made = plan(
      {{1000, adding(1, Size::rows() * 64)}, {OperationPlan::kAnyRows, adding(2, Size::rows())}});
  EXPECT_EQ(made->workspace_bytes(1000), 256000u);
  EXPECT_EQ(made->workspace_bytes(1001), 256000u);
  EXPECT_EQ(made->workspace_bytes(100000), 400128u);
  EXPECT_EQ(made->refusal(100000), "");
}

TEST_F(RowBuckets, AreInOrderAndFew) {
  const auto refused = [&](std::vector<OperationPlan::Bucket> buckets) {
    EXPECT_THROW(plan(std::move(buckets)), std::exception);
  };
  refused({});
  refused({{1000, adding(1, 4)}});
  refused({{1000, adding(1, 4)}, {1000, adding(1, 4)}, {OperationPlan::kAnyRows, adding(1, 4)}});
  refused({{1000, adding(1, 4)}, {OperationPlan::kAnyRows, adding(1, 4), &begins_elsewhere}});
  refused({{1000, adding(1, 4), &begins_elsewhere},
           {10, adding(1, 4)},
           {OperationPlan::kAnyRows, adding(1, 4)}});
  std::vector<OperationPlan::Bucket> buckets;
  for (size_t i = 1; i < OperationPlan::kMostBuckets; ++i)
    buckets.push_back({static_cast<int64_t>(i), adding(1, 4)});
  buckets.push_back({OperationPlan::kAnyRows, adding(1, 4)});
  EXPECT_NO_THROW(plan(buckets));
  buckets.insert(buckets.begin(), {0, adding(1, 4)});
  refused(std::move(buckets));
}

}  // namespace
}  // namespace ligerdsl::test::row_buckets_test
