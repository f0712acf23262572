#include "lib/tune/store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/status.h"

namespace ligerdsl::tune {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("ligerdsl_store_" + std::to_string(getpid()));
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

TEST_F(StoreTest, ATornLineCostsItselfOnly) {
  Store store(path_);
  store.append(trial("a"));
  const std::string whole = trial("torn").to_json().dump();
  for (size_t length = 1; length < whole.size(); ++length) {
    std::ofstream(path_, std::ios::app) << whole.substr(0, length);
    EXPECT_EQ(store.read().back().key, store.read().size() == 1 ? "a" : "b");
    store.append(trial("b"));
    EXPECT_EQ(store.read().back().key, "b") << length;
  }
  EXPECT_EQ(store.read().size(), whole.size());
}

TEST_F(StoreTest, AnotherFileIsRefusedByItsLine) {
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

TEST_F(StoreTest, TwoTunersAppendWholeLines) {
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

TEST_F(StoreTest, AFullDiskIsAnErrorThatKeepsWhatWasThere) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  Store store("/dev/full");
  EXPECT_THROW(store.append(trial("a")), runtime::Error);
}

}  // namespace
}  // namespace ligerdsl::tune
