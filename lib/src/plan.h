// A plan: an operation with one description, ready to run on any tensors that fit it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/launch.h"
#include "lib/src/bind.h"
#include "lib/src/context.h"
#include "lib/src/launcher.h"
#include "lib/src/op_info.h"
#include "lib/src/size_table.h"

namespace ligerdsl::lib {

// Something that a call's sizes decide, and how.
struct Fact {
  std::string name, value;
};

// What an operation's file makes of a description.
class OpPlan {
 public:
  virtual ~OpPlan() = default;
  // The number that grids and workspace sizes are functions of: of the shapes and strides of the call's tensors alone,
  // so that one like it has it too.
  virtual int64_t rows(const Call& call) const = 0;
  // Why a call with so many rows cannot run, whatever its tensors: too many programs or bytes. Empty: it can, and so
  // can one with fewer rows.
  virtual std::string refusal(int64_t rows) const = 0;
  // For rows that are not refused. No call with fewer rows needs more.
  virtual size_t workspace_bytes(int64_t rows) const = 0;
  // What may take host memory before the first call with so many rows; asked for together with its workspace.
  virtual void prepare(int64_t /*rows*/) const {}
  // The tensors are checked and the workspace is large enough. Never allocates, synchronises or compiles.
  virtual void execute(const Call& call) const = 0;
  // Every kernel, for reports.
  virtual std::vector<const Launcher*> launchers() const = 0;
  // Which of the schedules that it asked for (KernelConfigs) a call takes, by their order.
  virtual size_t schedule(const Call& /*call*/) const { return 0; }
  // How a call goes, for reports: what its kernels alone do not say. Its tensors need no memory.
  virtual std::vector<Fact> facts(const Call& /*call*/) const { return {}; }
};

inline constexpr size_t kWorkspaceAlign = 256;
inline constexpr int64_t kMaxWorkspace = kMaxElements * 8;  // bytes: as much as the largest tensor

// Why a launch of this grid, or a workspace of so many bytes, cannot be; empty when it can.
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

  // Checks tensors; call.args must be set.
  void bind(Call* call) const { bind_tensors(rules_, call); }
  void check_values(const void* args) const { lib::check_values(rules_, args); }
  // Workspace of so many rows. Throws INVALID_SHAPE for numbers of rows that no call can have.
  size_t workspace_bytes(int64_t rows) const;
  // Counts the call's rows; returns the workspace that they need.
  size_t count(Call* call) const;
  // The workspace checked, then launched.
  void execute(Call* call) const { launch(*call, count(call)); }
  void launch(const Call& call, size_t needed) const;

 private:
  std::string refusal(int64_t rows) const;
  int64_t find_most_rows() const;
  void launch_observed(const Call& call) const;

  const OpInfo* info_;
  ContextRef context_;
  std::atomic<int64_t>* calls_;  // that ran, of this operation on the context
  bool observed_;                // calls are validated, or somebody listens to their ranges
  std::string range_name_;       // what those are called
  BindRules rules_;
  std::unique_ptr<OpPlan> op_;
  int64_t most_rows_;  // of a call: what is refused is found out once
};

// Connects a kernels::Operation to the tensors of a table row. An argument of a program is, in this order: what was
// said here about its name; the tensor of that name; a scratch buffer of the operation; the error word ("error"); the
// number of the launch's programs ("programs").
//
// A plan may hold an operation for few rows and others for more, or for tensors that lie otherwise. All are compiled when it is made,
// kernels that they share once; which one a call takes is a function of its tensors' shapes, strides and addresses alone, so a captured
// graph keeps what its call took.
class OperationPlan final : public OpPlan {
 public:
  using Number = std::function<int64_t(const Call&)>;
  using View = std::function<BoundTensor(const Call&)>;

  struct Bindings {
    std::vector<std::pair<std::string, double>> numbers;           // f32 scalars known from the description
    std::vector<std::pair<std::string, int64_t>> integers;         // integer scalars known from the description
    std::vector<std::pair<std::string, Number>> integers_of_call;  // integer scalars of a call
    std::vector<std::pair<std::string, std::function<float(const Call&)>>> numbers_of_call;
    // A view that an operation makes of its tensors. `memory` names what it shares memory with: views of equal memory
    // may be the same tensor, others never overlap.
    struct Derived {
      std::string name;
      std::string memory;
      View view;
      std::vector<int64_t> exact;  // sizes known now, or -1
    };
    std::vector<Derived> views;
    std::vector<std::pair<std::string, std::string>> renamed;  // a kernel's view -> the tensor of the table
    Number rows;
  };

  static constexpr size_t kMostBuckets = 6, kMostScratch = 12;
  struct Bucket {
    int64_t up_to;  // rows; the last bucket's is kAnyRows
    kernels::Operation operation;
    bool (*takes)(const Call&) = nullptr;  // none: any call of so many rows; the last bucket has none
    std::string called = {};               // what it is for, for reports; none: its rows
  };
  static constexpr int64_t kAnyRows = INT64_MAX;

  OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc, kernels::Operation operation,
                Bindings bindings);
  // One to kMostBuckets of them, fewest rows first, each asked for in this order; a call takes the first that fits.
  OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc, std::vector<Bucket> buckets,
                Bindings bindings);

  int64_t rows(const Call& call) const override { return bindings_.rows(call); }
  std::string refusal(int64_t rows) const override;
  size_t workspace_bytes(int64_t rows) const override {
    return has_buffers_ ? static_cast<size_t>(room_up_to(rows).value()) : 0;
  }
  void execute(const Call& call) const override;
  std::vector<const Launcher*> launchers() const override;
  size_t schedule(const Call& call) const override { return &variant_of(call) - variants_.data(); }
  std::vector<Fact> facts(const Call& call) const override;

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
    int index = 0;      // of the tensor, derived view, scratch buffer or function
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
    SizeTable::Index offset;  // bytes of the workspace before it
  };
  struct Variant {
    int64_t up_to;
    bool (*takes)(const Call&);
    std::string called;
    SizeTable sizes;  // of grids and buffers
    std::vector<Buffer> buffers;
    std::vector<Step> steps;
    SizeTable room;  // how the workspace's bytes are computed
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
  Variant load(const OpInfo& info, const BindRules& rules, Bucket bucket, std::vector<Loaded>* loaded) const;
  Binding bind(const OpInfo& info, const std::vector<kernels::Scratch>& workspace, const program::Program& program,
               size_t arg) const;
  ArgPromise promise(const OpInfo& info, const BindRules& rules, const std::vector<kernels::Scratch>& workspace,
                     const Binding& binding) const;
  const Variant& variant_of(const Call& call) const;
  // Calls back with the variants that calls of so many rows or fewer take, and the most rows of each.
  template <class Body>
  void for_variants_up_to(int64_t rows, Body body) const;
  kernels::Count room_up_to(int64_t rows) const;

  ContextRef context_;
  BoundTensor error_word_;
  Bindings bindings_;
  std::vector<Variant> variants_;
  bool has_buffers_ = false;
};

}  // namespace ligerdsl::lib
