#include "runtime/dump.h"

#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "program/serialize.h"
#include "runtime/device.h"
#include "runtime/files.h"
#include "runtime/kernel_cache.h"
#include "runtime/log.h"
#include "runtime/options.h"

namespace ligerdsl::runtime {
namespace {

void dump_stage(Device& device, std::string_view program, const program::CompileOptions& options,
                const std::string& stage, const std::string& path) {
  const std::string text = device.emit(program, options, stage);
  if (text.empty()) return;
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.good() && write_all(file.get(), text)) {
    log(LogLevel::info, "wrote " + path);
  } else {
    log(LogLevel::warning, "LIGERDSL_DUMP: cannot write " + locate_failure(path, errno).text());
  }
}

}  // namespace

void dump_stages_of(Device& device, std::string_view program, const program::CompileOptions& options,
                    const std::string& kernel) {
  const Options& wanted = runtime::options();
  if (wanted.dump.empty() || kernel.find(wanted.dump_filter) == std::string::npos) return;
  if (const PathFailure failure = make_directories(wanted.dump_dir, 0777)) {
    log_once(
        LogLevel::warning, "dump dir",
        "LIGERDSL_DUMP_DIR \"" + wanted.dump_dir + "\" cannot be created, so nothing is dumped: " + failure.text());
    return;
  }
  const std::string key = hex(KernelCache::key(program, program::serialize(options))).substr(0, 8);
  for (const std::string& stage : wanted.dump) {
    try {
      dump_stage(device, program, options, stage, wanted.dump_dir + "/" + kernel + "-" + key + "." + stage);
    } catch (const std::exception& error) {
      log(LogLevel::warning, "LIGERDSL_DUMP: stage " + stage + " of " + kernel + ": " + error.what());
    }
  }
}

bool override_ptx(const std::string& kernel, std::string& ptx) {
  const std::string& folder = options().override_dir;
  if (folder.empty()) return false;
  const std::string path = folder + "/" + kernel + ".ptx";
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  ptx.assign(std::istreambuf_iterator<char>(file), {});
  log(LogLevel::warning, "LIGERDSL_OVERRIDE_DIR: " + kernel + " runs the PTX of " + path);
  return true;
}

}  // namespace ligerdsl::runtime
