// Leveled logging: one line per event, to registered callbacks and to stderr or LIGERDSL_LOG_FILE.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

namespace ligerdsl::runtime {

enum class LogLevel : int32_t { off = 0, error = 1, warning = 2, info = 3, debug = 4 };

using LogCallback = void (*)(void* user, int32_t level, const char* line);

// Callbacks see every line at or below the level; while any is registered, nothing goes to stderr.
// remove_log_callback returns only when no call into the callback is under way.
int add_log_callback(LogCallback callback, void* user);
void remove_log_callback(int id);

void set_log_level(LogLevel level);  // the start value is LIGERDSL_LOG
bool log_enabled(LogLevel level);

void log(LogLevel level, const std::string& line);

// "what: why", where nothing may throw, as in a destructor: left out where there is no memory for it.
void log_quietly(LogLevel level, const char* what, const std::exception& why) noexcept;

// Why LIGERDSL_LOG_FILE cannot be written, so that lines go to stderr instead; empty when it is or none is named.
const std::string& log_file_problem();

// Logs the line the first time that this process passes with this key.
void log_once(LogLevel level, const std::string& key, const std::string& line);

}  // namespace ligerdsl::runtime
