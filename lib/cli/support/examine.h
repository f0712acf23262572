// Checks of `ligerdsl doctor` except devices: the disk cache, and libraries and programs found at
// run time.
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
  std::string text;    // what was found, or the error
  bool needed = true;  // true if the library does not work without it
  std::string remedy;  // empty if the subject works or `text` says what to do
};

// Runs the check `look`, which throws if its subject does not work; returns the finding.
Finding try_out(const std::string& subject, bool needed, const std::function<std::string()>& look);

// Checks the cache like the library: opens or creates it, then writes, reads and removes a file of
// an entry's size.
Finding examine_cache();

// Checks the program that LIGERDSL_COMPILE=process starts.
Finding examine_compile_worker(const runtime::CompilerLibrary& compiler);

// Check the matmul libraries.
Finding examine_cblas();
Finding examine_cublaslt();

// Returns the program's path in PATH, or "".
std::string find_program(const std::string& name);

// Checks programs in PATH that commands use: ptxas, cuobjdump, gnuplot.
std::vector<Finding> examine_programs();

}  // namespace ligerdsl::cli
