#include "lib/cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace ligerdsl::cli {

namespace {

std::string paint(const Globals& globals, const char* code, const std::string& text) {
  return use_color(globals) ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

bool numeric(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-');
}

}  // namespace

bool use_color(const Globals& globals) {
  if (globals.color == "always") return true;
  return globals.color == "auto" && isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
}

std::string good(const Globals& globals, const std::string& text) {
  return paint(globals, "32", text);
}
std::string bad(const Globals& globals, const std::string& text) {
  return paint(globals, "31", text);
}
std::string bold(const Globals& globals, const std::string& text) {
  return paint(globals, "1", text);
}

void print_table(const Globals& globals, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(header.size());
  for (size_t i = 0; i < header.size(); ++i) {
    widths[i] = header[i].size();
    for (const auto& row : rows) widths[i] = std::max(widths[i], row[i].size());
  }
  const auto line = [&](const std::vector<std::string>& cells, bool title) {
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool right = !title && numeric(cells[i]);
      const bool last = i + 1 == cells.size();
      text += right  ? fmt::format("{:>{}}", cells[i], widths[i])
              : last ? cells[i]
                     : fmt::format("{:<{}}", cells[i], widths[i]);
      if (!last) text += "  ";
    }
    fmt::print("{}\n", title ? bold(globals, text) : text);
  };
  line(header, true);
  for (const auto& row : rows) line(row, false);
}

void write_json(const Globals& globals, const Json& result) {
  if (globals.json.empty()) return;
  if (globals.json == "-") {
    std::cout << result.dump(2) << "\n";
    return;
  }
  std::ofstream file(globals.json);
  file << result.dump(2) << "\n";
  if (!file) throw Failure(kUsage, "cannot write " + globals.json);
}

std::string format_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, units[unit]);
}

std::string format_time(double ms) {
  if (ms < 1e-3) return fmt::format("{:.0f} ns", ms * 1e6);
  if (ms < 1) return fmt::format("{:.2f} us", ms * 1e3);
  if (ms < 1000) return fmt::format("{:.3f} ms", ms);
  return fmt::format("{:.2f} s", ms / 1000);
}

}  // namespace ligerdsl::cli
