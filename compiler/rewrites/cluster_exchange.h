// What the CTAs of a cluster tell each other in few words: tgpu.cluster_send and tgpu.cluster_receive with their stages
// and memory barriers. Unlike a cluster barrier, an exchange waits for no other access to memory.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Whether an exchange carries such a tile of each of so many senders: not many elements, of 32 or 64 bits.
bool fitsExchange(mlir::RankedTensorType type, int64_t senders = 1);

class ClusterExchange {
 public:
  /// Sends tiles to all CTAs. With `fromFirst` it is the first CTA's values that count.
  ClusterExchange(mlir::OpBuilder& builder, mlir::Location loc, mlir::ValueRange values, bool fromFirst);

  /// Waits for them and gives them in these types.
  llvm::SmallVector<mlir::Value> receive(mlir::OpBuilder& builder, mlir::TypeRange types);

  tgpu::ClusterSendOp op() { return send; }

 private:
  tgpu::ClusterSendOp send;
};

}  // namespace ligerdsl::compiler
