#include "runtime/system/safe_open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "support.h"

namespace ligerdsl::runtime {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kSomebodyElse = 12345;

// A folder with the permissions of /tmp, in which another user has created files. The test needs
// root to give files to another user.
class SharedFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make files of another user";
    ASSERT_EQ(chmod(shared_.path().c_str(), 01777), 0);
    test::write_file(victim_, "mine");
  }
  std::string in_shared(const std::string& name) const { return shared_.path() + "/" + name; }
  static void give_away(const std::string& path) {
    ASSERT_EQ(lchown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
  }
  void expect_refused(const std::string& path, const std::string& why) {
    std::string problem;
    const File file(open_to_write(path, O_WRONLY | O_CREAT | O_TRUNC, 0600, &problem));
    EXPECT_FALSE(file.good()) << path;
    EXPECT_NE(problem.find(why), std::string::npos) << problem;
    EXPECT_EQ(test::read_file(victim_), "mine");
  }

  test::TempFolder shared_, own_;
  const std::string victim_ = own_.path() + "/victim";
};

std::string problem_of(const std::string& path, int flags) {
  std::string problem;
  const File file(open_to_write(path, flags, 0600, &problem));
  return file.good() ? "" : problem;
}

TEST_F(SharedFolder, RejectsSymbolicLinksOfOtherUsers) {
  fs::create_symlink(victim_, in_shared("file"));
  give_away(in_shared("file"));
  expect_refused(in_shared("file"), "symbolic link of another user (uid 12345)");
  fs::create_directory_symlink(own_.path(), in_shared("folder"));
  give_away(in_shared("folder"));
  expect_refused(in_shared("folder/victim"), "symbolic link of another user");
  // A link of this user that leads to a link of the other user is refused, too.
  fs::create_symlink(in_shared("file"), own_.path() + "/to_theirs");
  expect_refused(own_.path() + "/to_theirs", "symbolic link of another user");
  std::string problem;
  EXPECT_FALSE(File(open_folder(in_shared("folder/below"), 0700, &problem)).good());
  EXPECT_FALSE(fs::exists(own_.path() + "/below"))
      << "nothing is created at the target of such a link";
  EXPECT_EQ(find_place(in_shared("folder/new"), &problem), nullptr);
}

TEST_F(SharedFolder, RejectsFilesOfOtherUsersInAStickyFolder) {
  test::write_file(in_shared("theirs"), "theirs");
  give_away(in_shared("theirs"));
  expect_refused(in_shared("theirs"), "belongs to another user (uid 12345)");
  EXPECT_EQ(test::read_file(in_shared("theirs")), "theirs")
      << "the file is not truncated before the check";
  ASSERT_EQ(mkfifo(in_shared("pipe").c_str(), 0666), 0);
  give_away(in_shared("pipe"));
  expect_refused(in_shared("pipe"), "belongs to another user");  // must not wait for a reader
  // In a folder without the sticky bit, users of a group may share files.
  ASSERT_EQ(chmod(shared_.path().c_str(), 02775), 0);
  EXPECT_EQ(problem_of(in_shared("theirs"), O_WRONLY), "");
}

TEST_F(SharedFolder, RejectsHardLinks) {
  fs::create_hard_link(victim_, in_shared("second"));
  expect_refused(in_shared("second"), "hard link");
}

TEST_F(SharedFolder, OpensOwnAndNewFiles) {
  EXPECT_EQ(problem_of(in_shared("new"), O_WRONLY | O_CREAT), "");
  EXPECT_EQ(problem_of(in_shared("new"), O_WRONLY), "");
  std::string problem;
  EXPECT_TRUE(File(open_folder(in_shared("a/b/c"), 0700, &problem)).good()) << problem;
  fs::create_symlink(victim_, in_shared("own_link"));
  EXPECT_EQ(problem_of(in_shared("own_link"), O_WRONLY), "");
}

TEST(SafeOpen, FollowsOwnLinksToMissingFiles) {
  const test::TempFolder folder;
  const std::string path = folder.path();
  fs::create_directory(path + "/real");
  fs::create_directory_symlink("real", path + "/link");
  fs::create_symlink("../real/./new", path + "/real/dangling");
  EXPECT_EQ(problem_of(path + "/link/../link/dangling", O_WRONLY | O_CREAT), "");
  EXPECT_TRUE(fs::is_regular_file(path + "/real/new"));
  fs::create_symlink("circle", path + "/circle");
  EXPECT_NE(problem_of(path + "/circle", O_WRONLY | O_CREAT).find("symbolic links"),
            std::string::npos);
}

TEST(SafeOpen, ErrorNamesTheMissingFolder) {
  const test::TempFolder folder;
  EXPECT_EQ(problem_of(folder.path() + "/none/below/file", O_WRONLY | O_CREAT),
            '"' + folder.path() + "/none\": No such file or directory");
  EXPECT_NE(problem_of(folder.path(), O_WRONLY | O_CREAT).find("Is a directory"),
            std::string::npos);
  EXPECT_NE(problem_of("", O_WRONLY | O_CREAT), "");
}

TEST(SafeOpen, OpensDescriptorsAndDevicesByName) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(problem_of("/proc/self/fd/" + std::to_string(ends[1]), O_WRONLY), "");
  EXPECT_EQ(problem_of("/dev/fd/" + std::to_string(ends[1]), O_WRONLY), "");
  EXPECT_EQ(problem_of("/dev/null", O_WRONLY | O_CREAT | O_TRUNC), "");
  for (const int end : ends) close(end);
}

TEST(SafeOpen, ReplacesALinkAndNotItsTarget) {
  const test::TempFolder folder, other;
  test::write_file(other.path() + "/target", "old");
  fs::create_symlink(other.path() + "/target", folder.path() + "/file");
  const File at(open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(replace_file(at.get(), "file", "new", 0600));
  EXPECT_EQ(test::read_file(other.path() + "/target"), "old");
  EXPECT_FALSE(fs::is_symlink(folder.path() + "/file"));
  EXPECT_EQ(test::read_file(folder.path() + "/file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1)
      << "no temporary file is left";
}

}  // namespace
}  // namespace ligerdsl::runtime
