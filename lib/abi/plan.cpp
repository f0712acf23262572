#include "lib/abi/plan.h"

#include <algorithm>
#include <limits>

#include "lib/abi/call_ranges.h"
#include "lib/abi/failure.h"
#include "lib/abi/operand_copies.h"
#include "lib/abi/validate.h"
#include "lib/abi/warm_line.h"
#include "runtime/cache/kernel_cache.h"

namespace ligerdsl::lib {

namespace {

using kernels::Count;

// Returns the count as text; a saturated count is "9223372036854775807 or more".
std::string text_of(Count count) {
  return std::to_string(count.value()) + (count.saturated() ? " or more" : "");
}

// Fails if the workspace overlaps a tensor, because kernels are compiled with the promise that it
// does not.
void check_workspace(const OpInfo& info, const Call& call, size_t bytes) {
  for (size_t i = 0; i < info.tensors.size(); ++i) {
    const BoundTensor& tensor = call.tensors[i];
    if (!tensor.present || tensor.data >= call.workspace + bytes) continue;
    if (tensor.data + span_bytes(memory_of(tensor)) <= call.workspace) continue;
    fail(Status::invalid_alias,
         std::string(
             "`workspace`: expected memory that no tensor uses, got memory that overlaps `") +
             info.tensors[i].name + "`");
  }
}

// Creates the operation's plan. If compiling is forbidden and no cache has a kernel, the error
// contains the line for `ligerdsl cache warm` that stores the plan's kernels.
std::unique_ptr<OpPlan> make_op(const OpInfo& info, const ContextRef& context, const void* desc) {
  const runtime::Range range(runtime::RangeKind::plan,
                             runtime::ranges_wanted() ? range_name(info, desc) : "");
  try {
    return info.make(context, desc);
  } catch (const runtime::EditedNotCached&) {
    throw;
  } catch (const runtime::NotCached& error) {
    throw runtime::NotCached(
        error.status(), std::string(error.what()) +
                            ". The line of FILE for this plan: " + warm_line(info, desc, *context));
  }
}

}  // namespace

Plan::Plan(const OpInfo& info, ContextRef context, const void* desc)
    : info_(&info),
      context_(std::move(context)),
      calls_(&context_->calls_of(info)),
      observed_(runtime::ranges_wanted() || context_->options().validate),
      range_name_(runtime::ranges_wanted() ? lib::range_name(info, desc) : ""),
      rules_(make_bind_rules(info, desc, context_->api_device())),
      op_((check_described_sizes(rules_), make_op(info, context_, desc))),
      most_rows_(find_most_rows()) {}

std::string Plan::refusal(int64_t rows) const {
  for (size_t i = 0; i < info_->tensors.size(); ++i) {
    const Count elements = elements_per_row(rules_, static_cast<int>(i)) * rows;
    if (elements > kMaxElements)
      return std::string("`") + info_->tensors[i].name + "` would have " + text_of(elements) +
             " elements, at most 2^56 are possible; split the call";
  }
  return op_->refusal(rows);
}

// Returns the largest number of rows that is not refused.
int64_t Plan::find_most_rows() const {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (refusal(kAny).empty()) return kAny;
  int64_t runs = 0, refused = kAny;  // a call with 0 rows is never refused
  while (refused - runs > 1) {
    const int64_t middle = runs + (refused - runs) / 2;
    (refusal(middle).empty() ? runs : refused) = middle;
  }
  return runs;
}

size_t Plan::workspace_bytes(int64_t rows) const {
  if (rows < 0)
    fail(Status::invalid_shape, "`rows`: expected 0 or more, got " + std::to_string(rows));
  if (rows > most_rows_) {
    fail(Status::invalid_shape, "`rows` (" + std::string(info_->rows) + "): expected at most " +
                                    std::to_string(most_rows_) + " for this plan, got " +
                                    std::to_string(rows) + ": " + refusal(rows));
  }
  return op_->workspace_bytes(rows);
}

size_t Plan::workspace_bytes_with_copies(int64_t rows) const {
  const size_t bytes = workspace_bytes(rows);
  const OperandCopies* const copies = op_->copies();
  if (!copies) return bytes;
  copies->compile_all();
  return bytes + copies->most_bytes(rows);
}

size_t Plan::bytes_of_copies(const Call& call, const CopiedOperands& copied) const {
  return copied == CopiedOperands{} ? 0 : op_->copies()->bytes(call, copied);
}

// Returns the operands to copy, or none if the workspace has no room for the copies or a copy
// kernel is not compiled.
CopiedOperands Plan::copies_that_fit(const Call& call, size_t needed) const {
  const OperandCopies* const copies = call.workspace_bytes > needed ? op_->copies() : nullptr;
  if (!copies) return {};
  const CopiedOperands chosen = copies->operands_to_copy(call);
  const bool fit = bytes_of_copies(call, chosen) <= call.workspace_bytes - needed;
  return fit && copies->are_compiled(chosen) ? chosen : CopiedOperands{};
}

size_t Plan::count(Call* call) const {
  call->rows = op_->rows(*call);
  return workspace_bytes(call->rows);
}

void Plan::launch(const Call& call, size_t needed, const CopiedOperands& copied) const {
  const size_t bytes_of_copied = bytes_of_copies(call, copied), used = needed + bytes_of_copied;
  if (call.workspace_bytes < used) {
    fail(Status::workspace_too_small, "`workspace`: expected at least " + std::to_string(needed) +
                                          " bytes for " + std::to_string(call.rows) +
                                          " rows (ligerdsl_plan_workspace_bytes_for), got " +
                                          std::to_string(call.workspace_bytes));
  }
  if (used > 0) require_pointer(call.workspace, "workspace");
  if (reinterpret_cast<uintptr_t>(call.workspace) % kWorkspaceAlign != 0 && used > 0) {
    fail(Status::invalid_misaligned,
         "`workspace`: expected an address that is a multiple of 256 bytes, got " +
             address_text(call.workspace));
  }
  if (used > 0) check_workspace(*info_, call, used);
  if (bytes_of_copied == 0) [[likely]] {
    launch_checked(call);
  } else {
    Call aligned = call;
    aligned.workspace += bytes_of_copied;
    op_->copies()->run(copied, call.workspace, &aligned);
    launch_checked(aligned);
  }
  calls_->fetch_add(1, std::memory_order_relaxed);
}

void Plan::launch_checked(const Call& call) const {
  if (!observed_) [[likely]]
    op_->execute(call);
  else
    launch_observed(call);
}

void Plan::launch_observed(const Call& call) const {
  const ExecuteRange range(range_name_, call.rows);
  if (!context_->options().validate) return op_->execute(call);
  std::vector<Watched> watched;
  for (size_t i = 0; i < info_->tensors.size(); ++i) {
    const TensorInfo& tensor = info_->tensors[i];
    watched.push_back({tensor.name, &call.tensors[i], tensor.direction != Direction::out,
                       tensor.direction != Direction::in});
  }
  run_validated(*context_, watched, call.stream, [&] { op_->execute(call); });
}

std::string refuse_grid(const kernels::Grid& grid, const Launcher& launcher) {
  const runtime::Grid most = launcher.largest_grid();
  const int64_t limits[] = {most.x, most.y, most.z};
  for (size_t axis = 0; axis < 3; ++axis) {
    if (grid[axis] <= limits[axis]) continue;
    return "kernel " + launcher.program().name + " would run " + text_of(grid[axis]) +
           " programs, at most " + std::to_string(limits[axis]) + " are possible; split the call";
  }
  return "";
}

std::string refuse_workspace(Count bytes) {
  if (bytes <= kMaxWorkspace) return "";
  return "the workspace would have " + text_of(bytes) + " bytes, at most " +
         std::to_string(kMaxWorkspace) + " are possible; split the call";
}

}  // namespace ligerdsl::lib
