// Where results go: text and tables on stdout, JSON where --json says, errors and progress on stderr.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

using Json = nlohmann::ordered_json;

enum ExitCode { kOk = 0, kCheckFailed = 1, kUsage = 2, kNoDevice = 3, kNothingFound = 4, kInterrupted = 130 };

// Ends the command with this code and message.
struct Failure : std::runtime_error {
  Failure(int exit_code, const std::string& message) : std::runtime_error(message), code(exit_code) {}
  int code;
};

struct Globals {
  std::string device = "cpu";  // or "cuda:0"
  std::string json;            // a file, "-" for stdout, empty for none
  std::string color = "auto";
  std::vector<std::string> load;
  int threads = 0;
  bool quiet = false, verbose = false;
};

// True when colours belong on stdout: --color, else a terminal that is not dumb, without NO_COLOR.
bool use_color(const Globals& globals);
std::string good(const Globals& globals, const std::string& text);  // green
std::string bad(const Globals& globals, const std::string& text);   // red
std::string bold(const Globals& globals, const std::string& text);

// Left-aligned columns, numbers right-aligned.
void print_table(const Globals& globals, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

// Text on stdout. That it cannot be written is found by finish_output().
void print_text(std::string_view text);
// A line on stderr, whatever is in the message.
void print_error(const std::string& message);
// The command's last act: flushes stdout. Returns `code`, or kNothingFound, with a line on stderr, when what was
// printed did not arrive.
int finish_output(int code);

// Whether a path is -, or names the file, pipe or terminal that standard output goes to, like /dev/stdout.
bool is_standard_output(const std::string& path);
// Whether both name one file, by links and whatever other ways to it, or would when it is made.
bool is_same_file(const std::string& one, const std::string& other);
// What was printed so far, on its way: before a signal ends the command.
void flush_output();

// Writes a file, or prints where the path is that of standard output: opening it again would cut off what is there.
// Throws Failure (kNothingFound) with the reason, also when the disk is full.
void write_file(const std::string& path, std::string_view bytes);
// The same Failure, before there is anything to write; leaves what is in the file.
void check_writable(const std::string& path);

// Writes the result to --json, if given. Text that is not UTF-8 becomes U+FFFD there.
void write_json(const Globals& globals, const Json& result);

std::string counted(int64_t n, std::string_view one, std::string_view many);  // "1 entry", "0 entries"
std::string format_bytes(double bytes);                                       // "1.50 GiB"
std::string format_time(double ms);                                           // "12.3 us", "4.56 ms"

}  // namespace ligerdsl::cli
