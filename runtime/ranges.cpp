#include "runtime/ranges.h"

#include <time.h>

#include <algorithm>
#include <cstring>

#include "runtime/log.h"
#include "runtime/nvtx.h"
#include "runtime/options.h"
#include "runtime/trace_file.h"

namespace ligerdsl::runtime {
namespace {

// Written once, before anybody is told.
Nvtx* tool = nullptr;
TraceFile* trace = nullptr;

void attach_tool(const std::string& path) {
  if (path.empty()) return;
  std::string problem;
  tool = Nvtx::attach(path, &problem);
  if (tool == nullptr) log(LogLevel::warning, "NVTX_INJECTION64_PATH: no ranges are told: " + problem);
}

}  // namespace

void find_range_listeners() {
  static std::atomic<bool> looked{false};
  if (looked.exchange(true)) return;
  attach_tool(options().nvtx_tool);
  if (!options().trace.empty()) trace = new TraceFile(options().trace);
  if (tool != nullptr || trace != nullptr) ranges_are_told.store(true, std::memory_order_release);
}

bool spans_wanted() {
  return ranges_are_told.load(std::memory_order_acquire) && trace != nullptr;
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

Range::Range(RangeKind kind, std::string_view name, std::optional<int64_t> payload)
    : kind_(kind), told_(ranges_are_told.load(std::memory_order_acquire)), payload_(payload) {
  if (!told_) return;
  const std::string_view what = kRangeKinds[static_cast<size_t>(kind)];
  name = name.substr(0, std::min(name.size(), kMessage - what.size() - 2));
  char* at = std::copy(what.begin(), what.end(), message_);
  *at++ = ' ';
  *std::copy(name.begin(), name.end(), at) = '\0';
  if (tool != nullptr) pushed_ = tool->push(static_cast<uint32_t>(kind) + 1, message_, payload_ ? &*payload_ : nullptr);
  begin_ns_ = now_ns();
}

Range::~Range() {
  if (!told_) return;
  const int64_t end_ns = now_ns();
  if (pushed_) tool->pop();
  if (trace != nullptr)
    trace->add({{message_, kRangeKinds[static_cast<size_t>(kind_)], "", begin_ns_, end_ns - begin_ns_, payload_}});
}

void tell_spans(const std::vector<program::Span>& spans) {
  if (!spans_wanted() || spans.empty()) return;
  std::vector<TraceEvent> events;
  for (const program::Span& span : spans)
    events.push_back({span.name, "compiler", span.detail, span.begin_us * 1000, span.duration_us * 1000, std::nullopt});
  trace->add(events);
}

void tell_span(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  if (spans_wanted()) trace->add({{std::string(name), "phase", "", begin_ns, end_ns - begin_ns, std::nullopt}});
}

}  // namespace ligerdsl::runtime
