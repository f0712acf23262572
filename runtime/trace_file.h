// LIGERDSL_TRACE: a file that chrome://tracing and ui.perfetto.dev show, in the JSON format of Chrome's trace events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fork.h"

namespace ligerdsl::runtime {

struct TraceEvent {
  std::string name;
  const char* category;
  std::string detail;  // empty: none
  int64_t begin_ns, duration_ns;
  std::optional<int64_t> payload;
};

// Events are appended to what the file holds; it is a whole JSON text between any two of them. Threads and processes may
// share it: each event has its process and its thread. A file that cannot be written is said once and costs nothing more.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);
  TraceFile(const TraceFile&) = delete;
  // Of this thread.
  void add(const std::vector<TraceEvent>& events);

 private:
  std::string append(int fd, const std::string& text) const;

  const std::string path_;
  std::atomic<bool> failed_{false};
  ForkMutex mutex_;  // locks of files do not tell threads apart
};

}  // namespace ligerdsl::runtime
