#include "runtime/environment/options.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "runtime/environment/stage_files.h"

namespace ligerdsl::runtime {
namespace {

Options parse(const std::map<std::string, std::string>& environment, bool privileged = false) {
  return parse_options(
      [&](const char* name) -> const char* {
        auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      privileged);
}

TEST(Options, DefaultsWithoutEnvironment) {
  const Options options = parse({});
  EXPECT_EQ(options.log, LogLevel::warning);
  EXPECT_EQ(options.cache, CacheMode::read_write);
  EXPECT_EQ(options.cache_bytes, 0);
  EXPECT_FALSE(options.no_jit);
  EXPECT_EQ(options.num_threads, 0);
  EXPECT_TRUE(options.launch_overlap);
  EXPECT_EQ(options.dump_dir, ".");
  EXPECT_TRUE(options.dump.empty());
  EXPECT_TRUE(options.problems.empty());
  EXPECT_FALSE(options.ignored);
}

TEST(Options, ParsesEveryVariable) {
  const Options options = parse({{"LIGERDSL_LOG", "debug"},
                                 {"LIGERDSL_LOG_FILE", "log"},
                                 {"LIGERDSL_CACHE", "required"},
                                 {"LIGERDSL_CACHE_DIR", "/c"},
                                 {"LIGERDSL_CACHE_SIZE", "512M"},
                                 {"LIGERDSL_NO_JIT", "1"},
                                 {"LIGERDSL_NUM_THREADS", "7"},
                                 {"LIGERDSL_COMPILER", "comp.so"},
                                 {"LIGERDSL_VALIDATE", "1"},
                                 {"LIGERDSL_DETERMINISTIC", "1"},
                                 {"LIGERDSL_COMPILE", "process"},
                                 {"LIGERDSL_COMPILE_WORKER", "worker"},
                                 {"LIGERDSL_COMPILE_SECONDS", "9"},
                                 {"LIGERDSL_COMPILE_MEGABYTES", "0"},
                                 {"LIGERDSL_COLD_MEGABYTES", "8"},
                                 {"LIGERDSL_REPRODUCER_DIR", "/r"},
                                 {"LIGERDSL_LIBCUDA", "cuda.so"},
                                 {"LIGERDSL_LIBCBLAS", "blas.so"},
                                 {"LIGERDSL_LIBCUBLASLT", "lt.so"},
                                 {"LIGERDSL_LAUNCH_OVERLAP", "off"},
                                 {"LIGERDSL_DUMP", "tile,ptx"},
                                 {"LIGERDSL_DUMP_DIR", "/d"},
                                 {"LIGERDSL_DUMP_FILTER", "rms"},
                                 {"LIGERDSL_OVERRIDE_DIR", "/o"},
                                 {"LIGERDSL_TRACE", "t.json"},
                                 {"XDG_CACHE_HOME", "/x"},
                                 {"HOME", "/h"},
                                 {"TMPDIR", "/t"},
                                 {"NVTX_INJECTION64_PATH", "tool.so"}});
  EXPECT_EQ(options.log, LogLevel::debug);
  EXPECT_EQ(options.log_file, "log");
  EXPECT_EQ(options.cache, CacheMode::required);
  EXPECT_EQ(options.cache_dir, "/c");
  EXPECT_EQ(options.cache_bytes, int64_t{512} << 20);
  EXPECT_EQ(options.cold_megabytes, 8);
  EXPECT_TRUE(options.no_jit);
  EXPECT_EQ(options.num_threads, 7);
  EXPECT_EQ(options.compiler, "comp.so");
  EXPECT_TRUE(options.validate);
  EXPECT_TRUE(options.deterministic);
  EXPECT_EQ(options.compile, CompileMode::process);
  EXPECT_EQ(options.compile_worker, "worker");
  EXPECT_EQ(options.compile_seconds, 9);
  EXPECT_EQ(options.compile_megabytes, 0);
  EXPECT_EQ(options.reproducer_dir, "/r");
  EXPECT_EQ(options.libcuda, "cuda.so");
  EXPECT_EQ(options.libcblas, "blas.so");
  EXPECT_EQ(options.libcublaslt, "lt.so");
  EXPECT_FALSE(options.launch_overlap);
  EXPECT_EQ(options.dump, (std::vector<std::string>{"tile", "ptx"}));
  EXPECT_EQ(options.dump_dir, "/d");
  EXPECT_EQ(options.dump_filter, "rms");
  EXPECT_EQ(options.override_dir, "/o");
  EXPECT_EQ(options.trace, "t.json");
  EXPECT_EQ(options.xdg_cache_home, "/x");
  EXPECT_EQ(options.home, "/h");
  EXPECT_EQ(options.tmpdir, "/t");
  EXPECT_EQ(options.nvtx_tool, "tool.so");
  EXPECT_TRUE(options.problems.empty());
}

TEST(Options, ReadsEveryVariableOfTheTable) {
  std::set<std::string> asked;
  parse_options(
      [&](const char* name) -> const char* {
        asked.insert(name);
        return nullptr;
      },
      false);
  for (const OptionInfo& row : option_table()) {
    EXPECT_TRUE(asked.contains(row.name)) << row.name;
    EXPECT_NE(std::string(row.help), "") << row.name;
  }
}

TEST(Options, InvalidValuesAreReportedAndIgnored) {
  for (auto [name, value] : std::map<std::string, std::string>{{"LIGERDSL_LOG", "loud"},
                                                               {"LIGERDSL_CACHE", "yes"},
                                                               {"LIGERDSL_NUM_THREADS", "-1"},
                                                               {"LIGERDSL_LAUNCH_OVERLAP", "1"},
                                                               {"LIGERDSL_DUMP", "tile,sass"}}) {
    const Options options = parse({{name, value}});
    ASSERT_EQ(options.problems.size(), 1u) << name;
    EXPECT_NE(options.problems[0].find(name), std::string::npos);
    EXPECT_NE(options.problems[0].find("got \"" + value + "\""), std::string::npos);
    EXPECT_EQ(options.log, LogLevel::warning);
    EXPECT_EQ(options.cache, CacheMode::read_write);
    EXPECT_EQ(options.num_threads, 0);
    EXPECT_TRUE(options.launch_overlap);
    EXPECT_TRUE(options.dump.empty());
  }
  for (const char* value : {"7x", "99999999999", "4097", " 3"})
    EXPECT_EQ(parse({{"LIGERDSL_NUM_THREADS", value}}).problems.size(), 1u) << value;
  EXPECT_EQ(parse({{"LIGERDSL_COMPILE", "fork"}}).problems.size(), 1u);
  EXPECT_EQ(parse({{"LIGERDSL_VALIDATE", "yes"}}).problems.size(), 1u);
  EXPECT_EQ(parse({{"LIGERDSL_COMPILE_SECONDS", "0"}}).problems.size(), 1u);
  EXPECT_EQ(parse({{"LIGERDSL_COMPILE_MEGABYTES", "-1"}}).problems.size(), 1u);
}

TEST(Options, ParsesByteSizes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("3k"), 3072);
  EXPECT_EQ(parse_bytes("512M"), int64_t{512} << 20);
  EXPECT_EQ(parse_bytes("2G"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("8388607T"), int64_t{8388607} << 40);
  for (const char* text : {"", "M", "-1", "+1", "1.5G", "1GB", "G1", "1 G", " 1", "0x10",
                           "8388608T", "9223372036854775808", "99999999999999999999"})
    EXPECT_FALSE(parse_bytes(text)) << text;
  for (const char* text : {"much", "0", "0G"}) {
    EXPECT_EQ(parse({{"LIGERDSL_CACHE_SIZE", text}}).problems.size(), 1u) << text;
    EXPECT_EQ(parse({{"LIGERDSL_CACHE_SIZE", text}}).cache_bytes, 0) << text;
  }
}

TEST(Options, EmptyValueIsUnset) {
  EXPECT_TRUE(parse({{"LIGERDSL_CACHE", ""}}).problems.empty());
}

TEST(Options, AllSelectsEveryStage) {
  EXPECT_EQ(parse({{"LIGERDSL_DUMP", "all"}}).dump.size(), stages().size());
  EXPECT_EQ(parse({{"LIGERDSL_DUMP", "ptx,tile,ptx"}}).dump,
            (std::vector<std::string>{"tile", "ptx"}));
}

TEST(Options, SetuidIgnoresEverything) {
  const Options options = parse({{"LIGERDSL_CACHE_DIR", "/evil"},
                                 {"LIGERDSL_COMPILER", "/evil.so"},
                                 {"HOME", "/evil"},
                                 {"NVTX_INJECTION64_PATH", "/evil.so"}},
                                true);
  EXPECT_TRUE(options.ignored);
  EXPECT_EQ(options.cache_dir, "");
  EXPECT_EQ(options.compiler, "");
  EXPECT_EQ(options.home, "");
}

}  // namespace
}  // namespace ligerdsl::runtime
