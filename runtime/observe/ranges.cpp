#include "runtime/observe/ranges.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/observe/nvtx.h"
#include "runtime/observe/trace_file.h"
#include "runtime/system/fork.h"

namespace ligerdsl::runtime {
namespace {

// Written once, before ranges are enabled.
Nvtx* tool = nullptr;
TraceFile* trace = nullptr;

// State of the search for listeners, which happens once per process.
enum class Looked : uint8_t { no, now, yes };
struct Search {
  ForkMutex mutex;  // guards the members below
  EventCount ended;
  Looked looked = Looked::no;
  uint32_t since = 0;  // fork_generation() of the searching thread's process
  std::thread::id by;
};

Search& search() {
  static auto* const one = new Search;
  return *one;
}

// Returns true if this thread must search. If another thread is searching, waits until the search
// ends. Returns false if a tool calls the library while it is attached; the call is not reported.
bool begin_search() {
  Search& all = search();
  std::unique_lock lock(all.mutex);
  while (all.looked == Looked::now && all.since == fork_generation()) {
    if (all.by == std::this_thread::get_id()) return false;
    all.ended.wait(lock);
  }
  if (all.looked == Looked::yes) return false;
  all.looked = Looked::now;
  all.since = fork_generation();
  all.by = std::this_thread::get_id();
  return true;
}

void end_search(Looked looked) {
  Search& all = search();
  {
    const std::lock_guard lock(all.mutex);
    all.looked = looked;
  }
  all.ended.notify_all();
}

// Attaches the listeners. Returns the reason if a named tool could not be attached.
std::string attach_listeners() {
  std::string problem;
  const std::string& path = options().nvtx_tool;
  if (!path.empty()) tool = Nvtx::attach(path, &problem);
  if (!options().trace.empty()) trace = new TraceFile(options().trace);
  if (tool != nullptr || trace != nullptr) ranges_enabled.store(true, std::memory_order_release);
  return path.empty() || tool != nullptr ? "" : problem;
}

}  // namespace

void find_range_listeners() {
  static std::atomic<bool> found{false};
  if (found.load(std::memory_order_acquire) || !begin_search()) return;
  std::string problem;
  try {
    problem = attach_listeners();
  } catch (...) {
    end_search(Looked::no);
    throw;
  }
  found.store(true, std::memory_order_release);
  end_search(Looked::yes);
  // Logs after the search has ended, because the host's log callback may create a context.
  if (!problem.empty())
    log(LogLevel::warning, "NVTX_INJECTION64_PATH: no ranges are reported: " + problem);
}

bool spans_wanted() {
  return ranges_enabled.load(std::memory_order_acquire) && trace != nullptr;
}

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

Range::Range(RangeKind kind, std::string_view name, std::optional<int64_t> payload)
    : kind_(kind), enabled_(ranges_enabled.load(std::memory_order_acquire)), payload_(payload) {
  if (!enabled_) return;
  const std::string_view what = kRangeKinds[static_cast<size_t>(kind)];
  name = name.substr(0, std::min(name.size(), kMessage - what.size() - 2));
  char* at = std::copy(what.begin(), what.end(), message_);
  *at++ = ' ';
  *std::copy(name.begin(), name.end(), at) = '\0';
  if (tool != nullptr)
    pushed_ =
        tool->push(static_cast<uint32_t>(kind) + 1, message_, payload_ ? &*payload_ : nullptr);
  begin_ns_ = now_ns();
}

Range::~Range() {
  if (!enabled_) return;
  const int64_t end_ns = now_ns();
  if (pushed_) tool->pop();
  if (trace == nullptr) return;
  const TraceEvent event{
      message_, kRangeKinds[static_cast<size_t>(kind_)], "", begin_ns_, end_ns - begin_ns_,
      payload_};
  trace->add({&event, 1});
}

void report_spans(const std::vector<program::Span>& spans) noexcept {
  if (!spans_wanted() || spans.empty()) return;
  try {
    std::vector<TraceEvent> events;
    for (const program::Span& span : spans)
      events.push_back({span.name, "compiler", span.detail, span.begin_us * 1000,
                        span.duration_us * 1000, std::nullopt});
    trace->add(events);
  } catch (...) {
    trace->lose(spans.size(), "memory ran out");
  }
}

void report_span(std::string_view name, int64_t begin_ns, int64_t end_ns) noexcept {
  if (!spans_wanted()) return;
  const TraceEvent event{name, "phase", "", begin_ns, end_ns - begin_ns, std::nullopt};
  trace->add({&event, 1});
}

}  // namespace ligerdsl::runtime
