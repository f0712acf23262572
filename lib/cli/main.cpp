// The `ligerdsl` command: options, subcommands, exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <new>
#include <sstream>

#include "lib/cli/bench_cases.h"
#include "lib/cli/commands.h"
#include "lib/cli/usage.h"
#include "lib/src/build_info.h"
#include "lib/tune/strategy.h"
#include "ligerdsl/dsl/error.h"
#include "ligerdsl/ligerdsl.h"
#include "runtime/status.h"

using namespace ligerdsl;
using namespace ligerdsl::cli;

namespace {

// The kernel of a subcommand and its settings.
void add_kernel(CLI::App* command, std::string* kernel, std::vector<std::string>* settings, bool required,
                const std::string& also = "") {
  command->add_option("kernel", *kernel, "An operation (`ligerdsl list`), a kernel of --load" + also)
      ->required(required);
  command->add_option(
      "settings", *settings,
      "name=value: fields of the description, numbers, sizes (dtype=bf16 N=16384 H=8192); of a kernel of "
      "--load meta-parameters, shapes (x=4096x512, y=x), integers to fill with (labels=4096:0..31999), "
      "scalars, num_warps and the like");
}

void add_inputs(CLI::App* command, std::vector<std::string>* inputs) {
  command->add_option("--in", *inputs, "name=FILE.npy, for as many tensors as you like")->allow_extra_args(false);
}

void add_cache(CLI::App* app, const Globals& globals, CacheRequest* request, std::function<int()>* chosen) {
  CLI::App* cache =
      app->add_subcommand("cache", "The disk cache: what is there, is it whole, make it smaller, fill it");
  cache->require_subcommand(1);
  cache->add_subcommand("ls", "Entries: kernel, target, size, time since the last use, build")->callback([=, &globals] {
    *chosen = [&globals] { return cache_ls(globals); };
  });
  cache->add_subcommand("verify", "Read every entry; exit code 1 when one is damaged")->callback([=, &globals] {
    *chosen = [&globals] { return cache_verify(globals); };
  });
  CLI::App* trim =
      cache->add_subcommand("trim", "Remove the least recently used entries, and abandoned temporary files");
  trim->add_option("--to", request->to, "Size to keep: bytes, or a number with K, M, G or T; default: the limit");
  CLI::App* clear = cache->add_subcommand("clear", "Remove every entry; files that are not the cache's stay");
  for (CLI::App* command : {trim, clear}) command->add_flag("--dry-run", request->dry_run, "Only say what would go");
  trim->callback([=, &globals] { *chosen = [=, &globals] { return cache_trim(globals, *request); }; });
  clear->callback([=, &globals] { *chosen = [=, &globals] { return cache_clear(globals, *request); }; });
  CLI::App* warm = cache->add_subcommand("warm", "Compile descriptions into the cache, for processes with NO_JIT");
  warm->add_option(
          "file", request->file,
          "Descriptions as JSON, a line each or an array: "
          R"({"operation": "softmax_forward", "dtype": "bf16", "n_cols": 4096, "target": "sm_90a"}; - for stdin)")
      ->required();
  warm->add_option("--target", request->targets, "cpu, sm_90a ...: of lines that name none; default: that of --device")
      ->allow_extra_args(false);
  warm->add_option("--ptx", request->ptx, "PTX version of the driver there (ligerdsl doctor)")->capture_default_str();
  warm->add_option("--multiprocessors", request->multiprocessors, "Multiprocessors of the GPU there")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  warm->callback([=, &globals] { *chosen = [=, &globals] { return cache_warm(globals, *request); }; });
}

// "10m", "90s", "2h", "45": seconds.
double parse_duration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : NAN;
  if (end == text.c_str() || !(number * seconds > 0 && number * seconds <= 1e7)) return NAN;
  return number * seconds;
}

void add_tune(CLI::App* app, const Globals& globals, TuneRequest* request, std::function<int()>* chosen) {
  CLI::App* tune_command =
      app->add_subcommand("tune", "Search the configuration in which a kernel is fastest, and export a table of them");
  add_kernel(tune_command, &request->kernel, &request->settings, false, "; settings may be lists, H=4096,8192");
  tune_command
      ->add_option("--set,--model", request->sets,
                   fmt::format("A set of shapes or a model's layers: {}", fmt::join(bench_set_names(), ", ")))
      ->allow_extra_args(false);
  tune_command->add_flag("--all", request->all, "Every set and model");
  tune_command->add_option("--rows", request->rows, "Rows (tokens) of the cases of a set")
      ->transform(integer_from(1, (int64_t{1} << 31) - 1));
  tune_command
      ->add_option("--check-with", request->check_with,
                   "Settings of the call on which outputs are compared with float64; default: few rows of the first")
      ->delimiter(' ');
  tune_command->add_option("--strategy", request->strategy, "guided, random or exhaustive")
      ->check(CLI::IsMember(tune::strategy_names()))
      ->capture_default_str();
  tune_command->add_option("--seed", request->seed, "Of what is random in a strategy")->capture_default_str();
  tune_command
      ->add_option_function<std::string>(
          "--budget", [request](const std::string& text) { request->budget_seconds = parse_duration(text); },
          "Time for everything, 90s, 10m, 2h; default 10m")
      ->check([](const std::string& text) {
        return std::isnan(parse_duration(text)) ? "expected a time such as 90s, 10m or 2h, got '" + text + "'"
                                                : std::string();
      });
  tune_command
      ->add_option("--timeout", request->timeout_seconds,
                   "Seconds after which a compile or a configuration is taken to hang; longer where the heuristic is slow")
      ->check(number_from(0.1, 1e5))
      ->capture_default_str();
  tune_command->add_option("--max-evals", request->max_evals, "Configurations to try of each kernel")
      ->transform(integer_from(1, 1000000))
      ->capture_default_str();
  tune_command->add_option("--jobs", request->jobs, "Compilers at a time; default: one per core")
      ->transform(integer_from(1, 1024));
  tune_command
      ->add_option_function<std::string>(
          "--bits",
          [request](const std::string& text) {
            request->bits = text == "same" ? Bits::same : text == "row" ? Bits::row : Bits::batch;
          },
          "What a configuration may change in the results: same (nothing), row (the last bits of a row; default) or "
          "batch (those of sums over rows too)")
      ->check(CLI::IsMember({"same", "row", "batch"}));
  tune_command->add_option(
      "--store", request->store,
      "File of trials, JSON Lines; default: ligerdsl/trials.jsonl in $XDG_DATA_HOME or ~/.local/share");
  tune_command->add_flag("--resume", request->resume,
                         "Take trials of the store that are of this build, device and problem");
  tune_command->add_option("--export", request->export_to,
                           "Write winners to a table for LIGERDSL_TABLE; other entries stay");
  tune_command->callback([=, &globals] { *chosen = [=, &globals] { return cli::tune(globals, *request); }; });
  app->add_subcommand("tune-worker", "")->group("")->callback([=, &globals] {
    *chosen = [&globals] { return tune_worker(globals); };
  });
}

void add_table(CLI::App* app, const Globals& globals, TableRequest* request, std::function<int()>* chosen) {
  CLI::App* table = app->add_subcommand("table", "Tables of tuned kernels: what is there, several as one, proved here");
  table->require_subcommand(1);
  CLI::App* ls = table->add_subcommand("ls", "Entries: kernel, options, device, gain, configuration");
  ls->add_option("file", request->files, "A table")->required()->expected(1);
  ls->callback([=, &globals] { *chosen = [=, &globals] { return table_ls(globals, *request); }; });
  CLI::App* merge =
      table->add_subcommand("merge", "Several tables as one; of two entries of a key the one with more gain");
  merge->add_option("files", request->files, "Tables")->required();
  merge->callback([=, &globals] { *chosen = [=, &globals] { return table_merge(globals, *request); }; });
  CLI::App* import = table->add_subcommand(
      "import", "Entries that are right and no slower than the heuristic on --device, as entries of this device");
  import->add_option("file", request->files, "A table of any device")->required()->expected(1);
  import->callback([=, &globals] { *chosen = [=, &globals] { return table_import(globals, *request);
};
}  // namespace
);
for (CLI::App* command : {merge, import}) {
  command->add_option("-o,--output", request->output, "The table to write")->required();
}
}

int report(int code, const std::string& message) {
  print_error(message);
  return code;
}

int exit_code_of(runtime::Status status) {
  switch (status) {
    case runtime::Status::no_device:
    case runtime::Status::driver_too_old:
    case runtime::Status::arch_not_supported:
      return kNoDevice;
    default:
      return static_cast<int>(status) / 1000 == 2 ? kUsage : kNothingFound;
  }
}

int guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Failure& failure) {
    return report(failure.code, failure.what());
  } catch (const runtime::Error& error) {
    return report(exit_code_of(error.status()),
                  fmt::format("{}: {}", runtime::status_name(static_cast<int32_t>(error.status())), error.what()));
  } catch (const Error& error) {
    return report(kUsage, error.what());
  } catch (const std::bad_alloc&) {
    return report(kNothingFound, "out of memory");
  } catch (const std::exception& error) {
    return report(kNothingFound, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Fused training kernels: look at them, compile them, run them, measure them"};
  app.require_subcommand(1);
  app.fallthrough();  // global options may follow the subcommand
  app.set_version_flag("--version", fmt::format("ligerdsl {}.{}.{}, build {}", LIGERDSL_VERSION_MAJOR,
                                                LIGERDSL_VERSION_MINOR, LIGERDSL_VERSION_PATCH, lib::build_info()));

  Globals globals;
  app.add_option("--device", globals.device, "cpu or cuda:N")->capture_default_str()->check(device_name());
  app.add_option("--threads", globals.threads, "CPU: worker threads; 0 = all cores")->transform(integer_from(0, 4096));
  app.add_option("--json", globals.json, "Write the result as JSON to a file, or - for stdout");
  app.add_option("--color", globals.color, "auto, always or never")->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--load", globals.load, "A shared object with kernels of your own (LIGERDSL_EXPORT_KERNELS)")
      ->allow_extra_args(false);
  app.add_flag("-q,--quiet", globals.quiet, "Print results only");
  app.add_flag("-v,--verbose", globals.verbose, "Print more");

  std::function<int()> chosen;
  app.add_subcommand("doctor", "What works on this machine, and why the rest does not")->callback([&] {
    chosen = [&] { return doctor(globals); };
  });
  app.add_subcommand("list", "Operations and kernels with their settings")->callback([&] {
    chosen = [&] { return list(globals); };
  });

  CompileRequest compile_request;
  compile_request.stage.clear();
  CLI::App* compile_command =
      app.add_subcommand("compile", "Any stage of a kernel's way to machine code; needs no GPU");
  add_kernel(compile_command, &compile_request.kernel, &compile_request.settings, true,
             ", or FILE.reproducer of a failed compile");
  compile_command->add_option("--emit", compile_request.stage,
                              "config (the schedule, as settings), program, tile, tgpu, loops, llvm, ptx, asm, remarks "
                              "(what the compiler could not do, and why), cubin, "
                              "resources (these need ptxas) or sass (and cuobjdump); default ptx or asm");
  compile_command->add_option("--target", compile_request.target,
                              "cpu, sm_80, sm_90a, sm_100 ...; default: that of --device, sm_90a for stages of a GPU");
  compile_command->add_option("--variant", compile_request.variant, "GPU: for aligned or for any (generic) arguments")
      ->check(CLI::IsMember({"aligned", "generic"}));
  compile_command->add_option("-o,--output", compile_request.output, "Write to a file");
  compile_command->callback([&] { chosen = [&] { return compile(globals, compile_request); }; });

  ExplainRequest explain_request;
  CLI::App* explain_command = app.add_subcommand(
      "explain", "A kernel's configuration and why, resources, occupancy, bytes, floor against measured time, remarks");
  add_kernel(explain_command, &explain_request.kernel, &explain_request.settings, true);
  explain_command->add_option("--target", explain_request.target,
                              "cpu, sm_80, sm_90a, sm_100 ...: for a device that need not be here; nothing is run");
  explain_command->add_flag("--no-run", explain_request.no_run, "Measure nothing");
  explain_command->callback([&] { chosen = [&] { return explain(globals, explain_request); }; });

  CacheRequest cache_request;
  add_cache(&app, globals, &cache_request, &chosen);

  RunRequest run_request;
  CLI::App* run_command =
      app.add_subcommand("run", "Run a kernel once on .npy inputs, or on random numbers of a fixed seed");
  add_kernel(run_command, &run_request.kernel, &run_request.settings, true);
  add_inputs(run_command, &run_request.inputs);
  run_command->add_option("--out-dir", run_request.output_dir, "Write every output to FOLDER/name.npy");
  run_command->add_flag("--check", run_request.check,
                        "Compare every output with a float64 evaluation of the kernel; exit code 1 beyond the gates");
  run_command->callback([&] { chosen = [&] { return run(globals, run_request); }; });

  BenchRequest bench_request;
  CLI::App* bench_command = app.add_subcommand("bench", "Median, spread, bytes per second, fraction of a copy");
  add_kernel(bench_command, &bench_request.kernel, &bench_request.settings, false);
  add_inputs(bench_command, &bench_request.inputs);
  bench_command
      ->add_option("--set,--model", bench_request.sets,
                   fmt::format("A set of shapes or a model's layers: {}", fmt::join(bench_set_names(), ", ")))
      ->allow_extra_args(false);
  bench_command->add_option("--rows", bench_request.rows, "Rows (tokens) of the cases of a set")
      ->transform(integer_from(1, (int64_t{1} << 31) - 1));
  bench_command->add_flag("--list", bench_request.list, "Only list the cases and the bytes that they move");
  bench_command->add_option("--plot", bench_request.plot, "Write a bar chart (SVG) of fractions of a copy to a file");
  bench_command->add_flag("--warm", bench_request.warm, "Leave the caches warm between samples");
  bench_command->add_option("--budget-ms", bench_request.budget_ms, "Measured time per case, in ms")
      ->capture_default_str()
      ->check(number_from(0.001, 3.6e6));
  bench_command
      ->add_option("--copy-bytes", bench_request.copy_bytes,
                   "Size of the copy that is the ceiling, in bytes; default: 2 GiB on a GPU, 256 MiB on a CPU")
      ->check(number_from(1, 1e12));
  bench_command->callback([&] { chosen = [&] { return bench(globals, bench_request); }; });

  TuneRequest tune_request;
  add_tune(&app, globals, &tune_request, &chosen);
  TableRequest table_request;
  add_table(&app, globals, &table_request, &chosen);

  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report(kUsage, usage_error(app, error));
    std::ostringstream help;  // or the version
    app.exit(error, help, help);
    print_text(help.str());
    return finish_output(kOk);
  }
  if (is_standard_output(globals.json)) globals.json = "-";
  return finish_output(guarded(chosen));
}
