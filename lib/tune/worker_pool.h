// Worker processes that share the questions of any number of threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/tune/worker_process.h"

namespace ligerdsl::tune {

class WorkerPool {
 public:
  // `count` processes; one that is gone is started again when there is a question for it. The rest as of
  // WorkerProcess.
  WorkerPool(std::vector<std::string> arguments, int count, double seconds, int stop);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;

  int count() const { return static_cast<int>(threads_.size()); }
  // Waits for a process, then for its answer. Throws what WorkerProcess throws.
  WorkerProcess::Answer ask(Json question);

 private:
  struct Asked {
    Json question;
    std::promise<WorkerProcess::Answer> answer;
  };
  // A thread for each process, for as long as it lives: a process that asks for it ends together with the thread, not
  // the process, that started it.
  void serve();

  const std::vector<std::string> arguments_;
  const double seconds_;
  const int stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> queue_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ligerdsl::tune
