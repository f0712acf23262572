// Leveled logging: one line per event, to registered callbacks and to stderr or LIGERDSL_LOG_FILE.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

namespace ligerdsl::runtime {

enum class LogLevel : int32_t { off = 0, error = 1, warning = 2, info = 3, debug = 4 };

using LogCallback = void (*)(void* user, int32_t level, const char* line);

// Callbacks receive every line at or below the level. While one is registered, nothing goes to
// stderr. remove_log_callback returns after all running calls of the callback have ended.
int add_log_callback(LogCallback callback, void* user);
void remove_log_callback(int id);

void set_log_level(LogLevel level);  // the start value is LIGERDSL_LOG
bool log_enabled(LogLevel level);

void log(LogLevel level, const std::string& line);

// Logs "what: why" where nothing may throw, as in a destructor. Drops the line if there is no
// memory for it.
void log_quietly(LogLevel level, const char* what, const std::exception& why) noexcept;

// Returns why LIGERDSL_LOG_FILE cannot be written, so that lines go to stderr. Returns "" if it can
// be written, or is unset.
const std::string& log_file_problem();

// Logs the line at the first call with this key in the process.
void log_once(LogLevel level, const std::string& key, const std::string& line);

}  // namespace ligerdsl::runtime
