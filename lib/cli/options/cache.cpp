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
                   "Largest size of the remaining entries: bytes, or a number with K, M, G or T; "
                   "default: the cache's limit");
  CLI::App* clear = cache->add_subcommand(
      "clear", "Remove every entry; files that do not belong to the cache stay");
  for (CLI::App* command : {trim, clear})
    command->add_flag("--dry-run", request->dry_run,
                      "Print what would be removed, and remove nothing");
  line.on(trim, [request](const Globals& globals) { return cache_trim(globals, *request); });
  line.on(clear, [request](const Globals& globals) { return cache_clear(globals, *request); });
}

void add_warm(CommandLine& line, CLI::App* cache, const Request& request) {
  CLI::App* warm = cache->add_subcommand(
      "warm", "Compile described operations into the cache, for processes with LIGERDSL_NO_JIT=1");
  line.offer(
      warm->add_option(
              "file", request->file,
              "JSON file of descriptions, one per line or in an array, or - for stdin: "
              R"({"operation": "softmax_forward", "dtype": "bf16", "n_cols": 4096, "target": "sm_90a"})")
          ->required(),
      {.kind = Offer::Kind::files});
  line.offer(warm->add_option("--target", request->targets,
                              "Target of descriptions without a target: cpu, sm_90a ...; default: "
                              "the target of --device; may be repeated")
                 ->allow_extra_args(false),
             {.words = target_names()});
  warm->add_option("--ptx", request->ptx,
                   "PTX version that the driver of an absent GPU accepts (`ligerdsl doctor` shows "
                   "it on that machine)")
      ->capture_default_str();
  warm->add_option("--multiprocessors", request->multiprocessors, "Number of SMs of an absent GPU")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  line.on(warm, [request](const Globals& globals) { return cache_warm(globals, *request); });
}

}  // namespace

void add_cache(CommandLine& line) {
  CLI::App* cache = line.app.add_subcommand("cache", "List, verify, shrink or fill the disk cache");
  cache->require_subcommand(1);
  const auto request = std::make_shared<CacheRequest>();
  line.on(cache->add_subcommand(
              "ls", "List the entries: kernel, target, size, time since the last use, build"),
          cache_ls);
  line.on(cache->add_subcommand("verify", "Read every entry; exit code 1 if one is damaged"),
          cache_verify);
  add_shrinking(line, cache, request);
  add_warm(line, cache, request);
}

}  // namespace ligerdsl::cli
