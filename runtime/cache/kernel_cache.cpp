#include "runtime/cache/kernel_cache.h"

#include <cstdio>

#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/environment/log.h"
#include "runtime/kernel/launch_ranges.h"
#include "runtime/observe/ranges.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

void log_origin(const char* what, const std::string& kernel, const std::string& target,
                const Digest& key) {
  if (log_enabled(LogLevel::debug))
    log(LogLevel::debug, what + kernel + " for " + target + ", key " + hex(key));
}

void log_compiled(const std::string& kernel, const std::string& target, const Digest& key,
                  int64_t begin_ns) {
  char text[40];
  snprintf(text, sizeof text, " in %lld ms",
           static_cast<long long>((now_ns() - begin_ns + 500000) / 1000000));
  log(LogLevel::debug, "compiled " + kernel + " for " + target + text + ", key " + hex(key));
}

void report_unusable(const std::exception& error) {
  log(LogLevel::warning,
      std::string("a cached kernel cannot be used and counts as a cache miss: ") + error.what());
}

}  // namespace

const char* name(Origin origin) {
  constexpr const char* names[] = {"memory", "disk", "compiled"};
  return names[static_cast<int>(origin)];
}

std::string target_text(const program::CompileOptions& options) {
  if (options.target == program::Target::cpu) return "cpu (" + options.arch + ")";
  return options.arch + ", PTX " + std::to_string(options.ptx_version / 10) + "." +
         std::to_string(options.ptx_version % 10);
}

PhaseClock::PhaseClock(LoadReport& report) : report_(report), last_ns_(now_ns()) {}

void PhaseClock::lap(const char* phase) {
  const int64_t now = now_ns();
  report_.times.push_back({phase, static_cast<double>(now - last_ns_) * 1e-6});
  report_span(phase, last_ns_, now);
  last_ns_ = now;
}

KernelCache::KernelCache(const DiskCache& disk, Steps steps)
    : disk_(disk), steps_(std::move(steps)) {}

Digest KernelCache::key(std::string_view program, std::string_view options) {
  return Sha256().field(build_id()).field(options).field(program).finish();
}

Origin KernelCache::keep(const DiskCache& disk, const Compile& compile, std::string_view program,
                         const program::CompileOptions& options) {
  const std::string option_bytes = program::serialize(options);
  const Digest digest = key(program, option_bytes);
  const FileStamp seen = disk.stamp(digest, kArtifactSuffix);
  if (disk.read(digest, kArtifactSuffix)) return Origin::disk;
  SingleFlight flight(disk, digest, kArtifactSuffix, seen);
  const bool made = flight.made() != nullptr;
  if (!made && flight.entry_changed() && disk.read(digest, kArtifactSuffix)) return Origin::disk;
  const int64_t begin = now_ns();
  const std::string bytes = made ? *flight.made() : compile(program, option_bytes);
  const std::string entry = program::parseArtifact(bytes).entry, target = target_text(options);
  if (!made) {
    log_compiled(entry, target, digest, begin);
    flight.land(bytes);
  }
  // Stores the artifact even if another thread made it: that thread may not have stored it yet, or
  // may fail to store it.
  disk.write(digest, kArtifactSuffix, bytes, {.kernel = entry, .target = target});
  return made ? Origin::memory : Origin::compiled;
}

// Returns the kernel in memory, waiting if another thread builds it. Returns null if the caller
// must build it.
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

std::shared_ptr<LoadedKernel> KernelCache::load(std::string_view program,
                                                const program::CompileOptions& options,
                                                bool may_compile, LoadReport& report) {
  Request request{.program = program,
                  .wanted = options,
                  .options = program::serialize(options),
                  .target = target_text(options)};
  request.key = key(program, request.options);
  if (std::shared_ptr<LoadedKernel> known = find_or_begin(request.key)) {
    report.origin = Origin::memory;
    log_origin("cache hit in memory: ", known->artifact().entry, request.target, request.key);
    return known;
  }
  std::shared_ptr<LoadedKernel> kernel;
  try {
    kernel = build(request, may_compile, report);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      entries_.erase(request.key);
    }
    built_.notify_all();
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    entries_[request.key].kernel = kernel;
  }
  built_.notify_all();
  return kernel;
}

// Returns the kernel on disk, or null for a miss. An artifact that does not parse or link is also a
// miss: its digest is right, but this build does not know its format.
std::shared_ptr<LoadedKernel> KernelCache::from_disk(const Request& request, PhaseClock& clock,
                                                     LoadReport& report) {
  const std::optional<std::string> bytes = disk_.read(request.key, kArtifactSuffix);
  if (!bytes) return nullptr;
  try {
    program::Artifact artifact = program::parseArtifact(*bytes);
    artifact.times.clear();
    clock.lap("lookup");
    report.origin = Origin::disk;
    std::shared_ptr<LoadedKernel> kernel = instantiate(std::move(artifact), {}, report);
    log_origin("cache hit on disk: ", kernel->artifact().entry, request.target, request.key);
    return kernel;
  } catch (const Error& error) {
    if (error.status() != Status::internal_error && error.status() != Status::compile_failed) throw;
    report_unusable(error);
  } catch (const std::runtime_error& error) {
    report_unusable(error);
  }
  report = {};
  return nullptr;
}

std::string KernelCache::compile(const Request& request, const EditedStages& edited) const {
  if (!edited.tile) return steps_.compile(request.program, request.options);
  program::CompileOptions options = request.wanted;
  options.tile = edited.tile.content;
  options.tile_file = edited.tile.path;
  return steps_.compile(request.program, program::serialize(options));
}

std::shared_ptr<LoadedKernel> KernelCache::instantiate(program::Artifact artifact,
                                                       const EditedStages& edited,
                                                       LoadReport& report) const {
  const Range range(RangeKind::load, artifact.entry);
  return with_launch_ranges(steps_.instantiate(std::move(artifact), edited, report));
}

// Reads edited stages once, so that the kernel that is dumped is the kernel that runs.
std::shared_ptr<LoadedKernel> KernelCache::build(const Request& request, bool may_compile,
                                                 LoadReport& report) {
  const EditedStages edited = EditedStages::find(request.program, request.wanted);
  std::shared_ptr<LoadedKernel> kernel;
  try {
    kernel = find_or_compile(request, edited, may_compile, report);
  } catch (const NotCached&) {
    throw;
  } catch (const Error&) {
    steps_.loaded(request.program, request.wanted, nullptr, edited);
    throw;
  }
  steps_.loaded(request.program, request.wanted, kernel.get(), edited);
  return kernel;
}

// Returns the kernel that another thread or process made while this thread waited, or null.
std::shared_ptr<LoadedKernel> KernelCache::from_others(const Request& request,
                                                       const SingleFlight& flight,
                                                       PhaseClock& clock, LoadReport& report) {
  if (flight.waited()) clock.lap("wait");
  if (!flight.made()) return flight.entry_changed() ? from_disk(request, clock, report) : nullptr;
  program::Artifact artifact = program::parseArtifact(*flight.made());
  artifact.times.clear();
  report.origin = Origin::memory;
  log_origin("compiled by another thread: ", artifact.entry, request.target, request.key);
  return instantiate(std::move(artifact), {}, report);
}

std::shared_ptr<LoadedKernel> KernelCache::find_or_compile(const Request& request,
                                                           const EditedStages& edited,
                                                           bool may_compile, LoadReport& report) {
  PhaseClock clock(report);
  const FileStamp seen = disk_.stamp(request.key, kArtifactSuffix);
  if (!edited.any()) {
    if (auto kernel = from_disk(request, clock, report)) return kernel;
    if (log_enabled(LogLevel::debug))
      log_origin("cache miss: ", entry_of(request.program), request.target, request.key);
  }
  if (!may_compile && edited.any())
    throw EditedNotCached(
        Status::not_supported,
        "a kernel for " + request.target + " has edited stages in \"" + edited.folder +
            "\", which every process must compile, and this context must not compile (NO_JIT): "
            "unset LIGERDSL_OVERRIDE_DIR, or create the context without NO_JIT");
  if (!may_compile)
    throw NotCached(Status::not_supported,
                    "a kernel for " + request.target +
                        " is in no cache and this context must not compile (NO_JIT): add it to "
                        "the cache with `ligerdsl cache warm FILE`, or create the context without "
                        "NO_JIT");
  clock.lap("lookup");
  if (edited.any()) return compile_and_store(request, edited, nullptr, report);
  SingleFlight flight(disk_, request.key, kArtifactSuffix, seen);
  if (auto kernel = from_others(request, flight, clock, report)) return kernel;
  return compile_and_store(request, edited, &flight, report);
}

// With a flight, passes the artifact to the waiting threads at once, and stores it on disk later.
std::shared_ptr<LoadedKernel> KernelCache::compile_and_store(const Request& request,
                                                             const EditedStages& edited,
                                                             SingleFlight* flight,
                                                             LoadReport& report) {
  const int64_t begin = now_ns();
  const std::string bytes = compile(request, edited);
  program::Artifact artifact = program::parseArtifact(bytes);
  if (flight != nullptr) flight->land(bytes);
  log_compiled(artifact.entry, request.target, request.key, begin);
  report.origin = Origin::compiled;
  for (const program::PhaseTime& phase : artifact.times) report.times.push_back(phase);
  CacheLabel label{.kernel = artifact.entry, .target = request.target};
  // Loads the artifact before storing it, because an artifact that does not load is not stored.
  std::shared_ptr<LoadedKernel> kernel = instantiate(std::move(artifact), edited, report);
  if (flight == nullptr) return kernel;
  PhaseClock store(report);
  disk_.write(request.key, kArtifactSuffix, bytes, std::move(label));
  store.lap("store");
  return kernel;
}

}  // namespace ligerdsl::runtime
