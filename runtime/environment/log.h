// Log with levels. A line goes to all registered callbacks, and to LIGERDSL_LOG_FILE or stderr.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

namespace ligerdsl::runtime {

enum class LogLevel : int32_t { off = 0, error = 1, warning = 2, info = 3, debug = 4 };

using LogCallback = void (*)(void* user, int32_t level, const char* line);

// Callbacks receive every line whose level is at most the log level. While a callback is
// registered, no line goes to stderr. remove_log_callback returns after all running calls of the
// callback.
int add_log_callback(LogCallback callback, void* user);
void remove_log_callback(int id);

void set_log_level(LogLevel level);  // initially LIGERDSL_LOG
bool log_enabled(LogLevel level);

void log(LogLevel level, const std::string& line);

// Logs "what: why" without throwing, for example in a destructor. Drops the line if there is no
// memory for it.
void log_quietly(LogLevel level, const char* what, const std::exception& why) noexcept;

// Returns why LIGERDSL_LOG_FILE cannot be written; lines then go to stderr. Returns "" if the file
// can be written or the variable is unset.
const std::string& log_file_problem();

// Logs the line if this is the first call with `key` in the process.
void log_once(LogLevel level, const std::string& key, const std::string& line);

}  // namespace ligerdsl::runtime
