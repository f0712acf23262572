// Where results go: text and tables on stdout, JSON where --json says, errors and progress on stderr.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
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

// True when colours belong on stdout.
bool use_color(const Globals& globals);
std::string good(const Globals& globals, const std::string& text);  // green
std::string bad(const Globals& globals, const std::string& text);   // red
std::string bold(const Globals& globals, const std::string& text);

// Left-aligned columns, numbers right-aligned.
void print_table(const Globals& globals, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

// Writes the result to --json, if given.
void write_json(const Globals& globals, const Json& result);

std::string format_bytes(double bytes);  // "1.50 GiB"
std::string format_time(double ms);      // "12.3 us", "4.56 ms"

}  // namespace ligerdsl::cli
