#include "runtime/environment/stage_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "program/serialize.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/system/files.h"
#include "runtime/system/sha256.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr Stage kStages[] = {
    {"program", "01-program.txt", "01-program.txt"},
    {"tile", "02-tile.mlir", "02-tile.mlir"},
    {"tgpu", "03-tgpu.mlir", nullptr},
    {"loops", nullptr, "03-loops.mlir"},
    {"llvm", "04-llvm.mlir", "04-llvm.ll"},
    {"ptx", "05-kernel.ptx", nullptr},
    {"asm", nullptr, "05-kernel.s"},
    {"cubin", "06-kernel.cubin", nullptr},
    {"object", nullptr, "06-kernel.o"},
    {"resources", "07-resources.txt", "07-resources.txt"},
    {"remarks", "08-remarks.txt", "08-remarks.txt"},
};
constexpr size_t kKeyDigits = 8;
constexpr size_t kMostOfEntry = 200;  // characters of the entry; file names have at most 255 bytes
constexpr size_t kMostBytes = size_t{64} << 20;  // size limit of an edited stage

[[noreturn]] void refuse(const std::string& what) {
  fail(Status::invalid_argument, "LIGERDSL_OVERRIDE_DIR: " + what);
}

// Returns true if a file, folder or link exists at `path`.
bool is_there(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  refuse("cannot look for an edited stage: " + locate_failure(path, errno).text());
}

// Returns the folder of a variant: the only folder whose name ends in the key. The kernel's name
// before the key is for people.
std::string folder_of(const std::string& key) {
  const std::string& root = options().override_dir;
  std::string found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(root, error); !error && entry != end(entry);
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!path.ends_with("-" + key)) continue;
    if (!found.empty())
      refuse("expected one folder with key " + key + ", got \"" + std::min(found, path) +
             "\" and \"" + std::max(found, path) + "\": remove one");
    found = path;
  }
  if (error)
    log_once(LogLevel::warning, "override dir",
             "LIGERDSL_OVERRIDE_DIR cannot be read, so nothing is overridden: " +
                 locate_failure(root, error.value()).text());
  return found;
}

EditedStages::File read(const std::string& path, const Stage& stage) {
  std::string problem;
  std::optional<std::string> content = read_file(path, kMostBytes, &problem);
  if (content && content->empty()) problem = '"' + path + "\": it is empty";
  if (!problem.empty())
    refuse("the edited stage " + std::string(stage.name) + " cannot be used: " + problem);
  return {path, *std::move(content)};
}

// Returns the files of other stages in the folder: "02-tile.mlir, 05-kernel.ptx".
std::string others_in(const std::string& folder, program::Target target, const std::string& path) {
  std::string names;
  const char* last = nullptr;  // previous file in `names`, so that no file is listed twice
  for (const Stage& stage : stages()) {
    const char* name = stage.file(target);
    if (name == nullptr || name == last || folder + "/" + name == path ||
        !is_there(folder + "/" + name))
      continue;
    names += (names.empty() ? "" : ", ") + std::string(name);
    last = name;
  }
  return names;
}

void log_overridden(const std::string& folder, program::Target target,
                    const EditedStages::File& taken) {
  const std::string others = others_in(folder, target, taken.path);
  log_once(LogLevel::warning, "override:" + taken.path,
           "LIGERDSL_OVERRIDE_DIR: " + std::filesystem::path(folder).filename().string() +
               " is made from \"" + taken.path + "\" and kept out of the disk cache" +
               (others.empty() ? "" : "; ignored files: " + others));
}

}  // namespace

std::span<const Stage> stages() {
  return kStages;
}

// The name is valid, because the parser of LIGERDSL_DUMP has checked it.
const Stage& stage(std::string_view name) {
  return *std::find_if(std::begin(kStages), std::end(kStages) - 1,
                       [&](const Stage& it) { return it.name == name; });
}

std::string variant_key(std::string_view program, const program::CompileOptions& options) {
  return hex(Sha256().field(program::serialize(options)).field(program).finish())
      .substr(0, kKeyDigits);
}

std::string variant_folder(const std::string& entry, std::string_view program,
                           const program::CompileOptions& options) {
  return entry.substr(0, kMostOfEntry) + "-" + variant_key(program, options);
}

EditedStages EditedStages::find(std::string_view program, const program::CompileOptions& options) {
  EditedStages edited;
  if (runtime::options().override_dir.empty()) return edited;
  edited.folder = folder_of(variant_key(program, options));
  if (edited.folder.empty()) return edited;
  const program::Target target = options.target;
  const bool gpu = target == program::Target::nvptx;
  std::string names;
  for (const auto& [name, file] : {std::pair(gpu ? "cubin" : "object", &edited.code),
                                   {"ptx", &edited.ptx},
                                   {"tile", &edited.tile}}) {
    const char* const of_target = stage(name).file(target);
    if (of_target == nullptr) continue;
    const std::string path = edited.folder + "/" + of_target;
    if (is_there(path)) {
      *file = read(path, stage(name));
      log_overridden(edited.folder, target, *file);
      return edited;
    }
    names = of_target + (names.empty() ? "" : ", " + names);
  }
  log_once(LogLevel::warning, "override:" + edited.folder,
           "LIGERDSL_OVERRIDE_DIR: \"" + edited.folder + "\" holds none of " + names +
               ", so this kernel is not overridden");
  return edited;
}

}  // namespace ligerdsl::runtime
