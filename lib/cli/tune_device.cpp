#include "lib/cli/tune_device.h"

#include <fmt/format.h>

#include <filesystem>

namespace ligerdsl::cli {

using tune::Fate;
using tune::WorkerProcess;

TuneDevice::TuneDevice(const Globals& globals, const DeferredSignals& signals) : signals_(signals) {
  std::error_code error;
  arguments_ = {std::filesystem::read_symlink("/proc/self/exe", error).string(), "--device", globals.device,
                "--threads", std::to_string(globals.threads)};
  for (const std::string& file : globals.load) arguments_.insert(arguments_.end(), {"--load", file});
  arguments_.push_back("tune-worker");
  description_ = must_answer({{"hello", Json::object()}});
}

double TuneDevice::open(const TuneProblems& problems) {
  open_ = {
      {"open", {{"kernel", problems.kernel}, {"settings", problems.settings}, {"check_with", problems.check_with}}}};
  return must_answer(open_).at("sample_seconds");
}

Json TuneDevice::attempt(const MetaValues& config, int samples, double seconds) {
  if (!worker_) must_answer(open_);
  const auto answer = ask({{"try", {{"config", config}, {"samples", samples}}}}, seconds);
  if (answer.outcome == WorkerProcess::Outcome::answered) {
    if (!answer.json.contains("error")) return answer.json;
    worker_.reset();  // an error that every later call would meet too, as after an illegal address on a GPU
    return {{"fate", name(Fate::crash)}, {"reason", answer.json["error"]}};
  }
  const bool late = answer.outcome == WorkerProcess::Outcome::timed_out;
  return {{"fate", name(late ? Fate::timeout : Fate::crash)},
          {"reason", late ? fmt::format("not done after {:.0f} s", seconds) : answer.end}};
}

WorkerProcess::Answer TuneDevice::ask(const Json& question, double seconds) {
  if (!worker_) worker_ = std::make_unique<WorkerProcess>(arguments_);
  auto answer = worker_->ask(question, seconds, signals_.descriptor());
  if (answer.outcome != WorkerProcess::Outcome::answered) worker_.reset();
  if (answer.outcome == WorkerProcess::Outcome::stopped) throw Stopped();
  return answer;
}

Json TuneDevice::must_answer(const Json& question) {
  constexpr double kSeconds = 600;  // to make data and the float64 answer
  auto answer = ask(question, kSeconds);
  if (answer.outcome != WorkerProcess::Outcome::answered)
    throw Failure(kNothingFound, fmt::format("the process that runs kernels ended: {}", answer.end));
  if (answer.json.contains("error"))
    throw Failure(answer.json.value("code", int{kNothingFound}), answer.json["error"].get<std::string>());
  return std::move(answer.json);
}

}  // namespace ligerdsl::cli
