#include "lib/cli/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "lib/cli/support/gnuplot.h"
#include "lib/cli/support/html.h"
#include "lib/text/output.h"
#include "lib/text/printable.h"

namespace ligerdsl::cli {

namespace {

using tune::Candidate;
using tune::Fate;
using tune::TaskSummary;

constexpr int kWidth =
    360;  // pixels, the width of a phone; wider pages show several charts in a row
constexpr double kSlowest = 2;  // ratio to the heuristic's time; larger ones are drawn at the edge

// Shortens a label; the tables have the full text.
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 22;
  const std::string shown = printable(text);
  if (columns(shown) <= kMost) return shown;
  return fmt::format("{:.{}}…", shown, kMost - 1);
}

// Range of the axis of times, which are ratios to the heuristic's time.
struct Range {
  double low = 1, high = 1;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, std::min(value, kSlowest));
  }
  std::string text() const {
    const double margin = std::max(0.04 * (high - low), 0.005);
    return fmt::format("[{}:{}]", low - margin, high + margin);
  }
};

void append_row(std::string* data, std::initializer_list<double> numbers) {
  for (const double number : numbers) fmt::format_to(std::back_inserter(*data), "{:.6g} ", number);
  *data += '\n';
}

// Returns a named block of data for gnuplot's `plot`. A block without rows gets a NaN point, which
// is not drawn.
std::string block(const std::string& name, const std::string& rows) {
  return fmt::format("${} << EOD\n{}EOD\n", name, rows.empty() ? "NaN NaN NaN NaN NaN\n" : rows);
}

void erase_between(std::string* text, std::string_view begin, std::string_view end) {
  for (size_t at = 0; (at = text->find(begin, at)) != std::string::npos;) {
    const size_t stop = text->find(end, at);
    if (stop == std::string::npos) return;
    text->erase(at, stop + end.size() - at);
  }
}

// Removes empty <g> elements, which are most of gnuplot's output.
std::string without_empty_groups(const std::string& svg) {
  constexpr std::string_view open = "<g fill=", empty = ">\n</g>\n";
  std::string out;
  for (size_t at = 0; at < svg.size();) {
    const size_t group = std::min(svg.find(open, at), svg.size());
    out.append(svg, at, group - at);
    const size_t close = std::min(svg.find('>', group), svg.size());
    const bool is_empty = std::string_view(svg).substr(close).starts_with(empty);
    at = is_empty ? close + empty.size() : std::min(close + 1, svg.size());
    if (!is_empty) out.append(svg, group, at - group);
  }
  return out;
}

// Returns the content of gnuplot's <svg> element, for an HTML page. Stores its <defs> in `symbols`,
// because all charts share them.
std::string for_page(const std::string& document, const DrawnChart& chart, std::string* symbols) {
  const size_t header = document.find("<svg"), begin = document.find('>', header) + 1,
               end = document.rfind("</svg>");
  if (header == std::string::npos || end == std::string::npos || begin > end)
    throw Failure(kNothingFound,
                  "gnuplot printed no SVG; install a gnuplot that has the terminal \"svg\"");
  std::string drawing = document.substr(begin, end - begin);
  if (const size_t from = drawing.find("<defs>"), to = drawing.find("</defs>");
      from != std::string::npos && to != std::string::npos)
    *symbols = drawing.substr(from, to + 7 - from);
  erase_between(&drawing, "<defs>", "</defs>");
  erase_between(&drawing, "<desc>", "</desc>");
  drawing.erase(0, drawing.find("<g "));  // removes the document's name
  const std::string canvas = " id=\"gnuplot_canvas\"";
  if (const size_t found = drawing.find(canvas); found != std::string::npos)
    drawing.erase(found, canvas.size());
  // gnuplot names series by number if the chart has no key, so the titles are replaced.
  size_t at = 0;
  for (const std::string& name : chart.series) {
    constexpr std::string_view open = "<title>", close = "</title>";
    at = drawing.find(open, at);
    const size_t stop = drawing.find(close, at);
    if (stop == std::string::npos) break;
    drawing.replace(at + open.size(), stop - at - open.size(), html_text(name));
    at += open.size();
  }
  return fmt::format(
      "<svg class=\"chart\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">{}</svg>\n",
      html_text(chart.label), kWidth, chart.height, without_empty_groups(drawing));
}

}  // namespace

size_t ReportCharts::begin(const std::string& label, int height, std::vector<std::string> series) {
  charts_.push_back({label, height, std::move(series)});
  commands_ += fmt::format(
      "reset\nset terminal svg size {},{} font 'sans,11' noenhanced name 'chart{}'\n"
      "set border 3 lw 0.5\nset tics nomirror scale 0.4\nset grid lw 0.5 lc rgb 'gray' dt solid\n"
      "unset key\nset rmargin 2\nset tmargin 1\n",
      kWidth, height, charts_.size());
  return charts_.size() - 1;
}

size_t ReportCharts::add_progress(const TaskSummary& task) {
  const size_t number = begin("Best time so far over configurations tried", 240,
                              {"measured", "failed", "best so far"});
  Range range;
  for (const Candidate& one : task.candidates) {
    if (one.first.ratio > 0) range.take(one.first.ratio);
  }
  std::string right, failed, best;
  append_row(&best, {0, 1});
  double x = 0;
  for (const Candidate& one : task.candidates) {
    ++x;
    if (one.first.ratio > 0 && (one.first.fate == Fate::ok || one.first.fate == Fate::slow))
      append_row(&right, {x, std::min(one.first.ratio, range.high)});
    else
      append_row(&failed, {x, range.high});
    append_row(&best, {x, one.best_so_far});
  }
  commands_ += block("right", right) + block("failed", failed) + block("best", best);
  commands_ += fmt::format(
      "set xrange [0:{0}]\nset yrange {1}\nset xlabel 'configurations tried'\n"
      "set ylabel 'time / heuristic''s time'\n"
      "plot $right with points pt 7 ps 0.22 lc rgb '{2}', "
      "$failed with points pt 7 ps 0.22 lc rgb '{3}', "
      "$best with steps lw 2 lc rgb '{4}'\n",
      std::max<size_t>(task.candidates.size(), 1), range.text(), kTrialColour, kFailureColour,
      kBestColour);
  return number;
}

size_t ReportCharts::add_progress_in_time(const TaskSummary& task) {
  const size_t number = begin("Best time so far over seconds of searching", 240, {"best so far"});
  Range range;
  std::string best;
  append_row(&best, {0, 1});
  double before = 1;
  for (const Candidate& one : task.candidates) {
    if (one.seconds <= 0 || one.best_so_far >= before) continue;
    before = one.best_so_far;
    range.take(before);
    append_row(&best, {one.seconds, before});
  }
  append_row(&best, {task.noted_seconds, before});
  commands_ += block("best", best);
  commands_ += fmt::format(
      "set xrange [0:{}]\nset yrange {}\nset xlabel 'seconds of searching'\nset ylabel 'time / "
      "heuristic''s time'\n"
      "plot $best with steps lw 2 lc rgb '{}'\n",
      task.noted_seconds, range.text(), kBestColour);
  return number;
}

size_t ReportCharts::add_effects(const TaskSummary& task) {
  Range range;
  std::string labels, lines, boxes, medians, bests;
  double y = 0;
  for (const tune::FieldEffect& effect : task.effects) {
    const bool first_field = y == 0;
    y += first_field ? 0 : 0.6;  // space between fields
    bool first = true;
    for (const tune::ValueEffect& value : effect.values) {
      y += 1;
      labels += fmt::format(
          "{}{} {}", labels.empty() ? "" : ", ",
          gnuplot_text(shortened(first ? effect.field + " " + value.value : value.value)), y);
      first = false;
      const tune::Distribution& d = value.ratios;
      if (d.count == 0) continue;
      for (const double one : {d.least, d.q90}) range.take(one);
      const auto x = [](double ratio) { return std::min(ratio, kSlowest); };
      append_row(&lines, {x(d.least), y, x(d.q90) - x(d.least), 0});
      append_row(&boxes, {x(d.median), y, x(d.q25), x(d.q75), y - 0.3, y + 0.3});
      append_row(&medians, {x(d.median), y - 0.3, 0, 0.6});
      append_row(&bests, {x(d.least), y});
    }
  }
  const size_t number = begin("Times by value of each field", 70 + static_cast<int>(17 * y),
                              {"best to 90 %", "middle half", "median", "best"});
  commands_ += block("lines", lines) + block("boxes", boxes) + block("medians", medians) +
               block("bests", bests);
  commands_ += fmt::format(
      "set border 1\nset xrange {0}\nset yrange [{1}:0]\nset ytics ({2}) scale 0\nunset grid\nset "
      "grid x lw 0.5 lc rgb "
      "'gray' dt solid\nset xlabel 'time / heuristic''s time'\nset style fill solid 0.35 noborder\n"
      "plot $lines using 1:2:3:4 with vectors nohead lw 1 lc rgb '{3}', "
      "$boxes using 1:2:3:4:5:6 with boxxyerror lc rgb '{4}', "
      "$medians using 1:2:3:4 with vectors nohead lw 2 lc rgb '{4}', "
      "$bests with points pt 7 ps 0.3 lc rgb '{3}'\n",
      range.text(), y + 0.8, labels, kTrialColour, kBestColour);
  return number;
}

size_t ReportCharts::add_roofline(const std::vector<RooflinePoint>& points, double ceiling) {
  std::vector<std::string> series = {"copy of the same bytes", "gain", "heuristic", "winner"};
  if (ceiling > 0) series.insert(series.begin(), "large copy");
  const size_t number =
      begin("Bytes per second over bytes of a call, with measured copies", 280, std::move(series));
  const auto rate = [](const RooflinePoint& point, double us) {
    return us > 0 ? point.bytes / (us * 1e3) : NAN;
  };
  std::vector<RooflinePoint> sorted = points;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  std::string copies, gains, heuristics, winners;
  double high = ceiling;
  constexpr double kMiB = 1 << 20;
  for (const RooflinePoint& point : sorted) {
    const double x = point.bytes / kMiB, copy = rate(point, point.copy_us),
                 before = rate(point, point.heuristic_us), after = rate(point, point.winner_us);
    if (point.copy_us > 0) append_row(&copies, {x, copy});
    if (point.heuristic_us > 0) append_row(&heuristics, {x, before});
    if (point.winner_us > 0) append_row(&winners, {x, after});
    if (point.heuristic_us > 0 && point.winner_us > 0)
      append_row(&gains, {x, before, 0, after - before});
    for (const double one : {copy, before, after})
      high = std::isnan(one) ? high : std::max(high, one);
  }
  const double least = sorted.front().bytes / kMiB, most = sorted.back().bytes / kMiB;
  commands_ += block("copies", copies) + block("gains", gains) + block("heuristics", heuristics) +
               block("winners", winners);
  commands_ += fmt::format(
      "set logscale x 2\nset xrange [{0}:{1}]\nset yrange [0:{2}]\nset format x '%.4g'\nset xtics "
      "rotate by -45\n"
      "set xlabel 'bytes of a call (MiB)'\nset ylabel 'GB/s'\n"
      "plot {3} $copies with linespoints lw 1 pt 7 ps 0.2 lc rgb '{4}', "
      "$gains using 1:2:3:4 with vectors nohead lw 1 lc rgb '{5}', "
      "$heuristics with points pt 6 ps 0.5 lc rgb '{4}', "
      "$winners with points pt 7 ps 0.5 lc rgb '{5}'\n",
      least / 1.5, most * 1.5, high * 1.06,
      ceiling > 0 ? fmt::format("{} with lines lw 1 dt 2 lc rgb 'black', ", ceiling) : "",
      kTrialColour, kBestColour);
  return number;
}

std::vector<std::string> ReportCharts::drawn(std::string* symbols, int stop) const {
  std::vector<std::string> charts;
  if (charts_.empty()) return charts;
  const std::string documents = drawn_by_gnuplot(commands_, stop);
  constexpr std::string_view end = "</svg>";
  size_t at = 0;
  for (const DrawnChart& chart : charts_) {
    const size_t stop_at = documents.find(end, at);
    if (stop_at == std::string::npos)
      throw Failure(kNothingFound,
                    fmt::format("gnuplot drew {} of {} charts", charts.size(), charts_.size()));
    charts.push_back(for_page(documents.substr(at, stop_at + end.size() - at), chart, symbols));
    at = stop_at + end.size();
  }
  return charts;
}

}  // namespace ligerdsl::cli
