// Reductions and scans.
#include "ligerdsl/dsl/reduce.h"

#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {
namespace detail {
namespace {

using program::ReductionKind;

// Operands of a reduction or scan: checked tiles of one shape and a non-negative axis.
struct Operands {
  Recorder* recorder;
  std::vector<Handle> tiles;
  int axis;
  bool to_scalars;
};

Operands prepare(std::vector<Handle> tiles, int axis, const std::string& op, Loc loc) {
  Recorder& recorder = recorder_of(tiles[0], op, loc);
  for (const Handle& tile : tiles) {
    recorder.require_live(tile, op, loc);
    if (tile.shape != tiles[0].shape) {
      fail(loc, op,
           "expected tiles of the same shape, got " + to_string(tiles[0].shape) + " and " +
               to_string(tile.shape));
    }
  }
  if (axis != kAllAxes) {
    const int rank = static_cast<int>(tiles[0].shape.size());
    return {&recorder, std::move(tiles), normal_axis(axis, rank, op, loc), false};
  }
  if (tiles[0].shape.size() > 1) {
    const Shape flat{program::tileElements(tiles[0].shape)};
    for (Handle& tile : tiles) tile = reshape(tile, flat, op, loc);
  }
  return {&recorder, std::move(tiles), 0, true};
}

std::vector<Type> reduced_types(const Operands& in, const std::string& op, Loc loc) {
  std::vector<Type> types;
  for (const Handle& tile : in.tiles) {
    Shape shape = tile.shape;
    shape.erase(shape.begin() + in.axis);
    if (in.to_scalars) {
      types.push_back(scalar_type(tile.dtype));
    } else if (shape.empty()) {
      fail(loc, op, "a tile of rank 1 reduces to a scalar; omit the axis");
    } else {
      types.push_back(tile_type(tile.dtype, shape));
    }
  }
  return types;
}

program::Region combiner_region(const Operands& in, const RegionBody& combiner,
                                const std::string& op, Loc loc) {
  std::vector<Type> scalars;
  for (int copy = 0; copy < 2; ++copy) {
    for (const Handle& tile : in.tiles) scalars.push_back(scalar_type(tile.dtype));
  }
  const auto check = [&](const std::vector<Handle>& yielded) {
    for (size_t i = 0; i < in.tiles.size(); ++i) {
      const Type& got = in.recorder->type(yielded[i]);
      if (got != scalars[i]) {
        fail(loc, op,
             "expected " + to_string(scalars[i]) + " as the combiner's value " + std::to_string(i) +
                 ", got " + to_string(got));
      }
    }
  };
  if (in.recorder->in_combiner)
    fail(loc, op, "a combiner cannot contain a reduction or scan; compute it before the outer one");
  in.recorder->in_combiner = true;
  const struct End {
    Recorder& recorder;
    ~End() { recorder.in_combiner = false; }
  } end{*in.recorder};
  return in.recorder->region(scalars, combiner, check, loc);
}

void require_numbers(const Tile& x, const std::string& op, Loc loc) {
  if (program::accepts(program::Dtypes::numbers, x.dtype())) return;
  fail(loc, op,
       std::string("got an ") + name(x.dtype()) + " tile, expected numbers; convert with .to(" +
           (x.dtype() == i1 ? "i32)" : "f32)"));
}

Handle simple_reduce(const Tile& x, int axis, ReductionKind kind, const std::string& op, Loc loc) {
  const Operands in = prepare({x.handle()}, axis, op, loc);
  require_numbers(x, op, loc);
  const auto types = reduced_types(in, op, loc);
  Attrs attrs{{AttrKey::axis, int64_t{in.axis}}, {AttrKey::reduction, static_cast<int64_t>(kind)}};
  return in.recorder->emit_one(OpCode::reduce, in.tiles, types[0], std::move(attrs), loc);
}

}  // namespace

Tile positions(Recorder& recorder, const Shape& shape, int axis, const std::string& op, Loc loc) {
  const bool all = axis == kAllAxes;
  const int64_t extent = all ? program::tileElements(shape) : shape[axis];
  require_tile_shape({extent}, op, loc);
  Tile index(recorder.emit_one(OpCode::arange, {}, tile_type(i32, {extent}), {}, loc));
  if (all) return index.reshape(shape, loc);
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    if (dim != axis) index = index.expand_dims(dim, loc);
  }
  return index.broadcast_to(shape, loc);
}

namespace {

Tile positions(const Tile& x, int axis, const std::string& op, Loc loc) {
  return positions(*x.handle().recorder, x.shape(),
                   axis == kAllAxes ? axis : normal_axis(axis, x.rank(), op, loc), op, loc);
}

// Returns (value, index) of the extreme element; the lowest index wins ties.
std::vector<Handle> extreme(const Tile& x, int axis, bool largest, const std::string& op, Loc loc) {
  recorder_of(x.handle(), op, loc).require_live(x.handle(), op, loc);
  require_numbers(x, op, loc);
  const Tile index = positions(x, axis, op, loc);
  const RegionBody combine = [&](const std::vector<Handle>& in) {
    const At<Scalar> va(Scalar(in[0]), loc), vb(Scalar(in[2]), loc);
    const At<Scalar> ia(Scalar(in[1]), loc), ib(Scalar(in[3]), loc);
    const Scalar better = largest ? va > vb : va < vb;
    const Scalar tie = va == vb;
    const Scalar lower = ia < ib;
    const Scalar tie_and_lower = At<Scalar>(tie, loc) & At<Scalar>(lower, loc);
    const Scalar first = At<Scalar>(better, loc) | At<Scalar>(tie_and_lower, loc);
    const Scalar value = where(first, Scalar(in[0]), Scalar(in[2]), loc);
    const Scalar position = where(first, Scalar(in[1]), Scalar(in[3]), loc);
    return std::vector<Handle>{value.handle(), position.handle()};
  };
  return custom_reduce({x.handle(), index.handle()}, axis, combine, loc);
}

template <class T>
Carry<T, T> pair(const std::vector<Handle>& values) {
  return {T(values[0]), T(values[1])};
}

}  // namespace

Tile widened_to_add(const Tile& x, Loc loc) {
  return x.dtype() == f16 || x.dtype() == bf16 ? x.to(f32, loc) : x;
}

std::vector<Handle> custom_reduce(std::vector<Handle> tiles, int axis, const RegionBody& combiner,
                                  Loc loc) {
  const Operands in = prepare(std::move(tiles), axis, "reduce", loc);
  const auto types = reduced_types(in, "reduce", loc);
  std::vector<program::Region> regions;
  regions.push_back(combiner_region(in, combiner, "reduce", loc));
  Attrs attrs{{AttrKey::axis, int64_t{in.axis}},
              {AttrKey::reduction, static_cast<int64_t>(ReductionKind::custom)}};
  return in.recorder->emit(OpCode::reduce, in.tiles, types, std::move(attrs), loc,
                           std::move(regions));
}

std::vector<Handle> custom_scan(std::vector<Handle> tiles, int axis, bool reverse,
                                const RegionBody& combiner, Loc loc) {
  const Operands in = prepare(std::move(tiles), axis, "scan", loc);
  std::vector<Type> types;
  for (const Handle& tile : in.tiles) types.push_back(in.recorder->type(tile));
  std::vector<program::Region> regions;
  regions.push_back(combiner_region(in, combiner, "scan", loc));
  Attrs attrs{{AttrKey::axis, int64_t{in.axis}},
              {AttrKey::reduction, static_cast<int64_t>(ReductionKind::custom)},
              {AttrKey::reverse, int64_t{reverse}}};
  return in.recorder->emit(OpCode::scan, in.tiles, types, std::move(attrs), loc,
                           std::move(regions));
}

}  // namespace detail

using detail::kAllAxes;
using program::ReductionKind;

Scalar sum(const Tile& x, Loc loc) {
  const Tile wide = detail::widened_to_add(x, loc);
  return Scalar(detail::simple_reduce(wide, kAllAxes, ReductionKind::sum, "sum", loc))
      .to(x.dtype(), loc);
}
Tile sum(const Tile& x, int axis, Loc loc) {
  const Tile wide = detail::widened_to_add(x, loc);
  return Tile(detail::simple_reduce(wide, axis, ReductionKind::sum, "sum", loc)).to(x.dtype(), loc);
}
Scalar reduce_max(const Tile& x, Loc loc) {
  return Scalar(detail::simple_reduce(x, kAllAxes, ReductionKind::max, "reduce_max", loc));
}
Tile reduce_max(const Tile& x, int axis, Loc loc) {
  return Tile(detail::simple_reduce(x, axis, ReductionKind::max, "reduce_max", loc));
}
Scalar reduce_min(const Tile& x, Loc loc) {
  return Scalar(detail::simple_reduce(x, kAllAxes, ReductionKind::min, "reduce_min", loc));
}
Tile reduce_min(const Tile& x, int axis, Loc loc) {
  return Tile(detail::simple_reduce(x, axis, ReductionKind::min, "reduce_min", loc));
}

Carry<Scalar, Scalar> max_with_index(const Tile& x, Loc loc) {
  return detail::pair<Scalar>(detail::extreme(x, kAllAxes, true, "max_with_index", loc));
}
Carry<Tile, Tile> max_with_index(const Tile& x, int axis, Loc loc) {
  return detail::pair<Tile>(detail::extreme(x, axis, true, "max_with_index", loc));
}
Carry<Scalar, Scalar> min_with_index(const Tile& x, Loc loc) {
  return detail::pair<Scalar>(detail::extreme(x, kAllAxes, false, "min_with_index", loc));
}
Carry<Tile, Tile> min_with_index(const Tile& x, int axis, Loc loc) {
  return detail::pair<Tile>(detail::extreme(x, axis, false, "min_with_index", loc));
}

Scalar argmax(const Tile& x, Loc loc) {
  return Scalar(detail::extreme(x, kAllAxes, true, "argmax", loc)[1]);
}
Tile argmax(const Tile& x, int axis, Loc loc) {
  return Tile(detail::extreme(x, axis, true, "argmax", loc)[1]);
}
Scalar argmin(const Tile& x, Loc loc) {
  return Scalar(detail::extreme(x, kAllAxes, false, "argmin", loc)[1]);
}
Tile argmin(const Tile& x, int axis, Loc loc) {
  return Tile(detail::extreme(x, axis, false, "argmin", loc)[1]);
}

Tile cumsum(const Tile& x, int axis, bool reverse, Loc loc) {
  detail::Recorder& recorder = detail::recorder_of(x.handle(), "cumsum", loc);
  detail::require_numbers(x, "cumsum", loc);
  const int at = detail::normal_axis(axis, x.rank(), "cumsum", loc);
  detail::Attrs attrs{{detail::AttrKey::axis, int64_t{at}},
                      {detail::AttrKey::reduction, static_cast<int64_t>(ReductionKind::sum)},
                      {detail::AttrKey::reverse, int64_t{reverse}}};
  const Tile wide = detail::widened_to_add(x, loc);
  const detail::Type type = recorder.type(wide.handle());
  return Tile(recorder.emit_one(detail::OpCode::scan, {wide.handle()}, type, std::move(attrs), loc))
      .to(x.dtype(), loc);
}

}  // namespace ligerdsl
