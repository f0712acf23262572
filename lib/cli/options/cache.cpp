#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"

namespace ligerdsl::cli {

namespace {

using Request = std::shared_ptr<CacheRequest>;

void add_shrinking(CommandLine& line, CLI::App* cache, const Request& request) {
  CLI::App* trim = cache->add_subcommand(
      "trim", "Remove the least recently used entries, and abandoned temporary files");
  trim->add_option("--to", request->to,
                   "Size to keep: bytes, or a number with K, M, G or T; default: the limit");
  CLI::App* clear =
      cache->add_subcommand("clear", "Remove every entry; files that are not the cache's stay");
  for (CLI::App* command : {trim, clear})
    command->add_flag("--dry-run", request->dry_run,
                      "Print what would be removed, and remove nothing");
  line.on(trim, [request](const Globals& globals) { return cache_trim(globals, *request); });
  line.on(clear, [request](const Globals& globals) { return cache_clear(globals, *request); });
}

void add_warm(CommandLine& line, CLI::App* cache, const Request& request) {
  CLI::App* warm = cache->add_subcommand(
      "warm", "Compile descriptions into the cache, for processes with NO_JIT");
  line.offer(
      warm->add_option(
              "file", request->file,
              "Descriptions as JSON, a line each or an array: "
              R"({"operation": "softmax_forward", "dtype": "bf16", "n_cols": 4096, "target": "sm_90a"}; - for stdin)")
          ->required(),
      {.kind = Offer::Kind::files});
  line.offer(
      warm->add_option("--target", request->targets,
                       "cpu, sm_90a ...: target of lines without one; default: that of --device")
          ->allow_extra_args(false),
      {.words = target_names()});
  warm->add_option(
          "--ptx", request->ptx,
          "PTX version of the driver of a GPU that is not present (ligerdsl doctor shows it there)")
      ->capture_default_str();
  warm->add_option("--multiprocessors", request->multiprocessors,
                   "Number of SMs of a GPU that is not present")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  line.on(warm, [request](const Globals& globals) { return cache_warm(globals, *request); });
}

}  // namespace

void add_cache(CommandLine& line) {
  CLI::App* cache = line.app.add_subcommand("cache", "List, verify, shrink or fill the disk cache");
  cache->require_subcommand(1);
  const auto request = std::make_shared<CacheRequest>();
  line.on(
      cache->add_subcommand("ls", "Entries: kernel, target, size, time since the last use, build"),
      cache_ls);
  line.on(cache->add_subcommand("verify", "Read every entry; exit code 1 when one is damaged"),
          cache_verify);
  add_shrinking(line, cache, request);
  add_warm(line, cache, request);
}

}  // namespace ligerdsl::cli
