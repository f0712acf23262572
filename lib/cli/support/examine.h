// What `ligerdsl doctor` looks at beside devices: the disk cache, libraries and programs that are found at run time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/compile/compiler_library.h"

namespace ligerdsl::cli {

struct Finding {
  enum class State : uint8_t { works, absent, off };

  std::string subject;
  State state;
  std::string text;    // what was found, or why it does not work
  bool needed = true;  // where it does not work, the library does not either
  std::string remedy;  // what to do; empty where it works
};

// The finding of something that throws when it does not work.
Finding try_out(const std::string& subject, bool needed, const std::function<std::string()>& look);

// Used as the library would: opened (and created), and a file of the size of an entry written, read and removed.
Finding examine_cache();

// The program that LIGERDSL_COMPILE=process starts.
Finding examine_compile_worker(const runtime::CompilerLibrary& compiler);

// What multiplies matrices.
Finding examine_cblas();
Finding examine_cublaslt();

// The program's path, found in PATH; empty: there is none.
std::string find_program(const std::string& name);

// Programs of PATH that a command uses: ptxas, cuobjdump, gnuplot.
std::vector<Finding> examine_programs();

}  // namespace ligerdsl::cli
