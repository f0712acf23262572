// OperationPlan, the plan of an operation that is a list of kernels (plan.h).
#include <algorithm>

#include "kernels/core/workspace.h"
#include "lib/abi/failure.h"
#include "lib/abi/plan.h"
#include "program/serialize.h"

namespace ligerdsl::lib {

namespace {

using kernels::Count;

constexpr int64_t kVectorBytes = 16;  // bytes of the widest access of a kernel
static_assert(kWorkspaceAlign % kVectorBytes == 0);

// Returns a scratch buffer's bytes, rounded up to the next buffer's alignment.
Size room_of(const kernels::Scratch& buffer) {
  constexpr auto kAlign = static_cast<int64_t>(kWorkspaceAlign);
  return ceil_div(kernels::workspace_bytes(buffer), kAlign) * kAlign;
}

// Returns an alias class per tensor: the index of the first tensor with which it may share memory.
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

// Returns a view of a scratch buffer with sizes from the table.
BoundTensor view_of(std::byte* data, DType type, const std::vector<SizeTable::Index>& dims,
                    const SizeTable::Values& sizes) {
  BoundTensor tensor{};
  tensor.data = data;
  tensor.rank = static_cast<int>(dims.size());
  tensor.dtype = type;
  for (size_t i = 0; i < dims.size(); ++i) tensor.dims[i] = sizes[dims[i]];
  kernels::workspace_strides(type, {tensor.dims, dims.size()}, tensor.strides);
  return tensor;
}

}  // namespace

OperationPlan::OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc,
                             kernels::Operation operation, Bindings bindings)
    : OperationPlan(context, info, desc, std::vector<Bucket>{{kAnyRows, std::move(operation)}},
                    std::move(bindings)) {}

OperationPlan::OperationPlan(const ContextRef& context, const OpInfo& info, const void* desc,
                             std::vector<Bucket> buckets, Bindings bindings)
    : context_(context), error_word_(context->error_word(info)), bindings_(std::move(bindings)) {
  const auto disordered = [](const Bucket& a, const Bucket& b) {
    return a.takes ? a.up_to > b.up_to : a.up_to >= b.up_to;
  };
  if (buckets.empty() || buckets.size() > kMostBuckets || buckets.back().up_to != kAnyRows ||
      buckets.back().takes ||
      std::adjacent_find(buckets.begin(), buckets.end(), disordered) != buckets.end())
    fail(Status::internal_error,
         std::string("a plan of ") + info.name + ": expected 1 to " + std::to_string(kMostBuckets) +
             " buckets in the order of their rows, the last for any call, got " +
             std::to_string(buckets.size()));
  const BindRules rules = make_bind_rules(info, desc, context->api_device());
  std::vector<Loaded> loaded;
  for (Bucket& bucket : buckets) {
    variants_.push_back(load(info, rules, std::move(bucket), &loaded));
    has_buffers_ = has_buffers_ || !variants_.back().buffers.empty();
  }
}

OperationPlan::Variant OperationPlan::load(const OpInfo& info, const BindRules& rules,
                                           Bucket bucket, std::vector<Loaded>* loaded) const {
  const std::vector<kernels::Scratch>& workspace = bucket.operation.workspace;
  Variant variant{.up_to = bucket.up_to, .takes = bucket.takes, .called = bucket.called};
  add_buffers(workspace, &variant);
  for (kernels::Step& recorded : bucket.operation.steps) {
    Step step;
    std::vector<ArgPromise> promises;
    for (size_t arg = 0; arg < recorded.program.arguments.size(); ++arg) {
      step.bindings.push_back(bind(info, workspace, recorded.program, arg));
      promises.push_back(promise(info, rules, workspace, step.bindings.back()));
    }
    Launch resources = std::move(recorded.launch);
    step.programs = variant.sizes.add(resources);
    resources.grid = {};
    const std::string program = program::serialize(recorded.program);
    const auto known = std::find_if(loaded->begin(), loaded->end(), [&](const Loaded& other) {
      return other.program == program && other.launch == resources && other.promises == promises;
    });
    if (known != loaded->end()) {
      step.launcher = known->launcher;
    } else {
      step.launcher = std::make_shared<Launcher>(*context_, recorded.program, resources, promises);
      loaded->push_back({program, resources, promises, step.launcher});
    }
    variant.steps.push_back(std::move(step));
  }
  return variant;
}

void OperationPlan::add_buffers(const std::vector<kernels::Scratch>& workspace, Variant* variant) {
  if (workspace.size() > kMostScratch)
    fail(Status::internal_error, "a plan: expected at most " + std::to_string(kMostScratch) +
                                     " scratch buffers, got " + std::to_string(workspace.size()));
  Size offset = 0;
  for (const kernels::Scratch& scratch : workspace) {
    Buffer buffer{.dtype = scratch.dtype, .offset = variant->sizes.add(offset)};
    for (const Size& dim : scratch.shape) buffer.dims.push_back(variant->sizes.add(dim));
    variant->buffers.push_back(std::move(buffer));
    offset = offset + room_of(scratch);
  }
  variant->bytes = variant->room.add(offset);
}

kernels::Grid OperationPlan::grid_of(const Step& step, const SizeTable::Values& sizes) {
  return {sizes[step.programs[0]], sizes[step.programs[1]], sizes[step.programs[2]]};
}

// Searches linearly, because most plans have one variant.
const OperationPlan::Variant& OperationPlan::variant_of(const Call& call) const {
  const Variant* variant = variants_.data();
  while (variant->up_to < call.rows || (variant->takes && !variant->takes(call))) ++variant;
  return *variant;
}

template <class Body>
void OperationPlan::for_variants_up_to(int64_t rows, Body body) const {
  for (const Variant& variant : variants_) {
    body(variant, std::min(rows, variant.up_to));
    if (rows <= variant.up_to && !variant.takes) return;
  }
}

OperationPlan::Binding OperationPlan::bind(const OpInfo& info,
                                           const std::vector<kernels::Scratch>& workspace,
                                           const program::Program& program, size_t arg) const {
  const std::string& name = program.arguments[arg].name;
  const program::Type& type = program.values[program.arguments[arg].value];
  const auto index_in = [](const auto& list, auto at) {
    return static_cast<int>(at - list.begin());
  };
  if (type.kind == program::TypeKind::view) {
    const auto view = std::find_if(bindings_.views.begin(), bindings_.views.end(),
                                   [&](const auto& v) { return v.name == name; });
    if (view != bindings_.views.end()) return {Source::derived, index_in(bindings_.views, view)};
    const auto renamed = find_name(bindings_.renamed, name);
    const std::string& tensor = renamed == bindings_.renamed.end() ? name : renamed->second;
    for (size_t i = 0; i < info.tensors.size(); ++i) {
      if (info.tensors[i].name == tensor) return {Source::tensor, static_cast<int>(i)};
    }
    for (size_t i = 0; i < workspace.size(); ++i) {
      if (workspace[i].name == name) return {Source::scratch, static_cast<int>(i)};
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
    if (auto at = find_name(bindings_.integers_of_call, name);
        at != bindings_.integers_of_call.end()) {
      return {Source::integer_of_call, index_in(bindings_.integers_of_call, at), 0, dtype};
    }
    if (auto at = find_name(bindings_.numbers_of_call, name);
        at != bindings_.numbers_of_call.end()) {
      return {Source::number_of_call, index_in(bindings_.numbers_of_call, at), 0, dtype};
    }
  }
  fail(Status::internal_error, "argument " + name + " of kernel " + program.name +
                                   " has no tensor, scratch buffer, view or number of this name");
}

ArgPromise OperationPlan::promise(const OpInfo& info, const BindRules& rules,
                                  const std::vector<kernels::Scratch>& workspace,
                                  const Binding& binding) const {
  const auto n_tensors = static_cast<uint32_t>(info.tensors.size());
  const auto n_views = static_cast<uint32_t>(bindings_.views.size());
  switch (binding.source) {
    case Source::tensor: {
      const TensorInfo& tensor = info.tensors[binding.index];
      ArgPromise promise{.alias_class = 1 + static_cast<uint32_t>(memory_of_tensors(
                                                info, rules.in_place)[binding.index])};
      for (int i = 0; i < tensor.rank; ++i) {
        const DimSpec& dim = tensor.dims[i];
        const bool joined = tensor.shape == ShapeKind::leading && i == 0;
        const int64_t size = dim.symbol < 0 ? 1 : joined ? -1 : rules.sizes[dim.symbol];
        promise.exact.push_back(size < 0 ? -1 : size * dim.factor);
      }
      return promise;
    }
    case Source::derived: {
      uint32_t first = 0;  // views of one memory have the alias class of its first view
      while (bindings_.views[first].memory != bindings_.views[binding.index].memory) ++first;
      return {.alias_class = 1 + n_tensors + first, .exact = bindings_.views[binding.index].exact};
    }
    case Source::scratch:
      return {.alias_class = 1 + n_tensors + n_views + static_cast<uint32_t>(binding.index),
              .pointer_align = kVectorBytes};
    case Source::error_word:
      return {.alias_class = 1 + n_tensors + n_views + static_cast<uint32_t>(workspace.size())};
    default:
      return {};
  }
}

Count OperationPlan::room_up_to(int64_t rows) const {
  Count most = 0;
  for_variants_up_to(rows, [&](const Variant& variant, int64_t largest) {
    SizeTable::Values sizes;
    variant.room.compute(largest, &sizes);
    most = std::max<Count>(most, sizes[variant.bytes]);
  });
  return most;
}

std::string OperationPlan::refusal(int64_t rows) const {
  std::string why;
  for_variants_up_to(rows, [&](const Variant& variant, int64_t largest) {
    SizeTable::Values sizes;
    variant.sizes.compute(largest, &sizes);
    for (const Step& step : variant.steps)
      if (why.empty()) why = refuse_grid(grid_of(step, sizes), *step.launcher);
  });
  return why.empty() ? refuse_workspace(room_up_to(rows)) : why;
}

void OperationPlan::execute(const Call& call) const {
  const Variant& variant = variant_of(call);
  SizeTable::Values sizes;
  variant.sizes.compute(call.rows, &sizes);
  BoundTensor buffers[kMostScratch];
  for (size_t i = 0; i < variant.buffers.size(); ++i) {
    const Buffer& buffer = variant.buffers[i];
    buffers[i] = view_of(call.workspace + sizes[buffer.offset], buffer.dtype, buffer.dims, sizes);
  }
  for (const Step& step : variant.steps) {
    const kernels::Grid grid = grid_of(step, sizes);
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
          pack.view(error_word_);
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
          pack.bits(
              bits_of(binding.type,
                      static_cast<double>(bindings_.numbers_of_call[binding.index].second(call))));
          break;
      }
    }
    pack.launch({grid[0], grid[1], grid[2]}, call.stream);
  }
}

std::vector<Fact> OperationPlan::facts(const Call& call) const {
  if (variants_.size() == 1) return {};
  const Variant& variant = variant_of(call);
  const std::string of_rows = variant.up_to == kAnyRows
                                  ? "any number of rows"
                                  : "up to " + std::to_string(variant.up_to) + " rows";
  return {{"schedule", "for " + (variant.called.empty() ? of_rows : variant.called)}};
}

std::vector<const Launcher*> OperationPlan::launchers() const {
  std::vector<const Launcher*> all;
  for (const Variant& variant : variants_)
    for (const Step& step : variant.steps)
      if (std::find(all.begin(), all.end(), step.launcher.get()) == all.end())
        all.push_back(step.launcher.get());
  return all;
}

}  // namespace ligerdsl::lib
