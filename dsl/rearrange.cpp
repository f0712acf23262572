// gather, shuffle_xor and the functions that are composed of them.
#include "ligerdsl/dsl/rearrange.h"

#include <bit>
#include <cstdint>

#include "ligerdsl/dsl/library.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

using detail::AttrKey;
using detail::fail;
using detail::OpCode;
using detail::Recorder;
using detail::recorder_of;

ScalarArg integer(int64_t value, Loc loc) {
  return ScalarArg(value, loc);
}

Recorder& require_operand(const Tile& x, const char* op, Loc loc) {
  return detail::require_operand(x.handle(), program::Dtypes::any, op, loc);
}

// Returns the index of each element along the axis.
Tile positions(const Tile& x, int axis, Loc loc) {
  return detail::positions(*x.handle().recorder, x.shape(), axis, "arange", loc);
}

// Returns a mask of the elements whose index along the axis has at least one of these bits set.
Tile has_bits(const Tile& x, int axis, int64_t bits, Loc loc) {
  const Tile place = positions(x, axis, loc);
  const Tile masked = at(place, loc) & integer(bits, loc);
  return at(masked, loc) != integer(0, loc);
}

// Returns the non-negative axis. Fails unless the tile can be sorted along it.
int power_of_two_axis(const Tile& x, int axis, const char* op, Loc loc) {
  require_operand(x, op, loc);
  if (is_fp8(x.dtype()))
    fail(loc, op,
         std::string("got ") + name(x.dtype()) +
             ", but fp8 has no comparisons; convert it with .to(f32)");
  const int along = detail::normal_axis(axis, x.rank(), op, loc);
  const int64_t size = x.shape()[along];
  if (!std::has_single_bit(static_cast<uint64_t>(size)))
    fail(loc, op,
         "dimension " + std::to_string(along) + " has " + std::to_string(size) +
             " elements, expected a power of two; load a larger block, padded with a value that "
             "sorts last (e.g. INFINITY for an ascending sort)");
  return along;
}

// to_keys converts x to integer keys in the same order, and from_keys converts them back. The bits
// of floats are ordered like integers, except that the order of negative numbers is reversed. A NaN
// becomes the largest key, which converts back to a NaN.
Tile to_keys(const Tile& x, Loc loc) {
  if (!is_float(x.dtype())) return size_of(x.dtype()) < 4 ? x.to(i32, loc) : x;
  const Tile wide = x.to(f32, loc), bits = bitcast(wide, i32, loc);
  const Tile sign = at(bits, loc) >> integer(31, loc);
  const Tile flipped = at(sign, loc) & integer(INT32_MAX, loc);
  const Tile key = at(bits, loc) ^ at(flipped, loc), nan = at(wide, loc) != at(wide, loc);
  return where(nan, TileArg(INT32_MAX, loc), TileArg(key, loc), loc);
}
Tile from_keys(const Tile& key, DType dtype, Loc loc) {
  if (!is_float(dtype)) return key.to(dtype, loc);
  const Tile sign = at(key, loc) >> integer(31, loc);
  const Tile flipped = at(sign, loc) & integer(INT32_MAX, loc);
  const Tile bits = at(key, loc) ^ at(flipped, loc);
  return bitcast(bits, f32, loc).to(dtype, loc);
}

// Sorts bitonic blocks of `size` elements. A block whose indices have the bit `backwards` is sorted
// in reverse order.
Tile merge(Tile x, int axis, int64_t size, int64_t backwards, Loc loc) {
  for (int64_t distance = size / 2; distance > 0; distance /= 2) {
    const Tile other = shuffle_xor(x, distance, axis, loc);
    Tile larger = has_bits(x, axis, distance, loc);
    if (backwards != 0) larger = at(larger, loc) ^ at(has_bits(x, axis, backwards, loc), loc);
    x = where(larger, TileArg(max(x, other, loc), loc), TileArg(min(x, other, loc), loc), loc);
  }
  return x;
}

// Sorts blocks of `size` elements. If there are several, every second block is in reverse order.
Tile sort_blocks(Tile x, int axis, int64_t size, Loc loc) {
  const int64_t whole = x.shape()[axis];
  for (int64_t block = 2; block <= size; block *= 2)
    x = merge(x, axis, block, block < whole ? block : 0, loc);
  return x;
}

// with_indices packs a key (inverted for `descending`) and its index along the axis into one i64,
// so that all values are distinct. without_indices unpacks them.
Tile with_indices(const Tile& keys, int axis, bool descending, Loc loc) {
  const Tile order = descending ? ~at(keys, loc) : keys;
  const Tile upper = at(order.to(i64, loc), loc) << integer(32, loc);
  return at(upper, loc) | at(positions(keys, axis, loc).to(i64, loc), loc);
}
Sorted without_indices(const Tile& x, DType dtype, bool descending, Loc loc) {
  const Tile upper = at(x, loc) >> integer(32, loc), order = upper.to(i32, loc);
  const Tile key = descending ? ~at(order, loc) : order;
  const Tile index = at(x, loc) & integer(INT32_MAX, loc);
  return {from_keys(key, dtype, loc), index.to(i32, loc)};
}

void require_key(const Tile& x, const char* op, Loc loc) {
  if (x.dtype() == i64)
    fail(loc, op,
         "expected elements of at most 32 bits, got i64: an element and its index share one i64; "
         "convert with .to(i32), or use sort(), which returns no indices");
}

// Moves an axis of the tile from one position to another.
Tile move_axis(const Tile& x, int from, int to, Loc loc) {
  if (from == to) return x;
  std::vector<int> order;
  for (int dim = 0; dim < x.rank(); ++dim)
    if (dim != from) order.push_back(dim);
  order.insert(order.begin() + to, from);
  return x.permute(order, loc);
}

}  // namespace

Tile gather(const Tile& x, const Tile& index, int axis, Loc loc) {
  Recorder& recorder = require_operand(x, "gather", loc);
  require_operand(index, "gather", loc);
  const int along = detail::normal_axis(axis, x.rank(), "gather", loc);
  if (index.dtype() != i32 && index.dtype() != i64)
    fail(loc, "gather",
         std::string("expected i32 or i64 indices, got ") + name(index.dtype()) +
             "; convert them with .to(i32)");
  Shape wanted = index.shape();
  if (index.rank() == x.rank()) wanted[along] = x.shape()[along];
  if (wanted != x.shape())
    fail(loc, "gather",
         "the indices have shape " + detail::to_string(index.shape()) + ", expected " +
             detail::to_string(x.shape()) + " with any size of dimension " + std::to_string(along) +
             "; use .broadcast_to(shape)");
  return Tile(recorder.emit_one(OpCode::gather, {x.handle(), index.handle()},
                                detail::tile_type(x.dtype(), index.shape()),
                                {{AttrKey::axis, int64_t{along}}}, loc));
}

Tile shuffle_xor(const Tile& x, int64_t mask, int axis, Loc loc) {
  Recorder& recorder = require_operand(x, "shuffle_xor", loc);
  const int along = detail::normal_axis(axis, x.rank(), "shuffle_xor", loc);
  const int64_t size = x.shape()[along], most = (size & -size) - 1;
  if (mask < 0 || mask > most)
    fail(loc, "shuffle_xor",
         "expected a mask from 0 to " + std::to_string(most) + " for a dimension of " +
             std::to_string(size) + " elements, got " + std::to_string(mask));
  if (mask == 0) return x;
  return Tile(recorder.emit_one(OpCode::shuffle_xor, {x.handle()}, recorder.type(x.handle()),
                                {{AttrKey::axis, int64_t{along}}, {AttrKey::xor_mask, mask}}, loc));
}

Tile flip(const Tile& x, int axis, Loc loc) {
  require_operand(x, "flip", loc);
  const int along = detail::normal_axis(axis, x.rank(), "flip", loc);
  const int64_t size = x.shape()[along];
  if (std::has_single_bit(static_cast<uint64_t>(size))) return shuffle_xor(x, size - 1, along, loc);
  const Tile back = integer(size - 1, loc) - at(positions(x, along, loc), loc);
  return gather(x, back, along, loc);
}

namespace {

Tile joined(const Tile& a, const Tile& b, const char* op, Loc loc) {
  for (const Tile* x : {&a, &b}) require_operand(*x, op, loc);
  if (a.dtype() != b.dtype() || a.shape() != b.shape())
    fail(loc, op,
         "expected two tiles of the same dtype and shape, got " + std::string(name(a.dtype())) +
             " " + detail::to_string(a.shape()) + " and " + name(b.dtype()) + " " +
             detail::to_string(b.shape()));
  const Tile x = a.expand_dims(-1, loc), y = b.expand_dims(-1, loc);
  Shape both = a.shape();
  both.push_back(2);
  const Tile first = x.broadcast_to(both, loc), second = y.broadcast_to(both, loc);
  return where(has_bits(first, a.rank(), 1, loc), TileArg(second, loc), TileArg(first, loc), loc);
}

}  // namespace

Tile join(const Tile& a, const Tile& b, Loc loc) {
  return joined(a, b, "join", loc);
}

std::pair<Tile, Tile> split(const Tile& x, Loc loc) {
  require_operand(x, "split", loc);
  if (x.rank() < 2 || x.shape().back() != 2)
    fail(loc, "split",
         "expected a tile of rank 2 or more whose last dimension is 2, got " +
             detail::to_string(x.shape()));
  const int axis = x.rank() - 1;
  const Tile place = positions(x, axis, loc);
  // Selects the first or second element by comparing indices, which leaves its bits unchanged.
  const auto element = [&](bool second) {
    const auto choose = [&](Scalar a, Scalar i, Scalar b, Scalar j) {
      const At<Scalar> left(second ? j : i, loc), right(second ? i : j, loc);
      const Scalar take = left < right;
      return carry(where(take, ScalarArg(a, loc), ScalarArg(b, loc), loc),
                   where(take, ScalarArg(i, loc), ScalarArg(j, loc), loc));
    };
    return reduce({x, place}, axis, choose, loc)[0];
  };
  return {element(false), element(true)};
}

Tile interleave(const Tile& a, const Tile& b, Loc loc) {
  const Tile pairs = joined(a, b, "interleave", loc);
  Shape shape = a.shape();
  shape.back() *= 2;
  return pairs.reshape(shape, loc);
}

Tile sort(const Tile& x, int axis, bool descending, Loc loc) {
  const int along = power_of_two_axis(x, axis, "sort", loc);
  const Tile keys = to_keys(x, loc), sorted = sort_blocks(keys, along, x.shape()[along], loc);
  return from_keys(descending ? flip(sorted, along, loc) : sorted, x.dtype(), loc);
}

Sorted stable_sort(const Tile& x, int axis, bool descending, Loc loc) {
  const int along = power_of_two_axis(x, axis, "stable_sort", loc);
  require_key(x, "stable_sort", loc);
  const Tile records = with_indices(to_keys(x, loc), along, descending, loc);
  return without_indices(sort_blocks(records, along, x.shape()[along], loc), x.dtype(), descending,
                         loc);
}

// Sorts blocks of k elements, every second block in reverse order. The elementwise minima of two
// adjacent blocks are then the k smallest elements of both blocks, in bitonic order. Each iteration
// halves the tile.
Sorted topk(const Tile& x, int64_t k, int axis, Loc loc) {
  const int along = power_of_two_axis(x, axis, "topk", loc), last = x.rank() - 1;
  require_key(x, "topk", loc);
  int64_t size = x.shape()[along];
  if (k < 1 || k > size || !std::has_single_bit(static_cast<uint64_t>(k)))
    fail(loc, "topk",
         "expected k to be a power of two from 1 to " + std::to_string(size) +
             ", the size of dimension " + std::to_string(along) + ", got " + std::to_string(k));
  Tile best = move_axis(with_indices(to_keys(x, loc), along, true, loc), along, last, loc);
  best = sort_blocks(best, last, k, loc);
  for (Shape shape = best.shape(); size > k;) {
    Shape pairs(shape.begin(), shape.end() - 1);
    for (const int64_t extent : {size / k / 2, int64_t{2}, k}) pairs.push_back(extent);
    shape.back() = size /= 2;
    best = reduce_min(best.reshape(pairs, loc), last + 1, loc).reshape(shape, loc);
    best = merge(best, last, k, size > k ? k : 0, loc);
  }
  return without_indices(move_axis(best, last, along, loc), x.dtype(), true, loc);
}

}  // namespace ligerdsl
