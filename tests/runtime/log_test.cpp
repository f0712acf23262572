#include "runtime/environment/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ligerdsl::runtime {
namespace {

void collect(void* user, int32_t, const char* line) {
  static_cast<std::vector<std::string>*>(user)->push_back(line);
}

TEST(Log, FiltersByLevelAndLogsOnce) {
  std::vector<std::string> lines;
  const int id = add_log_callback(collect, &lines);
  log(LogLevel::warning, "one");
  log(LogLevel::debug, "not at this level");
  log_once(LogLevel::warning, "key", "two");
  log_once(LogLevel::warning, "key", "two");
  set_log_level(LogLevel::debug);
  log(LogLevel::debug, "three");
  set_log_level(LogLevel::warning);
  remove_log_callback(id);
  const int other = add_log_callback([](void*, int32_t, const char*) {}, nullptr);
  log(LogLevel::error, "after removal");
  remove_log_callback(other);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
}

}  // namespace
}  // namespace ligerdsl::runtime
