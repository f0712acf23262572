// Exchange of small tiles between the CTAs of a cluster: tgpu.cluster_send and tgpu.cluster_receive
// with their buffers and mbarriers. Unlike a cluster barrier, an exchange waits for no other access
// to memory.
#pragma once

#include "compiler/dialect/tgpu.h"
#include "mlir/IR/Builders.h"

namespace ligerdsl::compiler {

/// Returns true if an exchange can carry a tile of this type from each of `senders` CTAs: elements
/// of 32 or 64 bits, and few of them.
bool fitsExchange(mlir::RankedTensorType type, int64_t senders = 1);

class ClusterExchange {
 public:
  /// Sends tiles to all CTAs. With `fromFirst` the receivers use the first CTA's values.
  ClusterExchange(mlir::OpBuilder& builder, mlir::Location loc, mlir::ValueRange values,
                  bool fromFirst);

  /// Waits for the sent tiles and returns them as tiles of these types.
  llvm::SmallVector<mlir::Value> receive(mlir::OpBuilder& builder, mlir::TypeRange types);

  tgpu::ClusterSendOp op() { return send; }

 private:
  tgpu::ClusterSendOp send;
};

}  // namespace ligerdsl::compiler
