// libligerdsl-compiler.so, loaded at its first use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "program/artifact.h"
#include "runtime/compile/compile_process.h"
#include "runtime/system/fork.h"
#include "runtime/system/status.h"

struct ligerdsl_compiler_table;
struct ligerdsl_cpu_module;

namespace ligerdsl::runtime {

class CompilerLibrary : public std::enable_shared_from_this<CompilerLibrary> {
 public:
  // Throws NOT_SUPPORTED if the compiler library cannot be loaded, or OUT_OF_HOST_MEMORY for lack
  // of address space. Throws ABI_MISMATCH if it has another API version or build id than this
  // library.
  static std::shared_ptr<CompilerLibrary> open(const std::string& path);

  // Returns the process's compiler: LIGERDSL_COMPILER, else libligerdsl-compiler.so in the folder
  // of the object that holds this code. The first successful call loads it; it is never unloaded.
  static std::shared_ptr<CompilerLibrary> shared();

  // Compiles on a thread of the library, or in a separate process if isolation().mode is `process`.
  // compile_thread.h and compile_process.h describe the effects of a fatal LLVM error. Throws
  // COMPILE_FAILED with diagnostics for the author, INTERNAL_ERROR, OUT_OF_HOST_MEMORY, or an error
  // of the worker process. After a compiler bug, the message names a file with the program
  // (reproducer.h).
  std::string compile(std::string_view program, std::string_view options);

  // Sets the isolation of later compiles. The environment sets the initial isolation. Do not call
  // this function while compiles run.
  void isolate(const CompileIsolation& isolation) { isolation_ = isolation; }
  const CompileIsolation& isolation() const { return isolation_; }

  // A CPU object linked into this process. The last owner unlinks it; a forked child leaves it
  // linked.
  class CpuModule {
   public:
    ~CpuModule();
    program::CpuEntry entry = nullptr;

   private:
    friend class CompilerLibrary;
    std::shared_ptr<CompilerLibrary> library_;
    ligerdsl_cpu_module* handle_ = nullptr;
    uint32_t linked_in_ = fork_generation();
  };
  std::shared_ptr<CpuModule> load_cpu_object(std::string_view object,
                                             const std::string& entry_name);

  const std::string& path() const { return path_; }
  const char* llvm_version() const;
  const std::string& host_cpu() const { return host_cpu_; }
  const std::string& host_features() const { return host_features_; }

 private:
  CompilerLibrary() = default;
  std::string compile_now(std::string_view program, std::string_view options);
  std::string compile_with_spans(std::string_view program, std::string_view options);
  CompileAnswer compile_in_thread(std::string_view program, std::string_view options);

  const ligerdsl_compiler_table* table_ = nullptr;
  std::string path_, host_cpu_, host_features_;
  CompileIsolation isolation_;
};

// Returns the kernel's symbol: "ligerdsl_rms_norm_forward_bf16".
std::string entry_of(std::string_view program);

// Returns the build id of this library, which is part of every cache key.
const char* build_id();

}  // namespace ligerdsl::runtime
