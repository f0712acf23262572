#include "lib/cli/bench/bench_plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "lib/cli/support/gnuplot.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

constexpr const char* kBarColour = "#2f7ed8";

std::string extension_of(const std::string& path) {
  return std::filesystem::path(path).extension();
}

std::string terminal(const std::string& path, int width, int height) {
  const bool png = extension_of(path) == ".png";
  return fmt::format("set terminal {} size {},{} font 'sans,11' noenhanced background '#ffffff'\n",
                     png ? "pngcairo" : "svg", width, height);
}

}  // namespace

void check_plot(const std::string& path) {
  const std::string extension = extension_of(path);
  if (extension != ".svg" && extension != ".png")
    throw Failure(
        kUsage,
        fmt::format("--plot: expected a file name that ends in .svg or .png, got '{}'", path));
  require_gnuplot("bench --plot");
}

void plot_bars(const std::string& path, const std::string& title, const std::vector<Bar>& bars) {
  constexpr int kWidth = 1100, kLine = 20, kAround = 90;
  double longest = 1.1;
  std::string labels, rows, notes;
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    longest = std::max(longest, bar.value);
    labels += fmt::format("{}{} {}", i == 0 ? "" : ", ", gnuplot_text(bar.label), i);
    fmt::format_to(std::back_inserter(rows), "{0:.6g} {1} 0 {0:.6g} {2} {3}\n", bar.value, i,
                   static_cast<double>(i) - 0.35, static_cast<double>(i) + 0.35);
    notes += fmt::format("set label {} at graph 1.02, first {} left\n",
                         gnuplot_text(fmt::format("{:.3f}, {}", bar.value, bar.note)), i);
  }
  const std::string commands = fmt::format(
      "{}set label {} at character 1, screen 0.98 left\nunset key\nset border 1\nset tics nomirror "
      "scale 0.4\nset xrange [0:{}]\nset yrange [{}:-0.7]\n"
      "set ytics ({}) scale 0\nset xlabel 'fraction of a copy''s bytes per second'\nset rmargin "
      "18\n"
      "set arrow from 1, graph 0 to 1, graph 1 nohead lw 1 dt 2\n{}set style fill solid "
      "noborder\n$bars << EOD\n{}EOD\n"
      "plot $bars using 1:2:3:4:5:6 with boxxyerror lc rgb '{}'\n",
      terminal(path, kWidth, kAround + kLine * static_cast<int>(bars.size())), gnuplot_text(title),
      longest, static_cast<double>(bars.size()) - 0.3, labels, notes,
      rows.empty() ? "NaN NaN NaN NaN NaN NaN\n" : rows, kBarColour);
  write_file(path, drawn_by_gnuplot(commands));
}

void plot_lines(const std::string& path, const LinePlot& plot) {
  constexpr int kWidth = 800, kHeight = 480;
  std::string data, series;
  double least = 0, most = 0;
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    data += fmt::format("$line{} << EOD\n", i);
    for (const auto& [x, y] : plot.lines[i].points) {
      fmt::format_to(std::back_inserter(data), "{:.10g} {:.6g}\n", x, y);
      least = least == 0 ? x : std::min(least, x);
      most = std::max(most, x);
    }
    data += "EOD\n";
    series += fmt::format("{}$line{} with linespoints lw 2 pt 7 ps 0.5 title {}",
                          i == 0 ? "" : ", ", i, gnuplot_text(plot.lines[i].label));
  }
  if (plot.ceiling > 0)
    series += fmt::format(", {:.6g} with lines lw 1 dt 2 lc rgb 'black' title {}", plot.ceiling,
                          gnuplot_text(plot.ceiling_label));
  const double around = plot.logarithmic ? 0 : std::max((most - least) * 0.05, 1.0);
  const std::string range = plot.logarithmic
                                ? fmt::format("[{}:{}]", least / 1.2, most * 1.2)
                                : fmt::format("[{}:{}]", least - around, most + around);
  const std::string commands = fmt::format(
      "{}set title {}\nset border 3\nset tics nomirror scale 0.4\nset grid lw 0.5 lc rgb '#dddddd' "
      "dt solid\n"
      "set key below\nset format x '%.10g'\n{}set xrange {}\nset yrange [0:*]\nset xlabel {}\nset "
      "ylabel {}\n"
      "{}plot {}\n",
      terminal(path, kWidth, kHeight), gnuplot_text(plot.title),
      plot.logarithmic ? "set logscale x 2\n" : "", range, gnuplot_text(plot.x_label),
      gnuplot_text(plot.y_label), data, series);
  write_file(path, drawn_by_gnuplot(commands));
}

bool is_numeric(const std::vector<Axis>& axes) {
  if (axes.empty() || axes.front().values.size() < 2) return false;
  const auto& values = axes.front().values;
  return std::all_of(values.begin(), values.end(), [](const std::string& value) {
    return !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  });
}

LinePlot lines_over_axis(const std::vector<Axis>& axes,
                         const std::vector<std::pair<size_t, double>>& measured) {
  const std::vector<std::string>& over = axes.front().values;
  const std::vector<std::vector<std::string>> others = along({}, {axes.begin() + 1, axes.end()});
  constexpr double kWide = 4;  // smallest last / first value of a logarithmic axis
  const auto number = [](const std::string& text) { return std::stod(text); };
  LinePlot plot{.x_label = axes.front().name,
                .logarithmic = number(over.front()) > 0 &&
                               number(over.back()) / number(over.front()) >= kWide};
  for (const auto& settings : others)
    plot.lines.push_back(
        {settings.empty() ? "measured" : fmt::format("{}", fmt::join(settings, " ")), {}});
  for (const auto& [number_of_case, value] : measured) {
    const size_t line = number_of_case % others.size(), place = number_of_case / others.size();
    plot.lines[line].points.emplace_back(number(over.at(place)), value);
  }
  std::erase_if(plot.lines, [](const Line& line) { return line.points.empty(); });
  return plot;
}

}  // namespace ligerdsl::cli
