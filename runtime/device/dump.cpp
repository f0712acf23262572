#include "runtime/device/dump.h"

#include <sys/stat.h>

#include <cerrno>

#include "program/print.h"
#include "program/remarks.h"
#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/device/device.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/environment/stage_files.h"
#include "runtime/kernel/resource_remarks.h"
#include "runtime/system/files.h"
#include "runtime/system/safe_open.h"

namespace ligerdsl::runtime {
namespace {

struct Subject {
  Device& device;
  std::string_view program;
  const program::CompileOptions& options;
  const LoadedKernel* kernel;
  const EditedStages& edited;
};

std::string resources_text(const LoadedKernel& kernel) {
  const KernelResources& used = kernel.resources();
  const auto line = [](const char* what, int64_t value, const char* unit) {
    return std::string(what) + " " + std::to_string(value) + unit + "\n";
  };
  std::string text = line("code", used.code_bytes, " bytes");
  if (kernel.artifact().target == program::Target::cpu)
    return text + line("arena", kernel.artifact().arena_bytes, " bytes per thread");
  text += line("registers", used.registers, " per thread") +
          line("local", used.spill_bytes, " bytes per thread") +
          line("shared", used.shared_bytes, " bytes per CTA") +
          line("threads", used.threads, " per CTA") + line("cluster", used.cluster, " CTAs") +
          line("ctas_per_sm", used.ctas_per_sm, " at most");
  return text + used.log;
}

std::string remarks_text(const LoadedKernel& kernel, int32_t min_ctas_per_sm) {
  std::string text;
  for (const program::Remark& remark : kernel.artifact().remarks)
    text += text_with_remedy(remark) + "\n";
  if (kernel.artifact().target == program::Target::nvptx) {
    for (const program::Remark& remark :
         resource_remarks(kernel.artifact(), kernel.resources(), min_ctas_per_sm))
      text += text_with_remedy(remark) + "\n";
  }
  return text;
}

// Returns the content of a stage, or "" if the stage needs a loaded kernel that does not exist.
std::string content_of(const Subject& of, std::string_view stage) {
  if (stage == "program") return program::print(program::parseProgram(of.program));
  const bool machine_code = stage == "cubin" || stage == "object";
  const bool of_kernel = machine_code || stage == "resources" || stage == "remarks";
  if (of_kernel && of.kernel == nullptr) return "";
  if (machine_code && of.edited.code) return of.edited.code.content;
  if (machine_code) return of.device.machine_code(of.kernel->artifact());
  if (stage == "resources") return resources_text(*of.kernel);
  if (stage == "remarks") return remarks_text(*of.kernel, of.options.min_ctas_per_sm);
  if (stage == "ptx" && of.kernel != nullptr) return of.kernel->artifact().code;
  program::CompileOptions options = of.options;
  options.tile = of.edited.tile.content;
  options.tile_file = of.edited.tile.path;
  return of.device.emit(of.program, options, std::string(stage));
}

bool same_folder(const std::string& a, const std::string& b) {
  struct stat x {
  }, y{};
  return stat(a.c_str(), &x) == 0 && stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

// Writes the requested stages to the folder, whose descriptor is `at`. Stops at the first failure,
// because later stages would fail as well.
void dump_to(const std::string& folder, int at, const Subject& of) {
  for (const std::string& name : options().dump) {
    const char* file = stage(name).file(of.options.target);
    if (file == nullptr) continue;
    const std::string path = folder + "/" + file;
    try {
      const std::string content = content_of(of, name);
      if (content.empty() && name != "remarks") continue;
      if (of.kernel == nullptr && name == "remarks") continue;
      if (replace_file(at, file, content, 0666)) {
        log(LogLevel::info, "wrote " + path);
        continue;
      }
      log(LogLevel::warning, "LIGERDSL_DUMP: cannot write " + locate_failure(path, errno).text());
    } catch (const std::exception& error) {
      log(LogLevel::warning,
          "LIGERDSL_DUMP: cannot write stage " + name + " to \"" + folder + "\": " + error.what());
    }
    return;
  }
}

std::string name_of(const Subject& of) {
  return of.kernel != nullptr ? of.kernel->artifact().entry : entry_of(of.program);
}

}  // namespace

void dump_stages_of(Device& device, std::string_view program,
                    const program::CompileOptions& options, const LoadedKernel* kernel,
                    const EditedStages& edited) try {
  const Options& wanted = runtime::options();
  if (wanted.dump.empty()) return;
  const Subject of{device, program, options, kernel, edited};
  const std::string entry = name_of(of);
  if (entry.find(wanted.dump_filter) == std::string::npos) return;
  const std::string folder = wanted.dump_dir + "/" + variant_folder(entry, program, options);
  std::string problem;
  const File at(open_folder(folder, 0777, &problem));
  if (!at.good()) {
    return log_once(LogLevel::warning, "dump dir",
                    "LIGERDSL_DUMP_DIR \"" + wanted.dump_dir +
                        "\" cannot be used, so nothing is dumped: " + problem);
  }
  if (!wanted.override_dir.empty() && same_folder(wanted.dump_dir, wanted.override_dir)) {
    return log_once(LogLevel::warning, "dump dir",
                    "LIGERDSL_DUMP_DIR \"" + wanted.dump_dir +
                        "\" is also LIGERDSL_OVERRIDE_DIR, where dumped stages would count as "
                        "edited stages, so nothing is dumped: set another folder");
  }
  dump_to(folder, at.get(), of);
} catch (const std::exception& error) {
  log_quietly(LogLevel::warning, "LIGERDSL_DUMP", error);
}

}  // namespace ligerdsl::runtime
