#include "lib/tune/worker_pool.h"

#include <exception>
#include <memory>

namespace ligerdsl::tune {

WorkerPool::WorkerPool(std::vector<std::string> arguments, int count, double seconds, int stop)
    : arguments_(std::move(arguments)), seconds_(seconds), stop_(stop) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { serve(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::serve() {
  std::unique_ptr<WorkerProcess> process;
  const auto start = [&] {
    if (!process) process = std::make_unique<WorkerProcess>(arguments_);
  };
  try {
    start();  // starts early, because the start takes long
  } catch (const std::exception&) {
    // The answer to the first question reports the error.
  }
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Asked asked = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      start();
      WorkerProcess::Answer answer = process->ask(asked.question, Deadline::after(seconds_), stop_);
      if (answer.outcome != WorkerProcess::Outcome::answered) process.reset();
      asked.answer.set_value(std::move(answer));
    } catch (...) {
      process.reset();
      asked.answer.set_exception(std::current_exception());
    }
  }
}

WorkerProcess::Answer WorkerPool::ask(Json question) {
  std::future<WorkerProcess::Answer> answer;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(question), {}});
    answer = queue_.back().answer.get_future();
  }
  changed_.notify_one();
  return answer.get();
}

}  // namespace ligerdsl::tune
