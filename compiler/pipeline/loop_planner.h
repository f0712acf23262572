// Plans how one loop issues its loads ahead, and reports requests that are not fulfilled. Writes
// the plan (loop_plan.h) as attributes and changes nothing else.
#pragma once

#include "compiler/pipeline/dot_operand_staging.h"
#include "compiler/pipeline/load_reach.h"
#include "compiler/pipeline/outer_loop_pipeline.h"
#include "compiler/pipeline/ring_room.h"
#include "program/gpu_arch.h"

namespace ligerdsl::compiler {

using Dots = llvm::SmallPtrSet<mlir::Operation*, 4>;

/// Emits a remark on a dot that wgmma does not compute, unless `why` is empty.
void remarkNoWgmma(tile::DotOp dot, const std::string& why);

class LoopPlanner {
 public:
  struct Target {
    const program::GpuArch& arch;
    int64_t threads, ctas;  // threads per CTA, CTAs per cluster
    int64_t registers;      // register bytes per thread
    int64_t sharedBytes;    // per CTA, of which exchanges get at least `leastForExchanges`
    int64_t leastForExchanges;
  };

  /// Dots in `reported` already have a remark.
  LoopPlanner(mlir::scf::ForOp loop, int64_t stages, const Target& target, const Dots& reported)
      : at{loop, stages, ""},
        loop(loop),
        stages(stages),
        target(target),
        reported(reported),
        reach(at),
        staging(at, target.threads, target.ctas),
        room{loop, target.ctas, target.sharedBytes, target.leastForExchanges} {}

  /// Plans the loop. Writes no plan if the loads stay in their iterations. Fails after it has
  /// emitted an error.
  mlir::LogicalResult plan();

 private:
  bool asksForTma() { return loop->hasAttr(tile::kTensorCopiesAttr); }
  bool isAskedByAuthor() { return loop->hasAttr(tile::kNumStagesAttr); }
  int64_t bytesPerThread(mlir::Type type) const;
  /// Bytes of registers per thread that carried values may fill.
  int64_t carriedBudget() const {
    return target.registers * target.arch.tuning.carried_eighths / 8;
  }

  void collectLoads();
  LoopTiles chooseTiles();
  std::string reasonNoRoom(const RingFit& fit) const;
  std::string reasonArchHasNoWgmma() const;
  std::string perCta(int64_t bytesOfCluster) const;
  std::string reasonNotShared(const LoopTiles& tiles);
  std::string reasonNoTma(const RingFit& fit, const OuterLoopPipeline* pipeline);
  std::optional<OuterLoopPipeline> outerPipeline(const RingFit& fit);

  static LoopTiles inRegisters(LoopTiles tiles);
  void planRegisters(const RingFit& fit, int64_t depth);
  mlir::LogicalResult planRing(const RingFit& fit, bool crowded);
  void planPrefetch(const RingFit& fit, int64_t bytes, int64_t budget);

  MissedRemark remark(mlir::Operation* op, RemarkId id) { return at.remark(op, id); }
  void remarkAtomic(mlir::Operation* atomic);
  void remarkNothingToLoad();
  void remarkNoTma(const std::string& why);
  void remarkHints(tile::LoadTileOp load);
  void remarkMmaSync(const LoopTiles& tiles, Copies copies);

  PipelinedLoop at;
  mlir::scf::ForOp loop;
  int64_t stages;  // requested by the author or the options
  Target target;
  const Dots& reported;
  LoadReach reach;
  DotOperandStaging staging;
  RingRoom room;
  llvm::SmallVector<tile::LoadTileOp> ahead;  // can be issued ahead
  llvm::SmallVector<tile::LoadTileOp> once;   // the same in all iterations
};

}  // namespace ligerdsl::compiler
