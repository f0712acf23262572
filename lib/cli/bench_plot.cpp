#include "lib/cli/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace ligerdsl::cli {

namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string bar_chart(const std::string& title, const std::vector<Bar>& bars) {
  constexpr int left = 380, width = 420, right = 110, line = 20, top = 48;
  double longest = 1.1;
  for (const Bar& bar : bars) longest = std::max(longest, bar.value);
  const auto x_of = [&](double value) { return left + width * value / longest; };
  const int height = top + line * static_cast<int>(bars.size()) + 12, full = left + width + right;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "<text x=\"12\" y=\"20\" font-size=\"13\">{2}</text>\n",
      full, height, escape(title));
  for (double mark : {0.25, 0.5, 0.75, 1.0}) {
    svg += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"{3}\"/>\n", x_of(mark),
                       top - 4, height - 8, mark == 1.0 ? "#000000" : "#dddddd");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x_of(mark), top - 8,
                       mark == 1.0 ? "1 = copy" : fmt::format("{}", mark));
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const int y = top + line * static_cast<int>(i);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6, y + 13, escape(bar.label));
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"#d62728\"/>\n", left, y + 3,
                       x_of(bar.value) - left, line - 6);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{:.3f}, {}</text>\n", x_of(bar.value) + 5, y + 13, bar.value,
                       escape(bar.note));
  }
  return svg + "</svg>\n";
}

}  // namespace ligerdsl::cli
