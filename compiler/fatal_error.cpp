#include "compiler/fatal_error.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "llvm/Support/ErrorHandling.h"

namespace ligerdsl::compiler {
namespace {

// Where a worker and its caller meet. Shared: a parked worker keeps its reference for ever.
struct Rendezvous {
  std::function<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  enum { running, finished, parked } state = running;
  std::string message;

  void reach(decltype(state) next) {
    std::lock_guard lock(mutex);
    state = next;
    changed.notify_all();
  }
};

thread_local Rendezvous* current = nullptr;

// LLVM calls this and aborts the process when it returns.
void onFatalError(void*, const char* reason, bool) {
  if (!current) return;
  current->message = reason ? reason : "LLVM gave no reason";
  current->reach(Rendezvous::parked);
  for (;;) pause();
}

void* runWorker(void* argument) {
  std::unique_ptr<std::shared_ptr<Rendezvous>> held(static_cast<std::shared_ptr<Rendezvous>*>(argument));
  current = held->get();
  current->work();
  current->work = nullptr;
  current->reach(Rendezvous::finished);
  current = nullptr;
  return nullptr;
}

bool startWorker(const std::shared_ptr<Rendezvous>& meeting, std::string& message) {
  constexpr size_t kStackBytes = 8u << 20;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  auto held = std::make_unique<std::shared_ptr<Rendezvous>>(meeting);
  pthread_t thread;
  int failed = pthread_create(&thread, &attributes, runWorker, held.get());
  pthread_attr_destroy(&attributes);
  if (failed) {
    message = std::string("cannot start a compiler thread: ") + std::strerror(failed);
    return false;
  }
  held.release();
  return true;
}

}  // namespace

bool runGuardingFatalErrors(std::function<void()> work, std::string& message) {
  static std::once_flag installed;
  std::call_once(installed, [] { llvm::install_fatal_error_handler(onFatalError, nullptr); });
  auto meeting = std::make_shared<Rendezvous>();
  meeting->work = std::move(work);
  if (!startWorker(meeting, message)) return false;
  std::unique_lock lock(meeting->mutex);
  meeting->changed.wait(lock, [&] { return meeting->state != Rendezvous::running; });
  if (meeting->state == Rendezvous::finished) return true;
  message = "LLVM stopped on a fatal error: " + meeting->message;
  return false;
}

}  // namespace ligerdsl::compiler
