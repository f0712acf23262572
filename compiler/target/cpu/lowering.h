// Lowers tile IR to one host function of scf loops, arith on scalars and vectors, and llvm memory
// accesses.
//
// No tile becomes one vector. A group of sinks becomes a nest of loops over the tile's elements,
// and the loop over the lane dimension advances by W. The innermost loop computes the operands of
// the sinks in registers of W elements (elementwise.h).
#pragma once

#include "compiler/target/cpu/elementwise.h"
#include "compiler/target/cpu/plan.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace ligerdsl::compiler::cpu {

/// Index along a tile dimension inside a nest: one `base` for all lanes, `base` + lane, or a vector
/// of indices.
struct Coord {
  mlir::Value base;  // i64, or vector<W x i64> if `scattered`; null means 0
  // W if lane i has index base + i; 0 if all lanes have `base`. The base is a multiple of W, except
  // in loops that begin at a cache line (storesLines).
  int64_t lanes = 0;
  bool scattered = false;
  int depth = 0;  // depth of the innermost loop that the index depends on; 0 if none
  bool operator==(const Coord&) const = default;
};
using Coords = llvm::SmallVector<Coord, 4>;

/// An evaluated expression: a scalar (the same in all lanes) or a vector, valid inside the `depth`
/// outermost loops of the nest.
struct Evaluated {
  mlir::Value value;
  int depth = 0;
};

/// The loops around the code being emitted.
struct Nest {
  llvm::SmallVector<int64_t> shape;
  int laneDim = -1;
  int64_t lanes = 1;                       // W
  int registers = 1;                       // adjacent registers per iteration of the lane loop
  llvm::SmallVector<mlir::Value> indices;  // per dimension; null where the size is 1
  llvm::SmallVector<mlir::Value> begins;   // per dimension: start of its loop; null means 0
  llvm::SmallVector<mlir::Value> ends;  // per dimension: end of its loop; null means the tile's end
  // Dimension whose rows are computed in pairs (lowerPairs), or -1. One body computes the rows
  // `indices[pairedDim]` and `second`; both are inside all views.
  int pairedDim = -1;
  mlir::Value second;  // set if pairedDim >= 0
  // Per dimension: depth of its loop, 1 for the outermost loop; 0 without a loop.
  llvm::SmallVector<int> depths;
  // The loops, outermost first. Code for depth d goes before loops[d].
  llvm::SmallVector<mlir::Operation*> loops;
  int inner = 0;          // depth of the innermost body
  bool streams = false;   // stores bypass the caches
  bool inBounds = false;  // accesses in `proved` touch nothing outside their views
  // Set if the lane loops start at a cache-line boundary instead of index 0 (leadOf).
  // - `lead`: number of elements before that boundary; null outside the body that computes them.
  // - `laneEnd`: end of the tile, which guards then test; null if no register crosses this end.
  mlir::Value lead, laneEnd;
  llvm::DenseSet<mlir::Operation*> proved;
  using Memo = llvm::DenseMap<mlir::Value, llvm::SmallVector<std::pair<Coords, Evaluated>, 1>>;
  Memo outer, body;  // values evaluated outside the innermost loop, and in its current body
  llvm::DenseMap<mlir::Value, mlir::Value> halves;  // index -> index / 2 (interleaved tiles)
};

/// Address and extents of a partition access, computed once where the op is in the program.
struct TileAccess {
  mlir::Value view, origin;  // pointers to the first element of the view and of the tile
  llvm::SmallVector<mlir::Value> strides;  // per tile dimension, i64
  // Number of elements inside the view, per tile dimension; null means all.
  llvm::SmallVector<mlir::Value> extents;
  mlir::Value inside;       // for scalar accesses: true if the element exists; null means true
  mlir::Value ahead;        // elements from this tile to the next iteration's; null if unknown
  mlir::Value nextProgram;  // elements from this tile to the next program's; null if unknown
  mlir::Value streams;      // true if stores of whole registers bypass the caches; null means false
  mlir::Type element;
};

// Largest number of lanes of a register, multiplied by 2 or 4 for interleaved tiles.
inline constexpr int64_t kMaxLanes = 16;
inline constexpr int64_t kLine = 64;  // bytes per cache line

/// One dimension of a partition access that must stay inside its view. `dim` is one of:
/// - the nest's dimension that iterates over it,
/// - kZero: only index 0 is accessed,
/// - kWhole: any of the `size` indices may be accessed.
inline constexpr int kZero = -1, kWhole = -2;
struct Bound {
  int dim;
  mlir::Value extent;
  int64_t size;
};

/// Address of an access: one pointer (to a scalar or to W contiguous elements), or a vector of
/// pointers.
struct Address {
  mlir::Value pointer;
  bool scattered = false;
};

/// Condition under which a lane is accessed; null means true.
struct Guard {
  mlir::Value condition;  // i1, for all lanes
  mlir::Value mask;       // vector<W x i1>
  mlir::Value view;       // pointer to the first element of the view; null if unknown
};

/// Registers of one reduction: `copies` registers for its first operand, then for the next.
struct Reduction {
  tile::ReduceOp op;
  int copies = 1;
  llvm::SmallVector<mlir::Value> registers;
};

class TileLowering {
 public:
  TileLowering(mlir::func::FuncOp source, const Plan& plan, bool hasF16c, bool hasStreaming);
  /// Appends the entry (CpuEntry of program/artifact.h) to the module.
  mlir::LogicalResult run(mlir::ModuleOp module, llvm::StringRef entry);

 private:
  // lower_function.cpp: arguments, program ids, scalar code, control flow.
  void readArguments(mlir::Value slots);
  void deriveSlowerIds(mlir::Value program);
  void lowerBlock(mlir::Block* block);
  void lowerOp(mlir::Operation* op);
  void lowerScalar(mlir::Operation* op);
  void lowerSlice(tile::SliceOp op);
  void lowerFor(mlir::scf::ForOp loop);
  void lowerWhile(mlir::scf::WhileOp loop);
  void lowerIf(mlir::scf::IfOp branch);
  void fillRegion(mlir::Region& from, mlir::Block* into, mlir::ValueRange arguments);
  mlir::Value scalar(mlir::Value value);
  llvm::SmallVector<mlir::Value> scalarsOf(mlir::ValueRange values);
  llvm::SmallVector<mlir::Type> scalarTypes(mlir::TypeRange types);

  // lower_access.cpp: addresses, guards, loads and stores of registers.
  TileAccess prepare(mlir::Operation* access);
  mlir::Value stepOf(mlir::Value index);
  void prefetch(tile::LoadTileOp op, Address from);
  mlir::Value maySkipCaches(const TileAccess& access, mlir::Value large);
  void lowerScalarAccess(mlir::Operation* op);
  Address address(mlir::Value origin, mlir::Type element, const Coords& coords,
                  llvm::ArrayRef<mlir::Value> strides);
  Address pointersAt(mlir::Value pointers, mlir::Type element, const Coords& coords);
  struct Affine {
    mlir::Value base;  // i64
    int64_t step;      // difference between consecutive lanes
  };
  std::optional<Affine> affine(mlir::Value value, const Coords& coords);
  Guard guardOf(const TileAccess& access, const Coords& coords);
  Guard guardOf(mlir::Operation* access, const Coords& coords, int depth);
  mlir::Value placeOf(mlir::Value pointer, const Guard& guard);
  mlir::Value load(Address from, mlir::Type element, Guard guard, mlir::Value otherwise,
                   int64_t lanes, int64_t align);
  void store(Address to, mlir::Type element, mlir::Value value, Guard guard, int64_t lanes,
             int64_t align);
  mlir::Value pad(tile::LoadTileOp op);
  Address bufferAddress(Buffer* buffer, const Coords& coords);
  mlir::Value bufferLoad(Buffer* buffer, const Coords& coords);
  void bufferStore(Buffer* buffer, const Coords& coords, mlir::Value value);

  // lower_tiles.cpp: tile expressions.
  Coords identity();
  Evaluated evaluate(mlir::Value tile, const Coords& coords);
  Evaluated evaluateDefinition(mlir::Value tile, const Coords& coords);
  Evaluated evaluateElementwise(mlir::Operation* op, const Coords& coords);
  Evaluated evaluateRange(tile::MakeRangeOp op, const Coords& coords);
  Evaluated evaluateLoadTile(tile::LoadTileOp op, const Coords& coords);
  Evaluated evaluateGather(tile::LoadOp op, const Coords& coords);
  Evaluated evaluateTileGather(tile::GatherOp op, Coords coords);
  Evaluated evaluateShuffleXor(tile::ShuffleXorOp op, Coords coords);
  bool isInterleaved(tile::ReshapeOp op);  // this and the next two: lower_interleaved.cpp
  int timesInterleaved(const Group& group);
  std::optional<Evaluated> evaluateInterleaved(tile::ReshapeOp op, const Coords& coords);
  Coords sourceCoords(mlir::Operation* op, const Coords& coords);
  Coords reshapeCoords(tile::ReshapeOp op, const Coords& coords);
  void remember(mlir::Value tile, const Coords& coords, Evaluated result);

  // lower_groups.cpp: loop nests.
  void lowerGroup(const Group& group);
  void loopNest(llvm::ArrayRef<int> dims, llvm::function_ref<void()> body);
  struct LaneRange {
    mlir::Value lead;  // first index after the leading guarded body; null means 0
    mlir::Value full, end;
  };
  bool storesLines(const Group& group);
  mlir::Value leadOf(const Group& group, mlir::Value limit, mlir::Value inside);
  int pairedDim(const Group& group, llvm::ArrayRef<int> outer);
  mlir::Value lowerPairs(const Group& group, int dim);
  LaneRange laneRange(const Group& group, int64_t step);
  mlir::Value endOfStores(const Group& group, int dim);
  void laneLoop(const Group& group, llvm::MutableArrayRef<Reduction> reductions, mlir::Value from,
                mlir::Value to, int bodies, bool inBounds);
  void laneLoops(const Group& group);
  mlir::Value streamsOf(const Group& group);
  void groupBody(const Group& group, llvm::MutableArrayRef<Reduction> reductions, int copy,
                 mlir::Value first);
  void collectBounds(const Group& group);
  void boundsOf(mlir::Value tile, llvm::SmallVector<int> dims,
                llvm::DenseSet<std::pair<mlir::Value, int64_t>>& seen);
  void addBounds(mlir::Operation* access, llvm::ArrayRef<int> dims);

  // lower_reduce.cpp: reductions, also along dimensions other than the lane dimension.
  void finish(Reduction& reduction);
  llvm::SmallVector<mlir::Value> combine(tile::ReduceOp op, llvm::ArrayRef<mlir::Value> a,
                                         llvm::ArrayRef<mlir::Value> b, int64_t lanes);
  llvm::SmallVector<mlir::Value> start(tile::ReduceOp op, int64_t lanes);
  void lowerAcross(const Group& group);
  llvm::SmallVector<Reduction> reduceAcross(const Group& group, int axis,
                                            llvm::ArrayRef<Coords> places, bool inBounds,
                                            mlir::Operation* anchor);

  // lower_ordered.cpp: ops with a nest of their own; longDims and openNest: lower_groups.cpp.
  void lowerOrdered(mlir::Operation* op, llvm::ArrayRef<int64_t> shape);
  llvm::SmallVector<int> longDims(int except);
  void lowerScan(tile::ScanOp op);
  void lowerDot(tile::DotOp op);  // lower_dot.cpp
  void lowerAtomic(mlir::Operation* op);
  mlir::Value atomic(mlir::Operation* op, mlir::Value pointer, llvm::ArrayRef<mlir::Value> values,
                     mlir::Value mask);
  mlir::Value atomicHalf(tile::AtomicRMWOp op, mlir::Value pointer, mlir::Value value,
                         mlir::Type element);
  void lowerPrint(tile::PrintOp op);
  void printValue(tile::PrintOp op, mlir::Value bits, mlir::Type element, mlir::Value index,
                  llvm::ArrayRef<int64_t> shape);
  void openNest(llvm::ArrayRef<int64_t> shape, int laneDim, int64_t maxLanes = kMaxLanes);

  // Helpers.
  mlir::Value i64(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value both(mlir::Value a, mlir::Value b);  // null means true
  mlir::Value toI64(mlir::Value integer);
  mlir::Value iota(mlir::Type element, int64_t lanes);
  mlir::Value toPointer(mlir::Value address);
  template <typename Emit>
  void atDepth(int depth, Emit emit) {
    mlir::OpBuilder::InsertionGuard guard(b);
    if (depth < nest->inner) b.setInsertionPoint(nest->loops[depth]);
    emit();
  }

  mlir::func::FuncOp source;
  const Plan& plan;
  mlir::OpBuilder b;
  mlir::Location loc;
  Registers registers;
  bool hasStreaming;
  // `View::large` of each view whose stores may bypass the caches.
  llvm::SetVector<mlir::Value> streamed;
  bool broken = false;
  mlir::ModuleOp module;
  mlir::Value arena;
  mlir::Value grid[3], programId[3];
  struct View {
    mlir::Value pointer;
    llvm::SmallVector<mlir::Value> dims, strides;
    mlir::Value span;   // largest size * stride of a dimension, in elements
    mlir::Value large;  // true if the view is larger than kStreamedBytes
  };
  llvm::DenseMap<mlir::Value, View> views;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseMap<mlir::Operation*, TileAccess> accesses;
  Nest* nest = nullptr;
  const Group* group = nullptr;  // the group that the nest computes
  llvm::SmallVector<Bound> bounds;
  mlir::Operation* laneAnchor = nullptr;
  int strings = 0;
};

}  // namespace ligerdsl::compiler::cpu
