#include "runtime/system/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/system/status.h"

extern char** environ;

namespace ligerdsl::runtime {
namespace {

constexpr int kFirstFreeDescriptor = STDERR_FILENO + 1;

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  int get() const { return fd_; }
  // Moves the descriptor above the standard streams, so that posix_spawn always passes it to the
  // child as a duplicate. Returns false and sets errno if no descriptor is left.
  bool take(int fd) {
    fd_ = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeDescriptor);
    const int error = errno;
    close(fd);
    errno = error;
    return fd_ >= 0;
  }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

std::string text_of(int error) {
  return strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error";
}

// Starts the program. Returns 0 or an errno.
int spawn(const std::vector<std::string>& arguments, int printed, pid_t* child) {
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (const int error = posix_spawn_file_actions_init(&actions)) return error;
  int error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, printed, STDOUT_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, printed, STDERR_FILENO);
  if (error == 0) error = posix_spawnp(child, raw[0], &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads until the program closes its end of the pipe or `stop` becomes readable. If reading fails,
// kills the program, because it would wait forever for space in the pipe.
void read_output(int pipe, const ProcessLimits& limits, pid_t child, ProcessResult* result) {
  char buffer[1 << 16];
  for (;;) {
    pollfd wait[] = {{pipe, POLLIN, 0}, {limits.stop, POLLIN, 0}};
    if (poll(wait, 2, -1) < 0) {
      if (errno == EINTR) continue;
      kill(child, SIGKILL);
      return;
    }
    if (wait[1].revents != 0) {
      result->stopped = true;
      kill(child, SIGKILL);
      return;
    }
    if (wait[0].revents == 0) continue;
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) kill(child, SIGKILL);
    if (got <= 0) return;
    const size_t room = limits.output_bytes - std::min(limits.output_bytes, result->output.size());
    result->output.append(buffer, std::min(room, static_cast<size_t>(got)));
    result->cut = result->cut || room < static_cast<size_t>(got);
  }
}

std::string end_text(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name ? std::string("killed by SIG").append(name)
              : "killed by signal " + std::to_string(WTERMSIG(status));
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessLimits& limits) {
  int ends[2];
  Descriptor output, printed;
  const auto refuse = [&](int error) {
    fail(Status::execution_failed,
         "cannot create a pipe to " + arguments[0] + ": " + text_of(error));
  };
  if (pipe2(ends, O_CLOEXEC) != 0) refuse(errno);
  const int first_error = output.take(ends[0]) ? 0 : errno,
            second_error = printed.take(ends[1]) ? 0 : errno;
  if (const int error = first_error ? first_error : second_error) refuse(error);
  pid_t child = 0;
  if (const int error = spawn(arguments, printed.get(), &child))
    fail(Status::not_supported, "\"" + arguments[0] + "\" cannot be started: " + text_of(error));
  printed.reset();
  ProcessResult result;
  read_output(output.get(), limits, child, &result);
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  result.succeeded = reaped == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  result.end = reaped == child
                   ? end_text(status)
                   : "an unknown exit status: another part of this process waited for it";
  return result;
}

std::string command_line(const std::vector<std::string>& arguments) {
  static const char* const plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace ligerdsl::runtime
