// `ligerdsl tune-worker` tries configurations for `ligerdsl tune`, which starts it. Messages are
// JSON, one per line.
//
// Questions and their answers:
// - {"assemble": {"kernel": K, "settings": [...], "config": {...}}}
//   {}, when the machine code is in the disk cache.
// - {"hello": {}}
//   {"arch": "sm_90a", "units": 132, ...}
// - {"open": {"kernel": K, "settings": [[...], ...], "check_with": [...]}}
//   {"sample_seconds": 0.1, "checked": ["H=64 N=3", ...]}: seconds of one sample of the heuristic
//   on all problems, and the settings that are checked.
// - {"copies": "large"}
//   {"copy_bytes": ..., "copy_gb_per_s": ...}
// - {"copies": "problems"}
//   {"bytes": [...], "copy_us": [...]}
// - {"try": {"config": {...}, "samples": 5, "give_up": true}}
//   {"fate": "ok", "us": [...], ...}
// - An invalid question
//   {"error": text, "code": exit code}
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>

#include "lib/cli/bench/bench_measure.h"
#include "lib/cli/kernels/given_config.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/cli/tune/tune_subject.h"
#include "runtime/device/measure.h"
#include "runtime/system/files.h"

namespace ligerdsl::cli {

namespace {

using tune::Fate;

// A candidate is given up if it takes kHopeless times as long as the heuristic in each of the first
// samples.
constexpr double kHopeless = 1.5;
constexpr int kFirstSamples = 3;

// Stopwatch for the parts of a trial.
class Laps {
 public:
  void lap(const char* part) {
    const auto now = std::chrono::steady_clock::now();
    seconds_[part] = seconds_.value(part, 0.0) + std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  const Json& seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  Json seconds_ = Json::object();
};

class Worker {
 public:
  explicit Worker(const Globals& globals)
      : authors_(globals.load), context_(open_context(globals)) {}

  Json answer(const Json& question) {
    if (question.contains("hello")) return hello();
    if (question.contains("assemble")) return assemble(question["assemble"]);
    if (question.contains("open")) return open(question["open"]);
    if (question.contains("copies")) return copies(question["copies"] == "large");
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

  Json assemble(const Json& what) {
    load_kernels(authors_, what.at("kernel"), what.at("settings"),
                 what.at("config").get<MetaValues>(), context_);
    return Json::object();
  }

  Json open(const Json& what) {
    subject_.reset();
    heuristic_.reset();
    const TuneProblems problems{what.at("kernel"), what.at("settings"), what.at("check_with")};
    subject_ = make_tune_subject(context_, authors_, problems);
    heuristic_ = subject_->load({});
    if (const auto fault = heuristic_->check(); fault.fate != Fate::ok)
      throw Failure(kCheckFailed,
                    fmt::format("{} with the heuristic's configuration failed its check ({}): {}",
                                problems.kernel, name(fault.fate), fault.text));
    constexpr int kSamples = 5;
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < heuristic_->problems(); ++i)
      runtime::measure(context_->device(), heuristic_->work(i),
                       {.warmup = 0, .min_samples = kSamples, .max_samples = kSamples});
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    return {{"sample_seconds", all.count() / kSamples}, {"checked", subject_->checked()}};
  }

  Json copies(bool large) {
    runtime::Device& device = context_->device();
    const runtime::MeasureOptions few{
        .warmup = 1, .min_samples = 5, .max_samples = 11, .budget_ms = 50};
    const auto copied = [&](int64_t bytes) {
      return runtime::measure(device, runtime::copy_work(device, bytes), few);
    };
    if (large) {
      const int64_t bytes = large_copy_bytes(device);
      return {{"copy_bytes", bytes}, {"copy_gb_per_s", runtime::copy_gbps(bytes, copied(bytes))}};
    }
    Json all = Json::array(), us = Json::array();
    for (const double bytes : subject_->bytes_moved()) {
      all.push_back(bytes);
      us.push_back(bytes > 0 ? copied(same_size_copy_bytes(bytes)).median_ms * 1e3 : 0);
    }
    return {{"bytes", all}, {"copy_us", us}};
  }

  Json attempt(const Json& what) {
    Laps laps;
    Json answer = attempt(what, &laps);
    answer["seconds"] = laps.seconds();
    return answer;
  }

  Json attempt(const Json& what, Laps* laps) {
    std::unique_ptr<TunedCandidate> candidate;
    try {
      candidate = subject_->load(what.at("config").get<MetaValues>());
    } catch (const std::exception& error) {
      return {{"fate", name(Fate::compile)}, {"reason", error.what()}};
    }
    laps->lap("load");
    Json answer = {{"fate", name(Fate::ok)}, {"reason", ""}, {"resources", resources(*candidate)}};
    const auto fail = [&](Fate fate, const std::string& reason) {
      answer["fate"] = name(fate);
      answer["reason"] = reason;
      return answer;
    };
    const auto fault = candidate->check();
    laps->lap("check");
    if (fault.fate != Fate::ok) return fail(fault.fate, fault.text);
    const int samples = what.at("samples");
    if (what.at("give_up").get<bool>()) {
      const double least = measure(*candidate, kFirstSamples, &answer);
      laps->lap("measure");
      if (least > kHopeless)
        return fail(Fate::slow,
                    fmt::format("at least {:.2f} times the heuristic's time in each of {} samples",
                                least, kFirstSamples));
    }
    measure(*candidate, samples, &answer);
    laps->lap("measure");
    return answer;
  }

  // Returns the geometric mean over problems of the candidate's least time / the heuristic's median
  // time. A busy machine only makes samples longer, so the least time is a lower bound.
  double measure(TunedCandidate& candidate, int samples, Json* answer) {
    Json us = Json::array(), heuristic_us = Json::array();
    double logs = 0, least_logs = 0;
    for (size_t i = 0; i < candidate.problems(); ++i) {
      const auto times = runtime::measure_alternately(
          context_->device(), {heuristic_->work(i), candidate.work(i)},
          {.warmup = 1, .min_samples = samples, .max_samples = samples});
      logs += std::log(times[1].median_ms / times[0].median_ms);
      least_logs += std::log(times[1].min_ms / times[0].median_ms);
      us.push_back(times[1].median_ms * 1e3);
      heuristic_us.push_back(times[0].median_ms * 1e3);
    }
    const auto problems = static_cast<double>(candidate.problems());
    (*answer)["us"] = us;
    (*answer)["heuristic_us"] = heuristic_us;
    (*answer)["ratio"] = std::exp(logs / problems);
    (*answer)["samples"] = samples;
    return std::exp(least_logs / problems);
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

// Writes answers to the worker's original stdout; output of --load libraries goes to stderr.
class Answers {
 public:
  Answers() : file_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  void send(const Json& answer) const {
    runtime::write_all(file_.get(),
                       answer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

 private:
  runtime::File file_;
};

}  // namespace

int tune_worker(const Globals& globals) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Answers answers;
  std::unique_ptr<Worker> worker;
  const auto start = [&] {
    if (!worker) worker = std::make_unique<Worker>(globals);
  };
  try {
    start();  // starts early, because the start takes long on a GPU
  } catch (const std::exception&) {
    // The answer to the first question reports the error.
  }
  for (std::string line; std::getline(std::cin, line);) {
    try {
      start();
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
