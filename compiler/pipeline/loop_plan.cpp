#include "compiler/pipeline/loop_plan.h"

#include "llvm/ADT/MapVector.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

StringRef nameOf(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::registers:
      return "registers";
    case Mechanism::ring:
      return "ring";
    case Mechanism::prefetch:
      return "prefetch";
  }
  llvm_unreachable("a mechanism without a name");
}

constexpr llvm::StringLiteral kThreads = "threads", kTma = "tma";                // kCopiesAttr
constexpr llvm::StringLiteral kAhead = "ahead", kOnce = "once", kNone = "none";  // kLoadedAttr
constexpr llvm::StringLiteral kTile = "tile", kOperand = "operand";              // kStagedAttr

bool isText(Operation* op, StringRef name, StringRef text) {
  auto attr = op->getAttrOfType<StringAttr>(name);
  return attr && attr.getValue() == text;
}

}  // namespace

SmallVector<tgpu::ConvertLayoutOp> conversionsOf(tile::LoadTileOp load) {
  SmallVector<tgpu::ConvertLayoutOp> found;
  const auto add = [&](Operation* user) {
    if (auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(user)) found.push_back(conversion);
  };
  for (Operation* user : load->getUsers()) {
    add(user);
    if (isa<tile::PermuteOp>(user)) llvm::for_each(user->getUsers(), add);
  }
  return found;
}

void writePlan(scf::ForOp loop, const LoopPlan& plan, const LoopTiles& tiles) {
  Builder builder(loop.getContext());
  loop->setAttr(tile::kMechanismAttr, builder.getStringAttr(nameOf(plan.mechanism)));
  loop->setAttr(tile::kPlannedStagesAttr, builder.getI64IntegerAttr(plan.stages));
  if (plan.mechanism == Mechanism::ring)
    loop->setAttr(tile::kCopiesAttr,
                  builder.getStringAttr(plan.copies == Copies::tma ? kTma : kThreads));
  if (plan.copiesFirst) loop->setAttr(tile::kCopiesFirstAttr, builder.getUnitAttr());
  if (plan.acrossLoops) loop->setAttr(tile::kAcrossLoopsAttr, builder.getUnitAttr());

  const auto write = [&](const LoadedTile& tile, StringRef loaded) {
    tile.load->setAttr(tile::kLoadedAttr, builder.getStringAttr(loaded));
    if (tile.operand && tile.inSlot)
      tile.operand->setAttr(tile::kFromSlotAttr, builder.getUnitAttr());
    if (tile.separate && !tile.inSlot)
      tile.operand->setAttr(tile::kStagedAttr, builder.getStringAttr(kNone));
    if (tile.inSlot && !isText(tile.load, tile::kStagedAttr, kOperand))
      tile.load->setAttr(tile::kStagedAttr, builder.getStringAttr(tile.operand ? kOperand : kTile));
  };
  for (tile::LoadTileOp load : loop.getBody()->getOps<tile::LoadTileOp>())
    load->setAttr(tile::kLoadedAttr, builder.getStringAttr(kNone));
  for (const LoadedTile& tile : tiles.ahead) write(tile, kAhead);
  for (const LoadedTile& tile : tiles.once) write(tile, kOnce);
}

std::optional<LoopPlan> planOf(scf::ForOp loop) {
  LoopPlan plan;
  if (!loop->hasAttr(tile::kMechanismAttr)) return std::nullopt;
  for (Mechanism mechanism : {Mechanism::registers, Mechanism::ring, Mechanism::prefetch})
    if (isText(loop, tile::kMechanismAttr, nameOf(mechanism))) plan.mechanism = mechanism;
  plan.stages = loop->getAttrOfType<IntegerAttr>(tile::kPlannedStagesAttr).getInt();
  if (isText(loop, tile::kCopiesAttr, kTma)) plan.copies = Copies::tma;
  plan.copiesFirst = loop->hasAttr(tile::kCopiesFirstAttr);
  plan.acrossLoops = loop->hasAttr(tile::kAcrossLoopsAttr);
  return plan;
}

LoopTiles takeTiles(scf::ForOp loop) {
  LoopTiles tiles;
  SmallVector<LoopTiles::Ahead> ahead;
  for (tile::LoadTileOp load : loop.getBody()->getOps<tile::LoadTileOp>()) {
    SmallVector<tgpu::ConvertLayoutOp> operands;
    for (tgpu::ConvertLayoutOp conversion : conversionsOf(load))
      if (conversion->removeAttr(tile::kFromSlotAttr) || conversion->removeAttr(tile::kStagedAttr))
        operands.push_back(conversion);
    const bool inSlot = load->hasAttr(tile::kStagedAttr);
    if (isText(load, tile::kLoadedAttr, kAhead)) ahead.push_back({load, inSlot, operands});
    if (isText(load, tile::kLoadedAttr, kOnce))
      tiles.once.push_back({load, operands.empty() ? tgpu::ConvertLayoutOp() : operands[0], true});
    load->removeAttr(tile::kLoadedAttr);
    load->removeAttr(tile::kStagedAttr);
  }
  tiles.addAhead(ahead);
  return tiles;
}

void erasePlan(scf::ForOp loop) {
  takeTiles(loop);
  for (StringRef name : {tile::kMechanismAttr, tile::kPlannedStagesAttr, tile::kCopiesAttr,
                         tile::kCopiesFirstAttr, tile::kAcrossLoopsAttr})
    loop->removeAttr(name);
}

}  // namespace ligerdsl::compiler
