// tile-prefetch-loads
//
// In a loop that asks for num_stages >= 2 (its own attribute, else the compile option), loads are
// issued num_stages - 1 iterations before their use. Until then the values are in registers or in
// shared memory. So memory stays busy while an iteration computes.
//
//   1. A load_tile of the loop's body qualifies if its indices are pure functions of the induction
//      variable and of values from outside. No store of the loop may touch what it reads ahead
//      (rule S).
//   2. The values that the loop carries must fit in a part of the registers (carriedBudget).
//      Otherwise fewer iterations are in flight.
//   3. Each qualifying load becomes one load per stage before the loop, one in the body for the
//      iteration num_stages - 1 ahead, and a carried value in place of the load.
//   4. If that would leave few registers, tiles of whole vectors are staged in a ring (tgpu.ring).
//      * Each thread copies its part of a tile to a slot ahead of time and reads it there, possibly
//        more than once.
//      * The ring has num_stages slots, or fewer if they do not fit, and at least two. A load that
//        cannot be staged is issued one iteration ahead. In a cluster a slot holds the CTA's part
//        of a tile.
//      * Copies start before the body's first reduction. At the top they would delay the
//        iteration's own reads of shared memory, because both use one queue, and warps wait for
//        each other at a reduction anyway.
//      * Copies start at the top if carried values leave no registers for addresses (GpuTuning),
//        and in clusters, where that measured faster.
//   5. Operands of matmuls that no thread uses alone are always staged.
//      * All threads copy them, synchronise, and read them in the dot's layout. ldmatrix reads
//        swizzled rows, or wgmma the slots themselves (pipeline/wgmma_dots.h).
//      * If wgmmas may stay in flight across iterations, an iteration starts with its wgmmas.
//        Otherwise the wait for a dot is at the first reader of its accumulator.
//      * If the loop asks for TMA copies and only wgmma reads the tiles, one thread copies whole
//        tiles. Each slot has an mbarrier. Nothing is copied for iterations that the loop does not
//        have.
//      * If such a loop is in the body of another loop, as in a persistent kernel, its copies
//        continue across iterations of that loop (pipeline/outer_loop_pipeline.h). They arrive
//        while the accumulator is stored.
//      * A tile may be equal in all iterations, and loaded in each for lack of registers. It is
//        copied once if it is the A of a dot and leaves room for two stages. In a cluster any such
//        tile is copied once if it fits after all stages. For other tiles of a single CTA that did
//        not measure faster.
//      * Rings of consecutive loops may share memory, because each is empty after its loop
//        (tgpu-allocate-shared). A ring that continues across outer iterations is not empty. So
//        copies continue only if there is also room for what later loops would stage.
//   6. If shared memory is too small as well, the loads stay. The body begins with a prefetch of
//      the next iteration's tiles to L2 (prefetch_tile).
//
// Loads past the loop's end read tiles that nobody uses. A view's bounds are tested for every index
// that is not a constant, so outside of the view they read no memory.
//
// Rule S: a store does not prevent a load from moving ahead in two cases. The two cannot overlap
// (alias facts). Or the store comes after the load, both use equal partitions of one memory, and
// they share an index that differs between iterations. Then the store is at iv, the load at iv + n
// step.
//
// A load that does not qualify, and a loop that gets fewer stages than it asked for, is a remark.
// So is each dot of tensor cores that wgmma does not compute (analysis/wgmma_choice.h).
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/analysis/wgmma_choice.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/pipeline/dot_operand_staging.h"
#include "compiler/pipeline/loop_ring.h"
#include "compiler/pipeline/pipelined_loop.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEPREFETCHLOADSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

using Dots = llvm::SmallPtrSet<Operation*, 4>;

void remarkNoWgmma(tile::DotOp dot, const std::string& why) {
  if (!why.empty()) missed(dot, RemarkId::wgmma_not_used) << "wgmma: not used: " << why;
}

class LoopPrefetcher {
 public:
  // `threads` per CTA, `ctas` per cluster, `registers` in bytes per thread. `sharedBytes` per CTA,
  // of which exchanges get at least `leastForExchanges`. Dots of `reported` have a remark already.
  LoopPrefetcher(scf::ForOp loop, int64_t stages, int64_t threads, int64_t ctas, int64_t registers,
                 const program::GpuArch& arch, int64_t sharedBytes, int64_t leastForExchanges,
                 const Dots& reported)
      : at{loop, stages, ""},
        loop(loop),
        stages(stages),
        depth(stages - 1),
        fittingStages(stages),
        threads(threads),
        ctas(ctas),
        registers(registers),
        carriedBudget(registers * arch.tuning.carried_eighths / 8),
        sharedBytes(sharedBytes),
        leastForExchanges(leastForExchanges),
        tuning(arch.tuning),
        wgmma(arch.wgmma),
        reported(reported),
        operands(at, loads, threads, ctas) {}

  /// Returns true if an error was reported.
  bool hasError() const { return hasFailed; }
  /// Ops around the loop that were replaced too.
  ArrayRef<LoopCarriedState::Replaced> replacedAround() const { return around; }

  void run() {
    if (depth < 1) return remarkNoTensorCopies("they need two stages or more");
    if (Operation* atomic = collectWrites()) return remarkAtomic(atomic);
    int64_t bytes = 0, carried = 0;
    for (tile::LoadTileOp load : loop.getBody()->getOps<tile::LoadTileOp>()) {
      switch (reach(load)) {
        case Reach::ahead:
          loads.push_back(load);
          bytes += bytesPerThread(load.getType());
          break;
        case Reach::always:
          stationary.push_back(load);
          break;
        case Reach::none:
          remark(load, RemarkId::load_not_ahead) << "not loaded ahead: " << at.reasonNotAhead;
          break;
      }
    }
    if (loads.empty()) return remarkNothingToLoad();
    takeOperands();
    if (ctas > 1 && !operands.empty()) {
      if (std::string why = reasonNotShared(); !why.empty()) {
        remarkNoTensorCopies(why + "; every CTA of the cluster computes the whole tile");
        operands.giveAllBack();
      }
    }
    for (Type type : loop.getResultTypes()) carried += bytesPerThread(type);
    const bool crowded = carried * 8 >= registers * tuning.crowded_eighths;
    depth = std::min(depth, (carriedBudget - carried) / std::max<int64_t>(bytes, 1));
    bool ample = (carried + bytes) * 16 <= registers * tuning.ample_sixteenths, fits = findRoom();
    if (!fits) operands.giveBack();
    ample &= operands.empty();
    if (depth > 0 && (ample || !fits)) {
      if (depth < stages - 1)
        remark(loop, RemarkId::fewer_stages_in_registers)
            << "loads are issued " << depth << " iterations ahead, not " << stages - 1
            << ": more would take more than " << carriedBudget
            << " bytes of registers per thread; use smaller tiles, more warps or fewer stages";
      remarkMmaSync(loop);
      remarkNoTensorCopies("its tiles are in registers");
      carryLoads();
    } else if (fits) {
      if (fittingStages < stages)
        remark(loop, RemarkId::fewer_stages_in_shared_memory)
            << "loads are issued " << fittingStages - 1 << " iterations ahead, not " << stages - 1
            << ": shared memory holds the tiles of " << fittingStages
            << " iterations; use smaller tiles or fewer stages";
      std::optional<OuterLoopPipeline> pipeline = outerPipeline();
      Operation* before = loop->getParentOp();
      const bool byTensor = comeByTensorCopies(pipeline ? &*pipeline : nullptr);
      if (ctas > 1 && !operands.empty() && !byTensor) {
        loop.emitError() << "num_ctas is " << ctas
                         << ": a cluster needs its operands by TMA copies, which are not possible: "
                         << reasonNoCopies << "; use num_ctas = 1";
        hasFailed = true;
        return;
      }
      LoopRing ring(at, operands, {ctas, wgmma, crowded, byTensor});
      remarkMmaSync(pipeline ? ring.stage(loads, *pipeline, fittingStages)
                             : ring.stage(loads, stationary, fittingStages));
      llvm::append_range(around, ring.replaced());
      if (pipeline) around.push_back({before, pipeline->outer});
    } else {
      remarkNoRoom(bytes, carried);
      remarkMmaSync(loop);
      remarkNoTensorCopies("its tiles are not staged in shared memory");
      askForNext();
    }
  }

 private:
  // Collects the loop's writes. Returns an atomic or an op with unknown effects, if there is one:
  // it may communicate with other programs and announce what a later load reads.
  Operation* collectWrites() {
    Operation* atomic = nullptr;
    loop.getBody()->walk([&](Operation* op) {
      FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
      if (failed(accesses) ||
          llvm::any_of(*accesses, [](const MemoryAccess& access) { return access.atomic; })) {
        atomic = op;
        return WalkResult::interrupt();
      }
      for (const MemoryAccess& access : *accesses)
        if (access.writes) writes.push_back(access);
      return WalkResult::advance();
    });
    return atomic;
  }

  //===-- Remarks --===//

  MissedRemark remark(Operation* op, RemarkId id) { return at.remark(op, id); }

  bool isAskedByAuthor() { return loop->hasAttr(tile::kNumStagesAttr); }

  void remarkAtomic(Operation* atomic) {
    if (isAskedByAuthor() || !loop.getBody()->getOps<tile::LoadTileOp>().empty())
      remark(loop, RemarkId::atomic_in_loop)
          << "no load is issued ahead: the atomic at " << placeOf(atomic)
          << " may announce what a later iteration reads; take it out of the loop";
  }

  // Each load that did not qualify has its own remark. Blocks of resident rows are copied ahead
  // already.
  void remarkNothingToLoad() {
    Block& body = *loop.getBody();
    if (isAskedByAuthor() && body.getOps<tile::LoadTileOp>().empty() &&
        body.getOps<tgpu::RingReadOp>().empty())
      remark(loop, RemarkId::nothing_to_load_ahead)
          << "without effect: the loop's body loads no tile of a partition; loads in inner loops "
             "and "
             "branches, and gathers, are not issued ahead";
  }

  bool asksForTensorCopies() { return loop->hasAttr(tile::kTensorCopiesAttr); }

  void remarkNoTensorCopies(const std::string& why) {
    if (asksForTensorCopies())
      remark(loop, RemarkId::no_tensor_copies) << "tensor_copies = true: not done: " << why;
  }

  void remarkNoRoom(int64_t bytes, int64_t carried) {
    remark(loop, RemarkId::only_prefetched_to_l2)
        << "tiles of the next iteration are only prefetched to L2: in registers they take " << bytes
        << " bytes per thread, and " << std::max<int64_t>(0, carriedBudget - carried)
        << " are left; use smaller tiles or more warps";
    for (tile::LoadTileOp load : loads) {
      std::string why = operands.reasonNotStaged(load);
      if (why.empty())
        why = "two iterations take " + std::to_string(2 * tileBytes(load)) +
              " bytes of shared memory or more, and " + std::to_string(sharedRoom) + " are left";
      remark(load, RemarkId::load_not_staged) << "not staged in shared memory: " << why;
    }
  }

  int64_t bytesPerThread(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type element = getElementTypeOrSelf(type);
    int64_t bytes =
        element.isIntOrFloat() ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8) : 8;
    return bytes * (tensor ? llvm::divideCeil(tensor.getNumElements(), threads * ctas) : 1);
  }

  // How early a load can be issued: not at all, some iterations ahead, or once before the loop for
  // all iterations.
  enum class Reach { none, ahead, always };

  Reach reach(tile::LoadTileOp load) {
    SetVector<Operation*> slice;
    bool follows = false;
    if (!loop.isDefinedOutsideOfLoop(load.getView())) {
      at.reasonNotAhead =
          "it reads a slice of a view that the loop makes; take the slice before the loop";
      return Reach::none;
    }
    for (Value index : PipelinedLoop::positionOf(load))
      if (!at.addSlice(index, slice, follows)) return Reach::none;
    MemoryAccess access = memoryAccess(load);
    for (const MemoryAccess& write : writes) {
      if (follows ? staysBehind(write, access, load) : !mayOverlap(write, access)) continue;
      at.reasonNotAhead = "the store at " + placeOf(write.op) +
                          " may write what it reads; promise that the arguments do not overlap "
                          "(no_alias), or store "
                          "after the load, at its indices";
      return Reach::none;
    }
    return follows ? Reach::ahead : Reach::always;
  }

  // Rule S.
  bool staysBehind(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load) {
    if (!mayOverlap(write, read)) return true;
    auto store = dyn_cast<tile::StoreTileOp>(write.op);
    bool exact =
        write.root == read.root || (write.aliasClass != 0 && write.aliasClass == read.aliasClass);
    if (!store || !write.root || !read.root || !exact ||
        store.getTileShape() != load.getTileShape() ||
        store.getAlignmentOffset() != load.getAlignmentOffset())
      return false;
    if (store.getView() != load.getView() &&
        (store.getView().getDefiningOp() || load.getView().getDefiningOp()))
      return false;
    // A load after the store reads what is stored.
    if (!load->isBeforeInBlock(loop.getBody()->findAncestorOpInBlock(*store))) return false;
    return llvm::any_of(llvm::zip_equal(store.getIndices(), load.getIndices()), [&](auto pair) {
      auto [stored, loaded] = pair;
      return stored == loaded && isInjective(stored);
    });
  }

  // Returns true if the value differs between any two iterations.
  bool isInjective(Value value) {
    if (value == loop.getInductionVar()) return true;
    Operation* op = value.getDefiningOp();
    if (!op) return false;
    if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) return isInjective(op->getOperand(0));
    if (!isa<arith::AddIOp, arith::SubIOp>(op)) return false;
    Value a = op->getOperand(0), b = op->getOperand(1);
    return loop.isDefinedOutsideOfLoop(a) ? isInjective(b)
                                          : loop.isDefinedOutsideOfLoop(b) && isInjective(a);
  }

  void askForNext() {
    OpBuilder builder = OpBuilder::atBlockBegin(loop.getBody());
    IRMapping mapping = at.indicesAt(builder, loads, at.ahead(builder, loop.getInductionVar()));
    for (tile::LoadTileOp load : loads) {
      if (!isa<RankedTensorType>(load.getType())) continue;
      SmallVector<Value> indices = llvm::map_to_vector(
          load.getIndices(), [&](Value v) { return mapping.lookupOrDefault(v); });
      tile::PrefetchTileOp::create(builder, load.getLoc(), load.getView(), indices,
                                   load.getTileShape());
    }
  }

  // Emits a remark on each dot that has the layouts of wgmma although its operands are not in
  // swizzled slots. Other copies than TMA copies do not round, and those make every dot a wgmma.
  void remarkMmaSync(scf::ForOp loop) {
    if (!wgmma) return;
    const auto source = [](Value operand) -> Operation* {
      if (auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>())
        operand = conversion.getSource();
      if (auto permute = operand.getDefiningOp<tile::PermuteOp>()) operand = permute.getSource();
      return operand.getDefiningOp();
    };
    const auto inSlot = [&](Value operand) {
      return isa_and_nonnull<tgpu::RingReadOp>(source(operand));
    };
    for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>())
      if (!reported.contains(dot) && hasWgmmaLayouts(dot) &&
          isa_and_nonnull<tile::LoadTileOp, tgpu::RingReadOp>(source(dot.getB())))
        remarkNoWgmma(dot, reasonNotInSlots(dot, inSlot, /*roundsF32=*/false));
  }

  //===-- In shared memory --===//

  // TMA copies can bring tiles that have fewer vectors than there are threads. A loop that cannot
  // have TMA copies falls back to copies by all threads.
  void takeOperands() {
    // Copies may continue across iterations of an outer loop.
    const bool inLoop = isa<scf::ForOp>(loop->getParentOp());
    if (asksForTensorCopies() && wgmma && ctas == 1 && !inLoop) {
      operands.copyBy(DotOperandStaging::Copies::tensor);
      operands.takeOnce(stationary);
      operands.take();
      const bool needed = operands.needTensorCopies();
      if (needed && couldComeByTensorCopies()) return operands.remarkOthers();
      operands.copyBy(DotOperandStaging::Copies::threads);
      if (!needed) return operands.remarkOthers();
      operands.giveAllBack();
    }
    operands.takeOnce(stationary);
    operands.take();
    operands.remarkOthers();
  }

  bool couldComeByTensorCopies() {
    const SmallVector<tile::LoadTileOp> once = stationary;
    const int64_t asked = fittingStages;
    const bool can = findRoom() && reasonNoTensorCopies(nullptr).empty();
    stationary = once;
    fittingStages = asked;
    return can;
  }

  static int64_t tileBytes(tile::LoadTileOp load) {
    auto type = cast<RankedTensorType>(load.getType());
    return type.getNumElements() * sharedElementBytes(type.getElementType());
  }

  // Returns the bytes of shared memory left for the ring, over all CTAs of the cluster. Subtracts
  // other rings that are alive while `scope` runs, and the exchanges in `scope`, which the ring
  // outlives.
  int64_t roomBeside(Operation* scope) {
    const LoopRing ring(at, operands, {ctas, wgmma, false});
    SmallVector<int64_t> gaps;  // before parts, whose slots are multiples of their alignment
    int64_t alignment = kLeastAlignment;
    for (tile::LoadTileOp load : ring.partsOf(loads)) {
      const int64_t ofPart = bufferAlignment(ring.slotOf(load));
      gaps.push_back(ofPart - kLeastAlignment);
      alignment = std::max(alignment, ofPart);
    }
    int64_t taken = 0, whole = 0;  // `whole`: bytes of buffers that are multiples of the alignment
    const int64_t exchanges = exchangeBytes(scope);
    loop->getParentOfType<func::FuncOp>().walk([&](Operation* op) {
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
        whole += bufferBytes(alloc.getType()) % alignment == 0 ? bufferBytes(alloc.getType()) : 0;
      auto other = dyn_cast<tgpu::RingOp>(op);
      if (!other) return;
      if (lifetimeOf(other).meets(scope))
        taken += ringBytes(other.getType());
      else if (other.getType().hasBarriers())
        taken += barrierBytes(other.getType().getSlots());
    });
    // Nothing else is between parts. If an exchange's buffer is the only other one, it separates
    // parts at most once: the others are adjacent.
    if (taken == 0 && whole > 0 && whole == exchanges) gaps.clear();
    if (taken == 0 && gaps.size() > 2 && llvm::all_equal(gaps)) gaps.resize(2);
    for (int64_t gap : gaps) taken += gap;
    return (sharedBytes - std::max(exchanges, leastForExchanges) - taken) * ctas;
  }

  int64_t slotBytes() {
    int64_t bytes = 0;
    const LoopRing ring(at, operands, {ctas, wgmma, false});
    for (tile::LoadTileOp load : ring.partsOf(loads))
      bytes += bufferBytes(ring.slotOf(load)) * ctas;
    return bytes;
  }

  // Reason why the CTAs of a cluster cannot share the loop's operands; empty if they can.
  std::string reasonNotShared() {
    auto outer = dyn_cast<scf::ForOp>(loop->getParentOp());
    Operation* scope = outer ? outer.getOperation() : loop.getOperation();
    if (!isa<func::FuncOp>(scope->getParentOp()))
      return "the loop is in a branch or in more than one other loop";
    const int64_t asked = fittingStages;
    const bool fits = findRoom();
    const int64_t stagesThen = std::exchange(fittingStages, asked);
    if (!fits || stagesThen * slotBytes() + 2 * barrierBytes(stagesThen) * ctas > roomBeside(scope))
      return "shared memory does not hold the tiles of two iterations";
    return LoopRing(at, operands, {ctas, wgmma, false})
        .reasonNoTensorCopies(loads, stagesThen, nullptr);
  }

  // The ring is allocated before the outermost loop. It is empty after this loop, unless its copies
  // continue across the outer loop.
  std::string reasonNoTensorCopies(const OuterLoopPipeline* pipeline) {
    std::string why = LoopRing(at, operands, {ctas, wgmma, false})
                          .reasonNoTensorCopies(loads, fittingStages, pipeline);
    Operation* scope = pipeline ? pipeline->outer : loop;
    const int64_t barriers =
        ctas > 1 ? 2 * barrierBytes(fittingStages) * ctas : barrierBytes(fittingStages);
    if (why.empty() && fittingStages * slotBytes() + barriers > roomBeside(scope))
      why =
          "shared memory does not hold their mbarriers and the tiles; use smaller tiles or fewer "
          "stages";
    return why;
  }

  // Returns true if the loop asks for TMA copies and can have them.
  bool comeByTensorCopies(const OuterLoopPipeline* pipeline) {
    if (!asksForTensorCopies()) return false;
    reasonNoCopies = reasonNoTensorCopies(pipeline);
    if (!reasonNoCopies.empty()) remarkNoTensorCopies(reasonNoCopies);
    return reasonNoCopies.empty();
  }

  // Returns true if there is something to stage, and shared memory has room for this iteration and
  // the next. Sets `fittingStages` to the number of iterations that fit.
  bool findRoom() {
    const int64_t bytes = slotBytes();
    int64_t once = 0;
    for (tile::LoadTileOp load : stationary) {
      if (!operands.contains(load)) continue;
      if (once + tileBytes(load) + 2 * bytes <= roomBeside(loop))
        once += tileBytes(load);
      else
        operands.giveBack(load);
    }
    const int64_t room = roomBeside(loop);
    sharedRoom = std::max<int64_t>(room, 0);
    if (bytes == 0) return false;
    fittingStages = std::min(fittingStages, (room - once) / bytes);
    int64_t left = room - once - fittingStages * bytes;
    llvm::erase_if(stationary, [&](tile::LoadTileOp load) {
      if (operands.contains(load)) return false;
      const bool fits = ctas > 1 && operands.canBeStaged(load) && tileBytes(load) <= left;
      if (fits) left -= tileBytes(load);
      return !fits;
    });
    return fittingStages >= 2;
  }

  // Returns the bytes that later loops in `outer`, which are not staged yet, would need for the
  // stages they ask for.
  int64_t bytesBehind(scf::ForOp outer) {
    int64_t bytes = 0;
    outer.getBody()->walk([&](scf::ForOp other) {
      auto asked = other->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      Operation* here = outer.getBody()->findAncestorOpInBlock(*other);
      if (!asked || asked.getInt() < 2 || !loop->isBeforeInBlock(here) ||
          other.getBody()->getOps<tile::DotOp>().empty())
        return;
      for (tile::LoadTileOp load : other.getBody()->getOps<tile::LoadTileOp>())
        if (isa<RankedTensorType>(load.getType())) bytes += asked.getInt() * tileBytes(load);
    });
    return bytes;
  }

  // Returns the pipeline over the outer loop if dots repeat in its body, as in a persistent kernel.
  std::optional<OuterLoopPipeline> outerPipeline() {
    if (operands.empty() || !stationary.empty() || !isa<scf::ForOp>(loop->getParentOp()))
      return std::nullopt;
    std::string why;
    std::optional<OuterLoopPipeline> pipeline;
    if (!llvm::all_of(loads, [&](tile::LoadTileOp load) { return operands.canBeStaged(load); }))
      why = "not all of the loop's tiles are staged";
    else if ((pipeline = OuterLoopPipeline::around(at, loads, why)) &&
             fittingStages * slotBytes() > roomBeside(pipeline->outer)) {
      pipeline.reset();
      why =
          "shared memory does not hold them and the buffers of the outer loop's body; use smaller "
          "tiles or fewer "
          "stages";
    } else if (pipeline) {
      const int64_t behind = bytesBehind(pipeline->outer);
      if (behind > 0 && fittingStages * slotBytes() + behind > roomBeside(pipeline->outer)) {
        pipeline.reset();
        why =
            "shared memory does not hold them and those of a later loop; use smaller tiles or "
            "fewer stages";
      }
    }
    if (!pipeline)
      remark(loop, RemarkId::not_ahead_across_outer_loop)
          << "loads are not issued ahead from one iteration of the loop around it to the next: "
          << why;
    return pipeline;
  }

  // Returns the op after which all loaded tiles are widened. From there on, the registers of this
  // iteration's tiles can hold the next ones.
  Operation* lastWidening() {
    Operation* last = loads.front();
    for (Operation& op : loop.getBody()->without_terminator()) {
      if (op.getNumRegions()) break;
      if (!isa<arith::ExtFOp, tile::Fp8DecodeOp>(op)) continue;
      auto load = op.getOperand(0).getDefiningOp<tile::LoadTileOp>();
      if (load && llvm::is_contained(loads, load)) last = &op;
    }
    return last;
  }

  void carryLoads() {
    IRRewriter rewriter(loop);
    SmallVector<Value> inits;  // ordered by stage
    Value iteration = loop.getLowerBound();
    for (int64_t stage = 0; stage < depth; ++stage) {
      llvm::append_range(inits, at.loadAt(rewriter, loads, iteration));
      iteration = at.ahead(rewriter, iteration);
    }
    rewriter.setInsertionPointAfter(lastWidening());
    iteration = loop.getInductionVar();
    for (int64_t stage = 0; stage < depth; ++stage) iteration = at.ahead(rewriter, iteration);
    SmallVector<Value> fetched = at.loadAt(rewriter, loads, iteration);

    SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
    rewriter.setInsertionPoint(loop);
    SmallVector<BlockArgument> carried;
    auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> arguments) {
      carried.assign(arguments.begin(), arguments.end());
      SmallVector<Value> next(arguments.drop_front(loads.size()));
      llvm::append_range(next, fetched);
      return next;
    };
    auto replaced = loop.replaceWithAdditionalYields(
        rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields);
    (*replaced)->setDiscardableAttrs(attributes);
    for (auto [load, value] : llvm::zip_first(loads, carried)) rewriter.replaceOp(load, value);
  }

  PipelinedLoop at;
  scf::ForOp loop;
  int64_t stages, depth, fittingStages, threads, ctas, registers, carriedBudget, sharedBytes,
      leastForExchanges;
  // Reason against TMA copies; empty if they bring the operands, or if the loop does not ask.
  std::string reasonNoCopies;
  bool hasFailed = false;
  const program::GpuTuning& tuning;
  int64_t sharedRoom = 0;  // left by others, over all CTAs
  SmallVector<LoopCarriedState::Replaced> around;
  SmallVector<MemoryAccess> writes;
  SmallVector<tile::LoadTileOp> loads;       // issued ahead
  SmallVector<tile::LoadTileOp> stationary;  // equal in every iteration
  bool wgmma;                                // the target has it
  const Dots& reported;                      // dots that wgmma cannot compute in any loop
  DotOperandStaging operands;                // among `loads` and `stationary`
};

class TilePrefetchLoadsPass : public impl::TilePrefetchLoadsPassBase<TilePrefetchLoadsPass> {
 public:
  using TilePrefetchLoadsPassBase::TilePrefetchLoadsPassBase;

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    const int64_t threads = program::kWarpThreads * int64_t{numWarps};
    const int64_t registers = arch->register_bytes(threads * ctasPerSm);
    const Dots reported = arch->wgmma ? remarkDots() : Dots();
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (size_t i = 0; i < loops.size(); ++i) {
      scf::ForOp loop = loops[i];
      auto own = loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      LoopPrefetcher prefetcher(loop, own ? own.getInt() : int64_t{numStages}, threads, numCtas,
                                registers, *arch, sharedBytes, leastForExchanges, reported);
      prefetcher.run();
      if (prefetcher.hasError()) return signalPassFailure();
      for (const LoopCarriedState::Replaced& around : prefetcher.replacedAround())
        std::replace_if(
            loops.begin() + i, loops.end(),
            [&](scf::ForOp other) { return other.getOperation() == around.before; },
            dyn_cast<scf::ForOp>(around.now));
    }
  }

 private:
  // Emits a remark on each dot that tensor cores compute, but not wgmma, whatever its loop stages.
  // Returns these dots.
  Dots remarkDots() {
    const Threads threads{numWarps, numCtas};
    Dots found;
    getOperation().walk([&](tile::DotOp dot) {
      if (!reasonNoTensorCores(dot, threads).empty()) return;
      const std::string why = reasonNoWgmma(dot, threads);
      remarkNoWgmma(dot, why);
      if (!why.empty()) found.insert(dot);
    });
    return found;
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
