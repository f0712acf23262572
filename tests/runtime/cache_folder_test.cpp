// Tests which files trimming removes from the cache folder, and which files it must leave.
#include "runtime/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "runtime/cache/disk_cache.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

void make_old(const std::string& path, time_t when = 1000) {
  const timespec times[2] = {{when, 0}, {when, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

std::string name_of(const char* key, const char* suffix = ".art") {
  return entry_name(sha256(key), suffix);
}

TEST(CacheFolder, TrimRemovesLeastRecentlyUsedFirst) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  for (const char* key : {"a", "b", "c"}) cache.write(sha256(key), ".art", std::string(1000, 'x'));
  make_old(folder.path() + "/" + name_of("b"));
  const int64_t bytes = cache.usage().bytes;
  EXPECT_EQ(cache.folder().trim({.max_bytes = bytes, .target_bytes = 0}).removed.entries, 0);
  const TrimRequest request{.max_bytes = 2500, .target_bytes = 2500};
  TrimRequest only_say = request;
  only_say.dry_run = true;
  for (const TrimRequest& each : {only_say, request}) {
    const TrimResult result = cache.folder().trim(each);
    EXPECT_EQ(result.removed.entries, 1);
    EXPECT_EQ(result.removed.bytes, bytes / 3);
    EXPECT_EQ(result.left.entries, 2);
    EXPECT_EQ(result.left.bytes, bytes - bytes / 3);
    EXPECT_EQ(cache.usage().entries, each.dry_run ? 3 : 2);
  }
  EXPECT_FALSE(cache.read(sha256("b"), ".art"));
  EXPECT_TRUE(cache.read(sha256("a"), ".art"));
  cache.folder().trim({});
  EXPECT_EQ(cache.usage().entries, 0);
}

TEST(CacheFolder, TrimRemovesOnlyOldTemporaryFilesOfTheLibrary) {
  TempFolder folder;
  const CacheFolder cache(folder.path(), false);
  const std::string whole = encode_entry_head({sha256("a"), ".art"}, {}, "payload") + "payload";
  const std::set<std::string> ours = {".ligerdsl-1-2-0.tmp", ".ligerdsl-1-2-1.tmp",
                                      ".ligerdsl-1-2-2.tmp"};
  const std::set<std::string> young = {".ligerdsl-1-2-4.tmp"};
  const std::set<std::string> foreign = {
      ".ligerdsl-1-2-5.tmp",   ".ligerdsl-x.tmp",    ".ligerdsl-1-2.tmp",   ".tmp-1-2-3",
      ".ligerdsl-1-2-3-4.tmp", ".ligerdsl--2-3.tmp", ".ligerdsl-1-2-3.tmp~"};
  int cut = 0;  // lengths of 0, 90 and 180 bytes: nothing, part of the header, part of the payload
  for (const std::string& name : ours)
    test::write_file(folder.path() + "/" + name, whole.substr(0, static_cast<size_t>(cut++) * 90));
  for (const std::string& name : young) test::write_file(folder.path() + "/" + name, whole);
  for (const std::string& name : foreign)
    test::write_file(folder.path() + "/" + name, "somebody else's");
  for (const auto& entry : fs::directory_iterator(folder.path())) make_old(entry.path());
  for (const std::string& name : young)
    make_old(folder.path() + "/" + name, time(nullptr) - kTemporaryLifetime + 60);
  EXPECT_EQ(cache.trim({.dry_run = true}).temporaries, 3);
  EXPECT_EQ(cache.trim({.max_bytes = 1 << 20, .target_bytes = 1 << 20}).temporaries, 3);
  std::set<std::string> left = foreign;
  left.insert(young.begin(), young.end());
  EXPECT_EQ(names_in(folder.path()), left);
}

// Trimming and clearing must leave files that the library did not write, whatever their names.
TEST(CacheFolder, TrimKeepsForeignFiles) {
  TempFolder folder, outside;
  const std::string path = folder.path() + "/";
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(sha256("own"), ".art", "payload");
  const std::string whole = test::read_file(path + name_of("own"));
  test::write_file(outside.path() + "/precious", "precious");
  test::write_file(outside.path() + "/" + name_of("own"), whole);

  test::write_file(path + "notes.art", "same suffix");
  test::write_file(path + std::string(64, 'f') + ".txt", "same length");
  test::write_file(path + std::string(64, 'F') + ".art", whole);     // our names have no capitals
  test::write_file(path + name_of("other content"), "LGDSLKR");      // shorter than a header
  test::write_file(path + name_of("text"), std::string(5000, 't'));  // our name, other content
  test::write_file(path + name_of("renamed"), whole);                // entry under another's name
  test::write_file(path + name_of("own", ".cubin"), whole);          // entry with another suffix
  fs::create_symlink(outside.path() + "/precious", path + name_of("link"));
  fs::create_symlink(outside.path() + "/" + name_of("own"), path + name_of("link to an entry"));
  fs::create_symlink(outside.path(), path + name_of("link to a folder"));
  fs::create_symlink(outside.path() + "/precious", path + ".ligerdsl-1-1-1.tmp");
  fs::create_directory(path + name_of("folder"));
  test::write_file(path + name_of("folder") + "/inside", "x");
  fs::create_directory(path + ".ligerdsl-1-1-2.tmp");
  fs::create_hard_link(outside.path() + "/precious", path + name_of("hard link"));
  cache.write(sha256("linked"), ".art", "payload");
  fs::create_hard_link(path + name_of("linked"), outside.path() + "/backup");
  ASSERT_EQ(mkfifo((path + name_of("pipe")).c_str(), 0600), 0);
  std::set<std::string> foreign = names_in(folder.path());
  foreign.erase(name_of("own"));
  for (const auto& entry : fs::directory_iterator(folder.path())) make_old(entry.path());

  const TrimResult result = cache.folder().trim({});
  EXPECT_EQ(result.removed.entries, 1);
  EXPECT_EQ(result.left.entries, 0);
  EXPECT_EQ(result.temporaries, 0);
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(names_in(folder.path()), foreign);
  EXPECT_EQ(test::read_file(outside.path() + "/precious"), "precious");
  EXPECT_EQ(test::read_file(outside.path() + "/" + name_of("own")), whole);
  EXPECT_TRUE(fs::exists(path + name_of("folder") + "/inside"));
}

// Foreign files do not count towards the size limit, so a large one evicts no entry.
TEST(CacheFolder, ForeignFilesDoNotCount) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(sha256("own"), ".art", "payload");
  test::write_file(folder.path() + "/" + name_of("text"), std::string(100000, 't'));
  const TrimResult result = cache.folder().trim({.max_bytes = 5000, .target_bytes = 5000});
  EXPECT_EQ(result.removed.entries, 0);
  EXPECT_EQ(result.left.entries, 1);
  EXPECT_TRUE(cache.read(sha256("own"), ".art"));
}

TEST(CacheFolder, TrimKeepsFilesOfOtherUsers) {
  if (geteuid() != 0) {
    printf("[SKIP] giving a file to another user needs root\n");
    GTEST_SKIP();
  }
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(sha256("theirs"), ".art", "payload");
  ASSERT_EQ(chown((folder.path() + "/" + name_of("theirs")).c_str(), 65534, 65534), 0);
  EXPECT_EQ(cache.folder().trim({}).removed.entries, 0);
  EXPECT_TRUE(fs::exists(folder.path() + "/" + name_of("theirs")));
}

TEST(CacheFolder, TrimRemovesDamagedEntriesAndThoseOfOtherReleases) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  const std::string path = folder.path() + "/";
  for (const char* key : {"good", "cut", "flipped", "schema 1", "long"})
    cache.write(sha256(key), ".art", std::string(500, 'x'), {.kernel = key, .target = "cpu"});
  const auto change = [&](const char* key, auto edit) {
    std::string bytes = test::read_file(path + name_of(key));
    edit(bytes);
    test::write_file(path + name_of(key), bytes);
  };
  change("cut", [](std::string& bytes) { bytes.resize(60); });
  change("flipped", [](std::string& bytes) { bytes.back() = 'y'; });
  change("schema 1", [](std::string& bytes) { bytes[8] = 1; });
  change("long", [](std::string& bytes) { bytes += "x"; });
  std::set<std::string> good, damaged, other;
  for (const CacheFile& file : cache.folder().list()) {
    const EntryHead head = cache.folder().inspect(file, true);
    (head.state == EntryState::good      ? good
     : head.state == EntryState::damaged ? damaged
                                         : other)
        .insert(file.name);
    EXPECT_EQ(head.state == EntryState::good, head.why.empty()) << head.why;
    if (head.state != EntryState::good) continue;
    EXPECT_EQ(head.label.kernel, "good");
    EXPECT_EQ(head.label.target, "cpu");
    EXPECT_FALSE(head.label.build.empty());
  }
  EXPECT_EQ(good, std::set<std::string>{name_of("good")});
  EXPECT_EQ(damaged, (std::set<std::string>{name_of("cut"), name_of("flipped"), name_of("long")}));
  EXPECT_EQ(other, std::set<std::string>{name_of("schema 1")});
  EXPECT_EQ(cache.folder().trim({}).removed.entries, 5);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(CacheFolder, LabelLinesAreCutToLength) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(sha256("a"), ".art", "payload",
              {.kernel = "two\nlines", .target = std::string(100000, 't')});
  EXPECT_EQ(cache.read(sha256("a"), ".art"), "payload");
  const EntryHead head = cache.folder().inspect(cache.folder().list().at(0), true);
  EXPECT_EQ(head.label.kernel, "twolines");
  EXPECT_EQ(head.label.target.size(), 1024u);
}

TEST(CacheFolder, TrimIsSkippedWhileAnotherRuns) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(sha256("a"), ".art", "payload");
  {
    const int other = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(flock(other, LOCK_EX), 0);
    cache.folder().trim_unless_busy({});
    EXPECT_EQ(cache.usage().entries, 1);
    close(other);
  }
  cache.folder().trim_unless_busy({});
  EXPECT_EQ(cache.usage().entries, 0);
}

TEST(CacheFolder, OpenReportsItsFault) {
  TempFolder folder;
  EXPECT_EQ(CacheFolder("", true).fault(), CacheFault::unnamed);
  EXPECT_EQ(CacheFolder(folder.path() + "/none", false).fault(), CacheFault::missing);
  EXPECT_FALSE(fs::exists(folder.path() + "/none"));
  test::write_file(folder.path() + "/file", "x");
  EXPECT_EQ(CacheFolder(folder.path() + "/file", true).fault(), CacheFault::not_a_folder);
  const CacheFolder below(folder.path() + "/file/below/it", true);
  EXPECT_EQ(below.fault(), CacheFault::not_created);
  EXPECT_NE(below.why().find("/file\": Not a directory"), std::string::npos) << below.why();
  EXPECT_EQ(CacheFolder(folder.path()).fault(), CacheFault::switched_off);
  const CacheFolder open(folder.path(), false);
  EXPECT_EQ(open.fault(), CacheFault::none);
  EXPECT_EQ(open.probe(), 0);
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"file"});
}

}  // namespace
}  // namespace ligerdsl::runtime
