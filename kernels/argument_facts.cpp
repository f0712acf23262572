#include "kernels/argument_facts.h"

#include <algorithm>

#include "program/op_info.h"

namespace ligerdsl::kernels {
namespace {

using program::Op;
using program::OpCode;

constexpr int64_t kVector = 16;  // bytes of the widest access

// By argument: elements of the largest tile that is moved through it, where a column of rows counts as one: none of its
// elements has a neighbour. 2 at least if its address is taken.
class LargestTiles {
 public:
  explicit LargestTiles(const program::Program& program)
      : program_(program), argument_of_(program.values.size(), -1), elements_(program.arguments.size(), 1) {
    for (size_t i = 0; i < elements_.size(); ++i) argument_of_[program.arguments[i].value] = static_cast<int>(i);
    collect(program.body);
  }
  int64_t of(size_t argument) const { return elements_[argument]; }
  int64_t of_all() const { return elements_.empty() ? 1 : *std::max_element(elements_.begin(), elements_.end()); }

 private:
  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      if (op.find(program::AttrKey::tile_shape)) meet(op, neighbours_of(op));
      if (op.code == OpCode::view_ptr) meet(op, 2);
      if (op.code == OpCode::slice) argument_of_[op.results[0]] = argument_of_[op.operands[0]];
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
  // Views are arguments or slices of them: control flow does not carry them.
  void meet(const Op& op, int64_t elements) {
    int64_t& most = elements_[static_cast<size_t>(argument_of_[op.operands[0]])];
    most = std::max(most, elements);
  }
  int64_t neighbours_of(const Op& op) const {
    const auto& shape = std::get<program::Shape>(*op.find(program::AttrKey::tile_shape));
    const std::vector<int64_t>& strides = program_.values[op.operands[0]].strides;
    if (!shape.empty() && shape.back() <= 1 && strides.back() == 1) return 1;  // 1, or squeezed
    int64_t elements = 1;
    for (int64_t size : shape) elements *= std::max<int64_t>(size, 1);
    return elements;
  }

  const program::Program& program_;
  std::vector<int> argument_of_;  // by value
  std::vector<int64_t> elements_;
};

// By argument: whether tiles that are read through it become a factor of a product, as they are or after arithmetic.
class Factors {
 public:
  explicit Factors(const program::Program& program)
      : program_(program), defined_by_(program.values.size()), is_factor_(program.values.size()) {
    collect(program.body);
    for (const Op* dot : dots_)
      for (size_t factor : {0, 1}) trace(dot->operands[factor]);
    for (const program::Argument& argument : program.arguments) of_argument_.push_back(is_factor_[argument.value]);
  }
  bool of(size_t argument) const { return of_argument_[argument]; }

 private:
  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      for (const program::ValueId result : op.results) defined_by_[result] = &op;
      if (op.code == OpCode::dot) dots_.push_back(&op);
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
  // Not through what control flow carries.
  void trace(program::ValueId value) {
    if (is_factor_[value]) return;
    is_factor_[value] = true;
    const Op* const op = defined_by_[value];
    if (!op || !op->regions.empty() || op->code == OpCode::dot) return;
    // The other operands of a load are places, those of a slice numbers.
    const bool reads = op->find(program::AttrKey::tile_shape) != nullptr || op->code == OpCode::slice;
    for (size_t i = 0; i < (reads ? 1 : op->operands.size()); ++i)
      if (reads || program_.values[op->operands[i]].kind == program::TypeKind::tile) trace(op->operands[i]);
  }

  const program::Program& program_;
  std::vector<const Op*> dots_, defined_by_;
  std::vector<bool> is_factor_, of_argument_;
};

// Labels and indices: nearly always contiguous, and what little they take of a kernel's time is less then.
bool is_list_of_integers(const program::Type& type) {
  return type.shape.size() == 1 && is_integer(type.dtype) && type.strides[0] == program::kDynamic;
}

// Whether a stride says what the facts do. None is stepped along a single element.
bool has_stride(const program::SizeFact& fact, int64_t stride, int64_t size) {
  return fact.exact < 0 || stride == fact.exact || size <= 1;
}

bool is_multiple(uint64_t value, int64_t divisor) {
  return (value & static_cast<uint64_t>(divisor - 1)) == 0;
}

// Whether the program multiplies tiles that are read through some of its arguments, and moves others in tiles too.
bool has_variant_of_factors(const program::Program& program) {
  const LargestTiles tiles(program);
  const Factors factors(program);
  bool some = false, others = false;
  for (size_t i = 0; i < program.arguments.size(); ++i)
    if (program.values[program.arguments[i].value].kind == program::TypeKind::view && tiles.of(i) > 1)
      (factors.of(i) ? some : others) = true;
  return some && others;
}

}  // namespace

std::vector<program::ArgFacts> argument_facts(const program::Program& program, Variant variant) {
  const LargestTiles tiles(program);
  const Factors factors(program);
  const auto counted = [&](size_t argument) { return variant == Variant::aligned || factors.of(argument); };
  std::vector<program::ArgFacts> all(program.arguments.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const program::Type& type = program.values[program.arguments[i].value];
    if (type.kind != program::TypeKind::view) continue;
    program::ArgFacts& facts = all[i];
    const size_t rank = type.shape.size();
    facts.dims.resize(rank);
    facts.strides.resize(rank);
    // Any other last stride that the program leaves open says nothing about neighbours in memory.
    const bool listed = variant == Variant::aligned && is_list_of_integers(type);
    const bool neighbours = rank > 0 && (type.strides[rank - 1] == 1 || listed);
    if (neighbours) facts.strides[rank - 1].exact = 1;
    if (variant == Variant::any || tiles.of(i) == 1 || !counted(i)) continue;
    const int64_t vector = kVector / size_of(type.dtype);
    facts.pointer_align = kVector;
    for (size_t dim = 0; dim + 1 < rank; ++dim)
      if (type.strides[dim] == program::kDynamic) facts.strides[dim].divisor = vector;
    if (neighbours && type.shape[rank - 1] == program::kDynamic && tiles.of(i) == tiles.of_all())
      facts.dims[rank - 1].divisor = vector;
  }
  return all;
}

std::vector<Variant> variants_of(const program::Program& program) {
  if (has_variant_of_factors(program)) return {Variant::aligned, Variant::factors, Variant::any};
  return {Variant::aligned, Variant::any};
}

const char* name_of(Variant variant) {
  return variant == Variant::aligned ? "aligned" : variant == Variant::factors ? "factors" : "generic";
}

bool is_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims, const int64_t* strides) {
  bool aligned = is_multiple(reinterpret_cast<uintptr_t>(data), facts.pointer_align);
  for (size_t i = 0; i < facts.dims.size(); ++i)
    if (facts.dims[i].exact < 0)
      aligned = aligned && is_multiple(static_cast<uint64_t>(dims[i]), facts.dims[i].divisor);
  for (size_t i = 0; i < facts.strides.size(); ++i)
    aligned = aligned && has_stride(facts.strides[i], strides[i], dims[i]) &&
              is_multiple(static_cast<uint64_t>(strides[i]), facts.strides[i].divisor);
  return aligned;
}

std::string why_not_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                            const int64_t* strides) {
  if (!is_multiple(reinterpret_cast<uintptr_t>(data), facts.pointer_align))
    return "its address is no multiple of " + std::to_string(facts.pointer_align) + " bytes";
  const auto differs = [](const char* what, size_t axis, int64_t is, int64_t divisor) {
    return std::string("its ") + what + " " + std::to_string(axis) + " is " + std::to_string(is) + ", no multiple of " +
           std::to_string(divisor);
  };
  for (size_t i = 0; i < facts.dims.size(); ++i)
    if (facts.dims[i].exact < 0 && !is_multiple(static_cast<uint64_t>(dims[i]), facts.dims[i].divisor))
      return differs("size", i, dims[i], facts.dims[i].divisor);
  for (size_t i = 0; i < facts.strides.size(); ++i) {
    if (!has_stride(facts.strides[i], strides[i], dims[i]))
      return "its stride is " + std::to_string(strides[i]) + ", not " + std::to_string(facts.strides[i].exact);
    if (!is_multiple(static_cast<uint64_t>(strides[i]), facts.strides[i].divisor))
      return differs("stride", i, strides[i], facts.strides[i].divisor);
  }
  return "";
}

}  // namespace ligerdsl::kernels
