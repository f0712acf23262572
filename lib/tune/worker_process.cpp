#include "lib/tune/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/files.h"
#include "runtime/status.h"

extern char** environ;

namespace ligerdsl::tune {

namespace {

using Clock = std::chrono::steady_clock;

void close_and_forget(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

std::string end_text(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name ? std::string("killed by SIG").append(name) : "killed by signal " + std::to_string(WTERMSIG(status));
}

// A write to a process that has ended is an error, not a signal, of a socket only.
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    runtime::fail(runtime::Status::execution_failed, "no pipe to a worker: " + runtime::error_text(errno));
  // Above the standard streams, so that giving the child one of those is always a copy.
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
  // A group of its own: Ctrl-C is the tuner's.
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
  kill(-pid_, SIGKILL);  // its group: what it has started goes with it
  close_and_forget(&in_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return {outcome, {}, end_text(status)};
}

WorkerProcess::Answer WorkerProcess::ask(const Json& question, double seconds, int stop) {
  if (pid_ < 0) return {Outcome::ended, {}, "it has ended"};
  if (!send_all(in_, question.dump() + "\n")) return gone(Outcome::ended);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (;;) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (answer.is_discarded()) return gone(Outcome::timed_out);
      return {Outcome::answered, std::move(answer), ""};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return gone(Outcome::timed_out);
    pollfd wait[] = {{out_, POLLIN, 0}, {stop, POLLIN, 0}};
    if (poll(wait, 2, static_cast<int>(std::min<int64_t>(left, 1 << 30))) < 0) {
      if (errno == EINTR) continue;
      return gone(Outcome::stopped);
    }
    if (wait[1].revents != 0) return gone(Outcome::stopped);
    if (wait[0].revents == 0) continue;
    char buffer[1 << 16];
    const ssize_t got = read(out_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return gone(Outcome::ended);
    read_.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace ligerdsl::tune
