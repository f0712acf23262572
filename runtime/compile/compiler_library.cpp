#include "runtime/compile/compiler_library.h"

#include <dlfcn.h>

#include <mutex>

#include "compiler/compiler_api.h"
#include "ligerdsl_build_id.h"
#include "program/serialize.h"
#include "runtime/compile/compile_thread.h"
#include "runtime/compile/reproducer.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/observe/ranges.h"
#include "runtime/system/address_space.h"
#include "runtime/system/shared_library.h"

namespace ligerdsl::runtime {
namespace {

constexpr const char* kLibraryName = "libligerdsl-compiler.so";

[[noreturn]] void fail_at_compiler(Status status, const std::string& what, std::string_view program,
                                   std::string_view options) {
  const std::string path = write_reproducer(program, options);
  fail(status,
       what + ". " +
           (path.empty() ? "The program could not be saved for a bug report: set "
                           "LIGERDSL_REPRODUCER_DIR to a writable folder"
                         : "Please report this with \"" + path +
                               "\"; `ligerdsl compile` repeats the compile from this file"));
}

// Throws an error that describes an answer without an artifact.
[[noreturn]] void fail_as(const CompileAnswer& answer, std::string_view program,
                          std::string_view options) {
  switch (answer.outcome) {
    case CompileOutcome::program_wrong:
      fail(Status::compile_failed, answer.error);
    case CompileOutcome::out_of_memory:
      fail(Status::out_of_host_memory, "the compiler ran out of memory: " + answer.error);
    case CompileOutcome::no_compiler:
    case CompileOutcome::not_started:
      fail(Status::not_supported, answer.error);
    case CompileOutcome::stopped:
      fail(Status::execution_failed, answer.error);
    case CompileOutcome::other_build:
      fail(Status::abi_mismatch, answer.error);
    case CompileOutcome::gave_up:
      fail_at_compiler(
          Status::compile_failed,
          "LLVM stopped with a fatal error: " + answer.error + ". This process is not affected",
          program, options);
    case CompileOutcome::crashed:
    case CompileOutcome::too_slow:
      fail_at_compiler(Status::compile_failed, answer.error, program, options);
    default:
      fail_at_compiler(Status::internal_error,
                       "the compiler failed on a program that it should accept: " + answer.error,
                       program, options);
  }
}

[[noreturn]] void fail_for(const std::string& fatal, const char* when) {
  fail(is_out_of_memory(fatal) ? Status::out_of_host_memory : Status::compile_failed,
       std::string("LLVM stopped with a fatal error ") + when + ": " + fatal);
}

// Inputs and results of a call into the compiler, owned jointly by the caller and the compile
// thread.
struct Call {
  std::string first, second;
  ligerdsl_bytes output{}, error{};
  ligerdsl_cpu_module* module = nullptr;
  void* entry = nullptr;
  int32_t result = 0;
};

std::string take(const ligerdsl_compiler_table& table, ligerdsl_bytes bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data),
                   bytes.data != nullptr ? bytes.size : 0);
  if (bytes.data != nullptr) table.free_bytes(bytes);
  return text;
}

const uint8_t* bytes_of(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Returns the folder of the shared object that contains this code.
std::string own_folder() {
  const std::string file = file_of(reinterpret_cast<const void*>(&own_folder));
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

}  // namespace

std::string entry_of(std::string_view program) {
  try {
    return "ligerdsl_" + program::parseProgram(program).name;
  } catch (const std::runtime_error&) {
    return "unreadable_program";  // the compile will report the error
  }
}

const char* build_id() {
  return LIGERDSL_BUILD_ID;
}

std::shared_ptr<CompilerLibrary> CompilerLibrary::open(const std::string& path) {
  find_range_listeners();
  const InsideCompiler loading;
  const size_t needed = bytes_to_load(path.c_str());
  // Checks memory first, because the library's constructors do not survive a failed allocation.
  void* library =
      address_space_left(needed) ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    const char* why = dlerror();
    if (!address_space_left(needed))
      fail(Status::out_of_host_memory,
           "loading the compiler \"" + path + "\" needs " + std::to_string(needed >> 20) +
               " MiB of address space, which this process cannot get: raise `ulimit -v` or free "
               "memory");
    fail(Status::not_supported, "the compiler cannot be loaded: " + std::string(why ? why : path) +
                                    ". Install " + kLibraryName +
                                    " next to libligerdsl, or set LIGERDSL_COMPILER to its path");
  }
  auto entry =
      reinterpret_cast<ligerdsl_compiler_entry_fn>(dlsym(library, LIGERDSL_COMPILER_ENTRY));
  if (entry == nullptr)
    fail(
        Status::abi_mismatch,
        "\"" + path + "\" is not a ligerdsl compiler: it has no function " LIGERDSL_COMPILER_ENTRY);
  const ligerdsl_compiler_table* table = entry();
  if (table->api_version != LIGERDSL_COMPILER_API_VERSION)
    fail(Status::abi_mismatch, "\"" + path + "\" has version " +
                                   std::to_string(table->api_version) +
                                   " of the compiler interface, expected " +
                                   std::to_string(LIGERDSL_COMPILER_API_VERSION) +
                                   ": install both libraries from the same build");
  if (std::string_view(table->build_id) != build_id())
    fail(Status::abi_mismatch, "\"" + path + "\" is from build " + table->build_id +
                                   ", this library from build " + build_id() +
                                   ": install both libraries from the same build");
  table->set_fatal_hook(on_fatal_error);
  std::shared_ptr<CompilerLibrary> result(new CompilerLibrary);
  result->table_ = table;
  // dlopen searches for a name without a folder. The worker is next to the library that it found.
  const std::string file = file_of(reinterpret_cast<const void*>(entry));
  result->path_ = file.find('/') == std::string::npos ? path : file;
  const Options& wanted = options();
  result->isolation_ = {.mode = wanted.compile.value_or(CompileMode::thread),
                        .worker = wanted.compile_worker,
                        .seconds = wanted.compile_seconds,
                        .megabytes = wanted.compile_megabytes};
  struct Host {
    std::string cpu, features;
  };
  auto host = std::make_shared<Host>();
  const std::string fatal = run_in_compiler(CompilerCall::compile, [host, table] {
    host->cpu = table->host_cpu();
    host->features = table->host_features();
  });
  if (!fatal.empty()) fail_for(fatal, "while it detected this host's CPU");
  result->host_cpu_ = host->cpu;
  result->host_features_ = host->features;
  return result;
}

std::shared_ptr<CompilerLibrary> CompilerLibrary::shared() {
  static std::mutex* const mutex = new std::mutex;
  static auto* const instance = new std::shared_ptr<CompilerLibrary>;
  const InsideCompiler loading;  // before the lock, which may be locked forever in a forked child
  std::lock_guard lock(*mutex);
  if (!*instance)
    *instance =
        open(options().compiler.empty() ? own_folder() + "/" + kLibraryName : options().compiler);
  return *instance;
}

const char* CompilerLibrary::llvm_version() const {
  return table_->llvm_version;
}

CompileAnswer CompilerLibrary::compile_in_thread(std::string_view program,
                                                 std::string_view options) {
  auto call = std::make_shared<Call>();
  call->first = program;
  call->second = options;
  const std::string fatal = run_in_compiler(CompilerCall::compile, [call, table = table_] {
    call->result = table->compile(bytes_of(call->first), call->first.size(), bytes_of(call->second),
                                  call->second.size(), &call->output, &call->error);
  });
  if (!fatal.empty())
    return {is_out_of_memory(fatal) ? CompileOutcome::out_of_memory : CompileOutcome::gave_up, "",
            fatal};
  const auto outcome = call->result == LIGERDSL_COMPILER_NO_MEMORY
                           ? CompileOutcome::out_of_memory
                           : static_cast<CompileOutcome>(call->result);
  std::string error = take(*table_, call->error);
  return {outcome, take(*table_, call->output), std::move(error)};
}

std::string CompilerLibrary::compile(std::string_view program, std::string_view options) {
  if (!ranges_wanted()) return compile_now(program, options);
  const Range range(RangeKind::compile, entry_of(program));
  return spans_wanted() ? compile_with_spans(program, options) : compile_now(program, options);
}

// Compiles, and reports the compiler's time spans. The returned artifact has no spans.
std::string CompilerLibrary::compile_with_spans(std::string_view program,
                                                std::string_view options) {
  program::CompileOptions with_spans = program::parseOptions(options);
  with_spans.spans = true;
  program::Artifact artifact =
      program::parseArtifact(compile_now(program, program::serialize(with_spans)));
  report_spans(artifact.spans);
  artifact.spans.clear();
  return program::serialize(artifact);
}

std::string CompilerLibrary::compile_now(std::string_view program, std::string_view options) {
  CompileAnswer answer = isolation_.mode == CompileMode::process
                             ? compile_in_process(isolation_, path_, program, options)
                             : compile_in_thread(program, options);
  if (answer.outcome != CompileOutcome::done) fail_as(answer, program, options);
  return std::move(answer.artifact);
}

std::shared_ptr<CompilerLibrary::CpuModule> CompilerLibrary::load_cpu_object(
    std::string_view object, const std::string& entry_name) {
  auto call = std::make_shared<Call>();
  call->first = object;
  call->second = entry_name;
  const std::string fatal = run_in_compiler(CompilerCall::link, [call, table = table_] {
    call->result = table->cpu_load(bytes_of(call->first), call->first.size(), call->second.c_str(),
                                   &call->module, &call->entry, &call->error);
  });
  if (!fatal.empty()) fail_for(fatal, "while it linked a compiled kernel");
  const std::string error = take(*table_, call->error);
  if (call->result != 0)
    fail(call->result == LIGERDSL_COMPILER_NO_MEMORY ? Status::out_of_host_memory
                                                     : Status::internal_error,
         "a compiled CPU kernel cannot be linked into this process: " + error);
  auto module = std::make_shared<CpuModule>();
  module->library_ = shared_from_this();
  module->handle_ = call->module;
  module->entry = reinterpret_cast<program::CpuEntry>(call->entry);
  return module;
}

// In a forked child the kernel stays linked, because unlinking would start a thread. It also stays
// linked if there is no memory for a thread.
CompilerLibrary::CpuModule::~CpuModule() {
  if (handle_ == nullptr || linked_in_ != fork_generation()) return;
  try {
    run_in_compiler(CompilerCall::unload,
                    [table = library_->table_, handle = handle_] { table->cpu_unload(handle); });
  } catch (const std::exception& error) {
    log_quietly(LogLevel::debug, "a kernel could not be unlinked", error);
  }
}

}  // namespace ligerdsl::runtime
