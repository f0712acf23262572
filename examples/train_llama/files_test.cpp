// Tests that a file is replaced as a whole or stays unchanged, and that no temporary file remains.
#include "files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  static std::string refusal(const std::function<void()>& body) {
    try {
      body();
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "";
  }

  const fs::path folder_ = fs::temp_directory_path() / ("files_test_" + std::to_string(getpid()));
  const fs::path path_ = folder_ / "file";
};

TEST_F(FilesTest, ReplacesTheWholeFile) {
  write_whole(path_, "a long first text");
  const std::string_view pieces[] = {"se", "", "cond"};
  write_whole(path_, pieces);
  EXPECT_EQ(read(path_), "second");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FilesTest, KeepsThePermissions) {
  write_whole(path_, "first");
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  write_whole(path_, "second");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(FilesTest, WritesThroughALink) {
  write_whole(path_, "first");
  fs::create_symlink("file", folder_ / "link");
  write_whole(folder_ / "link", "second");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(path_), "second");
}

// A file-size limit acts like a full disk, and also applies if the test runs as root.
TEST_F(FilesTest, FailureKeepsTheOldFile) {
  write_whole(path_, "first");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string why = refusal([&] { write_whole(path_, std::string(2000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_THAT(why, HasSubstr(path_.string() + ": File too large"));
  EXPECT_EQ(read(path_), "first");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FilesTest, LeftoverPartIsReused) {
  std::ofstream(temporary_of(folder_ / "file"))
      << "half a checkpoint that is longer than the new one";
  write_whole(path_, "whole");
  EXPECT_EQ(read(path_), "whole");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FilesTest, SimilarNamesAreNotTouched) {
  const fs::path other = folder_ / "file.part";
  std::ofstream(other) << "precious";
  require_writable(path_);
  write_whole(path_, "whole");
  EXPECT_EQ(read(other), "precious");
  EXPECT_EQ(read(path_), "whole");
}

TEST_F(FilesTest, SecondWriterIsRefused) {
  write_whole(path_, "first");
  const int other = open(temporary_of(folder_ / "file").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_THAT(refusal([&] { write_whole(path_, "second"); }),
              HasSubstr("another process is writing this file"));
  close(other);
  EXPECT_EQ(read(path_), "first");
  write_whole(path_, "second");
  EXPECT_EQ(read(path_), "second");
}

// A symbolic link that another user puts in the folder must not redirect the bytes.
TEST_F(FilesTest, LinkedPartIsRefused) {
  std::ofstream(folder_ / "victim") << "precious";
  fs::create_symlink("victim", temporary_of(folder_ / "file"));
  EXPECT_NE(refusal([&] { write_whole(path_, "x"); }), "");
  EXPECT_EQ(read(folder_ / "victim"), "precious");
}

TEST_F(FilesTest, SpecialFilesAreWrittenDirectly) {
  write_whole("/dev/null", "nothing");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(refusal([] { write_whole("/dev/full", "x"); }),
              HasSubstr("/dev/full: No space left on device"));
}

TEST_F(FilesTest, RequireWritableTouchesNothing) {
  require_writable(path_);
  EXPECT_EQ(files(), 0u);
  write_whole(path_, "first");
  require_writable(path_);
  EXPECT_EQ(read(path_), "first");
  EXPECT_EQ(files(), 1u);
  EXPECT_THAT(refusal([&] { require_writable(folder_ / "none" / "file"); }),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal([&] { require_writable(path_ / "file"); }), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal([&] { require_writable(folder_); }), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace train
