// The instruction that computes a dot: wgmma, mma.sync, or none of the tensor cores.
//
// wgmma needs layouts before it is known what a loop stages, so the choice has two steps.
//
//   1. tile-assign-layouts gives the tiles the layouts of wgmma if the loop could load B to
//      swizzled rows of shared memory.
//   2. tile-prefetch-loads makes the dot a wgmma if the loop does so. It reports both steps.
#pragma once

#include <string>

#include "compiler/analysis/layout_preference.h"
#include "compiler/dialect/tile.h"
#include "compiler/layout/dot_layout.h"

namespace ligerdsl::compiler {

/// Returns the layouts of a dot's tiles: fragments of tensor cores if the dot fits, else those of
/// single threads.
DotLayouts layoutsOf(tile::DotOp dot, const Threads& threads, WarpPart part);

/// Returns why tensor cores do not compute the dot; empty if they do.
std::string reasonNoTensorCores(tile::DotOp dot, const Threads& threads);

/// Returns true if wgmma supports the dot's types and shape.
bool couldUseWgmma(tile::DotOp dot, const Threads& threads);
/// Returns true if wgmma can read the operands, B from the slots of a ring, once the loop of the
/// dot stages them.
bool readsSlots(tile::DotOp dot, const Threads& threads);
/// Returns why wgmma does not compute a dot of tensor cores, whatever its loop stages; empty if
/// wgmma can.
std::string reasonNoWgmma(tile::DotOp dot, const Threads& threads);

/// Returns true if the dot's tiles have the layouts of wgmma.
bool hasWgmmaLayouts(tile::DotOp dot);
/// Place of a dot's operand: a slot or registers, directly or after a permute.
struct OperandPlace {
  bool inSlot = false, permuted = false;
};

/// Returns why wgmma does not compute a dot with these layouts; empty if it does. `placeOf` says
/// which operands are read from swizzled slots. Copies to the slots round f32 to tf32 if
/// `roundsF32` is true. TMA copies do; wgmma itself does not round.
std::string reasonNotInSlots(tile::DotOp dot, llvm::function_ref<OperandPlace(mlir::Value)> placeOf,
                             bool roundsF32);

}  // namespace ligerdsl::compiler
