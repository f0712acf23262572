// Reductions and scans within a warp: first the registers of a thread, then lanes by shuffles.
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/conversion.h"
#include "compiler/target/nvptx/shuffle.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

using Tuple = SmallVector<Value, 2>;  // one scalar per operand of the reduction

class Combiner {
 public:
  Combiner(ThreadLowering& t, Region& region) : t(t), region(region) {}
  Tuple operator()(const Tuple& a, const Tuple& c) {
    SmallVector<Value> arguments(a.begin(), a.end());
    llvm::append_range(arguments, c);
    return Tuple(t.inlineCombiner(region, arguments));
  }

 private:
  ThreadLowering& t;
  Region& region;
};

Tuple shuffle(ThreadLowering& t, const Tuple& values, int64_t offset, NVVM::ShflKind kind) {
  return llvm::map_to_vector<2>(values,
                                [&](Value value) { return shuffle(t, value, offset, kind); });
}

Tuple select(ThreadLowering& t, Value condition, const Tuple& a, const Tuple& c) {
  Tuple result;
  for (auto [x, y] : llvm::zip(a, c))
    result.push_back(x == y ? x : Value(arith::SelectOp::create(t.b, t.loc, condition, x, y)));
  return result;
}

// Reduces the elements of one thread by interleaved chains, then combines the chains by a tree.
// Multiply-adds fuse within a chain, and the latencies of several chains overlap.
Tuple reduceRegisters(Combiner& combine, ArrayRef<Tuple> elements) {
  size_t chains = elements.size() >= 8 ? 4 : 1;
  SmallVector<Tuple> partial(elements.take_front(chains));
  for (size_t i = chains; i < elements.size(); ++i)
    partial[i % chains] = combine(partial[i % chains], elements[i]);
  for (size_t half = chains / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) partial[i] = combine(partial[i], partial[i + half]);
  return partial[0];
}

// Reduces over the lanes of `mask` by butterfly shuffles. With `ordered`, the combiner's first
// argument always comes from the lower lane, so that all lanes get the same bits. Without
// `ordered`, only the lowest lane is sure to get these bits.
Tuple reduceLanes(ThreadLowering& t, Combiner& combine, Tuple value, uint64_t mask, bool ordered) {
  for (int64_t bit = 1; bit < 32; bit *= 2) {
    if (!(mask & bit)) continue;
    Tuple other = shuffle(t, value, bit, NVVM::ShflKind::bfly);
    if (!ordered) {
      value = combine(value, other);
      continue;
    }
    Value lower = t.threadMaskIsZero(bit);
    value = combine(select(t, lower, value, other), select(t, lower, other, value));
  }
  return value;
}

SmallVector<Tuple> tuples(ThreadLowering& t, ValueRange sources) {
  SmallVector<Tuple> result;
  for (Value source : sources) {
    SmallVector<Value> elements = t.elements(source);
    result.resize(elements.size());
    for (auto [tuple, element] : llvm::zip(result, elements)) tuple.push_back(element);
  }
  return result;
}

void defineTuples(ThreadLowering& t, ValueRange results, ArrayRef<Tuple> values) {
  for (auto [i, result] : llvm::enumerate(results))
    t.defineElements(result,
                     llvm::map_to_vector(values, [&](const Tuple& tuple) { return tuple[i]; }));
}

// Returns true if lanes could get different bits, because f(a, b) and f(b, a) of a custom combiner
// may round differently. If the result only goes to shared memory, the order does not matter: only
// the lowest lane stores.
bool needsOrder(tgpu::ReduceInWarpOp op) {
  return op.getKind() == tile::ReductionKind::custom &&
         !llvm::all_of(op->getUsers(), llvm::IsaPred<tgpu::LocalStoreOp>);
}

// Reduces each line along the axis: first the registers of a thread, then `finish` across threads.
template <class Op>
void reduceLines(ThreadLowering& t, Op op, llvm::function_ref<Tuple(Combiner&, Tuple)> finish) {
  Combiner combine(t, op.getCombiner());
  SmallVector<Tuple> elements = tuples(t, op.getSources()), reduced;
  for (const std::vector<int32_t>& group :
       reductionGroups(layoutOf(op.getSources()[0]), op.getAxis())) {
    SmallVector<Tuple> members =
        llvm::map_to_vector(group, [&](int32_t reg) { return elements[reg]; });
    reduced.push_back(finish(combine, reduceRegisters(combine, members)));
  }
  defineTuples(t, op.getResults(), reduced);
}

LogicalResult lowerReduceInThread(ThreadLowering& t, tgpu::ReduceInThreadOp op) {
  reduceLines(t, op, [](Combiner&, Tuple mine) { return mine; });
  return success();
}

LogicalResult lowerReduceInWarp(ThreadLowering& t, tgpu::ReduceInWarpOp op) {
  const uint64_t lanes = layoutOf(op.getSources()[0]).along(op.getAxis()).lane;
  reduceLines(t, op, [&](Combiner& combine, Tuple mine) {
    return reduceLanes(t, combine, mine, lanes, needsOrder(op));
  });
  return success();
}

// Scans the registers of one line in coordinate order, chunk by chunk. In a chunk, each lane of the
// axis holds contiguous elements. Each lane scans its elements of the chunk, then the lanes
// exchange their totals.
class LineScan {
 public:
  LineScan(ThreadLowering& t, Combiner& combine, const LinearLayout& layout, int axis, bool reverse)
      : t(t), combine(combine), reverse(reverse) {
    uint64_t mask = layout.along(axis).lane;
    if (mask) {
      firstBit = llvm::countr_zero(mask);
      laneBits = llvm::popcount(mask);
    }
  }

  // Scans one chunk in place (`line` in scan order) and returns the carry for the next.
  Tuple scanChunk(MutableArrayRef<Tuple*> line, const std::optional<Tuple>& carry) {
    for (size_t i = 1; i < line.size(); ++i) *line[i] = ordered(*line[i - 1], *line[i]);
    Tuple inclusive = *line.back();
    for (int bit = 0; bit < laneBits; ++bit) {
      Tuple before = earlierLane(inclusive, int64_t(1) << bit);
      Tuple joined = ordered(before, inclusive);
      inclusive = select(t, isAtLeast(int64_t(1) << bit), joined, inclusive);
    }
    if (laneBits) {
      Tuple exclusive = earlierLane(inclusive, 1);
      Value hasBefore = isAtLeast(1);
      for (Tuple* element : line)
        *element = select(t, hasBefore, ordered(exclusive, *element), *element);
    }
    Tuple total = laneBits ? fromLastLane(inclusive) : inclusive;
    if (!carry) return total;
    for (Tuple* element : line) *element = ordered(*carry, *element);
    return ordered(*carry, total);
  }

 private:
  // Combines in tile order: `before` is the left argument, or the right one in a reverse scan.
  Tuple ordered(const Tuple& before, const Tuple& element) {
    return reverse ? combine(element, before) : combine(before, element);
  }

  // Returns the position of this lane along the axis, in scan order.
  Value position() {
    if (cachedPosition) return cachedPosition;
    Value field = arith::ShRUIOp::create(t.b, t.loc, t.threadId(), t.constant(firstBit));
    int64_t last = (int64_t(1) << laneBits) - 1;
    field = arith::AndIOp::create(t.b, t.loc, field, t.constant(last));
    if (reverse) field = arith::SubIOp::create(t.b, t.loc, t.constant(last), field);
    return cachedPosition = field;
  }
  Value isAtLeast(int64_t n) {
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::uge, position(), t.constant(n));
  }

  // Returns the value `distance` lanes earlier in scan order, or an arbitrary value if there is no
  // such lane.
  Tuple earlierLane(const Tuple& value, int64_t distance) {
    return shuffle(t, value, distance << firstBit,
                   reverse ? NVVM::ShflKind::down : NVVM::ShflKind::up);
  }
  Tuple fromLastLane(const Tuple& value) {
    // For each lane bit of the axis, the lane that is earlier in scan order copies its partner's
    // value.
    Tuple result = value;
    for (int bit = 0; bit < laneBits; ++bit) {
      int64_t mask = int64_t(1) << (firstBit + bit);
      Tuple other = shuffle(t, result, mask, NVVM::ShflKind::bfly);
      Value low = t.threadMaskIsZero(mask);
      result = reverse ? select(t, low, result, other) : select(t, low, other, result);
    }
    return result;
  }

  ThreadLowering& t;
  Combiner& combine;
  bool reverse;
  int firstBit = 0, laneBits = 0;
  Value cachedPosition;
};

// Splits a line (registers in the order of their coordinates along the axis) into chunks of
// contiguous elements.
SmallVector<SmallVector<int32_t>> chunksOf(const LinearLayout& layout, int axis,
                                           ArrayRef<int32_t> line) {
  SmallVector<SmallVector<int32_t>> chunks;
  int64_t expected = -1;
  for (int32_t reg : line) {
    Place place;
    place.reg = reg;
    int64_t at = layout.coordinates(place)[axis];
    if (at != expected) chunks.emplace_back();
    chunks.back().push_back(reg);
    expected = at + 1;
  }
  return chunks;
}

LogicalResult lowerScanInWarp(ThreadLowering& t, tgpu::ScanInWarpOp op) {
  LinearLayout layout = layoutOf(op.getSources()[0]);
  int axis = op.getAxis();
  bool reverse = op.getReverse();
  Combiner combine(t, op.getCombiner());
  SmallVector<Tuple> elements = tuples(t, op.getSources());
  LineScan scan(t, combine, layout, axis, reverse);
  for (const std::vector<int32_t>& line : reductionGroups(layout, axis)) {
    auto chunks = chunksOf(layout, axis, line);
    if (reverse) std::reverse(chunks.begin(), chunks.end());
    std::optional<Tuple> carry;
    for (auto& chunk : chunks) {
      if (reverse) std::reverse(chunk.begin(), chunk.end());
      SmallVector<Tuple*> members =
          llvm::map_to_vector(chunk, [&](int32_t reg) { return &elements[reg]; });
      carry = scan.scanChunk(members, carry);
    }
  }
  defineTuples(t, op.getResults(), elements);
  return success();
}

}  // namespace

void addReduceLowerings(LoweringTable& table) {
  table.add<tgpu::ReduceInThreadOp, lowerReduceInThread>();
  table.add<tgpu::ReduceInWarpOp, lowerReduceInWarp>();
  table.add<tgpu::ScanInWarpOp, lowerScanInWarp>();
}

}  // namespace ligerdsl::compiler::nvptx
