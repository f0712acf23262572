// Bounds of a slice along its dimension, in elements from the start of the sliced view.
#pragma once

#include "compiler/target/nvptx/thread_lowering.h"

namespace ligerdsl::compiler::nvptx {

struct SliceBounds {
  mlir::Value begin, end;  // i64
};

/// Clamps the bounds of a slice to its view, so that 0 <= begin <= end <= size.
inline SliceBounds sliceBounds(ThreadLowering& t, tile::SliceOp op) {
  const mlir::Value size = t.pieces(op.getView())[1 + op.getAxis()];
  const auto clamped = [&](mlir::Value number, mlir::Value least) -> mlir::Value {
    return mlir::arith::MinSIOp::create(
        t.b, t.loc, mlir::arith::MaxSIOp::create(t.b, t.loc, number, least), size);
  };
  const mlir::Value begin = clamped(t.scalar(op.getBegin()), t.constant(0, 64));
  return {begin, clamped(t.scalar(op.getEnd()), begin)};
}

}  // namespace ligerdsl::compiler::nvptx
