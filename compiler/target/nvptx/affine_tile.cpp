#include "compiler/target/nvptx/affine_tile.h"

#include "compiler/dialect/layout_attr.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

std::optional<AffineTiles::Affine> AffineTiles::combine(ThreadLowering& t, Operation* op,
                                                        bool subtract) {
  auto a = known.find(op->getOperand(0)), c = known.find(op->getOperand(1));
  if (a == known.end() || c == known.end()) return std::nullopt;
  Affine result;
  result.scalar =
      subtract ? Value(arith::SubIOp::create(t.b, t.loc, a->second.scalar, c->second.scalar))
               : Value(arith::AddIOp::create(t.b, t.loc, a->second.scalar, c->second.scalar));
  for (auto [x, y] : llvm::zip_equal(a->second.offsets, c->second.offsets))
    result.offsets.push_back(subtract ? x - y : x + y);
  return result;
}

std::optional<AffineTiles::Affine> AffineTiles::describe(ThreadLowering& t, Operation* op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  const ThreadLayout& layout = t.layout(type);
  auto uniform = [&](Value scalar) {
    return Affine{scalar, SmallVector<int64_t>(layout.registers(), 0)};
  };
  if (isa<tile::MakeRangeOp>(op)) {
    if (!layout.disjoint) return std::nullopt;
    Affine result{layout.origin[0], {}};
    for (int64_t reg = 0; reg < layout.registers(); ++reg)
      result.offsets.push_back(t.coordinate(layout, reg, 0).offset);
    return result;
  }
  if (auto splat = dyn_cast<tile::SplatOp>(op)) return uniform(t.scalar(splat.getSource()));
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat) return std::nullopt;
    return uniform(
        t.constant(splat.getSplatValue<APInt>().getSExtValue(), type.getElementTypeBitWidth()));
  }
  if (isa<arith::AddIOp>(op)) return combine(t, op, /*subtract=*/false);
  if (isa<arith::SubIOp>(op)) return combine(t, op, /*subtract=*/true);
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp,
          tgpu::ConvertLayoutOp>(op)) {
    auto source = known.find(op->getOperand(0));
    if (source == known.end()) return std::nullopt;
    Affine result{source->second.scalar, {}};
    std::optional<SmallVector<int32_t>> registers = shapeOpSources(op);
    if (!registers) return std::nullopt;
    for (int32_t reg : *registers) result.offsets.push_back(source->second.offsets[reg]);
    return result;
  }
  return std::nullopt;
}

void AffineTiles::note(ThreadLowering& t, Operation* op) {
  if (op->getNumResults() != 1) return;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !(type.getElementType().isInteger(32) || type.getElementType().isInteger(64)))
    return;
  if (auto form = describe(t, op)) known[op->getResult(0)] = std::move(*form);
}

bool AffineTiles::lowerEquality(ThreadLowering& t, Operation* op) {
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare) return false;
  auto predicate = compare.getPredicate();
  if (predicate != arith::CmpIPredicate::eq && predicate != arith::CmpIPredicate::ne) return false;
  auto a = known.find(compare.getLhs()), c = known.find(compare.getRhs());
  if (a == known.end() || c == known.end()) return false;
  Value distance = arith::SubIOp::create(t.b, t.loc, c->second.scalar, a->second.scalar);
  unsigned bits = distance.getType().getIntOrFloatBitWidth();
  SmallVector<Value> results;
  for (auto [x, y] : llvm::zip_equal(a->second.offsets, c->second.offsets)) {
    Value constant = t.constant(APInt(64, x - y).sextOrTrunc(bits).getSExtValue(), bits);
    results.push_back(arith::CmpIOp::create(t.b, t.loc, predicate, distance, constant));
  }
  t.defineElements(compare.getResult(), results);
  return true;
}

}  // namespace ligerdsl::compiler::nvptx
