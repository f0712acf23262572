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
  std::string text;    // version or path that was found, or the error
  bool needed = true;  // true if the library does not work without it
  std::string remedy;  // text for the user; empty if the subject works, or if `text` has the remedy
};

// Runs `look`, which returns the finding's text, or throws if the subject does not work.
Finding try_out(const std::string& subject, bool needed, const std::function<std::string()>& look);

// Tests the disk cache: opens or creates it like the library, then writes, reads and removes a file
// (CacheFolder::probe).
Finding examine_cache();

// Checks the program that LIGERDSL_COMPILE=process starts.
Finding examine_compile_worker(const runtime::CompilerLibrary& compiler);

// Check the matmul libraries that plans load at run time.
Finding examine_cblas();
Finding examine_cublaslt();

// Returns the program's path in PATH, or "".
std::string find_program(const std::string& name);

// Checks programs in PATH that commands use: ptxas, cuobjdump, gnuplot.
std::vector<Finding> examine_programs();

}  // namespace ligerdsl::cli
