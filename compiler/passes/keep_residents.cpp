// tile-keep-residents
//
// Loads that carry one number `resident` read blocks of one row, in two loops of opposite order. They become reads of a
// ring (tgpu.ring) that bulk copies fill ahead of them, so that memory is busy while the program computes and blocks that
// fit are read from memory once. Which rows qualify: resident_row.h.
//
// The rows of a function share the shared memory that exchanges between threads leave (exchange_bytes.h); a row gets at
// least two slots, otherwise its loads stay.
//
// A kernel of one program, n positions, S = min(n, what the share holds) slots:
//   1. Position p lives in slot p mod S. Positions 0 .. S-1 are copied as early as what they depend on allows. The
//      first loop copies position p + S into a slot once all threads have read p, the second p - S: it begins
//      with what the first left behind and n - S blocks are read again.
//   2. A slot's fills alternate in parity: position p is always awaited with the parity of p div S, because on its
//      way back the second loop passes the fills of a slot in reverse order.
//
// A kernel whose CTAs run program after program (program_loop.h), if n <= S = min(2 n, what the share holds):
//   1. Rows follow each other in the ring: position p lives in slot (base + p) mod S, the next row's base is n
//      further. Each slot's fills alternate in parity, from row to row.
//   2. The S - n slots that this row leaves free take the next row's first positions during the first loop; the second
//      loop hands slot after slot to the next row once all threads have read it. So memory is busy while a row ends
//      and the next one begins.
//   3. Where the next program is not known early enough, or does not visit its row, a row is copied when its turn
//      comes.
// Rows that do not fit are left alone there.
//
// A stationary row has a slot for each position, copied and awaited before the first program. It is kept if all rows
// fit beside it.
//
// A row that is not kept, or only in part, is a remark.
//
// On a cluster a slot of each CTA holds the CTA's part of a block: one of as many equal stretches as there are CTAs.
// The layouts of what the row is used with must say the same.
#include "compiler/analysis/exchange_bytes.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/passes/passes.h"
#include "compiler/remarks.h"
#include "compiler/rewrites/program_loop.h"
#include "compiler/rewrites/resident_row.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr int64_t kBarrierBytes = 8, kAlignment = 16;  // the latter of a buffer

InFlightDiagnostic notKept(Operation* op) {
  return missed(op, "tile-keep-residents");
}

// Puts one row into a ring.
class RowKeeper {
 public:
  // Shared memory of a CTA for this row and for exchanges, threads of a CTA, CTAs of a cluster.
  RowKeeper(const ResidentRow& row, int64_t share, int64_t exchanges, int64_t threads, int64_t ctas)
      : row(row), loc(this->row.firstLoad.getLoc()), ctas(ctas), share(share), exchanges(exchanges) {
    programs = ProgramLoop::around(this->row.first);
    const int64_t positions = row.positions, most = programs ? 2 * positions : positions;
    slots = std::min({row.isStationary() ? positions : most, (share - kAlignment) / slotBytes(), threads});
  }

  bool fits() { return isDivisible() && holdsStretches() && slots >= leastSlots(); }

  void remarkUnfit() {
    if (!isDivisible()) {
      notKept(row.firstLoad) << "resident row not kept: a block of " << row.blockBytes()
                             << " bytes is not divided into parts of 16 bytes by " << ctas
                             << " CTAs; use larger blocks or a smaller cluster";
      return;
    }
    if (!holdsStretches()) {
      notKept(row.firstLoad)
          << "resident row not kept: the layouts of what it is used with do not leave each CTA of the "
             "cluster one stretch of a block; use it with tiles of its own shape, or without a "
             "cluster";
      return;
    }
    notKept(row.firstLoad) << "resident row not kept: " << leastSlots() << " blocks of " << row.blockBytes() / ctas
                           << " bytes would have to fit, and it has " << room()
                           << "; use smaller blocks, more CTAs per cluster or a smaller min_ctas_per_sm";
  }

  // Of shared memory, in each CTA.
  int64_t bytes() { return slots * slotBytes() + kAlignment; }

  void keep() {
    if (slots < row.positions)
      notKept(row.firstLoad) << "resident row kept in part: " << slots << " of " << row.positions << " blocks fit in "
                             << room() << "; the others are read again";
    Operation* begin = earliest();
    if (row.firstLoad.getCache() != tile::CacheHint::normal)
      notKept(row.firstLoad) << "the cache hint of a kept row is not followed: bulk copies pass by the first-level "
                                "cache; leave it out, or load the row without resident()";
    OpBuilder outside(programs ? programs->getOperation() : begin);
    auto type = tgpu::RingType::get(outside.getContext(), slots, tgpu::RingFill::bulk, Type(slotType()));
    ring = tgpu::RingOp::create(outside, loc, type, DenseI64ArrayAttr());
    if (row.isStationary()) return keepForAllPrograms(outside);
    if (programs)
      keepFromProgramToProgram(begin);
    else
      keepOnce(begin);
    row.firstLoad.erase();
    row.secondLoad.erase();
  }

 private:
  bool isDivisible() { return row.blockBytes() % (ctas * ResidentRow::kGroupBytes) == 0; }
  int64_t leastSlots() const { return programs ? row.positions : 2; }
  // Of a CTA, with the memory barrier that tells when it is filled.
  int64_t slotBytes() { return row.blockBytes() / ctas + kBarrierBytes; }
  bool holdsStretches() {
    return isCutLikeSlots(row.firstLoad) && (row.isStationary() || isCutLikeSlots(row.secondLoad));
  }

  // Whether each CTA needs of a block the stretch that is brought to it.
  bool isCutLikeSlots(tile::LoadTileOp load) {
    auto tile = cast<RankedTensorType>(load.getType());
    if (ctas == 1 || !hasLayout(tile)) return true;
    ArrayRef<int64_t> slot = slotType().getShape();
    const std::optional<RankedTensorType> part = partOfCta(tile);
    if (!part || part->getShape() != slot) return false;
    const LinearLayout layout = layoutOf(tile);
    int64_t stretch = slot.back();
    for (const auto& basis : layout.bases(Axis::cta)) {
      if (basis.back() != stretch) return false;
      stretch *= 2;
    }
    return true;
  }

  // For remarks.
  std::string room() const {
    std::string text = std::to_string(std::max<int64_t>(share, 0)) + " bytes of shared memory in each CTA";
    if (exchanges > 0) text += ", beside " + std::to_string(exchanges) + " for exchanges between threads";
    return text;
  }

  // Where a position is: its slot, and the parity of the bulk copy that brings it there.
  struct Place {
    Value slot, parity;
  };

  //===-- One program --===//

  void keepOnce(Operation* at) {
    OpBuilder begin(at);
    fill(begin, {}, number(begin, 0), number(begin, 0), slots);
    replaceByTurns(row.firstLoad, firstPosition(), slots);
    replaceByTurns(row.secondLoad, secondPosition(), -slots);
  }

  void await(OpBuilder& builder, const Place& place) {
    tgpu::RingAwaitOp::create(builder, loc, ring, place.slot, place.parity, IntegerAttr(),
                              /*for_wgmma=*/false);
  }

  // Waits until the block is there, and reads it.
  void awaitAndRead(OpBuilder& builder, tile::LoadTileOp load, const Place& place) {
    await(builder, place);
    read(builder, load, place.slot);
  }

  // Reads the load's block from its slot; where position + distance exists, that is then copied into the slot.
  void replaceByTurns(tile::LoadTileOp load, Value position, int64_t distance) {
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
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, next, number(builder, row.positions));
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

  //===-- Program after program --===//

  void keepFromProgramToProgram(Operation* at) {
    OpBuilder outside(programs->getOperation());
    Value none = arith::ConstantOp::create(outside, loc, outside.getBoolAttr(false));
    Value zero = number(outside, 0);
    SmallVector<Value> state = programs->receive({zero, zero, none});
    Value base = state[0], parity = state[1], copied = state[2];

    // All threads have left the row before this one, whatever is copied from here on.
    OpBuilder begin(at);
    release(begin);
    Value missing =
        arith::XOrIOp::create(begin, loc, copied, arith::ConstantOp::create(begin, loc, begin.getBoolAttr(true)));
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
      notKept(row.firstLoad) << "the next program's row is not read ahead: where it is takes more than arithmetic and "
                                "memory that nobody writes; compute it from the program id";

    auto replace = [&](tile::LoadTileOp load, Value position, int64_t from, int64_t count) {
      OpBuilder builder(load);
      const bool again = load == row.secondLoad;  // the first loop has awaited the block
      const Place place = placeOf(builder, {base, parity}, position);
      again ? read(builder, load, place.slot) : awaitAndRead(builder, load, place);
      if (!next || count <= 0) return;
      Value shifted = arith::SubIOp::create(builder, loc, position, number(builder, from));
      Value wanted = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, shifted, number(builder, count));
      wanted = arith::AndIOp::create(builder, loc, wanted, next->reached);
      OpBuilder reuse = onlyIf(builder, wanted);
      if (again) release(reuse);
      Value of = again ? arith::AddIOp::create(reuse, loc, position, number(reuse, slots - row.positions)) : position;
      fill(reuse, ofNext, following.slot, of, 1);
    };
    replace(row.firstLoad, firstPosition(), 0, slots - row.positions);
    replace(row.secondLoad, secondPosition(), 0, 2 * row.positions - slots);
    programs->leave({following.slot, following.parity, next ? next->reached : none}, {base, parity, none});
  }

  // The place `distance` positions, fewer than there are slots or as many, behind another.
  Place placeOf(OpBuilder& builder, const Place& from, Value distance) {
    Value n = number(builder, slots);
    Value sum = arith::AddIOp::create(builder, loc, from.slot, distance);
    Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::uge, sum, n);
    Value less = arith::SubIOp::create(builder, loc, sum, n);
    Value turn = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), wraps);
    return {arith::SelectOp::create(builder, loc, wraps, less, sum),
            arith::XOrIOp::create(builder, loc, from.parity, turn)};
  }

  //===-- Both --===//

  void release(OpBuilder& builder) { tgpu::RingReleaseOp::create(builder, loc, ring); }

  // The earliest op of the loops' block in front of which the first bulk copies may stand: behind what they use and
  // behind what may write memory.
  Operation* earliest() {
    llvm::SmallPtrSet<Operation*, 8> needed;
    for (Value value : row.outerValues())
      if (Operation* op = value.getDefiningOp()) needed.insert(op);
    Operation* at = row.first;
    for (Operation* before = at->getPrevNode(); before; before = at->getPrevNode()) {
      if (needed.contains(before) || !(isMemoryEffectFree(before) || hasSingleEffect<MemoryEffects::Read>(before) ||
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

  // How many elements of the block at these indices come before the end of the view: none, if the row does not exist.
  Value inside(OpBuilder& builder, ValueRange indices, Value alignmentOffset) {
    tile::ViewType view = row.firstLoad.getView().getType();
    int64_t block = row.firstLoad.getTileShape().back();
    auto wide = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
    };
    // As an unsigned comparison this rejects negative indices as well.
    auto below = [&](Value index, Value size) -> Value {
      return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, size);
    };
    Value left = wide(block), exists;
    auto require = [&](Value condition) {
      exists = exists ? arith::AndIOp::create(builder, loc, exists, condition) : condition;
    };
    if (!row.fillsBlocks()) {
      Value origin = arith::MulIOp::create(builder, loc, indices.back(), left), size = wide(view.getShape().back());
      if (alignmentOffset)
        size = arith::AddIOp::create(builder, loc, size,
                                     arith::ExtUIOp::create(builder, loc, builder.getI64Type(), alignmentOffset));
      require(below(origin, size));
      left = arith::MinUIOp::create(builder, loc, arith::SubIOp::create(builder, loc, size, origin), left);
    }
    for (auto [axis, index] : llvm::enumerate(indices.drop_back())) {
      if (row.isPromised(axis)) continue;
      Value dim = tile::DimOp::create(builder, loc, row.firstLoad.getView(), static_cast<uint32_t>(axis));
      require(below(index, dim));
    }
    if (exists) left = arith::SelectOp::create(builder, loc, exists, left, wide(0));
    return arith::TruncIOp::create(builder, loc, builder.getI32Type(), left);
  }

  // The same in whole groups, which bulk copies make whole; null if they are all inside.
  Value groupsInside(OpBuilder& builder, tile::LoadTileOp load) {
    tile::ViewType view = load.getView().getType();
    if (row.isAllInside()) return Value();
    const int64_t group = ResidentRow::kGroupBytes / view.getElementBytes();
    Value elements = inside(builder, load.getIndices(), load.getAlignmentOffset());
    if (!load.getAlignmentOffset() && view.getShape().back() % group == 0) return elements;
    Value up = arith::AddIOp::create(builder, loc, elements, number(builder, group - 1));
    return arith::AndIOp::create(builder, loc, up, number(builder, -group));
  }

  // Positions from .. from + count - 1 of the row that has `mapping` in place of what this one takes from outside.
  void fill(OpBuilder& builder, IRMapping mapping, Value base, Value from, int64_t count) {
    auto op = tgpu::RingFillOp::create(builder, loc, ring, base, from, number(builder, count),
                                       ValueRange(row.firstLoad.getView()), row.firstLoad.getTileShape(), ArrayAttr(),
                                       row.firstLoad.getPadAttr(), row.firstLoad.getEvict(), /*open=*/false);
    Block* body = op.getPosition().empty() ? &op.getPosition().emplaceBlock() : &op.getPosition().front();
    Value position = body->addArgument(builder.getI32Type(), loc);
    OpBuilder inside = OpBuilder::atBlockEnd(body);
    Value counter = row.first.getInductionVar();
    if (position.getType() != counter.getType())
      position = arith::ExtSIOp::create(inside, loc, counter.getType(), position);
    mapping.map(counter, position);
    for (Operation* op : row.slice) inside.clone(*op, mapping);
    SmallVector<Value> yielded =
        llvm::map_to_vector(row.firstLoad.getIndices(), [&](Value index) { return mapping.lookupOrDefault(index); });
    Value alignmentOffset =
        row.firstLoad.getAlignmentOffset() ? mapping.lookupOrDefault(row.firstLoad.getAlignmentOffset()) : Value();
    Value elements = this->inside(inside, yielded, alignmentOffset);
    if (alignmentOffset) yielded.push_back(alignmentOffset);
    yielded.push_back(elements);
    tgpu::YieldOp::create(inside, loc, yielded);
  }

  void read(OpBuilder& builder, tile::LoadTileOp load, Value place) {
    Value tile = tgpu::RingReadOp::create(builder, loc, load.getType(), ring, place, /*part=*/0,
                                          groupsInside(builder, load), load.getPadAttr(), DenseI64ArrayAttr());
    load.getResult().replaceAllUsesWith(tile);
  }

  ResidentRow row;
  Location loc;
  std::optional<ProgramLoop> programs;
  int64_t ctas, share, exchanges, slots = 0;
  Value ring;
};

class TileKeepResidentsPass : public PassWrapper<TileKeepResidentsPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TileKeepResidentsPass)
  TileKeepResidentsPass() = default;
  TileKeepResidentsPass(const TileKeepResidentsPass& other) : PassWrapper(other) {}
  TileKeepResidentsPass(int64_t bytes, int64_t forExchanges, int warps, int ctas) {
    sharedBytes = bytes;
    leastForExchanges = forExchanges;
    numWarps = warps;
    numCtas = ctas;
  }

  StringRef getArgument() const override { return "tile-keep-residents"; }
  StringRef getDescription() const override { return "Keep resident rows in shared memory between two passes"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<tgpu::TgpuDialect>(); }

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
        notKept(loads.front()) << "resident row not kept: " << why;
    }
    if (rows.empty()) return;
    const int64_t exchanges = std::max(exchangeBytes(getOperation()), int64_t{leastForExchanges}),
                  budget = sharedBytes - exchanges;
    // Stationary rows take what they need, if the others then still fit as well.
    int64_t others = llvm::count_if(rows, [](const ResidentRow& row) { return !row.isStationary(); });
    int64_t needed = 0, left = budget;
    for (ResidentRow& row : rows) needed += row.bytes() / numCtas + row.positions * kBarrierBytes + kAlignment;
    for (ResidentRow& row : rows) {
      if (!row.isStationary()) continue;
      if (needed > budget) {
        notKept(row.firstLoad) << "row of all programs not kept: with the others it takes " << needed
                               << " bytes of shared memory in each CTA, and there are " << budget;
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

  Option<int64_t> sharedBytes{*this, "shared-bytes", llvm::cl::desc("Shared memory of a CTA"), llvm::cl::init(0)};
  Option<int64_t> leastForExchanges{*this, "exchange-bytes",
                                    llvm::cl::desc("What of it rows leave to exchanges at least"), llvm::cl::init(0)};
  Option<int> numWarps{*this, "num-warps", llvm::cl::desc("Warps per CTA"), llvm::cl::init(4)};
  Option<int> numCtas{*this, "num-ctas", llvm::cl::desc("CTAs per cluster"), llvm::cl::init(1)};
};

}  // namespace

std::unique_ptr<Pass> createTileKeepResidentsPass(int64_t sharedBytes, int64_t exchangeBytes, int numWarps,
                                                  int numCtas) {
  return std::make_unique<TileKeepResidentsPass>(sharedBytes, exchangeBytes, numWarps, numCtas);
}

}  // namespace ligerdsl::compiler
