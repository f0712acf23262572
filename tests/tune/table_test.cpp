#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "lib/abi/tuned_configs.h"
#include "lib/abi/tuned_table.h"
#include "lib/tune/table_file.h"
#include "runtime/system/status.h"

namespace ligerdsl::tune {
namespace {

using lib::TunedTable;

const lib::TunedDevice kH200{"sm_90a", 132, "NVIDIA H200"}, kH100{"sm_90a", 132, "NVIDIA H100"},
    kSmaller{"sm_90a", 114, "NVIDIA H100 PCIe"};

std::string text_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  TableEntries all;
  for (const auto& [key, config] : entries) all[key] = {{"config", config}, {"ratio", 0.9}};
  return table_text(all);
}

std::string refusal(const std::string& text) {
  try {
    const TunedTable table(text, "t.json");
    return "";
  } catch (const runtime::Error& error) {
    EXPECT_EQ(error.status(), runtime::Status::invalid_argument);
    return error.what();
  }
}

TEST(TunedTable, PrefersSameModelThenSameNumberOfUnits) {
  const std::string options = "cols=4096 type=bf16";
  const TunedTable table(
      text_of({{lib::tuned_key("norm", 1, options, kH200), "num_warps=8"},
               {lib::tuned_key("norm", 1, options, kH100), "num_warps=4"},
               {lib::tuned_key("norm", 1, "cols=40960 type=bf16", kH200), "num_warps=2"},
               {lib::tuned_key("norm_backward", 1, options, kH200), "num_warps=1"}}),
      "t.json");
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table.find("norm", 1, options, kH200)->config, "num_warps=8");
  EXPECT_EQ(table.find("norm", 1, options, kH100)->config, "num_warps=4");
  const auto other = table.find("norm", 1, "cols=40960 type=bf16", kH100);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->config, "num_warps=2");
  EXPECT_EQ(other->model, "NVIDIA H200");
  EXPECT_FALSE(table.find("norm", 1, options, kSmaller)) << "another number of SMs";
  EXPECT_FALSE(table.find("norm", 2, options, kH200)) << "another version of the fields";
  EXPECT_FALSE(table.find("norm", 1, "cols=4097 type=bf16", kH200));
  EXPECT_FALSE(table.find("norm", 1, options, {"sm_100", 132, "NVIDIA H200"}));
  EXPECT_FALSE(TunedTable(text_of({}), "empty").find("norm", 1, options, kH200));
  EXPECT_TRUE(table.has("norm", 1, options, /*gpu=*/true));
  EXPECT_FALSE(table.has("norm", 1, options, /*gpu=*/false));
  EXPECT_FALSE(table.has("norm", 2, options, /*gpu=*/true));
  EXPECT_FALSE(table.has("norm", 1, "cols=4097 type=bf16", /*gpu=*/true));
}

TEST(TunedTable, JsonRoundTrips) {
  const std::string text =
      text_of({{lib::tuned_key("norm", 1, "cols=1", {"x", 1, "a \"b\"\\c"}), "num_warps=8"}});
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("entries").size(), 2u);  // one entry, and the end marker
  EXPECT_EQ(table_text(entries_of(TunedTable(text, "t.json"))), text);
}

TEST(TunedTable, InvalidTextIsRejectedWithItsLine) {
  const std::string text = text_of({{"a/1 x=1 @ c/1/m", "n=1"}, {"b/1 x=1 @ c/1/m", "n=1"}});
  EXPECT_EQ(refusal(text), "");
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  EXPECT_NE(refusal("{}").find("line 1"), std::string::npos);
  std::string newer = text;
  newer.replace(newer.find(": 1"), 3, ": 2");
  EXPECT_NE(refusal(newer).find("expected format 1, got 2"), std::string::npos) << refusal(newer);
  std::string swapped = text;
  swapped.replace(swapped.find("\"a/"), 3, "\"c/");
  EXPECT_NE(refusal(swapped).find("line 3"), std::string::npos) << refusal(swapped);
  EXPECT_NE(refusal(text + "x"), "");
}

TEST(TunedTable, RejectsCrLfAndByteOrderMark) {
  std::string text = text_of({{"a/1 x=1 @ c/1/m", "n=1"}});
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\r\n");
  EXPECT_NE(refusal(text).find("line 1: the line ends in CR LF"), std::string::npos)
      << refusal(text);
  text = "\xef\xbb\xbf" + text_of({});
  EXPECT_NE(refusal(text).find("line 1: the file begins with a byte order mark"), std::string::npos)
      << refusal(text);
}

std::string entry_refusal(const std::string& entry) {
  const std::string text =
      "{\"ligerdsl_tuned_kernels\": 1, \"entries\": {\n\"a/1 x=1 @ c/1/m\": {" + entry +
      "},\n\"\": {}}}\n";
  try {
    entries_of(TunedTable(text, "t.json"));
    return "";
  } catch (const runtime::Error& error) {
    EXPECT_EQ(error.status(), runtime::Status::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    return error.what();
  }
}

TEST(TunedTable, RejectsInvalidEntries) {
  const std::string config = "\"config\": \"n=1\"";
  EXPECT_EQ(entry_refusal(config), "");
  EXPECT_EQ(entry_refusal(config + ", \"ratio\": 0.9, \"note\": {\"of\": [null, \"somebody\"]}"),
            "");
  for (const char* wrong :
       {"\"ratio\": \"fast\"", "\"ratio\": -1", "\"ratio\": 0", "\"ratio\": 1e999",
        "\"ratio\": NaN", "\"ratio\": null", "\"us\": [1, -1]", "\"us\": 1",
        "\"heuristic_us\": [\"1\"]", "\"problems\": \"N=1\"", "\"problems\": [1]",
        "\"operation\": 1", "\"imported_from\": []", "broken", "\"a\": 1, \"a\": 2"})
    EXPECT_NE(entry_refusal(config + ", " + wrong), "") << wrong;
  EXPECT_NE(entry_refusal(config + ", \"ratio\": -1")
                .find("expected \"ratio\" to be a number above 0, got -1"),
            std::string::npos);
  // The library reads `config` only if it occurs once and has no escapes. Other entries must be
  // rejected.
  EXPECT_NE(entry_refusal(config + ", \"config\": \"n=2\"").find("twice"), std::string::npos);
  EXPECT_NE(entry_refusal("\"config\": \"n=\\u0031\"").find("without escapes"), std::string::npos);
  std::string deep = config + ", \"a\": ";
  for (int i = 0; i < 1'000'000; ++i) deep += '[';
  EXPECT_NE(entry_refusal(deep).find("levels deep"), std::string::npos);
}

TEST(TunedTable, ConfigurationsAreReadStrictly) {
  EXPECT_EQ(lib::config_values("a=1 b=two"), (MetaValues{{"a", "1"}, {"b", "two"}}));
  EXPECT_TRUE(lib::config_values("").empty());
  for (const char* text : {"a", "a=", "=1", "a=1 a=2", "a=1  b=2"})
    EXPECT_THROW(lib::config_values(text), runtime::Error) << text;
}

TEST(TunedTable, MergeKeepsTheFasterEntry) {
  TableEntries into = {{"a", {{"config", "n=1"}, {"ratio", 0.9}}}};
  merge(&into,
        {{"a", {{"config", "n=2"}, {"ratio", 0.8}}}, {"b", {{"config", "n=3"}, {"ratio", 0.99}}}});
  merge(&into, {{"a", {{"config", "n=4"}, {"ratio", 0.95}}}});
  EXPECT_EQ(into.at("a").at("config"), "n=2");
  EXPECT_EQ(into.at("b").at("config"), "n=3");
}

TEST(TunedTable, RejectsPipesFoldersAndMissingFiles) {
  const auto folder = std::filesystem::path(::testing::TempDir());
  const std::string pipe = folder / ("pipe" + std::to_string(getpid()));
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(TunedTable::read(pipe), runtime::Error) << "a pipe without a writer";
  std::filesystem::remove(pipe);
  for (const std::string& path :
       {(folder / "none.json").string(), folder.string(), std::string("/dev/null")})
    EXPECT_THROW(TunedTable::read(path), runtime::Error) << path;
}

// A table in its own folder, which TearDown removes.
class WrittenTable : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static TableEntries entries(const std::string& config, int count = 1) {
    TableEntries all;
    for (int i = 0; i < count; ++i)
      all[lib::tuned_key("norm", 1, "cols=" + std::to_string(i), kH200)] = {{"config", config},
                                                                            {"ratio", 0.9}};
    return all;
  }
  std::string config_there() const {
    return entries_of(TunedTable::read(path_)).begin()->second.at("config");
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("ligerdsl_table_" + std::to_string(getpid()));
  const std::filesystem::path path_ = folder_ / "t.json";
};

TEST_F(WrittenTable, FullDiskKeepsTheOldTable) {
  write_table(path_, entries("n=1"));
  const auto limited = [this] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, 4096};  // limit of a file in bytes, as on a full disk
    setrlimit(RLIMIT_FSIZE, &small);
    try {
      write_table(path_, entries("n=2", 1000));
    } catch (const runtime::Error&) {
      _exit(7);
    }
    _exit(0);
  };
  EXPECT_EXIT(limited(), ::testing::ExitedWithCode(7), "");
  EXPECT_EQ(config_there(), "n=1");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "the temporary file must be removed";
}

TEST_F(WrittenTable, KilledWriterLeavesACompleteTable) {
  constexpr int kEntries = 2000, kKills = 30;
  write_table(path_, entries("n=1", kEntries));
  const TableEntries tables[] = {entries("n=1", kEntries), entries("n=2", kEntries)};
  for (int i = 0; i < kKills; ++i) {
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      for (;;) write_table(path_, tables[0]), write_table(path_, tables[1]);
    }
    usleep(1000 + 1700 * i);
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    EXPECT_EQ(TunedTable::read(path_).size(), size_t{kEntries}) << i;
  }
}

// Several writers add entries at the same time. Each entry must be in the table once.
TEST_F(WrittenTable, ConcurrentWritersLoseNoEntry) {
  constexpr int kWriters = 4, kEach = 25;
  std::vector<pid_t> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back(fork());
    ASSERT_GE(writers.back(), 0);
    if (writers.back() != 0) continue;
    for (int i = 0; i < kEach; ++i) {
      update_table(path_, [&](TableEntries* all) {
        const std::string key =
            "norm/1 cols=" + std::to_string(i) + " of=" + std::to_string(writer) + " @ c/1/m";
        (*all)[key] = {{"config", "n=1"}, {"ratio", 0.9}};
        return true;
      });
    }
    _exit(0);
  }
  for (const pid_t writer : writers) {
    int status = 0;
    waitpid(writer, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(TunedTable::read(path_).size(), size_t{kWriters * kEach});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "no temporary file may remain";
}

TEST_F(WrittenTable, UpdateStartsFromTheExistingEntries) {
  update_table(path_, [](TableEntries* all) { return !all->empty(); });
  EXPECT_EQ(TunedTable::read(path_).size(), 0u) << "an empty table must be valid";
  std::ofstream(path_).flush();  // an empty file, as from `touch`
  EXPECT_TRUE(entries_to_update(path_).empty());
  update_table(path_, [](TableEntries* all) {
    return (*all)["a/1 @ c"] = {{"config", "n=1"}}, true;
  });
  EXPECT_EQ(config_there(), "n=1");
  update_table(path_, [](TableEntries* all) { return all->clear(), false; });
  EXPECT_EQ(config_there(), "n=1") << "the table must not change";
  std::filesystem::create_symlink(path_, folder_ / "link");
  update_table(folder_ / "link",
               [](TableEntries* all) { return all->begin()->second["config"] = "n=2", true; });
  EXPECT_EQ(config_there(), "n=2");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  std::filesystem::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  update_table(folder_ / "dangling", [](TableEntries*) { return false; });
  EXPECT_EQ(TunedTable::read(folder_ / "dangling").size(), 0u);
  std::ofstream(path_) << "mine\n";
  for (const auto& call :
       {std::function<void()>([&] { entries_to_update(path_); }),
        std::function<void()>([&] { update_table(path_, [](TableEntries*) { return true; }); })})
    EXPECT_THROW(call(), runtime::Error);
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "mine") << "a file that is no table must not change";
  EXPECT_THROW(entries_to_update(folder_ / "none" / "t.json"), runtime::Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "fresh"));
  EXPECT_TRUE(entries_to_update(folder_ / "fresh").empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "fresh")) << "reading entries must create no file";
}

TEST_F(WrittenTable, RejectsSymbolicLinksOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a link of another user";
  write_table(path_, {});
  std::filesystem::create_symlink(path_, folder_ / "theirs");
  ASSERT_EQ(lchown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  const auto add = [](TableEntries* all) { return (*all)["a/1 @ c"] = {{"config", "n=1"}}, true; };
  EXPECT_THROW(update_table(folder_ / "theirs", add), runtime::Error);
  EXPECT_THROW(write_table(folder_ / "theirs", {}), runtime::Error);
  EXPECT_THROW(entries_to_update(folder_ / "theirs"), runtime::Error);
  EXPECT_EQ(TunedTable::read(path_).size(), 0u);
}

// The goal is 1 ms to read the table and 1 us for a look-up. The limits allow for a busy or slow
// machine.
TEST(TunedTable, TenThousandEntriesReadAndLookUpQuickly) {
  using Clock = std::chrono::steady_clock;
  TableEntries all;
  for (int i = 0; i < 10000; ++i) {
    Json entry = {
        {"config", "keep=registers rows=1 num_warps=8 vectors=0 num_ctas=1 min_ctas_per_sm=0"},
        {"ratio", 0.97},
        {"us", {38.01, 151.2}},
        {"heuristic_us", {39.0, 155.2}},
        {"problems", {"dtype=bf16 H=4096 N=4096"}},
        {"build", "0.1.0-0000000000000000"}};
    all[lib::tuned_key("norm", 1,
                       "cols=" + std::to_string(i) + " type=bf16 casting=llama has_weight=true",
                       kH200)] = entry;
  }
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("large_table_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << table_text(all);
  double read = 1e9, look_up = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    const TunedTable table = TunedTable::read(path);
    const auto middle = Clock::now();
    constexpr int kLookUps = 1000;
    for (int j = 0; j < kLookUps; ++j)
      EXPECT_TRUE(table.find(
          "norm", 1, "cols=" + std::to_string(7 * j) + " type=bf16 casting=llama has_weight=true",
          kH200));
    const std::chrono::duration<double> reading = middle - begin, looking = Clock::now() - middle;
    read = std::min(read, reading.count());
    look_up = std::min(look_up, looking.count() / kLookUps);
  }
  std::filesystem::remove(path);
  RecordProperty("read_us", static_cast<int>(read * 1e6));
  RecordProperty("look_up_ns", static_cast<int>(look_up * 1e9));
  std::printf("10,000 entries: read in %.0f us, looked up in %.0f ns\n", read * 1e6, look_up * 1e9);
  EXPECT_LT(read, 0.05);
  EXPECT_LT(look_up, 50e-6);
}

// A question with two fields, of which only `order` changes results.
class Question final : public lib::ConfigQuestion {
 public:
  std::string kernel() const override { return "norm"; }
  int version() const override { return 1; }
  std::string options() const override { return "cols=1"; }
  std::vector<MetaField> heuristic() const override {
    return {{"fast", "int", "1", {"1", "2"}, Bits::same},
            {"order", "int", "1", {"1", "2"}, Bits::row}};
  }
  std::string refusal(const MetaValues& values) const override {
    return values.count("fast") && values.at("fast") == "3" ? "there is no 3" : "";
  }
  std::string built(const MetaValues&) const override { return ""; }
};

std::shared_ptr<const TunedTable> table_with(const std::string& config, const std::string& name) {
  return std::make_shared<const TunedTable>(
      text_of({{lib::tuned_key("norm", 1, "cols=1", kH200), config}}), name);
}

TEST(TunedConfigs, FirstTableWithAValidEntryDecides) {
  const auto configs = [](std::vector<std::string> texts, runtime::Tuning tuning) {
    std::vector<std::shared_ptr<const TunedTable>> tables;
    for (const std::string& text : texts) tables.push_back(table_with(text, text));
    return lib::TunedConfigs(
               std::move(tables), tuning, [] { return true; }, [] { return kH200; })
        .look_up(Question());
  };
  using runtime::Tuning;
  EXPECT_EQ(configs({"fast=2", "fast=1"}, Tuning::any).values.at("fast"), "2");
  const auto passed = configs({"fast=3", "order=2"}, Tuning::any);
  EXPECT_EQ(passed.values, (MetaValues{{"order", "2"}}));
  ASSERT_EQ(passed.passed.size(), 1u);
  EXPECT_NE(passed.passed[0].find("there is no 3"), std::string::npos);
  for (const char* text : {"fast", "fast=2  order=1", "fast=2 fast=2"}) {
    const auto malformed = configs({text}, Tuning::any);
    EXPECT_TRUE(malformed.values.empty()) << text;
    EXPECT_EQ(malformed.passed.size(), 1u) << text;
  }
  EXPECT_TRUE(configs({"order=2"}, Tuning::same).values.empty()) << "order changes a row's bits";
  EXPECT_EQ(configs({"order=1 fast=2"}, Tuning::same).values.at("fast"), "2")
      << "order has the heuristic's value";
  EXPECT_TRUE(configs({}, Tuning::any).values.empty());
}

TEST(TunedConfigs, FindsAuthorKernelByFixedFieldsAndSettings) {
  const std::vector<MetaField> fields = {{"type", "dtype", "f32", {}, Bits::fixed},
                                         {"block", "int", "8", {"8", "16"}, Bits::same}};
  const std::string options = tuned_options(fields, " y=x  x=8x4 ");
  EXPECT_EQ(options, "x=8x4 y=x type=f32");
  EXPECT_EQ(tuned_options(fields, "type=f32 x=8x4 block=16 y=x"), options)
      << "as a user may pass them to tune";
  const auto table = std::make_shared<const TunedTable>(
      text_of({{lib::tuned_key("mine", 1, options, kH200), "block=16 num_warps=2"}}), "table");
  const auto configs = [&](runtime::Tuning tuning, bool gpu) {
    bool asked = false;
    const lib::TunedConfigs of(
        {table}, tuning, [=] { return gpu; },
        [&] {
          asked = true;
          return kH200;
        });
    const auto entry = of.author_entry("mine", options);
    std::string config(entry ? entry->config : "");
    EXPECT_EQ(asked, !config.empty());
    if (entry) {
      EXPECT_EQ(entry->model, kH200.model);
    }
    return config;
  };
  EXPECT_EQ(configs(runtime::Tuning::any, true), "block=16 num_warps=2");
  EXPECT_EQ(configs(runtime::Tuning::any, false), "") << "an entry of a GPU";
  EXPECT_EQ(configs(runtime::Tuning::same, true), "");
  EXPECT_EQ(tuned_values("block=16 num_warps=2"),
            (MetaValues{{"block", "16"}, {"num_warps", "2"}}));
  EXPECT_TRUE(tuned_values("").empty());
  EXPECT_THROW(tuned_values("block"), Error);
  EXPECT_THROW(tuned_values("block=8 block=16"), Error);
}

TEST(TunedConfigs, EqualNumbersHaveEqualText) {
  const auto options = [](const char* type, const char* value) {
    return tuned_options({{"scale", type, value, {}, Bits::fixed}}, "");
  };
  EXPECT_EQ(options("number", "0.1"), "scale=0.1");
  EXPECT_EQ(options("number", "0.10000000149011612"), "scale=0.1")
      << "as the text of a float field";
  EXPECT_EQ(options("number", "1.50"), options("number", "1.5"));
  EXPECT_EQ(options("number", "1e300"), "scale=1e+300");
  EXPECT_EQ(options("number", "1e-300"), "scale=1e-300");
  EXPECT_EQ(options("int", "007"), "scale=7");
  EXPECT_EQ(options("int", "x"), "scale=x") << "the kernel refuses the value later";
}

}  // namespace
}  // namespace ligerdsl::tune
