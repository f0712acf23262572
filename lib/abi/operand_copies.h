// Copies of unaligned matmul operands to the workspace (kernels/matmul/copy_choice.h).
//
// Calls copy operands if that saves time and their workspace has room for the copies. Plans report
// the bytes of the copies separately (ligerdsl_plan_workspace_bytes_with_copies), because the size
// of a required workspace must not depend on addresses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/matmul/copy_choice.h"
#include "lib/abi/kernel_step.h"

namespace ligerdsl::lib {

/// Returns true if the address of a matrix or of one of its rows is not a multiple of 16 bytes.
bool is_unaligned(const BoundTensor& matrix);

class OperandCopies {
 public:
  using Operands = kernels::CopyChoice::Operands;
  static constexpr size_t kOperands = kernels::CopyChoice::kOperands;  // tensors 0 and 1 of a call
  static constexpr size_t kMostBytes = size_t{1} << 30;  // calls copy at most this many bytes

  OperandCopies(const ContextRef& context, const kernels::MatmulOptions& options);

  /// Returns the largest number of bytes that a call with `rows` rows copies.
  size_t most_bytes(int64_t rows) const;
  /// Returns the operands to copy for the least predicted time. Does not read call.stream.
  Operands operands_to_copy(const Call& call) const;
  /// Returns the bytes of the copies, a multiple of kWorkspaceAlign.
  size_t bytes(const Call& call, const Operands& operands) const;
  /// Copies the operands to `memory`, which has bytes() bytes, and binds the copies to the call.
  /// Their copy kernels must be compiled.
  void run(const Operands& operands, std::byte* memory, Call* call) const;

  /// Returns true if the copy kernels of these operands are compiled.
  bool are_compiled(const Operands& operands) const;
  /// Compiles the copy kernels of these operands.
  void compile(const Operands& operands) const;
  /// Compiles all copy kernels.
  void compile_all() const;

 private:
  void compile(size_t operand) const;

  ContextRef context_;
  DType type_;
  kernels::CopyChoice choice_;
  mutable std::mutex compiling_;
  mutable std::array<std::unique_ptr<KernelStep>, kOperands> steps_;
};

}  // namespace ligerdsl::lib
