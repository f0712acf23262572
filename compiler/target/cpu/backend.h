// Compiles an LLVM module to host object code. This header names no MLIR type. Files that include
// LLVM's pass or ORC headers thus need no MLIR op headers.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace ligerdsl::compiler::cpu {

/// Registers LLVM's code generator for this host. Thread-safe.
void initializeNativeTarget();

class Backend {
 public:
  /// Throws std::runtime_error if LLVM does not know the CPU.
  Backend(const std::string& cpu, const std::string& features);
  ~Backend();

  /// Returns true if the CPU has the feature with this LLVM name, for example "f16c".
  bool has(const char* feature) const;
  /// Sets the CPU attributes of the module's functions and simplifies their code. The code is
  /// already vectorised, so no vectoriser, unroller or inliner runs.
  void optimize(llvm::Module& module);
  std::string emit(llvm::Module& module, bool assembly);

 private:
  std::unique_ptr<llvm::TargetMachine> machine;
};

}  // namespace ligerdsl::compiler::cpu
