#include "runtime/compile/compile_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>

#include "compiler/compiler_api.h"
#include "runtime/system/address_space.h"
#include "runtime/system/fork.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr size_t kStack = size_t{8} << 20;
constexpr size_t kLongestReason = 4096;

// A call into the compiler, on its own thread. The caller and the thread share the Task, because
// either may outlive the other.
struct Task {
  CompilerCall call;
  std::function<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  bool finished = false;
  char fatal[kLongestReason] =
      {};  // LLVM's message; an array, because memory for a string may be lacking
};

// Set if a parked thread may hold locks of LLVM; see the header.
std::atomic<bool> memory_ran_out{false};
std::atomic<bool> linking_is_lost{false};

UseCount inside;

thread_local std::shared_ptr<Task>* current_task = nullptr;

void finish(Task& task, std::string_view fatal) noexcept {
  const std::lock_guard lock(task.mutex);
  std::copy_n(fatal.data(), std::min(fatal.size(), kLongestReason - 1), task.fatal);
  task.finished = true;
  task.changed.notify_all();
}

void* thread_main(void* argument) noexcept {
  auto* held = static_cast<std::shared_ptr<Task>*>(argument);
  current_task = held;
  try {
    (*held)->work();
    finish(**held, "");
  } catch (const std::bad_alloc&) {
    finish(**held, LIGERDSL_OUT_OF_MEMORY);
  }
  current_task = nullptr;
  delete held;
  return nullptr;
}

bool start_thread(const std::shared_ptr<Task>& task) {
  auto held = std::make_unique<std::shared_ptr<Task>>(task);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Block all signals in the thread, so that the host's signal handlers run only on its own
  // threads.
  sigset_t all, saved;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, thread_main, held.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  pthread_attr_destroy(&attributes);
  if (started) held.release();
  return started;
}

void refuse_what_is_lost(CompilerCall call) {
  if (memory_ran_out)
    fail(Status::out_of_host_memory,
         "the compiler ran out of memory earlier in this process, and the locks that it held stay "
         "locked: restart the process with more memory, or set LIGERDSL_COMPILE=process to compile "
         "in separate processes");
  if (linking_is_lost && call != CompilerCall::compile)
    fail(Status::compile_failed,
         "LLVM stopped earlier in this process with a fatal error while it linked or unloaded a "
         "kernel, and the locks that it held stay locked: restart the process");
}

void require_memory(CompilerCall call) {
  const size_t needed = kStack + (call == CompilerCall::unload ? 0 : kBytesToCompile);
  if (!address_space_left(needed))
    fail(Status::out_of_host_memory,
         "a call to the compiler needs up to " + std::to_string(needed >> 20) +
             " MiB of address space, which this process cannot get: raise `ulimit -v` or free "
             "memory");
}

// Address space that is reserved during a call into the compiler and freed afterwards. A thread
// that ran out of memory is parked and keeps its memory, but the host then has this space to
// continue.
class Reserve {
 public:
  Reserve() : memory_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Reserve() {
    if (memory_ != MAP_FAILED) munmap(memory_, kBytes);
  }
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

 private:
  static constexpr size_t kBytes = size_t{4} << 20;
  void* memory_;
};

void print(std::string_view text) noexcept {
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

}  // namespace

InsideCompiler::InsideCompiler() {
  if (inside.abandoned())
    fail(Status::forked_process,
         "this process was forked while another thread of its parent was inside the compiler, so "
         "this process cannot use the compiler: create plans and kernels before the fork, or fork "
         "while no other thread creates any");
  entered_ = inside.enter();
}

InsideCompiler::~InsideCompiler() {
  inside.leave(entered_);
}

std::string run_in_compiler(CompilerCall call, std::function<void()> work) {
  const InsideCompiler inside_until_it_ends;
  refuse_what_is_lost(call);
  require_memory(call);
  auto task = std::make_shared<Task>();
  task->call = call;
  task->work = std::move(work);
  {
    const Reserve until_it_ends;
    if (!start_thread(task))
      fail(Status::out_of_host_memory,
           "cannot start a compile thread with a stack of 8 MiB: raise `ulimit -u` or `ulimit -v`");
    std::unique_lock lock(task->mutex);
    task->changed.wait(lock, [&] { return task->finished; });
  }
  return task->fatal;
}

void on_fatal_error(const char* reason) noexcept {
  const std::string_view text = reason != nullptr && *reason != '\0' ? reason : "no reason given";
  if (current_task == nullptr) {
    print("ligerdsl: LLVM stopped with a fatal error: ");
    print(text);
    return print("\n");
  }
  Task& task = **current_task;
  if (is_out_of_memory(text)) memory_ran_out = true;
  if (task.call != CompilerCall::compile) linking_is_lost = true;
  finish(task, text);
  for (;;) pause();
}

bool is_out_of_memory(std::string_view reason) noexcept {
  return reason.starts_with(LIGERDSL_OUT_OF_MEMORY);
}

}  // namespace ligerdsl::runtime
