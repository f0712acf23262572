#include "compiler/layout_list.h"

#include "compiler/dialect/layout_attr.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

// An op that produces a tile, with the author's source line.
struct Tile {
  std::string op, type, file;
  unsigned line = 0;
  auto operator<=>(const Tile&) const = default;
};

Tile tileOf(Operation* op, RankedTensorType type) {
  Tile tile{.op = op->getName().stripDialect().str()};
  llvm::raw_string_ostream(tile.type) << type.getElementType();
  if (auto at = op->getLoc()->findInstanceOf<FileLineColLoc>()) {
    tile.file = at.getFilename().str();
    tile.line = at.getLine();
  }
  return tile;
}

llvm::json::Array json(const LinearLayout::Bases& bases) {
  llvm::json::Array list;
  for (const LinearLayout::Basis& basis : bases) list.push_back(llvm::json::Array(basis));
  return list;
}

}  // namespace

std::string listLayouts(ModuleOp module) {
  // The key ignores the element type, so that tiles with the same layout are in one item.
  llvm::MapVector<Type, std::vector<Tile>> tiles;
  const Type byte = IntegerType::get(module.getContext(), 8);
  module.walk<WalkOrder::PreOrder>([&](Operation* op) {
    for (Type type : op->getResultTypes()) {
      if (!hasLayout(type)) continue;
      auto tile = cast<RankedTensorType>(type);
      std::vector<Tile>& list = tiles[tile.clone(byte)];
      if (!llvm::is_contained(list, tileOf(op, tile))) list.push_back(tileOf(op, tile));
    }
  });
  llvm::json::Array list;
  for (const auto& [type, makers] : tiles) {
    const LinearLayout layout = layoutOf(cast<RankedTensorType>(type));
    llvm::json::Array made;
    for (const Tile& tile : makers)
      made.push_back(llvm::json::Object{
          {"op", tile.op}, {"type", tile.type}, {"file", tile.file}, {"line", tile.line}});
    list.push_back(llvm::json::Object{{"shape", llvm::json::Array(layout.shape())},
                                      {"register", json(layout.bases(Axis::reg))},
                                      {"lane", json(layout.bases(Axis::lane))},
                                      {"warp", json(layout.bases(Axis::warp))},
                                      {"cta", json(layout.bases(Axis::cta))},
                                      {"tiles", std::move(made)}});
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(list));
  return text;
}

}  // namespace ligerdsl::compiler
