#include "lib/tune/worker_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "runtime/system/status.h"

namespace ligerdsl::tune {
namespace {

using Outcome = WorkerProcess::Outcome;

WorkerProcess::Answer ask(const std::string& script, double seconds = 30, int stop = -1) {
  WorkerProcess worker({"/bin/sh", "-c", script});
  return worker.ask({{"question", 1}}, Deadline::after(seconds), stop);
}

TEST(WorkerProcess, Answers) {
  WorkerProcess worker({"/bin/sh", "-c", "while read line; do echo \"[$line, 2]\"; done"});
  for (int i = 0; i < 3; ++i) {
    const auto answer = worker.ask({{"i", i}}, Deadline::after(30), -1);
    ASSERT_EQ(answer.outcome, Outcome::answered);
    EXPECT_EQ(answer.json, Json::parse("[{\"i\": " + std::to_string(i) + "}, 2]"));
  }
}

TEST(WorkerProcess, ReportsHowItEnded) {
  EXPECT_EQ(ask("read line; exit 3").end, "exit status 3");
  EXPECT_EQ(ask("read line; kill -SEGV $$").end, "killed by SIGSEGV");
  EXPECT_EQ(ask("exit 0").outcome, Outcome::ended);
}

TEST(WorkerProcess, IsKilledAtTheDeadline) {
  EXPECT_EQ(ask("read line; sleep 1000", 0.2).outcome, Outcome::timed_out);
}

TEST(WorkerProcess, InvalidAnswerEndsIt) {
  const auto answer = ask("read line; echo hello; sleep 1000");
  EXPECT_EQ(answer.outcome, Outcome::ended);
  EXPECT_NE(answer.end.find("not JSON"), std::string::npos) << answer.end;
}

TEST(WorkerProcess, StoppedProcessCountsAsEnded) {
  const auto answer = ask("read line; kill -STOP $$; echo 1", 1);
  EXPECT_EQ(answer.outcome, Outcome::ended);
  EXPECT_EQ(answer.end, "stopped by SIGSTOP");
}

TEST(WorkerProcess, ContinuedProcessAnswers) {
  EXPECT_EQ(ask("read line; (sleep 0.3; kill -CONT $$) & kill -STOP $$; echo 1").outcome,
            Outcome::answered);
}

TEST(WorkerProcess, WriteToStoppedProcessEndsAtTheDeadline) {
  WorkerProcess worker({"/bin/sh", "-c", "kill -STOP $$"});
  const std::string larger_than_any_buffer(size_t{64} << 20, 'x');
  EXPECT_NE(worker.ask(Json(larger_than_any_buffer), Deadline::after(1), -1).outcome,
            Outcome::answered);
}

TEST(WorkerProcess, ReportsWhetherItRuns) {
  WorkerProcess worker({"/bin/sh", "-c", "read line; echo 1; read line; exit 0"});
  EXPECT_TRUE(worker.running());
  EXPECT_EQ(worker.ask(Json::object(), Deadline::after(30), -1).outcome, Outcome::answered);
  EXPECT_EQ(worker.ask(Json::object(), Deadline::after(30), -1).outcome, Outcome::ended);
  EXPECT_FALSE(worker.running());
}

// A process inside a GPU driver does not end when it is killed. The test simulates this by a killed
// process with a debugger: while the debugger has not waited for it, its parent sees it running.
TEST(WorkerProcess, UnkillableProcessIsAbandoned) {
  WorkerProcess worker({"/bin/sh", "-c", "read line; echo $$; read line; sleep 1000"});
  const auto first = worker.ask(Json::object(), Deadline::after(30), -1);
  ASSERT_EQ(first.outcome, Outcome::answered);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t debugger = fork();
  if (debugger == 0) {
    const char seized =
        ptrace(PTRACE_SEIZE, first.json.get<pid_t>(), nullptr, nullptr) == 0 ? 'y' : 'n';
    if (write(ready[1], &seized, 1) == 1) pause();
    _exit(0);
  }
  char seized = 'n';
  ASSERT_EQ(read(ready[0], &seized, 1), 1);
  if (seized == 'y') {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = worker.ask(Json::object(), Deadline::after(0.2), -1);
    EXPECT_EQ(answer.outcome, Outcome::timed_out);
    EXPECT_NE(answer.end.find("not released"), std::string::npos) << answer.end;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  }
  kill(debugger, SIGKILL);
  waitpid(debugger, nullptr, 0);
  for (const int end : ready) close(end);
  if (seized != 'y') GTEST_SKIP() << "this process may not debug another";
}

TEST(WorkerProcess, StopRequestEndsTheWait) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(ask("read line; sleep 1000", 30, ends[0]).outcome, Outcome::stopped);
  close(ends[0]);
  close(ends[1]);
}

TEST(WorkerProcess, MissingProgramIsAnError) {
  EXPECT_THROW(WorkerProcess({"/no/such/program"}), runtime::Error);
}

}  // namespace
}  // namespace ligerdsl::tune
