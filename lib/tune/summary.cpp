#include "lib/tune/summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <map>
#include <tuple>

#include "lib/abi/tuned_table.h"

namespace ligerdsl::tune {

namespace {

std::string group_of(const Trial& trial) {
  const auto about = [&](const char* name) {
    return trial.device.is_object() ? trial.device.value(name, Json()).dump() : std::string();
  };
  return Json({trial.operation, trial.kernel, trial.version, trial.options, trial.problems,
               trial.build, trial.loaded, about("arch"), about("units"), about("model")})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool measured(const Trial& trial) {
  return trial.ratio > 0 && (trial.fate == Fate::ok || trial.fate == Fate::slow);
}

// Replaces numbers in a reason, so that "3 of 512" and "7 of 512" count as one reason.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  }
  return out;
}

// Returns a configuration's fields, or none if the text is not a configuration, because a store may
// come from an unknown source.
MetaValues fields_of(const std::string& config) {
  try {
    return lib::config_values(config);
  } catch (const std::exception&) {
    return {};
  }
}

// Orders numbers by value, and numbers before words.
bool value_less(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool word = text.empty() || *end != '\0' || std::isnan(number);
    return std::tuple(word, word ? 0 : number, text);
  };
  return key(a) < key(b);
}

// Collects the trials of one task.
class Task {
 public:
  explicit Task(const Trial& first) { summary_.about = first; }

  void add(const Trial& trial) {
    if (summary_.began.empty() || trial.date < summary_.began) summary_.began = trial.date;
    summary_.ended = std::max(summary_.ended, trial.date);
    // `elapsed` begins at 0 in each run.
    if (trial.elapsed < last_elapsed_) seconds_before_ += last_elapsed_;
    last_elapsed_ = trial.elapsed;
    if (trial.elapsed > 0) summary_.noted_seconds = seconds_before_ + trial.elapsed;
    if (trial.heuristic) {
      if (summary_.heuristic.config.empty() || trial.samples >= summary_.heuristic.samples)
        summary_.heuristic = trial;
      return;
    }
    const auto [at, is_new] = by_config_.try_emplace(trial.config, summary_.candidates.size());
    if (!is_new) {
      Trial& known = summary_.candidates[at->second].best_known;
      if (trial.samples >= known.samples) known = trial;
      return;
    }
    if (trial.fate == Fate::ok) best_ = std::min(best_, trial.ratio);
    summary_.candidates.push_back(
        {trial, trial, trial.elapsed > 0 ? summary_.noted_seconds : 0, best_});
  }

  TaskSummary finished() {
    choose_winner();
    count_failures();
    find_effects();
    return std::move(summary_);
  }

 private:
  void choose_winner() {
    const Trial& heuristic = summary_.heuristic;
    const bool finals = !heuristic.config.empty() && heuristic.fate == Fate::ok;
    const Trial* best = nullptr;
    for (const Candidate& candidate : summary_.candidates) {
      const Trial& trial = candidate.best_known;
      if (trial.fate != Fate::ok) continue;
      const bool final = finals && trial.samples >= heuristic.samples;
      if (best && summary_.confirmed && !final) continue;
      if (!best || (final && !summary_.confirmed) ||
          cost(trial, kNoSlower) < cost(*best, kNoSlower))
        best = &trial;
      summary_.confirmed |= final;
    }
    if (best) summary_.winner = *best;
    summary_.gained = summary_.confirmed && no_gain(*best, heuristic.ratio).empty();
    if (finals && !summary_.gained && (summary_.confirmed || !best)) {
      summary_.winner = heuristic;
      summary_.confirmed = true;
    }
  }

  void count_failures() {
    std::map<std::pair<Fate, std::string>, FateCount> counts;
    for (const Candidate& candidate : summary_.candidates) {
      const Trial& trial = candidate.first;
      if (trial.fate == Fate::ok) continue;
      FateCount& count = counts[{trial.fate, without_numbers(trial.reason)}];
      if (count.count++ == 0) count = {trial.fate, trial.reason, trial.config, 1};
    }
    for (auto& [key, count] : counts) summary_.failures.push_back(std::move(count));
    std::stable_sort(summary_.failures.begin(), summary_.failures.end(),
                     [](const FateCount& a, const FateCount& b) { return a.count > b.count; });
  }

  void find_effects() {
    struct Value {
      ValueEffect effect;
      std::vector<double> ratios;
    };
    std::vector<std::string> order;
    std::map<std::string, std::map<std::string, Value, decltype(&value_less)>> fields;
    for (const Candidate& candidate : summary_.candidates) {
      const Trial& trial = candidate.best_known;
      for (const auto& [field, text] : fields_of(trial.config)) {
        const auto [at, is_new] = fields.try_emplace(field, &value_less);
        if (is_new) order.push_back(field);
        Value& value = at->second[text];
        ++value.effect.tried;
        if (measured(trial))
          value.ratios.push_back(trial.ratio);
        else
          ++value.effect.failed;
      }
    }
    for (const std::string& field : order) {
      if (fields.at(field).size() < 2) continue;
      summary_.effects.push_back({field, {}});
      for (auto& [text, value] : fields.at(field)) {
        value.effect.value = text;
        value.effect.ratios = distribution(std::move(value.ratios));
        summary_.effects.back().values.push_back(std::move(value.effect));
      }
    }
  }

  TaskSummary summary_;
  std::map<std::string, size_t> by_config_;
  double best_ = 1, seconds_before_ = 0, last_elapsed_ = 0;
};

}  // namespace

double worst_ratio(const Trial& trial) {
  double worst = 0;
  for (size_t i = 0; i < std::min(trial.us.size(), trial.heuristic_us.size()); ++i)
    worst = std::max(worst, trial.us[i] / trial.heuristic_us[i]);
  return worst;
}

std::string no_gain(const Trial& trial, double heuristic_ratio) {
  constexpr double kLeast = 0.005, kTimesNoise = 3;
  // The noise is a factor, not a difference. A configuration that is 10 times faster than the
  // heuristic is therefore a gain even on a busy machine.
  const double noise = std::exp(-kTimesNoise * std::fabs(std::log(heuristic_ratio)));
  const auto text = [](double number) {  // does not depend on the locale
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, std::min(number, 1e9),
                                   std::chars_format::fixed, 3);
    return std::string(buffer, end.ptr);
  };
  if (!(trial.ratio < std::min(1 - kLeast, noise)))
    return "its time is " + text(trial.ratio) +
           " of the heuristic's, no gain beyond the noise: the heuristic compared with itself "
           "took " +
           text(heuristic_ratio);
  for (size_t i = 0; i < std::min(trial.us.size(), trial.heuristic_us.size()); ++i) {
    const double ratio = trial.us[i] / trial.heuristic_us[i];
    if (ratio <= kNoSlower) continue;
    const std::string problem =
        i < trial.problems.size() ? trial.problems[i] : "problem " + std::to_string(i + 1);
    return "its time is " + text(trial.ratio) + " of the heuristic's over all problems, but " +
           text(ratio) + " of it on \"" + problem + '"';
  }
  return "";
}

bool is_refuted(const Trial& trial) {
  if (trial.fate != Fate::ok) return trial.fate != Fate::compile;
  return !(trial.ratio < 1) || worst_ratio(trial) > kNoSlower;
}

double cost(const Trial& trial, double no_slower) {
  const double worst = worst_ratio(trial);
  return worst > no_slower ? std::max(worst, trial.ratio) : trial.ratio;
}

Distribution distribution(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return std::lerp(values[low], values[high], place - static_cast<double>(low));
  };
  return {values.size(), values.front(), at(0.25), at(0.5), at(0.75), at(0.9)};
}

int64_t TaskSummary::count(Fate fate) const {
  return std::count_if(candidates.begin(), candidates.end(),
                       [&](const Candidate& candidate) { return candidate.first.fate == fate; });
}

std::vector<TaskSummary> summarize(const std::vector<Trial>& trials) {
  std::map<std::string, size_t> known;
  std::vector<Task> tasks;
  for (const Trial& trial : trials) {
    const auto [at, is_new] = known.try_emplace(group_of(trial), tasks.size());
    if (is_new) tasks.emplace_back(trial);
    tasks[at->second].add(trial);
  }
  std::vector<TaskSummary> summaries;
  for (Task& task : tasks) summaries.push_back(task.finished());
  return summaries;
}

}  // namespace ligerdsl::tune
