// `ligerdsl bench` measures kernels: median time, spread, bytes per second, and the ratio of this
// rate to a copy's rate in the same run.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "lib/abi/build_info.h"
#include "lib/abi/structs.h"
#include "lib/cli/bench/axis.h"
#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/bench/bench_earlier.h"
#include "lib/cli/bench/bench_measure.h"
#include "lib/cli/bench/bench_plot.h"
#include "lib/cli/bench/bench_rows.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/inputs.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/environment.h"
#include "lib/cli/support/timing_hazards.h"
#include "lib/instance/op_instance.h"
#include "lib/text/printable.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

namespace {

// Thrown between repetitions, to end a measurement after Ctrl-C.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Shows the current case on stderr. With --verbose, prints one line per case; otherwise, on a
// terminal, each case overwrites the line.
class Progress {
 public:
  Progress(const Globals& globals, size_t cases)
      : cases_(cases),
        lines_(globals.verbose),
        line_(!globals.quiet && !globals.verbose && isatty(STDERR_FILENO)) {}

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

std::vector<Axis> axes_of(const BenchRequest& request) {
  std::vector<Axis> axes;
  for (const std::string& text : request.axes) axes.push_back(parse_axis(text));
  return axes;
}

std::vector<BenchCase> chosen_cases(const BenchRequest& request, bool cpu) {
  std::vector<BenchCase> cases;
  if (!request.kernel.empty()) {
    for (auto& settings : along(request.settings, axes_of(request)))
      cases.push_back({request.kernel, settings});
    return cases;
  }
  for (const std::string& set :
       request.sets.empty() ? std::vector<std::string>{"standard"} : request.sets) {
    const std::vector<BenchCase> more = bench_cases(set, {.cpu = cpu, .rows = request.rows});
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

// Returns a case's settings, with all sizes, and the bytes that it moves.
std::pair<std::string, double> preview(const Globals& globals, const AuthorKernels& authors,
                                       const BenchCase& which,
                                       const std::map<std::string, Array>& inputs) {
  if (const AnyKernel* author = authors.find(which.kernel))
    return {fmt::format("{}", fmt::join(which.settings, " ")),
            AuthorCall(*author, which.settings, inputs, target_of(globals)).bytes_moved()};
  OpInstance instance(find_op(which.kernel), which.settings);
  lib::check_desc(instance.info(), instance.desc());
  for (const auto& [name, array] : inputs) instance.take_shape(name, array);
  return {instance.title(), instance.bytes_moved()};
}

// Lists names, sizes and bytes of the cases without running them.
int list_cases(const Globals& globals, const AuthorKernels& authors,
               const std::vector<BenchCase>& cases, const std::map<std::string, Array>& inputs) {
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

// Reads the earlier run that --vs names. Fails before the first measurement if the earlier run has
// none of the cases.
std::optional<EarlierBench> read_earlier(const Globals& globals, const BenchRequest& request,
                                         const AuthorKernels& authors,
                                         const std::vector<BenchCase>& cases,
                                         const std::map<std::string, Array>& inputs) {
  if (request.vs.empty()) return std::nullopt;
  EarlierBench earlier(request.vs);
  const bool any = std::any_of(cases.begin(), cases.end(), [&](const BenchCase& which) {
    try {
      return earlier.has(which.kernel, preview(globals, authors, which, inputs).first);
    } catch (const std::exception&) {
      return false;  // the case's measurement reports the error
    }
  });
  if (!any)
    throw Failure(kUsage, fmt::format("--vs: none of these cases is among the {} cases of \"{}\"; "
                                      "measure a case of that file, or name another file",
                                      earlier.size(), request.vs));
  return earlier;
}

// Measures all cases. Writes --json after every case, and prints results and failures also after
// Ctrl-C.
class Bench {
 public:
  Bench(const Globals& globals, const BenchRequest& request, const AuthorKernels& authors,
        std::map<std::string, Array> inputs, std::optional<EarlierBench> earlier,
        const DeferredSignals& signals)
      : globals_(globals),
        request_(request),
        authors_(authors),
        signals_(signals),
        earlier_(std::move(earlier)),
        context_(open_context(globals)),
        copy_bytes_(request.copy_bytes > 0 ? static_cast<int64_t>(request.copy_bytes)
                                           : large_copy_bytes(device())),
        cases_(chosen_cases(request, device().is_cpu())) {
    if (earlier_)
      earlier_->require_comparable(bench_conditions(device().description(), !request.warm));
    ceiling_ = runtime::copy_bandwidth_gbps(device(), copy_bytes_);
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
      measure_or_note(i);
      if (globals_.json != "-") write_json(globals_, result());
    }
    progress.clear();
    print();
    if (slower_ > 0)
      print_error(fmt::format("{} by more than {:g} % than in {}",
                              counted(slower_, "case is slower", "cases are slower"),
                              request_.tolerance, request_.vs));
    if (signals_.arrived())
      print_error(
          fmt::format("interrupted: {} of {} cases were measured", results_.size(), cases_.size()));
    if (globals_.json == "-") write_json(globals_, result());
    if (!request_.plot.empty()) plot();
    flush_output();  // before a deferred signal ends the command in a destructor
    return failures_.empty() && slower_ == 0 ? kOk : kCheckFailed;
  }

 private:
  runtime::Device& device() const { return context_->device(); }
  std::string title() const {
    return fmt::format("{}, {} L2, copy of {}: {:.1f} GB/s", device().description().name,
                       request_.warm ? "warm" : "cold",
                       format_bytes(static_cast<double>(copy_bytes_)), ceiling_);
  }

  void plot() const {
    const std::vector<Axis> axes = axes_of(request_);
    if (!is_numeric(axes)) return plot_bars(request_.plot, title() + ": fraction of a copy", bars_);
    LinePlot lines = lines_over_axis(axes, rates_);
    std::vector<std::string> named = {request_.kernel};
    named.insert(named.end(), request_.settings.begin(), request_.settings.end());
    lines.title = fmt::format("{} on {}", fmt::join(named, " "), device().description().name);
    lines.y_label = bars_.empty() ? "TFLOP/s" : "GB/s";
    if (!bars_.empty()) lines.ceiling = ceiling_;
    lines.ceiling_label = fmt::format("copy of {}", format_bytes(static_cast<double>(copy_bytes_)));
    plot_lines(request_.plot, lines);
  }

  void measure(size_t number) {
    const BenchCase& which = cases_[number];
    const AnyKernel* author = authors_.find(which.kernel);
    Outcome o =
        author ? measure_author(context_, *author, which, run_) : measure_op(context_, which, run_);
    if (!author && !device().is_cpu()) measure_host(globals_, which, run_, &o);
    const double of_copy = gbps(o) / ceiling_, of_same = gbps(o) / o.same_copy_gbps;
    rows_.push_back(table_row(o, of_copy, of_same));
    results_.push_back(json_row(o, of_copy, of_same));
    if (earlier_) compare(o);
    rates_.emplace_back(number, o.flops > 0 ? tflops(o) : gbps(o));
    if (o.flops == 0)
      bars_.push_back({o.kernel + " " + o.title, of_copy, format_time(o.time.median_ms)});
  }

  void compare(const Outcome& o) {
    const std::optional<Comparison> with = earlier_->compare(o, request_.tolerance / 100);
    const bool slower = with && with->slower;
    slower_ += slower;
    std::string text = with ? fmt::format("{:.3f}", with->ratio) : "not in the earlier run";
    if (with) text += slower ? " slower" : with->significant ? "" : " not significant";
    rows_.back().push_back(text);
    results_.back()["of_earlier"] = with ? Json(with->ratio) : Json();
    results_.back()["significant"] = with ? Json(with->significant) : Json();
    results_.back()["slower"] = slower;
  }

  // If a case of a set fails, the run continues. A case that Ctrl-C ended does not count as failed.
  void measure_or_note(size_t number) {
    const BenchCase& which = cases_[number];
    try {
      measure(number);
    } catch (const std::exception& error) {
      if (signals_.arrived()) return;
      if (cases_.size() == 1) throw;
      failures_.push_back(
          {{"kernel", which.kernel}, {"settings", which.settings}, {"error", error.what()}});
      print_error(
          fmt::format("{} {}: {}", which.kernel, fmt::join(which.settings, " "), error.what()));
    }
  }

  void print() const {
    if (globals_.json == "-") return;
    std::vector<std::string> header = {"kernel", "settings", "median",        "20 %",
                                       "80 %",   "rate",     "of copy",       "of same-size copy",
                                       "peak",   "host",     "beyond launch", "resources"};
    if (earlier_) header.push_back("now / then");
    if (!globals_.quiet) print_text(title() + "\n");
    if (earlier_ && !globals_.quiet)
      print_text(fmt::format("earlier: {}\n", printable_line(earlier_->about())));
    print_table(globals_, header, rows_);
  }

  Json result() const {
    const runtime::DeviceDescription& about = device().description();
    Json run = bench_conditions(about, !request_.warm);
    run.update({{"distorted_by", timing_hazards()},
                {"copy_bytes", copy_bytes_},
                {"copy_gb_per_s", ceiling_},
                {"build", lib::build_info()},
                {"results", results_},
                {"failures", failures_},
                {"interrupted", signals_.arrived()},
                {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))}});
    return run;
  }

  const Globals& globals_;
  const BenchRequest& request_;
  const AuthorKernels& authors_;
  const DeferredSignals& signals_;
  std::optional<EarlierBench> earlier_;
  BenchRun run_;
  lib::ContextRef context_;
  int64_t copy_bytes_;
  std::vector<BenchCase> cases_;
  double ceiling_ = 0;  // GB/s of the large copy
  int64_t slower_ = 0;
  Json results_ = Json::array(), failures_ = Json::array();
  std::vector<std::vector<std::string>> rows_;
  std::vector<Bar> bars_;
  std::vector<std::pair<size_t, double>> rates_;  // (case's index, GB/s or TFLOP/s)
};

}  // namespace

int bench(const Globals& globals, const BenchRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty()) authors.find_or_op(request.kernel);  // checks the name first
  if (!request.kernel.empty() && !request.sets.empty())
    throw Failure(
        kUsage,
        fmt::format("bench: expected a kernel or --set (--model), got both: {} and --set {}",
                    request.kernel, fmt::join(request.sets, " --set ")));
  if (!request.kernel.empty() && !request.rows.empty())
    throw Failure(
        kUsage,
        fmt::format("bench: --rows needs --set; pass the rows of {} as a setting, such as N=64",
                    request.kernel));
  if (request.kernel.empty() && !request.axes.empty())
    throw Failure(
        kUsage,
        "bench: --axis needs a kernel, because the cases of a set have fixed sizes; name a kernel");
  if (request.kernel.empty() && !request.inputs.empty())
    throw Failure(
        kUsage,
        "bench: --in needs a kernel, because the cases of a set have fixed sizes; name a kernel");
  const std::vector<BenchCase> cases = chosen_cases(request, globals.device == "cpu");
  std::map<std::string, Array> inputs = read_inputs(request.inputs);
  if (!request.plot.empty()) check_plot(request.plot);
  if (request.list) return list_cases(globals, authors, cases, inputs);
  // Reports errors in files before the first measurement.
  std::optional<EarlierBench> earlier = read_earlier(globals, request, authors, cases, inputs);
  if (!request.plot.empty()) check_writable(request.plot);
  if (!globals.json.empty() && globals.json != "-") check_writable(globals.json);
  warn_of_timing_hazards("bench");
  const DeferredSignals signals;
  return Bench(globals, request, authors, std::move(inputs), std::move(earlier), signals).run();
}

}  // namespace ligerdsl::cli
