#include "lib/tune/worker_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/status.h"

namespace ligerdsl::tune {
namespace {

using Outcome = WorkerProcess::Outcome;

WorkerProcess::Answer ask(const std::string& script, double seconds = 30, int stop = -1) {
  WorkerProcess worker({"/bin/sh", "-c", script});
  return worker.ask({{"question", 1}}, seconds, stop);
}

TEST(WorkerProcess, Answers) {
  WorkerProcess worker({"/bin/sh", "-c", "while read line; do echo \"[$line, 2]\"; done"});
  for (int i = 0; i < 3; ++i) {
    const auto answer = worker.ask({{"i", i}}, 30, -1);
    ASSERT_EQ(answer.outcome, Outcome::answered);
    EXPECT_EQ(answer.json, Json::parse("[{\"i\": " + std::to_string(i) + "}, 2]"));
  }
}

TEST(WorkerProcess, OneThatEndsSaysHow) {
  EXPECT_EQ(ask("read line; exit 3").end, "exit status 3");
  EXPECT_EQ(ask("read line; kill -SEGV $$").end, "killed by SIGSEGV");
  EXPECT_EQ(ask("exit 0").outcome, Outcome::ended);
}

TEST(WorkerProcess, OneThatHangsIsKilled) {
  EXPECT_EQ(ask("read line; sleep 1000", 0.2).outcome, Outcome::timed_out);
}

TEST(WorkerProcess, WhatIsNoAnswerEndsIt) {
  EXPECT_NE(ask("read line; echo hello; sleep 1000").outcome, Outcome::answered);
}

TEST(WorkerProcess, ASignalEndsTheWait) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(ask("read line; sleep 1000", 30, ends[0]).outcome, Outcome::stopped);
  close(ends[0]);
  close(ends[1]);
}

TEST(WorkerProcess, AProgramThatIsNotThereIsAnError) {
  EXPECT_THROW(WorkerProcess({"/no/such/program"}), runtime::Error);
}

}  // namespace
}  // namespace ligerdsl::tune
