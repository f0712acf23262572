// Every environment variable of the library: declared once, typed, documented, parsed once.
//
// Calls of the API beat the environment. In a setuid or setgid process (AT_SECURE) the environment is ignored. A value
// that does not parse is reported by a warning and the default is used.
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
// Which entries of tables of tuned kernels are taken: none; those that change nothing in the results; all.
enum class Tuning : uint8_t { off, same, any };

struct Options {
  LogLevel log = LogLevel::warning;
  std::string log_file;   // empty: stderr
  std::string cache_dir;  // empty: XDG_CACHE_HOME/ligerdsl or HOME/.cache/ligerdsl
  CacheMode cache = CacheMode::read_write;
  int64_t cache_bytes = 0;  // limit of the disk cache; 0: kDefaultCacheLimit (disk_cache.h)
  bool no_jit = false;      // a kernel found in no cache is an error, never a compile
  std::string table;        // path of a table of tuned kernels, looked at before the one that ships; empty: none
  Tuning tuning = Tuning::any;
  bool validate = false;               // every call is waited for and checked
  bool deterministic = false;          // kernels of authors whose results may differ between runs are refused
  int32_t num_threads = 0;             // 0: one per CPU that the process may run on
  std::string cpu;                     // CPU kernels are made for, one of LLVM's names; empty: this one
  std::string compiler;                // path of libligerdsl-compiler.so; empty: beside the library
  std::optional<CompileMode> compile;  // unset: a thread in the library, a process in the tools
  std::string compile_worker;          // path of the worker; empty: ligerdsl/compile-worker beside the compiler library
  int32_t compile_seconds = 120;       // of one compile in a process
  int32_t compile_megabytes = 4096;    // likewise, of address space; 0: no limit
  int32_t cold_megabytes = 0;          // overwritten before each measured run; 0: twice the last-level cache
  std::string reproducer_dir;          // where programs that the compiler failed on are kept; empty: TMPDIR or /tmp
  std::string libcuda;                 // path of the CUDA driver; empty: libcuda.so.1
  std::string libcblas;                // path of a CBLAS library; empty: runtime/kernel/matmul.h says which are tried
  std::string libcublaslt;             // path of cuBLASLt; likewise
  bool launch_overlap = true;          // GPU: kernels are compiled for programmatic dependent launch
  std::vector<std::string> dump;       // stages to write, in their order
  std::string dump_dir = ".";
  std::string dump_filter;   // only kernels whose name contains this
  std::string trace;         // file of Chrome trace events; empty: none
  std::string override_dir;  // where edited stages are (stage_files.h)

  // Folders that decide where files go, and a profiler's library (nvtx.h); not ours, hence no rows in the table.
  std::string xdg_cache_home, home, tmpdir, nvtx_tool;
  // Numbers of threads that OpenBLAS starts with, likewise.
  std::string openblas_threads, openmp_threads;

  std::vector<std::string> problems;  // one sentence per value that did not parse
  bool ignored = false;               // the process is setuid: no variable was read
};

// The environment, read once. Never destroyed.
const Options& options();

// Parses from any source; `get` returns null for an unset variable.
Options parse_options(const std::function<const char*(const char*)>& get, bool privileged);

// "4096", "512M", "2G": a number of bytes with a letter K, M, G or T for powers of 1024. Null for anything else.
std::optional<int64_t> parse_bytes(std::string_view text);

struct OptionInfo {
  const char* name;           // LIGERDSL_...
  const char* values;         // "off|ro|rw|required", "integer >= 0", "path", ...
  const char* default_value;  // as text
  const char* help;           // one line
};

std::span<const OptionInfo> option_table();

}  // namespace ligerdsl::runtime
