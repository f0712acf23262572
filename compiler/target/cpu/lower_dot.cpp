// Lowers matmuls. Both operands are in buffers, as f32 or i32. Registers hold a block of the
// accumulator: `rows` rows and `across` vectors of adjacent columns. Each k-step adds one product
// to each element, so the order of additions does not depend on the shape:
//
//   for blocks of `rows` rows, for blocks of `across` vectors of columns:
//     registers = accumulator
//     for k:  registers[i][j] += a[row + i][k] * b[k][columns + j]
//     result = registers
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

// 8 accumulators, 2 registers of B and one of A fit in the 16 vector registers of x86-64.
static constexpr int64_t kRows = 4, kAcross = 2;

void TileLowering::lowerDot(tile::DotOp op) {
  Buffer *a = plan.bufferOf(op.getA()), *operandB = plan.bufferOf(op.getB()),
         *result = plan.bufferOf(op.getResult());
  const int64_t depth = a->shape[1], lanes = nest->lanes;
  const int64_t rows = std::min(kRows, nest->shape[0] & -nest->shape[0]);
  const int64_t across = nest->laneDim < 0 || nest->shape[1] % (lanes * kAcross) != 0 ? 1 : kAcross;

  auto loopOver = [&](int dim, int64_t step, llvm::function_ref<void()> body) {
    auto loop = scf::ForOp::create(b, loc, i64(0), i64(nest->shape[dim]), i64(step));
    nest->loops.push_back(loop);
    nest->indices[dim] = loop.getInductionVar();
    nest->depths[dim] = ++nest->inner;
    b.setInsertionPoint(loop.getBody()->getTerminator());
    body();
    b.setInsertionPointAfter(loop);
    nest->loops.pop_back();
    --nest->inner;
  };
  auto multiplyAdd = [&](Value acc, Value left, Value right) -> Value {
    if (isa<IntegerType>(getElementTypeOrSelf(acc)))
      return arith::AddIOp::create(b, loc, acc, arith::MulIOp::create(b, loc, left, right));
    constexpr auto kFused = arith::FastMathFlags::contract;
    return arith::AddFOp::create(b, loc, acc, arith::MulFOp::create(b, loc, left, right, kFused),
                                 kFused);
  };
  auto accumulateTile = [&] {
    nest->body.clear();
    const Coords here = identity();
    auto moved = [&](const Coord& from, int64_t by) {
      Coord to = from;
      if (by > 0) to.base = add(from.base, i64(by)), to.depth = nest->inner;
      return to;
    };
    SmallVector<Coords> places;
    SmallVector<Value> accs;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < across; ++j) {
        places.push_back({moved(here[0], i), moved(here[1], j * lanes)});
        accs.push_back(registers.splat(loc, evaluate(op.getAcc(), places.back()).value, lanes));
      }
    auto loop = scf::ForOp::create(b, loc, i64(0), i64(depth), i64(1), accs);
    b.setInsertionPointToEnd(loop.getBody());
    const Coord at{loop.getInductionVar(), false, false, nest->inner};
    SmallVector<Value> columns, next;
    for (int64_t j = 0; j < across; ++j)
      columns.push_back(bufferLoad(operandB, {at, places[j][1]}));
    for (int64_t i = 0; i < rows; ++i) {
      Value left = registers.splat(loc, bufferLoad(a, {places[i * across][0], at}), lanes);
      for (int64_t j = 0; j < across; ++j) {
        next.push_back(multiplyAdd(loop.getRegionIterArg(next.size()), left, columns[j]));
      }
    }
    scf::YieldOp::create(b, loc, next);
    b.setInsertionPointAfter(loop);
    for (auto [place, value] : llvm::zip_equal(places, loop.getResults()))
      bufferStore(result, place, value);
  };
  auto overColumns = [&] {
    nest->shape[1] > 1 ? loopOver(1, lanes * across, accumulateTile) : accumulateTile();
  };
  nest->shape[0] > 1 ? loopOver(0, rows, overColumns) : overColumns();
}

}  // namespace ligerdsl::compiler::cpu
