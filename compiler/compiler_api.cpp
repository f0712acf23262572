// The C table behind libligerdsl-compiler.so's one exported symbol.
#include "compiler/compiler_api.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>

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

std::string_view view(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

enum : int32_t { kOk = 0, kCallerError = 1, kInternalError = 2, kBackendError = 3 };

// Runs `work` on a guarded thread and turns what it throws into a status and a text. A parked worker lives on, so it shares
// ownership of the outcome, and `work` must own what it touches.
int32_t guarded(ligerdsl_bytes* error, std::function<void()> work) {
  struct Outcome {
    int32_t status = kOk;
    std::string message;
  };
  auto outcome = std::make_shared<Outcome>();
  std::string fatal;
  bool finished = runGuardingFatalErrors(
      [outcome, work = std::move(work)] {
        try {
          work();
        } catch (const CompileError& e) {
          *outcome = {e.internal ? kInternalError : kCallerError, e.what()};
        } catch (const std::exception& e) {
          *outcome = {kCallerError, e.what()};
        }
      },
      fatal);
  if (finished && outcome->status == kOk) return kOk;
  if (error) *error = toBytes(finished ? outcome->message : fatal);
  return finished ? outcome->status : kBackendError;
}

int32_t compileBytes(const uint8_t* programData, size_t programSize, const uint8_t* optionsData, size_t optionsSize,
                     ligerdsl_bytes* artifact, ligerdsl_bytes* error) {
  // The worker may outlive this frame (parked after a fatal error), so it owns all it touches.
  auto input = std::make_shared<std::pair<std::string, std::string>>(view(programData, programSize), view(optionsData, optionsSize));
  auto output = std::make_shared<std::string>();
  int32_t status = guarded(error, [input, output] {
    program::Program program = program::parseProgram(input->first);
    *output = program::serialize(compile(program, program::parseOptions(input->second)));
  });
  if (status == kOk) *artifact = toBytes(*output);
  return status;
}

int32_t cpuLoad(const uint8_t* object, size_t size, const char* entryName, ligerdsl_cpu_module** module, void** entry,
                ligerdsl_bytes* error) {
  auto input = std::make_shared<std::pair<std::string, std::string>>(view(object, size), entryName);
  auto output = std::make_shared<std::pair<ligerdsl_cpu_module*, void*>>();
  int32_t status =
      guarded(error, [input, output] { output->first = loadCpuObject(input->first, input->second, &output->second); });
  if (status == kOk) std::tie(*module, *entry) = *output;
  return status;
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
};

}  // namespace
}  // namespace ligerdsl::compiler

extern "C" __attribute__((visibility("default"))) const ligerdsl_compiler_table* ligerdsl_compiler_entry(void) {
  return &ligerdsl::compiler::table;
}
