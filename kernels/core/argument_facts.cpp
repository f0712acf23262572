#include "kernels/core/argument_facts.h"

#include <algorithm>
#include <numeric>

#include "program/op_info.h"

namespace ligerdsl::kernels {
namespace {

using program::Op;
using program::OpCode;

constexpr int64_t kVector = 16;  // bytes of the widest access

// Size of the largest tile that the program loads from or stores to each argument.
class LargestTiles {
 public:
  explicit LargestTiles(const program::Program& program)
      : program_(program),
        argument_of_(program.values.size(), kNone),
        elements_(program.arguments.size(), 1),
        bytes_(program.arguments.size()),
        escapes_(program.arguments.size()) {
    for (size_t i = 0; i < elements_.size(); ++i)
      argument_of_[program.arguments[i].value] = static_cast<int>(i);
    collect(program.body);
  }
  // Elements of the argument's largest tile. A column counts as one element, because its elements
  // are not contiguous. An argument whose address is taken counts as two or more.
  int64_t of(size_t argument) const { return elements_[argument]; }
  int64_t of_all() const {
    return elements_.empty() ? 1 : *std::max_element(elements_.begin(), elements_.end());
  }
  // Returns true if the argument's tiles are so small that vector accesses to them save little
  // time.
  bool is_small(size_t argument) const {
    constexpr int64_t kShare = 8;
    return !escapes_[argument] &&
           bytes_[argument] * kShare < *std::max_element(bytes_.begin(), bytes_.end());
  }

 private:
  static constexpr int kNone = -1;

  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      if (op.find(program::AttrKey::tile_shape)) meet(op, contiguous_elements_of(op));
      if (op.code == OpCode::view_ptr) meet(op, 2);
      count_bytes(op);
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
  // Loops and branches carry no views, so every view is an argument or a slice of an argument.
  void meet(const Op& op, int64_t elements) {
    int64_t& most = elements_[static_cast<size_t>(argument_of_[op.operands[0]])];
    most = std::max(most, elements);
  }
  int64_t contiguous_elements_of(const Op& op) const {
    const auto& shape = std::get<program::Shape>(*op.find(program::AttrKey::tile_shape));
    const std::vector<int64_t>& strides = program_.values[op.operands[0]].strides;
    if (!shape.empty() && shape.back() <= 1 && strides.back() == 1) return 1;  // a column
    return elements_of(shape);
  }
  static int64_t elements_of(const program::Shape& shape) {
    int64_t elements = 1;
    for (int64_t size : shape) elements *= std::max<int64_t>(size, 1);
    return elements;
  }

  // Follows slices and pointers from each argument to its loads and stores.
  void count_bytes(const Op& op) {
    switch (op.code) {
      case OpCode::slice:
      case OpCode::view_ptr:
      case OpCode::addptr:
      case OpCode::splat:
      case OpCode::expand_dims:
      case OpCode::broadcast:
      case OpCode::reshape:
      case OpCode::permute:
        argument_of_[op.results[0]] = argument_of_[op.operands[0]];
        return;
      case OpCode::load:
      case OpCode::store:
      case OpCode::atomic_rmw:
      case OpCode::atomic_cas:
        return count_bytes(op.operands[0], program_.values[op.operands[0]].shape);
      case OpCode::dim:
      case OpCode::stride:
      case OpCode::alignment_offset:
      case OpCode::max_alignment_offset:
        return;
      default:
        break;
    }
    if (const auto* shape = op.find(program::AttrKey::tile_shape))
      return count_bytes(op.operands[0], std::get<program::Shape>(*shape));
    for (program::ValueId operand : op.operands)
      if (argument_of_[operand] != kNone)
        escapes_[static_cast<size_t>(argument_of_[operand])] = true;
  }
  void count_bytes(program::ValueId moved, const program::Shape& shape) {
    const int argument = argument_of_[moved];
    if (argument == kNone) return;
    int64_t& most = bytes_[static_cast<size_t>(argument)];
    const DType type =
        program_.values[program_.arguments[static_cast<size_t>(argument)].value].dtype;
    most = std::max(most, elements_of(shape) * size_of(type));
  }

  const program::Program& program_;
  std::vector<int> argument_of_;  // argument of each view, pointer or tile of pointers
  std::vector<int64_t> elements_, bytes_;
  std::vector<bool> escapes_;  // an op that is not followed uses a pointer to the argument
};

// Arguments whose tiles become an operand of a matmul, directly or after arithmetic. A tile that is
// broadcast first, like the statistics of rows, does not count: it is a small part of the operand.
class MatmulOperands {
 public:
  explicit MatmulOperands(const program::Program& program)
      : program_(program), defined_by_(program.values.size()), is_operand_(program.values.size()) {
    collect(program.body);
    for (const Op* dot : dots_)
      for (size_t number : {0, 1}) trace(dot->operands[number]);
    for (const program::Argument& argument : program.arguments)
      of_argument_.push_back(is_operand_[argument.value]);
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
  // Marks the values from which `value` is computed, but does not look into loops and branches.
  void trace(program::ValueId value) {
    if (is_operand_[value]) return;
    is_operand_[value] = true;
    const Op* const op = defined_by_[value];
    if (!op || !op->regions.empty() || op->code == OpCode::dot) return;
    if (op->code == OpCode::broadcast || op->code == OpCode::expand_dims) return;
    // Operand 0 of a load or a slice is followed, but not the other operands: indices and bounds.
    const bool reads =
        op->find(program::AttrKey::tile_shape) != nullptr || op->code == OpCode::slice;
    for (size_t i = 0; i < (reads ? 1 : op->operands.size()); ++i)
      if (reads || program_.values[op->operands[i]].kind == program::TypeKind::tile)
        trace(op->operands[i]);
  }

  const program::Program& program_;
  std::vector<const Op*> dots_, defined_by_;
  std::vector<bool> is_operand_, of_argument_;
};

// Arguments whose rows the program loads or stores with an alignment offset.
class RowsWithOffset {
 public:
  explicit RowsWithOffset(const program::Program& program)
      : program_(program),
        argument_of_(program.values.size(), kNone),
        offset_of_(program.values.size(), kNone),
        moved_(program.arguments.size()) {
    for (size_t i = 0; i < moved_.size(); ++i)
      argument_of_[program.arguments[i].value] = static_cast<int>(i);
    collect(program.body);
  }
  // Returns true if the argument has ragged rows that are accessed with an alignment offset.
  bool of(size_t argument) const { return moved_[argument] && is_ragged(argument); }
  // Returns true if a ragged row's alignment offset is also used to load from another argument.
  bool any_with_other_offset() const { return with_other_offset_; }

 private:
  static constexpr int kNone = -1;

  bool is_ragged(size_t argument) const {
    const program::Type& type = program_.values[program_.arguments[argument].value];
    return type.shape.size() > 1 && type.strides.back() == 1 &&
           type.shape.back() != program::kDynamic &&
           type.shape.back() * size_of(type.dtype) % kVector != 0;
  }
  void collect(const program::Region& region) {
    for (const Op& op : region.ops) {
      if (op.code == OpCode::alignment_offset)
        offset_of_[op.results[0]] = argument_of_[op.operands[0]];
      if (op.integer(program::AttrKey::has_alignment_offset)) meet(op);
      for (const program::Region& inner : op.regions) collect(inner);
    }
  }
  // The offset is the last operand of a load, and the second-to-last of a store.
  void meet(const Op& op) {
    const bool loads = op.code == OpCode::load_tile;
    const int from = offset_of_[op.operands[op.operands.size() - (loads ? 1 : 2)]],
              moved = argument_of_[op.operands[0]];
    if (from == kNone || moved == kNone) return;
    moved_[static_cast<size_t>(from)] = moved_[static_cast<size_t>(moved)] = true;
    with_other_offset_ |= loads && from != moved && is_ragged(static_cast<size_t>(from));
  }

  const program::Program& program_;
  std::vector<int> argument_of_, offset_of_;
  std::vector<bool> moved_;
  bool with_other_offset_ = false;
};

// Returns true for a vector of labels or indices whose stride the program leaves open. Nearly all
// calls pass contiguous vectors, which are faster to load.
bool is_list_of_integers(const program::Type& type) {
  return type.shape.size() == 1 && is_integer(type.dtype) && type.strides[0] == program::kDynamic;
}

// Arguments that gain enough from alignment that a variant may require it.
class Asked {
 public:
  explicit Asked(const program::Program& program) : program_(program), tiles_(program) {}

  bool of(size_t argument) const {
    const program::Type& type = program_.values[program_.arguments[argument].value];
    if (type.kind != program::TypeKind::view || tiles_.of(argument) == 1) return false;
    const bool has_open_rows = type.shape.size() > 1 && type.shape.back() == program::kDynamic;
    return !(has_open_rows || is_list_of_integers(type)) || !tiles_.is_small(argument);
  }
  // Returns true if no argument of the program has larger tiles.
  bool is_largest(size_t argument) const { return tiles_.of(argument) == tiles_.of_all(); }

 private:
  const program::Program& program_;
  LargestTiles tiles_;
};

// Returns true if a stride agrees with its fact. The stride of a dimension of size 1 is never used.
bool has_stride(const program::SizeFact& fact, int64_t stride, int64_t size) {
  return fact.exact < 0 || stride == fact.exact || size <= 1;
}

bool is_multiple(uint64_t value, int64_t divisor) {
  return (value & static_cast<uint64_t>(divisor - 1)) == 0;
}

// Returns true if some arguments that gain from alignment are matmul operands and others are not.
bool has_operands_variant(const program::Program& program) {
  const Asked asked(program);
  const MatmulOperands operands(program);
  bool some = false, others = false;
  for (size_t i = 0; i < program.arguments.size(); ++i)
    if (asked.of(i)) (operands.of(i) ? some : others) = true;
  return some && others;
}

}  // namespace

std::vector<program::ArgFacts> argument_facts(const program::Program& program, Variant variant) {
  const Asked asked(program);
  const MatmulOperands operands(program);
  const RowsWithOffset with_offset(program);
  const bool contiguous_rows = variant == Variant::contiguous,
             all_counted = contiguous_rows || variant == Variant::aligned;
  const auto counted = [&](size_t argument) { return all_counted || operands.of(argument); };
  std::vector<program::ArgFacts> all(program.arguments.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const program::Type& type = program.values[program.arguments[i].value];
    if (type.kind != program::TypeKind::view) continue;
    program::ArgFacts& facts = all[i];
    const size_t rank = type.shape.size();
    facts.dims.resize(rank);
    facts.strides.resize(rank);
    // An open last stride must be 1 only for a vector of integers (labels, indices).
    const bool listed = all_counted && is_list_of_integers(type);
    const bool contiguous = rank > 0 && (type.strides[rank - 1] == 1 || listed);
    if (contiguous) facts.strides[rank - 1].exact = 1;
    if (variant == Variant::any || !asked.of(i) || !counted(i)) continue;
    const int64_t vector = kVector / size_of(type.dtype);
    facts.pointer_align = kVector;
    const bool known_rows = contiguous_rows && contiguous && type.shape[rank - 1] > 0;
    for (size_t dim = 0; dim + 1 < rank; ++dim) {
      if (type.strides[dim] != program::kDynamic) continue;
      if (known_rows && dim + 2 == rank && with_offset.of(i))
        facts.strides[dim].exact = type.shape[rank - 1];
      else
        facts.strides[dim].divisor = known_rows ? std::gcd(vector, type.shape[rank - 1]) : vector;
    }
    if (contiguous && type.shape[rank - 1] == program::kDynamic && asked.is_largest(i))
      facts.dims[rank - 1].divisor = vector;
  }
  return all;
}

std::vector<Variant> variants_of(const program::Program& program) {
  std::vector<Variant> variants;
  if (RowsWithOffset(program).any_with_other_offset()) variants.push_back(Variant::contiguous);
  variants.push_back(Variant::aligned);
  if (has_operands_variant(program)) variants.push_back(Variant::operands);
  variants.push_back(Variant::any);
  return variants;
}

const char* name_of(Variant variant) {
  switch (variant) {
    case Variant::contiguous:
      return "contiguous";
    case Variant::aligned:
      return "aligned";
    case Variant::operands:
      return "operands";
    case Variant::any:
      break;
  }
  return "generic";
}

bool is_aligned(const program::ArgFacts& facts, const void* data, const int64_t* dims,
                const int64_t* strides) {
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
    return "its address is not a multiple of " + std::to_string(facts.pointer_align) + " bytes";
  const auto differs = [](const char* what, size_t axis, int64_t is, int64_t divisor) {
    return std::string("the ") + what + " of dimension " + std::to_string(axis) + " is " +
           std::to_string(is) + ", not a multiple of " + std::to_string(divisor);
  };
  for (size_t i = 0; i < facts.dims.size(); ++i)
    if (facts.dims[i].exact < 0 &&
        !is_multiple(static_cast<uint64_t>(dims[i]), facts.dims[i].divisor))
      return differs("size", i, dims[i], facts.dims[i].divisor);
  for (size_t i = 0; i < facts.strides.size(); ++i) {
    if (!has_stride(facts.strides[i], strides[i], dims[i]))
      return "the stride of dimension " + std::to_string(i) + " is " + std::to_string(strides[i]) +
             ", expected " + std::to_string(facts.strides[i].exact);
    if (!is_multiple(static_cast<uint64_t>(strides[i]), facts.strides[i].divisor))
      return differs("stride", i, strides[i], facts.strides[i].divisor);
  }
  return "";
}

}  // namespace ligerdsl::kernels
