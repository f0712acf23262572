// LLVM IR -> PTX text. Sees LLVM only.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace ligerdsl::compiler::nvptx {

/// Optimises the module in place and returns its PTX, of a version (times ten) for an architecture ("sm_90a"). LLVM's
/// own errors are appended to `errors`.
std::string emitPtx(llvm::Module& module, const std::string& arch, int ptxVersion, std::string& errors);

}  // namespace ligerdsl::compiler::nvptx
