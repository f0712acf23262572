#include "compiler/pipeline/dot_operand_staging.h"

#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/row_alignment.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

Operation* onlyUser(Value value) {
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

int64_t linearPart(RankedTensorType type) {
  int64_t product = 1;
  for (int64_t size : type.getShape()) product *= size & -size;
  return product;
}

// Returns the dot that is the conversion's only user, or null.
tile::DotOp dotOf(tgpu::ConvertLayoutOp conversion) {
  return dyn_cast_or_null<tile::DotOp>(onlyUser(conversion.getResult()));
}

// Returns the load's conversion for a dot, directly or after a transpose, if the load has no other
// use.
tgpu::ConvertLayoutOp onlyOperandOf(tile::LoadTileOp load) {
  Operation* user = onlyUser(load.getResult());
  if (auto permute = dyn_cast_or_null<tile::PermuteOp>(user)) user = onlyUser(permute.getResult());
  auto conversion = dyn_cast_or_null<tgpu::ConvertLayoutOp>(user);
  return conversion && dotOf(conversion) ? conversion : tgpu::ConvertLayoutOp();
}

// Returns true if all bits of the pad are 0. The pad of an fp8 tile is an integer: the fp8 code.
bool isZero(TypedAttr pad) {
  if (auto number = dyn_cast<FloatAttr>(pad)) return number.getValue().isPosZero();
  auto number = dyn_cast<IntegerAttr>(pad);
  return number && number.getValue().isZero();
}

// Returns why a load with an alignment offset cannot be staged, or "" if it can. A copy includes
// the whole 16-byte vector in which a row begins. This vector is inside the argument if the
// argument is aligned. Reads of the slot zero the elements before the row.
std::string reasonOffsetNotStaged(tile::LoadTileOp load, Copies copies) {
  Value offset = load.getAlignmentOffset();
  const int64_t alignment = load.getView().getType().getAlignment();
  if (llvm::any_of(conversionsOf(load), dotOf))
    return "it has an alignment offset and is an operand of a dot; align its rows";
  if (copies == Copies::tma)
    return "it has an alignment offset and is loaded by a TMA copy; align its rows";
  if (!llvm::all_of(load.getTileShape().drop_back(), [](int64_t size) { return size <= 1; }))
    return "it has an alignment offset, and its tiles have several rows; use tiles of one row";
  if (!alignmentOffsetAligns(offset, load.getView(), load.getIndices(), load.getTileShape()))
    return "its alignment offset is not provably that of its row; use View::alignment_offset of "
           "this row";
  if (tile::maxAlignmentOffset(offset) >= load.getTileShape().back())
    return "its tiles have " + std::to_string(load.getTileShape().back()) +
           " elements, and the alignment offset may be up to " +
           std::to_string(tile::maxAlignmentOffset(offset)) + "; use wider tiles";
  if (alignment % tile::kVectorBytes != 0)
    return "the address of its argument is only known to be a multiple of " +
           std::to_string(alignment) + " bytes; align it to 16 bytes";
  return "";
}

}  // namespace

// Returns true if copies can bring an operand to all CTAs. In a cluster, only TMA copies can.
bool DotOperandStaging::comesToAll() const {
  return ctas == 1 || at.loop->hasAttr(tile::kTensorCopiesAttr);
}

// Returns the conversions of `load`, or of its transpose, that vanish. Each has one dot as its only
// user. The copies fetch the tile once, even if the load has other users. In a cluster, the load
// must have no other user.
SmallVector<tgpu::ConvertLayoutOp> DotOperandStaging::operandsOf(tile::LoadTileOp load) const {
  if (!comesToAll()) return {};
  if (tgpu::ConvertLayoutOp only = onlyOperandOf(load)) return {only};
  if (ctas > 1) return {};
  return llvm::filter_to_vector(conversionsOf(load), [&](tgpu::ConvertLayoutOp conversion) {
    return conversion->getBlock() == at.loop.getBody() && dotOf(conversion);
  });
}

LoopTiles DotOperandStaging::tilesOf(ArrayRef<tile::LoadTileOp> ahead,
                                     ArrayRef<tile::LoadTileOp> once, Copies copies) const {
  LoopTiles tiles;
  SmallVector<LoopTiles::Ahead> loads;
  for (tile::LoadTileOp load : ahead) {
    LoopTiles::Ahead tile{load, canBeStaged(load, copies), {}};
    if (tile.inSlot) tile.operands = operandsOf(load);
    loads.push_back(tile);
  }
  tiles.addAhead(loads);
  for (tile::LoadTileOp load : once) {
    LoadedTile tile{load, {}, canBeStaged(load, copies)};
    tgpu::ConvertLayoutOp operand = onlyOperandOf(load);
    // Threads copy these tiles. Their copies do not round to tf32, which wgmma would need.
    if (operand && ctas == 1 && canBeStaged(load, Copies::threads) &&
        operand.getSource() == load.getResult() && dotOf(operand).getA() == operand.getResult() &&
        !dotOf(operand).getTf32())
      tile.operand = operand;
    tiles.once.push_back(tile);
  }
  return tiles;
}

LoopTiles DotOperandStaging::tilesWithoutOperands(ArrayRef<tile::LoadTileOp> ahead,
                                                  ArrayRef<tile::LoadTileOp> once) const {
  LoopTiles tiles;
  for (tile::LoadTileOp load : ahead)
    tiles.ahead.push_back({load, {}, canBeStaged(load, Copies::threads)});
  for (tile::LoadTileOp load : once)
    tiles.once.push_back({load, {}, canBeStaged(load, Copies::threads)});
  return tiles;
}

bool DotOperandStaging::needTma(const LoopTiles& tiles) const {
  return llvm::any_of(tiles.ahead, [&](const LoadedTile& tile) {
    return tile.operand && !canBeStaged(tile.load, Copies::threads);
  });
}

void DotOperandStaging::remarkOthers(const LoopTiles& tiles, Copies copies) const {
  const Conversions vanishing = tiles.vanishing();
  for (tile::DotOp dot : at.loop.getBody()->getOps<tile::DotOp>())
    for (Value operand : {dot.getA(), dot.getB()}) {
      auto conversion = operand.getDefiningOp<tgpu::ConvertLayoutOp>();
      if (conversion && !vanishing.contains(conversion)) remark(conversion, copies);
    }
}

void DotOperandStaging::remark(tgpu::ConvertLayoutOp conversion, Copies copies) const {
  if (conversion->getBlock() != at.loop.getBody() || !passesMemory(conversion)) return;
  Value source = conversion.getSource();
  if (auto permute = source.getDefiningOp<tile::PermuteOp>()) source = permute.getSource();
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  std::string why = "it is not the unchanged result of a load";
  if (load)
    why = ctas > 1 ? "every CTA of the cluster needs the whole tile; use tensor_copies = true and "
                     "the tile only in this dot, or num_ctas = 1"
                   : reasonNotStaged(load, copies);
  if (load && why.empty()) why = "its load is not issued ahead";
  at.remark(conversion, RemarkId::dot_operand_in_registers)
      << "a dot operand passes through registers: " << why;
}

// Copies by all threads need a vector per thread. TMA copies do not, because one thread issues the
// copy of the whole tile.
std::string DotOperandStaging::reasonNotStaged(tile::LoadTileOp load, Copies copies) const {
  auto type = dyn_cast<RankedTensorType>(load.getType());
  if (!type) return "it is a scalar";
  if (load.getAlignmentOffset())
    if (std::string why = reasonOffsetNotStaged(load, copies); !why.empty()) return why;
  const AccessShape access = accessShape(load);
  int64_t bytes = sharedElementBytes(type.getElementType()), vector = access.vector;
  if (access.fastDim >= 0 && access.fastDim != type.getRank() - 1)
    return "its last dimension is not the contiguous one in memory; load it in memory order, then "
           ".permute() the tile";
  if (access.fastDim < 0) return "none of its dimensions is known to be contiguous in memory";
  if (type.getShape()[access.fastDim] % vector != 0 || vector * bytes != 16)
    return "a copy has 16 bytes, and facts prove accesses of only " +
           std::to_string(vector * bytes) + " bytes";
  if (load.getPadAttr() && !isZero(load.getPadAttr()))
    return "copies to shared memory pad only with 0; load with pad 0";
  if (copies == Copies::tma) return "";
  if (linearPart(type) < threads * ctas * vector)
    return "its tile has " + std::to_string(linearPart(type) / vector) +
           " vectors of 16 bytes for " + std::to_string(threads * ctas) +
           " threads; use larger tiles or fewer warps";
  if (hasLayout(type) && layoutOf(type).contiguous(access.fastDim) < vector)
    return "the layouts of its uses split its 16-byte vectors";
  return "";
}

}  // namespace ligerdsl::compiler
