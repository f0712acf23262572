// LIGERDSL_TRACE: a file that chrome://tracing and ui.perfetto.dev show, in the JSON format of Chrome's trace events.
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
  std::string_view detail;  // empty: none
  int64_t begin_ns, duration_ns;
  std::optional<int64_t> payload;
};

// Events are appended to what the file holds; it is a whole JSON text between any two of them. Threads and processes may
// share it: each event has its process and its thread. A file that cannot be written is said once and costs nothing more.
//
// Nothing here ends or holds up what is traced: where there is no memory, or somebody keeps the file locked, events are
// lost, and the next one that is written comes with their number. No mutex is held, so a fork waits for no disk.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  TraceFile(const TraceFile&) = delete;
  // Of this thread.
  void add(std::span<const TraceEvent> events) noexcept;
  // Events that could not even be made.
  void lose(size_t events, const char* why) noexcept;

 private:
  const char* write(const std::string& text);
  std::string append(int fd, const std::string& text) const;
  const char* stop(const std::string& why);

  const std::string path_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> patient_{true};  // the last lock was had: the next is worth a wait
  std::atomic<int64_t> lost_{0};     // since the last event that was written
};

}  // namespace ligerdsl::runtime
