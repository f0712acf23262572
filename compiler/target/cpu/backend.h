// LLVM module -> host object code. No MLIR type: LLVM's pass and ORC headers and MLIR's op headers never meet in one
// file.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace ligerdsl::compiler::cpu {

/// Registers LLVM's code generator for this host; safe from any thread.
void initializeNativeTarget();

class Backend {
 public:
  /// Throws std::runtime_error when LLVM does not know the CPU.
  Backend(const std::string& cpu, const std::string& features);
  ~Backend();

  /// Whether the CPU has one of LLVM's features, e.g. "f16c".
  bool has(const char* feature) const;
  /// Marks the module's functions for this CPU and simplifies them. The code is vector code already, so this is scalar
  /// cleanup only: no vectoriser, no unroller, no inliner.
  void optimize(llvm::Module& module);
  std::string emit(llvm::Module& module, bool assembly);

 private:
  std::unique_ptr<llvm::TargetMachine> machine;
};

}  // namespace ligerdsl::compiler::cpu
