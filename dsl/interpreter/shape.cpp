// Creation and shape ops.
#include <algorithm>

#include "interpreter/convert.h"
#include "interpreter/machine.h"

namespace ligerdsl::interpreter {

using program::AttrKey;
using program::CreationOp;
using program::ShapeOp;

void Machine::creation(const Op& op, CreationOp code) {
  Data& out = result(op);
  const Type& t = type(op.results[0]);
  const int64_t axis = op.integer(AttrKey::axis);
  switch (code) {
    case CreationOp::program_id:
      out.integer[0] = id_[axis];
      break;
    case CreationOp::num_programs:
      out.integer[0] = grid_[axis];
      break;
    case CreationOp::dim:
      out.integer[0] = views_[op.operands[0]].dims[axis];
      break;
    case CreationOp::stride:
      out.integer[0] = views_[op.operands[0]].strides[axis];
      break;
    case CreationOp::alignment_offset:
      out.integer[0] = alignment_offset(op);
      break;
    case CreationOp::max_alignment_offset:
      out.integer[0] = max_alignment_offset(op);
      break;
    case CreationOp::arange:
      for (size_t i = 0; i < out.integer.size(); ++i) out.integer[i] = static_cast<int64_t>(i);
      break;
    case CreationOp::constant:
      if (is_float(t.dtype)) {
        out.real.assign(out.real.size(), round_to(t.dtype, op.number(AttrKey::value_float)));
      } else {
        out.integer.assign(out.integer.size(), wrap_to(t.dtype, op.integer(AttrKey::value_int)));
      }
  }
}

namespace {

// Returns the number of the source element for each element of `shape`, in row-major order. It is
// the sum of index * stride over the dimensions.
std::vector<int64_t> gather_indices(const Shape& shape, const Shape& strides) {
  std::vector<int64_t> from(program::tileElements(shape));
  Shape index(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t& element : from) {
    element = offset;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
  return from;
}

}  // namespace

void Machine::shape(const Op& op, ShapeOp code) {
  const Type& in = type(op.operands[0]);
  const Type& t = type(op.results[0]);
  Shape strides = row_major(in.shape);
  const int64_t axis = op.integer(AttrKey::axis);
  // Fills `moved`. Element i of the result comes from index `place(i, index of i)` of the axis.
  std::vector<int64_t> moved;
  const auto move = [&](auto place) {
    const int64_t below = strides[axis], size = t.shape[axis];
    for (int64_t i = 0; i < program::tileElements(t.shape); ++i) {
      const int64_t from = place(i, i / below % size);
      moved.push_back((i / below / size * in.shape[axis] + from) * below + i % below);
    }
  };
  switch (code) {
    case ShapeOp::splat:
      strides.assign(t.shape.size(), 0);
      break;
    case ShapeOp::broadcast:
      for (size_t d = 0; d < t.shape.size(); ++d)
        strides[d] = in.shape[d] == t.shape[d] ? strides[d] : 0;
      break;
    case ShapeOp::permute: {
      const auto& order = std::get<std::vector<int64_t>>(*op.find(AttrKey::permutation));
      const Shape before = strides;
      for (size_t d = 0; d < order.size(); ++d) strides[d] = before[order[d]];
      break;
    }
    case ShapeOp::expand_dims:
    case ShapeOp::reshape:
      strides = row_major(t.shape);  // the elements keep their order
      break;
    case ShapeOp::shuffle_xor:
      move([&](int64_t, int64_t at) { return at ^ op.integer(AttrKey::xor_mask); });
      break;
    case ShapeOp::gather: {
      const std::vector<int64_t>& index = data(op.operands[1]).integer;
      const int64_t last = in.shape[axis] - 1;
      move([&](int64_t i, int64_t) { return index[i] < 0 ? last : std::min(index[i], last); });
      break;
    }
  }
  const std::vector<int64_t> from =
      moved.empty() ? gather_indices(t.shape, strides) : std::move(moved);
  Data& out = result(op);
  const Data& source = data(op.operands[0]);
  for (size_t i = 0; i < out.real.size(); ++i) out.real[i] = source.real[from[i]];
  for (size_t i = 0; i < out.integer.size(); ++i) out.integer[i] = source.integer[from[i]];
}

}  // namespace ligerdsl::interpreter
