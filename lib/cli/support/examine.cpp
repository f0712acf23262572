#include "lib/cli/support/examine.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "lib/text/output.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/matmul.h"
#include "runtime/system/files.h"
#include "runtime/system/subprocess.h"

namespace ligerdsl::cli {

namespace {

using runtime::CacheFault;
using runtime::CacheMode;
using State = Finding::State;

bool is_program(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string remedy_of(CacheFault fault, const std::string& path) {
  constexpr const char* elsewhere = "set LIGERDSL_CACHE_DIR to a folder that you own";
  switch (fault) {
    case CacheFault::missing:
      return fmt::format("run mkdir -m 700 '{}' and `ligerdsl cache warm`, or unset LIGERDSL_CACHE",
                         path);
    case CacheFault::not_a_folder:
      return fmt::format(
          "set LIGERDSL_CACHE_DIR to the folder itself, without a symbolic link, or remove '{}'",
          path);
    case CacheFault::others_may_write:
      return fmt::format("check who may have written to '{0}', then run chmod 700 '{0}'", path);
    case CacheFault::unnamed:
    case CacheFault::not_created:
    case CacheFault::not_opened:
    case CacheFault::foreign_owner:
      return elsewhere;
    default:
      return "";
  }
}

std::string remedy_of_writing(int error, const std::string& path) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format(
          "free space on the disk of '{}' (ligerdsl cache trim --to SIZE), or set "
          "LIGERDSL_CACHE_DIR",
          path);
    case EACCES:
    case EPERM:
      return fmt::format("run chmod u+rwx '{}', or set LIGERDSL_CACHE_DIR to a folder that you own",
                         path);
    default:
      return "set LIGERDSL_CACHE_DIR to a writable folder, or LIGERDSL_CACHE=ro to only read this "
             "one";
  }
}

std::string usage_text(const runtime::CacheFolder& folder) {
  const runtime::CacheUsage usage = folder.usage();
  const int64_t given = runtime::options().cache_bytes;
  return fmt::format(
      "\"{}\", {}, {} of {}", folder.path(), counted(usage.entries, "entry", "entries"),
      format_bytes(static_cast<double>(usage.bytes)),
      format_bytes(static_cast<double>(given > 0 ? given : runtime::kDefaultCacheLimit)));
}

// Returns the line with a program's version: the one with "release " (NVIDIA's tools), or the
// first.
std::string version_line(const std::string& output) {
  std::istringstream lines(output);
  std::string first, line;
  while (std::getline(lines, line)) {
    if (line.find("release ") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first;
}

std::string version_of(const std::string& path) {
  try {
    const runtime::ProcessResult result =
        runtime::run_process({path, "--version"}, {.output_bytes = 65536});
    const std::string line = version_line(result.output);
    if (result.succeeded && !line.empty()) return line;
    return fmt::format("--version {} ({})", result.succeeded ? "printed nothing" : "failed",
                       result.end);
  } catch (const std::exception& error) {
    return error.what();
  }
}

Finding examine_program(const std::string& name, const std::string& use,
                        const std::string& remedy) {
  const std::string path = find_program(name);
  if (!path.empty())
    return {name, State::works, fmt::format("{}, {}, for {}", path, version_of(path), use), false,
            ""};
  return {name, State::absent, fmt::format("not in PATH; only {} needs it", use), false, remedy};
}

}  // namespace

std::string find_program(const std::string& name) {
  const char* variable = std::getenv("PATH");
  const std::string folders = variable ? variable : "";
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string path = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && is_program(path)) return path;
    begin = end + 1;
  }
  return "";
}

Finding try_out(const std::string& subject, bool needed, const std::function<std::string()>& look) {
  try {
    return {subject, State::works, look(), needed, ""};
  } catch (const std::exception& error) {
    return {subject, State::absent, error.what(), needed,
            ""};  // errors of libraries include the remedy
  }
}

Finding examine_cache() {
  const CacheMode mode = runtime::options().cache;
  const std::string path = runtime::default_cache_directory(runtime::options());
  const bool needed = mode == CacheMode::required;
  if (mode == CacheMode::off)
    return {"cache", State::off,
            fmt::format("LIGERDSL_CACHE is off, so every process compiles its kernels again; the "
                        "folder would be \"{}\"",
                        path),
            false, "unset LIGERDSL_CACHE"};
  const runtime::CacheFolder folder(path, mode != CacheMode::read_only);
  if (!folder.is_open()) {
    const std::string name = path.empty() ? "" : fmt::format("\"{}\": ", folder.path());
    return {"cache", State::absent, name + folder.why(), needed,
            remedy_of(folder.fault(), folder.path())};
  }
  if (mode == CacheMode::read_only)
    return {"cache", State::works,
            usage_text(folder) + "; LIGERDSL_CACHE is ro: entries are read and none is stored",
            needed, ""};
  if (const int error = folder.probe()) {
    return {"cache", State::absent,
            fmt::format("{}; the folder can be read but not written: {}", usage_text(folder),
                        runtime::error_text(error)),
            needed, remedy_of_writing(error, folder.path())};
  }
  return {"cache", State::works, usage_text(folder), needed, ""};
}

Finding examine_compile_worker(const runtime::CompilerLibrary& compiler) {
  const runtime::CompileIsolation& isolation = compiler.isolation();
  const std::string path = runtime::worker_path(isolation, compiler.path());
  const bool used = isolation.mode == runtime::CompileMode::process;
  const std::string text = fmt::format(
      "\"{}\", {} s and {} per compile{}", path, isolation.seconds,
      isolation.megabytes > 0 ? fmt::format("{} MiB", isolation.megabytes) : "any amount of memory",
      used ? "" : "; not used, because LIGERDSL_COMPILE is thread");
  if (is_program(path)) return {"worker", State::works, text, used, ""};
  return {"worker", State::absent,
          fmt::format("{}: {}", text,
                      access(path.c_str(), F_OK) == 0 ? "it is not an executable file"
                                                      : "it does not exist"),
          used,
          "install the worker next to the compiler library, set LIGERDSL_COMPILE_WORKER to its "
          "path, or set LIGERDSL_COMPILE=thread"};
}

Finding examine_cblas() {
  return try_out("cblas", false, [] { return runtime::describe_cblas(); });
}

Finding examine_cublaslt() {
  return try_out("cublaslt", false, [] { return runtime::describe_cublaslt(); });
}

std::vector<Finding> examine_programs() {
  const std::string toolkit = "install NVIDIA's CUDA toolkit and put its bin folder into PATH";
  return {examine_program("ptxas", "compile --emit cubin, resources and sass", toolkit),
          examine_program("cuobjdump", "compile --emit sass", toolkit),
          examine_program(
              "gnuplot", "ligerdsl report, bench --plot and the loss curve of examples/train_llama",
              "Debian: apt-get install gnuplot-nox")};
}

}  // namespace ligerdsl::cli
