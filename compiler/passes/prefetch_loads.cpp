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
//      rewrites/warpgroup_products.h, and where its products may be under way in two turns a turn begins with them).
//      A tile that is the same in every iteration, and that the loop loads each time for want of registers, is copied
//      once on a cluster, if there is room beside the stages. (In a CTA of its own that has not measured better.)
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
#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/thread_registers.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/conversion.h"
#include "compiler/layout/swizzle.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/rewrites/warpgroup_products.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

class LoopPrefetcher {
 public:
  // Threads of a CTA, CTAs of a cluster, bytes of registers of a thread; shared memory of a CTA, and what of it tiles leave
  // to exchanges at least.
  LoopPrefetcher(scf::ForOp loop, int64_t stages, int64_t threads, int64_t ctas, int64_t registers,
                 const program::GpuArch& arch, int64_t sharedBytes, int64_t leastForExchanges)
      : loop(loop),
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
        wgmma(arch.wgmma) {}

  void run() {
    if (depth < 1) return;
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
          remark(load) << "not loaded ahead: " << whyNotAhead;
          break;
      }
    }
    if (loads.empty()) return remarkNothingToLoad();
    takeFactors();
    for (Type type : loop.getResultTypes()) carried += bytesPerThread(type);
    crowded = carried * 8 >= registers * tuning.crowded_eighths;
    depth = std::min(depth, (carriedBudget - carried) / std::max<int64_t>(bytes, 1));
    bool ample = (carried + bytes) * 16 <= registers * tuning.ample_sixteenths, fits = findRoom();
    if (!fits) returnFactors();
    ample &= factors.empty();
    if (depth > 0 && (ample || !fits)) {
      if (depth < stages - 1)
        remark(loop) << "loads are issued " << depth << " iterations ahead, not " << stages - 1
                     << ": more would take more than " << carriedBudget
                     << " bytes of registers per thread; use smaller tiles, more warps or fewer stages";
      remarkLeftProducts(loop);
      carryLoads();
    } else if (fits) {
      if (fittingStages < stages)
        remark(loop) << "loads are issued " << fittingStages - 1 << " iterations ahead, not " << stages - 1
                     << ": shared memory holds the tiles of " << fittingStages
                     << " iterations; use smaller tiles or fewer stages";
      stageLoads();
    } else {
      remarkNoRoom(bytes, carried);
      remarkLeftProducts(loop);
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

  InFlightDiagnostic remark(Operation* op) {
    InFlightDiagnostic diagnostic = missed(op, "tile-prefetch-loads");
    diagnostic << "num_stages = " << stages << ": ";
    return diagnostic;
  }

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

  void remarkNoRoom(int64_t bytes, int64_t carried) {
    remark(loop) << "tiles of the next iteration are only prefetched to the second-level cache: in registers they take "
                 << bytes << " bytes per thread, and " << std::max<int64_t>(0, carriedBudget - carried)
                 << " are left; use smaller tiles or more warps";
    for (tile::LoadTileOp load : loads) {
      std::string why = whyNotStaged(load);
      if (why.empty())
        why = "two iterations take " + std::to_string(2 * tileBytes(load)) + " bytes of shared memory or more, and " +
              std::to_string(sharedRoom) + " are left";
      remark(load) << "not staged in shared memory: " << why;
    }
  }

  // Of a load that becomes copies (set_eviction_policy.cpp says why these take no policy).
  void remarkHints(tile::LoadTileOp load) {
    const bool policy = load.getEvict() == tile::EvictHint::first || load.getEvict() == tile::EvictHint::last;
    if (!policy && load.getCache() == tile::CacheHint::normal) return;
    remark(load) << "its " << (policy ? "eviction policy" : "cache hint")
                 << " is not followed: asynchronous copies to shared memory take none; leave it out, or use smaller "
                    "tiles or fewer stages, which wait in registers";
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
    for (Value index : positionOf(load))
      if (!addSlice(index, slice, follows)) return Reach::none;
    MemoryAccess access = memoryAccess(load);
    for (const MemoryAccess& write : writes) {
      if (follows ? staysBehind(write, access, load) : !mayOverlap(write, access)) continue;
      whyNotAhead = "the store at " + placeOf(write.op) +
                    " may write what it reads; promise that the arguments do not overlap (no_alias), or store at the "
                    "indices of the load, behind it";
      return Reach::none;
    }
    return follows ? Reach::ahead : Reach::always;
  }

  static SmallVector<Value> positionOf(tile::LoadTileOp load) {
    SmallVector<Value> values(load.getIndices());
    if (load.getAlignmentOffset()) values.push_back(load.getAlignmentOffset());
    return values;
  }

  // Collects the body's ops that compute `value`, in order; false if it is no pure function of the induction variable.
  bool addSlice(Value value, SetVector<Operation*>& slice, bool& follows) {
    if (value == loop.getInductionVar()) return follows = true;
    if (loop.isDefinedOutsideOfLoop(value)) return true;
    Operation* op = value.getDefiningOp();
    if (!op || op->getNumRegions() || !isPure(op)) {
      whyNotAhead = op ? "its place is known at " + placeOf(op) + " only, which reads memory or branches"
                       : std::string("its place depends on a value that the loop carries");
      whyNotAhead += "; compute it from the loop's counter and from values from outside";
      return false;
    }
    for (Value operand : op->getOperands())
      if (!addSlice(operand, slice, follows)) return false;
    slice.insert(op);
    return true;
  }

  // Rule S.
  bool staysBehind(const MemoryAccess& write, const MemoryAccess& read, tile::LoadTileOp load) {
    if (!mayOverlap(write, read)) return true;
    auto store = dyn_cast<tile::StoreTileOp>(write.op);
    bool exact = write.root == read.root || (write.aliasClass != 0 && write.aliasClass == read.aliasClass);
    if (!store || !write.root || !read.root || !exact || store.getTileShape() != load.getTileShape() ||
        store.getAlignmentOffset() != load.getAlignmentOffset())
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

  // Repeats what computes the indices of loads, for induction value `at`.
  IRMapping indicesAt(OpBuilder& builder, ArrayRef<tile::LoadTileOp> loads, Value at) {
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), at);
    SetVector<Operation*> slice;
    bool follows = false;
    for (tile::LoadTileOp load : loads)
      for (Value index : positionOf(load)) addSlice(index, slice, follows);
    for (Operation* op : slice) builder.clone(*op, mapping);
    return mapping;
  }

  SmallVector<Value> loadAt(OpBuilder& builder, ArrayRef<tile::LoadTileOp> loads, Value at) {
    IRMapping mapping = indicesAt(builder, loads, at);
    return llvm::map_to_vector(
        loads, [&](tile::LoadTileOp load) { return Value(builder.clone(*load, mapping)->getResult(0)); });
  }

  void askForNext() {
    OpBuilder builder = OpBuilder::atBlockBegin(loop.getBody());
    IRMapping mapping = indicesAt(builder, loads, ahead(builder, loop.getInductionVar()));
    for (tile::LoadTileOp load : loads) {
      if (!isa<RankedTensorType>(load.getType())) continue;
      SmallVector<Value> indices =
          llvm::map_to_vector(load.getIndices(), [&](Value v) { return mapping.lookupOrDefault(v); });
      tile::PrefetchTileOp::create(builder, load.getLoc(), load.getView(), indices, load.getTileShape());
    }
  }

  //===-- Factors of products --===//

  // A load that only a product uses, maybe permuted, is read in the layout that the product wants.
  struct Factor {
    tile::PermuteOp permute;  // or null
    tgpu::ConvertLayoutOp conversion;
    RankedTensorType loaded, permuted;  // the types before
  };

  static Operation* onlyUser(Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; }

  static std::optional<Factor> factorOf(tile::LoadTileOp load) {
    Operation* user = onlyUser(load.getResult());
    auto permute = dyn_cast_or_null<tile::PermuteOp>(user);
    if (permute) user = onlyUser(permute.getResult());
    auto conversion = dyn_cast_or_null<tgpu::ConvertLayoutOp>(user);
    if (!conversion || !isa_and_nonnull<tile::DotOp>(onlyUser(conversion.getResult()))) return std::nullopt;
    return Factor{permute, conversion, cast<RankedTensorType>(load.getType()),
                  permute ? cast<RankedTensorType>(permute.getType()) : RankedTensorType()};
  }

  // Of the load, maybe permuted, for products alone.
  SmallVector<tgpu::ConvertLayoutOp> conversionsOf(tile::LoadTileOp load) {
    SmallVector<tgpu::ConvertLayoutOp> found;
    auto add = [&](Operation* user) {
      auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(user);
      if (conversion && conversion->getBlock() == loop.getBody() &&
          llvm::all_of(conversion->getUsers(), llvm::IsaPred<tile::DotOp>))
        found.push_back(conversion);
    };
    for (Operation* user : load->getUsers()) {
      add(user);
      if (isa<tile::PermuteOp>(user)) llvm::for_each(user->getUsers(), add);
    }
    return found;
  }

  // Each product has a load of its own of a tile that others use as well. Copied once, read by each as it wants.
  void separateLoads() {
    for (tile::LoadTileOp load : SmallVector<tile::LoadTileOp>(loads)) {
      if (ctas > 1 || !canBeStaged(load) || factorOf(load)) continue;
      for (tgpu::ConvertLayoutOp conversion : conversionsOf(load)) {
        OpBuilder builder(conversion);
        IRMapping mapping;
        auto copy = cast<tile::LoadTileOp>(builder.clone(*load, mapping));
        mapping.map(load.getResult(), copy.getResult());
        auto permute = conversion.getSource().getDefiningOp<tile::PermuteOp>();
        conversion.getSourceMutable().assign(permute ? builder.clone(*permute, mapping)->getResult(0)
                                                     : copy.getResult());
        if (permute && permute.use_empty()) permute.erase();
        copies[copy] = load;
        loads.push_back(copy);
      }
      if (load.use_empty()) llvm::erase(loads, load);
    }
  }

  void uniteLoads() {
    for (auto& [copy, load] : copies) {
      copy->getResult(0).replaceAllUsesWith(load.getResult());
      llvm::erase(loads, cast<tile::LoadTileOp>(copy));
      copy->erase();
      if (!llvm::is_contained(loads, load)) loads.push_back(load);
    }
    copies.clear();
  }

  // The conversions go: what they take of shared memory is room for the ring.
  void takeFactors() {
    separateLoads();
    for (tile::LoadTileOp load : loads) {
      std::optional<Factor> factor = factorOf(load);
      if (!factor || ctas > 1 || !canBeStaged(load)) continue;
      auto wanted = cast<RankedTensorType>(factor->conversion.getType());
      Value source = factor->conversion.getSource();
      factor->conversion.getResult().replaceAllUsesWith(source);
      source.setType(wanted);
      if (factor->permute)
        load.getResult().setType(withLayout(factor->loaded, *sourceLayout(factor->permute, layoutOf(wanted))));
      factors[load] = *factor;
    }
    for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>())
      for (Value operand : {dot.getA(), dot.getB()}) remarkFactor(operand.getDefiningOp<tgpu::ConvertLayoutOp>());
  }

  // Of one that changes its layout through shared memory in every turn.
  void remarkFactor(tgpu::ConvertLayoutOp conversion) {
    if (!conversion || conversion->getBlock() != loop.getBody() ||
        travel(layoutOf(conversion.getSource()), layoutOf(conversion.getResult())) <= Travel::registers)
      return;
    Value source = conversion.getSource();
    if (auto permute = source.getDefiningOp<tile::PermuteOp>()) source = permute.getSource();
    auto load = source.getDefiningOp<tile::LoadTileOp>();
    std::string why = "it is computed in the loop";
    if (load) why = ctas > 1 ? "every CTA of the cluster needs all of it" : whyNotStaged(load);
    if (load && why.empty()) why = "it is not loaded ahead";
    remark(conversion) << "the factor of a product passes through registers: " << why;
  }

  // Of products whose tiles are dealt to warpgroups, for a factor that has come to lie elsewhere than in swizzled slots.
  void remarkLeftProducts(scf::ForOp loop) {
    if (!wgmma) return;
    for (tile::DotOp dot : loop.getBody()->getOps<tile::DotOp>()) {
      Value factor = dot.getB();
      if (auto conversion = factor.getDefiningOp<tgpu::ConvertLayoutOp>()) factor = conversion.getSource();
      if (auto permute = factor.getDefiningOp<tile::PermuteOp>()) factor = permute.getSource();
      if (isDealtToGroups(dot) && isa_and_nonnull<tile::LoadTileOp, tgpu::RingReadOp>(factor.getDefiningOp()))
        remark(dot)
            << "the product is made by mma.sync, not by wgmma: its second factor does not wait in shared memory";
    }
  }

  // There was no room.
  void returnFactors() {
    if (factors.empty()) return;
    remark(loop) << "factors of products pass through registers: shared memory does not hold the tiles of two "
                    "iterations; use smaller "
                    "tiles";
    for (auto& [load, factor] : factors) {
      Value source = factor.conversion.getSource();
      source.replaceAllUsesExcept(factor.conversion.getResult(), factor.conversion);
      source.setType(factor.permute ? factor.permuted : factor.loaded);
      cast<tile::LoadTileOp>(load).getResult().setType(factor.loaded);
    }
    factors.clear();
    uniteLoads();
  }

  // In which layout it is copied.
  RankedTensorType loadedType(tile::LoadTileOp load) const {
    auto found = factors.find(load);
    return found == factors.end() ? cast<RankedTensorType>(load->getResult(0).getType()) : found->second.loaded;
  }

  //===-- In shared memory --===//

  // A copy is of 16 bytes, and every element of one thread. Empty where that holds.
  std::string whyNotStaged(tile::LoadTileOp load) {
    if (!isa<RankedTensorType>(load.getType())) return "it is a scalar";
    const RankedTensorType type = loadedType(load);
    if (load.getAlignmentOffset()) return "it has an alignment offset";
    const AccessShape access = accessShape(load);
    int64_t bytes = sharedElementBytes(type.getElementType()), vector = access.vector;
    if (access.fastDim >= 0 && access.fastDim != type.getRank() - 1)
      return "its neighbours in memory are not along its last dimension; permute what is loaded instead";
    if (access.fastDim < 0 || type.getShape()[access.fastDim] % vector != 0 || vector * bytes != 16)
      return "copies are of 16 bytes, and facts prove accesses of " + std::to_string(vector * bytes);
    auto zero = dyn_cast_or_null<FloatAttr>(load.getPadAttr());
    if (load.getPadAttr() && !(zero && zero.getValue().isPosZero())) return "copies pad with zeros only";
    if (linearPart(type) < threads * ctas * vector) return "it has fewer vectors than there are threads";
    if (hasLayout(type) && layoutOf(type).contiguous(access.fastDim) < vector)
      return "the layouts of what it is used with tear its 16-byte vectors apart";
    return "";
  }
  bool canBeStaged(tile::LoadTileOp load) { return whyNotStaged(load).empty(); }

  static int64_t linearPart(RankedTensorType type) {
    int64_t product = 1;
    for (int64_t size : type.getShape()) product *= size & -size;
    return product;
  }

  static int64_t tileBytes(tile::LoadTileOp load) {
    auto type = cast<RankedTensorType>(load.getType());
    return type.getNumElements() * sharedElementBytes(type.getElementType());
  }

  // Whether a ring has been emptied before the loop begins, so that its memory is free.
  bool isOver(tgpu::RingOp ring) {
    if (ring.getType().hasBarriers() || ring->getBlock() != loop->getBlock()) return false;
    return llvm::all_of(ring->getUsers(), [&](Operation* user) {
      return loop->getBlock()->findAncestorOpInBlock(*user)->isBeforeInBlock(loop);
    });
  }

  // Whether there is something to stage, and room for this iteration and the next beside what others took. Leaves in
  // `fittingStages` how many iterations there is room for.
  bool findRoom() {
    int64_t bytes = 0, taken = 0;
    for (tile::LoadTileOp load : partsOf(loads)) bytes += tileBytes(load);
    loop->getParentOfType<func::FuncOp>().walk([&](Operation* op) {
      if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op)) taken += bufferBytes(alloc.getType());
      auto ring = dyn_cast<tgpu::RingOp>(op);
      if (ring && !isOver(ring)) taken += ringBytes(ring.getType());
    });
    for (tile::LoadTileOp load : partsOf(loads))
      taken += bufferAlignment(slotOf(load)) - kLeastAlignment;  // in front of it
    const int64_t room = (sharedBytes - std::max(exchangeBytes(loop), leastForExchanges) - taken) * ctas;
    sharedRoom = std::max<int64_t>(room, 0);
    if (bytes == 0) return false;
    fittingStages = std::min(fittingStages, room / bytes);
    int64_t left = room - fittingStages * bytes;
    llvm::erase_if(stationary, [&](tile::LoadTileOp load) {
      const bool fits = ctas > 1 && canBeStaged(load) && tileBytes(load) <= left;
      if (fits) left -= tileBytes(load);
      return !fits;
    });
    return fittingStages >= 2;
  }

  bool isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) {
    return a.getView() == b.getView() && a.getIndices() == b.getIndices() && a.getTileShape() == b.getTileShape() &&
           loadedType(a) == loadedType(b);
  }

  // One of the loads that can be staged for each tile.
  SmallVector<tile::LoadTileOp> partsOf(ArrayRef<tile::LoadTileOp> all) {
    SmallVector<tile::LoadTileOp> parts;
    for (tile::LoadTileOp load : all)
      if (canBeStaged(load) && llvm::none_of(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }))
        parts.push_back(load);
    return parts;
  }

  // What a slot holds of a tile.
  tgpu::MemDescType slotOf(tile::LoadTileOp load) {
    RankedTensorType type = loadedType(load);
    int64_t swizzle = 0;
    const bool multiplied = llvm::any_of(
        factors, [&](const auto& factor) { return isSameTile(cast<tile::LoadTileOp>(factor.first), load); });
    if (multiplied && type.getRank() == 2)
      swizzle = Swizzle::widest(type.getDimSize(0), type.getDimSize(1) * sharedElementBytes(type.getElementType()));
    if (hasLayout(type)) type = partOfCta(type).value_or(type);
    return tgpu::MemDescType::get(type.getContext(), type.getShape(), type.getElementType(), 0, swizzle);
  }

  Value ringOf(OpBuilder& builder, ArrayRef<tile::LoadTileOp> parts, int64_t slots) {
    for (tile::LoadTileOp load : parts) remarkHints(load);
    SmallVector<Type> types = llvm::map_to_vector(parts, [&](tile::LoadTileOp load) { return Type(slotOf(load)); });
    const auto by = factors.empty() ? tgpu::RingFill::asyncOwn : tgpu::RingFill::async;
    auto type = tgpu::RingType::get(builder.getContext(), slots, by, types);
    return tgpu::RingOp::create(builder, loop.getLoc(), type, DenseI64ArrayAttr());
  }

  Value number(OpBuilder& builder, int64_t value) {
    return arith::ConstantOp::create(builder, loop.getLoc(), builder.getI32IntegerAttr(value));
  }

  // What the loads of iteration `at` that are not staged give.
  SmallVector<Value> loadSmall(OpBuilder& builder, Value at) { return loadAt(builder, small, at); }

  // Starts the copies of iteration `at`.
  void fill(OpBuilder& builder, Value ring, ArrayRef<tile::LoadTileOp> parts, Value at, Value slot, bool open) {
    SmallVector<Value> views;
    SmallVector<int64_t> shapes;
    SmallVector<Attribute> layouts;
    for (tile::LoadTileOp load : parts) {
      const RankedTensorType type = loadedType(load);
      views.push_back(load.getView());
      llvm::append_range(shapes, load.getTileShape());
      if (hasLayout(type)) layouts.push_back(type.getEncoding());
    }
    auto op = tgpu::RingFillOp::create(builder, loop.getLoc(), ring, slot, at, Value(), views, shapes,
                                       layouts.empty() ? ArrayAttr() : builder.getArrayAttr(layouts), TypedAttr(),
                                       tile::EvictHint::normal, open);
    Block& body = op.getPosition().empty() ? op.getPosition().emplaceBlock() : op.getPosition().front();
    Value position = body.addArgument(at.getType(), loop.getLoc());
    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    IRMapping mapping = indicesAt(inside, parts, position);
    SmallVector<Value> indices;
    for (tile::LoadTileOp load : parts)
      for (Value index : load.getIndices()) indices.push_back(mapping.lookupOrDefault(index));
    tgpu::YieldOp::create(inside, loop.getLoc(), indices);
  }

  // The slot that follows in turn, or the one before it.
  Value nextSlot(OpBuilder& builder, Value slot, int64_t turn) {
    Location loc = loop.getLoc();
    if (fittingStages == 2) return arith::XOrIOp::create(builder, loc, slot, number(builder, 1));
    Value last = number(builder, turn > 0 ? fittingStages - 1 : 0),
          first = number(builder, turn > 0 ? 0 : fittingStages - 1);
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, slot, last);
    Value moved = arith::AddIOp::create(builder, loc, slot, number(builder, turn));
    return arith::SelectOp::create(builder, loc, wraps, first, moved);
  }

  // The loads become reads of the slot of this iteration. The loop carries the slot's number and what the loads that are
  // not staged give.
  void stageLoads() {
    IRRewriter rewriter(loop);
    const auto inSlot = [&](Value factor) {
      if (auto permute = factor.getDefiningOp<tile::PermuteOp>()) factor = permute.getSource();
      auto load = factor.getDefiningOp<tile::LoadTileOp>();
      return load && factors.contains(load) && slotOf(load).getSwizzle() != 0;
    };
    if (wgmma) products.emplace(loop, inSlot);
    if (products && products->mayOverlap() && fittingStages > 2) overlapping = true;
    for (tile::LoadTileOp load : loads) (canBeStaged(load) ? staged : small).push_back(load);
    SetVector<Operation*> originals;
    for (auto& [copy, load] : copies) originals.insert(load);
    copies.clear();
    for (Operation* load : originals)
      if (load->use_empty()) load->erase();
    const SmallVector<tile::LoadTileOp> parts = partsOf(staged);
    ring = ringOf(rewriter, parts, fittingStages);
    Value at = loop.getLowerBound(), zero = number(rewriter, 0);
    if (!stationary.empty()) {
      stationaryRing = ringOf(rewriter, partsOf(stationary), 1);
      fill(rewriter, stationaryRing, partsOf(stationary), at, zero, /*open=*/true);
    }
    SmallVector<Value> inits{zero};
    llvm::append_range(inits, loadSmall(rewriter, at));
    for (int64_t slot = 0; slot < fittingStages - 1; ++slot) {
      if (slot > 0) at = ahead(rewriter, at);
      fill(rewriter, ring, parts, at, number(rewriter, slot), /*open=*/false);
    }

    if (overlapping) await(rewriter, loop.getLoc(), fittingStages - 2);

    SmallVector<NamedAttribute> attributes(loop->getDiscardableAttrs());
    auto yields = [&](OpBuilder&, Location, ArrayRef<BlockArgument> carried) { return fetchNext(carried); };
    auto replaced = *loop.replaceWithAdditionalYields(rewriter, inits, /*replaceInitOperandUsesInLoop=*/false, yields);
    replaced->setDiscardableAttrs(attributes);
    rewriter.setInsertionPointAfter(replaced);
    await(rewriter, replaced->getLoc(), 0);
    if (products) products->replace(cast<scf::ForOp>(replaced), overlapping);
    remarkLeftProducts(cast<scf::ForOp>(replaced));
  }

  void await(OpBuilder& builder, Location loc, int64_t pending) {
    tgpu::RingAwaitOp::create(builder, loc, ring, Value(), Value(), builder.getI32IntegerAttr(pending),
                              products && !products->empty());
  }

  // Null where there is none, or where the copies start at the top.
  tile::ReduceOp firstReduction() {
    auto reductions = loop.getBody()->getOps<tile::ReduceOp>();
    return crowded || ctas > 1 || !factors.empty() || reductions.empty() ? tile::ReduceOp() : *reductions.begin();
  }

  // In the body: waits for the oldest copies, starts those of the last iteration that there is room for, reads. Returns
  // what the loop yields for what it carries. Products that overlap are started first: behind them those of the turn before are
  // over, whose slot is free, and the copies of the next one are waited for.
  SmallVector<Value> fetchNext(ArrayRef<BlockArgument> carried) {
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPointToStart(loop.getBody());
    if (!overlapping) await(rewriter, loop.getLoc(), fittingStages - 2);
    Value slot = carried[0], next = nextSlot(rewriter, slot, 1), at = ahead(rewriter, loop.getInductionVar());
    SmallVector<Value> yielded{next};
    llvm::append_range(yielded, loadSmall(rewriter, at));
    for (int64_t i = 2; i < fittingStages; ++i) at = ahead(rewriter, at);
    if (tile::ReduceOp reduce = firstReduction()) rewriter.setInsertionPoint(reduce);
    if (overlapping) {
      rewriter.setInsertionPointAfter(products->last());
      await(rewriter, loop.getLoc(), fittingStages - 3);
    }
    fill(rewriter, ring, partsOf(staged), at, fittingStages == 2 ? next : nextSlot(rewriter, slot, -1),
         /*open=*/false);
    for (auto [load, value] : llvm::zip_equal(small, carried.drop_front())) rewriter.replaceOp(load, value);
    readParts(rewriter, ring, staged, slot);
    if (!stationary.empty()) {
      rewriter.setInsertionPointToStart(loop.getBody());
      readParts(rewriter, stationaryRing, stationary, number(rewriter, 0));
    }
    return yielded;
  }

  void readParts(IRRewriter& rewriter, Value ring, ArrayRef<tile::LoadTileOp> all, Value slot) {
    const SmallVector<tile::LoadTileOp> parts = partsOf(all);
    SmallVector<unsigned> numbers;
    for (tile::LoadTileOp load : all)
      numbers.push_back(llvm::find_if(parts, [&](tile::LoadTileOp part) { return isSameTile(part, load); }) -
                        parts.begin());
    for (auto [load, part] : llvm::zip_equal(SmallVector<tile::LoadTileOp>(all), numbers)) {
      rewriter.setInsertionPoint(load);
      rewriter.replaceOpWithNewOp<tgpu::RingReadOp>(load, load.getType(), ring, slot, part, Value(), TypedAttr(),
                                                    DenseI64ArrayAttr());
    }
  }

  Value ahead(OpBuilder& builder, Value from) {
    return arith::AddIOp::create(builder, loop.getLoc(), from, loop.getStep());
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
    Value at = loop.getLowerBound();
    for (int64_t stage = 0; stage < depth; ++stage) {
      llvm::append_range(inits, loadAt(rewriter, loads, at));
      at = ahead(rewriter, at);
    }
    rewriter.setInsertionPointAfter(lastWidening());
    at = loop.getInductionVar();
    for (int64_t stage = 0; stage < depth; ++stage) at = ahead(rewriter, at);
    SmallVector<Value> fetched = loadAt(rewriter, loads, at);

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

  scf::ForOp loop;
  int64_t stages, depth, fittingStages, threads, ctas, registers, carriedBudget, sharedBytes, leastForExchanges;
  const program::GpuTuning& tuning;
  int64_t sharedRoom = 0;   // of sharedBytes, in all CTAs, what others left
  std::string whyNotAhead;  // of the load that reach() has refused
  SmallVector<MemoryAccess> writes;
  SmallVector<tile::LoadTileOp> loads;                   // issued ahead
  SmallVector<tile::LoadTileOp> staged, small;           // of these, those in the ring and the others
  SmallVector<tile::LoadTileOp> stationary;              // what is the same in every iteration
  llvm::MapVector<Operation*, Factor> factors;           // of these loads
  llvm::MapVector<Operation*, tile::LoadTileOp> copies;  // loads of their own that products have, and of which
  Value ring, stationaryRing;
  bool wgmma;                                 // is there
  std::optional<WarpgroupProducts> products;  // that wgmma makes of the ring's slots
  bool overlapping = false;                   // these are under way while those of the next turn start
  bool crowded = false;                       // what the loop carries leaves addresses no room
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
    for (scf::ForOp loop : loops) {
      auto own = loop->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
      LoopPrefetcher(loop, own ? own.getInt() : int64_t{numStages}, threads, numCtas, registers, *arch, sharedBytes,
                     leastForExchanges)
          .run();
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
