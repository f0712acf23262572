#include "compiler/pipeline/loop_tiles.h"

#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/swizzle.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

bool isSameTile(tile::LoadTileOp a, tile::LoadTileOp b) {
  return a.getView() == b.getView() && a.getIndices() == b.getIndices() &&
         a.getAlignmentOffset() == b.getAlignmentOffset() && a.getTileShape() == b.getTileShape() &&
         a.getType() == b.getType();
}

// Returns true if the load has readers other than these conversions.
bool hasOtherReaders(tile::LoadTileOp load, ArrayRef<tgpu::ConvertLayoutOp> operands) {
  const auto vanishes = [&](Operation* user) {
    auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(user);
    return conversion && llvm::is_contained(operands, conversion);
  };
  return llvm::any_of(load->getUsers(), [&](Operation* user) {
    if (vanishes(user)) return false;
    return !isa<tile::PermuteOp>(user) || user->use_empty() ||
           !llvm::all_of(user->getUsers(), vanishes);
  });
}

}  // namespace

RankedTensorType LoadedTile::readType() {
  auto loaded = cast<RankedTensorType>(load.getType());
  if (!operand) return loaded;
  auto wanted = cast<RankedTensorType>(operand.getType());
  tile::PermuteOp transpose = permute();
  return transpose ? withLayout(loaded, *sourceLayout(transpose, layoutOf(wanted))) : wanted;
}

void LoopTiles::addAhead(ArrayRef<Ahead> loads) {
  SmallVector<LoadedTile> own;  // tiles of conversions whose load has other readers
  for (const Ahead& each : loads) {
    const bool others = hasOtherReaders(each.load, each.operands);
    if (each.operands.empty() || others) ahead.push_back({each.load, {}, each.inSlot});
    const bool single = each.operands.size() == 1 && !others;
    for (tgpu::ConvertLayoutOp operand : each.operands)
      (single ? ahead : own).push_back({each.load, operand, each.inSlot, !single});
  }
  llvm::append_range(ahead, own);
}

bool LoopTiles::haveOperands() const {
  return llvm::any_of(llvm::concat<const LoadedTile>(ahead, once),
                      [](const LoadedTile& tile) { return tile.operand != nullptr; });
}

Conversions LoopTiles::vanishing() const {
  Conversions found;
  for (const LoadedTile& tile : llvm::concat<const LoadedTile>(ahead, once))
    if (tile.operand) found.insert(tile.operand);
  return found;
}

SmallVector<LoadedTile> LoopTiles::partsOf(ArrayRef<LoadedTile> tiles) {
  SmallVector<LoadedTile> parts;
  for (const LoadedTile& tile : tiles)
    if (tile.inSlot && llvm::none_of(parts, [&](const LoadedTile& part) {
          return isSameTile(part.load, tile.load);
        }))
      parts.push_back(tile);
  return parts;
}

unsigned LoopTiles::partOf(ArrayRef<LoadedTile> parts, LoadedTile tile) {
  const auto* found = llvm::find_if(
      parts, [&](const LoadedTile& part) { return isSameTile(part.load, tile.load); });
  return found - parts.begin();
}

tgpu::MemDescType LoopTiles::slotOf(LoadedTile tile) const {
  auto type = cast<RankedTensorType>(tile.load.getType());
  int64_t swizzle = 0;
  const bool multiplied = llvm::any_of(
      llvm::concat<const LoadedTile>(ahead, once),
      [&](const LoadedTile& other) { return other.operand && isSameTile(other.load, tile.load); });
  if (multiplied && type.getRank() == 2)
    swizzle = Swizzle::widest(type.getDimSize(0),
                              type.getDimSize(1) * sharedElementBytes(type.getElementType()));
  // Copies of an operand use the dot's layout. Other tiles are read in the layout of the load.
  const RankedTensorType read = tile.readType();
  if (hasLayout(read)) type = partOfCta(read).value_or(read);
  return tgpu::MemDescType::get(type.getContext(), type.getShape(), type.getElementType(), 0,
                                swizzle);
}

OperandPlace LoopTiles::placeOf(Value operand) const {
  auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>();
  if (!conversion) return {};
  for (LoadedTile tile : llvm::concat<const LoadedTile>(ahead, once))
    if (tile.operand == conversion)
      return {slotOf(tile).getSwizzle() != 0, static_cast<bool>(tile.permute())};
  return {};
}

SmallVector<tile::LoadTileOp> loadsOf(ArrayRef<LoadedTile> tiles) {
  llvm::SetVector<tile::LoadTileOp> loads;
  for (const LoadedTile& tile : tiles) loads.insert(tile.load);
  return loads.takeVector();
}

void separateTransposes(ArrayRef<LoadedTile> tiles) {
  for (LoadedTile tile : tiles) {
    tile::PermuteOp transpose = tile.permute();
    if (!tile.separate || !transpose) continue;
    OpBuilder builder(tile.operand);
    tile.operand.getSourceMutable().assign(builder.clone(*transpose)->getResult(0));
    if (transpose.use_empty()) transpose.erase();
  }
}

}  // namespace ligerdsl::compiler
