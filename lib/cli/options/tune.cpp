#include <charconv>
#include <cmath>
#include <memory>
#include <string_view>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/commands.h"
#include "lib/tune/strategy.h"

namespace ligerdsl::cli {

namespace {

// Parses "10m", "90s", "2h" or "45" and returns seconds, or NaN.
double parse_duration(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(at, static_cast<size_t>(end - at));
  const double seconds = unit.empty() || unit == "s" ? 1
                         : unit == "m"               ? 60
                         : unit == "h"               ? 3600
                                                     : NAN;
  if (error != std::errc() || !(number * seconds > 0 && number * seconds <= 1e7)) return NAN;
  return number * seconds;
}

void add_subject(CommandLine& line, CLI::App* command, TuneRequest* request) {
  add_kernel(line, command, &request->kernel, &request->settings, false,
             "; settings may be lists (H=4096,8192)");
  add_sets(line, command, &request->sets, &request->rows);
  command->add_flag("--all", request->all, "Tune every set and model");
  command
      ->add_option("--check-with", request->check_with,
                   "Settings of the call whose outputs are compared with float64; default: a call "
                   "with few rows")
      ->delimiter(' ');
  line.choice(
      command->add_option_function<std::string>(
          "--bits",
          [request](const std::string& text) {
            request->bits = text == "same" ? Bits::same : text == "row" ? Bits::row : Bits::batch;
          },
          "Largest effect of a configuration on results: same (none), row (last bits of a row's "
          "results; default) or batch (also last bits of sums over rows)"),
      {"same", "row", "batch"});
}

void add_search(CommandLine& line, CLI::App* command, TuneRequest* request) {
  line.choice(command
                  ->add_option("--strategy", request->strategy,
                               "Search strategy: guided, random or exhaustive")
                  ->capture_default_str(),
              tune::strategy_names());
  command->add_option("--seed", request->seed, "Seed of the strategy's random choices")
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--budget",
          [request](const std::string& text) { request->budget_seconds = parse_duration(text); },
          "Time limit of the whole run, with the final measurements: 90s, 10m, 2h; default: 10m")
      ->check([](const std::string& text) {
        return std::isnan(parse_duration(text)) ? "expected a time such as 90s, 10m or 2h, above 0 "
                                                  "and at most 1e7 seconds, got '" +
                                                      text + "'"
                                                : std::string();
      });
  command
      ->add_option(
          "--timeout", request->timeout_seconds,
          "Time limit of each step in seconds: a compile, or the trial of a configuration (longer "
          "if the heuristic is slow); to open a problem, 10 times this limit, at least 10 s")
      ->check(number_from(0.1, 1e5))
      ->capture_default_str();
  command
      ->add_option("--max-evals", request->max_evals,
                   "Largest number of configurations to try per kernel")
      ->transform(integer_from(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--jobs", request->jobs,
                   "Number of compilers that run at a time; default: one per core")
      ->transform(integer_from(1, 1024));
}

void add_results(CommandLine& line, CLI::App* command, TuneRequest* request) {
  command->add_option(
      "--store", request->store,
      "File that trials are appended to (JSON Lines); default: ligerdsl/trials.jsonl in "
      "$XDG_DATA_HOME or ~/.local/share");
  command->add_flag("--resume", request->resume,
                    "Reuse the store's trials of this build, device and problem");
  command->add_option("--export", request->export_to,
                      "Write winners to a table for LIGERDSL_TABLE, or to - for stdout; tries the "
                      "table's entries for these problems again, and keeps the others");
  line.offer(command->add_option(
                 "--report", request->report,
                 "Write an HTML page about the trials, as `ligerdsl report` does for a store"),
             {.kind = Offer::Kind::files});
}

}  // namespace

void add_tune(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand(
      "tune", "Search for the fastest configurations of kernels, and export them as a table");
  const auto request = std::make_shared<TuneRequest>();
  add_subject(line, command, request.get());
  add_search(line, command, request.get());
  add_results(line, command, request.get());
  line.on(command, [request](const Globals& globals) { return cli::tune(globals, *request); });
  line.on(line.app.add_subcommand("tune-worker", "")->group(""), tune_worker);
}

}  // namespace ligerdsl::cli
