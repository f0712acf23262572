// Reports time ranges of the library's work to listeners. A listener is a profiler (nvtx.h) or a
// trace file (LIGERDSL_TRACE, trace_file.h).
//
// Listeners are searched for before the first plan or kernel is created. A plan or kernel without
// listeners does not look for them again in a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "program/artifact.h"

namespace ligerdsl::runtime {

enum class RangeKind : uint8_t { plan, record, compile, load, execute, launch };
inline constexpr const char* kRangeKinds[] = {"plan", "record",  "compile",
                                              "load", "execute", "launch"};

// Searches for listeners at the first call in a process. If another thread is searching, waits for
// the end of the search.
void find_range_listeners();

inline std::atomic<bool> ranges_enabled{false};
inline bool ranges_wanted() {
  return ranges_enabled.load(std::memory_order_relaxed);
}
// Returns true if spans are reported. Only a trace (LIGERDSL_TRACE) records spans.
bool spans_wanted();

// A range such as "execute rms_norm_forward n_cols=4096" for the lifetime of the object. Never
// fails; a range that cannot be reported is lost.
class Range {
 public:
  Range(RangeKind kind, std::string_view name, std::optional<int64_t> payload = std::nullopt);
  ~Range();
  Range(const Range&) = delete;

 private:
  static constexpr size_t kMessage = 256;  // bytes; longer names are truncated

  RangeKind kind_;
  bool enabled_, pushed_ = false;
  std::optional<int64_t> payload_;
  int64_t begin_ns_ = 0;
  char message_[kMessage];
};

// Report phases and passes that this thread has finished.
void report_spans(const std::vector<program::Span>& spans) noexcept;
void report_span(std::string_view name, int64_t begin_ns, int64_t end_ns) noexcept;

// Returns the time of CLOCK_MONOTONIC.
int64_t now_ns();

}  // namespace ligerdsl::runtime
