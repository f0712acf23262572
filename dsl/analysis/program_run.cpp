#include "analysis/program_run.h"

#include <cstring>

namespace ligerdsl::analysis {

using program::AttrKey;
using program::Op;
using program::OpCode;
using program::Shape;
using program::Type;
using program::TypeKind;
using program::ValueId;

namespace {
constexpr double kVectorBytes = 16;
constexpr double kInstructionsPerVector = 2;  // a load or store, and its address
}  // namespace

void ProgramRun::bind(const uint64_t* slots) {
  int argument = 0;
  for (const program::Argument& one : program_.arguments) {
    const Type& type = this->type(one.value);
    Value& value = values_[one.value];
    if (type.kind == TypeKind::view) {
      ViewValue& view = views_[one.value];
      for (size_t d = 0; d < std::min(type.shape.size(), kMaxRank); ++d) {
        view.dims[d] = static_cast<int64_t>(slots[1 + d]);
        view.strides[d] = static_cast<int64_t>(slots[1 + type.shape.size() + d]);
        view.known[d] = true;
      }
      value.argument = argument;
    } else if (type.kind == TypeKind::ptr) {
      value = integer_value(0);
      value.argument = argument;
    } else if (type.dtype == DType::f32) {
      float number = 0;
      std::memcpy(&number, slots, sizeof number);
      value = real_value(number);
    } else if (is_integer(type.dtype)) {
      const auto bits = static_cast<int64_t>(slots[0]);
      const int unused = 64 - static_cast<int>(8 * size_of(type.dtype));
      value = integer_value(type.dtype == DType::i1 ? bits & 1 : bits << unused >> unused);
    }
    slots += program::slotCount(type);
    ++argument;
  }
}

double ProgramRun::view_bytes(size_t argument) const {
  const ValueId id = program_.arguments[argument].value;
  const Type& type = this->type(id);
  if (type.kind == TypeKind::view) {
    double bytes = static_cast<double>(size_of(type.dtype));
    for (size_t d = 0; d < std::min(type.shape.size(), kMaxRank); ++d)
      if (views_[id].strides[d] != 0 || views_[id].dims[d] == 0)
        bytes *= static_cast<double>(views_[id].dims[d]);
    return bytes;
  }
  return lowest_[argument] <= highest_[argument]
             ? static_cast<double>(highest_[argument] - lowest_[argument])
             : 0;
}

const std::vector<ValueId>& ProgramRun::run_block(const PreparedBlock& block) {
  static const auto& kNone = *new std::vector<ValueId>;
  Row& row = *row_;
  row[kLanes] += block.cost.lanes;
  row[kFunctions] += block.cost.functions;
  row[kScalars] += block.scalars;
  row[kReductions] += block.reductions;
  for (int dot : block.dots) {
    const auto at = static_cast<size_t>(dot);
    const double count = prepared_.dots[at].multiply_adds();
    row[kMultiplyAdds] += count;
    row[width_ - prepared_.dots.size() + at] += count;
  }
  for (const PreparedOp& one : block.ops) run_op(one);
  return block.yield ? block.yield->operands : kNone;
}

void ProgramRun::run_op(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  switch (prepared.family) {
    case program::Family::creation:
      return creation(op);
    case program::Family::shape:
      values_[op.results[0]] = op.code == OpCode::shuffle_xor || op.code == OpCode::gather
                                   ? Value{}
                                   : evaluate_shape(op, values_[op.operands[0]],
                                                    type(op.operands[0]), type(op.results[0]));
      values_[op.results[0]].argument = values_[op.operands[0]].argument;
      return;
    case program::Family::elementwise:
    case program::Family::arithmetic:
    case program::Family::integer:
    case program::Family::sign:
      return evaluate(op);
    case program::Family::memory:
      return memory(prepared);
    case program::Family::atomic:
      return pointer_access(prepared);
    case program::Family::control:
      return control(prepared);
    case program::Family::hint:
      if (op.code == OpCode::assume_divisible) copy(op.operands, 0, op.results, 0);
      return;
    case program::Family::math:  // unknown
    case program::Family::reduction:
    case program::Family::contraction:
      return;
  }
}

void ProgramRun::creation(const Op& op) {
  const ValueId result = op.results[0];
  Value& value = values_[result];
  const auto axis = static_cast<size_t>(op.integer(AttrKey::axis));
  switch (static_cast<program::CreationOp>(op.code)) {
    case program::CreationOp::program_id:
      value = integer_value(id_[axis]);
      return;
    case program::CreationOp::num_programs:
      value = integer_value(grid_[axis]);
      return;
    case program::CreationOp::constant:
      if (is_float(type(result).dtype))
        value = real_value(op.number(AttrKey::value_float));
      else if (type(result).dtype == DType::i1 && !type(result).shape.empty())
        value = uniform_mask(op.integer(AttrKey::value_int) != 0, type(result).shape);
      else
        value = integer_value(op.integer(AttrKey::value_int));
      return;
    case program::CreationOp::arange:
      value = integer_value(0);
      value.step[0] = 1;
      return;
    case program::CreationOp::dim: {
      const ViewValue& view = views_[op.operands[0]];
      value = axis < kMaxRank && view.known[axis] ? integer_value(view.dims[axis]) : Value{};
      return;
    }
    case program::CreationOp::stride:
      value = axis < kMaxRank ? integer_value(views_[op.operands[0]].strides[axis]) : Value{};
      return;
    case program::CreationOp::alignment_offset:  // assumes an aligned row
      value = integer_value(0);
      return;
    case program::CreationOp::max_alignment_offset:
      value = integer_value(
          static_cast<int64_t>(kVectorBytes) / size_of(type(op.operands[0]).dtype) - 1);
      return;
  }
}

void ProgramRun::evaluate(const Op& op) {
  std::array<const Value*, 3> operands{};
  for (size_t i = 0; i < std::min<size_t>(op.operands.size(), 3); ++i)
    operands[i] = &values_[op.operands[i]];
  const Type& operand = type(op.operands[op.code == OpCode::select ? 1 : 0]);
  values_[op.results[0]] = evaluate_elementwise(op, operands.data(), operand, type(op.results[0]));
}

void ProgramRun::memory(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  switch (static_cast<program::MemoryOp>(op.code)) {
    case program::MemoryOp::load_tile:
    case program::MemoryOp::store_tile:
    case program::MemoryOp::add_tile:
      return tile_access(prepared);
    case program::MemoryOp::load:
    case program::MemoryOp::store:
      return pointer_access(prepared);
    case program::MemoryOp::view_ptr:
      values_[op.results[0]] = integer_value(0);
      values_[op.results[0]].argument = values_[op.operands[0]].argument;
      return;
    case program::MemoryOp::slice:
      return slice(op);
    case program::MemoryOp::addptr: {
      const Value &base = values_[op.operands[0]], &offset = values_[op.operands[1]];
      const auto bytes = static_cast<int64_t>(prepared.element_bytes);
      Value sum;
      if (base.is_integer() && offset.is_integer()) {
        sum = base;
        sum.base += offset.base * bytes;
        for (size_t d = 0; d < kMaxRank; ++d) sum.step[d] += offset.step[d] * bytes;
      }
      sum.argument = base.argument;
      values_[op.results[0]] = sum;
      return;
    }
  }
}

void ProgramRun::slice(const Op& op) {
  ViewValue view = views_[op.operands[0]];
  const auto axis = static_cast<size_t>(op.integer(AttrKey::axis));
  const int64_t step = op.integer(AttrKey::step, 1);
  const Value &begin = values_[op.operands[1]], &end = values_[op.operands[2]];
  if (axis < kMaxRank) {
    view.known[axis] = view.known[axis] && begin.is_integer() && end.is_integer();
    if (view.known[axis]) {
      const int64_t from = std::clamp<int64_t>(begin.base, 0, view.dims[axis]);
      const int64_t size = std::clamp<int64_t>(end.base, from, view.dims[axis]) - from;
      view.dims[axis] = (size + step - 1) / step;
    }
    view.strides[axis] *= step;
  }
  views_[op.results[0]] = view;
  values_[op.results[0]] = {};
  values_[op.results[0]].argument = values_[op.operands[0]].argument;
}

void ProgramRun::tile_access(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  const ViewValue& view = views_[op.operands[0]];
  const auto& shape = std::get<Shape>(*op.find(AttrKey::tile_shape));
  double elements = 1;
  bool guessed = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t extent = std::max<int64_t>(shape[d], 1);
    const Value& index = values_[op.operands[1 + d]];
    int64_t inside = extent;
    if (d < kMaxRank && view.known[d] && index.is_integer()) {
      const int64_t start = index.base * extent;
      inside = std::clamp<int64_t>(
          std::min(start + extent, view.dims[d]) - std::max<int64_t>(start, 0), 0, extent);
    } else {
      guessed = true;
      if (d < kMaxRank && view.known[d]) inside = std::min(extent, view.dims[d]);
    }
    elements *= static_cast<double>(inside);
  }
  if (guessed) unknown_index(prepared);
  add_traffic(prepared, values_[op.operands[0]].argument, elements);
}

void ProgramRun::pointer_access(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  const bool is_load = op.code == OpCode::load;
  const Value& pointer = values_[op.operands[0]];
  const Shape& shape = type(op.operands[0]).shape;
  double elements = prepared.elements;
  if (op.integer(AttrKey::has_mask)) {
    const ValueId mask = is_load ? op.operands[1] : op.operands.back();
    if (const auto inside = true_elements(values_[mask], shape))
      elements = static_cast<double>(*inside);
    else
      (*row_)[kMasks] += 1;
  }
  if (!pointer.is_integer()) unknown_index(prepared);
  if (pointer.is_integer() && pointer.argument >= 0 && elements > 0) {
    int64_t low = pointer.base, high = pointer.base + static_cast<int64_t>(prepared.element_bytes);
    double distinct = 1;  // number of distinct addresses
    for (size_t d = 0; d < std::min(shape.size(), kMaxRank); ++d) {
      const int64_t reach = pointer.step[d] * (shape[d] - 1);
      (reach < 0 ? low : high) += reach;
      if (pointer.step[d] != 0) distinct *= static_cast<double>(shape[d]);
    }
    elements = std::min(elements, distinct);
    const auto argument = static_cast<size_t>(pointer.argument);
    lowest_[argument] = std::min(lowest_[argument], low);
    highest_[argument] = std::max(highest_[argument], high);
  }
  add_traffic(prepared, pointer.argument, elements);
}

void ProgramRun::add_traffic(const PreparedOp& prepared, int argument, double elements) {
  const program::Effect effect = program::info(prepared.op->code).effect;
  const double bytes = elements * prepared.element_bytes;
  Row& row = *row_;
  // Elements that the mask excludes cost instructions too.
  row[kLanes] += prepared.elements * prepared.element_bytes / kVectorBytes * kInstructionsPerVector;
  row[kBytes] += bytes;
  if (argument < 0) return;
  const auto at = static_cast<size_t>(argument);
  if (program::reads(effect)) {
    row[traffic_field(at, kLoaded)] += bytes;
    if (prepared.feeds_dot) row[traffic_field(at, kToDots)] += bytes;
    if (prepared.repeats) row[traffic_field(at, kResident)] += bytes;
  }
  if (program::writes(effect)) row[traffic_field(at, kStored)] += bytes;
}

}  // namespace ligerdsl::analysis
