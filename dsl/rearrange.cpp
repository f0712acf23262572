// The two moves, and what is made of them.
#include "ligerdsl/dsl/rearrange.h"

#include <bit>
#include <functional>

#include "ligerdsl/dsl/library.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

using detail::AttrKey;
using detail::fail;
using detail::OpCode;
using detail::Recorder;
using detail::recorder_of;

// Operators with the caller's location.
At<Tile> at(const Tile& x, Loc loc) {
  return At<Tile>(x, loc);
}
ScalarArg number(int64_t value, Loc loc) {
  return ScalarArg(value, loc);
}

// The index of each element along the axis.
Tile positions(const Tile& x, int axis, const char* op, Loc loc) {
  return detail::positions(recorder_of(x.handle(), op, loc), x.shape(), axis, op, loc);
}

// Whether that has one of these bits.
Tile has_bits(const Tile& x, int axis, int64_t bits, Loc loc) {
  const Tile place = positions(x, axis, "sort", loc);
  const Tile masked = at(place, loc) & number(bits, loc);
  return at(masked, loc) != number(0, loc);
}

int power_of_two_axis(const Tile& x, int axis, const char* op, Loc loc) {
  const int along = detail::normal_axis(axis, x.rank(), op, loc);
  const int64_t size = x.shape()[along];
  if (!std::has_single_bit(static_cast<uint64_t>(size)))
    fail(loc, op,
         "dimension " + std::to_string(along) + " has " + std::to_string(size) +
             " elements; expected a power of two: load a larger block, padded with what sorts last");
  return along;
}

// Tiles of one shape that are ordered together by the first ones.
using Records = std::vector<Tile>;
// Whether a record comes before another one, element by element.
using Before = std::function<Tile(const Records&, const Records&)>;

// NaN is the largest.
Tile is_less(const Tile& a, const Tile& b, Loc loc) {
  const Tile less = at(a, loc) < at(b, loc);
  if (!is_float(a.dtype())) return less;
  const Tile nan = at(b, loc) != at(b, loc), other = at(a, loc) == at(a, loc);
  const Tile last = at(nan, loc) & at(other, loc);
  return at(less, loc) | at(last, loc);
}

// Each record, or that at i ^ distance where `replaced(others)` says so.
void replace(Records& records, int axis, int64_t distance, const std::function<Tile(const Records&)>& replaced,
             Loc loc) {
  Records others;
  for (const Tile& tile : records) others.push_back(shuffle_xor(tile, distance, axis, loc));
  const Tile chosen = replaced(others);
  for (size_t i = 0; i < records.size(); ++i)
    records[i] = where(chosen, TileArg(others[i], loc), TileArg(records[i], loc), loc);
}

// Orders blocks of `size` that are bitonic, backwards those whose places have the bit `backwards`.
void merge(Records& records, int axis, int64_t size, int64_t backwards, const Before& before, Loc loc) {
  for (int64_t distance = size / 2; distance > 0; distance /= 2) {
    const auto belongs_here = [&](const Records& others) {
      Tile last = has_bits(records[0], axis, distance, loc);
      if (backwards != 0) last = at(last, loc) ^ at(has_bits(records[0], axis, backwards, loc), loc);
      return where(last, TileArg(before(records, others), loc), TileArg(before(others, records), loc), loc);
    };
    replace(records, axis, distance, belongs_here, loc);
  }
}

// Orders blocks of `size`, every other one backwards where there are several.
void sort_blocks(Records& records, int axis, int64_t size, const Before& before, Loc loc) {
  const int64_t whole = records[0].shape()[axis];
  for (int64_t block = 2; block <= size; block *= 2)
    merge(records, axis, block, block < whole ? block : 0, before, loc);
}

Before order_of(bool descending, bool stable, Loc loc) {
  return [=](const Records& a, const Records& b) {
    const Tile less = descending ? is_less(b[0], a[0], loc) : is_less(a[0], b[0], loc);
    if (!stable) return less;
    const Tile more = descending ? is_less(a[0], b[0], loc) : is_less(b[0], a[0], loc);
    const Tile same = !at(more, loc), stood_first = at(a[1], loc) < at(b[1], loc);
    const Tile by_index = at(same, loc) & at(stood_first, loc);
    return at(less, loc) | at(by_index, loc);
  };
}

Records with_indices(const Tile& x, int axis, Loc loc) {
  return {x, positions(x, axis, "sort", loc)};
}

}  // namespace

Tile gather(const Tile& x, const Tile& index, int axis, Loc loc) {
  Recorder& recorder = recorder_of(x.handle(), "gather", loc);
  const int along = detail::normal_axis(axis, x.rank(), "gather", loc);
  if (index.dtype() != i32 && index.dtype() != i64)
    fail(loc, "gather", std::string("indices are i32 or i64, got ") + name(index.dtype()));
  Shape wanted = index.shape();
  if (index.rank() == x.rank()) wanted[along] = x.shape()[along];
  if (wanted != x.shape())
    fail(loc, "gather",
         "indices of shape " + detail::to_string(index.shape()) + " into " + detail::to_string(x.shape()) +
             ": all dimensions but " + std::to_string(along) + " must be the same; use .broadcast_to(shape)");
  return Tile(recorder.emit_one(OpCode::gather, {x.handle(), index.handle()},
                                detail::tile_type(x.dtype(), index.shape()), {{AttrKey::axis, int64_t{along}}}, loc));
}

Tile shuffle_xor(const Tile& x, int64_t mask, int axis, Loc loc) {
  Recorder& recorder = recorder_of(x.handle(), "shuffle_xor", loc);
  const int along = detail::normal_axis(axis, x.rank(), "shuffle_xor", loc);
  const int64_t size = x.shape()[along], most = (size & -size) - 1;
  if (mask < 0 || mask > most)
    fail(loc, "shuffle_xor",
         "the mask is " + std::to_string(mask) + "; expected 0 to " + std::to_string(most) + " along a dimension of " +
             std::to_string(size));
  if (mask == 0) return x;
  return Tile(recorder.emit_one(OpCode::shuffle_xor, {x.handle()}, recorder.type(x.handle()),
                                {{AttrKey::axis, int64_t{along}}, {AttrKey::xor_mask, mask}}, loc));
}

Tile flip(const Tile& x, int axis, Loc loc) {
  const int along = detail::normal_axis(axis, x.rank(), "flip", loc);
  const int64_t size = x.shape()[along];
  if (std::has_single_bit(static_cast<uint64_t>(size))) return shuffle_xor(x, size - 1, along, loc);
  const Tile back = number(size - 1, loc) - at(positions(x, along, "flip", loc), loc);
  return gather(x, back, along, loc);
}

Tile join(const Tile& a, const Tile& b, Loc loc) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape())
    fail(loc, "join",
         "expected two tiles of one type, got " + std::string(name(a.dtype())) + " " + detail::to_string(a.shape()) +
             " and " + name(b.dtype()) + " " + detail::to_string(b.shape()));
  const Tile x = a.expand_dims(-1, loc), y = b.expand_dims(-1, loc);
  Shape both = a.shape();
  both.push_back(2);
  const Tile first = x.broadcast_to(both, loc), second = y.broadcast_to(both, loc);
  return where(has_bits(first, a.rank(), 1, loc), TileArg(second, loc), TileArg(first, loc), loc);
}

std::pair<Tile, Tile> split(const Tile& x, Loc loc) {
  if (x.rank() < 2 || x.shape().back() != 2)
    fail(loc, "split", "expected a tile whose last dimension is 2, beside others, got " + detail::to_string(x.shape()));
  const int axis = x.rank() - 1;
  const Tile place = positions(x, axis, "split", loc);
  // Of two elements the one that stands where it is wanted, bit for bit.
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
  Shape shape = a.shape();
  shape.back() *= 2;
  return join(a, b, loc).reshape(shape, loc);
}

Tile sort(const Tile& x, int axis, bool descending, Loc loc) {
  const int along = power_of_two_axis(x, axis, "sort", loc);
  Records records{x};
  sort_blocks(records, along, x.shape()[along], order_of(descending, false, loc), loc);
  return records[0];
}

Sorted stable_sort(const Tile& x, int axis, bool descending, Loc loc) {
  const int along = power_of_two_axis(x, axis, "stable_sort", loc);
  Records records = with_indices(x, along, loc);
  sort_blocks(records, along, x.shape()[along], order_of(descending, true, loc), loc);
  return {records[0], records[1]};
}

// Blocks of k are ordered, every other one backwards; then of two neighbours the earlier records of each pair are the
// first k of both, in both places, and bitonic.
Sorted topk(const Tile& x, int64_t k, int axis, Loc loc) {
  const int along = power_of_two_axis(x, axis, "topk", loc);
  const int64_t size = x.shape()[along];
  if (k < 1 || k > size || !std::has_single_bit(static_cast<uint64_t>(k)))
    fail(loc, "topk",
         "k is " + std::to_string(k) + "; expected a power of two of at most " + std::to_string(size) +
             ", the size of dimension " + std::to_string(along));
  const Before before = order_of(true, true, loc);
  Records records = with_indices(x, along, loc);
  sort_blocks(records, along, k, before, loc);
  for (int64_t distance = k; distance < size; distance *= 2) {
    replace(
        records, along, distance, [&](const Records& others) { return before(others, records); }, loc);
    merge(records, along, k, distance * 2 < size ? distance * 2 : 0, before, loc);
  }
  if (k == size) return {records[0], records[1]};
  Shape shape = x.shape();
  shape[along] = k;
  const Tile first = detail::positions(recorder_of(x.handle(), "topk", loc), shape, along, "topk", loc);
  return {gather(records[0], first, along, loc), gather(records[1], first, along, loc)};
}

}  // namespace ligerdsl
