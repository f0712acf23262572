#include "runtime/environment/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/environment/options.h"
#include "runtime/system/files.h"
#include "runtime/system/fork.h"

namespace ligerdsl::runtime {
namespace {

struct Sink {
  int id;
  LogCallback callback;
  void* user;
};

struct Logger {
  std::atomic<int32_t> level;
  // Locked while callbacks run, so that remove_log_callback waits for them. Recursive, because a
  // callback may log.
  PerProcess<std::recursive_mutex> delivery{std::make_shared<std::recursive_mutex>()};
  ForkMutex mutex;  // guards the members below
  std::vector<Sink> sinks;
  std::set<std::string> seen;
  int next_id = 1;
  int file = -1;
  std::string file_problem;

  Logger() : level(static_cast<int32_t>(options().log)) {
    const std::string& path = options().log_file;
    if (path.empty()) return;
    // O_NONBLOCK, so that a pipe cannot block the process. Opening a pipe without a reader fails,
    // and lines for a full pipe are dropped.
    file =
        open(path.c_str(),
             O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    if (file >= 0) return;
    const int error = errno;
    file_problem = "LIGERDSL_LOG_FILE \"" + path +
                   "\" cannot be written, so log lines go to stderr: " +
                   (error == ELOOP ? "it is a symbolic link" : locate_failure(path, error).text());
  }
};

// Never destroyed: threads that outlive main() may log.
Logger& logger() {
  static Logger* const instance = new Logger;
  return *instance;
}

std::recursive_mutex& delivery() {
  return logger().delivery.get(
      [](const std::recursive_mutex&) { return std::make_shared<std::recursive_mutex>(); });
}

const char* level_name(LogLevel level) {
  constexpr const char* names[] = {"off", "error", "warning", "info", "debug"};
  return names[static_cast<int>(level)];
}

std::string formatted(LogLevel level, const std::string& line) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char stamp[40];
  snprintf(stamp, sizeof stamp, "%02d:%02d:%02d.%03d", parts.tm_hour, parts.tm_min, parts.tm_sec,
           static_cast<int>(now.tv_nsec / 1000000));
  return "ligerdsl " + std::string(stamp) + " " + level_name(level) + ": " + line + "\n";
}

// Writes a line. Ignores incomplete and failed writes, because a log must not disturb the program.
void write_line(int file, const std::string& text) {
  const WriteSignalsHeld errors_alone;
  ssize_t written = ::write(file, text.data(), text.size());
  static_cast<void>(written);
}

// Returns a copy of the list, because a callback may add or remove callbacks.
std::vector<Sink> current_sinks() {
  const std::lock_guard lock(logger().mutex);
  return logger().sinks;
}

}  // namespace

int add_log_callback(LogCallback callback, void* user) {
  const std::lock_guard lock(logger().mutex);
  logger().sinks.push_back({logger().next_id, callback, user});
  return logger().next_id++;
}

void remove_log_callback(int id) {
  const std::lock_guard none_under_way(delivery());
  const std::lock_guard lock(logger().mutex);
  std::erase_if(logger().sinks, [&](const Sink& sink) { return sink.id == id; });
}

void set_log_level(LogLevel level) {
  logger().level.store(static_cast<int32_t>(level), std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return static_cast<int32_t>(level) <= logger().level.load(std::memory_order_relaxed);
}

void log(LogLevel level, const std::string& line) {
  if (!log_enabled(level)) return;
  Logger& to = logger();
  const std::lock_guard one_at_a_time(delivery());
  const std::vector<Sink> sinks = current_sinks();
  for (const Sink& sink : sinks)
    sink.callback(sink.user, static_cast<int32_t>(level), line.c_str());
  if (to.file >= 0) write_line(to.file, formatted(level, line));
  if (to.file < 0 && sinks.empty()) write_line(STDERR_FILENO, formatted(level, line));
}

void log_quietly(LogLevel level, const char* what, const std::exception& why) noexcept try {
  if (log_enabled(level)) log(level, std::string(what) + ": " + why.what());
} catch (...) {
}

const std::string& log_file_problem() {
  return logger().file_problem;
}

void log_once(LogLevel level, const std::string& key, const std::string& line) {
  {
    const std::lock_guard lock(logger().mutex);
    if (!logger().seen.insert(key).second) return;
  }
  log(level, line);
}

}  // namespace ligerdsl::runtime
