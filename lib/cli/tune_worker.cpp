// `ligerdsl tune-worker`: tries configurations for `ligerdsl tune`, which starts it. Messages are JSON, a line each.
//
//   {"hello": {}}                                                            -> {"arch": "sm_90a", "units": 132, ...}
//   {"open": {"kernel": K, "settings": [[...], ...], "check_with": [...]}}  -> {"sample_seconds": 0.1, of the heuristic on all
//                                                                               "checked": ["H=64 N=3", ...]}
//   {"try": {"config": {...}, "samples": 5}}                                 -> {"fate": "ok", "us": [...], ...}
//
// What went wrong with a question itself is {"error": text, "code": exit code}.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>

#include "lib/cli/commands.h"
#include "lib/cli/environment.h"
#include "lib/cli/tune_subject.h"
#include "runtime/files.h"
#include "runtime/measure.h"

namespace ligerdsl::cli {

namespace {

using tune::Fate;

// After a few samples a candidate that takes so much longer than the heuristic's is given up.
constexpr double kHopeless = 1.5;
constexpr int kFirstSamples = 3;

class Worker {
 public:
  explicit Worker(const Globals& globals) : authors_(globals.load), context_(open_context(globals)) {}

  Json answer(const Json& question) {
    if (question.contains("hello")) return hello();
    if (question.contains("open")) return open(question["open"]);
    return attempt(question.at("try"));
  }

 private:
  Json hello() {
    const runtime::DeviceDescription& about = context_->device().description();
    const lib::TunedDevice device = context_->tuned_device();
    return {{"arch", device.arch},
            {"units", device.units},
            {"model", device.model},
            {"driver", about.driver_version},
            {"ptx", about.ptx_version}};
  }

  Json open(const Json& what) {
    subject_.reset();
    heuristic_.reset();
    const TuneProblems problems{what.at("kernel"), what.at("settings"), what.at("check_with")};
    subject_ = make_tune_subject(context_, authors_, problems);
    heuristic_ = subject_->load({});
    if (const auto fault = heuristic_->check(); fault.fate != Fate::ok)
      throw Failure(kCheckFailed, fmt::format("{}, as it is configured without a tuner, is {}: {}", problems.kernel,
                                              name(fault.fate), fault.text));
    constexpr int kSamples = 5;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < heuristic_->problems(); ++i)
      runtime::measure(context_->device(), heuristic_->work(i),
                       {.warmup = 0, .min_samples = kSamples, .max_samples = kSamples});
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    return {{"sample_seconds", all.count() / kSamples}, {"checked", subject_->checked()}};
  }

  Json attempt(const Json& what) {
    std::unique_ptr<TunedCandidate> candidate;
    try {
      candidate = subject_->load(what.at("config").get<MetaValues>());
    } catch (const std::exception& error) {
      return {{"fate", name(Fate::compile)}, {"reason", error.what()}};
    }
    Json answer = {{"fate", name(Fate::ok)}, {"reason", ""}, {"resources", resources(*candidate)}};
    const auto fail = [&](Fate fate, const std::string& reason) {
      answer["fate"] = name(fate);
      answer["reason"] = reason;
      return answer;
    };
    if (const auto fault = candidate->check(); fault.fate != Fate::ok) return fail(fault.fate, fault.text);
    const int samples = what.at("samples");
    for (const int count : {kFirstSamples, samples}) {
      const double ratio = measure(*candidate, count, &answer);
      if (count == kFirstSamples && ratio > kHopeless && samples > count)
        return fail(Fate::slow, fmt::format("{:.2f} times the heuristic's time after {} samples", ratio, count));
    }
    return answer;
  }

  // The geometric mean over problems of candidate over heuristic.
  double measure(TunedCandidate& candidate, int samples, Json* answer) {
    Json us = Json::array(), heuristic_us = Json::array();
    double logs = 0;
    for (size_t i = 0; i < candidate.problems(); ++i) {
      const auto times = runtime::measure_in_turns(context_->device(), {heuristic_->work(i), candidate.work(i)},
                                                   {.warmup = 1, .min_samples = samples, .max_samples = samples});
      const double ratio = times[1].median_ms / times[0].median_ms;
      logs += std::log(ratio);
      us.push_back(times[1].median_ms * 1e3);
      heuristic_us.push_back(times[0].median_ms * 1e3);
    }
    const double ratio = std::exp(logs / static_cast<double>(candidate.problems()));
    (*answer)["us"] = us;
    (*answer)["heuristic_us"] = heuristic_us;
    (*answer)["ratio"] = ratio;
    (*answer)["samples"] = samples;
    return ratio;
  }

  static Json resources(const TunedCandidate& candidate) {
    Json list = Json::array();
    for (const lib::Launcher* launcher : candidate.launchers()) {
      const runtime::KernelResources& r = launcher->fastest().resources();
      list.push_back({{"kernel", launcher->program().name},
                      {"registers", r.registers},
                      {"spill_bytes", r.spill_bytes},
                      {"shared_bytes", r.shared_bytes},
                      {"threads", r.threads},
                      {"ctas_per_sm", r.ctas_per_sm},
                      {"code_bytes", r.code_bytes}});
    }
    return list;
  }

  AuthorKernels authors_;
  lib::ContextRef context_;
  std::unique_ptr<TuneSubject> subject_;
  std::unique_ptr<TunedCandidate> heuristic_;
};

// Answers have the standard output that the worker began with; what a library of --load prints goes to stderr.
class Answers {
 public:
  Answers() : file_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) { dup2(STDERR_FILENO, STDOUT_FILENO); }
  void send(const Json& answer) const {
    runtime::write_all(file_.get(), answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  runtime::File file_;
};

}  // namespace

int tune_worker(const Globals& globals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Answers answers;
  std::unique_ptr<Worker> worker;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      if (!worker) worker = std::make_unique<Worker>(globals);
      answers.send(worker->answer(Json::parse(line)));
    } catch (const Failure& failure) {
      answers.send({{"error", failure.what()}, {"code", failure.code}});
    } catch (const std::exception& error) {
      answers.send({{"error", error.what()}, {"code", int{kNothingFound}}});
    }
  }
  return kOk;
}

}  // namespace ligerdsl::cli
