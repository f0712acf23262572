// The environment variables of the library. One row of options.def declares, documents and parses
// each variable.
//
// Calls of the API override the environment. A setuid or setgid process (AT_SECURE) ignores the
// environment. For an invalid value, the default is used and a warning is logged.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/environment/log.h"

namespace ligerdsl::runtime {

enum class CacheMode : uint8_t { off, read_only, read_write, required };
enum class CompileMode : uint8_t { thread, process };
// Entries of tuned tables that plans use: none, entries that keep results bit-identical, or all.
enum class Tuning : uint8_t { off, same, any };

struct Options {
  LogLevel log = LogLevel::warning;
  std::string log_file;   // stderr if empty
  std::string cache_dir;  // if empty, XDG_CACHE_HOME/ligerdsl or HOME/.cache/ligerdsl
  CacheMode cache = CacheMode::read_write;
  int64_t cache_bytes = 0;  // limit of the disk cache; 0 means kDefaultCacheLimit (disk_cache.h)
  bool no_jit = false;      // never compile; an uncached kernel is an error
  std::string table;  // path of a tuned table that overrides the built-in table; empty for none
  Tuning tuning = Tuning::any;
  bool validate = false;       // wait for every call and check its outputs
  bool deterministic = false;  // reject authors' kernels that add floats atomically
  int32_t num_threads = 0;     // 0 means one per CPU that the process may run on
  std::string cpu;             // target of CPU kernels, as LLVM names it; empty for this CPU
  std::string compiler;        // path of libligerdsl-compiler.so; if empty, next to the library
  std::optional<CompileMode> compile;  // if unset, `thread` in the library, `process` in the tools
  std::string
      compile_worker;  // path of the worker; if empty, next to the compiler (compile_process.h)
  int32_t compile_seconds = 120;     // time limit in seconds of one compile in a process
  int32_t compile_megabytes = 4096;  // MiB of address space of a compile in a process; 0: no limit
  int32_t cold_megabytes =
      0;  // MiB to overwrite before each measured run; 0: see flush_bytes() in measure.cpp
  std::string
      reproducer_dir;   // folder for programs that failed in the compiler; if empty, TMPDIR or /tmp
  std::string libcuda;  // path of the CUDA driver; if empty, libcuda.so.1
  std::string libcblas;           // path of a CBLAS library; if empty, see runtime/kernel/matmul.h
  std::string libcublaslt;        // path of cuBLASLt; if empty, see runtime/kernel/matmul.h
  bool launch_overlap = true;     // GPU: compile kernels for programmatic dependent launch
  std::vector<std::string> dump;  // stages to dump, in pipeline order
  std::string dump_dir = ".";
  std::string dump_filter;   // dump only kernels whose name contains this text
  std::string trace;         // file of Chrome trace events; empty for none
  std::string override_dir;  // folder of edited stages (stage_files.h)

  // Folders for files, and the path of a profiler's library (nvtx.h). Other programs define these
  // variables, so option_table() has no rows for them.
  std::string xdg_cache_home, home, tmpdir, nvtx_tool;
  // Variables that set OpenBLAS's number of threads. Other programs define these variables, too.
  std::string openblas_threads, openmp_threads;

  std::vector<std::string> problems;  // one sentence per value that did not parse
  bool ignored = false;               // the process is setuid or setgid: no variable was read
};

// Returns the options. The first call reads the environment. The object is never destroyed.
const Options& options();

// Parses options from any source; `get` returns null for an unset variable.
Options parse_options(const std::function<const char*(const char*)>& get, bool privileged);

// Parses a number of bytes, such as "4096", "512M" or "2G": K, M, G and T are powers of 1024.
// Returns null for other text.
std::optional<int64_t> parse_bytes(std::string_view text);

struct OptionInfo {
  const char* name;           // LIGERDSL_...
  const char* values;         // "off|ro|rw|required", "integer >= 0", "path", ...
  const char* default_value;  // as text
  const char* help;           // one line
};

std::span<const OptionInfo> option_table();

}  // namespace ligerdsl::runtime
