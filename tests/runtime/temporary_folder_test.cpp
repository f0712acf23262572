#include "runtime/environment/temporary_folder.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support.h"

namespace ligerdsl::runtime {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(TemporaryFolder, IsPrivateAndRemovesItsContents) {
  std::string path;
  {
    const TemporaryFolder folder, another;
    path = folder.path();
    EXPECT_NE(path, another.path());
    EXPECT_TRUE(fs::path(path).is_absolute());
    EXPECT_EQ(mode_of(path), 0700u);
    EXPECT_EQ(mode_of(folder.write("file", "bytes")), 0600u);
    EXPECT_EQ(test::read_file(path + "/file"), "bytes");
    fs::create_directories(path + "/more/folders");
    test::write_file(path + "/more/folders/file", "x");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, FileSizeLimitIsAnError) {
  EXPECT_TRUE(test::passes_in_child([] {
    const rlimit limit{10, 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const TemporaryFolder folder;
    const std::string text = test::expect_error(
        Status::execution_failed, [&] { folder.write("file", "more than ten bytes"); });
    return text.find("File too large") != std::string::npos;
  }));
}

TEST(TemporaryFolder, RejectsExistingFilesAndLinks) {
  const test::TempFolder outside;
  const std::string victim = outside.path() + "/victim";
  test::write_file(victim, "mine");
  {
    const TemporaryFolder folder;
    fs::create_symlink(victim, folder.path() + "/link");
    fs::create_directory_symlink(outside.path(), folder.path() + "/folder");
    folder.write("file", "first");
    for (const char* name : {"link", "file"}) {
      const std::string text =
          test::expect_error(Status::execution_failed, [&] { folder.write(name, "second"); });
      EXPECT_NE(text.find("File exists"), std::string::npos) << text;
    }
    EXPECT_EQ(test::read_file(folder.path() + "/file"), "first");
  }
  EXPECT_EQ(test::read_file(victim), "mine") << "links are removed, not their targets";
}

}  // namespace
}  // namespace ligerdsl::runtime
