#include "runtime/environment/temporary_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/environment/options.h"
#include "runtime/system/files.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(int error, const std::string& what) {
  fail(Status::execution_failed,
       what + ": " + (strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error") +
           "; set TMPDIR (default: /tmp) to a writable folder");
}

// Returns the absolute path of $TMPDIR or /tmp. A relative path that begins with "-" could be taken
// for an option.
std::string parent() {
  const std::string& wanted = options().tmpdir;
  std::error_code error;
  const fs::path path = fs::absolute(wanted.empty() ? "/tmp" : wanted, error);
  if (error) fail_with(error.value(), "\"" + wanted + "\"");
  if (!fs::is_directory(path, error))
    fail_with(error ? error.value() : ENOTDIR, "\"" + path.string() + "\"");
  return path.string();
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = parent() + "/ligerdsl-XXXXXX";
  if (!mkdtemp(pattern.data())) fail_with(errno, "cannot create a folder in \"" + parent() + "\"");
  path_ = pattern;
  chmod(path_.c_str(), 0700);  // whatever the umask is
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view bytes) const {
  const std::string path = path_ + "/" + name;
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.good() || !write_all(file.get(), bytes)) fail_with(errno, "\"" + path + "\"");
  return path;
}

}  // namespace ligerdsl::runtime
