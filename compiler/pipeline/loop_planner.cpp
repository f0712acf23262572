#include "compiler/pipeline/loop_planner.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/pipeline/tma_copies.h"
#include "compiler/pipeline/wgmma_dots.h"

using namespace mlir;

namespace ligerdsl::compiler {

int64_t LoopPlanner::bytesPerThread(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  Type element = getElementTypeOrSelf(type);
  int64_t bytes = element.isIntOrFloat() ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8) : 8;
  return bytes *
         (tensor ? llvm::divideCeil(tensor.getNumElements(), target.threads * target.ctas) : 1);
}

LogicalResult LoopPlanner::plan() {
  erasePlan(loop);
  if (stages < 2) {
    remarkNoTma("TMA copies need two stages or more; raise num_stages");
    return success();
  }
  if (Operation* atomic = reach.collectWrites()) return remarkAtomic(atomic), success();
  collectLoads();
  if (ahead.empty()) return remarkNothingToLoad(), success();

  int64_t bytes = 0, carried = 0;
  for (tile::LoadTileOp load : ahead) bytes += bytesPerThread(load.getType());
  for (Type type : loop.getResultTypes()) carried += bytesPerThread(type);
  const program::GpuTuning& tuning = target.arch.tuning;
  const int64_t budget = carriedBudget() - carried;
  const int64_t depth = std::min(stages - 1, budget / std::max<int64_t>(bytes, 1));
  const bool crowded = carried * 8 >= target.registers * tuning.crowded_eighths;

  const RingFit fit = room.fit(chooseTiles(), stages);
  const bool operands = fit.tiles.haveOperands();
  if (operands && !fit.fits)
    remark(loop, RemarkId::no_room_for_dot_operands)
        << "dot operands pass through registers: "
        << (room.slotBytes(fit.tiles) > 0
                ? reasonNoRoom(fit)
                : "no tile that the loop loads ahead can be staged in shared memory");
  const bool ample = (carried + bytes) * 16 <= target.registers * tuning.ample_sixteenths;
  // Loads of ragged rows to registers would need branches for the vectors at a row's start and end.
  // A branch waits for the thread's other loads.
  const bool ragged = llvm::any_of(fit.tiles.ahead, [](const LoadedTile& tile) {
    return tile.inSlot && tile::LoadTileOp(tile.load).getAlignmentOffset();
  });
  if (depth > 0 && (!fit.fits || (ample && !operands && !ragged)))
    planRegisters(fit, depth);
  else if (fit.fits)
    return planRing(fit, crowded);
  else
    planPrefetch(fit, bytes, budget);
  return success();
}

void LoopPlanner::collectLoads() {
  for (tile::LoadTileOp load : loop.getBody()->getOps<tile::LoadTileOp>()) {
    switch (reach.of(load)) {
      case LoadReach::Reach::ahead:
        ahead.push_back(load);
        break;
      case LoadReach::Reach::always:
        once.push_back(load);
        break;
      case LoadReach::Reach::none:
        remark(load, RemarkId::load_not_ahead) << "not loaded ahead: " << at.reasonNotAhead;
        break;
    }
  }
}

// Returns the tiles of the loop. Assumes TMA copies if the loop requests them, can use them and
// needs them, for example for tiles with fewer vectors than threads. Otherwise assumes copies by
// all threads.
LoopTiles LoopPlanner::chooseTiles() {
  // In an outer loop, copies may continue across its iterations, which reasonNoTma would have to
  // know.
  const bool inLoop = isa<scf::ForOp>(loop->getParentOp());
  LoopTiles tiles = staging.tilesOf(ahead, once, Copies::threads);
  Copies copies = Copies::threads;
  if (asksForTma() && target.arch.wgmma && target.ctas == 1 && !inLoop) {
    LoopTiles byTma = staging.tilesOf(ahead, once, Copies::tma);
    if (staging.needTma(byTma)) {
      const RingFit fit = room.fit(byTma, stages);
      if (fit.fits && reasonNoTma(fit, nullptr).empty()) {
        tiles = std::move(byTma);
        copies = Copies::tma;
      }
    }
  }
  staging.remarkOthers(tiles, copies);
  if (target.ctas == 1 || !tiles.haveOperands()) return tiles;
  const std::string why = reasonNotShared(tiles);
  if (why.empty()) return tiles;
  remarkNoTma("the CTAs of the cluster cannot share the operands of a dot: " + why);
  return staging.tilesWithoutOperands(ahead, once);
}

// Returns a cluster's bytes divided by its CTAs, for remarks.
std::string LoopPlanner::perCta(int64_t bytesOfCluster) const {
  return std::to_string(std::max<int64_t>(bytesOfCluster, 0) / target.ctas);
}

// Returns the reason for a remark: shared memory does not hold two iterations.
std::string LoopPlanner::reasonNoRoom(const RingFit& fit) const {
  return "two iterations of the loop's tiles take " + perCta(2 * room.slotBytes(fit.tiles)) +
         " bytes of shared memory per CTA, and " + perCta(fit.room) +
         " are left; use smaller tiles";
}

std::string LoopPlanner::reasonArchHasNoWgmma() const {
  return std::string(target.arch.name) + " has no wgmma; only target sm_90a has it";
}

// Returns why the CTAs of a cluster cannot share the loop's operands, or "" if they can.
std::string LoopPlanner::reasonNotShared(const LoopTiles& tiles) {
  auto outer = dyn_cast<scf::ForOp>(loop->getParentOp());
  Operation* scope = outer ? outer.getOperation() : loop.getOperation();
  if (!isa<func::FuncOp>(scope->getParentOp()))
    return "the loop is inside a branch, dynamic_persistent, a while loop or more than one for "
           "loop; put it in the kernel's body, or in one for_range of that body";
  const RingFit fit = room.fit(tiles, stages);
  const int64_t held = fit.fits ? fit.stages : 2;
  const int64_t needed = held * room.slotBytes(fit.tiles) + 2 * barrierBytes(held) * target.ctas;
  const int64_t left = fit.fits ? room.left(scope, fit.tiles) : fit.room;
  if (!fit.fits || needed > left)
    return std::to_string(held) + " iterations take " + perCta(needed) +
           " bytes of shared memory per CTA, and " + perCta(left) +
           " are left; use smaller tiles or fewer stages";
  if (!target.arch.wgmma) return reasonArchHasNoWgmma();
  return reasonNoTmaCopies(at, fit.tiles, target.ctas, fit.stages, nullptr);
}

// Returns why TMA copies cannot fill the ring, or "" if they can. The ring is allocated before the
// outermost loop. It is empty after this loop, unless its copies continue across the outer loop.
std::string LoopPlanner::reasonNoTma(const RingFit& fit, const OuterLoopPipeline* pipeline) {
  if (!target.arch.wgmma) return reasonArchHasNoWgmma();
  std::string why = reasonNoTmaCopies(at, fit.tiles, target.ctas, fit.stages, pipeline);
  Operation* scope = pipeline ? pipeline->outer : loop;
  const int64_t barriers =
      target.ctas > 1 ? 2 * barrierBytes(fit.stages) * target.ctas : barrierBytes(fit.stages);
  if (!why.empty()) return why;
  const int64_t needed = fit.stages * room.slotBytes(fit.tiles) + barriers,
                left = room.left(scope, fit.tiles);
  if (needed <= left) return "";
  return "the tiles and mbarriers take " + perCta(needed) +
         " bytes of shared memory per CTA, and " + perCta(left) +
         " are left; use smaller tiles or fewer stages";
}

// Returns the combined pipeline of the outer loop and this loop, if this loop has dots that read
// slots, as in a persistent kernel. Emits a remark if its copies cannot continue across iterations
// of the outer loop.
std::optional<OuterLoopPipeline> LoopPlanner::outerPipeline(const RingFit& fit) {
  if (!fit.tiles.haveOperands() || !fit.tiles.once.empty() || !isa<scf::ForOp>(loop->getParentOp()))
    return std::nullopt;
  const int64_t bytes = fit.stages * room.slotBytes(fit.tiles);
  std::string why;
  std::optional<OuterLoopPipeline> pipeline;
  if (!llvm::all_of(fit.tiles.ahead, [](const LoadedTile& tile) { return tile.inSlot; }))
    why = "only some of the loop's tiles can be staged in shared memory";
  else if ((pipeline = OuterLoopPipeline::around(at, loadsOf(fit.tiles.ahead), why)) &&
           bytes > room.left(pipeline->outer, fit.tiles)) {
    why = "their tiles take " + perCta(bytes) +
          " bytes of shared memory per CTA, and the outer loop's body leaves " +
          perCta(room.left(pipeline->outer, fit.tiles)) + "; use smaller tiles or fewer stages";
    pipeline.reset();
  } else if (pipeline) {
    const int64_t later = room.bytesOfLaterLoops(pipeline->outer);
    if (later > 0 && bytes + later > room.left(pipeline->outer, fit.tiles)) {
      why = "their tiles take " + perCta(bytes) +
            " bytes of shared memory per CTA, those of later " + "loops " + perCta(later) +
            ", and " + perCta(room.left(pipeline->outer, fit.tiles)) +
            " are left; use smaller tiles or fewer stages";
      pipeline.reset();
    }
  }
  if (!pipeline)
    remark(loop, RemarkId::not_ahead_across_outer_loop)
        << "loads are not issued ahead from one iteration of the outer loop to the next: " << why;
  return pipeline;
}

//===-- One mechanism each --===//

void LoopPlanner::planRegisters(const RingFit& fit, int64_t depth) {
  if (depth < stages - 1)
    remark(loop, RemarkId::fewer_stages_in_registers)
        << "loads are issued " << depth << " iterations ahead, not " << stages - 1
        << ": more would take more than " << carriedBudget()
        << " bytes of registers per thread; use smaller tiles, more warps or fewer stages";
  remarkMmaSync({}, Copies::threads);
  remarkNoTma("the loop's tiles stay in registers");
  writePlan(loop, {Mechanism::registers, depth + 1}, inRegisters(fit.tiles));
}

LogicalResult LoopPlanner::planRing(const RingFit& fit, bool crowded) {
  const bool operands = fit.tiles.haveOperands();
  if (fit.stages < stages)
    remark(loop, RemarkId::fewer_stages_in_shared_memory)
        << "loads are issued " << fit.stages - 1 << " iterations ahead, not " << stages - 1
        << ": shared memory holds the tiles of " << fit.stages
        << " iterations; use smaller tiles or fewer stages";
  const std::optional<OuterLoopPipeline> pipeline = outerPipeline(fit);
  std::string reasonNoCopies;
  if (asksForTma()) reasonNoCopies = reasonNoTma(fit, pipeline ? &*pipeline : nullptr);
  if (!reasonNoCopies.empty()) remarkNoTma(reasonNoCopies);
  const bool byTma = asksForTma() && reasonNoCopies.empty();
  if (target.ctas > 1 && operands && !byTma)
    return loop.emitError() << "num_ctas = " << target.ctas
                            << ": the CTAs of a cluster share the operands of a dot only by TMA "
                               "copies, which are not possible: "
                            << reasonNoCopies << "; use num_ctas = 1";
  for (const auto& tiles : {fit.tiles.ahead, fit.tiles.once})
    for (const LoadedTile& part : LoopTiles::partsOf(tiles)) remarkHints(part.load);
  const LoopPlan plan{Mechanism::ring, fit.stages, byTma ? Copies::tma : Copies::threads,
                      crowded || target.ctas > 1 || operands, pipeline.has_value()};
  remarkMmaSync(fit.tiles, plan.copies);
  writePlan(loop, plan, fit.tiles);
  return success();
}

void LoopPlanner::planPrefetch(const RingFit& fit, int64_t bytes, int64_t budget) {
  remark(loop, RemarkId::only_prefetched_to_l2)
      << "tiles of the next iteration are only prefetched to L2: in registers they take " << bytes
      << " bytes per thread, and " << std::max<int64_t>(0, budget)
      << " are left; use smaller tiles or more warps";
  for (tile::LoadTileOp load : loadsOf(fit.tiles.ahead)) {
    std::string why = staging.reasonNotStaged(load, Copies::threads);
    if (why.empty()) why = reasonNoRoom(fit);
    remark(load, RemarkId::load_not_staged) << "not staged in shared memory: " << why;
  }
  remarkMmaSync({}, Copies::threads);
  remarkNoTma("the loop's tiles are not staged in shared memory; see the remarks on its loads");
  writePlan(loop, {Mechanism::prefetch}, inRegisters(fit.tiles));
}

// Returns the tiles that are loaded ahead, all in registers.
LoopTiles LoopPlanner::inRegisters(LoopTiles tiles) {
  for (LoadedTile& tile : tiles.ahead) tile.inSlot = false;
  tiles.once.clear();
  return tiles;
}

//===-- Remarks --===//

void LoopPlanner::remarkAtomic(Operation* atomic) {
  if (isAskedByAuthor() || !loop.getBody()->getOps<tile::LoadTileOp>().empty())
    remark(loop, RemarkId::atomic_in_loop)
        << "no load is issued ahead: the atomic at " << placeOf(atomic)
        << " may synchronise with other programs, whose writes later iterations read; move the "
           "atomic out of the loop";
}

// Emits a remark if the author set num_stages, but the body itself has no load. Each load that did
// not qualify has its own remark, and blocks of resident rows are already copied ahead.
void LoopPlanner::remarkNothingToLoad() {
  Block& body = *loop.getBody();
  if (isAskedByAuthor() && body.getOps<tile::LoadTileOp>().empty() &&
      body.getOps<tgpu::RingReadOp>().empty())
    remark(loop, RemarkId::nothing_to_load_ahead)
        << "without effect: the loop's body itself loads no tile of a partition (loads in inner "
           "loops and branches, and gathers, are not issued ahead); pipeline the loop whose body "
           "loads tiles";
}

void LoopPlanner::remarkNoTma(const std::string& why) {
  if (asksForTma())
    remark(loop, RemarkId::no_tensor_copies) << "tensor_copies = true: not done: " << why;
}

// Emits a remark on an ignored hint. Copies to shared memory have no eviction policy;
// set_eviction_policy.cpp explains why.
void LoopPlanner::remarkHints(tile::LoadTileOp load) {
  const bool policy =
      load.getEvict() == tile::EvictHint::first || load.getEvict() == tile::EvictHint::last;
  if (!policy && load.getCache() == tile::CacheHint::normal) return;
  remark(load, RemarkId::load_hint_ignored)
      << "the load's " << (policy ? "eviction policy" : "cache hint")
      << " is ignored: asynchronous copies to shared memory take none; omit it, or use smaller "
         "tiles or fewer stages so that the tile stays in registers";
}

void remarkNoWgmma(tile::DotOp dot, const std::string& why) {
  if (!why.empty()) missed(dot, RemarkId::wgmma_not_used) << "wgmma: not used: " << why;
}

// Emits a remark on each dot that has the layouts of wgmma but does not become a wgmma, because its
// operands are not in swizzled slots or not rounded to tf32. Only TMA copies round f32 to tf32, and
// they are used only if wgmma computes every dot of the loop.
void LoopPlanner::remarkMmaSync(const LoopTiles& tiles, Copies copies) {
  if (!target.arch.wgmma) return;
  const Conversions vanishing = tiles.vanishing();
  const auto source = [](Value operand) -> Operation* {
    if (auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>())
      operand = conversion.getSource();
    if (auto permute = operand.getDefiningOp<tile::PermuteOp>()) operand = permute.getSource();
    return operand.getDefiningOp();
  };
  const auto isIn = [](Operation* load, ArrayRef<LoadedTile> all, bool inSlot) {
    return llvm::any_of(
        all, [&](const LoadedTile& tile) { return tile.load == load && tile.inSlot == inSlot; });
  };
  const auto placeOf = [&](Value operand) -> OperandPlace {
    Operation* read = source(operand);
    auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>();
    if (vanishing.contains(conversion)) operand = conversion.getSource();
    return {isa_and_nonnull<tgpu::RingReadOp>(read) || isIn(read, tiles.ahead, true) ||
                isIn(read, tiles.once, true),
            operand.getDefiningOp<tile::PermuteOp>() != nullptr};
  };
  const WgmmaDots made(loop, tiles, /*roundsF32=*/copies == Copies::tma);
  for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
    Operation* read = source(dot.getB());
    if (!made.contains(dot) && !reported.contains(dot) && hasWgmmaLayouts(dot) &&
        isa_and_nonnull<tile::LoadTileOp, tgpu::RingReadOp>(read) &&
        !isIn(read, tiles.ahead, false))
      remarkNoWgmma(dot, reasonNotInSlots(dot, placeOf, /*roundsF32=*/false));
  }
}

}  // namespace ligerdsl::compiler
