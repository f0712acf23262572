#include "runtime/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "runtime/files.h"
#include "runtime/log.h"

namespace ligerdsl::runtime {
namespace {

constexpr std::string_view kBegin = "[\n", kBetween = ",\n", kEnd = "\n]\n";

void append_string(std::string* to, std::string_view text) {
  *to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      *to += '\\';
      *to += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      *to += escaped;
    } else {
      *to += c;
    }
  }
  *to += '"';
}

// Microseconds with three digits, whatever the locale.
std::string microseconds(int64_t ns) {
  char text[32];
  snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
  return text;
}

std::string text_of(const TraceEvent& event, const std::string& whose) {
  std::string text = R"({"name":)";
  append_string(&text, event.name);
  text += R"(,"cat":)";
  append_string(&text, event.category);
  text += R"(,"ph":"X","ts":)" + microseconds(event.begin_ns) + R"(,"dur":)" + microseconds(event.duration_ns) + whose;
  std::string arguments;
  if (!event.detail.empty()) {
    arguments += R"("detail":)";
    append_string(&arguments, event.detail);
  }
  if (event.payload) arguments += (arguments.empty() ? "" : ",") + (R"("payload":)" + std::to_string(*event.payload));
  return text + R"(,"args":{)" + arguments + "}}";
}

// Of other processes; released when the descriptor is closed.
bool lock_file(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  while (fcntl(fd, F_SETLKW, &whole) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// The same file wherever the program goes to work later.
std::string absolute(const std::string& path) {
  std::error_code error;
  const std::string whole = std::filesystem::absolute(path, error);
  return error ? path : whole;
}

bool write_at(int fd, std::string_view text, off_t at) {
  return lseek(fd, at, SEEK_SET) == at && write_all(fd, text);
}

}  // namespace

TraceFile::TraceFile(const std::string& path) : path_(absolute(path)) {}

// Why it was not; the file is then as it was.
std::string TraceFile::append(int fd, const std::string& text) const {
  struct stat info {};
  if (!lock_file(fd) || fstat(fd, &info) != 0) return error_text(errno);
  if (!S_ISREG(info.st_mode)) return "it is no regular file";
  const off_t size = info.st_size, end = static_cast<off_t>(kEnd.size());
  if (size == 0) {
    if (write_at(fd, std::string(kBegin) + text + std::string(kEnd), 0)) return "";
  } else {
    std::string last(kEnd.size(), '\0');
    if (size < end || pread(fd, last.data(), last.size(), size - end) != end || last != kEnd)
      return "it holds something else";
    if (write_at(fd, std::string(kBetween) + text + std::string(kEnd), size - end)) return "";
  }
  const std::string why = error_text(errno);
  if (ftruncate(fd, size) == 0 && size > 0) static_cast<void>(write_at(fd, kEnd, size - end));
  return why;
}

// Opened for each of them: a forked child must not share the file's lock with its parent.
void TraceFile::add(const std::vector<TraceEvent>& events) {
  if (events.empty() || failed_.load(std::memory_order_relaxed)) return;
  const std::string whose =
      R"(,"pid":)" + std::to_string(getpid()) + R"(,"tid":)" + std::to_string(syscall(SYS_gettid));
  std::string text;
  for (const TraceEvent& event : events) {
    if (!text.empty()) text += kBetween;
    text += text_of(event, whose);
  }
  std::string why;
  {
    const std::lock_guard one_at_a_time(mutex_);
    const File file(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    why = file.good() ? append(file.get(), text) : locate_failure(path_, errno).text();
  }
  if (why.empty() || failed_.exchange(true)) return;
  log(LogLevel::warning, "LIGERDSL_TRACE \"" + path_ + "\" cannot be written, so nothing more is traced: " + why);
}

}  // namespace ligerdsl::runtime
