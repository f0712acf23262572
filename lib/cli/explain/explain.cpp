// `ligerdsl explain` shows a kernel's configuration and where its values come from, its resources,
// and its time compared with a copy.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "lib/abi/structs.h"
#include "lib/cli/bench/bench_measure.h"
#include "lib/cli/explain/explain_config.h"
#include "lib/cli/explain/explain_kernel.h"
#include "lib/cli/explain/explain_prediction.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/compiled_kernel.h"
#include "lib/cli/kernels/launch_list.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/environment.h"
#include "lib/cli/support/timing_hazards.h"
#include "lib/instance/op_instance.h"
#include "program/serialize.h"
#include "runtime/device/measure.h"

namespace ligerdsl::cli {

namespace {

// The device, or a target GPU that need not be present, and the kernels that plans have loaded for
// it.
class Place {
 public:
  Place(const Globals& globals, const std::string& target) {
    if (!target.empty() && target != "cpu") {
      away_ = std::make_shared<Listing<RecordingContext>>(options_for_target(target));
      compiler_ = open_compiler();
      return;
    }
    Globals device = globals;
    if (!target.empty()) device.device = target;
    here_ = std::make_shared<Listing<LoadingContext>>(device_config(device), context_options());
  }

  bool is_here() const { return here_ != nullptr; }
  bool is_gpu() const { return context()->machine().is_gpu(); }
  lib::ContextRef context() const {
    if (here_) return here_;
    return away_;
  }
  // Returns the driver's name for the device, or "" if the device is not present.
  std::string device_name() const {
    return here_ ? here_->device().description().name : std::string();
  }
  const std::vector<RecordedKernel>& recorded() const {
    return here_ ? here_->recorded : away_->recorded;
  }
  LaunchList& list() const { return here_ ? here_->list : away_->list; }
  CompiledKernel make(const RecordedKernel& one) const {
    return one.loaded ? loaded(one) : compiled(*compiler_, one);
  }

 private:
  std::shared_ptr<Listing<LoadingContext>> here_;
  std::shared_ptr<Listing<RecordingContext>> away_;
  std::shared_ptr<runtime::CompilerLibrary> compiler_;
};

class Explanation {
 public:
  Explanation(const Globals& globals, const ExplainRequest& request)
      : globals_(globals),
        request_(request),
        authors_(globals.load),
        author_(authors_.find_or_op(request.kernel)),
        settings_(request.settings),
        place_(globals, request.target) {}

  int run() {
    std::optional<DeferredSignals>
        signals;  // made only for measurements, because all other steps take little time
    result_ = {{"kernel", request_.kernel},
               {"settings", ""},
               {"device", ""},
               {"configuration", Json::array()}};
    if (author_)
      explain_author();
    else
      explain_op();
    result_["kernels"] = Json::array();
    for (const RecordedKernel& one : shown_) add_kernel(place_.make(one));
    if (!request_.target.empty() || request_.no_run)
      leave_out(
          fmt::format("floor and measured time: {}",
                      request_.no_run ? "--no-run" : "with --target nothing runs; use --device"));
    else
      measure(signals.emplace());
    result_["left_out"] = left_out_;
    if (globals_.json != "-") print();
    write_json(globals_, result_);
    flush_output();  // before a deferred signal ends the command in a destructor
    return kOk;
  }

 private:
  void leave_out(const std::string& what) {
    if (std::find(left_out_.begin(), left_out_.end(), what) == left_out_.end())
      left_out_.push_back(what);
  }

  void describe(const std::string& settings) {
    result_["settings"] = settings;
    result_["device"] =
        place_.is_here() ? place_.context()->device().description().name : request_.target;
  }

  void explain_op() {
    OpInstance instance(find_op(request_.kernel), request_.settings);
    lib::check_desc(instance.info(), instance.desc());
    const lib::ContextRef context = place_.context();
    ExplainedConfigs configs(*context);
    context->set_kernel_configs(&configs);
    const std::unique_ptr<lib::Plan> plan = instance.plan(context);
    context->set_kernel_configs(context->tuned());
    describe(instance.title());
    result_["configuration"] = configs.json(instance.config());
    explain_call(&instance, *plan);
    result_["bytes"] = instance.bytes_moved();
  }

  // Records a call with these sizes and aligned contiguous tensors, to list the kernels it
  // launches.
  void explain_call(OpInstance* instance, const lib::Plan& plan) {
    instance->place_tensors(plan);
    lib::Call call = instance->bound(plan);
    call.workspace = OpInstance::address_of_workspace();
    LaunchList& list = place_.list();
    list.open = true;
    plan.op().execute(call);
    list.open = false;
    Json facts = Json::object();
    for (const lib::Fact& fact : plan.op().facts(call)) facts[fact.name] = fact.value;
    result_["call"] = {{"workspace_bytes", call.workspace_bytes},
                       {"facts", facts},
                       {"launches", launches_of(list.launches)}};
  }

  // Adds the predicted time of a launch to the row of its kernel.
  static void add_prediction(const kernels::Prediction& step, Json* row) {
    (*row)["predicted_us"] = row->value("predicted_us", 0.0) + step.us;
    (*row)["bound"] = kernels::name_of(step.bound);
    (*row)["estimated_ctas_per_sm"] = step.ctas_per_sm;
    (*row)["iterations_known"] = row->value("iterations_known", true) && !step.is_assumed;
  }

  // Returns an object that predicts a call's time. If the device has no measured rates, returns
  // nothing, and on a GPU lists the prediction as left out.
  std::optional<CallPrediction> prediction() {
    CallPrediction predicted(place_.context()->machine(), place_.device_name());
    if (predicted.has_rates()) return predicted;
    if (place_.is_gpu()) leave_out("predicted time: only H100 and H200 have measured rates");
    return {};
  }

  // Adds the launched kernels to the page. Returns the launches grouped by kernel, in the order of
  // each kernel's first launch.
  Json launches_of(const std::vector<LaunchList::Launch>& launches) {
    const std::vector<std::string> variants = variant_names(place_.recorded(), place_.is_gpu());
    std::map<std::string, size_t> places;
    std::optional<CallPrediction> predicted = prediction();
    Json list = Json::array();
    for (const LaunchList::Launch& launch : launches) {
      const bool product = launch.kernel < 0;
      const std::string key = product ? fmt::format("product {}", static_cast<int>(launch.product))
                                      : std::to_string(launch.kernel);
      const auto [place, first] = places.try_emplace(key, list.size());
      if (first && product) {
        constexpr const char* kNames[] = {"nt", "nn", "tn"};
        list.push_back({{"product", kNames[static_cast<int>(launch.product)]}, {"launches", 0}});
      } else if (first) {
        const RecordedKernel& one = place_.recorded()[launch.kernel];
        list.push_back({{"kernel", program::parseProgram(one.program).name},
                        {"variant", variants[launch.kernel]},
                        {"launches", 0},
                        {"programs", 0}});
        shown_.push_back(one);
      }
      Json& row = list[place->second];
      row["launches"] = row["launches"].get<int64_t>() + 1;
      if (!product)
        row["programs"] =
            row["programs"].get<int64_t>() + launch.grid.x * launch.grid.y * launch.grid.z;
      if (!predicted) continue;
      add_prediction(product ? predicted->add(launch)
                             : predicted->add(launch, place_.recorded()[launch.kernel]),
                     &row);
    }
    if (predicted) result_["predicted"] = predicted->json();
    return list;
  }

  void explain_author() {
    const lib::ContextRef context = place_.context();
    describe(fmt::format("{}", fmt::join(request_.settings, " ")));
    result_["configuration"] = Json::array({author_config(*context, *author_, &settings_)});
    load_kernels(authors_, request_.kernel, settings_, context);
    shown_ = choose_variant(place_.recorded(), "aligned", place_.is_gpu());
    try {
      const AuthorCall call(*author_, settings_, {}, context->machine());
      result_["bytes"] = call.bytes_moved();
      if (std::optional<CallPrediction> predicted = prediction()) {
        predicted->add(call, shown_.front().options);
        result_["predicted"] = predicted->json();
      }
    } catch (const Failure& failure) {
      const std::string why = failure.what();
      leave_out(
          fmt::format("bytes: {}", why.substr(0, why.find_first_of(":\n", why.find(": ") + 1))));
    }
  }

  void add_kernel(const CompiledKernel& kernel) {
    result_["kernels"].push_back(explained_kernel(kernel));
    if (!kernel.resources)
      leave_out(
          "registers, spills and occupancy: these need a GPU, or ptxas of NVIDIA's CUDA toolkit in "
          "PATH");
  }

  // Measures the kernel. After Ctrl-C, leaves out the remaining measurements.
  void measure(const DeferredSignals& signals) {
    const auto going_on = [&] {
      if (signals.arrived()) throw Failure(kInterrupted, "interrupted");
    };
    try {
      measure_between(going_on);
    } catch (const Failure& failure) {
      if (failure.code != kInterrupted) throw;
      leave_out("floor and measured time: interrupted");
    }
  }

  void measure_between(const std::function<void()>& going_on) {
    warn_of_timing_hazards("explain");
    const lib::ContextRef context = place_.context();
    const BenchRun run{.options = {}, .inputs = {}, .between = going_on};
    const BenchCase which{request_.kernel, settings_};
    const Outcome o =
        author_ ? measure_author(context, *author_, which, run) : measure_op(context, which, run);
    const int64_t copy_bytes = large_copy_bytes(context->device());
    going_on();
    const double gbps = runtime::copy_bandwidth_gbps(context->device(), copy_bytes);
    Json& time = result_["time"] = {
        {"median_ms", o.time.median_ms}, {"q20_ms", o.time.q20_ms},
        {"q80_ms", o.time.q80_ms},       {"copy_bytes", copy_bytes},
        {"copy_gb_per_s", gbps},         {"same_size_copy_ms", o.bytes / (o.same_copy_gbps * 1e6)}};
    time["distorted_by"] = timing_hazards();
    if (o.flops > 0) {
      time["tflops"] = o.flops / (o.time.median_ms * 1e9);
      leave_out(
          "floor: the operation multiplies matrices, so arithmetic and not memory bounds its time");
      return;
    }
    time["floor_ms"] = o.bytes / (gbps * 1e6);
    time["times_the_floor"] = o.time.median_ms / time["floor_ms"].get<double>();
  }

  void print() const {
    print_text(fmt::format("{} {}\non {}\n", request_.kernel,
                           result_["settings"].get<std::string>(),
                           result_["device"].get<std::string>()));
    if (result_["configuration"].empty())
      print_text("\nconfiguration: there is no schedule to choose\n");
    print_configs(globals_, result_["configuration"]);
    if (result_.contains("call")) print_call(result_["call"]);
    for (const Json& kernel : result_["kernels"]) print_kernel(kernel);
    print_text("\n");
    if (result_.contains("bytes"))
      print_text(fmt::format("bytes: {}, inputs read once and outputs written once\n",
                             format_bytes(result_["bytes"].get<double>())));
    if (result_.contains("predicted"))
      print_text(fmt::format("predicted: {}, from the rates of an {}\n",
                             predicted_text(result_["predicted"]),
                             result_["predicted"]["rates"].get<std::string>()));
    if (result_.contains("time")) print_time(result_["time"]);
    for (const std::string& what : left_out_) print_text(fmt::format("left out: {}\n", what));
  }

  static void print_call(const Json& call) {
    std::string text = fmt::format("\nworkspace of this call: {}\n",
                                   format_bytes(call["workspace_bytes"].get<double>()));
    for (const auto& [name, value] : call["facts"].items())
      text += fmt::format("{}: {}\n", name, value.get<std::string>());
    for (const Json& row : call["launches"]) {
      const std::string times = counted(row["launches"].get<int>(), "launch", "launches");
      if (row.contains("product")) {
        text += fmt::format("{} of a library's matmul {}{}\n", times,
                            row["product"].get<std::string>(), step_text(row));
        continue;
      }
      const auto variant = row["variant"].get<std::string>();
      text += fmt::format("{} of {}{}, {} programs{}\n", times, row["kernel"].get<std::string>(),
                          variant.empty() ? "" : fmt::format(", {} variant", variant),
                          row["programs"].get<int64_t>(), step_text(row));
    }
    print_text(text);
  }

  // Returns ", predicted 12.3 us, bound by memory", or "" without a prediction.
  static std::string step_text(const Json& row) {
    if (!row.contains("predicted_us")) return "";
    return fmt::format(", predicted {}, bound by {}",
                       predicted_text({{"us", row["predicted_us"]},
                                       {"iterations_known", row["iterations_known"]}}),
                       row["bound"].get<std::string>());
  }

  static void print_time(const Json& time) {
    const auto ms = [&](const char* name) { return format_time(time[name].get<double>()); };
    if (time.contains("floor_ms"))
      print_text(
          fmt::format("floor: {}, at the {:.1f} GB/s of a copy of {}; a copy that moves the same "
                      "number of bytes takes {}\n",
                      ms("floor_ms"), time["copy_gb_per_s"].get<double>(),
                      format_bytes(time["copy_bytes"].get<double>()), ms("same_size_copy_ms")));
    print_text(fmt::format("measured: {} (20 %: {}, 80 %: {})", ms("median_ms"), ms("q20_ms"),
                           ms("q80_ms")));
    if (time.contains("times_the_floor"))
      print_text(fmt::format(", {:.2f} times the floor", time["times_the_floor"].get<double>()));
    if (time.contains("tflops"))
      print_text(fmt::format(", {:.3f} TFLOP/s", time["tflops"].get<double>()));
    print_text("\n");
  }

  const Globals& globals_;
  const ExplainRequest& request_;
  AuthorKernels authors_;
  const AnyKernel* author_;
  std::vector<std::string> settings_;  // settings of the kernel that is built and measured
  Place place_;
  Json result_;
  std::vector<RecordedKernel> shown_;  // kernels that the page shows
  std::vector<std::string> left_out_;
};

}  // namespace

int explain(const Globals& globals, const ExplainRequest& request) {
  return Explanation(globals, request).run();
}

}  // namespace ligerdsl::cli
