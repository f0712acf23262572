#include "lib/src/plan.h"

#include <algorithm>
#include <limits>

#include "lib/src/failure.h"
#include "lib/src/overlap.h"
#include "lib/src/validate.h"
#include "lib/src/warm_line.h"
#include "runtime/kernel_cache.h"

namespace ligerdsl::lib {

namespace {

using kernels::Count;

// Of a scratch buffer, up to where the next one may begin.
Count bytes_of(const kernels::Scratch& buffer, int64_t rows) {
  Count elements = 1;
  for (const Size& dim : buffer.room.empty() ? buffer.shape : buffer.room) elements = elements * dim.at(rows);
  return round_up(elements * size_of(buffer.dtype), static_cast<int64_t>(kWorkspaceAlign));
}

// "9223372036854775807 or more" of a count that stopped there.
std::string text_of(Count count) {
  return std::to_string(count.value()) + (count.saturated() ? " or more" : "");
}

template <class List>
auto find_name(const List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
}

// Every tensor's memory: tensors that may be one another share the smallest index among them.
std::vector<int> memory_of_tensors(const OpInfo& info, bool in_place) {
  std::vector<int> memory(info.tensors.size());
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int>(i);
  if (!in_place) return memory;
  for (const AliasInfo& alias : info.aliases) {
    const int a = memory[alias.output], b = memory[alias.input];
    std::replace(memory.begin(), memory.end(), std::max(a, b), std::min(a, b));
  }
  return memory;
}

// Kernels are told that scratch memory overlaps no tensor.
void check_workspace(const OpInfo& info, const Call& call, size_t bytes) {
  for (size_t i = 0; i < info.tensors.size(); ++i) {
    const BoundTensor& tensor = call.tensors[i];
    if (!tensor.present || tensor.data >= call.workspace + bytes) continue;
    if (tensor.data + span_bytes(tensor) <= call.workspace) continue;
    fail(Status::invalid_alias,
         std::string("`workspace`: expected memory apart from all tensors, got some that it shares with `") +
             info.tensors[i].name + "`");
  }
}

// Where a plan may not compile, the error says how to have its kernels in the cache.
std::unique_ptr<OpPlan> make_op(const OpInfo& info, const ContextRef& context, const void* desc) {
  try {
    return info.make(context, desc);
  } catch (const runtime::NotCached& error) {
    throw runtime::NotCached(error.status(),
                             std::string(error.what()) + ". FILE needs this line: " + warm_line(info, desc, *context));
  }
}

}  // namespace

Plan::Plan(const OpInfo& info, ContextRef context, const void* desc)
    : info_(&info),
      context_(std::move(context)),
      rules_(make_bind_rules(info, desc, context_->api_device())),
      op_((check_described_sizes(rules_), make_op(info, context_, desc))),
      most_rows_(find_most_rows()) {}

std::string Plan::refusal(int64_t rows) const {
  for (size_t i = 0; i < info_->tensors.size(); ++i) {
    const Count elements = elements_per_row(rules_, static_cast<int>(i)) * rows;
    if (elements > kMaxElements)
      return std::string("`") + info_->tensors[i].name + "` would have " + text_of(elements) +
             " elements, at most 2^56 are possible";
  }
  return op_->refusal(rows);
}

// Of the numbers that are not refused the largest.
int64_t Plan::find_most_rows() const {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  if (refusal(kAny).empty()) return kAny;
  int64_t runs = 0, refused = kAny;  // no row is nothing to run
  while (refused - runs > 1) {
    const int64_t middle = runs + (refused - runs) / 2;
    (refusal(middle).empty() ? runs : refused) = middle;
  }
  return runs;
}

size_t Plan::workspace_bytes(int64_t rows) const {
  if (rows < 0) fail(Status::invalid_shape, "`rows`: expected 0 or more, got " + std::to_string(rows));
  if (rows > most_rows_) {
    fail(Status::invalid_shape, "`rows` (" + std::string(info_->rows) + "): expected at most " +
                                    std::to_string(most_rows_) + " for this plan, got " + std::to_string(rows) + ": " +
                                    refusal(rows));
  }
  return op_->workspace_bytes(rows);
}

size_t Plan::count(Call* call) const {
  call->rows = op_->rows(*call);
  return workspace_bytes(call->rows);
}

void Plan::launch(const Call& call, size_t needed) const {
  if (call.workspace_bytes < needed) {
    fail(Status::workspace_too_small,
         "`workspace`: expected at least " + std::to_string(needed) + " bytes for " + std::to_string(call.rows) +
             " rows (ligerdsl_plan_workspace_bytes_for), got " + std::to_string(call.workspace_bytes));
  }
  if (needed > 0) require_pointer(call.workspace, "workspace");
  if (reinterpret_cast<uintptr_t>(call.workspace) % kWorkspaceAlign != 0 && needed > 0) {
    fail(Status::invalid_misaligned, "`workspace`: expected an address that is a multiple of 256 bytes");
  }
  if (needed > 0) check_workspace(*info_, call, needed);
  if (!context_->options().validate) return op_->execute(call);
  std::vector<Watched> watched;
  for (size_t i = 0; i < info_->tensors.size(); ++i) {
    const TensorInfo& tensor = info_->tensors[i];
    watched.push_back(
        {tensor.name, &call.tensors[i], tensor.direction != Direction::out, tensor.direction != Direction::in});
  }
  run_validated(*context_, watched, call.stream, [&] { op_->execute(call); });
}

std::string refuse_grid(const kernels::Grid& grid, const Launcher& launcher) {
  const runtime::Grid most = launcher.largest_grid();
  const int64_t limits[] = {most.x, most.y, most.z};
  for (size_t axis = 0; axis < 3; ++axis) {
    if (grid[axis] <= limits[axis]) continue;
    return "kernel " + launcher.program().name + " would run " + text_of(grid[axis]) + " programs, at most " +
           std::to_string(limits[axis]) + " are possible; split the call";
  }
  return "";
}

std::string refuse_workspace(Count bytes) {
  if (bytes <= kMaxWorkspace) return "";
  return "its workspace would have " + text_of(bytes) + " bytes, at most " + std::to_string(kMaxWorkspace) +
         " are possible; split the call";
}

OperationPlan::OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc,
                             kernels::Operation operation, Bindings bindings)
    : context_(context), operation_(std::move(operation)), bindings_(std::move(bindings)) {
  const BindRules rules = make_bind_rules(info, desc, context->api_device());
  for (const kernels::Step& recorded : operation_.steps) {
    Step step;
    step.launch = &recorded.launch;
    std::vector<ArgPromise> promises;
    for (size_t arg = 0; arg < recorded.program.arguments.size(); ++arg) {
      step.bindings.push_back(bind(info, recorded.program, arg));
      promises.push_back(promise(info, rules, step.bindings.back()));
    }
    step.launcher = std::make_unique<Launcher>(*context, recorded.program, recorded.launch, promises);
    steps_.push_back(std::move(step));
  }
}

OperationPlan::Binding OperationPlan::bind(const OpInfo& info, const program::Program& program, size_t arg) const {
  const std::string& name = program.arguments[arg].name;
  const program::Type& type = program.values[program.arguments[arg].value];
  const auto index_in = [](const auto& list, auto at) { return static_cast<int>(at - list.begin()); };
  if (type.kind == program::TypeKind::view) {
    const auto view =
        std::find_if(bindings_.views.begin(), bindings_.views.end(), [&](const auto& v) { return v.name == name; });
    if (view != bindings_.views.end()) return {Source::derived, index_in(bindings_.views, view)};
    const auto renamed = find_name(bindings_.renamed, name);
    const std::string& tensor = renamed == bindings_.renamed.end() ? name : renamed->second;
    for (size_t i = 0; i < info.tensors.size(); ++i) {
      if (info.tensors[i].name == tensor) return {Source::tensor, static_cast<int>(i)};
    }
    for (size_t i = 0; i < operation_.workspace.size(); ++i) {
      if (operation_.workspace[i].name == name) return {Source::scratch, static_cast<int>(i)};
    }
    if (name == "error") return {Source::error_word};
  } else {
    const DType dtype = type.dtype;
    if (name == "programs") return {Source::programs, 0, 0, dtype};
    if (auto at = find_name(bindings_.numbers, name); at != bindings_.numbers.end()) {
      return {Source::constant, 0, bits_of(dtype, at->second), dtype};
    }
    if (auto at = find_name(bindings_.integers, name); at != bindings_.integers.end()) {
      return {Source::constant, 0, bits_of(dtype, at->second), dtype};
    }
    if (auto at = find_name(bindings_.integers_of_call, name); at != bindings_.integers_of_call.end()) {
      return {Source::integer_of_call, index_in(bindings_.integers_of_call, at), 0, dtype};
    }
    if (auto at = find_name(bindings_.numbers_of_call, name); at != bindings_.numbers_of_call.end()) {
      return {Source::number_of_call, index_in(bindings_.numbers_of_call, at), 0, dtype};
    }
  }
  fail(Status::internal_error, "argument " + name + " of kernel " + program.name + " is bound to nothing");
}

ArgPromise OperationPlan::promise(const OpInfo& info, const BindRules& rules, const Binding& binding) const {
  const auto n_tensors = static_cast<uint32_t>(info.tensors.size());
  const auto n_views = static_cast<uint32_t>(bindings_.views.size());
  switch (binding.source) {
    case Source::tensor: {
      const TensorInfo& tensor = info.tensors[binding.index];
      ArgPromise promise{.alias_class =
                             1 + static_cast<uint32_t>(memory_of_tensors(info, rules.in_place)[binding.index])};
      for (int i = 0; i < tensor.rank; ++i) {
        const DimSpec& dim = tensor.dims[i];
        const bool joined = tensor.shape == ShapeKind::leading && i == 0;
        const int64_t size = dim.symbol < 0 ? 1 : joined ? -1 : rules.sizes[dim.symbol];
        promise.exact.push_back(size < 0 ? -1 : size * dim.factor);
      }
      return promise;
    }
    case Source::derived: {
      uint32_t first = 0;  // the first view of the same memory stands for all of them
      while (bindings_.views[first].memory != bindings_.views[binding.index].memory) ++first;
      return {.alias_class = 1 + n_tensors + first, .exact = bindings_.views[binding.index].exact};
    }
    case Source::scratch:
      return {.alias_class = 1 + n_tensors + n_views + static_cast<uint32_t>(binding.index)};
    case Source::error_word:
      return {.alias_class = 1 + n_tensors + n_views + static_cast<uint32_t>(operation_.workspace.size())};
    default:
      return {};
  }
}

BoundTensor OperationPlan::scratch(size_t index, int64_t rows, size_t* offset) const {
  const kernels::Scratch& buffer = operation_.workspace[index];
  BoundTensor tensor{};
  tensor.rank = static_cast<int>(buffer.shape.size());
  tensor.dtype = buffer.dtype;
  int64_t elements = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.dims[i] = buffer.shape[i].at(rows);
    tensor.strides[i] = elements;
    elements *= tensor.dims[i];
  }
  tensor.data = reinterpret_cast<std::byte*>(*offset);
  *offset += static_cast<size_t>(bytes_of(buffer, rows).value());
  return tensor;
}

Count OperationPlan::room(int64_t rows) const {
  Count bytes = 0;
  for (const kernels::Scratch& buffer : operation_.workspace) bytes += bytes_of(buffer, rows);
  return bytes;
}

std::string OperationPlan::refusal(int64_t rows) const {
  for (const Step& step : steps_) {
    if (std::string why = refuse_grid(step.launch->grid_at(rows), *step.launcher); !why.empty()) return why;
  }
  return refuse_workspace(room(rows));
}

void OperationPlan::execute(const Call& call) const {
  constexpr size_t kMaxScratch = 8;
  BoundTensor buffers[kMaxScratch];
  const int64_t n = call.rows;
  size_t offset = 0;
  for (size_t i = 0; i < operation_.workspace.size(); ++i) {
    buffers[i] = scratch(i, n, &offset);
    buffers[i].data = call.workspace + reinterpret_cast<size_t>(buffers[i].data);
  }
  for (const Step& step : steps_) {
    const kernels::Grid grid = step.launch->grid_at(n);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) continue;
    Launcher::Pack pack(*step.launcher);
    for (const Binding& binding : step.bindings) {
      switch (binding.source) {
        case Source::tensor:
          pack.view(call.tensors[binding.index]);
          break;
        case Source::derived:
          pack.view(bindings_.views[binding.index].view(call));
          break;
        case Source::scratch:
          pack.view(buffers[binding.index]);
          break;
        case Source::error_word:
          pack.view(context_->error_word());
          break;
        case Source::constant:
          pack.bits(binding.bits);
          break;
        case Source::programs:
          pack.bits(bits_of(binding.type, grid[0]));
          break;
        case Source::integer_of_call:
          pack.bits(bits_of(binding.type, bindings_.integers_of_call[binding.index].second(call)));
          break;
        case Source::number_of_call:
          pack.bits(bits_of(binding.type, static_cast<double>(bindings_.numbers_of_call[binding.index].second(call))));
          break;
      }
    }
    pack.launch({grid[0], grid[1], grid[2]}, call.stream);
  }
}

std::vector<const Launcher*> OperationPlan::launchers() const {
  std::vector<const Launcher*> all;
  for (const Step& step : steps_) all.push_back(step.launcher.get());
  return all;
}

}  // namespace ligerdsl::lib
