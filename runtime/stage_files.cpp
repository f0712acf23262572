#include "runtime/stage_files.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "program/serialize.h"
#include "runtime/files.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/sha256.h"
#include "runtime/status.h"

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

// The folder of a variant, which its key names: what the kernel is called comes before it, for people.
std::string folder_of(const std::string& key) {
  const std::string& root = options().override_dir;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(root, error); !error && entry != end(entry);
       entry.increment(error)) {
    if (entry->path().filename().string().ends_with("-" + key)) return entry->path().string();
  }
  if (error)
    log_once(LogLevel::warning, "override dir",
             "LIGERDSL_OVERRIDE_DIR cannot be read, so nothing is overridden: " +
                 locate_failure(root, error.value()).text());
  return "";
}

EditedStages::File read(const std::string& folder, const Stage& stage, program::Target target) {
  const char* name = stage.file(target);
  if (name == nullptr) return {};
  EditedStages::File file{folder + "/" + name, ""};
  std::error_code error;
  if (!std::filesystem::exists(file.path, error) && !error) return {};
  std::ifstream stream(file.path, std::ios::binary);
  file.content.assign(std::istreambuf_iterator<char>(stream), {});
  if (!stream.is_open() || stream.bad() || file.content.empty())
    fail(Status::invalid_argument, "LIGERDSL_OVERRIDE_DIR: \"" + file.path + "\" " +
                                       (stream.is_open() ? "is empty or no file" : "cannot be read") + ": expected " +
                                       stage.name + " in place of what the compiler makes");
  return file;
}

void log_overridden(const EditedStages& edited) {
  const std::string name = std::filesystem::path(edited.folder).filename().string();
  const EditedStages::File* taken = nullptr;
  for (const EditedStages::File* file : {&edited.code, &edited.ptx, &edited.tile}) {
    if (!*file) continue;
    const std::string what =
        taken ? "\"" + file->path + "\" is not looked at, because \"" + taken->path + "\" is there too and comes later"
              : name + " is made from \"" + file->path + "\" and kept out of the disk cache";
    log_once(LogLevel::warning, "override:" + file->path, "LIGERDSL_OVERRIDE_DIR: " + what);
    if (taken == nullptr) taken = file;
  }
}

}  // namespace

std::span<const Stage> stages() {
  return kStages;
}

// Names were checked where they were read.
const Stage& stage(std::string_view name) {
  return *std::find_if(std::begin(kStages), std::end(kStages) - 1, [&](const Stage& it) { return it.name == name; });
}

std::string variant_key(std::string_view program, const program::CompileOptions& options) {
  return hex(Sha256().field(program::serialize(options)).field(program).finish()).substr(0, kKeyDigits);
}

EditedStages EditedStages::find(std::string_view program, const program::CompileOptions& options) {
  EditedStages edited;
  if (runtime::options().override_dir.empty()) return edited;
  edited.folder = folder_of(variant_key(program, options));
  if (edited.folder.empty()) return edited;
  const program::Target target = options.target;
  edited.tile = read(edited.folder, stage("tile"), target);
  edited.ptx = read(edited.folder, stage("ptx"), target);
  edited.code = read(edited.folder, stage(target == program::Target::nvptx ? "cubin" : "object"), target);
  log_overridden(edited);
  return edited;
}

}  // namespace ligerdsl::runtime
