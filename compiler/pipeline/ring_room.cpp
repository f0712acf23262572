#include "compiler/pipeline/ring_room.h"

#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/shared_lifetime.h"

using namespace mlir;

namespace ligerdsl::compiler {

int64_t tileBytes(tile::LoadTileOp load) {
  auto type = cast<RankedTensorType>(load.getType());
  return type.getNumElements() * sharedElementBytes(type.getElementType());
}

int64_t RingRoom::left(Operation* scope, const LoopTiles& tiles) const {
  SmallVector<int64_t> gaps;  // bytes before each part that its alignment may waste
  int64_t alignment = kLeastAlignment;
  for (const LoadedTile& part : LoopTiles::partsOf(tiles.ahead)) {
    const int64_t ofPart = bufferAlignment(tiles.slotOf(part));
    gaps.push_back(ofPart - kLeastAlignment);
    alignment = std::max(alignment, ofPart);
  }
  int64_t taken = 0, whole = 0;  // `whole`: bytes of the buffers that cause no gap
  const int64_t exchanges = exchangeBytes(scope, tiles.vanishing());
  scope->getParentOfType<func::FuncOp>().walk([&](Operation* op) {
    if (auto alloc = dyn_cast<tgpu::LocalAllocOp>(op))
      whole += bufferBytes(alloc.getType()) % alignment == 0 ? bufferBytes(alloc.getType()) : 0;
    auto other = dyn_cast<tgpu::RingOp>(op);
    if (!other) return;
    if (lifetimeOf(other).meets(scope))
      taken += ringBytes(other.getType());
    else if (other.getType().hasBarriers())
      taken += barrierBytes(other.getType().getSlots());
  });
  // If no other ring is live, only an exchange's buffer can separate the parts, at most once. Other
  // parts are adjacent.
  if (taken == 0 && whole > 0 && whole == exchanges) gaps.clear();
  if (taken == 0 && gaps.size() > 2 && llvm::all_equal(gaps)) gaps.resize(2);
  for (int64_t gap : gaps) taken += gap;
  return (sharedBytes - std::max(exchanges, leastForExchanges) - taken) * ctas;
}

int64_t RingRoom::slotBytes(const LoopTiles& tiles) const {
  int64_t bytes = 0;
  for (const LoadedTile& part : LoopTiles::partsOf(tiles.ahead))
    bytes += bufferBytes(tiles.slotOf(part)) * ctas;
  return bytes;
}

RingFit RingRoom::fit(LoopTiles tiles, int64_t stages) const {
  const int64_t bytes = slotBytes(tiles);
  int64_t once = 0;
  for (LoadedTile& tile : tiles.once) {
    if (!tile.operand) continue;
    if (once + tileBytes(tile.load) + 2 * bytes <= left(loop, tiles))
      once += tileBytes(tile.load);
    else
      tile.operand = {};
  }
  const int64_t room = left(loop, tiles);
  RingFit result{std::move(tiles), stages, std::max<int64_t>(room, 0)};
  if (bytes == 0) return result;
  result.stages = std::min(stages, (room - once) / bytes);
  int64_t rest = room - once - result.stages * bytes;
  llvm::erase_if(result.tiles.once, [&](const LoadedTile& tile) {
    if (tile.operand) return false;
    const bool fits = ctas > 1 && tile.inSlot && tileBytes(tile.load) <= rest;
    if (fits) rest -= tileBytes(tile.load);
    return !fits;
  });
  result.fits = result.stages >= 2;
  return result;
}

int64_t RingRoom::bytesOfLaterLoops(scf::ForOp outer) const {
  scf::ForOp own = loop;
  int64_t bytes = 0;
  outer.getBody()->walk([&](scf::ForOp other) {
    auto asked = other->getAttrOfType<IntegerAttr>(tile::kNumStagesAttr);
    Operation* here = outer.getBody()->findAncestorOpInBlock(*other);
    if (!asked || asked.getInt() < 2 || !own->isBeforeInBlock(here) ||
        other.getBody()->getOps<tile::DotOp>().empty())
      return;
    for (tile::LoadTileOp load : other.getBody()->getOps<tile::LoadTileOp>())
      if (isa<RankedTensorType>(load.getType())) bytes += asked.getInt() * tileBytes(load);
  });
  return bytes;
}

}  // namespace ligerdsl::compiler
