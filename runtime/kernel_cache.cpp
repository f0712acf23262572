#include "runtime/kernel_cache.h"

#include <time.h>

#include "program/serialize.h"
#include "runtime/compiler_library.h"
#include "runtime/log.h"
#include "runtime/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr const char* kArtifactSuffix = ".art";

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

void report_unusable(const std::exception& error) {
  log(LogLevel::warning, std::string("a cached kernel could not be used and is compiled again: ") + error.what());
}

}  // namespace

const char* name(Origin origin) {
  constexpr const char* names[] = {"memory", "disk", "compiled"};
  return names[static_cast<int>(origin)];
}

PhaseClock::PhaseClock(LoadReport& report) : report_(report), last_ns_(now_ns()) {}

void PhaseClock::lap(const char* phase) {
  const int64_t now = now_ns();
  report_.times.push_back({phase, static_cast<double>(now - last_ns_) * 1e-6});
  last_ns_ = now;
}

KernelCache::KernelCache(const DiskCache& disk, Steps steps) : disk_(disk), steps_(std::move(steps)) {}

Digest KernelCache::key(std::string_view program, std::string_view options) {
  return Sha256().field(build_id()).field(options).field(program).finish();
}

// The kernel, or null when it is the caller's to build.
std::shared_ptr<LoadedKernel> KernelCache::find_or_begin(const Digest& digest) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto [entry, fresh] = entries_.try_emplace(digest);
    if (entry->second.kernel) return entry->second.kernel;
    if (fresh || entry->second.building_since != fork_generation()) {
      entry->second.building_since = fork_generation();
      return nullptr;
    }
    built_.wait(lock);
  }
}

std::shared_ptr<LoadedKernel> KernelCache::load(std::string_view program, const program::CompileOptions& options,
                                                bool may_compile, LoadReport& report) {
  const std::string option_bytes = program::serialize(options);
  const Digest digest = key(program, option_bytes);
  if (std::shared_ptr<LoadedKernel> known = find_or_begin(digest)) {
    report.origin = Origin::memory;
    return known;
  }
  std::shared_ptr<LoadedKernel> kernel;
  try {
    kernel = build(digest, program, option_bytes, may_compile, report);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      entries_.erase(digest);
    }
    built_.notify_all();
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    entries_[digest].kernel = kernel;
  }
  built_.notify_all();
  return kernel;
}

std::shared_ptr<LoadedKernel> KernelCache::build(const Digest& key, std::string_view program, std::string_view options,
                                                 bool may_compile, LoadReport& report) {
  PhaseClock clock(report);
  if (std::optional<std::string> bytes = disk_.read(key, kArtifactSuffix)) {
    // The digest was right, so bytes that do not parse or link come from a writer that this build does not understand:
    // a miss.
    try {
      program::Artifact artifact = program::parseArtifact(*bytes);
      artifact.times.clear();
      clock.lap("lookup");
      report.origin = Origin::disk;
      return steps_.instantiate(std::move(artifact), report);
    } catch (const Error& error) {
      if (error.status() != Status::internal_error && error.status() != Status::compile_failed) throw;
      report_unusable(error);
      report = {};
    } catch (const std::runtime_error& error) {
      report_unusable(error);
      report = {};
    }
  }
  if (!may_compile)
    fail(Status::not_supported,
         "the kernel is in no cache and this context must not compile (NO_JIT): compile it before with "
         "`ligerdsl compile`, or create the context without NO_JIT");
  clock.lap("lookup");
  const std::string bytes = steps_.compile(program, options);
  program::Artifact artifact = program::parseArtifact(bytes);
  report.origin = Origin::compiled;
  for (const program::PhaseTime& phase : artifact.times) report.times.push_back(phase);
  for (const std::string& line : artifact.diagnostics) log(LogLevel::info, artifact.entry + ": " + line);
  // What the device does with it comes first: an artifact that cannot be loaded is not worth keeping.
  std::shared_ptr<LoadedKernel> kernel = steps_.instantiate(std::move(artifact), report);
  PhaseClock store(report);
  disk_.write(key, kArtifactSuffix, bytes);
  store.lap("store");
  return kernel;
}

}  // namespace ligerdsl::runtime
