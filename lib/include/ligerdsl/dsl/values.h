// The handles that an author uses: Scalar, Tile, View, Partition, Ptr, PtrTile.
//
// The C++ type is the kind of a value; its data type and shape are run-time values. A handle is a
// small copyable reference to one value of the recorded program. A default-constructed handle is
// empty, and using it is an error.
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
inline constexpr int64_t squeeze = 0;  // in a partition: take one element and drop the dimension

class Partition;
class Ptr;
class Resident;
class Tile;
struct ScalarArg;
struct TileArg;
using Indices = std::vector<ScalarArg>;  // written {row, 0}

namespace detail {
class Recorder;

// A handle's reference to a value. Only the library creates it.
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
  Tile expand_dims(int axis,
                   Loc loc = Here::current()) const;  // inserts a dimension of 1; -1 = at the end
  Tile broadcast_to(const Shape& shape,
                    Loc loc = Here::current()) const;  // same rank; dimensions of 1 grow
  Tile reshape(const Shape& shape,
               Loc loc = Here::current()) const;  // same elements in row-major order
  Tile permute(const std::vector<int>& order,
               Loc loc = Here::current()) const;  // result dim i = dim order[i]
  int64_t size() const;                           // number of elements
};

// Hints to the memory system; they never change a result.
enum class Cache : int64_t {
  normal = 0,
  global = 1,     // keep in L2 only
  streaming = 2,  // accessed once
};
enum class Evict : int64_t {
  normal = 0,
  first = 1,  // first to leave the cache
  last = 2,   // last to leave the cache
};

struct LoadOptions {
  double pad = 0.0;  // value of elements outside the view; the view's type must represent it
  Scalar alignment_offset = {};  // result of View::alignment_offset: tiles begin this number of
                                 // elements earlier along the last axis
  Cache cache = Cache::normal;
  Evict evict = Evict::normal;
};

struct StoreOptions {
  Scalar alignment_offset = {};  // as in LoadOptions
  Cache cache = Cache::normal;
  Evict evict = Evict::normal;
  // Stores the tile, usually the accumulator of a matmul, from shared memory by TMA
  // (cp.async.bulk.tensor, sm_90 and later), while the program continues. For add() the tile must
  // be f32. No other access of the kernel may use this memory. If the store cannot use TMA, a
  // remark gives the reason.
  bool tensor_copies = false;
};

// Typed memory: a base pointer with dimensions and strides (in elements). A kernel argument, or a
// slice of one.
class View : public Value {
 public:
  using Value::Value;
  Scalar dim(int axis, Loc loc = Here::current()) const;     // i64; also of static dimensions
  Scalar stride(int axis, Loc loc = Here::current()) const;  // i64, in elements
  // Returns the alignment offset of a row that need not begin at a 16-byte boundary, such as a row
  // of 50257 columns. `index` selects the row: one index per axis except the last. If the row's
  // blocks begin this number of elements earlier, each of them is aligned.
  //
  // Pass the result as `alignment_offset` to loads and stores. Element j of tile b is then this
  // column:
  //   b * block + j - offset
  // Columns below 0 are outside the view, as are those after its end. The offset is at most
  // max_alignment_offset(). It is 0 if rows are known to be aligned or the compiler does not use
  // the offset, so results must not depend on it.
  //
  // Rows of other tensors may use the same offset. They are also accessed in vectors if their own
  // alignment offset is equal. Tiles of several rows may use it too if all rows of the view have
  // the same offset (View::every).
  Scalar alignment_offset(const Indices& index, Loc loc = Here::current()) const;
  Scalar max_alignment_offset(Loc loc = Here::current()) const;
  // Returns a view of the elements [begin, end) of one dimension; its index 0 is `begin`. Use it
  // for rows whose number and position only the device knows, such as those of one group of a
  // matrix. Bounds are clamped: begin to >= 0, end to <= the dimension, then end to >= begin. A
  // slice is therefore always inside its view, whatever bounds the kernel reads.
  View slice(int axis, const ScalarArg& begin, const ScalarArg& end,
             Loc loc = Here::current()) const;
  // Returns a view of the elements begin, begin + step, begin + 2 step ... of one dimension. `step`
  // is 1 or more. All rows of the view have one alignment offset if the step times the row stride
  // is a multiple of 16 bytes. This holds for every 8th row of 16-bit elements. Tiles of several
  // rows then move whole vectors, for any row width.
  View every(int axis, int64_t step, const ScalarArg& begin, Loc loc = Here::current()) const;
  // Divides the view into tiles: `tile_shape` has a tile size or `squeeze` per dimension. Indices
  // count tiles.
  Partition partition(const Shape& tile_shape, Loc loc = Here::current()) const;
  // Loads or stores one element. Outside the view, load returns `pad` and store does nothing.
  Scalar load(const Indices& index, const LoadOptions& options = {},
              Loc loc = Here::current()) const;
  void store(const Indices& index, const ScalarArg& value, const StoreOptions& options = {},
             Loc loc = Here::current()) const;
  void add(const Indices& index, const ScalarArg& value, const StoreOptions& options = {},
           Loc loc = Here::current()) const;  // as Partition::add
  Ptr ptr(Loc loc = Here::current()) const;   // the address of element [0, 0, ...]
};

// A view divided into tiles.
class Partition {
 public:
  Partition() = default;
  Partition(View view, Shape tile_shape)
      : view_(std::move(view)), tile_shape_(std::move(tile_shape)) {}

  const View& view() const { return view_; }
  const Shape& tile_shape() const { return tile_shape_; }  // with `squeeze` entries
  Shape shape() const;                                     // shape of the tiles that load returns

  // Elements outside the view load as options.pad and are not stored.
  Tile load(const Indices& index, const LoadOptions& options = {}, Loc loc = Here::current()) const;
  // A scalar or a number fills the tile.
  void store(const Indices& index, const TileArg& value, const StoreOptions& options = {},
             Loc loc = Here::current()) const;
  // Adds the value to memory like a load, an addition and a store, and rounds to the memory's
  // dtype. The addition is not atomic: no other program may access the memory meanwhile. On sm_90
  // and later, the memory system adds f32 tiles without an alignment offset, so the program neither
  // loads the old value nor waits for it. Subnormal operands and results are then 0.
  void add(const Indices& index, const TileArg& value, const StoreOptions& options = {},
           Loc loc = Here::current()) const;
  // Returns an i1 tile: true for elements of the loaded tile that are inside the view. Pass the
  // load's `alignment_offset`.
  Tile inside(const Indices& index, const Scalar& alignment_offset = {},
              Loc loc = Here::current()) const;
  // Returns the tiles along the last axis as a row that the kernel reads twice. `index` fixes the
  // other axes.
  Resident resident(const Indices& index, const LoadOptions& options = {},
                    Loc loc = Here::current()) const;

 private:
  View view_;
  Shape tile_shape_;
};

// A resident row: a row of any width that a program reads in two passes. Its blocks are along the
// last axis of a partition, at fixed indices of the other axes. Blocks stay on chip between the
// passes as far as they fit, so that memory is read about once.
//
// Load each block in one loop from 0 to the number of blocks. Load it again in a second loop in the
// opposite order, which uses the most recent block first.
//
//   k.for_range(0, n, 1, carry(...), [&](Scalar i, ...) { ... row.load(i) ... });
//   k.for_range(0, n, 1, [&](Scalar i) {
//     Scalar b = n - 1 - i;
//     ... row.load(b) ... store block b ...
//   });
//
// Both loops may omit the same blocks, and may use any order that depends on the counter only.
// Loads in other loops are plain loads.
//
// Do not write a block between its first and last load: a cached block would have the old elements.
// The interpreter reports a load of changed elements.
class Resident {
 public:
  Resident() = default;
  Scalar blocks(Loc loc = Here::current())
      const;  // i32: number of tiles that cover the last axis with any alignment offset
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
