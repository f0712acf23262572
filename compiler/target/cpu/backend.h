// Compiles an LLVM module to host object code. Contains no MLIR type, so that no file includes both
// LLVM's pass and ORC headers and MLIR's op headers.
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
  /// Throws std::runtime_error if LLVM does not know the CPU.
  Backend(const std::string& cpu, const std::string& features);
  ~Backend();

  /// Returns true if the CPU has one of LLVM's features, for example "f16c".
  bool has(const char* feature) const;
  /// Sets the CPU attributes of the module's functions and simplifies them. The code is already
  /// vectorised, so only scalar clean-up runs: no vectoriser, no unroller, no inliner.
  void optimize(llvm::Module& module);
  std::string emit(llvm::Module& module, bool assembly);

 private:
  std::unique_ptr<llvm::TargetMachine> machine;
};

}  // namespace ligerdsl::compiler::cpu
