// Tiles that a pipelined loop loads ahead or once; a ring holds some of them. They describe the
// planned loop. The IR still has the loads, and the layout conversions of operands.
#pragma once

#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/wgmma_choice.h"
#include "compiler/dialect/tgpu.h"
#include "llvm/ADT/SmallVector.h"

namespace ligerdsl::compiler {

/// A tile that a loop loads, for one reader or for all of them.
struct LoadedTile {
  tile::LoadTileOp load;
  tgpu::ConvertLayoutOp operand;  // conversion to the layout of the one dot that reads the tile
  bool inSlot = false;            // in a slot of the ring, not in registers
  bool separate = false;          // the load has readers other than `operand`

  /// Returns the transpose between the load and the conversion, or null.
  tile::PermuteOp permute() {
    return operand ? operand.getSource().getDefiningOp<tile::PermuteOp>() : tile::PermuteOp();
  }
  /// Returns the type of a read of the tile's slot.
  mlir::RankedTensorType readType();
};

struct LoopTiles {
  llvm::SmallVector<LoadedTile> ahead;  // loaded in an earlier iteration than their use
  llvm::SmallVector<LoadedTile> once;   // the same in all iterations, copied before the loop

  /// Adds tiles of loads that are issued ahead, with each load's vanishing conversions. If a load
  /// has several readers, each conversion gets its own tile, after all other tiles. The remaining
  /// readers share one tile.
  struct Ahead {
    tile::LoadTileOp load;
    bool inSlot;
    llvm::SmallVector<tgpu::ConvertLayoutOp> operands;
  };
  void addAhead(llvm::ArrayRef<Ahead> loads);

  /// Returns true if a dot reads a slot in the dot's operand layout.
  bool haveOperands() const;
  /// Returns the conversions that vanish because dots read slots in operand layout.
  Conversions vanishing() const;

  /// Returns the tiles in slots, one per part of the ring. Identical loads share a part.
  static llvm::SmallVector<LoadedTile> partsOf(llvm::ArrayRef<LoadedTile> tiles);
  /// Returns the number of the part that holds the tile.
  static unsigned partOf(llvm::ArrayRef<LoadedTile> parts, LoadedTile tile);
  /// Returns the shape, element type and swizzle of the tile in a slot.
  tgpu::MemDescType slotOf(LoadedTile tile) const;

  /// Returns the place of a dot's operand for wgmma, which reads swizzled slots.
  OperandPlace placeOf(mlir::Value operand) const;
};

/// Returns the loads of these tiles, each once, in their order.
llvm::SmallVector<tile::LoadTileOp> loadsOf(llvm::ArrayRef<LoadedTile> tiles);

/// Gives each separate operand its own transpose, directly before its conversion. This shortens the
/// lifetime of the conversion's buffer.
void separateTransposes(llvm::ArrayRef<LoadedTile> tiles);

}  // namespace ligerdsl::compiler
