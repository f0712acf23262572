// Choice of the instruction for a dot: wgmma, mma.sync, or no tensor-core instruction.
//
// Layouts are assigned before it is known which tiles a loop stages in shared memory, so the choice
// has two steps.
//
//   1. tile-assign-layouts assigns the layouts of wgmma if the loop could load B to swizzled rows
//      of shared memory.
//   2. tile-prefetch-loads makes the dot a wgmma if the loop loads B there. It emits the remarks on
//      both steps.
#pragma once

#include <string>

#include "compiler/analysis/layout_preference.h"
#include "compiler/dialect/tile.h"
#include "compiler/layout/dot_layout.h"

namespace ligerdsl::compiler {

/// Returns the layouts of a dot's operands and accumulator: fragments of tensor cores if the dot
/// fits, else layouts in which each thread computes its own elements.
DotLayouts layoutsOf(tile::DotOp dot, const Threads& threads, WarpPart part);

/// Returns why tensor cores do not compute the dot, or "" if they do.
std::string reasonNoTensorCores(tile::DotOp dot, const Threads& threads);

/// Returns true if wgmma supports the dot's types and shape.
bool couldUseWgmma(tile::DotOp dot, const Threads& threads);
/// Returns true if wgmma can read the operands (B from a ring's slots) once the dot's loop stages
/// them.
bool readsSlots(tile::DotOp dot, const Threads& threads);
/// Returns why wgmma cannot compute a tensor-core dot, even if its loop stages all operands, or ""
/// if it can.
std::string reasonNoWgmma(tile::DotOp dot, const Threads& threads);

/// Returns true if the dot's tiles have the layouts of wgmma.
bool hasWgmmaLayouts(tile::DotOp dot);
/// Place of a dot's operand: a ring's slot, or registers. A permute may follow the read.
struct OperandPlace {
  bool inSlot = false, permuted = false;
};

/// Returns why wgmma does not compute a dot that has the layouts of wgmma, or "" if it does. Here
/// `placeOf` returns the place of an operand. Copies to the slots round f32 to tf32 if `roundsF32`
/// is true, as TMA copies do; wgmma itself does not round.
std::string reasonNotInSlots(tile::DotOp dot, llvm::function_ref<OperandPlace(mlir::Value)> placeOf,
                             bool roundsF32);

}  // namespace ligerdsl::compiler
