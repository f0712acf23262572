#include "runtime/compile/compile_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "ligerdsl_build_id.h"
#include "runtime/system/address_space.h"
#include "runtime/system/files.h"

extern char** environ;

namespace ligerdsl::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLeastMegabytes = 256;  // below this limit, a crash is reported as out of memory
constexpr size_t kMaxPrinted = 2000;     // most bytes of the worker's output in a message
constexpr int kFirstFreeDescriptor = kAnswerDescriptor + 1;
constexpr auto kPollInterval = std::chrono::milliseconds(5);

// Returns the file size limit as text for a message, or "" without a limit. The limit also applies
// to files in memory.
std::string file_limit_text() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return " (ulimit -f limits files, including files in memory, to " +
         std::to_string(limit.rlim_cur) + " bytes; raise it)";
}

// File in memory. Its descriptor is above those of the worker, so that posix_spawn always passes it
// as a duplicate.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) {
    const int low = memfd_create(name, MFD_CLOEXEC);
    fd_ = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, kFirstFreeDescriptor);
    if (low >= 0) close(low);
  }
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  int get() const { return fd_; }

  // Writes the bytes and sets the position to the start, where the worker begins to read.
  bool write(std::string_view bytes) const {
    return write_all(fd_, bytes) && lseek(fd_, 0, SEEK_SET) == 0;
  }

  std::string read() const {
    struct stat info {};
    if (fstat(fd_, &info) != 0 || info.st_size < 0) return "";
    std::string bytes(static_cast<size_t>(info.st_size), '\0');
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got =
          pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return "";
      done += static_cast<size_t>(got);
    }
    return bytes;
  }

 private:
  int fd_ = -1;
};

struct Files {
  MemoryFile request{"ligerdsl-request"}, answer{"ligerdsl-answer"}, printed{"ligerdsl-printed"};
  bool good() const { return request.get() >= 0 && answer.get() >= 0 && printed.get() >= 0; }
};

// Starts the worker. Returns 0 or an errno.
int spawn(const std::string& worker, const Files& files, char* const arguments[], pid_t* child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (const int error = posix_spawn_file_actions_init(&actions)) return error;
  if (const int error = posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  int error = 0;
  const auto also = [&](int result) { error = error ? error : result; };
  also(posix_spawn_file_actions_adddup2(&actions, files.request.get(), STDIN_FILENO));
  also(posix_spawn_file_actions_adddup2(&actions, files.printed.get(), STDOUT_FILENO));
  also(posix_spawn_file_actions_adddup2(&actions, files.printed.get(), STDERR_FILENO));
  also(posix_spawn_file_actions_adddup2(&actions, files.answer.get(), kAnswerDescriptor));
  also(posix_spawn_file_actions_addclosefrom_np(&actions, kFirstFreeDescriptor));
  // The worker gets its own process group, so that Ctrl-C in a terminal reaches only the parent.
  // All signals are unblocked and have their default actions in the worker.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  also(posix_spawnattr_setsigmask(&attributes, &none));
  also(posix_spawnattr_setsigdefault(&attributes, &all));
  also(posix_spawnattr_setpgroup(&attributes, 0));
  also(posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP));
  if (error == 0)
    error = posix_spawn(child, worker.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

enum class Ended : uint8_t { exited, killed, unknown, overdue, stopped };
struct End {
  Ended how = Ended::unknown;
  int number = 0;  // exit status or signal
};

End end_of(int status) {
  if (WIFSIGNALED(status)) return {Ended::killed, WTERMSIG(status)};
  return {Ended::exited, WIFEXITED(status) ? WEXITSTATUS(status) : 0};
}

// Waits until the child ends, the deadline passes or `stop` becomes readable. If another part of
// the program reaps the child, the result is `unknown`.
End wait_until(pid_t child, Clock::time_point deadline, int stop) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  End end;
  for (;;) {
    int status = 0;
    const pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) {
      end = end_of(status);
      break;
    }
    if (got < 0 && errno != EINTR) break;  // ECHILD: reaped by another part of the program
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      end.how = Ended::overdue;
      break;
    }
    pollfd wait[] = {{handle, POLLIN, 0}, {stop, POLLIN, 0}};  // poll ignores negative descriptors
    const auto step = handle >= 0 ? left : std::min(left, std::chrono::milliseconds(kPollInterval));
    if (poll(wait, 2, static_cast<int>(std::min<int64_t>(step.count(), 1000000))) < 0) {
      if (errno != EINTR) std::this_thread::sleep_for(kPollInterval);
      continue;
    }
    if (wait[1].revents != 0) {
      end.how = Ended::stopped;
      break;
    }
  }
  if (handle >= 0) close(handle);
  return end;
}

// Returns the end of the worker's output, for a message.
std::string printed_by(const Files& files) {
  std::string text = files.printed.read();
  if (text.size() > kMaxPrinted) text = "..." + text.substr(text.size() - kMaxPrinted);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? "" : "; it printed:\n" + text;
}

// Returns the worker's memory limit in MiB: the lower of the requested limit and this process's
// limit, or 0 without a limit.
size_t limit_of_worker(const CompileIsolation& isolation) {
  const size_t own = static_cast<size_t>(isolation.megabytes),
               inherited = address_space_limit() >> 20;
  return own && inherited ? std::min(own, inherited) : std::max(own, inherited);
}

CompileAnswer read_answer(const CompileIsolation& isolation, const Files& files, const End& end) {
  if (end.how == Ended::stopped) return {CompileOutcome::stopped, "", "the compile was stopped"};
  if (end.how == Ended::overdue)
    return {CompileOutcome::too_slow, "",
            "the compiler took longer than " + std::to_string(isolation.seconds) +
                " s and was stopped (raise LIGERDSL_COMPILE_SECONDS)" + printed_by(files)};
  if (end.how == Ended::killed && end.number == SIGXCPU)
    return {CompileOutcome::too_slow, "",
            "the compiler used more than " + std::to_string(isolation.seconds) +
                " s of processor time and was stopped (raise LIGERDSL_COMPILE_SECONDS)"};
  uint64_t outcome = 0;
  std::string_view artifact, error;
  const std::string bytes = files.answer.read();
  if (unpack_message(bytes, kAnswerMagic, &outcome, {&artifact, &error}))
    return {static_cast<CompileOutcome>(outcome), std::string(artifact), std::string(error)};
  if (end.how == Ended::exited && end.number == kAnswerNotWritten)
    return {CompileOutcome::not_started, "",
            "the compiler's process could not write its answer" + file_limit_text()};
  std::string how = "ended without an answer";
  if (end.how == Ended::exited) how += ", with exit status " + std::to_string(end.number);
  if (end.how == Ended::killed) {
    const char* name = sigabbrev_np(end.number);
    how = "was killed by " +
          (name ? std::string("SIG") + name : "signal " + std::to_string(end.number));
  }
  // A worker that runs out of memory may crash without an answer.
  const size_t megabytes = limit_of_worker(isolation);
  if (megabytes)
    how += " (its memory limit is " + std::to_string(megabytes) +
           " MiB: LIGERDSL_COMPILE_MEGABYTES, ulimit -v)";
  return {megabytes && megabytes < kLeastMegabytes ? CompileOutcome::out_of_memory
                                                   : CompileOutcome::crashed,
          "", "the compiler's process " + how + printed_by(files)};
}

}  // namespace

std::string worker_path(const CompileIsolation& isolation, const std::string& compiler_path) {
  if (!isolation.worker.empty()) return isolation.worker;
  return compiler_path.substr(0, compiler_path.rfind('/') + 1) + "ligerdsl/compile-worker";
}

CompileAnswer compile_in_process(const CompileIsolation& isolation,
                                 const std::string& compiler_path, std::string_view program,
                                 std::string_view options) {
  const Files files;
  if (!files.good() ||
      !files.request.write(pack_message(kRequestMagic, static_cast<uint64_t>(getpid()),
                                        {LIGERDSL_BUILD_ID, compiler_path, program, options})))
    return {CompileOutcome::not_started, "",
            "cannot write the request to the compiler's process into a file in memory: " +
                error_text(errno) + file_limit_text()};
  const std::string worker = worker_path(isolation, compiler_path);
  std::string arguments[] = {worker, std::to_string(isolation.seconds),
                             std::to_string(isolation.megabytes)};
  char* const raw[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t child = 0;
  if (const int error = spawn(worker, files, raw, &child))
    return {CompileOutcome::not_started, "",
            "the compile worker \"" + worker + "\" cannot be started: " + error_text(error) +
                ". Install it with the library, set LIGERDSL_COMPILE_WORKER to its path, or set "
                "LIGERDSL_COMPILE=thread"};
  const End end =
      wait_until(child, Clock::now() + std::chrono::seconds(isolation.seconds), isolation.stop);
  if (end.how == Ended::overdue || end.how == Ended::stopped) {
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return read_answer(isolation, files, end);
}

}  // namespace ligerdsl::runtime
