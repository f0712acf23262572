// Files of a kernel's stages. LIGERDSL_DUMP writes these files. Edited files are read from
// LIGERDSL_OVERRIDE_DIR.
//
// Each variant of a kernel has a folder <entry>-<key>. The number of a file is the position of its
// stage in the pipeline.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "program/options.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {

struct Stage {
  const char* name;      // value for CompileOptions::emit and LIGERDSL_DUMP
  const char* gpu_file;  // null if GPUs have no such stage
  const char* cpu_file;  // null if CPUs have no such stage

  const char* file(program::Target target) const {
    return target == program::Target::nvptx ? gpu_file : cpu_file;
  }
};

// Returns the stages in the order of their numbers.
std::span<const Stage> stages();
const Stage& stage(std::string_view name);  // `name` must be the name of a stage

// Returns the key of a kernel's variant: a digest of the program and all options. It is the same in
// every build of the library.
std::string variant_key(std::string_view program, const program::CompileOptions& options);

// Returns the name of a variant's folder.
std::string variant_folder(const std::string& entry, std::string_view program,
                           const program::CompileOptions& options);

// Edited stages of one variant in LIGERDSL_OVERRIDE_DIR. If there are several files, only the file
// of the latest stage is used. The folder is searched once per loaded kernel.
struct EditedStages {
  struct File {
    std::string path, content;
    explicit operator bool() const { return !path.empty(); }
  };
  std::string folder;  // folder of the variant
  File tile;           // tile IR
  File ptx;            // GPU
  File code;           // machine code: a cubin, or a CPU's object

  bool any() const { return tile || ptx || code; }

  // Finds the edited stages. Throws INVALID_ARGUMENT if a file is empty or cannot be read, or if a
  // variant has two folders. Returns no stages without LIGERDSL_OVERRIDE_DIR.
  static EditedStages find(std::string_view program, const program::CompileOptions& options);
};

// Returns the result of `use`, a function that uses an edited file. If it fails, the error names
// the file, and INTERNAL_ERROR becomes COMPILE_FAILED.
template <class Use>
auto naming(const EditedStages::File& file, Use use) {
  if (!file) return use();
  try {
    return use();
  } catch (const Error& error) {
    const bool blamed = error.status() == Status::internal_error;
    fail(blamed ? Status::compile_failed : error.status(),
         "\"" + file.path + "\" (edited): " + error.what());
  }
}

}  // namespace ligerdsl::runtime
