#include "runtime/system/subprocess.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;

TEST(Subprocess, ReturnsBothStreamsAndTheExitStatus) {
  const ProcessResult good = run_process({"sh", "-c", "echo one; echo two >&2; echo three"});
  EXPECT_EQ(good.output, "one\ntwo\nthree\n");
  EXPECT_TRUE(good.succeeded);
  EXPECT_EQ(good.end, "exit status 0");
  const ProcessResult failed = run_process({"sh", "-c", "echo why; exit 3"});
  EXPECT_FALSE(failed.succeeded);
  EXPECT_EQ(failed.end, "exit status 3");
  EXPECT_EQ(failed.output, "why\n");
  EXPECT_EQ(run_process({"sh", "-c", "kill -SEGV $$"}).end, "killed by SIGSEGV");
}

TEST(Subprocess, ArgumentsAreNotShellText) {
  const std::string text = "a b; $(touch pwned) `touch pwned` 'q' \"r\" * \n\\";
  EXPECT_EQ(run_process({"printf", "%s|%s", text, ""}).output, text + "|");
  const std::vector<std::string> line = {"printf", "%s.", text, "", "plain-/.word"};
  EXPECT_EQ(run_process({"sh", "-c", command_line(line)}).output, run_process(line).output);
}

TEST(Subprocess, InheritsNoInputAndNoDescriptor) {
  EXPECT_EQ(run_process({"cat"}).output, "");
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  EXPECT_EQ(run_process({"sh", "-c", "test -e " + path + " && echo open"}).output, "");
  close(file);
}

TEST(Subprocess, OutputBeyondTheLimitIsDropped) {
  const ProcessResult result =
      run_process({"sh", "-c", "yes | head -c 1000000; exit 5"}, {.output_bytes = 1000});
  EXPECT_EQ(result.output.size(), 1000u);
  EXPECT_TRUE(result.cut);
  EXPECT_EQ(result.end, "exit status 5");
  EXPECT_FALSE(run_process({"printf", "12345"}, {.output_bytes = 5}).cut);
}

TEST(Subprocess, StopDescriptorEndsIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  const ProcessResult result = run_process({"sleep", "60"}, {.stop = ends[0]});
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.end, "killed by SIGKILL");
  close(ends[0]);
  close(ends[1]);
}

TEST(Subprocess, WorksWithClosedStandardStreams) {
  EXPECT_TRUE(test::passes_in_child([] {
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
    return run_process({"sh", "-c", "echo out; echo err >&2"}).output == "out\nerr\n";
  }));
}

TEST(Subprocess, TooFewDescriptorsAreAnError) {
  if (test::kSanitized) GTEST_SKIP() << "the sanitizer needs descriptors to report an error";
  EXPECT_TRUE(test::passes_in_child([] {
    const int next = dup(STDERR_FILENO);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    bool ran = false, refused = false;
    for (int left = 0; left < 8; ++left) {
      limit.rlim_cur = static_cast<rlim_t>(next + left);
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
      try {
        ran |= run_process({"true"}).succeeded;
      } catch (const Error& error) {
        refused |=
            std::string_view(error.what()).find("Too many open files") != std::string_view::npos;
      }
    }
    return ran && refused;
  }));
}

TEST(Subprocess, ErrorNamesMissingProgram) {
  const std::string text = expect_error(Status::not_supported, [] {
    run_process({"no-such-program-here", "argument"});
  });
  EXPECT_EQ(text, "\"no-such-program-here\" cannot be started: No such file or directory");
}

}  // namespace
}  // namespace ligerdsl::runtime
