#include "lib/abi/launcher.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "interpreter/convert.h"
#include "kernels/core/launch.h"
#include "lib/abi/context.h"
#include "lib/abi/failure.h"
#include "program/remarks.h"
#include "program/serialize.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/environment/log.h"
#include "runtime/kernel/resource_remarks.h"

namespace ligerdsl::lib {

namespace {

// Logs a kernel's remarks once, whether it was compiled or came from a cache.
void log_remarks(const runtime::LoadedKernel& kernel, int min_ctas_per_sm) {
  if (!runtime::log_enabled(runtime::LogLevel::debug)) return;
  const program::Artifact& artifact = kernel.artifact();
  std::vector<program::Remark> remarks = artifact.remarks;
  for (program::Remark& remark :
       runtime::resource_remarks(artifact, kernel.resources(), min_ctas_per_sm))
    remarks.push_back(std::move(remark));
  for (const program::Remark& remark : remarks) {
    const std::string line = artifact.entry + ": " + text_with_remedy(remark);
    runtime::log_once(runtime::LogLevel::debug, line, line);
  }
}

// Logs a remark of the launcher, once per `key`.
void log_remark(program::RemarkId id, const std::string& kernel, const std::string& key,
                std::string text) {
  runtime::log_once(runtime::LogLevel::debug, key,
                    kernel + ": " + text_with_remedy(program::make_remark(id, std::move(text))));
}

// Adds the fact that lists of integers are contiguous if the program loads or stores them as
// tiles. No other fact speeds up a CPU kernel. Returns false if the program has no such
// argument.
bool assume_contiguous_lists(const program::Program& program,
                             std::vector<program::ArgFacts>* facts) {
  bool any = false;
  const std::vector<program::ArgFacts> aligned =
      kernels::argument_facts(program, kernels::Variant::aligned);
  for (size_t i = 0; i < aligned.size(); ++i) {
    const program::ArgFacts& from = aligned[i];
    if (from.strides.size() != 1 || from.pointer_align == 1 || from.strides == (*facts)[i].strides)
      continue;
    (*facts)[i].strides = from.strides;
    any = true;
  }
  return any;
}

}  // namespace

uint64_t bits_of(DType type, double value) {
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  if (is_integer(type))
    fail(Status::not_supported,
         std::string("a scalar argument of type ") + name(type) +
             " cannot be passed as a floating-point number; pass an integer");
  uint64_t slot = 0;
  interpreter::write_float(type, &slot, value);
  return slot;
}

uint64_t bits_of(DType type, int64_t value) {
  if (is_float(type)) return bits_of(type, static_cast<double>(value));
  uint64_t slot = 0;
  interpreter::write_integer(type, &slot, value);
  return slot;
}

Launcher::Launcher(Context& context, const program::Program& program, const Launch& launch,
                   std::vector<ArgPromise> promises, bool contract)
    : program_(program), aliasing_(program, launch.no_alias) {
  if (const std::string text = aliasing_.contradiction(); !text.empty())
    fail(Status::invalid_program, "kernel " + program.name + ": " + text);
  size_t slots = 0;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const program::Argument& argument = program.arguments[i];
    types_.push_back(program.values[argument.value]);
    slots += program::slotCount(types_.back());
  }
  if (slots > kMaxSlots) {
    fail(Status::not_supported, "kernel " + program.name + " takes " + std::to_string(slots) +
                                    " argument slots, at most " + std::to_string(kMaxSlots) +
                                    " are supported");
  }
  const std::string bytes = program::serialize(program);
  const auto options = [&](kernels::Variant variant) {
    program::CompileOptions base = context.base_options();
    base.contract = contract;
    return kernels::compile_options(std::move(base), program, launch, variant, promises);
  };
  const auto load = [&](const program::CompileOptions& compile, const char* called) {
    variants_.push_back({compile.facts, context.load(bytes, compile), called});
  };
  program::CompileOptions any = options(kernels::Variant::any), lists = any;
  if (context.machine().is_gpu()) {
    for (const kernels::Variant variant : kernels::variants_of(program))
      load(options(variant), name_of(variant));
  } else {
    if (assume_contiguous_lists(program, &lists.facts)) load(lists, "lists");
    load(any, name_of(kernels::Variant::any));
  }
  log_remarks(fastest(), launch.min_ctas_per_sm);
}

// The packed slots have the address, the sizes and the strides of each view.
bool Launcher::Pack::fits(size_t variant) const {
  const uint64_t* slot = slots_;
  for (size_t i = 0; i <= arg_; ++i) {
    const program::Type& type = launcher_.types_[i];
    if (type.kind == program::TypeKind::view) {
      const auto* dims = reinterpret_cast<const int64_t*>(slot + 1);
      if (!kernels::is_aligned(launcher_.variants_[variant].facts[i],
                               reinterpret_cast<const void*>(slot[0]), dims,
                               dims + type.shape.size()))
        return false;
    }
    slot += program::slotCount(type);
  }
  return true;
}

// Rechecks the earlier arguments, because the next variant may require facts that the current one
// does not.
void Launcher::Pack::next_variant(const BoundTensor& tensor) {
  const size_t missed = variant_;
  do ++variant_;
  while (variant_ + 1 < launcher_.variants_.size() && !fits(variant_));
  report(missed, variant_, tensor);
}

// Logs why a variant does not match and another one is used.
void Launcher::Pack::report(size_t missed, size_t index, const BoundTensor& tensor) const {
  if (!runtime::log_enabled(runtime::LogLevel::debug)) return;
  const Variant &wanted = launcher_.variants_[missed], &taken = launcher_.variants_[index];
  const std::string kernel = taken.kernel->artifact().entry,
                    name = launcher_.program_.arguments[arg_].name;
  log_remark(
      program::RemarkId::argument_not_aligned, kernel,
      std::string(taken.called) + ":" + kernel + ":" + name,
      "the call uses the slower " + std::string(taken.called) + " variant: argument " + name +
          ": " +
          kernels::why_not_aligned(wanted.facts[arg_], tensor.data, tensor.dims, tensor.strides));
}

const std::string& Launcher::argument_at(uint32_t slot) const {
  size_t argument = 0, end = program::slotCount(types_[0]);
  while (end <= slot) end += program::slotCount(types_[++argument]);
  return program_.arguments[argument].name;
}

// Returns true if the kernel has no TMA copies, or if they can access the packed arguments.
bool Launcher::Pack::has_maps(const runtime::LoadedKernel& kernel) const {
  for (const program::TensorMap& map : kernel.artifact().maps) {
    const std::string why = runtime::reason_not_mapped(map, slots_);
    if (why.empty()) continue;
    if (runtime::log_enabled(runtime::LogLevel::debug)) {
      const std::string entry = kernel.artifact().entry, name = launcher_.argument_at(map.slot);
      log_remark(program::RemarkId::argument_not_mapped, entry, "map:" + entry + ":" + name,
                 "the call uses the slower generic variant: argument " + name +
                     ": TMA copies cannot read it: " + why);
    }
    return false;
  }
  return true;
}

void Launcher::Pack::view(const BoundTensor& tensor) {
  const size_t rank = static_cast<size_t>(tensor.rank);
  const program::Type& type = launcher_.types_[arg_];
  if (rank != type.shape.size()) [[unlikely]] {  // slots of later arguments would shift
    fail(Status::internal_error, "argument " + launcher_.program_.arguments[arg_].name +
                                     " of kernel " + launcher_.program_.name + " has rank " +
                                     std::to_string(type.shape.size()) + ", got a tensor of rank " +
                                     std::to_string(rank));
  }
  slots_[used_++] = reinterpret_cast<uintptr_t>(tensor.data);
  for (size_t i = 0; i < rank; ++i) slots_[used_++] = static_cast<uint64_t>(tensor.dims[i]);
  for (size_t i = 0; i < rank; ++i) {
    const bool unit =
        i + 1 == rank && type.strides[i] == 1;  // 1 also if the last dimension has size 1
    slots_[used_++] = unit ? 1 : static_cast<uint64_t>(tensor.strides[i]);
  }
  const std::vector<Variant>& variants = launcher_.variants_;
  if (variant_ + 1 < variants.size() &&
      !kernels::is_aligned(variants[variant_].facts[arg_], tensor.data, tensor.dims,
                           tensor.strides))
    next_variant(tensor);
  ++arg_;
}

void Launcher::Pack::bits(uint64_t value) {
  slots_[used_++] = value;
  ++arg_;
}

void Launcher::Pack::launch(const runtime::Grid& grid, runtime::Stream stream) {
  const std::vector<Variant>& variants = launcher_.variants_;
  runtime::LoadedKernel* kernel = variants[variant_].kernel.get();
  if (!has_maps(*kernel)) kernel = variants.back().kernel.get();
  kernel->launch(slots_, grid, stream);
}

}  // namespace ligerdsl::lib
