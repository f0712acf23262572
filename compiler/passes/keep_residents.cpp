// tile-keep-residents
//
// Loads with the same number `resident` read the blocks of one row in two loops, the second one in
// reverse order. They become reads of a ring (tgpu.ring) that bulk copies fill ahead. So memory
// stays busy while the program computes, and blocks that fit are read from memory once.
// resident_row.h says which rows qualify.
//
// The rows of a function share the memory that exchanges between threads leave (exchange_bytes.h).
// If a row cannot have two slots, its loads stay.
//
// In a kernel whose CTAs run one program each, with n positions and S = min(n, threads, slots that
// fit):
//   1. Position p is in slot p mod S. Positions 0 .. S-1 are copied as early as their operands
//      allow. Once all threads have read position p, the first loop copies p + S into its slot; the
//      second loop copies p - S. So the second loop begins with the blocks that the first left in
//      the ring, and n - S blocks are read again.
//   2. The fills of a slot alternate in parity. The wait for position p always has the parity of p
//      div S, because the second loop repeats a slot's fills in reverse order.
//
// In a dynamic persistent kernel (program_loop.h), if n <= S = min(2 n, threads, slots that fit):
//   1. Rows follow each other in the ring: position p is in slot (base + p) mod S, and the next
//      row's base is base + n. The fills of each slot alternate in parity across rows.
//   2. The first loop fills the S - n free slots with the next row's first positions. The second
//      loop fills each slot for the next row once all threads have read it. So memory stays busy
//      across the end of a row.
//   3. If the next program is not known early enough, or does not read the row, nothing is copied
//      ahead. A program whose row was not copied ahead copies it at its start.
// Rows that do not fit keep their loads.
//
// A stationary row, which all programs read, has a slot for each position, filled before the first
// program. It is cached if it fits together with all other rows.
//
// Remarks report rows that are not cached, or only in part.
//
// In a cluster each block is split into equal segments, one per CTA, and a CTA's slot holds its own
// segment. The layouts of the tiles that use the row must agree with this split.
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/resident/program_loop.h"
#include "compiler/resident/resident_row.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TILEKEEPRESIDENTSPASS
#include "compiler/passes/Passes.h.inc"

namespace {

MissedRemark notCached(Operation* op) {
  return missed(op, RemarkId::resident_row_not_cached) << "resident row: not cached: ";
}

// Replaces the loads of one row by reads of a ring.
class RowKeeper {
 public:
  // `share` and `exchanges` are bytes of shared memory per CTA, `threads` is per CTA, `ctas` per
  // cluster.
  RowKeeper(const ResidentRow& row, int64_t share, int64_t exchanges, int64_t threads, int64_t ctas)
      : row(row),
        loc(this->row.firstLoad.getLoc()),
        ctas(ctas),
        share(share),
        exchanges(exchanges) {
    programs = ProgramLoop::around(this->row.first);
    const int64_t positions = row.positions, most = programs ? 2 * positions : positions;
    slots = std::min(
        {row.isStationary() ? positions : most, (share - kLeastAlignment) / slotBytes(), threads});
  }

  bool fits() { return isDivisible() && holdsSegments() && slots >= leastSlots(); }

  void remarkUnfit() {
    if (!isDivisible()) {
      notCached(row.firstLoad) << "a block of " << row.blockBytes()
                               << " bytes cannot be divided into parts of 16 bytes for " << ctas
                               << " CTAs; use larger blocks or a smaller cluster";
      return;
    }
    if (!holdsSegments()) {
      notCached(row.firstLoad)
          << "the layouts of its uses do not give each CTA of the cluster "
             "one segment of a block; use it with tiles of its own shape, or without a cluster";
      return;
    }
    notCached(row.firstLoad)
        << leastSlots() << " blocks of " << row.blockBytes() / ctas
        << " bytes must fit, and the row has " << room()
        << "; use smaller blocks, more CTAs per cluster or a smaller min_ctas_per_sm";
  }

  // Bytes of shared memory per CTA.
  int64_t bytes() { return slots * slotBytes() + kLeastAlignment; }

  void keep() {
    if (slots < row.positions)
      missed(row.firstLoad, RemarkId::resident_row_cached_in_part)
          << "resident row: cached in part: " << slots << " of " << row.positions
          << " blocks fit in " << room() << "; the others are read again";
    Operation* begin = earliest();
    if (row.firstLoad.getCache() != tile::CacheHint::normal)
      missed(row.firstLoad, RemarkId::resident_hint_ignored)
          << "the cache hint of a resident row is ignored: bulk copies bypass L1; omit it, or load "
             "the row without resident()";
    OpBuilder outside(programs ? programs->getOperation() : begin);
    auto type =
        tgpu::RingType::get(outside.getContext(), slots, tgpu::RingFill::bulk, Type(slotType()));
    ring = tgpu::RingOp::create(outside, loc, type, DenseI64ArrayAttr());
    if (row.isStationary()) return keepForAllPrograms(outside);
    if (programs)
      keepAcrossPrograms(begin);
    else
      keepOnce(begin);
    row.firstLoad.erase();
    row.secondLoad.erase();
  }

 private:
  bool isDivisible() { return row.blockBytes() % (ctas * ResidentRow::kGroupBytes) == 0; }
  int64_t leastSlots() const { return programs ? row.positions : 2; }
  // Bytes per CTA, including the slot's mbarrier.
  int64_t slotBytes() { return row.blockBytes() / ctas + kBarrierBytes; }
  bool holdsSegments() {
    return isSplitLikeSlots(row.firstLoad) &&
           (row.isStationary() || isSplitLikeSlots(row.secondLoad));
  }

  // Returns true if each CTA reads exactly the segment of a block that its slot holds.
  bool isSplitLikeSlots(tile::LoadTileOp load) {
    auto tile = cast<RankedTensorType>(load.getType());
    if (ctas == 1 || !hasLayout(tile)) return true;
    ArrayRef<int64_t> slot = slotType().getShape();
    const std::optional<RankedTensorType> part = partOfCta(tile);
    if (!part || part->getShape() != slot) return false;
    const LinearLayout layout = layoutOf(tile);
    int64_t begin = slot.back();
    for (const auto& basis : layout.bases(Axis::cta)) {
      if (basis.back() != begin) return false;
      begin *= 2;
    }
    return true;
  }

  std::string room() const {
    std::string text =
        std::to_string(std::max<int64_t>(share, 0)) + " bytes of shared memory in each CTA";
    if (exchanges > 0)
      text += ", in addition to " + std::to_string(exchanges) + " for exchanges between threads";
    return text;
  }

  // Slot of a position, and parity of the slot's fill.
  struct Place {
    Value slot, parity;
  };

  //===-- One program --===//

  void keepOnce(Operation* at) {
    OpBuilder begin(at);
    fill(begin, {}, number(begin, 0), number(begin, 0), slots);
    replaceByRingReads(row.firstLoad, firstPosition(), slots);
    replaceByRingReads(row.secondLoad, secondPosition(), -slots);
  }

  void await(OpBuilder& builder, const Place& place) {
    tgpu::RingAwaitOp::create(builder, loc, ring, place.slot, place.parity, IntegerAttr(),
                              /*for_wgmma=*/false);
  }

  // Waits for the block and reads it.
  void awaitAndRead(OpBuilder& builder, tile::LoadTileOp load, const Place& place) {
    await(builder, place);
    read(builder, load, place.slot);
  }

  // Reads the load's block from its slot, then copies position + distance, if it exists, to this
  // slot.
  void replaceByRingReads(tile::LoadTileOp load, Value position, int64_t distance) {
    OpBuilder builder(load);
    Place place{position, number(builder, 0)};
    if (slots < row.positions) {
      Value n = number(builder, slots);
      place.slot = arith::RemUIOp::create(builder, loc, position, n);
      Value round = arith::DivUIOp::create(builder, loc, position, n);
      place.parity = arith::AndIOp::create(builder, loc, round, number(builder, 1));
    }
    awaitAndRead(builder, load, place);
    if (slots == row.positions) return;
    Value next = arith::AddIOp::create(builder, loc, position, number(builder, distance));
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, next,
                                         number(builder, row.positions));
    OpBuilder reuse = onlyIf(builder, exists);
    release(reuse);
    fill(reuse, {}, number(reuse, 0), next, 1);
  }

  //===-- All programs --===//

  void keepForAllPrograms(OpBuilder& begin) {
    Value zero = number(begin, 0);
    fill(begin, {}, zero, zero, slots);
    for (int64_t slot = 0; slot < slots; ++slot) await(begin, {number(begin, slot), zero});
    Value position = firstPosition();
    OpBuilder builder(row.firstLoad);
    read(builder, row.firstLoad, position);
    row.firstLoad.erase();
  }

  //===-- Dynamic persistent kernel --===//

  void keepAcrossPrograms(Operation* at) {
    OpBuilder outside(programs->getOperation());
    Value none = arith::ConstantOp::create(outside, loc, outside.getBoolAttr(false));
    Value zero = number(outside, 0);
    SmallVector<Value> state = programs->receive({zero, zero, none});
    Value base = state[0], parity = state[1], copied = state[2];

    // Wait until all threads have read the previous row; only then start copies.
    OpBuilder begin(at);
    release(begin);
    Value missing = arith::XOrIOp::create(
        begin, loc, copied, arith::ConstantOp::create(begin, loc, begin.getBoolAttr(true)));
    OpBuilder late = onlyIf(begin, missing);
    fill(late, {}, base, number(late, 0), row.positions);

    OpBuilder between(row.first);
    Place following = placeOf(between, {base, parity}, number(between, row.positions));
    SmallVector<Value> values = row.outerValues().takeVector();
    std::optional<ProgramLoop::Next> next = programs->next(values, row.first);
    IRMapping ofNext;
    if (next)
      ofNext.map(values, next->values);
    else
      missed(row.firstLoad, RemarkId::next_row_not_ahead)
          << "the next program's row is not read ahead: its index depends on memory that the "
             "kernel may write, or on more than arithmetic; compute it from the program id";

    auto replace = [&](tile::LoadTileOp load, Value position, int64_t from, int64_t count) {
      OpBuilder builder(load);
      const bool again = load == row.secondLoad;  // the first loop has awaited the block
      const Place place = placeOf(builder, {base, parity}, position);
      again ? read(builder, load, place.slot) : awaitAndRead(builder, load, place);
      if (!next || count <= 0) return;
      Value shifted = arith::SubIOp::create(builder, loc, position, number(builder, from));
      Value wanted = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, shifted,
                                           number(builder, count));
      wanted = arith::AndIOp::create(builder, loc, wanted, next->reached);
      OpBuilder reuse = onlyIf(builder, wanted);
      if (again) release(reuse);
      Value of =
          again ? arith::AddIOp::create(reuse, loc, position, number(reuse, slots - row.positions))
                : position;
      fill(reuse, ofNext, following.slot, of, 1);
    };
    replace(row.firstLoad, firstPosition(), 0, slots - row.positions);
    replace(row.secondLoad, secondPosition(), 0, 2 * row.positions - slots);
    programs->leave({following.slot, following.parity, next ? next->reached : none},
                    {base, parity, none});
  }

  // Returns the place `distance` positions after `from`. `distance` is at most the number of slots.
  Place placeOf(OpBuilder& builder, const Place& from, Value distance) {
    Value n = number(builder, slots);
    Value sum = arith::AddIOp::create(builder, loc, from.slot, distance);
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, sum, n);
    Value less = arith::SubIOp::create(builder, loc, sum, n);
    Value flip = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), wraps);
    return {arith::SelectOp::create(builder, loc, wraps, less, sum),
            arith::XOrIOp::create(builder, loc, from.parity, flip)};
  }

  //===-- Both --===//

  void release(OpBuilder& builder) { tgpu::RingReleaseOp::create(builder, loc, ring); }

  // Returns the first op before which bulk copies may start: after their operands, and after every
  // op before the loops that may write memory.
  Operation* earliest() {
    llvm::SmallPtrSet<Operation*, 8> needed;
    for (Value value : row.outerValues())
      if (Operation* op = value.getDefiningOp()) needed.insert(op);
    Operation* at = row.first;
    for (Operation* before = at->getPrevNode(); before; before = at->getPrevNode()) {
      if (needed.contains(before) ||
          !(isMemoryEffectFree(before) || hasSingleEffect<MemoryEffects::Read>(before) ||
            isa<tgpu::RingOp, tgpu::RingFillOp, tile::AssumeOp>(before)))
        break;
      at = before;
    }
    return at;
  }

  Value firstPosition() {
    OpBuilder builder(row.firstLoad);
    return toI32(builder, row.first.getInductionVar());
  }
  Value secondPosition() {
    OpBuilder builder = OpBuilder::atBlockBegin(row.second.getBody());
    Value counter = toI32(builder, row.second.getInductionVar());
    return arith::SubIOp::create(builder, loc, number(builder, row.positions - 1), counter);
  }

  Value number(OpBuilder& builder, int64_t value) {
    return arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  }
  Value toI32(OpBuilder& builder, Value value) {
    if (value.getType().isInteger(32)) return value;
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), value);
  }
  OpBuilder onlyIf(OpBuilder& builder, Value condition) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    return OpBuilder::atBlockBegin(branch.thenBlock());
  }

  tgpu::MemDescType slotType() {
    auto tile = cast<RankedTensorType>(row.firstLoad.getType());
    SmallVector<int64_t> part(tile.getShape());
    part.back() /= ctas;
    return tgpu::MemDescType::get(tile.getContext(), part, tile.getElementType(), 0);
  }

  // Emits the number of the block's elements inside the view. It is 0 if the row is outside the
  // view.
  Value inside(OpBuilder& builder, ValueRange indices, Value alignmentOffset) {
    tile::ViewType view = row.firstLoad.getView().getType();
    int64_t block = row.firstLoad.getTileShape().back();
    auto wide = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
    };
    // An unsigned comparison also rejects negative indices.
    auto below = [&](Value index, Value size) -> Value {
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, size);
    };
    Value left = wide(block), exists;
    auto require = [&](Value condition) {
      exists = exists ? arith::AndIOp::create(builder, loc, exists, condition) : condition;
    };
    if (!row.fillsBlocks()) {
      Value origin = arith::MulIOp::create(builder, loc, indices.back(), left),
            size = wide(view.getShape().back());
      if (alignmentOffset)
        size = arith::AddIOp::create(
            builder, loc, size,
            arith::ExtUIOp::create(builder, loc, builder.getI64Type(), alignmentOffset));
      require(below(origin, size));
      left = arith::MinUIOp::create(builder, loc, arith::SubIOp::create(builder, loc, size, origin),
                                    left);
    }
    for (auto [axis, index] : llvm::enumerate(indices.drop_back())) {
      if (row.isPromised(axis)) continue;
      Value dim =
          tile::DimOp::create(builder, loc, row.firstLoad.getView(), static_cast<uint32_t>(axis));
      require(below(index, dim));
    }
    if (exists) left = arith::SelectOp::create(builder, loc, exists, left, wide(0));
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), left);
  }

  // Emits `inside` rounded up to whole 16-byte groups, the unit of bulk copies. Returns null if
  // every block is inside the view.
  Value groupsInside(OpBuilder& builder, tile::LoadTileOp load) {
    tile::ViewType view = load.getView().getType();
    if (row.isAllInside()) return Value();
    const int64_t group = ResidentRow::kGroupBytes / view.getElementBytes();
    Value elements = inside(builder, load.getIndices(), load.getAlignmentOffset());
    if (!load.getAlignmentOffset() && view.getShape().back() % group == 0) return elements;
    Value up = arith::AddIOp::create(builder, loc, elements, number(builder, group - 1));
    return arith::AndIOp::create(builder, loc, up, number(builder, -group));
  }

  // Copies the positions [from, from + count) of a row. `mapping` replaces the row's outer values
  // by those of the program that reads the row.
  void fill(OpBuilder& builder, IRMapping mapping, Value base, Value from, int64_t count) {
    auto op = tgpu::RingFillOp::create(
        builder, loc, ring, base, from, number(builder, count), ValueRange(row.firstLoad.getView()),
        row.firstLoad.getTileShape(), ArrayAttr(), row.firstLoad.getPadAttr(),
        row.firstLoad.getEvict(), /*open=*/false);
    Block* body =
        op.getPosition().empty() ? &op.getPosition().emplaceBlock() : &op.getPosition().front();
    Value position = body->addArgument(builder.getI32Type(), loc);
    OpBuilder inside = OpBuilder::atBlockEnd(body);
    Value counter = row.first.getInductionVar();
    if (position.getType() != counter.getType())
      position = arith::ExtSIOp::create(inside, loc, counter.getType(), position);
    mapping.map(counter, position);
    for (Operation* op : row.slice) inside.clone(*op, mapping);
    SmallVector<Value> yielded = llvm::map_to_vector(
        row.firstLoad.getIndices(), [&](Value index) { return mapping.lookupOrDefault(index); });
    Value alignmentOffset = row.firstLoad.getAlignmentOffset()
                                ? mapping.lookupOrDefault(row.firstLoad.getAlignmentOffset())
                                : Value();
    Value elements = this->inside(inside, yielded, alignmentOffset);
    if (alignmentOffset) yielded.push_back(alignmentOffset);
    yielded.push_back(elements);
    tgpu::YieldOp::create(inside, loc, yielded);
  }

  void read(OpBuilder& builder, tile::LoadTileOp load, Value place) {
    Value tile = tgpu::RingReadOp::create(builder, loc, load.getType(), ring, place, /*part=*/0,
                                          groupsInside(builder, load), load.getPadAttr(),
                                          DenseI64ArrayAttr());
    load.getResult().replaceAllUsesWith(tile);
  }

  ResidentRow row;
  Location loc;
  std::optional<ProgramLoop> programs;
  int64_t ctas, share, exchanges, slots = 0;
  Value ring;
};

class TileKeepResidentsPass : public impl::TileKeepResidentsPassBase<TileKeepResidentsPass> {
 public:
  using TileKeepResidentsPassBase::TileKeepResidentsPassBase;

  void runOnOperation() override {
    llvm::MapVector<int64_t, SmallVector<tile::LoadTileOp>> byNumber;
    getOperation().walk([&](tile::LoadTileOp load) {
      if (load.getResident()) byNumber[*load.getResident()].push_back(load);
    });
    SmallVector<ResidentRow> rows;
    for (auto& [number, loads] : byNumber) {
      std::string why;
      if (std::optional<ResidentRow> row = ResidentRow::of(loads, why))
        rows.push_back(*row);
      else
        notCached(loads.front()) << why;
    }
    if (rows.empty()) return;
    const int64_t exchanges = std::max(exchangeBytes(getOperation()), int64_t{leastForExchanges}),
                  budget = sharedBytes - exchanges;
    // Reserve slots for stationary rows first, if all rows fit.
    int64_t others =
        llvm::count_if(rows, [](const ResidentRow& row) { return !row.isStationary(); });
    int64_t needed = 0, left = budget;
    for (ResidentRow& row : rows)
      needed += row.bytes() / numCtas + row.positions * kBarrierBytes + kLeastAlignment;
    for (ResidentRow& row : rows) {
      if (!row.isStationary()) continue;
      if (needed > budget) {
        missed(row.firstLoad, RemarkId::program_row_not_cached)
            << "row of all programs: not cached: all resident rows together need " << needed
            << " bytes of shared memory in each CTA, and there are " << budget
            << "; use smaller blocks or fewer resident rows";
        continue;
      }
      RowKeeper keeper(row, left, exchanges, threads(), numCtas);
      if (!keeper.fits()) {
        keeper.remarkUnfit();
        continue;
      }
      left -= keeper.bytes();
      keeper.keep();
    }
    for (const ResidentRow& row : rows) {
      if (row.isStationary()) continue;
      RowKeeper keeper(row, left / others, exchanges, threads(), numCtas);
      keeper.fits() ? keeper.keep() : keeper.remarkUnfit();
    }
  }

 private:
  int64_t threads() const { return program::kWarpThreads * int64_t{numWarps}; }
};

}  // namespace

}  // namespace ligerdsl::compiler
