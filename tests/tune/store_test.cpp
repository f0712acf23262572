#include "lib/tune/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "runtime/system/status.h"

namespace ligerdsl::tune {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("ligerdsl_store_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    path_ = folder_ / "deep" / "trials.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Trial trial(const std::string& key) {
    Trial one;
    one.key = key;
    one.kernel = "k";
    one.config = "num_warps=8";
    one.device = {{"arch", "cpu"}, {"units", 2}, {"model", "m"}};
    one.fate = Fate::wrong;
    one.reason = "y: \"[0]\" is\n1";
    one.us = {1.5, 2};
    return one;
  }

  std::filesystem::path folder_, path_;
};

TEST_F(StoreTest, KeepsTrials) {
  Store store(path_);
  EXPECT_TRUE(store.read().empty());
  store.append(trial("a"));
  store.append(trial("b"));
  const std::vector<Trial> read = Store(path_).read();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].to_json(), trial("b").to_json());
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
    return "";
  } catch (const runtime::Error& error) {
    return error.what();
  }
}

TEST_F(StoreTest, LockWaitEndsAtItsLimitAndNamesTheHolder) {
  Store store(path_), other(path_);
  const runtime::File held(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  const std::string text =
      refusal([&] { store.append(trial("a"), -1, std::chrono::milliseconds(50)); });
  EXPECT_NE(text.find("process " + std::to_string(getpid()) + " ("), std::string::npos) << text;
  EXPECT_NE(text.find("--store"), std::string::npos) << text;
  std::thread unlocks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    flock(held.get(), LOCK_UN);
  });
  store.append(trial("b"));
  unlocks.join();
  ASSERT_EQ(other.read().size(), 1u) << "the refused trial must not be stored";
}

TEST_F(StoreTest, StopRequestEndsLockWait) {
  Store store(path_);
  const runtime::File held(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_NE(refusal([&] { store.append(trial("a"), ends[0], std::chrono::hours(1)); }), "");
  for (const int end : ends) close(end);
}

TEST_F(StoreTest, RejectsSymbolicLinksOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a link of another user";
  std::filesystem::create_directories(path_.parent_path());
  const auto victim = folder_ / "victim";
  std::ofstream(victim) << "mine\n";
  std::filesystem::create_symlink(victim, path_);
  ASSERT_EQ(lchown(path_.c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal([&] { const Store store(path_); }).find("symbolic link of another user"),
            std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(victim), 5u);
}

TEST_F(StoreTest, IncompleteLastLineLosesOnlyItself) {
  const std::string whole = trial("torn").to_json().dump();
  for (size_t length = 1; length < whole.size(); ++length) {
    std::filesystem::remove(path_);
    Store store(path_);
    store.append(trial("a"));
    std::ofstream(path_, std::ios::app) << whole.substr(0, length);
    ASSERT_EQ(store.read().size(), 1u) << length;
    EXPECT_EQ(store.read().back().key, "a") << length;
    store.append(trial("b"));
    ASSERT_EQ(store.read().size(), 2u) << length;
    EXPECT_EQ(store.read().back().key, "b") << length;
  }
}

TEST_F(StoreTest, ForeignLineIsRejectedWithItsNumber) {
  Store store(path_);
  store.append(trial("a"));
  std::ofstream(path_, std::ios::app) << "{\"key\": 1}\n";
  store.append(trial("b"));
  try {
    store.read();
    FAIL() << "read";
  } catch (const runtime::Error& error) {
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

// Writes `text` to `path` and returns the store's error, or an empty string if the store reads it.
std::string refusal(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  try {
    read_trials(path);
    return "";
  } catch (const runtime::Error& error) {
    return error.what();
  }
}

TEST_F(StoreTest, RejectsTextThatIsNotATrialOnAnyLine) {
  const std::string whole = trial("a").to_json().dump();
  for (const std::string text : {"hello", "hello\n", "# Title\n\nA page.\n", "[]", "{}\n",
                                 "\x7f"
                                 "ELF",
                                 "null\n"}) {
    EXPECT_NE(refusal(path_, text).find("line 1: expected a trial"), std::string::npos)
        << text << refusal(path_, text);
    EXPECT_NE(refusal(path_, whole + "\n" + text).find("line 2: expected a trial"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(refusal(path_, ""), "");
  EXPECT_EQ(refusal(path_, whole), "") << "without a line end";
  EXPECT_EQ(refusal(path_, "\xef\xbb\xbf" + whole + "\r\n\r\n" + whole + "\r\n"), "")
      << "as an editor on Windows stores it";
}

TEST_F(StoreTest, RejectsMembersWithInvalidValues) {
  const auto changed = [&](const char* name, const std::string& value) {
    Json json = trial("a").to_json();
    std::string text = json.dump();
    const std::string member = std::string("\"") + name + "\":";
    const size_t at = text.find(member) + member.size();
    text.replace(at, json.at(name).dump().size(), value);
    return refusal(path_, text + "\n");
  };
  for (const auto& [name, value] : std::vector<std::pair<const char*, const char*>>{
           {"ratio", "-1"},      {"ratio", "\"fast\""},
           {"ratio", "NaN"},     {"ratio", "1e999"},
           {"ratio", "null"},    {"us", "[1, 0]"},
           {"us", "[-1]"},       {"us", "3"},
           {"us", "[\"3\"]"},    {"samples", "1e300"},
           {"samples", "-5"},    {"samples", "99999999999999999999"},
           {"version", "1.5"},   {"heuristic", "0"},
           {"problems", "[1]"},  {"problems", "{}"},
           {"device", "7"},      {"device", "{\"units\": \"many\"}"},
           {"fate", "\"fine\""}, {"ceiling", "{\"copy_gb_per_s\": []}"},
           {"elapsed", "-2"},    {"options", "[]"}})
    EXPECT_NE(changed(name, value).find("line 1: expected a trial"), std::string::npos)
        << name << " " << value;
  EXPECT_NE(changed("ratio", "-1").find("expected \"ratio\" to be a number of 0 or more, got -1"),
            std::string::npos)
      << changed("ratio", "-1");
  EXPECT_NE(changed("date", "\"\", \"date\": \"\"").find("got \"date\" twice"), std::string::npos);
}

TEST_F(StoreTest, DeepNestingDoesNotOverflowTheStack) {
  constexpr size_t kDeep = 1'000'000;
  for (const auto& [open, close] :
       {std::pair<std::string, std::string>{"[", "]"}, {"{\"a\":", "}"}}) {
    std::string text = "{\"key\": ";
    for (size_t i = 0; i < kDeep; ++i) text += open;
    EXPECT_NE(refusal(path_, text + "1").find("levels deep"), std::string::npos);
    for (size_t i = 0; i < kDeep; ++i) text += close;
    EXPECT_NE(refusal(path_, text + "}\n").find("levels deep"), std::string::npos);
  }
}

TEST_F(StoreTest, RejectsMissingFilesAndFolders) {
  EXPECT_THROW(read_trials(folder_ / "none"), runtime::Error);
  std::filesystem::create_directories(folder_);
  try {
    read_trials(folder_);
    FAIL() << "a folder was read";
  } catch (const runtime::Error& error) {
    EXPECT_NE(std::string(error.what()).find("directory"), std::string::npos) << error.what();
  }
  if (access("/dev/zero", R_OK) == 0) {
    EXPECT_THROW(read_trials("/dev/zero"), runtime::Error) << "the file has no end";
  }
}

TEST_F(StoreTest, ConcurrentTunersAppendWholeLines) {
  constexpr int kEach = 200;
  std::vector<std::thread> tuners;
  for (const char* name : {"a", "b", "c"}) {
    tuners.emplace_back([this, name] {
      Store store(path_);
      for (int i = 0; i < kEach; ++i) store.append(trial(name));
    });
  }
  for (std::thread& tuner : tuners) tuner.join();
  EXPECT_EQ(std::ssize(Store(path_).read()), 3 * kEach);
}

TEST_F(StoreTest, FullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  Store store("/dev/full");
  EXPECT_THROW(store.append(trial("a")), runtime::Error);
}

}  // namespace
}  // namespace ligerdsl::tune
