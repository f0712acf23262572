// Analysis that the CPU target runs before it emits code: which tiles have buffers, which loops are
// fused, and the offset of every buffer in the arena. It does not change the IR.
#pragma once

#include <deque>
#include <vector>

#include "compiler/target/cpu/alias.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"

namespace ligerdsl::compiler::cpu {

/// A tile held in the arena, row-major.
struct Buffer {
  mlir::Type element;  // as in the tile; in memory it is storageType(element)
  llvm::SmallVector<int64_t> shape;
  // Region that defines the tile. If a loop inside this region uses the tile, the buffer is kept
  // until the loop ends.
  mlir::Region* home = nullptr;
  int64_t birth = INT64_MAX, death = -1;  // positions of the first write and the last read
  int64_t bytes = 0, offset = -1;
};

enum class SinkKind {
  materialise,  // evaluates `value` into `target`
  storeTile,    // tile.store_tile
  scatter,      // tile.store
  reduce,       // tile.reduce along the lane dimension
  across,       // tile.reduce along another dimension
  ordered       // scans, matmuls, atomics, prints: each has a loop nest of its own
};

/// Work that needs a loop nest: an op that consumes tiles, or a tile to be written to a buffer.
struct Sink {
  SinkKind kind;
  mlir::Operation* op;       // materialise: the op at which the value is evaluated
  mlir::Value value;         // materialise only
  Buffer* target = nullptr;  // materialise only
  Buffer* source = nullptr;  // materialise only: copy this buffer instead of evaluating
};

/// Sinks of one shape that share a loop nest. Each iteration evaluates all sinks, then writes their
/// results.
struct Group {
  llvm::SmallVector<Sink, 2> sinks;
  llvm::SmallVector<int64_t> shape;
  mlir::Block* block = nullptr;
  int64_t first = 0, last = 0;  // positions of the first and last sink
};

/// One entry of a block's schedule: a group, or an op to lower alone (scalar code, control flow,
/// the addresses of a partition access).
struct Step {
  mlir::Operation* op = nullptr;
  int group = -1;
};

/// Returns the dimension that runs across vector lanes: the last one longer than 1, or -1.
int laneDimension(llvm::ArrayRef<int64_t> shape);

/// Returns true for arith and math ops and tile.addptr: one result element per operand element.
bool isElementwise(mlir::Operation* op);

/// Returns the type of a tile value, or null for scalars.
mlir::RankedTensorType tileType(mlir::Value value);

bool isLoop(mlir::Operation* op);

/// Fails with an error at the first op that accesses memory but has no SinkKind.
mlir::LogicalResult verifySinks(mlir::func::FuncOp function);

/// Returns the bytes of an element in memory: 1 for i1, 8 for pointers.
int64_t storageBytes(mlir::Type element);

class Plan {
 public:
  explicit Plan(mlir::func::FuncOp function);

  Buffer* bufferOf(mlir::Value tile) const { return buffers.lookup(tile); }
  llvm::ArrayRef<Step> stepsOf(mlir::Block* block) const { return steps.at(block); }
  const Group& group(int index) const { return groups[index]; }
  int64_t arenaBytes() const { return arena; }
  const AliasFacts& aliases() const { return alias; }
  /// Returns true if no load of this launch may read memory that `store` writes.
  bool isOnlyWritten(mlir::Operation* store) const;
  /// Returns true if `load` is the last read of a resident row that fits in L2. The loop can then
  /// prefetch the next program's row.
  bool endsRow(tile::LoadTileOp load) const;
  /// Returns true if a group before `group` has already evaluated `load`, so that the caches hold
  /// the tile.
  bool readsAgain(mlir::Operation* load, const Group& group) const {
    auto first = firstReads.find(load);
    return first != firstReads.end() && group.first > first->second;
  }

  /// Loads, buffers and ops that are needed to evaluate a sink at one index. `identity` is true if
  /// the load or buffer is read at that index, not at another one.
  struct Reads {
    struct Access {
      mlir::Operation* load;
      bool identity;
    };
    struct Stored {
      Buffer* buffer;
      bool identity;
    };
    llvm::SmallVector<Access> loads;          // evaluated in the sink's loop
    llvm::SmallVector<Stored> buffers;        // read back
    llvm::SmallVector<mlir::Operation*> ops;  // evaluated in the sink's loop
  };
  Reads readsOf(const Sink& sink) const;
  /// Returns true if a sink of the group reads `target`, a buffer that another sink of the group
  /// writes, through a reshape.
  bool readsBackReshaped(const Group& group, const Buffer* target) const;

 private:
  void number(mlir::Operation* op);
  void giveBuffer(mlir::Value tile, mlir::Region* home);
  void assignStructuralBuffers();
  void carryThroughWhile(mlir::scf::WhileOp loop);

  void schedule();
  void scheduleBlock(mlir::Block* block);
  void scheduleOp(mlir::Operation* op);
  void scheduleTile(mlir::Operation* op);
  void scheduleYields(mlir::Operation* terminator);
  void addSink(Sink sink, llvm::ArrayRef<int64_t> shape);
  bool mayJoin(const Sink& sink, llvm::ArrayRef<int64_t> shape) const;
  bool conflicts(const Sink& writer, const Sink& reader) const;
  void flush();
  bool pendingWritesMayTouch(mlir::Operation* load) const;
  bool usesPendingResult(mlir::Operation* op) const;
  bool isEvaluatedByReaders(mlir::Operation* op) const;
  llvm::SmallVector<std::pair<mlir::Value, Buffer*>> yieldedTiles(
      mlir::Operation* terminator) const;

  bool materialiseMore();
  bool isReadBy(mlir::Operation* op, const llvm::SetVector<mlir::Operation*>& others) const;
  mlir::Operation* hazard(mlir::Operation* load, bool identity, int groupIndex) const;
  int64_t endOfUse(mlir::Operation* user, mlir::Region* home) const;
  void collect(mlir::Value value, bool identity, Reads& reads,
               llvm::DenseSet<std::pair<mlir::Value, int>>& seen) const;
  void collectOp(mlir::Operation* op, bool identity, Reads& reads,
                 llvm::DenseSet<std::pair<mlir::Value, int>>& seen) const;
  void findFirstReads();
  void measureLifetimes();
  void placeBuffers();

  mlir::func::FuncOp function;
  AliasFacts alias;
  // Start and end of each op, as positions in program order.
  llvm::DenseMap<mlir::Operation*, std::pair<int64_t, int64_t>> span;
  llvm::SmallVector<mlir::Operation*> loads, writes;
  std::deque<Buffer> storage;
  llvm::DenseMap<mlir::Value, Buffer*> buffers;
  // Temporary buffers of yielded tiles that cannot be written to their buffers directly.
  llvm::DenseMap<mlir::Value, Buffer*> temporaries;
  llvm::DenseSet<mlir::Value> materialised;  // loads and expressions kept in buffers
  // Position of the first group that evaluates a load.
  llvm::DenseMap<mlir::Operation*, int64_t> firstReads;
  std::vector<Group> groups;
  std::map<mlir::Block*, std::vector<Step>> steps;
  std::vector<Step>* current = nullptr;
  std::optional<Group> pending;
  llvm::DenseSet<mlir::Value> pendingResults;
  int64_t arena = 0, counter = 0;
};

}  // namespace ligerdsl::compiler::cpu
