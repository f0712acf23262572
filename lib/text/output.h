// Output of the command: text and tables on stdout, JSON to the file of --json, errors and progress
// on stderr.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ligerdsl::cli {

using Json = nlohmann::ordered_json;

enum ExitCode {
  kOk = 0,
  kCheckFailed = 1,
  kUsage = 2,
  kNoDevice = 3,
  kNothingFound = 4,
  kInterrupted = 130
};

// Exception that ends the command with this code and message.
struct Failure : std::runtime_error {
  Failure(int exit_code, const std::string& message)
      : std::runtime_error(message), code(exit_code) {}
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

// Returns true if stdout gets colours. With --color auto, stdout must be a terminal, TERM must be
// set and not "dumb", and NO_COLOR must be unset or empty.
bool use_color(const Globals& globals);
std::string good(const Globals& globals, const std::string& text);  // green
std::string bad(const Globals& globals, const std::string& text);   // red
std::string bold(const Globals& globals, const std::string& text);

// Prints left-aligned columns; numbers are right-aligned.
void print_table(const Globals& globals, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

// Prints text on stdout. finish_output() reports a failed write.
void print_text(std::string_view text);
// Prints a line on stderr and escapes control characters in the message.
void print_error(const std::string& message);
// Flushes stdout, as the last step of the command. Returns `code`, or kNothingFound with a line on
// stderr if the output could not be written.
int finish_output(int code);

// Returns true if the path is "-", or names standard output's file, pipe or terminal, like
// /dev/stdout.
bool is_standard_output(const std::string& path);
// Returns true if both paths name one file, even through links, or would name one file that does
// not exist yet.
bool is_same_file(const std::string& one, const std::string& other);
// Flushes stdout before a signal ends the command.
void flush_output();

// Writes a file. Prints instead if the path is standard output, because opening the file would
// truncate it. Throws Failure (kNothingFound) with the reason, even for a full disk.
void write_file(const std::string& path, std::string_view bytes);
// Throws the Failure that write_file() would throw. Creates a missing file, but does not change an
// existing one.
void check_writable(const std::string& path);

// Writes the result to --json, if given. Text that is not UTF-8 becomes U+FFFD.
void write_json(const Globals& globals, const Json& result);

std::string counted(int64_t n, std::string_view one,
                    std::string_view many);  // "1 entry", "0 entries"
std::string format_bytes(double bytes);      // "1.50 GiB"
std::string format_time(double ms);          // "12.30 us", "4.560 ms"

}  // namespace ligerdsl::cli
