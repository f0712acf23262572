// Compiles LLVM IR to PTX text. Depends only on LLVM, not on MLIR.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace ligerdsl::compiler::nvptx {

/// Optimises the module in place and returns its PTX for an architecture ("sm_90a"). `ptxVersion`
/// is the PTX version times ten. LLVM's errors are appended to `errors`.
std::string emitPtx(llvm::Module& module, const std::string& arch, int ptxVersion,
                    std::string& errors);

}  // namespace ligerdsl::compiler::nvptx
