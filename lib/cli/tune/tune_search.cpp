#include "lib/cli/tune/tune_search.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <list>
#include <optional>
#include <set>
#include <utility>

#include "lib/abi/build_info.h"
#include "lib/abi/tuned_table.h"
#include "lib/tune/strategy.h"
#include "lib/tune/summary.h"
#include "runtime/system/sha256.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

namespace {

using tune::Config;
using tune::Fate;
using tune::Trial;

constexpr int kSamples = 5, kSemifinalSamples = 15, kFinalSamples = 45;
constexpr size_t kSemifinalists = 8, kFinalists = 3;
constexpr double kFewSamplesNoise =
    1.03;  // larger ratios to the heuristic's time are no noise, even with few samples

class Search {
 public:
  Search(const TuneSearch& how, const TuneTask& task, double budget)
      : request_(how.request),
        how_(how),
        task_(task),
        budget_(budget),
        began_(Clock::now()),
        strategy_(
            tune::make_strategy(request_.strategy, task.space, request_.seed,
                                [this](const Config& config) { return task_.predicted(config); })),
        entry_(entry_of(task)),
        next_(entry_) {}

  TuneWinner run() {
    sample_seconds_ = how_.device.open({task_.operation, task_.problems, task_.check_with});
    ceiling_ = how_.device.ceilings();
    is_new(task_.space.heuristic());
    try {
      search();
    } catch (const BudgetOver&) {
      // Part of the budget is reserved for the finals.
    }
    TuneWinner won = finals();
    won.seconds = seconds_since(began_);
    return won;
  }

 private:
  struct Compiling {
    Config config;
    std::future<Json> done;  // seconds
  };

  // Returns the expected seconds of `count` successful trials: the measurements, plus the mean
  // overhead of the successful trials so far. Failed trials do not count, because timeouts are long
  // and finalists have none.
  double trial_seconds(size_t count, double samples) const {
    const double overhead = succeeded_ == 0 ? 0 : overhead_ / static_cast<double>(succeeded_);
    return static_cast<double>(count) * (2 * sample_seconds_ * samples + overhead);
  }

  double finals_seconds() const {
    const size_t semifinalists = std::min(ranking_.size(), kSemifinalists);
    return trial_seconds(semifinalists, kSemifinalSamples) +
           trial_seconds(1 + std::min(semifinalists, kFinalists), kFinalSamples);
  }

  // Returns true if the finals need the rest of the task's budget. They get at most half of this
  // budget.
  bool over() const {
    const double budget = std::max(budget_ / 2, budget_ - finals_seconds());
    how_.time.search_until(tune::Deadline::after(budget - seconds_since(began_)));
    return how_.time.search().passed();
  }

  // Returns true if the configuration builds other programs than all earlier ones. It may not,
  // because some fields have no effect on this device or with other fields. A configuration that
  // cannot be built counts as new; its compile reports the reason.
  bool is_new(const Config& config) {
    try {
      return built_.insert(runtime::sha256(task_.built(task_.space.values(config)))).second;
    } catch (const std::exception&) {
      return true;
    }
  }

  // Keeps all compilers busy, and measures configurations in the order in which their compiles
  // finish.
  void search() {
    std::list<Compiling> compiling;
    while (!over()) {
      const int64_t left = request_.max_evals - won_.tried;
      while (std::ssize(compiling) < std::min<int64_t>(how_.compilers, left) &&
             compile_next(&compiling)) {
      }
      if (compiling.empty()) return;
      const auto ready = std::find_if(compiling.begin(), compiling.end(), [](const Compiling& one) {
        return one.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      });
      if (ready == compiling.end()) {
        compiling.front().done.wait_for(std::chrono::milliseconds(5));
        how_.time.require_going_on();
        continue;
      }
      learn(*ready);
      compiling.erase(ready);
    }
  }

  // Returns the table's configuration of the task, if it is in the search space.
  static std::optional<Config> entry_of(const TuneTask& task) {
    if (task.entry.empty()) return std::nullopt;
    try {
      return task.space.find(lib::config_values(task.entry));
    } catch (const runtime::Error&) {
      return std::nullopt;
    }
  }

  // Proposes the table's configuration first, so that a short search starts from the result of an
  // earlier, longer search.
  std::vector<Config> next() {
    if (!next_) return strategy_->next(1);
    return {*std::exchange(next_, std::nullopt)};
  }

  bool compile_next(std::list<Compiling>* compiling) {
    for (;;) {
      const bool of_table = next_.has_value();
      const std::vector<Config> next = this->next();
      if (next.empty()) return false;
      if (is_new(next[0])) {
        compiling->push_back({next[0], std::async(std::launch::async, [this, config = next[0]] {
                                return built_seconds(config);
                              })});
        return true;
      }
      if (of_table) won_.refuted = "it builds the same programs as the heuristic";
      strategy_->learn(next[0], INFINITY);
    }
  }

  Json built_seconds(const Config& config) const {
    if (how_.known.count(blank(config, kSamples).key)) return Json::object();
    const MetaValues values = task_.space.values(config);
    const auto began = Clock::now();
    task_.compile(values);
    const double compile = seconds_since(began);
    if (how_.assemblers.count() > 0) assemble(values);
    return {{"compile", compile}, {"assemble", seconds_since(began) - compile}};
  }

  // Assembles into the disk cache, so that the measuring worker only loads.
  void assemble(const MetaValues& values) const {
    using Outcome = tune::WorkerProcess::Outcome;
    const auto answer = how_.assemblers.ask({{"assemble",
                                              {{"kernel", task_.operation},
                                               {"settings", task_.problems.front()},
                                               {"config", values}}}});
    if (answer.outcome == Outcome::timed_out)
      throw Failure(kNothingFound, fmt::format("not assembled within {:g} s (--timeout)",
                                               request_.timeout_seconds));
    if (answer.outcome == Outcome::ended)
      throw Failure(kNothingFound, "the assembler process ended: " + answer.end);
    if (answer.outcome == Outcome::answered && answer.json.contains("error"))
      throw Failure(kNothingFound, answer.json["error"].get<std::string>());
  }

  void learn(Compiling& compiled) {
    const Config& config = compiled.config;
    std::string refused;
    Json seconds;
    try {
      seconds = compiled.done.get();
    } catch (const std::exception& error) {
      refused = error.what();
      how_.time.require_going_on();  // a stopped compile is not a trial
      if (how_.time.search().passed()) throw BudgetOver();
    }
    const Trial trial = refused.empty() ? attempt(config, kSamples, how_.time.search(), seconds)
                                        : refuse(config, refused);
    strategy_->learn(config,
                     trial.fate == Fate::ok ? tune::cost(trial, kFewSamplesNoise) : INFINITY);
    ++won_.tried;
    ++won_.fates[trial.fate];
    if (trial.fate == Fate::ok) ranking_.emplace(tune::cost(trial, kFewSamplesNoise), config);
    if (config == entry_ && trial.fate != Fate::ok && tune::is_refuted(trial))
      won_.refuted = fault_of(trial);
    show();
  }

  void show() {
    int64_t failed = 0;
    for (const auto& [fate, count] : won_.fates)
      failed += fate == Fate::ok || fate == Fate::slow ? 0 : count;
    const double best = ranking_.empty() ? 1 : std::min(1.0, ranking_.begin()->first);
    how_.show(fmt::format(
        "{} {}: {} tried, {} failed, best {:.3f} of the heuristic's time, {:.0f} s left",
        task_.operation, fmt::join(task_.problems.front(), " "), won_.tried, failed, best,
        std::max(0.0, budget_ - seconds_since(began_))));
  }

  // Measures the best configurations again with more samples. Measures the heuristic against itself
  // to find the noise. Throws BudgetOver if the remaining budget is too short.
  void measure_again() {
    heuristic_ = final_trial(task_.space.heuristic(), kFinalSamples);
    std::vector<std::pair<double, Config>> best(ranking_.begin(), ranking_.end());
    for (const auto& [samples, count] :
         {std::pair{kSemifinalSamples, kSemifinalists}, {kFinalSamples, kFinalists}}) {
      best.resize(std::min(best.size(), count));
      std::multimap<double, Config> again;
      for (const auto& [before, config] : best) {
        const Trial trial = final_trial(config, samples);
        if (trial.fate != Fate::ok) continue;
        const bool last = samples == kFinalSamples;
        const auto ranked =
            again.emplace(tune::cost(trial, last ? tune::kNoSlower : kFewSamplesNoise), config);
        last_.insert_or_assign(config, trial);
        if (last) finalists_.insert(*ranked);
      }
      best.assign(again.begin(), again.end());
    }
  }

  TuneWinner finals() {
    try {
      measure_again();
    } catch (const BudgetOver&) {
      won_.cut = true;
    }
    won_.trial = heuristic_ ? *heuristic_ : blank(task_.space.heuristic(), 0);
    won_.trial.heuristic = true;
    if (won_.cut)
      won_.no_gain =
          "the budget ended before the final measurements; raise --budget and add --resume";
    if (heuristic_ && !finalists_.empty()) {
      const Trial& best = last_.at(finalists_.begin()->second);
      won_.no_gain = tune::no_gain(best, heuristic_->ratio);
      won_.heuristic = !won_.no_gain.empty();
      if (!won_.heuristic) won_.trial = best;
    }
    try {
      if (won_.heuristic) judge_entry();
    } catch (const BudgetOver&) {
      won_.cut = true;
    }
    return std::move(won_);
  }

  // Throws BudgetOver instead of starting a trial that would exceed the budget.
  Trial final_trial(const Config& config, int samples) {
    if (trial_seconds(1, samples) > how_.time.whole().left()) throw BudgetOver();
    return attempt(config, samples, how_.time.whole());
  }

  static std::string fault_of(const Trial& trial) {
    return fmt::format("{}: {}", name(trial.fate), trial.reason);
  }

  // Called if the heuristic won. Marks the table's entry as refuted according to
  // tune::is_refuted. An entry whose gain is within the noise stays.
  void judge_entry() {
    if (!entry_ || !won_.refuted.empty()) return;
    const bool ranked = std::any_of(ranking_.begin(), ranking_.end(),
                                    [&](const auto& one) { return one.second == *entry_; });
    if (!ranked) return;
    Trial trial = last_.count(*entry_) ? last_.at(*entry_) : Trial();
    if (trial.samples < kFinalSamples) trial = final_trial(*entry_, kFinalSamples);
    if (tune::is_refuted(trial))
      won_.refuted = trial.fate == Fate::ok ? tune::no_gain(trial, 1) : fault_of(trial);
  }

  Trial blank(const Config& config, int samples) const {
    Trial trial;
    trial.kernel = task_.kernel;
    trial.operation = task_.operation;
    trial.version = task_.version;
    trial.options = task_.options;
    trial.config = task_.space.text(config);
    trial.device = how_.device.description();
    trial.build = lib::build_info();
    for (const auto& settings : task_.problems)
      trial.problems.push_back(fmt::format("{}", fmt::join(settings, " ")));
    trial.samples = samples;
    trial.heuristic = config == task_.space.heuristic();
    runtime::Sha256 hash;
    for (const std::string& part :
         {trial.operation, trial.kernel, std::to_string(trial.version), trial.options, trial.config,
          trial.device.dump(), trial.build, fmt::format("{}", fmt::join(trial.problems, ";")),
          std::to_string(samples), task_.loaded,
          fmt::format("{}", fmt::join(task_.check_with, " "))})
      hash.field(part);
    trial.key = runtime::hex(hash.finish());
    trial.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
    trial.ceiling = ceiling_;
    trial.loaded = task_.loaded;
    return trial;
  }

  Trial keep(Trial trial) {
    trial.elapsed = seconds_since(began_);
    how_.store.append(trial, how_.time.whole().descriptor());
    how_.trials.push_back(trial);
    return trial;
  }

  Trial refuse(const Config& config, const std::string& why) {
    Trial trial = blank(config, 0);
    trial.fate = Fate::compile;
    trial.reason = why;
    return keep(std::move(trial));
  }

  // Returns the seconds to measure a candidate. The factor 2 counts the heuristic, which is
  // measured alternately with it.
  double measuring_seconds(int samples) const { return sample_seconds_ * 2 * samples; }

  Trial attempt(const Config& config, int samples, const TimedStop& stop,
                const Json& built_seconds = Json::object()) {
    Trial trial = blank(config, samples);
    if (const auto known = how_.known.find(trial.key); known != how_.known.end()) {
      how_.trials.push_back(known->second);
      return known->second;
    }
    // Finalists are never given up: they were fast before, so a slow finalist means that the
    // machine is busy.
    const bool give_up = samples == kSamples;
    const auto began = Clock::now();
    const Json answer =
        how_.device.attempt({.config = task_.space.values(config),
                             .samples = samples,
                             .give_up = give_up,
                             .seconds = how_.time.trial_seconds(measuring_seconds(samples)),
                             .stop = stop});
    trial.fate = tune::fate_named(answer.at("fate").get<std::string>());
    if (trial.fate == Fate::ok) {
      overhead_ += std::max(0.0, seconds_since(began) - measuring_seconds(samples));
      ++succeeded_;
    }
    trial.reason = answer.at("reason").get<std::string>();
    trial.seconds = built_seconds;
    if (answer.contains("seconds")) trial.seconds.update(answer["seconds"]);
    if (answer.contains("resources")) trial.resources = answer["resources"];
    if (answer.contains("us")) {
      answer["us"].get_to(trial.us);
      answer["heuristic_us"].get_to(trial.heuristic_us);
      answer["ratio"].get_to(trial.ratio);
    }
    return keep(std::move(trial));
  }

  const TuneRequest& request_;
  const TuneSearch& how_;
  const TuneTask& task_;
  double budget_;
  double sample_seconds_ = 0;  // one sample of the heuristic on all problems, with cold caches
  Json ceiling_;
  Clock::time_point began_;
  std::unique_ptr<tune::Strategy> strategy_;
  std::optional<Config> entry_, next_;
  std::multimap<double, Config> ranking_;
  std::set<runtime::Digest> built_;
  std::map<Config, Trial> last_;
  std::optional<Trial> heuristic_;           // trial of the heuristic against itself, in the finals
  std::multimap<double, Config> finalists_;  // key: cost
  double overhead_ = 0;                      // seconds of the successful trials, except measuring
  int64_t succeeded_ = 0;                    // number of successful trials of this run
  TuneWinner won_;
};

}  // namespace

TuneWinner search(const TuneSearch& how, const TuneTask& task, double budget_seconds) {
  return Search(how, task, budget_seconds).run();
}

}  // namespace ligerdsl::cli
