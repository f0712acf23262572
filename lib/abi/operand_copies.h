// Copies of unaligned matmul operands to aligned memory.
//
// Fast matmuls load operands whose address and rows are aligned to 16 bytes. If the row length is a
// multiple of 16 bytes, but the address or the row stride of a call is not, the one-call form
// copies the operand first. A plan's execute() does not, because the size of its workspace must not
// depend on addresses. Without a copy, the kernel loads one element at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/matmul/matmul.h"
#include "lib/abi/kernel_step.h"

namespace ligerdsl::lib {

/// Returns true if the address of a matrix or of one of its rows is not a multiple of 16 bytes.
bool is_unaligned(const BoundTensor& matrix);

class OperandCopies {
 public:
  static constexpr size_t kOperands = 2;                 // tensors 0 and 1 of a call: a and b
  static constexpr size_t kMostBytes = size_t{1} << 30;  // limit: the context keeps the memory
  using Operands = std::array<bool, kOperands>;

  OperandCopies(const ContextRef& context, const kernels::MatmulOptions& options);

  /// Returns the operands to copy: none if copies save no time, take more than kMostBytes or leave
  /// an operand unaligned. Does not read call.stream.
  Operands operands_to_copy(const Call& call) const;
  /// Returns false if the stream is being captured and a copy kernel is not compiled yet.
  bool can_run(const Operands& operands, runtime::Stream stream) const;
  /// Returns the bytes of the copies, a multiple of kWorkspaceAlign.
  static size_t bytes(const Call& call, const Operands& operands);
  /// Copies the operands to `memory`, which has bytes() bytes, and binds the copies to the call.
  /// Compiles an operand's copy kernel at its first use.
  void run(const Operands& operands, std::byte* memory, Call* call) const;

 private:
  const KernelStep& step(size_t operand) const;

  ContextRef context_;
  DType type_;
  double columns_of_c_;
  std::array<int64_t, kOperands> columns_;  // row lengths; 0: the operand is not copied
  mutable std::mutex compiling_;
  mutable std::array<std::unique_ptr<KernelStep>, kOperands> steps_;
};

}  // namespace ligerdsl::lib
