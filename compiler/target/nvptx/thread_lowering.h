// Lowers tiles with layouts to the code of one thread.
//
// A thread holds a tile with a #tgpu.layout as a list of *pieces*: values of vector<VxT> (or T when
// V is 1), in the layout's register order. V is the number of contiguous elements along the last
// dimension, at most kMaxWidth. It depends on the layout alone, not on the element type. Pieces of
// tiles with one layout therefore correspond one to one, and an elementwise op on tiles becomes the
// same op on each piece.
//
// A scalar is one piece, and so is a pointer (as an i64 address). The pieces of a view are its
// pointer, sizes and strides: launch slots, or constants for static sizes and strides.
//
// ThreadLowering walks the kernel once, in order, and builds an llvm.func of arith, math, scf, llvm
// and nvvm ops. LoweringTable maps each op type to the function that lowers it. Each family of ops
// has a file that registers its functions.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "compiler/layout/linear_layout.h"
#include "compiler/target/nvptx/wide_products.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "program/artifact.h"
#include "program/gpu_arch.h"
#include "program/options.h"

namespace ligerdsl::compiler::nvptx {

inline constexpr int kMaxWidth = 16;
inline constexpr unsigned kGlobalSpace = 1;
inline constexpr unsigned kSharedSpace = 3;

using Pieces = llvm::SmallVector<mlir::Value, 4>;

/// A layout, with values that depend on the layout alone.
struct ThreadLayout {
  LinearLayout map;
  int64_t width;  // elements per piece
  bool
      disjoint;  // true if register offset and thread coordinate are added, false if they are xored
  // Coordinates of this thread's register 0, i32 per dimension.
  llvm::SmallVector<mlir::Value> origin;

  int64_t registers() const { return map.registers(); }
  int64_t pieces() const { return map.registers() / width; }
};

/// Coordinate of one register of this thread along one dimension: `base + offset`.
struct Coordinate {
  mlir::Value base;  // i32
  int64_t offset;
};

class AffineTiles;

class ThreadLowering {
 public:
  ThreadLowering(mlir::func::FuncOp kernel, const program::CompileOptions& options);
  ~ThreadLowering();
  /// Replaces the kernel by an llvm.func. On failure, emits a diagnostic at the offending op.
  mlir::LogicalResult run();

  mlir::OpBuilder b;
  const program::CompileOptions& options;
  WideProducts wideProducts;
  const program::GpuArch& arch() const { return *program::find_gpu_arch(options.arch); }

  // --- values
  // ----------------------------------------------------------------
  const Pieces& pieces(mlir::Value tile) const;
  mlir::Value scalar(mlir::Value value) const { return pieces(value)[0]; }
  void define(mlir::Value original, Pieces pieces);
  /// Returns this thread's elements of a tile, one per register. A scalar has one element.
  llvm::SmallVector<mlir::Value> elements(mlir::Value tile);
  /// Defines a tile (or scalar) by its elements, one per register.
  void defineElements(mlir::Value tile, llvm::ArrayRef<mlir::Value> elements);
  mlir::Value extract(mlir::Value piece, int64_t index);
  /// Returns a vector of these scalars, or the scalar itself if there is only one.
  mlir::Value pack(llvm::ArrayRef<mlir::Value> elements);
  /// Records the narrower element from which an f32 element was widened.
  void noteWidened(mlir::Value wide, mlir::Value narrow) { widenedFrom[wide] = narrow; }
  /// Returns the element from which `wide` was widened, or null.
  mlir::Value narrowOf(mlir::Value wide) const { return widenedFrom.lookup(wide); }

  // --- types and layouts
  // ----------------------------------------------------------------
  /// Returns the element type in a thread; a pointer becomes an i64 address.
  mlir::Type elementType(mlir::Type type) const;
  /// Return the type of a piece, and the number of pieces, for a value of this type.
  mlir::Type pieceType(mlir::Type type);
  int64_t pieceCount(mlir::Type type);
  const ThreadLayout& layout(mlir::RankedTensorType type);
  Coordinate coordinate(const ThreadLayout& layout, int64_t reg, int dim);

  // --- small code
  // ----------------------------------------------------------------
  mlir::Value constant(int64_t value, int bits = 32);
  mlir::Value zero(mlir::Type type);
  /// Returns the thread's number in its cluster. The lane is in the lowest bits, then warp and CTA.
  mlir::Value threadId() { return tid; }
  /// Return the thread's number in its CTA, and the CTA's number in its cluster.
  mlir::Value threadInCta() { return inCta; }
  mlir::Value ctaRank() { return rank ? rank : constant(0); }
  int64_t numThreads() const { return int64_t{32} * options.num_warps * options.num_ctas; }
  /// Return the predicate (tid & mask) == 0. ownerPredicate is true in exactly one of the threads
  /// that hold the same elements in a CTA or cluster. It is null if no two threads share elements.
  enum class Within { cta, cluster };
  mlir::Value ownerPredicate(const ThreadLayout& layout, Within within = Within::cluster);
  mlir::Value threadMaskIsZero(int64_t mask);
  /// Returns (threadId() >> bit) & (2^bits - 1).
  mlir::Value threadField(int64_t bit, int64_t bits);
  /// Returns the conjunction of two predicates. Null means true.
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value bitcast(mlir::Value value, mlir::Type type);
  /// Returns a generic pointer to the kernel parameter that holds this map.
  mlir::Value tensorMap(const program::TensorMap& map);
  /// Returns the address `offset` bytes into the CTA's dynamic shared memory.
  mlir::Value sharedPointer(int64_t offset);
  /// Returns an i32 that is always 0, although neither LLVM nor ptxas can prove it. It is the sign
  /// bit of a view's size, or a constant if the kernel has no view.
  mlir::Value opaqueZero();
  /// Returns an opaque zero that LLVM and ptxas cannot prove to be uniform over the lanes.
  mlir::Value opaqueLaneZero();
  /// Allocates 8-byte aligned stack memory at the thread's entry. Returns a generic pointer to it.
  mlir::Value stackSlot(int64_t bytes);
  /// Returns the address of an i32 variable of this thread, which is 0 when the kernel starts. LLVM
  /// promotes it to a register.
  mlir::Value stackWord();
  /// Returns true if the GPU has bulk copies between global and shared memory (sm_90 and later).
  bool hasBulkCopies() const;
  int numWarps() const { return options.num_warps; }
  mlir::ModuleOp module() { return kernel->getParentOfType<mlir::ModuleOp>(); }
  mlir::Location loc;  // location of the op being lowered

  mlir::LogicalResult lowerBlock(mlir::Block& block);
  /// Runs `lower` with the thread number read again at this point. Values computed from the number
  /// then occupy no registers outside the builder's current block.
  mlir::LogicalResult withOwnThread(llvm::function_ref<mlir::LogicalResult()> lower);
  mlir::LogicalResult lowerOp(mlir::Operation* op);
  /// Inlines a combiner region on scalar arguments and returns the scalars that it yields.
  llvm::SmallVector<mlir::Value> inlineCombiner(mlir::Region& region,
                                                llvm::ArrayRef<mlir::Value> arguments);

 private:
  mlir::LogicalResult createFunction();
  /// Runs `emit` with the builder at the entry of the function, or of the code that withOwnThread
  /// lowers, so that every later op there can use the result.
  template <typename Emit>
  auto atEntry(Emit emit) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(entryEnd);
    return emit();
  }
  mlir::Value threadCoordinate(const LinearLayout& map, int dim);
  /// Converts a thread's number in this CTA to its number in the cluster.
  mlir::Value inCluster(mlir::Value thread);

  std::unique_ptr<AffineTiles> affine;
  mlir::func::FuncOp kernel;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Operation* functionEntryEnd = nullptr;
  // Thread coordinates and other invariants are emitted before this op.
  mlir::Operation* entryEnd = nullptr;
  mlir::Value tid, inCta, rank;  // `rank` is null without clusters
  mlir::Value sharedBase, knownZero;
  std::vector<program::TensorMap> maps;  // kernel parameters after the slots
  llvm::SmallVector<mlir::Value> mapAddresses;
  llvm::DenseMap<mlir::Value, Pieces> values;
  // Elements of vectors that pack() made.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> packed;
  llvm::DenseMap<mlir::Value, mlir::Value> widenedFrom;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<ThreadLayout>> layouts;
  llvm::DenseMap<int64_t, mlir::Value> maskPredicates;
  llvm::DenseMap<std::pair<int64_t, int>, mlir::Value> constants;
};

using LowerFunction = mlir::LogicalResult (*)(ThreadLowering&, mlir::Operation*);

/// Maps op types to lowering functions. Ops with the Elementwise trait need no entry.
class LoweringTable {
 public:
  template <typename Op, mlir::LogicalResult (*lower)(ThreadLowering&, Op)>
  void add() {
    functions[mlir::TypeID::get<Op>()] = [](ThreadLowering& t, mlir::Operation* op) {
      return lower(t, llvm::cast<Op>(op));
    };
  }
  LowerFunction find(mlir::Operation* op) const {
    auto info = op->getName().getRegisteredInfo();
    return info ? functions.lookup(info->getTypeID()) : nullptr;
  }
  static const LoweringTable& get();

 private:
  llvm::DenseMap<mlir::TypeID, LowerFunction> functions;
};

// One function per family of ops.
void addControlFlowLowerings(LoweringTable& table);
void addShapeLowerings(LoweringTable& table);
void addGatherLowerings(LoweringTable& table);
void addCastLowerings(LoweringTable& table);
void addFp8Lowerings(LoweringTable& table);
void addViewLowerings(LoweringTable& table);
void addPointerLowerings(LoweringTable& table);
void addAtomicLowerings(LoweringTable& table);
void addReduceLowerings(LoweringTable& table);
void addDotLowerings(LoweringTable& table);
void addWgmmaLowerings(LoweringTable& table);
void addSharedLowerings(LoweringTable& table);
void addTensorStoreLowerings(LoweringTable& table);
void addMbarrierLowerings(LoweringTable& table);
void addRingLowerings(LoweringTable& table);
void addClusterExchangeLowerings(LoweringTable& table);
void addDebugLowerings(LoweringTable& table);
void addOverlapLowerings(LoweringTable& table);

}  // namespace ligerdsl::compiler::nvptx
