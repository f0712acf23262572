// Ops that change type or shape: cast, splat, broadcast, expand_dims, reshape, permute.
#include <algorithm>

#include "recorder.h"

namespace ligerdsl {
namespace detail {

Handle cast(const Handle& x, DType dtype, Loc loc) {
  Recorder& recorder = recorder_of(x, "to", loc);
  recorder.require_live(x, "to", loc);
  if (x.dtype == dtype) return x;
  if (!program::canCast(x.dtype, dtype)) {
    fail(loc, "to",
         std::string("cannot convert ") + name(x.dtype) + " to " + name(dtype) +
             ": fp8 converts only from and to f16, bf16 and f32; write .to(f32).to(" + name(dtype) +
             ")");
  }
  Type type = recorder.type(x);
  type.dtype = dtype;
  return recorder.emit_one(OpCode::cast, {x}, type, {}, loc);
}

Handle splat(const Handle& x, const Shape& shape, const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(x, op, loc);
  require_tile_shape(shape, op, loc);
  Type type = recorder.type(x);
  type.kind = type.kind == TypeKind::ptr ? TypeKind::ptr_tile : TypeKind::tile;
  type.shape = shape;
  return recorder.emit_one(OpCode::splat, {x}, type, {}, loc);
}

Handle broadcast(const Handle& x, const Shape& shape, const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(x, op, loc);
  if (x.shape == shape) return x;
  if (x.shape.size() != shape.size()) {
    fail(loc, op,
         "cannot broadcast " + to_string(x.shape) + " to " + to_string(shape) +
             ": expected equal ranks; use .expand_dims(axis) first");
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (x.shape[i] != shape[i] && x.shape[i] != 1) {
      fail(loc, op,
           "cannot broadcast " + to_string(x.shape) + " to " + to_string(shape) + ": dimension " +
               std::to_string(i) + " is " + std::to_string(x.shape[i]) + ", expected 1 or " +
               std::to_string(shape[i]));
    }
  }
  require_tile_shape(shape, op, loc);
  Type type = recorder.type(x);
  type.shape = shape;
  return recorder.emit_one(OpCode::broadcast, {x}, type, {}, loc);
}

Handle reshape(const Handle& x, const Shape& shape, const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(x, op, loc);
  if (x.shape == shape) return x;
  require_tile_shape(shape, op, loc);
  if (program::tileElements(shape) != program::tileElements(x.shape)) {
    fail(loc, op,
         "cannot reshape " + to_string(x.shape) + " to " + to_string(shape) + ": expected " +
             std::to_string(program::tileElements(x.shape)) + " elements, got " +
             std::to_string(program::tileElements(shape)));
  }
  Type type = recorder.type(x);
  type.shape = shape;
  return recorder.emit_one(OpCode::reshape, {x}, type, {}, loc);
}

}  // namespace detail

using detail::fail;
using detail::OpCode;
using detail::Recorder;
using detail::recorder_of;

Scalar Scalar::to(DType dtype, Loc loc) const {
  return Scalar(detail::cast(handle_, dtype, loc));
}
Tile Tile::to(DType dtype, Loc loc) const {
  return Tile(detail::cast(handle_, dtype, loc));
}

Tile Scalar::broadcast_to(const Shape& shape, Loc loc) const {
  return Tile(detail::splat(handle_, shape, "broadcast_to", loc));
}
Tile Tile::broadcast_to(const Shape& shape, Loc loc) const {
  return Tile(detail::broadcast(handle_, shape, "broadcast_to", loc));
}
Tile Tile::reshape(const Shape& shape, Loc loc) const {
  return Tile(detail::reshape(handle_, shape, "reshape", loc));
}

Tile Tile::expand_dims(int axis, Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "expand_dims", loc);
  const int at = detail::normal_axis(axis, rank() + 1, "expand_dims", loc);
  detail::Type type = recorder.type(handle_);
  type.shape.insert(type.shape.begin() + at, 1);
  return Tile(recorder.emit_one(OpCode::expand_dims, {handle_}, type,
                                {{detail::AttrKey::axis, int64_t{at}}}, loc));
}

Tile Tile::permute(const std::vector<int>& order, Loc loc) const {
  Recorder& recorder = recorder_of(handle_, "permute", loc);
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool valid = static_cast<int>(order.size()) == rank();
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int>(i);
  const std::vector<int64_t> wide(order.begin(), order.end());
  if (!valid) {
    fail(loc, "permute",
         "expected each dimension from 0 to " + std::to_string(rank() - 1) + " once, got " +
             detail::to_string(wide));
  }
  detail::Type type = recorder.type(handle_);
  for (size_t i = 0; i < order.size(); ++i) type.shape[i] = handle_.shape[order[i]];
  return Tile(recorder.emit_one(OpCode::permute, {handle_}, type,
                                {{detail::AttrKey::permutation, wide}}, loc));
}

int64_t Tile::size() const {
  return program::tileElements(shape());
}

}  // namespace ligerdsl
