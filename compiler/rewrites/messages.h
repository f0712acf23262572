// What the CTAs of a cluster tell each other in few words: tgpu.send and tgpu.receive with their slots and memory
// barriers. Unlike a cluster barrier, a message waits for no other access to memory.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Whether messages carry such a tile of each of so many senders: not many elements, of 32 or 64 bits.
bool fitsMessages(mlir::RankedTensorType type, int64_t senders = 1);

class Message {
 public:
  /// Sends tiles to all CTAs. With `fromFirst` it is the first CTA's values that count.
  Message(mlir::OpBuilder& builder, mlir::Location loc, mlir::ValueRange values, bool fromFirst);

  /// Waits for them and gives them in these types.
  llvm::SmallVector<mlir::Value> receive(mlir::OpBuilder& builder, mlir::TypeRange types);

  tgpu::SendOp op() { return send; }

 private:
  tgpu::SendOp send;
};

}  // namespace ligerdsl::compiler
