#include "runtime/observe/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "runtime/environment/log.h"
#include "runtime/system/file_lock.h"
#include "runtime/system/files.h"
#include "runtime/system/safe_open.h"

namespace ligerdsl::runtime {
namespace {

// A lock is normally held for microseconds. If a process holds it longer, the process is stopped or
// is another program.
constexpr std::chrono::milliseconds kPatience{500};
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

// Returns the time in microseconds with three decimals, independent of the locale.
std::string microseconds(int64_t ns) {
  char text[32];
  snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
           static_cast<long long>(ns % 1000));
  return text;
}

void append_member(std::string* to, const char* name, std::string_view text) {
  append_string(to, name);
  *to += ':';
  append_string(to, text);
}

std::string text_of(const TraceEvent& event, const std::string& whose) {
  std::string text = "{";
  append_member(&text, "name", event.name);
  text += ',';
  append_member(&text, "cat", event.category);
  text += R"(,"ph":"X","ts":)" + microseconds(event.begin_ns) + R"(,"dur":)" +
          microseconds(event.duration_ns) + whose;
  text += R"(,"args":{)";
  if (!event.detail.empty()) append_member(&text, "detail", event.detail);
  if (!event.detail.empty() && event.payload) text += ',';
  if (event.payload) text += R"("payload":)" + std::to_string(*event.payload);
  return text + "}}";
}

std::string whose_text() {
  return R"(,"pid":)" + std::to_string(getpid()) + R"(,"tid":)" +
         std::to_string(syscall(SYS_gettid));
}

// Returns an instant event with the number of lost events, on the track of the calling thread.
std::string lost_text(int64_t events) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return R"({"name":"events were lost","cat":"trace","ph":"i","s":"p","ts":)" +
         microseconds(int64_t{now.tv_sec} * 1000000000 + now.tv_nsec) + whose_text() +
         R"(,"args":{"events":)" + std::to_string(events) + "}}";
}

// Returns an absolute path, so that a later chdir() does not change the file.
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

// Appends text to the file. Returns a reason on failure; the file is then unchanged.
std::string TraceFile::append(int fd, const std::string& text) const {
  struct stat info {};
  if (fstat(fd, &info) != 0) return error_text(errno);
  const off_t size = info.st_size, end = static_cast<off_t>(kEnd.size());
  if (size == 0) {
    if (write_at(fd, std::string(kBegin) + text + std::string(kEnd), 0)) return "";
  } else {
    std::string last(kEnd.size(), '\0');
    if (size < end || pread(fd, last.data(), last.size(), size - end) != end || last != kEnd)
      return "it does not end like a trace; choose a new file";
    if (write_at(fd, std::string(kBetween) + text + std::string(kEnd), size - end)) return "";
  }
  const std::string why = error_text(errno);
  if (ftruncate(fd, size) == 0 && size > 0) static_cast<void>(write_at(fd, kEnd, size - end));
  return why;
}

// Writes text to the file. Opens the file each time, so that the lock belongs to this thread.
// Returns null if the text was written or tracing has stopped, else the reason why the text is
// lost.
const char* TraceFile::write(const std::string& text) {
  std::string problem;
  const File file(open_to_write(path_, O_RDWR | O_CREAT | O_NONBLOCK, 0666, &problem));
  if (!file.good()) return stop(problem);
  struct stat info {};
  if (fstat(file.get(), &info) == 0 && !S_ISREG(info.st_mode))
    return stop("it is not a regular file");
  const FileLock lock(file.get(), patient_.load(std::memory_order_relaxed)
                                      ? kPatience
                                      : std::chrono::milliseconds(0));
  patient_.store(lock.locked(), std::memory_order_relaxed);
  if (lock.is_anothers()) return "another process keeps it locked";
  if (!lock.locked()) return stop(error_text(lock.error()));
  const int64_t lost = lost_.load();
  const std::string why =
      append(file.get(), lost > 0 ? lost_text(lost) + std::string(kBetween) + text : text);
  if (!why.empty()) return stop(why);
  lost_ -= lost;
  return nullptr;
}

const char* TraceFile::stop(const std::string& why) {
  if (!stopped_.exchange(true))
    log(LogLevel::warning,
        "LIGERDSL_TRACE \"" + path_ + "\" cannot be written, so nothing more is traced: " + why);
  return nullptr;
}

void TraceFile::lose(size_t events, const char* why) noexcept try {
  lost_ += static_cast<int64_t>(events);
  log_once(LogLevel::warning, "trace: events are lost",
           "LIGERDSL_TRACE \"" + path_ +
               "\": events are lost, and the file will contain their number: " + why);
} catch (...) {  // no memory for the message; the lost events are still counted
}

void TraceFile::add(std::span<const TraceEvent> events) noexcept {
  if (events.empty() || stopped_.load(std::memory_order_relaxed)) return;
  const char* why = "memory ran out";
  try {
    const std::string whose = whose_text();
    std::string text;
    for (const TraceEvent& event : events) {
      if (!text.empty()) text += kBetween;
      text += text_of(event, whose);
    }
    why = write(text);
  } catch (...) {  // the traced work must continue
  }
  if (why != nullptr) lose(events.size(), why);
}

}  // namespace ligerdsl::runtime
