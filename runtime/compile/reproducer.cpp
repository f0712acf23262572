#include "runtime/compile/reproducer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "runtime/compile/compile_message.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/environment/options.h"
#include "runtime/system/files.h"
#include "runtime/system/sha256.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr uint64_t kMagic = 0x3150455252444c47;  // "GLDRREP1"
constexpr uint64_t kVersion = 1;

std::string folder() {
  const Options& wanted = options();
  if (!wanted.reproducer_dir.empty()) return wanted.reproducer_dir;
  return wanted.tmpdir.starts_with('/') ? wanted.tmpdir : "/tmp";
}

// Returns true if this user has already written the file. The name is a digest of the content, but
// other users can also write to /tmp.
bool is_ours(const std::string& path, size_t size) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         static_cast<size_t>(info.st_size) == size;
}

bool write_new(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return errno == EEXIST && is_ours(path, bytes.size());
  const bool good = write_all(file, bytes);
  close(file);
  if (!good) unlink(path.c_str());
  return good;
}

}  // namespace

std::string write_reproducer(std::string_view program, std::string_view options) {
  const std::string bytes = pack_message(kMagic, kVersion, {program, options, build_id()});
  const std::string path =
      folder() + "/ligerdsl-" + hex(sha256(bytes)).substr(0, 16) + std::string(kReproducerSuffix);
  return write_new(path, bytes) ? path : "";
}

Reproducer read_reproducer(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int error = errno;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(Status::invalid_program, "\"" + path + "\" cannot be read: " + error_text(error));
  uint64_t version = 0;
  std::string_view program, options, build;
  if (!unpack_message(bytes, kMagic, &version, {&program, &options, &build}))
    fail(Status::invalid_program, "\"" + path + "\" is not a reproducer, or is damaged");
  if (version != kVersion)
    fail(Status::invalid_program, "\"" + path + "\" is a reproducer of format " +
                                      std::to_string(version) + "; this release reads format " +
                                      std::to_string(kVersion));
  return {std::string(program), std::string(options), std::string(build)};
}

}  // namespace ligerdsl::runtime
