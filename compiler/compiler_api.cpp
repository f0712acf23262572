// Table of C functions, returned by libligerdsl-compiler.so's only exported symbol.
#include "compiler/compiler_api.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "compiler/compile.h"
#include "compiler/fatal_error.h"
#include "compiler/target/cpu/cpu_target.h"
#include "ligerdsl_build_id.h"
#include "llvm/Config/llvm-config.h"
#include "program/serialize.h"

namespace ligerdsl::compiler {
namespace {

ligerdsl_bytes toBytes(const std::string& text) {
  auto* data = static_cast<uint8_t*>(std::malloc(text.size() + 1));
  if (!data) return {nullptr, 0};
  std::memcpy(data, text.data(), text.size());
  data[text.size()] = 0;
  return {data, text.size()};
}

std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

enum : int32_t {
  kOk = 0,
  kCallerError = 1,
  kInternalError = 2,
  kNoMemory = LIGERDSL_COMPILER_NO_MEMORY
};

// Runs `work` and converts its exceptions to a status and a text. LLVM's fatal errors do not throw
// (fatal_error.h).
template <class Work>
int32_t guarded(ligerdsl_bytes* error, Work work) {
  try {
    work();
    return kOk;
  } catch (const CompileError& e) {
    if (error) *error = toBytes(e.what());
    return e.internal ? kInternalError : kCallerError;
  } catch (const std::bad_alloc&) {
    if (error) *error = toBytes(LIGERDSL_OUT_OF_MEMORY);
    return kNoMemory;
  } catch (const std::exception& e) {
    if (error) *error = toBytes(e.what());
    return kCallerError;
  }
}

int32_t compileBytes(const uint8_t* program, size_t programSize, const uint8_t* options,
                     size_t optionsSize, ligerdsl_bytes* artifact, ligerdsl_bytes* error) {
  return guarded(error, [&] {
    *artifact =
        toBytes(program::serialize(compile(program::parseProgram(view(program, programSize)),
                                           program::parseOptions(view(options, optionsSize)))));
    if (!artifact->data) throw std::bad_alloc();
  });
}

int32_t cpuLoad(const uint8_t* object, size_t size, const char* entryName,
                ligerdsl_cpu_module** module, void** entry, ligerdsl_bytes* error) {
  return guarded(error, [&] { *module = loadCpuObject(view(object, size), entryName, entry); });
}

const ligerdsl_compiler_table table = {
    LIGERDSL_COMPILER_API_VERSION,
    LIGERDSL_BUILD_ID,
    LLVM_VERSION_STRING,
    compileBytes,
    cpuLoad,
    unloadCpuObject,
    [] { return hostCpuName().c_str(); },
    [] { return hostCpuFeatures().c_str(); },
    [](ligerdsl_bytes bytes) { std::free(bytes.data); },
    setFatalHook,
};

}  // namespace
}  // namespace ligerdsl::compiler

extern "C" __attribute__((visibility("default"))) const ligerdsl_compiler_table*
ligerdsl_compiler_entry(void) {
  return &ligerdsl::compiler::table;
}
