// LIGERDSL_TRACE: a file in the JSON format of Chrome's trace events, for chrome://tracing and
// ui.perfetto.dev.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

struct TraceEvent {
  std::string_view name;
  const char* category;
  std::string_view detail;  // empty for none
  int64_t begin_ns, duration_ns;
  std::optional<int64_t> payload;
};

// Appends events to a file, which is a complete JSON text after each append. Threads and processes
// may share the file, because each event names its process and thread. If the file cannot be
// written, one warning is logged and tracing stops.
//
// Tracing never makes the traced work fail. Events are lost without memory, or while another
// process keeps the file locked. A thread waits for the lock at most 500 ms, and not at all if the
// last wait failed. The next written event reports the number of lost events. No mutex is held, so
// a fork does not wait for the disk.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  TraceFile(const TraceFile&) = delete;
  // Adds events of this thread.
  void add(std::span<const TraceEvent> events) noexcept;
  // Counts events that were lost for the reason `why`.
  void lose(size_t events, const char* why) noexcept;

 private:
  const char* write(const std::string& text);
  std::string append(int fd, const std::string& text) const;
  const char* stop(const std::string& why);

  const std::string path_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> patient_{true};  // the last attempt got the lock, so the next may wait
  std::atomic<int64_t> lost_{0};     // number of events lost since the last write
};

}  // namespace ligerdsl::runtime
