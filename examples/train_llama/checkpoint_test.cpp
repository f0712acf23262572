// Checkpoints come back as they were, and damaged ones are refused.
#include "checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace train {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 10; ++i) {
      saved_.weights.push_back(0.5f * i);
      saved_.m.push_back(-1.0f * i);
      saved_.v.push_back(i * 1e-20f);
    }
    save_checkpoint(path_, saved_);
    std::ifstream in(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::vector<char>& bytes) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("checkpoint_test_" + std::to_string(getpid()));
  Checkpoint saved_{ModelConfig{.layers = 3}, 17, {}, {}, {}};
  std::vector<char> bytes_;
};

TEST_F(CheckpointTest, ComesBackAsItWas) {
  Checkpoint loaded = load_checkpoint(path_, saved_.model);
  EXPECT_EQ(loaded.step, 17);
  EXPECT_EQ(loaded.weights, saved_.weights);
  EXPECT_EQ(loaded.m, saved_.m);
  EXPECT_EQ(loaded.v, saved_.v);
}

TEST_F(CheckpointTest, AnotherModelIsRefused) {
  EXPECT_THROW(load_checkpoint(path_, ModelConfig{.layers = 4}), std::runtime_error);
}

TEST_F(CheckpointTest, EveryTruncationIsRefused) {
  for (size_t length = 0; length < bytes_.size(); ++length) {
    write({bytes_.begin(), bytes_.begin() + static_cast<int64_t>(length)});
    EXPECT_THROW(load_checkpoint(path_, saved_.model), std::runtime_error) << length << " bytes";
  }
}

TEST_F(CheckpointTest, EveryFlippedByteIsRefused) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<char> damaged = bytes_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write(damaged);
    EXPECT_THROW(load_checkpoint(path_, saved_.model), std::runtime_error) << "byte " << i;
  }
}

}  // namespace
}  // namespace train
