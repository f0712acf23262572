// What the library does when, told to whoever listens: a profiler (nvtx.h) and LIGERDSL_TRACE (trace_file.h).
//
// Where nobody listens nothing is told: plans and kernels are made before they are used, and who is there by then is
// known, so a call does not even ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "program/artifact.h"

namespace ligerdsl::runtime {

enum class RangeKind : uint8_t { plan, record, compile, load, execute, launch };
inline constexpr const char* kRangeKinds[] = {"plan", "record", "compile", "load", "execute", "launch"};

// Looks for listeners, once per process. When it returns they have been found, whichever thread looks.
void find_range_listeners();

inline std::atomic<bool> ranges_are_told{false};
inline bool ranges_wanted() {
  return ranges_are_told.load(std::memory_order_relaxed);
}
// Whether spans are: by LIGERDSL_TRACE alone.
bool spans_wanted();

// "execute rms_norm_forward n_cols=4096": from here to the end of the object. Never fails: what cannot be told is lost.
class Range {
 public:
  Range(RangeKind kind, std::string_view name, std::optional<int64_t> payload = std::nullopt);
  ~Range();
  Range(const Range&) = delete;

 private:
  static constexpr size_t kMessage = 256;  // longer names are cut

  RangeKind kind_;
  bool told_, pushed_ = false;
  std::optional<int64_t> payload_;
  int64_t begin_ns_ = 0;
  char message_[kMessage];
};

// What is over already, of this thread: phases and passes.
void tell_spans(const std::vector<program::Span>& spans) noexcept;
void tell_span(std::string_view name, int64_t begin_ns, int64_t end_ns) noexcept;

// CLOCK_MONOTONIC.
int64_t now_ns();

}  // namespace ligerdsl::runtime
