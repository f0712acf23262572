#include "lib/src/launcher.h"

#include <bit>
#include <cstring>

#include "kernels/launch.h"
#include "lib/src/context.h"
#include "lib/src/failure.h"
#include "program/serialize.h"

namespace ligerdsl::lib {

namespace {

constexpr int64_t kVector = 16;  // bytes of the widest load

// No store of this launch reaches the argument's memory: neither through it nor through one that may overlap it.
bool read_only(size_t arg, const std::vector<ArgPromise>& promises, const std::vector<bool>& written) {
  if (written[arg]) return false;
  for (size_t i = 0; i < promises.size(); ++i) {
    const bool apart = promises[i].alias_class != 0 && promises[arg].alias_class != 0 &&
                       promises[i].alias_class != promises[arg].alias_class;
    if (written[i] && !apart) return false;
  }
  return true;
}

program::ArgFacts facts_of(const program::Type& type, const ArgPromise& promise, bool aligned) {
  program::ArgFacts facts;
  facts.alias_class = promise.alias_class;
  if (type.kind != program::TypeKind::view) return facts;
  const size_t rank = type.shape.size();
  const int64_t vector = aligned ? kVector / size_of(type.dtype) : 1;
  facts.pointer_align = aligned ? kVector : 1;
  facts.dims.resize(rank);
  facts.strides.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (i < promise.exact.size()) facts.dims[i].exact = promise.exact[i];
    if (i + 1 < rank) facts.strides[i].divisor = vector;
  }
  // A last stride that the program leaves open says nothing about neighbours in memory.
  if (rank > 0 && type.strides[rank - 1] == 1) {
    facts.strides[rank - 1].exact = 1;
    if (facts.dims[rank - 1].exact < 0) facts.dims[rank - 1].divisor = vector;
  }
  return facts;
}

}  // namespace

uint64_t bits_of(DType type, double value) {
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  fail(Status::not_supported, std::string("scalar arguments of type ") + name(type) + " cannot be passed as numbers");
}

uint64_t bits_of(DType type, int64_t value) {
  switch (type) {
    case DType::i1:
      return value != 0;
    case DType::i8:
      return static_cast<uint8_t>(value);
    case DType::i32:
      return static_cast<uint32_t>(value);
    case DType::i64:
      return static_cast<uint64_t>(value);
    default:
      return bits_of(type, static_cast<double>(value));
  }
}

Launcher::Launcher(Context& context, const program::Program& program, const LaunchOptions& options,
                   const std::vector<ArgPromise>& promises)
    : program_(program), written_(kernels::written_arguments(program)), promises_(promises) {
  size_t slots = 0;
  for (const program::Argument& argument : program.arguments) {
    types_.push_back(program.values[argument.value]);
    slots += program::slotCount(types_.back());
  }
  if (slots > kMaxSlots) {
    fail(Status::not_supported, "kernel " + program.name + " takes " + std::to_string(slots) +
                                    " argument slots, at most " + std::to_string(kMaxSlots) + " are supported");
  }
  const std::string bytes = program::serialize(program);
  const auto load = [&](bool aligned) {
    program::CompileOptions compile = context.base_options();
    compile.num_warps = options.num_warps;
    compile.num_ctas = options.num_ctas;
    compile.num_stages = options.num_stages;
    compile.max_registers = options.max_registers;
    compile.contract = options.contract;
    for (size_t i = 0; i < types_.size(); ++i) {
      compile.facts.push_back(facts_of(types_[i], promises_[i], aligned));
      compile.facts.back().read_only = read_only(i, promises_, written_);
    }
    return context.load(bytes, compile);
  };
  generic_ = load(false);
  if (context.machine().target == program::Target::nvptx) aligned_ = load(true);
}

void Launcher::Pack::view(const BoundTensor& tensor) {
  const size_t rank = static_cast<size_t>(tensor.rank);
  const program::Type& type = launcher_.types_[arg_];
  const std::vector<int64_t>& exact = launcher_.promises_[arg_].exact;
  const uint64_t vector = static_cast<uint64_t>(kVector / size_of(type.dtype));
  uint64_t off = reinterpret_cast<uintptr_t>(tensor.data) % kVector;
  slots_[used_++] = reinterpret_cast<uintptr_t>(tensor.data);
  for (size_t i = 0; i < rank; ++i) slots_[used_++] = static_cast<uint64_t>(tensor.dims[i]);
  for (size_t i = 0; i + 1 < rank; ++i) {
    off |= static_cast<uint64_t>(tensor.strides[i]) & (vector - 1);
    slots_[used_++] = static_cast<uint64_t>(tensor.strides[i]);
  }
  if (rank > 0 && type.strides[rank - 1] != 1) {
    slots_[used_++] = static_cast<uint64_t>(tensor.strides[rank - 1]);
  } else if (rank > 0) {
    slots_[used_++] = 1;  // also along a last dimension of size 1
    if (rank > exact.size() || exact[rank - 1] < 0) off |= static_cast<uint64_t>(tensor.dims[rank - 1]) & (vector - 1);
  }
  aligned_ = aligned_ && off == 0;
  ++arg_;
}

void Launcher::Pack::bits(uint64_t value) {
  slots_[used_++] = value;
  ++arg_;
}

void Launcher::Pack::launch(const runtime::Grid& grid, runtime::Stream stream) {
  runtime::LoadedKernel& kernel = aligned_ && launcher_.aligned_ ? *launcher_.aligned_ : *launcher_.generic_;
  kernel.launch(slots_, grid, stream);
}

}  // namespace ligerdsl::lib
