#include "lib/cli/tune_device.h"

#include <fmt/format.h>

#include <filesystem>

namespace ligerdsl::cli {

using tune::Fate;
using tune::WorkerProcess;

std::vector<std::string> worker_arguments(const Globals& globals) {
  std::error_code error;
  std::vector<std::string> arguments = {std::filesystem::read_symlink("/proc/self/exe", error).string(), "--device",
                                        globals.device, "--threads", std::to_string(globals.threads)};
  for (const std::string& file : globals.load) arguments.insert(arguments.end(), {"--load", file});
  arguments.push_back("tune-worker");
  return arguments;
}

TuneDevice::TuneDevice(const Globals& globals, const DeferredSignals& signals)
    : signals_(signals), arguments_(worker_arguments(globals)) {
  description_ = must_answer({{"hello", Json::object()}});
}

double TuneDevice::open(const TuneProblems& problems) {
  open_ = {
      {"open", {{"kernel", problems.kernel}, {"settings", problems.settings}, {"check_with", problems.check_with}}}};
  return must_answer(open_).at("sample_seconds");
}

Json TuneDevice::ceilings() {
  constexpr double kSeconds = 120;
  const auto answered = [&](const char* what) {
    const auto answer = ask({{"copies", what}}, kSeconds);
    const bool good = answer.outcome == WorkerProcess::Outcome::answered && !answer.json.contains("error");
    return good ? answer.json : Json();
  };
  if (large_copy_.is_null()) large_copy_ = answered("large");
  if (!worker_) must_answer(open_);
  Json ceilings = answered("problems");
  if (!ceilings.is_null() && !large_copy_.is_null()) ceilings.update(large_copy_);
  return ceilings;
}

Json TuneDevice::attempt(const MetaValues& config, int samples, bool give_up, double seconds) {
  if (!worker_) must_answer(open_);
  const auto answer = ask({{"try", {{"config", config}, {"samples", samples}, {"give_up", give_up}}}}, seconds);
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
