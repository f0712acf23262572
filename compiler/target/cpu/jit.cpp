// Links compiled objects into this process. The process has one ORC session, and each object has
// its own JITDylib.
#include "compiler/target/cpu/jit.h"

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "compiler/target/cpu/backend.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/TargetParser/Host.h"

using namespace llvm;

struct ligerdsl_cpu_module {
  orc::JITDylib* library;
  orc::ResourceTrackerSP tracker;
};

namespace ligerdsl::compiler::cpu {
namespace {

template <typename T>
T check(Expected<T> value) {
  if (!value) throw std::runtime_error("cannot load a CPU object: " + toString(value.takeError()));
  if constexpr (std::is_reference_v<T>)
    return *value;
  else
    return std::move(*value);
}

void check(Error error) {
  if (error) throw std::runtime_error("cannot load a CPU object: " + toString(std::move(error)));
}

// Errors that the session reports during a lookup. The lookup itself returns an error that says
// only that something failed. Guarded by the session's mutex.
struct Reported {
  std::string text;
  bool noMemory = false;

  void add(Error error) {
    handleAllErrors(std::move(error), [this](const ErrorInfoBase& info) {
      noMemory = noMemory || info.convertToErrorCode() == std::errc::not_enough_memory;
      text += (text.empty() ? "" : "; ") + info.message();
    });
  }
};

// Defines the functions that kernels call. Some replace instructions that older CPUs lack (FMA).
void defineRuntime(orc::LLJIT& jit, orc::JITDylib& library) {
  orc::SymbolMap symbols;
  auto add = [&](const char* name, auto* function) {
    symbols[jit.mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(function),
                                          JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  };
  add("memcpy", &std::memcpy);
  add("memset", &std::memset);
  add("memmove", &std::memmove);
  add("fmodf", static_cast<float (*)(float, float)>(&std::fmod));
  add("fmaf", static_cast<float (*)(float, float, float)>(&std::fma));
  add("floorf", static_cast<float (*)(float)>(&std::floor));
  add("ceilf", static_cast<float (*)(float)>(&std::ceil));
  // nearbyint rounds to even, because no kernel changes the rounding mode.
  add("roundevenf", static_cast<float (*)(float)>(&std::nearbyint));
  add("sqrtf", static_cast<float (*)(float)>(&std::sqrt));
  add("ligerdsl_cpu_print", &printFromKernel);
  check(library.define(orc::absoluteSymbols(std::move(symbols))));
}

struct Session {
  std::unique_ptr<orc::LLJIT> jit;
  orc::JITDylib* runtime = nullptr;
  std::mutex mutex;
  Reported reported;
  std::atomic<uint64_t> next{0};

  Session() {
    initializeNativeTarget();
    orc::LLJITBuilder builder;
    builder.setJITTargetMachineBuilder(
        orc::JITTargetMachineBuilder(Triple(sys::getProcessTriple())));
    builder.setPlatformSetUp(orc::setUpInactivePlatform);
    builder.setLinkProcessSymbolsByDefault(false);
    builder.setObjectLinkingLayerCreator(
        [](orc::ExecutionSession& session) -> Expected<std::unique_ptr<orc::ObjectLayer>> {
          return std::make_unique<orc::ObjectLinkingLayer>(session);
        });
    jit = check(builder.create());
    jit->getExecutionSession().setErrorReporter(
        [this](Error error) { reported.add(std::move(error)); });
    runtime = &check(jit->createJITDylib("runtime"));
    defineRuntime(*jit, *runtime);
  }
};

Session& session() {
  static Session& instance = *new Session;  // never destroyed: kernels may run at exit
  return instance;
}

}  // namespace

ligerdsl_cpu_module* loadObject(std::string_view object, const std::string& entryName,
                                void** entry) {
  Session& s = session();
  std::lock_guard lock(s.mutex);
  s.reported = {};
  orc::JITDylib& library = check(s.jit->createJITDylib("kernel" + std::to_string(s.next++)));
  library.addToLinkOrder(*s.runtime);
  auto module = std::make_unique<ligerdsl_cpu_module>(
      ligerdsl_cpu_module{&library, library.createResourceTracker()});
  try {
    check(s.jit->addObjectFile(
        module->tracker, MemoryBuffer::getMemBufferCopy(StringRef(object.data(), object.size()))));
    *entry = check(s.jit->lookup(library, entryName)).toPtr<void*>();
  } catch (const std::runtime_error& error) {
    consumeError(s.jit->getExecutionSession().removeJITDylib(library));
    if (s.reported.noMemory) throw std::bad_alloc();
    throw std::runtime_error(error.what() +
                             (s.reported.text.empty() ? "" : ": " + s.reported.text));
  }
  return module.release();
}

void unloadObject(ligerdsl_cpu_module* module) {
  std::unique_ptr<ligerdsl_cpu_module> owned(module);
  if (!owned) return;
  Session& s = session();
  std::lock_guard lock(s.mutex);
  consumeError(s.jit->getExecutionSession().removeJITDylib(*owned->library));
}

}  // namespace ligerdsl::compiler::cpu
