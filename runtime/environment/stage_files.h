// The files of a kernel's stages: LIGERDSL_DUMP writes them, LIGERDSL_OVERRIDE_DIR reads back those that were edited.
//
// Every variant of a kernel has a folder of its own, <entry>-<key>; a file's number is where its stage comes on the way.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "program/options.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {

struct Stage {
  const char* name;      // as in CompileOptions::emit and LIGERDSL_DUMP
  const char* gpu_file;  // null: a GPU has no such stage
  const char* cpu_file;  // likewise

  const char* file(program::Target target) const { return target == program::Target::nvptx ? gpu_file : cpu_file; }
};

// In the order of their numbers.
std::span<const Stage> stages();
const Stage& stage(std::string_view name);  // one of them

// Tells variants of a kernel apart: a digest of the program and all options. The same in every build of the library.
std::string variant_key(std::string_view program, const program::CompileOptions& options);

// What the folder of a variant is called.
std::string variant_folder(const std::string& entry, std::string_view program, const program::CompileOptions& options);

// What somebody put into LIGERDSL_OVERRIDE_DIR for one variant: of several files there the latest stage alone. It is
// looked for once for each kernel that is loaded.
struct EditedStages {
  struct File {
    std::string path, content;
    explicit operator bool() const { return !path.empty(); }
  };
  std::string folder;  // of the variant
  File tile;           // tile IR
  File ptx;            // GPU
  File code;           // machine code: a cubin, or a CPU's object

  bool any() const { return tile || ptx || code; }

  // Throws INVALID_ARGUMENT for what is no file with something in it that can be read, and for two folders of the
  // variant. Looks for nothing where nothing is overridden.
  static EditedStages find(std::string_view program, const program::CompileOptions& options);
};

// What `use` returns; where it fails, the error names the edited file that it uses and blames that alone.
template <class Use>
auto naming(const EditedStages::File& file, Use use) {
  if (!file) return use();
  try {
    return use();
  } catch (const Error& error) {
    const bool blamed = error.status() == Status::internal_error;
    fail(blamed ? Status::compile_failed : error.status(), "\"" + file.path + "\" (edited): " + error.what());
  }
}

}  // namespace ligerdsl::runtime
