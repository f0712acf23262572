// A plan is an operation with one description, ready to run on any tensors that match the
// description.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "lib/abi/bind.h"
#include "lib/abi/context.h"
#include "lib/abi/launcher.h"
#include "lib/abi/op_info.h"
#include "lib/abi/size_table.h"

namespace ligerdsl::lib {

class OperandCopies;
using CopiedOperands = std::array<bool, 2>;  // a and b of a matmul

// Name and value of a choice that depends on a call's sizes.
struct Fact {
  std::string name, value;
};

// The part of a plan that each operation's file implements.
class OpPlan {
 public:
  virtual ~OpPlan() = default;
  // Returns the number of rows. Grids and workspace sizes are computed from it. It depends only on
  // shapes and strides of the call's tensors, so calls with the same shapes and strides have the
  // same number.
  virtual int64_t rows(const Call& call) const = 0;
  // Returns the reason why no call with `rows` rows can run (too many programs or bytes), or "". If
  // it returns "", calls with fewer rows can run too.
  virtual std::string refusal(int64_t rows) const = 0;
  // Returns the bytes of the workspace for a number of rows that is not refused. Fewer rows never
  // need more bytes, except in plans of fused linear losses.
  virtual size_t workspace_bytes(int64_t rows) const = 0;
  // Prepares calls with `rows` rows; may allocate host memory. Only the C functions that return
  // workspace bytes call it.
  virtual void prepare(int64_t /*rows*/) const {}
  // Runs a call whose tensors are checked and whose workspace is large enough. Never allocates,
  // synchronises or compiles.
  virtual void execute(const Call& call) const = 0;
  // Returns every kernel, for reports.
  virtual std::vector<const Launcher*> launchers() const = 0;
  // Returns the index of the call's schedule, in the order in which the plan requests schedules
  // from KernelConfigs.
  virtual size_t schedule(const Call& /*call*/) const { return 0; }
  // Returns, for reports, the choices of a call that its kernels do not show. The call's tensors
  // need no memory.
  virtual std::vector<Fact> facts(const Call& /*call*/) const { return {}; }
  // Returns the copies of unaligned operands, or null if no call copies operands.
  virtual const OperandCopies* copies() const { return nullptr; }
};

inline constexpr size_t kWorkspaceAlign = 256;
inline constexpr int64_t kMaxWorkspace = kMaxElements * 8;  // bytes of the largest tensor

// Return the reason why this grid cannot be launched, or why the workspace is too large, or "".
std::string refuse_grid(const kernels::Grid& grid, const Launcher& launcher);
std::string refuse_workspace(kernels::Count bytes);

class Plan;
using PlanRef = std::shared_ptr<Plan>;

class Plan : public std::enable_shared_from_this<Plan> {
 public:
  Plan(const OpInfo& info, ContextRef context, const void* desc);

  const OpInfo& info() const { return *info_; }
  Context& context() const { return *context_; }
  const OpPlan& op() const { return *op_; }

  // Binds and checks the tensors; call.args must be set.
  void bind(Call* call) const { bind_tensors(rules_, call); }
  void check_values(const void* args) const { lib::check_values(rules_, args); }
  // Returns the bytes of the workspace for `rows` rows. Throws INVALID_SHAPE for a number of rows
  // that no call can have.
  size_t workspace_bytes(int64_t rows) const;
  // Returns workspace_bytes() plus the bytes for copies of operands. Compiles the copy kernels.
  size_t workspace_bytes_with_copies(int64_t rows) const;
  // Returns the bytes that copies of these operands add to the call's workspace.
  size_t bytes_of_copies(const Call& call, const CopiedOperands& copied) const;
  // Sets the call's number of rows and returns the bytes of the workspace that they need.
  size_t count(Call* call) const;
  // Checks the workspace and launches. Copies operands if the workspace has more than the needed
  // bytes and the copies fit.
  void execute(Call* call) const { launch(*call, count(call)); }
  void launch(const Call& call, size_t needed) const {
    launch(call, needed, copies_that_fit(call, needed));
  }
  // Copies these operands. Their copy kernels must be compiled.
  void launch(const Call& call, size_t needed, const CopiedOperands& copied) const;

 private:
  std::string refusal(int64_t rows) const;
  int64_t find_most_rows() const;
  CopiedOperands copies_that_fit(const Call& call, size_t needed) const;
  void launch_checked(const Call& call) const;
  void launch_observed(const Call& call) const;

  const OpInfo* info_;
  ContextRef context_;
  std::atomic<int64_t>* calls_;  // number of calls of this operation that ran on the context
  bool observed_;                // calls are validated, or a profiler or trace records ranges
  std::string range_name_;       // name of the ranges
  BindRules rules_;
  std::unique_ptr<OpPlan> op_;
  int64_t most_rows_;  // largest number of rows of a call; computed once
};

// Connects a kernels::Operation to the tensors of a table row. A program's argument is bound to the
// first of these that exists:
// 1. for a scalar "programs": the number of the launch's programs,
// 2. the entry of Bindings with its name,
// 3. the tensor of that name,
// 4. the operation's scratch buffer of that name,
// 5. for a view "error": the error word.
//
// A plan may hold several operations (buckets): for few rows and for many, or for tensors with
// other strides or addresses. All buckets are compiled when the plan is made; kernels that buckets
// share are compiled once. A call's bucket depends only on shapes, strides and addresses of its
// tensors, so a captured graph keeps the bucket of its call.
class OperationPlan final : public OpPlan {
 public:
  using Number = std::function<int64_t(const Call&)>;
  using View = std::function<BoundTensor(const Call&)>;

  struct Bindings {
    std::vector<std::pair<std::string, double>> numbers;  // f32 scalars fixed by the description
    std::vector<std::pair<std::string, int64_t>>
        integers;  // integer scalars fixed by the description
    std::vector<std::pair<std::string, Number>> integers_of_call;  // integer scalars of a call
    std::vector<std::pair<std::string, std::function<float(const Call&)>>> numbers_of_call;
    // A view that an operation derives from its tensors. `memory` is an alias class: views with
    // the same `memory` may be the same tensor, other views never overlap.
    struct Derived {
      std::string name;
      std::string memory;
      View view;
      std::vector<int64_t> exact;  // sizes that are known when the plan is made, or -1
    };
    std::vector<Derived> views;
    std::vector<std::pair<std::string, std::string>>
        renamed;  // name of a kernel's view -> name of the tensor in the table
    Number rows;
  };

  static constexpr size_t kMostBuckets = 40, kMostScratch = 12;
  struct Bucket {
    int64_t up_to;  // largest number of rows; kAnyRows in the last bucket
    kernels::Operation operation;
    // Returns true if the bucket accepts a call of at most `up_to` rows. An empty function accepts
    // all calls, as the last bucket must.
    std::function<bool(const Call&)> takes = {};
    std::string called = {};  // name in reports; if empty, `up_to` names the bucket
  };
  static constexpr int64_t kAnyRows = INT64_MAX;

  OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc,
                kernels::Operation operation, Bindings bindings);
  // Takes one to kMostBuckets buckets, ordered by `up_to`. A call uses the first bucket that
  // accepts it.
  OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc,
                std::vector<Bucket> buckets, Bindings bindings);

  int64_t rows(const Call& call) const override { return bindings_.rows(call); }
  std::string refusal(int64_t rows) const override;
  size_t workspace_bytes(int64_t rows) const override {
    return has_buffers_ ? static_cast<size_t>(room_up_to(rows).value()) : 0;
  }
  void execute(const Call& call) const override;
  std::vector<const Launcher*> launchers() const override;
  size_t schedule(const Call& call) const override { return &variant_of(call) - variants_.data(); }
  std::vector<Fact> facts(const Call& call) const override;
  const OperandCopies* copies() const override { return copies_.get(); }
  void set_copies(std::shared_ptr<const OperandCopies> copies) { copies_ = std::move(copies); }

 private:
  enum class Source : uint8_t {
    tensor,
    derived,
    scratch,
    error_word,
    constant,
    programs,
    integer_of_call,
    number_of_call
  };
  struct Binding {
    Source source;
    int index = 0;      // index of a tensor, derived view, scratch buffer or function
    uint64_t bits = 0;  // constant
    DType type = DType::f32;
  };
  struct Step {
    std::shared_ptr<const Launcher> launcher;
    std::vector<Binding> bindings;
    std::array<SizeTable::Index, 3> programs;  // along x, y and z
  };
  struct Buffer {
    DType dtype;
    std::vector<SizeTable::Index> dims;
    SizeTable::Index offset;  // offset in the workspace, in bytes
  };
  struct Variant {
    int64_t up_to;
    std::function<bool(const Call&)> takes;
    std::string called;
    SizeTable sizes;  // sizes of grids and buffers
    std::vector<Buffer> buffers;
    std::vector<Step> steps;
    SizeTable room;  // computes the workspace's bytes
    SizeTable::Index bytes;
  };
  struct Loaded {
    std::string program;
    Launch launch;  // without its grid
    std::vector<ArgPromise> promises;
    std::shared_ptr<const Launcher> launcher;
  };

  static void add_buffers(const std::vector<kernels::Scratch>& workspace, Variant* variant);
  static kernels::Grid grid_of(const Step& step, const SizeTable::Values& sizes);
  Variant load(const OpInfo& info, const BindRules& rules, Bucket bucket,
               std::vector<Loaded>* loaded) const;
  Binding bind(const OpInfo& info, const std::vector<kernels::Scratch>& workspace,
               const program::Program& program, size_t arg) const;
  ArgPromise promise(const OpInfo& info, const BindRules& rules,
                     const std::vector<kernels::Scratch>& workspace, const Binding& binding) const;
  const Variant& variant_of(const Call& call) const;
  // Calls `body` with each variant that calls of at most `rows` rows use, and with the largest
  // number of rows of such a call.
  template <class Body>
  void for_variants_up_to(int64_t rows, Body body) const;
  kernels::Count room_up_to(int64_t rows) const;

  ContextRef context_;
  BoundTensor error_word_;
  Bindings bindings_;
  std::vector<Variant> variants_;
  bool has_buffers_ = false;
  std::shared_ptr<const OperandCopies> copies_;
};

}  // namespace ligerdsl::lib
