#include "runtime/cache/disk_cache.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/environment/log.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::TempFolder;
using test::Warnings;

const Digest kKey = sha256("key"), kOther = sha256("other");

std::string entry_path(const DiskCache& cache, const Digest& key, const char* suffix = ".art") {
  return cache.directory() + "/" + hex(key) + suffix;
}

TEST(DiskCache, ReadsWhatWasWritten) {
  TempFolder folder;
  const std::string path = folder.path() + "/a/b/cache";
  const DiskCache cache(path, CacheMode::read_write);
  EXPECT_EQ(cache.why_off(), "");
  EXPECT_FALSE(cache.read(kKey, ".art"));
  cache.write(kKey, ".art", "payload");
  cache.write(kKey, ".cubin", "");
  EXPECT_EQ(cache.read(kKey, ".art"), "payload");
  EXPECT_EQ(cache.read(kKey, ".cubin"), "");
  EXPECT_FALSE(cache.read(kOther, ".art"));
  EXPECT_EQ(DiskCache(path + "//", CacheMode::read_only).read(kKey, ".art"), "payload");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(entry_path(cache, kKey).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(cache.usage().entries, 2);
}

TEST(DiskCache, OverwritesTheWholeEntry) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kKey, ".art", "long old payload");
  cache.write(kKey, ".art", "new");
  EXPECT_EQ(cache.read(kKey, ".art"), "new");
}

TEST(DiskCache, TruncationAtEveryByteIsAMiss) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kKey, ".art", "some payload");
  const std::string whole = test::read_file(entry_path(cache, kKey));
  for (size_t size = 0; size < whole.size(); ++size) {
    test::write_file(entry_path(cache, kKey), whole.substr(0, size));
    EXPECT_FALSE(cache.read(kKey, ".art")) << size;
  }
  test::write_file(entry_path(cache, kKey), whole + "x");
  EXPECT_FALSE(cache.read(kKey, ".art"));
  cache.write(kKey, ".art", "some payload");
  EXPECT_EQ(cache.read(kKey, ".art"), "some payload");
}

TEST(DiskCache, EveryFlippedBitIsAMiss) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kKey, ".art", "some payload");
  const std::string whole = test::read_file(entry_path(cache, kKey));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    test::write_file(entry_path(cache, kKey), damaged);
    EXPECT_FALSE(cache.read(kKey, ".art")) << bit;
  }
}

TEST(DiskCache, EntryUnderAnotherNameIsAMiss) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kKey, ".art", "payload");
  std::filesystem::copy(entry_path(cache, kKey), entry_path(cache, kOther));
  std::filesystem::copy(entry_path(cache, kKey), entry_path(cache, kKey, ".cubin"));
  EXPECT_FALSE(cache.read(kOther, ".art"));
  EXPECT_FALSE(cache.read(kKey, ".cubin"));
}

TEST(DiskCache, LinksFoldersAndPipesInPlaceOfAnEntryAreMisses) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kOther, ".art", "payload");
  const std::string path = entry_path(cache, kKey);
  std::filesystem::create_symlink(entry_path(cache, kOther), path);
  EXPECT_FALSE(cache.read(kKey, ".art"));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(cache.read(kKey, ".art"));  // must not block on the FIFO
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_FALSE(cache.read(kKey, ".art"));
  Warnings warnings;
  cache.write(kKey, ".art", "payload");  // a folder has the entry's name: a warning, no error
  EXPECT_FALSE(cache.read(kKey, ".art"));
  EXPECT_EQ(warnings.lines.size(), 1u);
  EXPECT_EQ(cache.usage().entries, 1);  // no temporary file remains
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(DiskCache, RejectsSymlinkedFolder) {
  TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/real");
  std::filesystem::permissions(folder.path() + "/real", std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink(folder.path() + "/real", folder.path() + "/link");
  Warnings warnings;
  for (const char* name : {"/link", "/link/"}) {
    const DiskCache cache(folder.path() + name, CacheMode::read_write);
    EXPECT_FALSE(cache.readable());
    EXPECT_NE(cache.why_off().find("symlink"), std::string::npos) << cache.why_off();
    cache.write(kKey, ".art", "payload");
    EXPECT_FALSE(cache.read(kKey, ".art"));
  }
  EXPECT_EQ(warnings.lines.size(), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/real"));
}

TEST(DiskCache, RejectsFolderWritableByOthers) {
  TempFolder folder;
  for (mode_t mode : {0770, 0707, 0777, 0720}) {
    ASSERT_EQ(chmod(folder.path().c_str(), mode), 0);
    const DiskCache cache(folder.path(), CacheMode::read_write);
    EXPECT_FALSE(cache.readable()) << mode;
    EXPECT_NE(cache.why_off().find("writable by group or world"), std::string::npos);
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  EXPECT_TRUE(DiskCache(folder.path(), CacheMode::read_write).readable());
}

TEST(DiskCache, RejectsFileInPlaceOfTheFolder) {
  TempFolder folder;
  test::write_file(folder.path() + "/file", "x");
  EXPECT_FALSE(DiskCache(folder.path() + "/file", CacheMode::read_write).readable());
  EXPECT_FALSE(DiskCache(folder.path() + "/file/below", CacheMode::read_write).readable());
}

TEST(DiskCache, RejectsFolderOfAnotherUser) {
  if (geteuid() != 0) {
    printf("[SKIP] giving a folder to another user needs root\n");
    GTEST_SKIP();
  }
  TempFolder folder;
  ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
  const DiskCache cache(folder.path(), CacheMode::read_write);
  EXPECT_FALSE(cache.readable());
  EXPECT_NE(cache.why_off().find("another user"), std::string::npos);
}

TEST(DiskCache, ReadOnlyFolderIsReadAndWarnsOnce) {
  TempFolder folder;
  DiskCache(folder.path(), CacheMode::read_write).write(kKey, ".art", "payload");
  // Root may write to any folder, so as root a child process runs the check as another user.
  if (geteuid() == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      ASSERT_EQ(chown(entry.path().c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0500), 0);
  EXPECT_TRUE(test::passes_in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) return false;
    Warnings warnings;
    const DiskCache cache(folder.path(), CacheMode::read_write);
    EXPECT_EQ(cache.read(kKey, ".art"), "payload");
    cache.write(kOther, ".art", "more");
    cache.write(kOther, ".art", "more");
    EXPECT_FALSE(cache.read(kOther, ".art"));
    EXPECT_EQ(warnings.lines.size(), 1u);
    // If a folder cannot be created, the warning must name the part of the path that failed, and
    // the reason.
    EXPECT_FALSE(DiskCache(folder.path() + "/sub/cache", CacheMode::read_write).readable());
    EXPECT_EQ(warnings.lines.size(), 2u);
    EXPECT_NE(warnings.lines.back().find('"' + folder.path() + "/sub\": Permission denied"),
              std::string::npos)
        << warnings.lines.back();
    expect_error(Status::cache_error, [&] {
      DiskCache(folder.path(), CacheMode::required).write(kOther, ".art", "more");
    });
    return true;
  }));
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
}

TEST(DiskCache, FullDiskIsAWarning) {
  TempFolder folder;
  EXPECT_TRUE(test::passes_in_child([&] {
    Warnings warnings;
    const DiskCache cache(folder.path(), CacheMode::read_write);
    const rlimit limit{1000, 1000};  // like a full disk: writes end half way
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    cache.write(kKey, ".art", std::string(100000, 'x'));
    EXPECT_FALSE(cache.read(kKey, ".art"));
    EXPECT_EQ(warnings.lines.size(), 1u);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    return true;
  }));
}

// Enters a new mount namespace. A user other than root also needs a user namespace, in which the
// user keeps the same id.
bool enter_mount_namespace() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWNS) == 0) return true;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  test::write_file("/proc/self/setgroups", "deny");
  test::write_file("/proc/self/uid_map", user + " " + user + " 1");
  test::write_file("/proc/self/gid_map", group + " " + group + " 1");
  return true;
}

// Mounts a file system of 64 KiB on the folder. Returns false if the user may not mount.
bool mount_small_disk(const std::string& folder) {
  return enter_mount_namespace() &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k,mode=700") == 0;
}

TEST(DiskCache, DiskThatFillsUpKeepsExistingEntries) {
  TempFolder folder;
  EXPECT_TRUE(test::passes_in_child([&] {
    if (!mount_small_disk(folder.path())) {
      printf("[SKIP] mounting a small file system is not permitted here\n");
      return true;
    }
    Warnings warnings;
    const DiskCache cache(folder.path(), CacheMode::read_write);
    cache.write(kKey, ".art", std::string(30000, 'x'));
    cache.write(kOther, ".art", std::string(50000, 'x'));
    EXPECT_TRUE(cache.read(kKey, ".art"));
    EXPECT_FALSE(cache.read(kOther, ".art"));
    EXPECT_EQ(warnings.lines.size(), 1u);
    EXPECT_NE(warnings.lines.back().find("No space left on device"), std::string::npos)
        << warnings.lines.back();
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    EXPECT_EQ(cache.folder().probe(), ENOSPC);
    expect_error(Status::cache_error, [&] {
      DiskCache(folder.path(), CacheMode::required).write(kOther, ".art", std::string(50000, 'x'));
    });
    return true;
  }));
}

TEST(DiskCache, ObeysItsMode) {
  TempFolder folder;
  const DiskCache off(folder.path() + "/off", CacheMode::off);
  off.write(kKey, ".art", "payload");
  EXPECT_FALSE(off.read(kKey, ".art"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/off"));
  EXPECT_FALSE(DiskCache(folder.path() + "/ro", CacheMode::read_only).readable());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/ro"));
  const DiskCache read_only(folder.path(), CacheMode::read_only);
  EXPECT_TRUE(read_only.readable());
  EXPECT_FALSE(read_only.writable());
  read_only.write(kKey, ".art", "payload");
  EXPECT_FALSE(read_only.read(kKey, ".art"));
  expect_error(Status::cache_error, [] { DiskCache("", CacheMode::required); });
  const DiskCache required(folder.path() + "/rq", CacheMode::required);
  required.write(kKey, ".art", "payload");
  EXPECT_EQ(required.read(kKey, ".art"), "payload");
}

TEST(DiskCache, DefaultFolderFollowsTheEnvironment) {
  Options options;
  EXPECT_EQ(default_cache_directory(options), "");
  options.home = "/home/me";
  EXPECT_EQ(default_cache_directory(options), "/home/me/.cache/ligerdsl");
  options.xdg_cache_home = "relative";
  EXPECT_EQ(default_cache_directory(options), "/home/me/.cache/ligerdsl");
  options.xdg_cache_home = "/xdg";
  EXPECT_EQ(default_cache_directory(options), "/xdg/ligerdsl");
  options.cache_dir = "/own";
  EXPECT_EQ(default_cache_directory(options), "/own");
}

TEST(DiskCache, MissingHomeWarnsAndDisablesTheCache) {
  Warnings warnings;
  const DiskCache cache(default_cache_directory(Options{}), CacheMode::read_write);
  EXPECT_FALSE(cache.readable());
  ASSERT_EQ(warnings.lines.size(), 1u);
  EXPECT_NE(warnings.lines[0].find("HOME"), std::string::npos);
}

// Writes and reads four keys until the process is killed. Exits with 1 after reading an incomplete
// entry.
[[noreturn]] void hammer(const std::string& path) {
  const DiskCache cache(path, CacheMode::read_write);
  for (int i = 0;; ++i) {
    const std::string name(1, static_cast<char>('a' + i % 4));
    const std::string payload(20000, name[0]);
    cache.write(sha256(name), ".art", payload);
    const auto got = cache.read(sha256(name), ".art");
    if (got && *got != payload) _exit(1);
  }
}

TEST(DiskCache, KilledProcessesLeaveNoIncompleteEntry) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    const pid_t child = fork();
    if (child == 0) hammer(folder.path());
    children.push_back(child);
  }
  usleep(100000);
  for (size_t i = 0; i < children.size(); ++i) {
    usleep(static_cast<useconds_t>(i * 700));
    kill(children[i], SIGKILL);
    int status = 0;
    waitpid(children[i], &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "a torn or foreign entry was read";
  }
  for (const char* name : {"a", "b", "c", "d"}) {
    const std::string whole(20000, name[0]);
    EXPECT_EQ(cache.read(sha256(name), ".art").value_or(whole), whole);
  }
  // Killed writers leave temporary files. Trimming must remove old ones.
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    utimensat(AT_FDCWD, entry.path().c_str(), old, 0);
  cache.folder().trim({});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A read must not allocate a buffer before it has compared the header's payload size with the
// file's size.
TEST(DiskCache, HugeFilesAllocateNoMemory) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  cache.write(kKey, ".art", std::string(100000, 'x'));
  const std::string path = entry_path(cache, kKey), whole = test::read_file(path);
  const auto claims = [&](uint64_t payload_bytes) {
    std::string head = whole.substr(0, 200);
    memcpy(head.data() + 48, &payload_bytes, sizeof payload_bytes);
    return head;
  };
  const auto misses_with_little_memory = [&](const std::string& begin, off_t size) {
    test::write_file(path, begin);
    EXPECT_EQ(truncate(path.c_str(), size), 0);
    return test::passes_in_child([&] {
      const int64_t pages = [] {
        int64_t value = 0;
        std::ifstream("/proc/self/statm") >> value;
        return value;
      }();
      // Allows 8 MiB more address space than now. An allocation of the file's size then fails, and
      // the child with it.
      const rlim_t most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{8} << 20);
      const rlimit limit{most, most};
      if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
      EXPECT_FALSE(cache.read(kKey, ".art"));
      EXPECT_EQ(cache.folder().list().size(), static_cast<size_t>(size <= kMaxEntryBytes));
      cache.folder().trim({});
      return true;
    });
  };
  constexpr off_t kGibibyte = off_t{1} << 30;
  if (!test::kSanitized) {  // sanitizers reserve much address space
    EXPECT_TRUE(misses_with_little_memory(claims(kGibibyte), 200));
    EXPECT_TRUE(misses_with_little_memory(whole, kGibibyte));
    EXPECT_TRUE(misses_with_little_memory(claims(kGibibyte - 200), kGibibyte));
    EXPECT_TRUE(misses_with_little_memory(claims((uint64_t{63} << 20)), off_t{60} << 20));
    // Here the sizes agree and only the digest does not.
    const uint64_t rest = (uint64_t{60} << 20) - (whole.size() - 100000);
    EXPECT_TRUE(misses_with_little_memory(claims(rest), off_t{60} << 20));
  }
}

TEST(DiskCache, StoresLargeEntries) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  const std::string payload(size_t{3} << 20, 'z');
  cache.write(kKey, ".art", payload);
  EXPECT_EQ(cache.read(kKey, ".art"), payload);
  Warnings warnings;
  cache.write(kOther, ".art", std::string(static_cast<size_t>(kMaxEntryBytes), 'z'));
  EXPECT_FALSE(cache.read(kOther, ".art"));
  EXPECT_EQ(warnings.lines.size(), 1u);
}

TEST(DiskCache, LimitEvictsTheLeastRecentlyUsed) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write, 100000);
  EXPECT_EQ(cache.limit_bytes(), 100000);
  const auto key = [](int i) { return sha256(std::to_string(i)); };
  const auto used_before = [&](int i, time_t seconds) {
    const timespec times[2] = {{0, UTIME_OMIT}, {time(nullptr) - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, entry_path(cache, key(i)).c_str(), times, 0), 0);
  };
  for (int i = 0; i < 9; ++i) {
    cache.write(key(i), ".art", std::string(10000, 'x'));
    used_before(i, 10000 - i);
  }
  EXPECT_EQ(cache.usage().entries, 9);
  EXPECT_TRUE(cache.read(key(0), ".art"));  // now the most recently used entry
  cache.write(key(9), ".art", std::string(10000, 'x'));
  EXPECT_LE(cache.usage().bytes, 100000 - 100000 / 8);
  EXPECT_EQ(cache.usage().entries, 8);
  EXPECT_TRUE(cache.read(key(0), ".art"));
  EXPECT_FALSE(cache.read(key(1), ".art"));
  EXPECT_FALSE(cache.read(key(2), ".art"));
  EXPECT_TRUE(cache.read(key(3), ".art"));
  EXPECT_TRUE(cache.read(key(9), ".art"));
}

TEST(DiskCache, DefaultLimitIsOneGibibyte) {
  TempFolder folder;
  EXPECT_EQ(DiskCache(folder.path(), CacheMode::read_write).limit_bytes(), int64_t{1} << 30);
}

TEST(DiskCache, EntryLargerThanTheLimitIsNotStored) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write, 5000);
  cache.write(kOther, ".art", std::string(3000, 'x'));
  Warnings warnings;
  cache.write(kKey, ".art", std::string(6000, 'x'));
  EXPECT_FALSE(cache.read(kKey, ".art"));
  EXPECT_TRUE(cache.read(kOther, ".art"));
  ASSERT_EQ(warnings.lines.size(), 1u);
  EXPECT_NE(warnings.lines[0].find("LIGERDSL_CACHE_SIZE"), std::string::npos) << warnings.lines[0];
  // An entry that nearly fills the limit is stored, and all others are evicted.
  cache.write(kKey, ".art", std::string(4800, 'x'));
  EXPECT_TRUE(cache.read(kKey, ".art"));
  EXPECT_EQ(cache.usage().entries, 1);
  expect_error(Status::cache_error, [&] {
    DiskCache(folder.path(), CacheMode::required, 5000)
        .write(kOther, ".art", std::string(6000, 'x'));
  });
}

TEST(DiskCache, FirstStoreOfAProcessRemovesAbandonedFiles) {
  TempFolder folder;
  const std::string path = folder.path() + "/.ligerdsl-1-2-3.tmp";
  test::write_file(path, "LGDSLKRN");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  DiskCache(folder.path(), CacheMode::read_write).write(kKey, ".art", "payload");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Some processes write entries under a small size limit while other processes trim. Each read must
// give a complete entry or none. At the end, the limit must hold.
TEST(DiskCache, ProcessesStoreAndTrimConcurrently) {
  TempFolder folder;
  constexpr int64_t kLimit = 200000;
  const auto store_and_read = [&](int process) {
    const DiskCache cache(folder.path(), CacheMode::read_write, kLimit);
    for (int i = 0; i < 60; ++i) {
      const std::string name = std::to_string(process * 7 + i);
      cache.write(sha256(name), ".art", name + std::string(20000, 'x'));
      if (i % 5 == 4) cache.folder().trim({.max_bytes = kLimit / 2, .target_bytes = kLimit / 2});
      const auto got = cache.read(sha256(name), ".art");
      if (got && *got != name + std::string(20000, 'x')) return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (int process = 0; process < 6; ++process) {
    const pid_t child = fork();
    if (child == 0) _exit(store_and_read(process) ? 0 : 1);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const DiskCache cache(folder.path(), CacheMode::read_write, kLimit);
  cache.write(kKey, ".art", "payload");
  EXPECT_LE(cache.usage().bytes, kLimit);
  EXPECT_GT(cache.usage().entries, 1);
  for (const CacheFile& file : cache.folder().list()) {
    EXPECT_FALSE(file.temporary) << file.name;
    EXPECT_EQ(cache.folder().inspect(file, true).state, EntryState::good) << file.name;
  }
}

TEST(DiskCache, ThreadsShareOneCache) {
  TempFolder folder;
  const DiskCache cache(folder.path(), CacheMode::read_write);
  std::vector<std::thread> threads;
  std::atomic<int> torn{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        cache.write(kKey, ".art", std::string(5000, 'z'));
        const auto got = cache.read(kKey, ".art");
        if (!got || *got != std::string(5000, 'z')) ++torn;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace ligerdsl::runtime
