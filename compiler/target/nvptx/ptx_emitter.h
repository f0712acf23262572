// LLVM IR -> PTX text. Sees LLVM only.
#pragma once

#include <memory>
#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace ligerdsl::compiler::nvptx {

/// What LLVM must know of a GPU: its name and the lowest PTX version that has it (times ten).
struct GpuArch {
  std::string name;  // "sm_90a"
  int ptxVersion = 0;
  int64_t sharedBytes = 0;        // that one CTA can have
  bool bulkCopies = false;        // between global and shared memory, asynchronous
  bool overlapsLaunches = false;  // griddepcontrol
};

/// Null if the name is none of the supported ones.
const GpuArch* findArch(const std::string& name);
/// "sm_80, sm_86, ..." for messages.
std::string supportedArchs();

/// Optimises the module in place and returns its PTX. LLVM's own errors are appended to `errors`.
std::string emitPtx(llvm::Module& module, const GpuArch& arch, std::string& errors);

}  // namespace ligerdsl::compiler::nvptx
