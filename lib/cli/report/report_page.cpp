#include "lib/cli/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lib/cli/report/report_charts.h"
#include "lib/cli/report/report_style.h"
#include "lib/cli/report/report_tables.h"
#include "lib/cli/support/html.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using tune::TaskSummary;
using tune::Trial;

// Returns element i of the list `name` in a JSON object, or 0 if there is no such number.
double number_at(const Json& object, const char* name, size_t i) {
  if (!object.is_object() || !object.contains(name)) return 0;
  const Json& list = object[name];
  return list.is_array() && i < list.size() && list[i].is_number() ? list[i].get<double>() : 0;
}

class Page {
 public:
  explicit Page(const std::vector<TaskSummary>& tasks) : tasks_(tasks) {
    for (const TaskSummary& task : tasks_)
      several_devices_ |= device_text(task.about) != device_text(tasks_[0].about);
  }

  std::string html(int stop) {
    for (const TaskSummary& task : tasks_) plan(task);
    plan_rooflines();
    std::string symbols;
    drawn_ = charts_.drawn(&symbols, stop);
    std::string body = header() + winners();
    for (const Roofline& roofline : rooflines_) body += roofline_section(roofline);
    for (size_t i = 0; i < tasks_.size(); ++i) body += task_section(i);
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>Tuning report</title>\n<style>{}</style>\n</head>\n<body>\n"
        "<svg width=\"0\" height=\"0\" style=\"position: absolute\" "
        "aria-hidden=\"true\">{}</svg>\n{}</main>\n</body>\n</html>\n",
        kReportStyle, symbols, body);
  }

 private:
  struct Planned {
    std::vector<std::pair<size_t, std::string>> progress;  // charts and captions
    size_t effects = 0;
  };
  struct Roofline {
    std::string device;
    std::vector<RooflinePoint> points;
    double ceiling = 0;
    size_t chart = 0;
  };

  void plan(const TaskSummary& task) {
    Planned planned;
    if (!task.candidates.empty()) {
      planned.progress.emplace_back(
          charts_.add_progress(task),
          "The search: <span class=\"key\"></span>a configuration, at the edge if it takes more "
          "than twice the heuristic's time; <span class=\"key failure\"></span>a failed "
          "configuration; <span class=\"key best\"></span>the best so far.");
    }
    if (task.noted_seconds > 0)
      planned.progress.emplace_back(charts_.add_progress_in_time(task),
                                    "The best so far, over the seconds of the search.");
    if (!task.effects.empty()) planned.effects = charts_.add_effects(task);
    planned_.push_back(std::move(planned));
  }

  void plan_rooflines() {
    for (const TaskSummary& task : tasks_) {
      const Trial& winner = task.winner;
      for (size_t i = 0; i < task.about.problems.size(); ++i) {
        RooflinePoint point{&task, task.about.problems[i]};
        point.bytes = number_at(winner.ceiling, "bytes", i);
        point.copy_us = number_at(winner.ceiling, "copy_us", i);
        if (point.bytes <= 0) continue;
        if (task.gained && i < winner.us.size()) point.winner_us = winner.us[i];
        if (i < winner.heuristic_us.size()) point.heuristic_us = winner.heuristic_us[i];
        const std::string device = device_text(task.about);
        auto at = std::find_if(rooflines_.begin(), rooflines_.end(),
                               [&](const Roofline& roofline) { return roofline.device == device; });
        if (at == rooflines_.end()) at = rooflines_.insert(at, Roofline{.device = device});
        at->points.push_back(point);
        at->ceiling = std::max(at->ceiling, winner.ceiling.value("copy_gb_per_s", 0.0));
      }
    }
    for (Roofline& roofline : rooflines_)
      roofline.chart = charts_.add_roofline(roofline.points, roofline.ceiling);
  }

  std::string header() const {
    std::set<std::string> devices, builds;
    std::string began, ended;
    int64_t tried = 0, gained = 0, failures = 0;
    std::vector<double> ratios;
    double best = 1;
    for (const TaskSummary& task : tasks_) {
      devices.insert(device_text(task.about));
      builds.insert(task.about.build);
      if (began.empty() || task.began < began) began = task.began;
      ended = std::max(ended, task.ended);
      tried += std::ssize(task.candidates);
      failures += failed(task);
      gained += task.gained;
      ratios.push_back(task.gained ? task.winner.ratio : 1);
      best = std::min(best, ratios.back());
    }
    const auto joined = [](const std::set<std::string>& texts) {
      std::string all;
      for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
      return html_text(all);
    };
    return fmt::format(
        "<header>\n<h1>Tuning report</h1>\n<p>{} of {} gained: the winner is faster than the "
        "heuristic by more than the noise. The time is <strong>{:.3f}</strong> of the heuristic's "
        "(geometric mean over the tasks), and {:.3f} in the best task. {} tried, {} "
        "failed.</p>\n<p class=\"soft\">{}<br>build {}<br>{} to {}</p>\n</header>\n",
        gained, counted(std::ssize(tasks_), "task", "tasks"), geometric_mean(ratios), best,
        counted(tried, "configuration", "configurations"), failures, joined(devices),
        joined(builds), html_text(began), html_text(ended));
  }

  std::string winners() const {
    return fmt::format(
        "<main>\n<section id=\"winners\">\n<h2>Winners compared with the "
        "heuristic</h2>\n{}</section>\n",
        winners_table(tasks_));
  }

  std::string figure(size_t chart, const std::string& caption) const {
    return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", drawn_.at(chart),
                       caption);
  }

  std::string roofline_section(const Roofline& roofline) const {
    const std::string chart = figure(
        roofline.chart,
        "<span class=\"key\"></span>a copy that moves the same number of bytes; dashed: a large "
        "copy; <span class=\"key open\"></span>heuristic; <span class=\"key best\"></span>winner.");
    return fmt::format(
        "<section class=\"roofline\">\n<h2>Roofline: {}</h2>\n<p>Memory bounds these kernels: at "
        "best, a call reads its inputs once and writes its outputs once, as fast as a copy that "
        "moves the same number of bytes. {}</p>\n{}{}</section>\n",
        html_text(roofline.device),
        roofline.ceiling > 0
            ? fmt::format("A large copy reaches {:.1f} GB/s here.", roofline.ceiling)
            : "",
        chart, roofline_table(roofline.points));
  }

  std::string task_section(size_t i) const {
    const TaskSummary& task = tasks_[i];
    std::string html = fmt::format("<section class=\"task\" id=\"task-{}\">\n<h2>{}</h2>\n", i + 1,
                                   html_text(task.about.operation));
    html += "<p class=\"soft\">";
    for (const std::string& problem : task.about.problems) html += html_text(problem) + "<br>";
    html += fmt::format("options <code>{}</code>", html_text(task.about.options));
    if (several_devices_) html += "<br>" + html_text(device_text(task.about));
    html += "</p>\n<div class=\"charts\">\n";
    for (const auto& [chart, caption] : planned_[i].progress) html += figure(chart, caption);
    html += "</div>\n" + best_table(task);
    if (!task.effects.empty()) {
      html += "<h3>Effect of each field</h3>\n<div class=\"charts\">\n";
      html += figure(planned_[i].effects,
                     "Times of the configurations with each value, as ratios to the heuristic's "
                     "time: <span class=\"key\"></span>the best, and a line to the 90 % quantile; "
                     "<span class=\"key best\"></span>the middle half, with the median.");
      html += effects_table(task) + "</div>\n";
    }
    return html + failures_table(task) + "</section>\n";
  }

  const std::vector<TaskSummary>& tasks_;
  bool several_devices_ = false;
  ReportCharts charts_;
  std::vector<Planned> planned_;
  std::vector<Roofline> rooflines_;
  std::vector<std::string> drawn_;
};

}  // namespace

std::string report_page(const std::vector<TaskSummary>& tasks, int stop) {
  return Page(tasks).html(stop);
}

}  // namespace ligerdsl::cli
