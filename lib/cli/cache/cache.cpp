// `ligerdsl cache ls | verify | trim | clear`. Returns exit code 4 if there is no cache or it
// cannot be changed; verify returns 1 if an entry is damaged.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "lib/cli/support/commands.h"
#include "lib/text/printable.h"
#include "runtime/cache/cache_folder.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/environment/options.h"
#include "runtime/system/files.h"

namespace ligerdsl::cli {

namespace {

using runtime::CacheFile;
using runtime::CacheFolder;
using runtime::EntryHead;
using runtime::EntryState;

std::string format_size(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string format_age(time_t seconds) {
  if (seconds < 60) return fmt::format("{} s", std::max<time_t>(seconds, 0));
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

int64_t limit() {
  const int64_t given = runtime::options().cache_bytes;
  return given > 0 ? given : runtime::kDefaultCacheLimit;
}

// Opens the cache folder that the environment names, even if LIGERDSL_CACHE disables the cache.
// Never creates the folder.
std::unique_ptr<CacheFolder> open_folder() {
  auto folder =
      std::make_unique<CacheFolder>(runtime::default_cache_directory(runtime::options()), false);
  if (folder->is_open()) return folder;
  throw Failure(kNothingFound, folder->path().empty() ? folder->why()
                                                      : fmt::format("no cache at \"{}\": {}",
                                                                    folder->path(), folder->why()));
}

struct Listing {
  std::vector<std::pair<CacheFile, EntryHead>> entries;  // least recently used last
  std::vector<std::string> others;
  int64_t temporaries = 0, bytes = 0;
};

std::string entries_text(int64_t n) {
  return counted(n, "entry", "entries");
}

Listing list_entries(const CacheFolder& folder, bool digests) {
  Listing listing;
  std::vector<CacheFile> files = folder.list(&listing.others);
  std::sort(files.begin(), files.end(),
            [](const CacheFile& a, const CacheFile& b) { return a.used > b.used; });
  for (const CacheFile& file : files) {
    if (file.temporary) {
      ++listing.temporaries;
      continue;
    }
    EntryHead head = folder.inspect(file, digests);
    if (head.state == EntryState::foreign && !digests) {
      listing.others.push_back(file.name);
      continue;
    }
    listing.bytes += file.bytes;
    listing.entries.emplace_back(file, std::move(head));
  }
  return listing;
}

// Returns "good", "damaged", or for an intact entry that this build cannot use, "other build" or
// "other release".
std::string state_of(const EntryHead& head) {
  switch (head.state) {
    case EntryState::good:
      return head.label.build == runtime::build_id() ? "good" : "other build";
    case EntryState::other_schema:
      return "other release";
    default:
      return "damaged";
  }
}

Json json_of(const CacheFile& file, const EntryHead& head) {
  return {{"file", file.name},
          {"kernel", head.label.kernel},
          {"target", head.label.target},
          {"bytes", file.bytes},
          {"unused_s", static_cast<int64_t>(time(nullptr) - file.used)},
          {"build", head.label.build},
          {"state", state_of(head)},
          {"why", head.why}};
}

Json json_of(const CacheFolder& folder, const Listing& listing) {
  Json entries = Json::array();
  for (const auto& [file, head] : listing.entries) entries.push_back(json_of(file, head));
  return {{"directory", folder.path()},
          {"limit_bytes", limit()},
          {"bytes", listing.bytes},
          {"entries", entries},
          {"temporaries", listing.temporaries},
          {"other_files", listing.others}};
}

int remove(const Globals& globals, const CacheRequest& request, int64_t bytes) {
  if (runtime::options().cache == runtime::CacheMode::read_only)
    throw Failure(kNothingFound,
                  "LIGERDSL_CACHE is ro, so nothing is removed; set it to rw for this command");
  const auto folder = open_folder();
  const runtime::TrimResult result =
      folder->trim({.max_bytes = bytes, .target_bytes = bytes, .dry_run = request.dry_run});
  if (globals.json != "-") {
    print_text(printable(fmt::format(
        "{} {} ({}) and {}; {} ({}) left in \"{}\"\n", request.dry_run ? "would remove" : "removed",
        entries_text(result.removed.entries), format_size(result.removed.bytes),
        counted(result.temporaries, "abandoned temporary file", "abandoned temporary files"),
        entries_text(result.left.entries), format_size(result.left.bytes), folder->path())));
  }
  write_json(globals, {{"directory", folder->path()},
                       {"dry_run", request.dry_run},
                       {"removed_entries", result.removed.entries},
                       {"removed_bytes", result.removed.bytes},
                       {"removed_temporaries", result.temporaries},
                       {"entries", result.left.entries},
                       {"bytes", result.left.bytes}});
  if (result.error != 0) {
    throw Failure(kNothingFound, fmt::format("\"{}\": files cannot be removed: {}", folder->path(),
                                             runtime::error_text(result.error)));
  }
  return kOk;
}

}  // namespace

int cache_ls(const Globals& globals) {
  const auto folder = open_folder();
  const Listing listing = list_entries(*folder, false);
  if (globals.json != "-") {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [file, head] : listing.entries) {
      const bool good = head.state == EntryState::good;
      rows.push_back(
          {good ? head.label.kernel : file.name, good ? head.label.target : state_of(head),
           format_size(file.bytes), format_age(time(nullptr) - file.used),
           head.label.build + (head.label.build == runtime::build_id() ? " (this)" : "")});
    }
    if (!rows.empty())
      print_table(globals, {"kernel", "target", "size", "unused for", "build"}, rows);
    if (!globals.quiet) {
      print_text(printable(fmt::format(
          "\"{}\": {}, {} of {}; {}, {}\n", folder->path(), entries_text(std::ssize(rows)),
          format_size(listing.bytes), format_size(limit()),
          counted(listing.temporaries, "temporary file", "temporary files"),
          counted(std::ssize(listing.others), "other file", "other files"))));
    }
  }
  write_json(globals, json_of(*folder, listing));
  return kOk;
}

int cache_verify(const Globals& globals) {
  const auto folder = open_folder();
  const Listing listing = list_entries(*folder, true);
  int64_t damaged = 0, others = 0;
  for (const auto& [file, head] : listing.entries) {
    const std::string state = state_of(head);
    damaged += state == "damaged";
    others += state.starts_with("other");
    if (globals.json == "-" || state == "good") continue;
    const std::string who = head.label.kernel.empty()
                                ? ""
                                : fmt::format(" ({}, {})", head.label.kernel, head.label.target);
    const std::string why = state == "other build" ? "build " + head.label.build : head.why;
    const std::string left = head.state == EntryState::foreign
                                 ? "; trim and clear keep this file: remove it by hand"
                                 : "";
    print_text((state == "damaged" ? bad(globals, state) : state) +
               printable(fmt::format("  {}{}: {}{}\n", file.name, who, why, left)));
  }
  if (globals.json != "-" && !globals.quiet) {
    print_text(printable(fmt::format("\"{}\": {}, {} damaged, {} of other builds\n", folder->path(),
                                     entries_text(std::ssize(listing.entries)), damaged, others)));
  }
  Json result = json_of(*folder, listing);
  result["damaged"] = damaged;
  write_json(globals, result);
  return damaged > 0 ? kCheckFailed : kOk;
}

int cache_trim(const Globals& globals, const CacheRequest& request) {
  const std::optional<int64_t> bytes =
      request.to.empty() ? limit() : runtime::parse_bytes(request.to);
  if (!bytes)
    throw Failure(
        kUsage,
        fmt::format("--to: expected bytes, or a number with K, M, G or T; got '{}'", request.to));
  return remove(globals, request, *bytes);
}

int cache_clear(const Globals& globals, const CacheRequest& request) {
  return remove(globals, request, 0);
}

}  // namespace ligerdsl::cli
