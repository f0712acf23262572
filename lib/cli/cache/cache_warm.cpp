// `ligerdsl cache warm` compiles the operations that a file describes. It stores the kernels in the
// disk cache under the keys that later plans look up.
//
// A key contains program, options, target and build. For the CPU, or the GPU of --device, the
// command finds out the target itself. For a GPU that is not present, the user passes its
// architecture, its driver's PTX version and its number of SMs. The cache then stores PTX, which
// that GPU's driver assembles at the first load; NO_JIT allows this.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "lib/cli/cache/warm_context.h"
#include "lib/cli/cache/warm_file.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/text/printable.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_cache.h"

namespace ligerdsl::cli {

namespace {

// One context per target, for all lines with that target.
class Contexts {
 public:
  Contexts(const Globals& globals, const CacheRequest& request)
      : globals_(globals), request_(request) {}

  std::shared_ptr<WarmContext> get(const WarmEntry& entry, const std::string& target) {
    const std::string ptx = entry.ptx.value_or(request_.ptx);
    const int multiprocessors = entry.multiprocessors.value_or(request_.multiprocessors);
    std::shared_ptr<WarmContext>& context = contexts_[{target, ptx, multiprocessors}];
    if (!context) context = make(entry, target, ptx, multiprocessors);
    return context;
  }

 private:
  std::shared_ptr<WarmContext> make(const WarmEntry& entry, const std::string& target,
                                    const std::string& ptx, int multiprocessors) const {
    Globals globals = globals_;
    if (!target.empty()) globals.device = "cpu";
    runtime::DeviceConfig config = device_config(globals);
    config.cache_mode =
        runtime::CacheMode::required;  // an entry that cannot be written is an error
    if (target.empty() || target == "cpu") return std::make_shared<WarmContext>(config);
    config.num_threads = 1;
    program::CompileOptions base = options_for_target(target);
    base.ptx_version = parse_ptx_version(ptx, entry.ptx ? entry.where : "--ptx");
    return std::make_shared<WarmTarget>(config, base, multiprocessors);
  }

  const Globals& globals_;
  const CacheRequest& request_;
  std::map<std::tuple<std::string, std::string, int>, std::shared_ptr<WarmContext>> contexts_;
};

void require_writable_cache() {
  const runtime::CacheMode mode = runtime::options().cache;
  if (mode == runtime::CacheMode::off || mode == runtime::CacheMode::read_only)
    throw Failure(
        kNothingFound,
        fmt::format("LIGERDSL_CACHE is {}, but `ligerdsl cache warm` must store kernels; set it to "
                    "rw for this command",
                    mode == runtime::CacheMode::off ? "off" : "ro"));
  if (runtime::options().no_jit)
    throw Failure(kNothingFound,
                  "LIGERDSL_NO_JIT is set, but `ligerdsl cache warm` must compile; unset it for "
                  "this command");
}

// Results of the command, for text and --json.
struct Report {
  Json lines = Json::array();
  std::set<runtime::Digest> keys;
  int64_t failed = 0, compiled = 0;
};

// Makes the plan of one description. If a compile fails, reports the failure and returns. Throws
// for a mistake in the description, which ends the command.
void warm_one(const Globals& globals, const AuthorKernels& authors, const WarmEntry& entry,
              WarmContext& context, Report* report) {
  Json line = {{"where", entry.where}, {"operation", entry.operation}, {"kernels", Json::array()}};
  context.warmed.clear();
  try {
    // The reference does not own the context, which outlives the plan.
    load_kernels(authors, entry.operation, entry.settings,
                 lib::ContextRef(lib::ContextRef(), &context));
  } catch (const runtime::Error& error) {
    const int category = static_cast<int>(error.status()) / 1000;
    if (error.status() == runtime::Status::cache_error) throw;
    if (category == 2)
      throw Failure(kUsage, fmt::format("{}: {}: {}", entry.where, entry.operation, error.what()));
    ++report->failed;
    line["error"] = error.what();
    print_error(fmt::format("{}: {}: {}", entry.where, entry.operation, error.what()));
  } catch (const Failure& failure) {
    throw Failure(failure.code, fmt::format("{}: {}", entry.where, failure.what()));
  }
  for (const Warmed& one : context.warmed) {
    const bool now = one.origin == runtime::Origin::compiled;
    report->keys.insert(one.key);
    report->compiled += now;
    line["kernels"].push_back({{"kernel", one.kernel},
                               {"target", one.target},
                               {"from", runtime::name(one.origin)},
                               {"key", runtime::hex(one.key)}});
    if (globals.json != "-" && !globals.quiet)
      print_text(printable(
          fmt::format("{:<9} {} for {}\n", now ? "compiled" : "cached", one.kernel, one.target)));
  }
  report->lines.push_back(std::move(line));
}

// Fails if the cache is too small for all kernels and has evicted some of them.
void require_all(const Report& report, const runtime::DiskCache& disk) {
  int64_t missing = 0;
  for (const runtime::Digest& key : report.keys)
    missing += !disk.read(key, runtime::kArtifactSuffix);
  if (missing == 0) return;
  throw Failure(kNothingFound,
                fmt::format("{} of {} kernels were removed from the cache again, because its limit "
                            "of {} is too small for all of them; raise LIGERDSL_CACHE_SIZE",
                            missing, report.keys.size(),
                            format_bytes(static_cast<double>(disk.limit_bytes()))));
}

}  // namespace

int cache_warm(const Globals& globals, const CacheRequest& request) {
  require_writable_cache();
  const std::vector<WarmEntry> entries = read_warm_file(request.file);
  const AuthorKernels authors(globals.load);
  Contexts contexts(globals, request);
  Report report;
  std::shared_ptr<WarmContext> context;
  for (const WarmEntry& entry : entries) {
    std::vector<std::string> targets = request.targets;
    if (entry.target) targets = {*entry.target};
    if (targets.empty()) targets = {""};  // "" means the target of --device
    for (const std::string& target : targets) {
      context = contexts.get(entry, target);
      warm_one(globals, authors, entry, *context, &report);
    }
  }
  const runtime::DiskCache& disk = context->device().disk_cache();
  write_json(
      globals,
      {{"lines", report.lines}, {"kernels", report.keys.size()}, {"compiled", report.compiled}});
  if (report.failed > 0)
    throw Failure(kNothingFound, counted(report.failed, "description is", "descriptions are") +
                                     " not in the cache; the errors are above");
  require_all(report, disk);
  if (globals.json != "-")
    print_text(printable(fmt::format("{} in \"{}\", {} of them compiled now\n",
                                     counted(std::ssize(report.keys), "kernel is", "kernels are"),
                                     disk.directory(), report.compiled)));
  return kOk;
}

}  // namespace ligerdsl::cli
