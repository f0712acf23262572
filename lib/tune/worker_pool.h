// Worker processes that answer the questions of any number of threads.
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
  // Starts `count` processes, and starts an ended one again for the next question. `seconds` limits
  // the time of each answer. See WorkerProcess for `arguments` and `stop`.
  WorkerPool(std::vector<std::string> arguments, int count, double seconds, int stop);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;

  int count() const { return static_cast<int>(threads_.size()); }
  // Waits for a free process, then for its answer. Throws errors of WorkerProcess.
  WorkerProcess::Answer ask(Json question);

 private:
  struct Asked {
    Json question;
    std::promise<WorkerProcess::Answer> answer;
  };
  // Body of the threads. Each process has one thread that starts it and lives as long as it,
  // because PR_SET_PDEATHSIG kills a process when the thread that started it ends.
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
