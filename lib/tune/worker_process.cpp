#include "lib/tune/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/system/files.h"
#include "runtime/system/status.h"

extern char** environ;

namespace ligerdsl::tune {

namespace {

// Time to wait for the end of a killed process. A process that still runs is assumed to be in a
// driver call that may never end.
constexpr double kGraceSeconds = 3;

void close_and_forget(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG").append(name) : "signal " + std::to_string(signal);
}

std::string end_text(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  return "killed by " + signal_text(WTERMSIG(status));
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    runtime::fail(
        runtime::Status::execution_failed,
        "cannot create a socket pair for a worker process: " + runtime::error_text(errno));
  // Both descriptors are above 2. If one were already 0 or 1, dup2 in the child would not copy it
  // and would keep FD_CLOEXEC.
  const int ours = fcntl(ends[0], F_DUPFD_CLOEXEC, 3), theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
  close(ends[0]);
  close(ends[1]);
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO);
  // A process group of its own, so that Ctrl-C reaches only the tuner.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&pid_, raw[0], &actions, &attributes, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(theirs);
  in_ = out_ = ours;
  if (error != 0) {
    pid_ = -1;
    close_and_forget(&in_);
    runtime::fail(runtime::Status::not_supported,
                  "\"" + arguments[0] + "\" cannot be started: " + runtime::error_text(error));
  }
}

WorkerProcess::~WorkerProcess() {
  if (pid_ >= 0) gone(Outcome::stopped);
}

WorkerProcess::Answer WorkerProcess::gone(Outcome outcome) {
  return gone(outcome, "");
}

// Kills the process. If `end` is empty, the answer states how the process ended.
WorkerProcess::Answer WorkerProcess::gone(Outcome outcome, std::string end) {
  kill(-pid_, SIGKILL);  // kills the process group, so that its child processes end too
  close_and_forget(&in_);
  int status = 0;
  pid_t reaped = 0;
  for (const Deadline grace = Deadline::after(kGraceSeconds); reaped <= 0 && !grace.passed();) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped < 0 && errno != EINTR) break;  // another caller has reaped it
    if (reaped == 0) poll(nullptr, 0, 1);
  }
  if (end.empty() && reaped > 0) end = end_text(status);
  if (end.empty()) end = "killed by SIGKILL, but not released by the operating system yet";
  pid_ = -1;
  return {outcome, {}, std::move(end)};
}

bool WorkerProcess::running() {
  if (pid_ < 0) return false;
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

WorkerProcess::Wait WorkerProcess::wait_for(short events, Deadline until, int stop) const {
  constexpr double kLongestPoll = 1e6;  // seconds; poll takes an int of milliseconds
  for (;;) {
    if (until.passed()) return Wait::timed_out;
    pollfd wait[] = {{out_, events, 0}, {stop, POLLIN, 0}};
    const int milliseconds = 1 + static_cast<int>(1e3 * std::min(until.left(), kLongestPoll));
    if (poll(wait, 2, milliseconds) < 0) {
      if (errno == EINTR) continue;
      return Wait::stopped;
    }
    if (wait[1].revents != 0) return Wait::stopped;
    if (wait[0].revents != 0) return Wait::ready;
  }
}

// A process stopped by SIGSTOP or a debugger does not hang, so this is no timeout.
WorkerProcess::Answer WorkerProcess::gave_up(Wait wait) {
  if (wait == Wait::stopped) return gone(Outcome::stopped);
  siginfo_t info{};
  const bool was_stopped =
      waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_ && info.si_code == CLD_STOPPED;
  if (was_stopped) return gone(Outcome::ended, "stopped by " + signal_text(info.si_status));
  return gone(Outcome::timed_out);
}

WorkerProcess::Answer WorkerProcess::ask(const Json& question, Deadline until, int stop) {
  if (pid_ < 0) return {Outcome::ended, {}, "the process has already ended"};
  const std::string line = question.dump() + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    // MSG_NOSIGNAL: a write to an ended process is an error, not a signal. Only sockets accept this
    // flag.
    const ssize_t put = send(in_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) rest.remove_prefix(static_cast<size_t>(put));
    if (put > 0 || (put < 0 && errno == EINTR)) continue;
    if (put == 0 || errno != EAGAIN) return gone(Outcome::ended);
    if (const Wait wait = wait_for(POLLOUT, until, stop); wait != Wait::ready) return gave_up(wait);
  }
  for (;;) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      Json answer = Json::parse(read_.substr(0, end), nullptr, /*allow_exceptions=*/false);
      read_.erase(0, end + 1);
      if (answer.is_discarded())
        return gone(Outcome::ended, "the process printed a line that is not JSON");
      return {Outcome::answered, std::move(answer), ""};
    }
    if (const Wait wait = wait_for(POLLIN, until, stop); wait != Wait::ready) return gave_up(wait);
    char buffer[1 << 16];
    const ssize_t got = read(out_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return gone(Outcome::ended);
    read_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace ligerdsl::tune
