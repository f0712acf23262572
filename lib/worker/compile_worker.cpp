// Worker process of LIGERDSL_COMPILE=process: runs one compile and exits. See
// runtime/compile/compile_process.h.
//
// Usage: compile-worker SECONDS MEGABYTES. The library starts it with a request on standard input.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "compiler/compiler_api.h"
#include "runtime/compile/compile_message.h"
#include "runtime/system/address_space.h"

using namespace ligerdsl::runtime;

namespace {

constexpr size_t kStack = size_t{8} << 20;  // bytes of the thread's stack, as in the library
constexpr int kSpareSeconds = 2;            // hard limit minus soft limit of processor time

size_t address_space = 0;  // limit of the address space in bytes; 0: no limit
std::string no_memory;     // answer for lack of memory, made in advance while there is memory

// Sets a resource limit, but at most the limit inherited from the parent.
void limit(int what, rlim_t soft, rlim_t hard) {
  rlimit inherited{};
  getrlimit(what, &inherited);  // RLIM_INFINITY is the largest rlim_t
  const rlimit wanted{std::min(soft, inherited.rlim_cur), std::min(hard, inherited.rlim_max)};
  setrlimit(what, &wanted);
}

void limit_resources(long seconds, long megabytes) {
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds + kSpareSeconds));
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers' shadow memory counts as address space
  const rlim_t bytes = static_cast<rlim_t>(megabytes) << 20;
  if (megabytes > 0) limit(RLIMIT_AS, bytes, bytes);
  address_space = address_space_limit();
#endif
  no_memory = pack_message(
      kAnswerMagic, static_cast<uint64_t>(CompileOutcome::out_of_memory),
      {"", address_space == 0 ? std::string("the system has too little memory")
                              : "its limit is " + std::to_string(address_space >> 20) +
                                    " MiB; raise LIGERDSL_COMPILE_MEGABYTES or ulimit -v"});
}

// Returns true if less than 1/16 of the limit is left. A failure then counts as lack of memory.
bool memory_is_short() {
  return address_space != 0 && !address_space_left(address_space / 16);
}

[[noreturn]] void send(std::string_view message) {
  while (!message.empty()) {
    const ssize_t put = write(kAnswerDescriptor, message.data(), message.size());
    if (put <= 0) _exit(kAnswerNotWritten);
    message.remove_prefix(static_cast<size_t>(put));
  }
  _exit(0);
}

[[noreturn]] void answer(CompileOutcome outcome, std::string_view artifact,
                         std::string_view error) {
  if (outcome == CompileOutcome::out_of_memory ||
      (outcome != CompileOutcome::done && memory_is_short()))
    send(no_memory);
  send(pack_message(kAnswerMagic, static_cast<uint64_t>(outcome), {artifact, error}));
}

// Signal handler. If memory is short, sends the answer for lack of memory, because LLVM and the C++
// library crash on some failed allocations. Other crashes end the process as usual.
void on_crash(int signal) {
  if (memory_is_short()) send(no_memory);
  raise(signal);  // SA_RESETHAND: the default action follows when this handler returns
}

void watch_crashes() {
  static char stack[64 << 10];  // because the thread's own stack may have overflowed
  const stack_t alternate{stack, 0, sizeof stack};
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGTRAP})
    sigaction(signal, &action, nullptr);
}

// Called by LLVM's fatal-error and out-of-memory handlers.
void on_fatal_error(const char* reason) {
  const std::string_view text = reason ? reason : "no reason given";
  const bool memory = text.substr(0, sizeof LIGERDSL_OUT_OF_MEMORY - 1) == LIGERDSL_OUT_OF_MEMORY;
  answer(memory ? CompileOutcome::out_of_memory : CompileOutcome::gave_up, "", text);
}

std::string_view view(const ligerdsl_bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.data ? bytes.size : 0};
}

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Returns true if the loader's message means that a library or its dependency exceeds the limit.
// Memory is free again after that failure.
bool is_lack_of_memory(std::string_view why) {
  const auto says = [&](std::string_view words) {
    return why.find(words) != std::string_view::npos;
  };
  return address_space != 0 &&
         (says("failed to map segment") || says("cannot map zero-fill pages") ||
          says("annot allocate memory"));
}

const ligerdsl_compiler_table* load_compiler(const std::string& path, std::string_view build_id) {
  if (!address_space_left(bytes_to_load(path.c_str())))
    send(no_memory);  // static constructors of the library crash without memory
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* why = library ? nullptr : dlerror();
  if (why && is_lack_of_memory(why)) send(no_memory);
  if (!library) answer(CompileOutcome::no_compiler, "", why ? why : path);
  const auto entry =
      reinterpret_cast<ligerdsl_compiler_entry_fn>(dlsym(library, LIGERDSL_COMPILER_ENTRY));
  if (!entry)
    answer(CompileOutcome::no_compiler, "",
           "\"" + path + "\" is not a ligerdsl compiler: it has no function " +
               LIGERDSL_COMPILER_ENTRY);
  const ligerdsl_compiler_table* table = entry();
  if (table->api_version != LIGERDSL_COMPILER_API_VERSION)
    answer(CompileOutcome::other_build, "",
           "\"" + path + "\" has version " + std::to_string(table->api_version) +
               " of the compiler interface, the compile worker expects " +
               std::to_string(LIGERDSL_COMPILER_API_VERSION) +
               ": install the library, compiler and worker from the same build");
  if (build_id != table->build_id)
    answer(CompileOutcome::other_build, "",
           "\"" + path + "\" is from build " + table->build_id + ", the library from build " +
               std::string(build_id) + ": install both from the same build");
  return table;
}

void* work(void*) {
  watch_crashes();
  std::string request;
  char buffer[65536];
  for (ssize_t got; (got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;)
    request.append(buffer, got);
  uint64_t parent = 0;
  std::string_view build_id, path, program, options;
  if (!unpack_message(request, kRequestMagic, &parent, {&build_id, &path, &program, &options}))
    _exit(3);
  if (getppid() != static_cast<pid_t>(parent))
    _exit(4);  // the parent ended before PR_SET_PDEATHSIG was set
  const ligerdsl_compiler_table* table = load_compiler(std::string(path), build_id);
  table->set_fatal_hook(on_fatal_error);
  ligerdsl_bytes artifact{}, error{};
  const int32_t result = table->compile(bytes_of(program), program.size(), bytes_of(options),
                                        options.size(), &artifact, &error);
  answer(result == LIGERDSL_COMPILER_NO_MEMORY ? CompileOutcome::out_of_memory
                                               : static_cast<CompileOutcome>(result),
         view(artifact), view(error));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGXFSZ, SIG_IGN);  // writing an answer beyond `ulimit -f` then fails with an error
  limit_resources(std::atol(argv[1]), std::atol(argv[2]));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, work, nullptr) != 0) send(no_memory);
  pthread_join(thread, nullptr);
  return 5;
}
