#include "lib/tune/worker_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/system/status.h"

namespace ligerdsl::tune {
namespace {

using Outcome = WorkerProcess::Outcome;

std::vector<std::string> shell(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

// Sends `questions` questions concurrently. Returns the process id of each answer.
std::multiset<int> askers(WorkerPool& pool, int questions) {
  std::vector<std::future<WorkerProcess::Answer>> asked;
  for (int i = 0; i < questions; ++i)
    asked.push_back(std::async(std::launch::async, [&, i] { return pool.ask({{"i", i}}); }));
  std::multiset<int> processes;
  for (auto& one : asked) {
    const WorkerProcess::Answer answer = one.get();
    EXPECT_EQ(answer.outcome, Outcome::answered) << answer.end;
    if (answer.outcome == Outcome::answered) processes.insert(answer.json.get<int>());
  }
  return processes;
}

TEST(WorkerPool, ProcessesServeAnyThread) {
  WorkerPool pool(shell("while read line; do sleep 0.05; echo $$; done"), 3, 30, -1);
  const std::multiset<int> processes = askers(pool, 30);
  EXPECT_EQ(processes.size(), 30u);
  EXPECT_EQ(std::set<int>(processes.begin(), processes.end()).size(), 3u);
}

// tune-worker sets the same parent-death signal as setpriv here. The signal is sent when the thread
// that started the process ends, so a thread that sends a question must not start it.
TEST(WorkerPool, ProcessOutlivesTheThreadThatAskedFirst) {
  std::vector<std::string> arguments = {"setpriv", "--pdeathsig", "KILL"};
  for (const std::string& one : shell("while read line; do echo $$; done"))
    arguments.push_back(one);
  WorkerPool pool(arguments, 1, 30, -1);
  const std::multiset<int> first = askers(pool, 1), second = askers(pool, 1);
  EXPECT_EQ(first, second);
}

TEST(WorkerPool, RestartsAProcessThatEnds) {
  WorkerPool pool(shell("read line; echo 1; read line; exit 7"), 1, 30, -1);
  EXPECT_EQ(pool.ask(Json::object()).outcome, Outcome::answered);
  EXPECT_EQ(pool.ask(Json::object()).end, "exit status 7");
  EXPECT_EQ(pool.ask(Json::object()).outcome, Outcome::answered);
}

TEST(WorkerPool, MissingProgramFailsEachQuestion) {
  WorkerPool pool({"/no/such/program"}, 2, 30, -1);
  for (int i = 0; i < 4; ++i) EXPECT_THROW(pool.ask(Json::object()), runtime::Error);
}

}  // namespace
}  // namespace ligerdsl::tune
