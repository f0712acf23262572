// Checkpoints are restored exactly, and damaged ones are refused with a reason.
#include "checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

namespace train {
namespace {

using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    saved_.model.layers = 3;
    saved_.train.lr = 0.1;
    saved_.text = 0xfedcba9876543210u;
    saved_.step = 3;
    saved_.history = {{5.5f, 4.25f, 3.125f}, {{2, 6.5}, {3, 1.0 / 3}}};
    for (int i = 0; i < 10; ++i) {
      saved_.weights.push_back(0.5f * i);
      saved_.m.push_back(-1.0f * i);
      saved_.v.push_back(i * 1e-20f);
    }
    save_checkpoint(path_, saved_);
    bytes_ = read();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<char> read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::vector<char>& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Returns the reason of a refusal, or "".
  std::string refusal() const { return refusal(saved_.model); }
  std::string refusal(const ModelConfig& expected) const {
    try {
      load_checkpoint(path_, expected);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("checkpoint_test_" + std::to_string(getpid()));
  std::filesystem::path path_ = folder_ / "run";
  Checkpoint saved_;
  std::vector<char> bytes_;
};

TEST_F(CheckpointTest, IsRestoredExactly) {
  Checkpoint loaded = load_checkpoint(path_, saved_.model);
  EXPECT_EQ(loaded.step, 3);
  EXPECT_EQ(loaded.train.lr, 0.1);
  EXPECT_EQ(loaded.text, saved_.text);
  EXPECT_EQ(loaded.weights, saved_.weights);
  EXPECT_EQ(loaded.m, saved_.m);
  EXPECT_EQ(loaded.v, saved_.v);
  EXPECT_EQ(loaded.history, saved_.history);
  EXPECT_EQ(read_summary(path_).step, 3);
  EXPECT_EQ(read_summary(path_).model, saved_.model);
}

TEST_F(CheckpointTest, OtherModelIsRefusedWithMatchingOptions) {
  EXPECT_THAT(refusal(ModelConfig{.layers = 4}),
              HasSubstr("layers 3 (this run: 4); to continue from it, pass --layers 3"));
}

TEST_F(CheckpointTest, EveryTruncationIsRefused) {
  for (size_t length = 0; length < bytes_.size(); ++length) {
    write({bytes_.begin(), bytes_.begin() + static_cast<int64_t>(length)});
    EXPECT_THAT(refusal(), HasSubstr(length < 8 ? "not a checkpoint" : "the file is truncated"))
        << length << " bytes";
  }
}

TEST_F(CheckpointTest, EveryFlippedByteIsRefused) {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    std::vector<char> damaged = bytes_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write(damaged);
    EXPECT_THAT(refusal(), HasSubstr(i < 8    ? "not a checkpoint"
                                     : i < 12 ? "format version"
                                              : "damaged"))
        << "byte " << i;
  }
}

TEST_F(CheckpointTest, TrailingBytesAreRefused) {
  bytes_.push_back(0);
  write(bytes_);
  EXPECT_THAT(refusal(), HasSubstr("1 bytes too long"));
}

// An impossible length must be refused before memory is allocated.
TEST_F(CheckpointTest, ImpossibleLengthIsRefused) {
  std::string text(bytes_.begin(), bytes_.end());
  const size_t at = text.find("\"elements\":10") + std::strlen("\"elements\":");
  text.replace(at, 2, "99");
  write({text.begin(), text.end()});
  EXPECT_THAT(refusal(), HasSubstr("truncated"));
}

TEST_F(CheckpointTest, OlderFormatsAreRefusedByName) {
  bytes_[8] = 1;
  write(bytes_);
  EXPECT_THAT(refusal(), HasSubstr("format version 1, this program reads 2"));
}

TEST_F(CheckpointTest, NonfiniteNumbersAreNeverSaved) {
  for (std::vector<float> Checkpoint::*array :
       {&Checkpoint::weights, &Checkpoint::m, &Checkpoint::v}) {
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Checkpoint spoiled = saved_;
      (spoiled.*array)[7] = bad;
      EXPECT_THROW(save_checkpoint(path_, spoiled), Diverged);
      EXPECT_EQ(read(), bytes_) << "the good file was touched";
    }
  }
}

TEST_F(CheckpointTest, ForeignFilesAreRefused) {
  write({'t', 'e', 'x', 't'});
  EXPECT_THAT(refusal(), HasSubstr("not a checkpoint of train_llama"));
  EXPECT_THROW(read_summary(path_), std::runtime_error);
}

TEST_F(CheckpointTest, DifferentSettingsAreNamed) {
  EXPECT_EQ(differences(saved_, saved_.train, saved_.text), "");
  TrainConfig other = saved_.train;
  other.batch = 16;
  EXPECT_EQ(differences(saved_, other, 0), "another text, --batch 16 (was 8)");
}

}  // namespace
}  // namespace train
