// tile-prefetch-loads
//
// In a loop that asks for num_stages >= 2 (its own attribute, else the compile option), loads are issued num_stages - 1
// iterations before they are used and travel there in registers or in shared memory, so that memory is busy while an
// iteration computes.
//
//   1. A load_tile of the loop's body qualifies if its indices are pure functions of the induction variable and of
//      values from outside, and no store of the loop may touch what it reads ahead of it (rule S).
//   2. What the loop carries must stay within a part of the registers (carriedBudget); otherwise fewer iterations are
//      kept in flight.
//   3. For every qualifying load: one load per stage before the loop, one in the body for the iteration
//      num_stages - 1 ahead, and a carried value in place of the load.
//   4. If that would leave few registers, tiles of whole vectors are staged: each thread copies its part to the slots
//      of a ring (tgpu.ring) ahead of time and reads it there, a second time if it likes. There are num_stages slots,
//      fewer where they do not fit, two at least. What cannot be staged is loaded one iteration ahead. On a cluster a
//      slot holds the CTA's part of a tile.
//      The copies are started in front of the body's first reduction: in front of an iteration's own reads of shared
//      memory they would be in their way, as both queue in one place, and a warp waits for others at a reduction
//      anyway. They start at the top where what the loop carries leaves addresses no room (GpuTuning), and on
//      clusters, where that has measured better.
//      Factors of matrix products that no thread holds by itself are staged in any case: all threads copy them, wait for
//      each other and read them where the product wants them (by ldmatrix from swizzled rows; wgmma reads the slots itself,
//      rewrites/warpgroup_products.h, and where its products may be under way in two turns a turn begins with them; other
//      products are waited for where their sums are read). Where the loop asks for it and products of wgmma alone read them,
//      one thread brings whole tiles by tensor copies instead, to slots that a memory barrier each tells of; of turns that
//      the loop does not have, nothing.
//      Where such a loop stands in another loop's body, as tiles that a CTA makes one after the other, its copies go on from
//      one iteration of that loop to the next (rewrites/turn_sequence.h): they arrive while sums are stored.
//      A tile that is the same in every iteration, and that the loop loads each time for want of registers, is copied
//      once if it is a product's first factor and there is room beside two stages, and on a cluster, if there is room beside
//      all. (Others, in a CTA of its own: that has not measured better.)
//      Rings of loops that stand behind each other may have the same memory, which tgpu-allocate-shared sees to: each is emptied behind
//      its loop. One whose copies go on from tile to tile is not, so that copies go on only where there is room for what loops behind
//      it would stage, too.
//   5. If shared memory is too small as well, the loads stay, and the body begins by asking for the next iteration's
//      tiles (prefetch_tile): they wait in the second-level cache.
//
// Loads past the loop's end read tiles that nobody uses: a view's bounds are tested for every index that is not a
// constant, so outside of the view they read nothing.
//
// Rule S: a store qualifies beside a load if the two cannot overlap (alias facts), or if it comes behind the load and both
// walk one memory by equal partitions and share an index that differs from iteration to iteration: the store is at iv, the
// load at iv + n step.
//
// A load that does not qualify, and a loop that gets fewer stages than it asked for, is a remark.
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/rewrites/loop_ring.h"
#include "compiler/rewrites/pipelined_loop.h"
#include "compiler/rewrites/product_factors.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

class LoopPrefetcher {
 public:
  // Threads of a CTA, CTAs of a cluster, bytes of registers of a thread; shared memory of a CTA, and what of it tiles leave
  // to exchanges at least.
  LoopPrefetcher(scf::ForOp loop, int64_t stages, int64_t threads, int64_t ctas, int64_t registers,
                 const program::GpuArch& arch, int64_t sharedBytes, int64_t leastForExchanges)
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
        factors(at, loads, threads, ctas) {}

  /// Whether an error was reported.
  bool hasError() const { return hasFailed; }
  /// What is around the loop and was replaced as well.
  ArrayRef<CarriedThrough::Replaced> replacedAround() const { return around; }

  void run() {
    if (depth < 1) return remarkNoTensorCopies("they take two stages or more");
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
          remark(load) << "not loaded ahead: " << at.whyNotAhead;
          break;
      }
    }
    if (loads.empty()) return remarkNothingToLoad();
    takeFactors();
    if (ctas > 1 && !factors.empty()) {
      if (std::string why = whyNotShared(); !why.empty()) {
        remarkNoTensorCopies(why + "; the CTAs of the cluster all make the whole product");
        factors.giveAllBack();
      }
    }
    for (Type type : loop.getResultTypes()) carried += bytesPerThread(type);
    const bool crowded = carried * 8 >= registers * tuning.crowded_eighths;
    depth = std::min(depth, (carriedBudget - carried) / std::max<int64_t>(bytes, 1));
    bool ample = (carried + bytes) * 16 <= registers * tuning.ample_sixteenths, fits = findRoom();
    if (!fits) factors.giveBack();
    ample &= factors.empty();
    if (depth > 0 && (ample || !fits)) {
      if (depth < stages - 1)
        remark(loop) << "loads are issued " << depth << " iterations ahead, not " << stages - 1
                     << ": more would take more than " << carriedBudget
                     << " bytes of registers per thread; use smaller tiles, more warps or fewer stages";
      remarkLeftProducts(loop);
      remarkNoTensorCopies("its tiles wait in registers");
      carryLoads();
    } else if (fits) {
      if (fittingStages < stages)
        remark(loop) << "loads are issued " << fittingStages - 1 << " iterations ahead, not " << stages - 1
                     << ": shared memory holds the tiles of " << fittingStages
                     << " iterations; use smaller tiles or fewer stages";
      std::optional<TurnSequence> sequence = sequenceAround();
      Operation* before = loop->getParentOp();
      const bool byTensor = comeByTensorCopies(sequence ? &*sequence : nullptr);
      if (ctas > 1 && !factors.empty() && !byTensor) {
        loop.emitError() << "num_ctas is " << ctas
                         << ": a cluster takes factors by tensor copies, and there are none here: " << whyNoCopies
                         << "; use num_ctas = 1";
        hasFailed = true;
        return;
      }
      LoopRing ring(at, factors, {ctas, wgmma, crowded, byTensor});
      remarkLeftProducts(sequence ? ring.stage(loads, *sequence, fittingStages)
                                  : ring.stage(loads, stationary, fittingStages));
      llvm::append_range(around, ring.replaced());
      if (sequence) around.push_back({before, sequence->outer});
    } else {
      remarkNoRoom(bytes, carried);
      remarkLeftProducts(loop);
      remarkNoTensorCopies("its tiles are not staged in shared memory");
      askForNext();
    }
  }

 private:
  // An atomic, or an op with unknown effects, if the loop may talk to other programs: it may announce what a later load
  // reads.
  Operation* collectWrites() {
    Operation* atomic = nullptr;
    loop.getBody()->walk([&](Operation* op) {
      FailureOr<MemoryAccesses> accesses = memoryAccesses(op);
      if (failed(accesses) || llvm::any_of(*accesses, [](const MemoryAccess& access) { return access.atomic; })) {
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

  InFlightDiagnostic remark(Operation* op) { return at.remark(op); }

  bool isAskedByAuthor() { return loop->hasAttr(tile::kNumStagesAttr); }

  void remarkAtomic(Operation* atomic) {
    if (isAskedByAuthor() || !loop.getBody()->getOps<tile::LoadTileOp>().empty())
      remark(loop) << "no load is issued ahead: the atomic at " << placeOf(atomic)
                   << " may announce what a later iteration reads; take it out of the loop";
  }

  // Where loads did not qualify, each has its own remark. Blocks of resident rows are on their way already.
  void remarkNothingToLoad() {
    Block& body = *loop.getBody();
    if (isAskedByAuthor() && body.getOps<tile::LoadTileOp>().empty() && body.getOps<tgpu::RingReadOp>().empty())
      remark(loop) << "without effect: the loop's body loads no tile of a partition; loads in inner loops and "
                      "branches, and gathers, are not issued ahead";
  }

  bool asksForTensorCopies() { return loop->hasAttr(tile::kTensorCopiesAttr); }

  void remarkNoTensorCopies(const std::string& why) {
    if (asksForTensorCopies()) remark(loop) << "no tensor copies: " << why;
  }

  void remarkNoRoom(int64_t bytes, int64_t carried) {
    remark(loop) << "tiles of the next iteration are only prefetched to the second-level cache: in registers they take "
                 << bytes << " bytes per thread, and " << std::max<int64_t>(0, carriedBudget - carried)
                 << " are left; use smaller tiles or more warps";
    for (tile::LoadTileOp load : loads) {
      std::string why = factors.whyNotStaged(load);
      if (why.empty())
        why = "two iterations take " + std::to_string(2 * tileBytes(load)) + " bytes of shared memory or more, and " +
              std::to_string(sharedRoom) + " are left";
      remark(load) << "not staged in shared memory: " << why;
    }
  }

  int64_t bytesPerThread(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    Type element = getElementTypeOrSelf(type);
    int64_t bytes = element.isIntOrFloat() ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8) : 8;
    return bytes * (tensor ? llvm::divideCeil(tensor.getNumElements(), threads * ctas) : 1);
  }

  // How early a load can be issued: iterations ahead, before the loop and once for all iterations, or where it stands.
  enum class Reach { none, ahead, always };

  Reach reach(tile::LoadTileOp load) {
    SetVector<Operation*> slice;
    bool follows = false;
    if (!loop.isDefinedOutsideOfLoop(load.getView())) {
      at.whyNotAhead = "it reads a slice of a view that the loop makes; take the slice in front of the loop";
      return Reach::none;
    }
    for (Value index : PipelinedLoop::positionOf(load))
      if (!at.addSlice(index, slice, follows)) return Reach::none;
    MemoryAccess access = memoryAccess(load);
    for (const MemoryAccess& write : writes) {
      if (follows ? staysBehind(write, access, load) : !mayOverlap(write, access)) continue;
      at.whyNotAhead =
          "the store at " + placeOf(write.op) +
          " may write what it reads; promise that the arguments do not overlap (no_alias), or store at the "
          "indices of the load, behind it";
      return Reach::none;
    }
    return follows ? Reach::ahead : Reach::always;
  }

  // Rule S.
  bool staysBehind(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load) {
    if (!mayOverlap(write, read)) return true;
    auto store = dyn_cast<tile::StoreTileOp>(write.op);
    bool exact = write.root == read.root || (write.aliasClass != 0 && write.aliasClass == read.aliasClass);
    if (!store || !write.root || !read.root || !exact || store.getTileShape() != load.getTileShape() ||
        store.getAlignmentOffset() != load.getAlignmentOffset())
      return false;
    if (store.getView() != load.getView() && (store.getView().getDefiningOp() || load.getView().getDefiningOp()))
      return false;
    if (!load->isBeforeInBlock(loop.getBody()->findAncestorOpInBlock(*store))) return false;  // it reads what is stored
    return llvm::any_of(llvm::zip_equal(store.getIndices(), load.getIndices()), [&](auto pair) {
      auto [stored, loaded] = pair;
      return stored == loaded && isInjective(stored);
    });
  }

  // Whether different iterations give different values.
  bool isInjective(Value value) {
    if (value == loop.getInductionVar()) return true;
    Operation* op = value.getDefiningOp();
    if (!op) return false;
    if (isa<arith::ExtSIOp, arith::ExtUIOp>(op)) return isInjective(op->getOperand(0));
    if (!isa<arith::AddIOp, arith::SubIOp>(op)) return false;
    Value a = op->getOperand(0), b = op->getOperand(1);
    return loop.isDefinedOutsideOfLoop(a) ? isInjective(b) : loop.isDefinedOutsideOfLoop(b) && isInjective(a);
  }

  void askForNext() {
    OpBuilder builder = OpBuilder::atBlockBegin(loop.getBody());
    IRMapping mapping = at.indicesAt(builder, loads, at.ahead(builder, loop.getInductionVar()));
    for (tile::LoadTileOp load : loads) {
      if (!isa<RankedTensorType>(load.getType())) continue;
      SmallVector<Value> indices =
          llvm::map_to_vector(load.getIndices(), [&](Value v) { return mapping.lookupOrDefault(v); });
      tile::PrefetchTileOp::create(builder, load.getLoc(), load.getView(), indices, load.getTileShape());
    }
  }

  // Of products whose tiles are dealt to warpgroups, for a factor that has come to lie elsewhere than in swizzled slots.
  void remarkLeftProducts(scf::ForOp loop) {
    if (!wgmma) return;
    for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
      Value factor = dot.getB();
      if (auto conversion = factor.getDefiningOp<tgpu::ConvertLayoutOp>()) factor = conversion.getSource();
      if (auto permute = factor.getDefiningOp<tile::PermuteOp>()) factor = permute.getSource();
      if (!isDealtToGroups(dot) || !isa_and_nonnull<tile::LoadTileOp, tgpu::RingReadOp>(factor.getDefiningOp()))
        continue;
      const bool waits = dot.getTf32() && isa<tgpu::RingReadOp>(factor.getDefiningOp());
      remark(dot) << "the product is made by mma.sync, not by wgmma: "
                  << (waits ? "only tensor copies round its f32 factors to tf32 on their way to shared memory"
                            : "its second factor does not wait in shared memory");
    }
  }

  //===-- In shared memory --===//

  // TMA copies bring tiles that have fewer vectors than there are threads. A loop that cannot have TMA copies falls back to
  // copies by all threads.
  void takeFactors() {
    const bool inLoop = isa<scf::ForOp>(loop->getParentOp());  // whose iterations its copies may go on through
    if (asksForTensorCopies() && wgmma && ctas == 1 && !inLoop) {
      factors.copyBy(ProductFactors::Copies::tensor);
      factors.takeOnce(stationary);
      factors.take();
      const bool needed = factors.needTensorCopies();
      if (needed && couldComeByTensorCopies()) return factors.remarkOthers();
      factors.copyBy(ProductFactors::Copies::threads);
      if (!needed) return factors.remarkOthers();
      factors.giveAllBack();
    }
    factors.takeOnce(stationary);
    factors.take();
    factors.remarkOthers();
  }

  bool couldComeByTensorCopies() {
    const SmallVector<tile::LoadTileOp> once = stationary;
    const int64_t asked = fittingStages;
    const bool can = findRoom() && whyNoTensorCopies(nullptr).empty();
    stationary = once;
    fittingStages = asked;
    return can;
  }

  static int64_t tileBytes(tile::LoadTileOp load) {
    auto type = cast<RankedTensorType>(load.getType());
    return type.getNumElements() * sharedElementBytes(type.getElementType());
  }

  // What others that live while `scope` runs, which the ring outlives, and exchanges within it leave of shared memory in all CTAs.
  int64_t roomBeside(Operation* scope) {
    const LoopRing ring(at, factors, {ctas, wgmma, false});
    SmallVector<int64_t> gaps;  // in front of parts, whose slots are of whole alignments
    int64_t alignment = kLeastAlignment;
    for (tile::LoadTileOp load : ring.partsOf(loads)) {
      const int64_t ofPart = bufferAlignment(ring.slotOf(load));
      gaps.push_back(ofPart - kLeastAlignment);
      alignment = std::max(alignment, ofPart);
    }
    int64_t taken = 0, whole = 0;  // of which whole alignments
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
    // Nothing else comes between parts. An exchange's buffer alone comes between parts once: the others lie side by side.
    if (taken == 0 && whole > 0 && whole == exchanges) gaps.clear();
    if (taken == 0 && gaps.size() > 2 && llvm::all_equal(gaps)) gaps.resize(2);
    for (int64_t gap : gaps) taken += gap;
    return (sharedBytes - std::max(exchanges, leastForExchanges) - taken) * ctas;
  }

  int64_t slotBytes() {
    int64_t bytes = 0;
    const LoopRing ring(at, factors, {ctas, wgmma, false});
    for (tile::LoadTileOp load : ring.partsOf(loads)) bytes += bufferBytes(ring.slotOf(load)) * ctas;
    return bytes;
  }

  // Why a cluster's CTAs cannot share the loop's products; empty where they can.
  std::string whyNotShared() {
    auto outer = dyn_cast<scf::ForOp>(loop->getParentOp());
    Operation* scope = outer ? outer.getOperation() : loop.getOperation();
    if (!isa<func::FuncOp>(scope->getParentOp())) return "the loop stands in a branch or in more than one other loop";
    const int64_t asked = fittingStages;
    const bool fits = findRoom();
    const int64_t stagesThen = std::exchange(fittingStages, asked);
    if (!fits || stagesThen * slotBytes() + 2 * barrierBytes(stagesThen) * ctas > roomBeside(scope))
      return "shared memory does not hold the tiles of two turns";
    return LoopRing(at, factors, {ctas, wgmma, false}).whyNoTensorCopies(loads, stagesThen, nullptr);
  }

  // The ring is as old as the outermost loop, but empty behind this one, unless it serves a sequence.
  std::string whyNoTensorCopies(const TurnSequence* sequence) {
    std::string why = LoopRing(at, factors, {ctas, wgmma, false}).whyNoTensorCopies(loads, fittingStages, sequence);
    Operation* scope = sequence ? sequence->outer : loop;
    const int64_t barriers = ctas > 1 ? 2 * barrierBytes(fittingStages) * ctas : barrierBytes(fittingStages);
    if (why.empty() && fittingStages * slotBytes() + barriers > roomBeside(scope))
      why = "shared memory does not hold their memory barriers beside the tiles; use smaller tiles or fewer stages";
    return why;
  }

  // Whether the loop asks for it and it is possible.
  bool comeByTensorCopies(const TurnSequence* sequence) {
    if (!asksForTensorCopies()) return false;
    whyNoCopies = whyNoTensorCopies(sequence);
    if (!whyNoCopies.empty()) remarkNoTensorCopies(whyNoCopies);
    return whyNoCopies.empty();
  }

  // Whether there is something to stage, and room for this iteration and the next beside what others took. Leaves in
  // `fittingStages` how many iterations there is room for.
  bool findRoom() {
    const int64_t bytes = slotBytes();
    int64_t once = 0;
    for (tile::LoadTileOp load : stationary) {
      if (!factors.contains(load)) continue;
      if (once + tileBytes(load) + 2 * bytes <= roomBeside(loop))
        once += tileBytes(load);
      else
        factors.giveBack(load);
    }
    const int64_t room = roomBeside(loop);
    sharedRoom = std::max<int64_t>(room, 0);
    if (bytes == 0) return false;
    fittingStages = std::min(fittingStages, (room - once) / bytes);
    int64_t left = room - once - fittingStages * bytes;
    llvm::erase_if(stationary, [&](tile::LoadTileOp load) {
      if (factors.contains(load)) return false;
      const bool fits = ctas > 1 && factors.canBeStaged(load) && tileBytes(load) <= left;
      if (fits) left -= tileBytes(load);
      return !fits;
    });
    return fittingStages >= 2;
  }

  // Tiles that loops of `outer` behind this one, which are yet to be staged, would have in as many stages as they ask for.
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

  // Where products repeat in another loop's body, as tiles that a CTA makes one after the other.
  std::optional<TurnSequence> sequenceAround() {
    if (factors.empty() || !stationary.empty() || !isa<scf::ForOp>(loop->getParentOp())) return std::nullopt;
    std::string why;
    std::optional<TurnSequence> sequence;
    if (!llvm::all_of(loads, [&](tile::LoadTileOp load) { return factors.canBeStaged(load); }))
      why = "not all of the loop's tiles are staged";
    else if ((sequence = TurnSequence::around(at, loads, why)) &&
             fittingStages * slotBytes() > roomBeside(sequence->outer)) {
      sequence.reset();
      why = "shared memory does not hold them beside what stands between; use smaller tiles or fewer stages";
    } else if (sequence) {
      const int64_t behind = bytesBehind(sequence->outer);
      if (behind > 0 && fittingStages * slotBytes() + behind > roomBeside(sequence->outer)) {
        sequence.reset();
        why = "shared memory does not hold them beside those of a loop behind it; use smaller tiles or fewer stages";
      }
    }
    if (!sequence)
      remark(loop) << "loads are not issued ahead from one iteration of the loop around it to the next: " << why;
    return sequence;
  }

  // Where the loaded tiles have been widened: from here on, what this iteration carried can make room for the next.
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
    SmallVector<Value> inits;  // stage by stage
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
    auto replaced = loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields);
    (*replaced)->setDiscardableAttrs(attributes);
    for (auto [load, value] : llvm::zip_first(loads, carried)) rewriter.replaceOp(load, value);
  }

  PipelinedLoop at;
  scf::ForOp loop;
  int64_t stages, depth, fittingStages, threads, ctas, registers, carriedBudget, sharedBytes, leastForExchanges;
  std::string whyNoCopies;  // by tensor copies; empty if they bring the factors, or nobody asked
  bool hasFailed = false;
  const program::GpuTuning& tuning;
  int64_t sharedRoom = 0;  // of sharedBytes, in all CTAs, what others left
  SmallVector<CarriedThrough::Replaced> around;
  SmallVector<MemoryAccess> writes;
  SmallVector<tile::LoadTileOp> loads;       // issued ahead
  SmallVector<tile::LoadTileOp> stationary;  // what is the same in every iteration
  bool wgmma;                                // is there
  ProductFactors factors;                    // of these loads
};

class TilePrefetchLoadsPass : public PassWrapper<TilePrefetchLoadsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilePrefetchLoadsPass)
  TilePrefetchLoadsPass() = default;
  TilePrefetchLoadsPass(const TilePrefetchLoadsPass& other) : PassWrapper(other) {}
  TilePrefetchLoadsPass(int stages, int warps, int ctas, int onSm, int64_t bytes, int64_t forExchanges,
                        StringRef arch) {
    numStages = stages;
    numWarps = warps;
    numCtas = ctas;
    ctasPerSm = onSm;
    sharedBytes = bytes;
    leastForExchanges = forExchanges;
    archName = arch.str();
  }

  StringRef getArgument() const override { return "tile-prefetch-loads"; }
  StringRef getDescription() const override { return "Issue the loads of pipelined loops iterations ahead"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<tgpu::TgpuDialect>(); }

  void runOnOperation() override {
    const program::GpuArch* arch = archNamed(getOperation(), archName);
    if (!arch) return signalPassFailure();
    const int64_t threads = program::kWarpThreads * int64_t{numWarps};
    const int64_t registers = arch->register_bytes(threads * ctasPerSm);
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (size_t i = 0; i < loops.size(); ++i) {
      scf::ForOp loop = loops[i];
      auto own = loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      LoopPrefetcher prefetcher(loop, own ? own.getInt() : int64_t{numStages}, threads, numCtas, registers, *arch,
                                sharedBytes, leastForExchanges);
      prefetcher.run();
      if (prefetcher.hasError()) return signalPassFailure();
      for (const CarriedThrough::Replaced& around : prefetcher.replacedAround())
        std::replace_if(
            loops.begin() + i, loops.end(), [&](scf::ForOp other) { return other.getOperation() == around.before; },
            dyn_cast<scf::ForOp>(around.now));
    }
  }

 private:
  Option<int> numStages{*this, "num-stages", llvm::cl::desc("Stages of loops that name none"), llvm::cl::init(1)};
  Option<int> numWarps{*this, "num-warps", llvm::cl::desc("Warps per CTA"), llvm::cl::init(4)};
  Option<int> numCtas{*this, "num-ctas", llvm::cl::desc("CTAs per cluster"), llvm::cl::init(1)};
  Option<int> ctasPerSm{*this, "ctas-per-sm", llvm::cl::desc("CTAs that share an SM"), llvm::cl::init(1)};
  Option<int64_t> sharedBytes{*this, "shared-bytes", llvm::cl::desc("Shared memory of a CTA"), llvm::cl::init(0)};
  Option<int64_t> leastForExchanges{*this, "exchange-bytes",
                                    llvm::cl::desc("What of it tiles leave to exchanges at least"), llvm::cl::init(0)};
  Option<std::string> archName{*this, "arch", llvm::cl::desc("GPU architecture"), llvm::cl::init(kUsualArch.str())};
};

}  // namespace

std::unique_ptr<Pass> createTilePrefetchLoadsPass(int numStages, int numWarps, int numCtas, int ctasPerSm,
                                                  int64_t sharedBytes, int64_t exchangeBytes, StringRef arch) {
  return std::make_unique<TilePrefetchLoadsPass>(numStages, numWarps, numCtas, ctasPerSm, sharedBytes, exchangeBytes,
                                                 arch);
}

}  // namespace ligerdsl::compiler
