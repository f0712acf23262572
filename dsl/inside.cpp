// Partition::inside: the mask of a tile's elements that are inside the view.
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

// Returns 0 <= position < size.
template <class T>
T between(const T& position, const Scalar& size, Loc loc) {
  using Number = std::conditional_t<std::is_same_v<T, Tile>, ScalarArg, NumberArg>;
  using Limit = std::conditional_t<std::is_same_v<T, Tile>, ScalarArg, At<Scalar>>;
  const T above = At<T>(position, loc) >= Number(0, loc),
          below = At<T>(position, loc) < Limit(size, loc);
  return At<T>(above, loc) & At<T>(below, loc);
}

}  // namespace

Tile Partition::inside(const Indices& index, const Scalar& alignment_offset, Loc loc) const {
  detail::Recorder& recorder = detail::recorder_of(view_.handle(), "inside", loc);
  recorder.require_live(view_.handle(), "inside", loc);
  if (index.size() != tile_shape_.size()) {
    detail::fail(loc, "inside",
                 "expected one index per dimension of the partition (" +
                     std::to_string(tile_shape_.size()) + "), got " + std::to_string(index.size()));
  }
  if (!alignment_offset.empty())
    detail::require_alignment_offset(recorder, alignment_offset, tile_shape_, "inside", loc);
  const Shape shape = this->shape();
  const auto rank = static_cast<int>(shape.size()), last = static_cast<int>(index.size()) - 1;
  Tile result(constant(recorder, detail::Number(1), detail::tile_type(i1, shape), "inside", loc));
  for (int axis = 0, dim = 0; axis <= last; ++axis) {
    Scalar first =
        Scalar(index_operand(recorder, index[axis], "inside", index[axis].loc)).to(i64, loc);
    const int64_t block = tile_shape_[axis];
    const Scalar size = view_.dim(axis, loc);
    if (block != squeeze) first = At<Scalar>(first, loc) * NumberArg(block, loc);
    if (axis == last && !alignment_offset.empty())
      first = At<Scalar>(first, loc) - At<Scalar>(alignment_offset, loc);
    if (block == squeeze) {
      result = At<Tile>(result, loc) & ScalarArg(between(first, size, loc), loc);
      continue;
    }
    const Tile counted(
        recorder.emit_one(detail::OpCode::arange, {}, detail::tile_type(i32, {block}), {}, loc));
    const Tile position = At<Tile>(counted.to(i64, loc), loc) + ScalarArg(first, loc);
    Shape broadcast(rank, 1);
    broadcast[dim++] = block;
    result =
        At<Tile>(result, loc) & At<Tile>(between(position, size, loc).reshape(broadcast, loc), loc);
  }
  return result;
}

}  // namespace ligerdsl
