#include "lib/cli/tune/tune_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

namespace ligerdsl::cli {

using tune::Fate;
using tune::WorkerProcess;

std::vector<std::string> worker_arguments(const Globals& globals) {
  std::error_code error;
  std::vector<std::string> arguments = {
      std::filesystem::read_symlink("/proc/self/exe", error).string(), "--device", globals.device,
      "--threads", std::to_string(globals.threads)};
  for (const std::string& file : globals.load) arguments.insert(arguments.end(), {"--load", file});
  arguments.push_back("tune-worker");
  return arguments;
}

TuneDevice::TuneDevice(const Globals& globals, const TuneTime& time)
    : time_(time), arguments_(worker_arguments(globals)) {
  description_ =
      must_answer({{"hello", Json::object()}}, "the device " + globals.device, time_.whole());
}

double TuneDevice::open(const TuneProblems& problems) {
  open_ = {{"open",
            {{"kernel", problems.kernel},
             {"settings", problems.settings},
             {"check_with", problems.check_with}}}};
  opened_ = fmt::format("{} {}", problems.kernel, fmt::join(problems.settings.front(), " "));
  return must_answer(open_, opened_, time_.whole()).at("sample_seconds");
}

void TuneDevice::reopen(const TimedStop& stop) {
  if (worker_ && !worker_->running()) worker_.reset();
  if (!worker_) must_answer(open_, opened_, stop);
}

Json TuneDevice::ceilings() {
  const auto answered = [&](const char* what) {
    const auto answer = ask({{"copies", what}}, time_.opening_seconds(), time_.whole());
    const bool good =
        answer.outcome == WorkerProcess::Outcome::answered && !answer.json.contains("error");
    return good ? answer.json : Json();
  };
  if (large_copy_.is_null()) large_copy_ = answered("large");
  reopen(time_.whole());
  Json ceilings = answered("problems");
  if (!ceilings.is_null() && !large_copy_.is_null()) ceilings.update(large_copy_);
  return ceilings;
}

Json TuneDevice::attempt(const Attempt& attempt) {
  reopen(attempt.stop);
  const Json what = {
      {"config", attempt.config}, {"samples", attempt.samples}, {"give_up", attempt.give_up}};
  const auto answer = ask({{"try", what}}, attempt.seconds, attempt.stop);
  if (answer.outcome == WorkerProcess::Outcome::answered) {
    if (!answer.json.contains("error")) return answer.json;
    worker_.reset();  // later calls in this worker would also fail, for example after an illegal
                      // address on a GPU
    return {{"fate", name(Fate::crash)}, {"reason", answer.json["error"]}};
  }
  const bool late = answer.outcome == WorkerProcess::Outcome::timed_out;
  return {
      {"fate", name(late ? Fate::timeout : Fate::crash)},
      {"reason", late ? fmt::format("not complete after {:.3g} s", attempt.seconds) : answer.end}};
}

WorkerProcess::Answer TuneDevice::ask(const Json& question, double seconds, const TimedStop& stop) {
  if (!worker_) worker_ = std::make_unique<WorkerProcess>(arguments_);
  auto answer = worker_->ask(question, tune::Deadline::after(seconds), stop.descriptor());
  if (answer.outcome != WorkerProcess::Outcome::answered) worker_.reset();
  if (answer.outcome == WorkerProcess::Outcome::stopped) {
    if (time_.interrupted()) throw Stopped();
    throw BudgetOver();
  }
  return answer;
}

// If the worker ends, sends the question once more to a new worker, because another process may
// have ended the first worker.
Json TuneDevice::must_answer(const Json& question, const std::string& what, const TimedStop& stop) {
  const double seconds = time_.opening_seconds();
  auto answer = ask(question, seconds, stop);
  if (answer.outcome == WorkerProcess::Outcome::ended) answer = ask(question, seconds, stop);
  if (answer.outcome == WorkerProcess::Outcome::ended)
    throw Failure(
        kNothingFound,
        fmt::format("two worker processes ended before they had opened {}; the second: {}; look in "
                    "the system log (dmesg) for a process that was killed for lack of memory",
                    what, answer.end));
  if (answer.outcome == WorkerProcess::Outcome::timed_out)
    throw Failure(
        kNothingFound,
        fmt::format("the worker process had not opened {} after {:g} s (10 times --timeout, at "
                    "least 10 s): either the kernel hangs with the heuristic's configuration, or "
                    "its data takes longer to make; try `ligerdsl run`, or raise --timeout",
                    what, seconds));
  if (answer.json.contains("error"))
    throw Failure(answer.json.value("code", int{kNothingFound}),
                  answer.json["error"].get<std::string>());
  return std::move(answer.json);
}

}  // namespace ligerdsl::cli
