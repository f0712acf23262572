#include "lib/text/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/text/printable.h"
#include "runtime/system/files.h"
#include "runtime/system/safe_open.h"

namespace ligerdsl::cli {

namespace {

std::string paint(const Globals& globals, const char* code, const std::string& text) {
  return use_color(globals) ? fmt::format("\033[{}m{}\033[0m", code, text) : text;
}

// Returns true for a number with or without a unit, "12.3 us", and false for a sentence that begins
// with a number.
bool numeric(const std::string& cell) {
  const size_t unit = cell.find_first_not_of("+-.0123456789eE");
  if (unit == 0 || cell.empty() ||
      (!std::isdigit(static_cast<unsigned char>(cell[0])) && cell[0] != '-'))
    return false;
  return unit == std::string::npos || cell.find_first_of(" :", unit + 1) == std::string::npos;
}

}  // namespace

bool use_color(const Globals& globals) {
  if (globals.color != "auto") return globals.color == "always";
  const char *no_color = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  if ((no_color && *no_color) || !terminal || !*terminal || std::strcmp(terminal, "dumb") == 0)
    return false;
  return isatty(STDOUT_FILENO);
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
  std::vector<std::vector<std::string>> lines = {header};
  lines.insert(lines.end(), rows.begin(), rows.end());
  std::vector<size_t> widths(header.size());
  for (auto& cells : lines) {
    for (size_t i = 0; i < widths.size(); ++i) {
      cells[i] = printable_line(cells[i]);
      widths[i] = std::max(widths[i], columns(cells[i]));
    }
  }
  for (const auto& cells : lines) {
    const bool title = &cells == &lines.front();
    std::string text;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - columns(cells[i]), ' ');
      const bool last = i + 1 == cells.size();
      text += !title && numeric(cells[i]) ? space + cells[i] : last ? cells[i] : cells[i] + space;
      if (!last) text += "  ";
    }
    print_text((title ? bold(globals, text) : text) + "\n");
  }
}

namespace {

int stdout_error = 0;  // errno of the first failed write to stdout

void flush_stdout() {
  if (std::fflush(stdout) != 0 && stdout_error == 0) stdout_error = errno;
}

}  // namespace

void print_text(std::string_view text) {
  const bool printed = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!printed && stdout_error == 0) stdout_error = errno;
}

void print_error(const std::string& message) {
  flush_stdout();                        // so that earlier output precedes the error
  constexpr size_t kLongestLine = 4000;  // bytes; longer lines of a message are cut
  const std::string line =
      fmt::format("ligerdsl: {}\n", printable(with_short_lines(message, kLongestLine)));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int finish_output(int code) {
  flush_stdout();
  if (stdout_error == 0 && !std::ferror(stdout)) return code;
  const char* reason = stdout_error != 0 ? std::strerror(stdout_error) : "a write failed";
  print_error(fmt::format("standard output cannot be written: {}", reason));
  return code == kOk || code == kCheckFailed ? kNothingFound : code;
}

namespace {

[[noreturn]] void cannot_write(const std::string& path, std::string problem) {
  const std::string named = '"' + path + "\": ";
  if (problem.starts_with(named)) problem.erase(0, named.size());
  throw Failure(kNothingFound, fmt::format("cannot write {}: {}", path, problem));
}

}  // namespace

bool is_standard_output(const std::string& path) {
  struct stat named {
  }, standard{};
  if (path == "-") return true;
  return !path.empty() && stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &standard) == 0 &&
         named.st_dev == standard.st_dev && named.st_ino == standard.st_ino;
}

bool is_same_file(const std::string& one, const std::string& other) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (one.empty() || other.empty()) return false;
  if (fs::equivalent(one, other, error)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(one, error), error);
  return !first.empty() && first == fs::weakly_canonical(fs::absolute(other, error), error);
}

void flush_output() {
  flush_stdout();
}

void write_file(const std::string& path, std::string_view bytes) {
  if (is_standard_output(path)) return print_text(bytes);
  std::string problem;
  const int file = runtime::open_to_write(path, O_WRONLY | O_CREAT | O_TRUNC, 0666, &problem);
  if (file < 0) cannot_write(path, problem);
  const bool written = runtime::write_all(file, bytes);
  const int error = errno;
  if (close(file) == 0 && written) return;
  cannot_write(path, std::strerror(written ? errno : error));
}

void check_writable(const std::string& path) {
  if (is_standard_output(path)) return;
  std::string problem;
  const int file = runtime::open_to_write(path, O_WRONLY | O_CREAT | O_APPEND, 0666, &problem);
  if (file < 0) cannot_write(path, problem);
  close(file);
}

void write_json(const Globals& globals, const Json& result) {
  if (globals.json.empty()) return;
  const std::string text = result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (globals.json == "-")
    print_text(text);
  else
    write_file(globals.json, text);
}

std::string counted(int64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
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
