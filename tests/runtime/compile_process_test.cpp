// Tests compiles in a separate process. Every failure of the compiler there must become an error in
// this process.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/compile/reproducer.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::kSanitized;
using test::passes_in_child;

std::shared_ptr<CompilerLibrary> isolated(int32_t seconds = 60,
                                          const std::string& path = FAKE_COMPILER) {
  auto library = CompilerLibrary::open(path);
  library->isolate({.mode = CompileMode::process,
                    .worker = COMPILE_WORKER,
                    .seconds = seconds,
                    .megabytes = 512});
  return library;
}

const std::string& default_options() {
  static const std::string bytes = program::serialize(program::CompileOptions{});
  return bytes;
}

std::string failure(Status status, const std::string& program, int32_t seconds = 60) {
  return expect_error(status, [&] { isolated(seconds)->compile(program, default_options()); });
}

// Expects that the message names a reproducer, a file with the program. Removes the file.
void expect_reproducer(const std::string& message, const std::string& program) {
  const size_t begin = message.find("this with \"");
  ASSERT_NE(begin, std::string::npos) << message;
  const size_t path = begin + 11;
  const std::string file = message.substr(path, message.find('"', path) - path);
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0) << message;
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const Reproducer kept = read_reproducer(file);
  EXPECT_EQ(kept.program, program);
  EXPECT_EQ(kept.options, default_options());
  EXPECT_EQ(kept.build_id, build_id());
  std::filesystem::remove(file);
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(CompileProcess, ReturnsTheSameArtifactAsAThread) {
  auto library = CompilerLibrary::open(FAKE_COMPILER);
  const std::string here = library->compile("program", default_options());
  const int64_t before = test::fake_compiles();
  EXPECT_EQ(isolated()->compile("program", default_options()), here);
  EXPECT_EQ(test::fake_compiles(), before) << "the compile ran in this process";
  const std::string large(3 << 20, 'x');  // request and answer exceed the size of a pipe
  EXPECT_NE(isolated()->compile(large, default_options()).find(large), std::string::npos);
}

TEST(CompileProcess, PassesOnTheCompilersErrors) {
  expect_words(failure(Status::compile_failed, "error"), {"kernel.cpp:3:7", "do not broadcast"});
  const std::string bug = failure(Status::internal_error, "internal");
  expect_words(bug, {"should accept", "assertion"});
  expect_reproducer(bug, "internal");
  const std::string fatal = failure(Status::compile_failed, "fatal");
  expect_words(fatal, {"LLVM stopped with a fatal error", "Cannot select: fsin"});
  expect_reproducer(fatal, "fatal");
}

TEST(CompileProcess, CrashIsAnErrorThatNamesTheSignal) {
  // With a sanitizer, a crash ends the process with an exit status and not with a signal.
  const std::string crash = failure(Status::compile_failed, "crash");
  expect_words(crash, {"the compiler's process", "Stack dump: the fake compiler"});
  if (!kSanitized) expect_words(crash, {"SIGSEGV"});
  expect_reproducer(crash, "crash");
  const std::string abort = failure(Status::compile_failed, "abort");
  if (!kSanitized) expect_words(abort, {"SIGABRT"});
  expect_reproducer(abort, "abort");
  const std::string overflow = failure(Status::compile_failed, "overflow");
  if (!kSanitized) expect_words(overflow, {"SIGSEGV"});
  expect_reproducer(overflow, "overflow");
  const std::string quit = failure(Status::compile_failed, "quit");
  expect_words(quit, {"without an answer", "exit status 7"});
  expect_reproducer(quit, "quit");
}

TEST(CompileProcess, HangEndsAtTheTimeLimit) {
  test::TempFolder folder;
  const std::string program = "hang " + folder.path() + "/pid";
  const auto start = std::chrono::steady_clock::now();
  const std::string text = failure(Status::compile_failed, program, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  expect_words(text, {"longer than 1 s", "LIGERDSL_COMPILE_SECONDS"});
  expect_reproducer(text, program);
  pid_t child = 0;
  std::ifstream(folder.path() + "/pid") >> child;
  ASSERT_GT(child, 0);
  EXPECT_EQ(kill(child, 0), -1) << "the worker lives";
}

TEST(CompileProcess, EndlessLoopEndsAtTheTimeLimit) {
  const std::string text = failure(Status::compile_failed, "spin", 1);
  expect_words(text, {"LIGERDSL_COMPILE_SECONDS"});
  expect_reproducer(text, "spin");
}

TEST(CompileProcess, MemoryIsLimited) {
  if (kSanitized) GTEST_SKIP() << "[SKIP] sanitizers need the address space";
  expect_words(failure(Status::out_of_host_memory, "hungry"),
               {"512 MiB", "LIGERDSL_COMPILE_MEGABYTES"});
}

// RLIMIT_FSIZE also limits the memfds that carry request and answer. An exceeded limit must give an
// error with a message, and must not end this process.
TEST(CompileProcess, ErrorNamesTheFileSizeLimit) {
  EXPECT_TRUE(passes_in_child([] {
    const rlimit limit{2000, 2000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const std::string request =
        failure(Status::not_supported, "program" + std::string(100000, ' '));
    EXPECT_NE(request.find("ulimit -f"), std::string::npos) << request;
    const std::string answer =
        failure(Status::not_supported, "mapped200");  // its answer has some 6,000 bytes
    EXPECT_NE(answer.find("could not write its answer (ulimit -f"), std::string::npos) << answer;
    isolated()->compile("program", default_options());
    return true;
  }));
}

TEST(CompileProcess, TooFewDescriptorsAreAnError) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer needs descriptors to report an error";
  EXPECT_TRUE(passes_in_child([] {
    auto library = isolated();
    const int next = dup(STDERR_FILENO);
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int left = 0; left < 10; ++left) {
      limit.rlim_cur = static_cast<rlim_t>(next + left);
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
      try {
        library->compile("program", default_options());
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::not_supported) << left << error.what();
      }
    }
    return true;
  }));
}

TEST(Reproducer, FileSizeLimitDoesNotRaiseASignal) {
  EXPECT_TRUE(passes_in_child([] {
    const rlimit limit{10, 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    EXPECT_EQ(write_reproducer("a program of more than ten bytes", "options"), "");
    return true;
  }));
}

TEST(CompileProcess, ErrorNamesMissingWorkerOrCompiler) {
  auto library = CompilerLibrary::open(FAKE_COMPILER);
  library->isolate({.mode = CompileMode::process, .worker = "/nowhere/worker"});
  expect_words(
      expect_error(Status::not_supported, [&] { library->compile("program", default_options()); }),
      {"/nowhere/worker", "LIGERDSL_COMPILE_WORKER", "LIGERDSL_COMPILE=thread"});
  library->isolate({.mode = CompileMode::process});  // default: next to the compiler library
  expect_words(
      expect_error(Status::not_supported, [&] { library->compile("program", default_options()); }),
      {std::filesystem::path(FAKE_COMPILER).parent_path().string() + "/ligerdsl/compile-worker"});
  library->isolate({.mode = CompileMode::process, .worker = "/bin/true"});  // not a worker
  expect_words(
      expect_error(Status::compile_failed, [&] { library->compile("program", default_options()); }),
      {"without an answer", "exit status 0"});
}

TEST(CompileProcess, WorkerRejectsCompilerOfAnotherBuild) {
  const CompileIsolation isolation{.mode = CompileMode::process, .worker = COMPILE_WORKER};
  const CompileAnswer foreign =
      compile_in_process(isolation, FOREIGN_COMPILER, "program", default_options());
  EXPECT_EQ(foreign.outcome, CompileOutcome::other_build);
  expect_words(foreign.error, {"another build", build_id()});
  const CompileAnswer missing =
      compile_in_process(isolation, "/nowhere/compiler.so", "program", default_options());
  EXPECT_EQ(missing.outcome, CompileOutcome::no_compiler);
  expect_words(missing.error, {"/nowhere/compiler.so"});
}

int fork_handlers_run = 0;

TEST(CompileProcess, RunsNoForkHandlerAndInheritsNoDescriptor) {
  pthread_atfork([] { ++fork_handlers_run; }, nullptr, nullptr);
  int open_pipe[2];
  ASSERT_EQ(pipe(open_pipe), 0);  // without O_CLOEXEC
  const std::string text = failure(Status::compile_failed, "descriptors");
  EXPECT_EQ(text, "0 1 2 3 ");
  EXPECT_EQ(fork_handlers_run, 0);
  close(open_pipe[0]);
  close(open_pipe[1]);
}

TEST(CompileProcess, WorksIfTheHostIgnoresSigchld) {
  EXPECT_TRUE(test::passes_in_child([&] {
    signal(SIGCHLD, SIG_IGN);
    isolated()->compile("program", default_options());
    const std::string text = failure(Status::compile_failed, "quit");
    expect_words(text, {"without an answer"});
    expect_reproducer(text, "quit");
    return true;
  }));
}

// Returns the state letter of a process from /proc, or '-' if there is no such process.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name;
  char state = '-';
  file >> number >> name >> state;
  return state;
}

// Waits until a hanging worker has written its process id to `file`. Returns that id.
pid_t wait_for_worker(const std::string& file) {
  pid_t worker = 0;
  for (int i = 0; i < 2000 && worker == 0; ++i) {
    usleep(10000);
    std::ifstream(file) >> worker;
  }
  return worker;
}

TEST(CompileProcess, WorkerEndsWithItsParent) {
  test::TempFolder folder;
  const std::string file = folder.path() + "/pid";
  const pid_t parent = fork();
  if (parent == 0) {
    isolated(600)->compile("hang " + file, default_options());
    _exit(0);
  }
  const pid_t worker = wait_for_worker(file);
  ASSERT_GT(worker, 0);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  char state = state_of(worker);
  for (int i = 0; i < 1000 && state != '-' && state != 'Z'; ++i, state = state_of(worker))
    usleep(10000);
  EXPECT_TRUE(state == '-' || state == 'Z') << state;
}

TEST(CompileProcess, StopDescriptorEndsEveryCompile) {
  test::TempFolder folder;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  auto library = CompilerLibrary::open(FAKE_COMPILER);
  library->isolate(
      {.mode = CompileMode::process, .worker = COMPILE_WORKER, .seconds = 600, .stop = ends[0]});
  std::vector<std::thread> threads;
  std::vector<std::string> files = {folder.path() + "/a", folder.path() + "/b"}, texts(2);
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      texts[t] = expect_error(Status::execution_failed,
                              [&] { library->compile("hang " + files[t], default_options()); });
    });
  std::vector<pid_t> workers;
  for (const std::string& file : files) workers.push_back(wait_for_worker(file));
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts)
    EXPECT_EQ(text, "the compile was stopped");  // no reproducer is named
  for (const pid_t worker : workers) EXPECT_EQ(state_of(worker), '-');
  close(ends[0]);
  close(ends[1]);
}

TEST(CompileProcess, ThreadsCompileConcurrently) {
  auto library = isolated();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4; ++i) {
        const std::string program = "program " + std::to_string(t * 10 + i);
        EXPECT_NE(library->compile(program, default_options()).find(program), std::string::npos);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Reproducer, RejectsMissingAndDamagedFiles) {
  test::TempFolder folder;
  expect_error(Status::invalid_program, [&] { read_reproducer(folder.path() + "/missing"); });
  const std::string file = folder.path() + "/damaged";
  const std::string path = write_reproducer("a program", default_options());
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(write_reproducer("a program", default_options()), path);  // the same file
  const std::string bytes = test::read_file(path);
  std::filesystem::remove(path);
  for (size_t size = 0; size < bytes.size(); ++size) {
    test::write_file(file, bytes.substr(0, size));
    expect_error(Status::invalid_program, [&] { read_reproducer(file); });
  }
}

}  // namespace
}  // namespace ligerdsl::runtime
