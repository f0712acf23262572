// Distribution of blocks over lanes. Each recorded op has the caller's source location.
#include "ligerdsl/dsl/lanes.h"

#include <algorithm>

#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "ligerdsl/dsl/tile_shape.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

At<Tile> at(const Tile& x, Loc loc) {
  return At<Tile>(x, loc);
}

Tile times(const Tile& x, int64_t factor, Loc loc) {
  return at(x, loc) * ScalarArg(factor, loc);
}

Tile arange(const Tile& like, int64_t n, Loc loc) {
  detail::Recorder& recorder = detail::recorder_of(like.handle(), "max_with_index", loc);
  return Tile(recorder.emit_one(detail::OpCode::arange, {}, detail::tile_type(i32, {n}), {}, loc));
}

}  // namespace

Shape BlockLanes::shape() const {
  Shape shape{fold, lanes};
  if (run > 1) shape.push_back(run);
  if (ctas > 1) shape.insert(shape.begin(), ctas);
  return shape;
}

Shape BlockLanes::carried() const {
  return ctas == 1 ? Shape{lanes} : Shape{ctas, lanes};
}

Tile BlockLanes::distribute(const Tile& block, Loc loc) const {
  return detail::distribute(*this, block, "distribute", loc);
}

Tile BlockLanes::sum(const Tile& t, Loc loc) const {
  return ligerdsl::sum(run == 1 ? t : ligerdsl::sum(t, run_axis(), loc), fold_axis(), loc);
}

Tile BlockLanes::reduce_max(const Tile& t, Loc loc) const {
  return ligerdsl::reduce_max(run == 1 ? t : ligerdsl::reduce_max(t, run_axis(), loc), fold_axis(),
                              loc);
}

Tile BlockLanes::expand(const Tile& t, Loc loc) const {
  const Tile rows = t.expand_dims(fold_axis(), loc);
  return run == 1 ? rows : rows.expand_dims(run_axis(), loc);
}

// Element r of run f of a lane has position ((f * lanes) + lane) * run + r in its CTA's segment.
Carry<Tile, Tile> BlockLanes::max_with_index(const Tile& t, Loc loc) const {
  Tile lane = arange(t, lanes, loc);
  if (ctas > 1) {
    const Tile begin = times(times(arange(t, ctas, loc), fold, loc), lanes, loc);
    lane = at(begin.expand_dims(1, loc), loc) + at(lane.expand_dims(0, loc), loc);
  }
  const auto first_of = [&](const Tile& f) -> Tile {
    return at(times(f, lanes, loc), loc) + at(lane, loc);
  };
  if (run == 1) {
    const auto [value, f] = ligerdsl::max_with_index(t, fold_axis(), loc);
    return carry(value, first_of(f));
  }
  Tile place = arange(t, fold, loc).expand_dims(1, loc);
  if (ctas > 1) place = place.expand_dims(0, loc);
  const auto [in_run, r] = ligerdsl::max_with_index(t, run_axis(), loc);
  const auto [value, f] = ligerdsl::max_with_index(in_run, fold_axis(), loc);
  const Tile taken = at(place, loc) == at(f.expand_dims(fold_axis(), loc), loc);
  const Tile in_first = where(taken, TileArg(r, loc), TileArg(0, loc), loc);
  const Tile offset = ligerdsl::sum(in_first, fold_axis(), loc);
  return carry(value, Tile(at(times(first_of(f), run, loc), loc) + at(offset, loc)));
}

// On a CPU a block has at most 64 lanes, so that a reduction needs few vector registers at a time.
// The lanes traverse a block in memory order.
BlockLanes block_lanes(const Target& target, DType type, int64_t block, int num_warps, int num_ctas,
                       bool aligned) {
  if (!target.is_gpu()) {
    const int64_t lanes = std::min<int64_t>(block & -block, 64);
    return {.fold = block / lanes, .lanes = lanes};
  }
  const int64_t vector = vector_width(type);
  BlockLanes distributed{.ctas = block % num_ctas == 0 ? num_ctas : 1};
  if (aligned && block % (vector * distributed.ctas) == 0) distributed.run = vector;
  const int64_t runs = block / (distributed.run * distributed.ctas);
  const int64_t threads = int64_t{Target::warp_threads} * num_warps;
  distributed.fold = runs % threads == 0 ? runs / threads : 1;
  distributed.lanes = runs / distributed.fold;
  return distributed;
}

}  // namespace ligerdsl

namespace ligerdsl::detail {

Tile distribute(const BlockLanes& lanes, const Tile& block, const std::string& op, Loc loc) {
  require_operand(block.handle(), program::Dtypes::any, op, loc);
  const Shape shape = lanes.shape();
  if (block.size() != lanes.size()) {
    fail(loc, op,
         "expected a tile of " + std::to_string(lanes.size()) +
             " elements, which these lanes hold as " + to_string(shape) + "; got " +
             std::to_string(block.size()) + " elements");
  }
  return block.reshape(shape, loc);
}

}  // namespace ligerdsl::detail
