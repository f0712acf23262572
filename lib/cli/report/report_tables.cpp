#include "lib/cli/report/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "lib/abi/tuned_table.h"
#include "lib/cli/support/html.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

using tune::Candidate;
using tune::Fate;
using tune::TaskSummary;
using tune::Trial;

namespace {

constexpr size_t kBestShown = 10, kReasonsShown = 20, kLongestReason = 600;

std::string about(const Trial& trial, const char* name) {
  if (!trial.device.is_object() || !trial.device.contains(name)) return "";
  const Json& value = trial.device[name];
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string code(const std::string& text) {
  return text.empty() ? "" : fmt::format("<code>{}</code>", html_text(text));
}

std::string time_text(const std::vector<double>& us) {
  const double mean = geometric_mean(us);
  return std::isfinite(mean) && mean > 0 ? html_text(format_time(mean * 1e-3)) : "";
}

std::string gain_text(double ratio) {
  const double percent = (1 / ratio - 1) * 100;
  return fmt::format("<span{}>{:+.1f} %</span>", percent > 0 ? " class=\"gain\"" : "", percent);
}

std::string problems_text(const Trial& trial) {
  if (trial.problems.empty()) return "";
  return trial.problems.size() == 1
             ? trial.problems.front()
             : fmt::format("{} and {} more", trial.problems.front(), trial.problems.size() - 1);
}

MetaValues values_of(const std::string& config) {
  try {
    return lib::config_values(config);
  } catch (const std::exception&) {
    return {};
  }
}

// Returns the fields that differ from the heuristic's, like "num_warps 4 → 8". Without a heuristic,
// returns the whole configuration.
std::string change_text(const TaskSummary& task, const std::string& config) {
  if (task.heuristic.config.empty()) return code(config);
  const MetaValues before = values_of(task.heuristic.config), after = values_of(config);
  std::string text;
  for (const auto& [field, value] : after) {
    const auto was = before.find(field);
    if (was != before.end() && was->second == value) continue;
    text += fmt::format("{}{} {} → {}", text.empty() ? "" : ", ", field,
                        was == before.end() ? "" : was->second, value);
  }
  return text.empty() ? "the heuristic's" : code(text);
}

const char* meaning(Fate fate) {
  switch (fate) {
    case Fate::ok:
      return "correct, and measured";
    case Fate::slow:
      return "given up: much slower than the heuristic";
    case Fate::compile:
      return "the configuration could not be compiled or loaded";
    case Fate::wrong:
      return "an output differs from the float64 reference";
    case Fate::guard:
      return "the kernel wrote outside of its outputs";
    case Fate::timeout:
      return "the trial did not end within its time limit";
    case Fate::crash:
      return "the trial failed or ended its process";
  }
  return "";
}

std::vector<std::string> best_row(const TaskSummary& task, const Trial& trial,
                                  const std::string& name) {
  std::string registers;
  if (trial.resources.is_array() && !trial.resources.empty() && trial.resources[0].is_object()) {
    const Json& first = trial.resources[0];
    const auto number = [&](const char* field) {
      return first.contains(field) && first[field].is_number() ? first[field].get<double>() : 0;
    };
    if (number("registers") > 0) registers = fmt::format("{:.0f}", number("registers"));
    if (number("spill_bytes") > 0)
      registers += fmt::format(", {:.0f} B spilled", number("spill_bytes"));
  }
  return {name,
          time_text(trial.us),
          fmt::format("{:.3f}", trial.ratio),
          fmt::format("{}", trial.samples),
          registers,
          name == "heuristic" ? code(trial.config) : change_text(task, trial.config)};
}

}  // namespace

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return values.empty() ? 0 : std::exp(logs / static_cast<double>(values.size()));
}

std::string device_text(const Trial& trial) {
  return fmt::format("{} ({}, {} {})", about(trial, "model"), about(trial, "arch"),
                     about(trial, "units"),
                     about(trial, "arch").starts_with("sm_") ? "SMs" : "threads");
}

int64_t failed(const TaskSummary& task) {
  return std::ssize(task.candidates) - task.count(Fate::ok) - task.count(Fate::slow);
}

std::string winners_table(const std::vector<TaskSummary>& tasks) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskSummary& task = tasks[i];
    const Trial& winner = task.winner;
    const bool known = !winner.config.empty(), other = known && (task.gained || !task.confirmed);
    std::string config = "no configuration was correct";
    if (known) config = other ? change_text(task, winner.config) : "the heuristic's";
    if (other && !task.confirmed) config += " (no final measurement: the search ended early)";
    rows.push_back(
        {fmt::format("<a href=\"#task-{}\">{}</a>", i + 1, html_text(task.about.operation)),
         html_text(problems_text(task.about)), time_text(winner.heuristic_us),
         other ? time_text(winner.us) : "", other ? fmt::format("{:.3f}", winner.ratio) : "",
         task.gained ? gain_text(winner.ratio) : "",
         task.heuristic.ratio > 0
             ? fmt::format("{:.1f} %", 100 * std::fabs(task.heuristic.ratio - 1))
             : "",
         config, fmt::format("{}", task.candidates.size())});
  }
  return html_table(
      "Times are medians with cold caches; for several problems, their geometric mean. Noise: "
      "difference between two measurements of the heuristic.",
      {{"kernel"},
       {"problems"},
       {"heuristic", true},
       {"winner", true},
       {"winner / heuristic", true},
       {"gain", true},
       {"noise", true},
       {"configuration"},
       {"tried", true}},
      rows, "cards");
}

std::string roofline_table(const std::vector<RooflinePoint>& points) {
  std::vector<std::vector<std::string>> rows;
  for (const RooflinePoint& point : points) {
    const auto rate = [&](double us) {
      return us > 0 ? fmt::format("{:.1f}", point.bytes / (us * 1e3)) : "";
    };
    const double best_us = point.winner_us > 0 ? point.winner_us : point.heuristic_us;
    rows.push_back(
        {html_text(point.task->about.operation), html_text(point.problem),
         html_text(format_bytes(point.bytes)), rate(point.heuristic_us), rate(point.winner_us),
         rate(point.copy_us),
         best_us > 0 && point.copy_us > 0 ? fmt::format("{:.3f}", point.copy_us / best_us) : ""});
  }
  return html_table("Bytes per second, compared with a copy that moves the same number of bytes",
                    {{"kernel"},
                     {"problem"},
                     {"bytes", true},
                     {"heuristic, GB/s", true},
                     {"winner, GB/s", true},
                     {"copy, GB/s", true},
                     {"best / copy", true}},
                    rows, "cards");
}

std::string best_table(const TaskSummary& task) {
  std::vector<const Trial*> right;
  for (const Candidate& candidate : task.candidates) {
    if (candidate.best_known.fate == Fate::ok) right.push_back(&candidate.best_known);
  }
  std::stable_sort(right.begin(), right.end(), [&](const Trial* a, const Trial* b) {
    const auto final = [&](const Trial* t) { return t->samples; };
    return final(a) != final(b) ? final(a) > final(b) : a->ratio < b->ratio;
  });
  if (right.size() > kBestShown) right.resize(kBestShown);
  std::vector<std::vector<std::string>> rows;
  if (!task.heuristic.config.empty()) rows.push_back(best_row(task, task.heuristic, "heuristic"));
  for (size_t i = 0; i < right.size(); ++i)
    rows.push_back(best_row(task, *right[i],
                            task.gained && right[i]->config == task.winner.config
                                ? "winner"
                                : fmt::format("{}", i + 1)));
  if (rows.empty()) return "<p>No configuration was correct.</p>\n";
  std::string html = "<h3>The best configurations</h3>\n";
  html += html_table("Ratio to the heuristic's time. Configurations with more samples come first.",
                     {{"place"},
                      {"time", true, true},
                      {"ratio", true},
                      {"samples", true, true},
                      {"registers", true, true},
                      {"configuration (other rows: differences from the heuristic's)"}},
                     rows);
  return html;
}

std::string failures_table(const TaskSummary& task) {
  std::string html = "<h3>Failures</h3>\n";
  if (task.failures.empty()) return html + "<p>None.</p>\n";
  const auto most = static_cast<double>(task.failures.front().count);
  std::vector<std::vector<std::string>> rows;
  for (const tune::FateCount& failure : task.failures) {
    if (rows.size() == kReasonsShown) break;
    rows.push_back({html_text(name(failure.fate)),
                    fmt::format("{}<span class=\"bar{}\" style=\"width: {:.0f}%\"></span>",
                                failure.count, failure.fate == Fate::slow ? " slow" : "",
                                100 * static_cast<double>(failure.count) / most),
                    html_text(meaning(failure.fate)),
                    html_text(failure.reason.substr(0, kLongestReason)), code(failure.config)});
  }
  const size_t left = task.failures.size() - rows.size();
  return html +
         html_table(left > 0
                        ? fmt::format("The most frequent reasons; {} more are in the store.", left)
                        : fmt::format("{} of {} configurations failed.", failed(task),
                                      task.candidates.size()),
                    {{"kind"},
                     {"count", true},
                     {"meaning"},
                     {"first reason"},
                     {"its first configuration"}},
                    rows, "cards failures");
}

std::string effects_table(const TaskSummary& task) {
  const MetaValues heuristic = values_of(task.heuristic.config),
                   winner = values_of(task.winner.config);
  const auto has = [](const MetaValues& values, const std::string& field,
                      const std::string& value) {
    const auto at = values.find(field);
    return at != values.end() && at->second == value;
  };
  std::vector<std::vector<std::string>> rows;
  for (const tune::FieldEffect& effect : task.effects) {
    for (const tune::ValueEffect& value : effect.values) {
      const tune::Distribution& d = value.ratios;
      const auto ratio = [&](double number) {
        return d.count > 0 ? fmt::format("{:.3f}", number) : "";
      };
      std::string whose = has(heuristic, effect.field, value.value) ? "heuristic" : "";
      if (has(winner, effect.field, value.value)) whose += whose.empty() ? "winner" : ", winner";
      rows.push_back({code(fmt::format("{}={}", effect.field, value.value)), whose,
                      fmt::format("{}", value.tried), fmt::format("{}", value.failed),
                      ratio(d.least), ratio(d.median), ratio(d.q90)});
    }
  }
  return html_table("Ratios to the heuristic's time, over all configurations with the value",
                    {{"value"},
                     {"chosen by", false, true},
                     {"tried", true},
                     {"failed", true},
                     {"best", true},
                     {"median", true},
                     {"90 %", true, true}},
                    rows);
}

}  // namespace ligerdsl::cli
