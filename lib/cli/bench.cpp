// `ligerdsl bench`: median and spread, bytes per second, and the fraction of a copy measured in the same run.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>

#include "lib/cli/authors.h"
#include "lib/cli/bench_cases.h"
#include "lib/cli/bench_measure.h"
#include "lib/cli/bench_plot.h"
#include "lib/cli/commands.h"
#include "lib/cli/deferred_signals.h"
#include "lib/cli/environment.h"
#include "lib/cli/inputs.h"
#include "lib/cli/op_instance.h"
#include "lib/cli/printable.h"
#include "lib/src/build_info.h"
#include "lib/src/structs.h"
#include "runtime/measure.h"

namespace ligerdsl::cli {

namespace {

double gbps(const Outcome& o) {
  return o.bytes / (o.time.median_ms * 1e6);
}
double tflops(const Outcome& o) {
  return o.flops / (o.time.median_ms * 1e9);
}

std::vector<std::string> table_row(const Outcome& o, double of_copy, double of_same) {
  const bool by_flops = o.flops > 0;
  return {o.kernel,
          o.title,
          format_time(o.time.median_ms),
          format_time(o.time.q20_ms),
          format_time(o.time.q80_ms),
          by_flops ? fmt::format("{:.1f} TFLOP/s", tflops(o)) : fmt::format("{:.1f} GB/s", gbps(o)),
          by_flops ? "" : fmt::format("{:.3f}", of_copy),
          by_flops ? "" : fmt::format("{:.3f}", of_same),
          o.beyond_inputs >= 0 ? format_bytes(o.beyond_inputs) : "",
          o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us) : "",
          o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us - o.launch_us) : "",
          o.resources};
}

Json json_row(const Outcome& o, double of_copy, double of_same) {
  return {{"kernel", o.kernel},
          {"settings", o.title},
          {"median_ms", o.time.median_ms},
          {"q20_ms", o.time.q20_ms},
          {"q80_ms", o.time.q80_ms},
          {"samples", o.time.samples_ms.size()},
          {"bytes", o.bytes},
          {"gb_per_s", gbps(o)},
          {"fraction_of_copy", of_copy},
          {"fraction_of_same_size_copy", of_same},
          {"tflops", tflops(o)},
          {"peak_bytes", o.beyond_inputs >= 0 ? Json(o.beyond_inputs) : Json()},
          {"workspace_bytes", o.workspace},
          {"host_us", o.host_us},
          {"driver_launch_us", o.launch_us},
          {"resources", o.resources}};
}

// Ends a measurement after Ctrl-C.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Which case is at work, on stderr: one line that is written over on a terminal, a line each with --verbose.
class Progress {
 public:
  Progress(const Globals& globals, size_t cases)
      : cases_(cases), lines_(globals.verbose), line_(!globals.quiet && !globals.verbose && isatty(STDERR_FILENO)) {}

  void show(size_t i, const std::string& what) const {
    const std::string text = printable(fmt::format("[{}/{}] {}", i + 1, cases_, what));
    if (lines_) fmt::print(stderr, "{}\n", text);
    if (line_) fmt::print(stderr, "\r\033[K{:.{}}", text, 100), std::fflush(stderr);
  }
  void clear() const {
    if (line_) fmt::print(stderr, "\r\033[K"), std::fflush(stderr);
  }

 private:
  size_t cases_;
  bool lines_, line_;
};

std::vector<BenchCase> chosen_cases(const BenchRequest& request, bool cpu) {
  if (!request.kernel.empty()) return {{request.kernel, request.settings}};
  std::vector<BenchCase> cases;
  for (const std::string& set : request.sets.empty() ? std::vector<std::string>{"standard"} : request.sets) {
    const std::vector<BenchCase> more = bench_cases(set, {.cpu = cpu, .rows = request.rows});
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

// Settings with all sizes, and the bytes that a case moves.
std::pair<std::string, double> preview(const Globals& globals, const AuthorKernels& authors, const BenchCase& which,
                                       const std::map<std::string, Array>& inputs) {
  if (const AnyKernel* author = authors.find(which.kernel))
    return {fmt::format("{}", fmt::join(which.settings, " ")),
            AuthorCall(*author, which.settings, inputs, target_of(globals)).bytes_moved()};
  OpInstance instance(find_op(which.kernel), which.settings);
  lib::check_desc(instance.info(), instance.desc());
  for (const auto& [name, array] : inputs) instance.take_shape(name, array);
  return {instance.title(), instance.bytes_moved()};
}

// Names, sizes and bytes of the cases, without running any.
int list_cases(const Globals& globals, const AuthorKernels& authors, const std::vector<BenchCase>& cases,
               const std::map<std::string, Array>& inputs) {
  std::vector<std::vector<std::string>> rows;
  Json listed = Json::array();
  for (const BenchCase& which : cases) {
    const auto [title, bytes] = preview(globals, authors, which, inputs);
    rows.push_back({which.kernel, title, format_bytes(bytes)});
    listed.push_back({{"kernel", which.kernel}, {"settings", title}, {"bytes", bytes}});
  }
  if (globals.json != "-") print_table(globals, {"kernel", "settings", "moves"}, rows);
  write_json(globals, {{"cases", listed}});
  return kOk;
}

// A run over cases: what was measured and what failed, kept after every case and printed after a Ctrl-C, too.
class Bench {
 public:
  Bench(const Globals& globals, const BenchRequest& request, const AuthorKernels& authors,
        std::map<std::string, Array> inputs, const DeferredSignals& signals)
      : globals_(globals),
        request_(request),
        authors_(authors),
        signals_(signals),
        context_(open_context(globals)),
        copy_bytes_(static_cast<int64_t>(request.copy_bytes > 0 ? request.copy_bytes
                                         : device().is_cpu()    ? 256.0 * (1 << 20)
                                                                : 2.0 * (1 << 30))),
        cases_(chosen_cases(request, device().is_cpu())),
        ceiling_(runtime::copy_bandwidth_gbps(device(), copy_bytes_)) {
    run_.options = {.budget_ms = request.budget_ms, .cold = !request.warm};
    run_.inputs = std::move(inputs);
    run_.between = [this] {
      if (signals_.arrived()) throw Interrupted();
    };
  }

  int run() {
    const Progress progress(globals_, cases_.size());
    for (size_t i = 0; i < cases_.size() && !signals_.arrived(); ++i) {
      progress.show(i, fmt::format("{} {}", cases_[i].kernel, fmt::join(cases_[i].settings, " ")));
      measure_or_note(cases_[i]);
      if (globals_.json != "-") write_json(globals_, result());
    }
    progress.clear();
    print();
    if (signals_.arrived())
      print_error(fmt::format("interrupted: {} of {} cases were measured", results_.size(), cases_.size()));
    if (globals_.json == "-") write_json(globals_, result());
    if (!request_.plot.empty()) write_file(request_.plot, bar_chart(title() + ": fraction of a copy", bars_));
    flush_output();  // a signal that came is let through after this
    return failures_.empty() ? kOk : kCheckFailed;
  }

 private:
  runtime::Device& device() const { return context_->device(); }
  std::string title() const {
    return fmt::format("{}, {} L2, copy of {}: {:.1f} GB/s", device().description().name,
                       request_.warm ? "warm" : "cold", format_bytes(static_cast<double>(copy_bytes_)), ceiling_);
  }

  void measure(const BenchCase& which) {
    const AnyKernel* author = authors_.find(which.kernel);
    Outcome o = author ? measure_author(context_, *author, which, run_) : measure_op(context_, which, run_);
    if (!author && !device().is_cpu()) measure_host(globals_, which, run_, &o);
    const double of_copy = gbps(o) / ceiling_, of_same = gbps(o) / o.same_copy_gbps;
    rows_.push_back(table_row(o, of_copy, of_same));
    results_.push_back(json_row(o, of_copy, of_same));
    if (o.flops == 0) bars_.push_back({o.kernel + " " + o.title, of_copy, format_time(o.time.median_ms)});
  }

  // In a set, a case that fails does not cost the others. What Ctrl-C broke off is no failure.
  void measure_or_note(const BenchCase& which) {
    try {
      measure(which);
    } catch (const std::exception& error) {
      if (signals_.arrived()) return;
      if (cases_.size() == 1) throw;
      failures_.push_back({{"kernel", which.kernel}, {"settings", which.settings}, {"error", error.what()}});
      print_error(fmt::format("{} {}: {}", which.kernel, fmt::join(which.settings, " "), error.what()));
    }
  }

  void print() const {
    if (globals_.json == "-") return;
    if (!globals_.quiet) print_text(title() + "\n");
    print_table(globals_,
                {"kernel", "settings", "median", "20 %", "80 %", "rate", "of copy", "of same-size copy", "peak", "host",
                 "beyond launch", "resources"},
                rows_);
  }

  Json result() const {
    const runtime::DeviceDescription& about = device().description();
    return {{"device", about.name},
            {"arch", about.arch},
            {"threads", about.threads},
            {"cold", !request_.warm},
            {"copy_bytes", copy_bytes_},
            {"copy_gb_per_s", ceiling_},
            {"build", lib::build_info()},
            {"results", results_},
            {"failures", failures_},
            {"interrupted", signals_.arrived()},
            {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))}};
  }

  const Globals& globals_;
  const BenchRequest& request_;
  const AuthorKernels& authors_;
  const DeferredSignals& signals_;
  BenchRun run_;
  lib::ContextRef context_;
  int64_t copy_bytes_;
  std::vector<BenchCase> cases_;
  double ceiling_;  // GB/s of the large copy
  Json results_ = Json::array(), failures_ = Json::array();
  std::vector<std::vector<std::string>> rows_;
  std::vector<Bar> bars_;
};

}  // namespace

int bench(const Globals& globals, const BenchRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty()) authors.find_or_op(request.kernel);  // before anything starts
  if (!request.kernel.empty() && !request.sets.empty())
    throw Failure(kUsage, "bench: name a kernel or --set and --model, not both");
  if (!request.kernel.empty() && request.rows > 0)
    throw Failure(kUsage,
                  fmt::format("bench: --rows is for sets; the rows of {} are a setting, like N=64", request.kernel));
  if (request.kernel.empty() && !request.inputs.empty())
    throw Failure(kUsage, "bench: --in is for a kernel; the cases of a set have sizes of their own");
  const std::vector<BenchCase> cases = chosen_cases(request, globals.device == "cpu");
  std::map<std::string, Array> inputs = read_inputs(request.inputs);
  if (request.list) return list_cases(globals, authors, cases, inputs);
  // Before minutes of measuring.
  if (!request.plot.empty()) check_writable(request.plot);
  if (!globals.json.empty() && globals.json != "-") check_writable(globals.json);
  const DeferredSignals signals;
  return Bench(globals, request, authors, std::move(inputs), signals).run();
}

}  // namespace ligerdsl::cli
