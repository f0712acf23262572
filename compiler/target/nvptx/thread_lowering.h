// From laid-out tiles to the code of one thread.
//
// A tile with a #tgpu.layout is held by a thread as a list of *pieces*, values of vector<VxT> (or T when V is 1), in
// the layout's register order. V depends on the layout alone (runs of neighbours along the last dimension, at most
// kMaxWidth), so tiles of one layout and different element types have pieces that correspond one to one, and an
// elementwise op on tiles is the same op on each piece. Scalars and pointers are one piece (pointers as i64 addresses),
// views are their launch slots.
//
// ThreadLowering walks the kernel once, in order, and builds an llvm.func of arith, math, scf, llvm and nvvm ops. What
// an op becomes is decided by a function registered for it (LoweringTable); one file per op family registers its own.
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

/// What the lowering keeps about one layout.
struct ThreadLayout {
  LinearLayout map;
  int64_t width;                          // elements of one piece
  bool disjoint;                          // register offsets add to the thread's coordinates; otherwise exclusive or
  llvm::SmallVector<mlir::Value> origin;  // i32 per dimension: the coordinates of register 0 of this thread

  int64_t registers() const { return map.registers(); }
  int64_t pieces() const { return map.registers() / width; }
};

/// A coordinate of one register of this thread: `base + offset`.
struct Coordinate {
  mlir::Value base;  // i32
  int64_t offset;
};

class AffineTiles;

class ThreadLowering {
 public:
  ThreadLowering(mlir::func::FuncOp kernel, const program::CompileOptions& options);
  ~ThreadLowering();
  /// Replaces the kernel by an llvm.func; fails after emitting a diagnostic at the offending op.
  mlir::LogicalResult run();

  mlir::OpBuilder b;
  const program::CompileOptions& options;
  WideProducts wideProducts;
  const program::GpuArch& arch() const { return *program::find_gpu_arch(options.arch); }

  // --- values --------------------------------------------------------------------------------------------------------
  const Pieces& pieces(mlir::Value tile) const;
  mlir::Value scalar(mlir::Value value) const { return pieces(value)[0]; }
  void define(mlir::Value original, Pieces pieces);
  /// The per-register elements of a tile; a scalar gives one.
  llvm::SmallVector<mlir::Value> elements(mlir::Value tile);
  /// Defines a tile (or scalar) by its per-register elements.
  void defineElements(mlir::Value tile, llvm::ArrayRef<mlir::Value> elements);
  mlir::Value extract(mlir::Value piece, int64_t index);
  /// One vector of these scalars; a single scalar stays itself.
  mlir::Value pack(llvm::ArrayRef<mlir::Value> elements);
  /// Remembers of an f32 element which narrower one it was widened from.
  void noteWidened(mlir::Value wide, mlir::Value narrow) { widenedFrom[wide] = narrow; }
  /// The narrower element, or null.
  mlir::Value narrowOf(mlir::Value wide) const { return widenedFrom.lookup(wide); }

  // --- types and layouts ---------------------------------------------------------------------------------------------
  /// The element type in a thread: pointers are i64 addresses.
  mlir::Type elementType(mlir::Type type) const;
  /// The type of one piece of a value of this type, and how many there are.
  mlir::Type pieceType(mlir::Type type);
  int64_t pieceCount(mlir::Type type);
  const ThreadLayout& layout(mlir::RankedTensorType type);
  Coordinate coordinate(const ThreadLayout& layout, int64_t reg, int dim);

  // --- small code ----------------------------------------------------------------------------------------------------
  mlir::Value constant(int64_t value, int bits = 32);
  mlir::Value zero(mlir::Type type);
  /// The thread's number in its cluster: lane bits lowest, then warp, then CTA.
  mlir::Value threadId() { return tid; }
  /// The thread's number in its CTA, and the CTA's in its cluster.
  mlir::Value threadInCta() { return inCta; }
  mlir::Value ctaRank() { return rank ? rank : constant(0); }
  int64_t numThreads() const { return int64_t{32} * options.num_warps * options.num_ctas; }
  /// True in the thread that stores for its replicas, in its CTA or in the cluster: (tid & mask) == 0. Null when every
  /// thread stores.
  enum class Within { cta, cluster };
  mlir::Value ownerPredicate(const ThreadLayout& layout, Within within = Within::cluster);
  mlir::Value threadMaskIsZero(int64_t mask);
  /// (threadId() >> bit) & (2^bits - 1)
  mlir::Value threadField(int64_t bit, int64_t bits);
  /// `a` and `b`, either of which may be null (= true).
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value bitcast(mlir::Value value, mlir::Type type);
  /// Address of the kernel's parameter that is this map (a generic pointer).
  mlir::Value tensorMap(const program::TensorMap& map);
  /// Address of `offset` bytes into the CTA's dynamic shared memory.
  mlir::Value sharedPointer(int64_t offset);
  /// An i32 that is 0 in every launch, which neither LLVM nor ptxas can know: the sign of a view's size.
  mlir::Value opaqueZero();
  /// The same, and neither knows that it is equal in all lanes.
  mlir::Value opaqueLaneZero();
  /// Stack memory of the thread, allocated once, 8-byte aligned (a generic pointer).
  mlir::Value stackSlot(int64_t bytes);
  /// The address of an i32 of the thread that is 0 when the kernel starts. It becomes a register.
  mlir::Value stackWord();
  /// Whether the GPU copies between global and shared memory by itself.
  bool hasBulkCopies() const;
  int numWarps() const { return options.num_warps; }
  mlir::ModuleOp module() { return kernel->getParentOfType<mlir::ModuleOp>(); }
  mlir::Location loc;  // of the op being lowered

  mlir::LogicalResult lowerBlock(mlir::Block& block);
  /// Runs `lower` with a thread's number of its own, read here: what is computed of it waits in no registers outside of the
  /// block that the builder is in.
  mlir::LogicalResult withOwnThread(llvm::function_ref<mlir::LogicalResult()> lower);
  mlir::LogicalResult lowerOp(mlir::Operation* op);
  /// Inlines a combiner region (without its terminator): scalars in, scalars out.
  llvm::SmallVector<mlir::Value> inlineCombiner(mlir::Region& region, llvm::ArrayRef<mlir::Value> arguments);

 private:
  mlir::LogicalResult createFunction();
  /// Runs `emit` with the builder at the head of the function, where every later op may use the result.
  template <typename Emit>
  auto atEntry(Emit emit) {
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(entryEnd);
    return emit();
  }
  mlir::Value threadCoordinate(const LinearLayout& map, int dim);
  /// The number in the cluster of a thread of this CTA.
  mlir::Value inCluster(mlir::Value thread);

  std::unique_ptr<AffineTiles> affine;
  mlir::func::FuncOp kernel;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Operation* functionEntryEnd = nullptr;
  mlir::Operation* entryEnd = nullptr;  // thread coordinates and other invariants are emitted before this op
  mlir::Value tid, inCta, rank;         // no rank: no clusters
  mlir::Value sharedBase, knownZero;
  std::vector<program::TensorMap> maps;  // parameters behind the slots
  llvm::SmallVector<mlir::Value> mapAddresses;
  llvm::DenseMap<mlir::Value, Pieces> values;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> packed;  // vectors made by pack()
  llvm::DenseMap<mlir::Value, mlir::Value> widenedFrom;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<ThreadLayout>> layouts;
  llvm::DenseMap<int64_t, mlir::Value> maskPredicates;
  llvm::DenseMap<std::pair<int64_t, int>, mlir::Value> constants;
};

using LowerFunction = mlir::LogicalResult (*)(ThreadLowering&, mlir::Operation*);

/// Op type -> how it is lowered. Ops that are elementwise by trait need no entry.
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

// One per family file.
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
