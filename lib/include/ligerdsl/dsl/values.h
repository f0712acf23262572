// The handles an author holds: Scalar, Tile, View, Partition, Ptr, PtrTile.
//
// The C++ type says what kind a value is; its data type and shape are run-time values. A handle is a small copyable
// reference to one value of the program being recorded. A default-constructed handle is empty; using it is an error.
#ifndef LIGERDSL_DSL_VALUES_H_
#define LIGERDSL_DSL_VALUES_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ligerdsl/dsl/error.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl {

using Shape = std::vector<int64_t>;

inline constexpr int64_t dyn = INT64_MIN;  // a view dimension or stride known only at launch
inline constexpr int64_t squeeze = 0;      // in a partition: one element of this dimension, dropped from the tile

class Partition;
class Ptr;
class Resident;
class Tile;
struct ScalarArg;
struct TileArg;
using Indices = std::vector<ScalarArg>;  // written {row, 0}

namespace detail {
class Recorder;

// What a handle refers to. Only the library makes these.
struct Handle {
  std::shared_ptr<Recorder> recorder;
  uint32_t id = 0;
  DType dtype = DType::f32;
  Shape shape;
};
}  // namespace detail

class Value {
 public:
  Value() = default;
  explicit Value(detail::Handle handle) : handle_(std::move(handle)) {}

  bool empty() const { return handle_.recorder == nullptr; }
  DType dtype() const { return handle_.dtype; }
  const Shape& shape() const { return handle_.shape; }
  int rank() const { return static_cast<int>(handle_.shape.size()); }
  const detail::Handle& handle() const { return handle_; }

 protected:
  detail::Handle handle_;
};

// One element.
class Scalar : public Value {
 public:
  using Value::Value;
  Scalar to(DType dtype, Loc loc = Here::current()) const;
  Tile broadcast_to(const Shape& shape, Loc loc = Here::current()) const;
};

// A block of elements. Every dimension is c * 2^n with odd c <= 31; at most 2^20 elements.
class Tile : public Value {
 public:
  using Value::Value;
  Tile to(DType dtype, Loc loc = Here::current()) const;
  Tile expand_dims(int axis, Loc loc = Here::current()) const;             // inserts a dimension of 1; -1 = at the end
  Tile broadcast_to(const Shape& shape, Loc loc = Here::current()) const;  // same rank; dimensions of 1 grow
  Tile reshape(const Shape& shape, Loc loc = Here::current()) const;       // same elements in row-major order
  Tile permute(const std::vector<int>& order, Loc loc = Here::current()) const;  // result dim i = dim order[i]
  int64_t size() const;                                                          // number of elements
};

// Hints to the memory system; they never change a result.
enum class Cache : int64_t {
  normal = 0,
  global = 1,     // keep in L2 only
  streaming = 2,  // touched once
};
enum class Evict : int64_t {
  normal = 0,
  first = 1,  // first to leave the cache
  last = 2,   // last to leave the cache
};

struct LoadOptions {
  double pad = 0.0;  // what elements outside the view read as: a number that the view's type has
  Scalar alignment_offset =
      {};  // what View::alignment_offset gave: tiles begin so many elements earlier along the last axis
  Cache cache = Cache::normal;
  Evict evict = Evict::normal;
};

struct StoreOptions {
  Scalar alignment_offset = {};  // as of loads
  Cache cache = Cache::normal;
  Evict evict = Evict::normal;
  // Of a product's sums (sm_90 and later): the tile goes from shared memory by tensor copies (cp.async.bulk.tensor), and the program goes
  // on meanwhile. No other access of the kernel may reach this memory. A remark says where it is not done. Of add(), of f32.
  bool tensor_copies = false;
};

// Typed memory: a base pointer with dimensions and strides (in elements). A kernel argument, or a slice of one.
class View : public Value {
 public:
  using Value::Value;
  Scalar dim(int axis, Loc loc = Here::current()) const;     // i64; also of static dimensions
  Scalar stride(int axis, Loc loc = Here::current()) const;  // i64, in elements
  // For rows that begin anywhere in memory, as those of 50257 columns do: how many elements before the first one of the
  // row at `index` (of all axes but the last) its blocks had better begin, so that every one begins at a whole vector.
  // Given as `alignment_offset` to loads and stores, tile b of a row has column b * block + j - alignment offset at j;
  // columns below 0 are outside of the view as those beyond its end are. It is at most max_alignment_offset(), and 0
  // where the compiler knows that rows begin at whole vectors or has no use for it: results may not depend on it. Rows
  // of other tensors may be moved with the same alignment offset; stores profit as well where both rows are equally far
  // from a vector's begin.
  Scalar alignment_offset(const Indices& index, Loc loc = Here::current()) const;
  Scalar max_alignment_offset(Loc loc = Here::current()) const;
  // The elements [begin, end) of one dimension as a view of their own, whose index 0 is `begin`: rows whose number and place
  // only the device knows, such as those of one group in a matrix of many. What the view does not have is left out: begin
  // counts as 0 where it is less, end as the dimension where it is more, an end before begin as begin. So whatever numbers a
  // kernel has read, a slice is memory of its view.
  View slice(int axis, const ScalarArg& begin, const ScalarArg& end, Loc loc = Here::current()) const;
  // Cuts the view into tiles: one entry per dimension, a tile size or `squeeze`. Indices count tiles.
  Partition partition(const Shape& tile_shape, Loc loc = Here::current()) const;
  // One element. Outside the view, load gives `pad` and store does nothing.
  Scalar load(const Indices& index, const LoadOptions& options = {}, Loc loc = Here::current()) const;
  void store(const Indices& index, const ScalarArg& value, const StoreOptions& options = {},
             Loc loc = Here::current()) const;
  void add(const Indices& index, const ScalarArg& value, const StoreOptions& options = {},
           Loc loc = Here::current()) const;  // as of a partition
  Ptr ptr(Loc loc = Here::current()) const;   // the address of element [0, 0, ...]
};

// A view cut into tiles.
class Partition {
 public:
  Partition() = default;
  Partition(View view, Shape tile_shape) : view_(std::move(view)), tile_shape_(std::move(tile_shape)) {}

  const View& view() const { return view_; }
  const Shape& tile_shape() const { return tile_shape_; }  // with `squeeze` entries
  Shape shape() const;                                     // of the tiles that load returns

  // Elements outside the view read as options.pad and are not written.
  Tile load(const Indices& index, const LoadOptions& options = {}, Loc loc = Here::current()) const;
  // A scalar or a number fills the tile.
  void store(const Indices& index, const TileArg& value, const StoreOptions& options = {},
             Loc loc = Here::current()) const;
  // Memory becomes what it holds plus the value, rounded to its dtype, as if it were loaded, added and stored: no other
  // program may touch it meanwhile. Tiles of f32 are added by the memory itself on sm_90 and later, which needs no registers
  // for what was there and no wait for it; there subnormal numbers, of either or of the sum, count as 0.
  void add(const Indices& index, const TileArg& value, const StoreOptions& options = {},
           Loc loc = Here::current()) const;
  // i1: where the tile that load returns lies inside the view; `alignment_offset` as of the load.
  Tile inside(const Indices& index, const Scalar& alignment_offset = {}, Loc loc = Here::current()) const;
  // The tiles along the last axis, to be read twice; `index` fixes the other axes.
  Resident resident(const Indices& index, const LoadOptions& options = {}, Loc loc = Here::current()) const;

 private:
  View view_;
  Shape tile_shape_;
};

// A row, however wide, that a program reads in two passes: blocks along the last axis of a partition, at fixed indices
// of the others. Blocks stay on chip between the passes as far as there is room, so that memory is read about once.
//
// For that, load each block of a pass in one loop from 0 to the number of blocks, in the second loop in the opposite
// order (what was read last is used first):
//   k.for_range(0, n, 1, carry(...), [&](Scalar i, ...) { ... row.load(i) ... });
//   k.for_range(0, n, 1, [&](Scalar i) { Scalar b = n - 1 - i; ... row.load(b) ... store block b ... });
// Loops may leave blocks out (both the same ones) and take any order that is computed from the counter. In other loops
// loads are plain loads. Between a block's first and last load nobody may write it: a kept block would show the old
// elements. The interpreter names a load that meets new ones.
class Resident {
 public:
  Resident() = default;
  Scalar blocks(Loc loc = Here::current()) const;  // i32: tiles that cover the last axis, whatever the alignment offset
  Tile load(const ScalarArg& block, Loc loc = Here::current()) const;

 private:
  friend class Partition;
  Partition partition_;
  Indices others_;
  LoadOptions options_;
  int64_t id_ = 0;
};

// A pointer to elements of dtype(). Pointer + integer counts elements.
class Ptr : public Value {
 public:
  using Value::Value;
};

// A tile of pointers to elements of dtype().
class PtrTile : public Value {
 public:
  using Value::Value;
};

}  // namespace ligerdsl

#include "ligerdsl/dsl/operands.h"  // completes ScalarArg and TileArg

#endif  // LIGERDSL_DSL_VALUES_H_
