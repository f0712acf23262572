#include "runtime/environment/options.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "runtime/environment/cpu_level.h"
#include "runtime/environment/stage_files.h"

namespace ligerdsl::runtime {
namespace {

// A row of the table: the text that `doctor` prints, and the parser of the value. `parse` returns
// false for an invalid value.
struct Row {
  OptionInfo info;
  bool (*parse)(std::string_view text, Options& to);
};

bool parse_log(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "error", "warning", "info", "debug"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.log = static_cast<LogLevel>(found - names);
  return true;
}

bool parse_cache(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "ro", "rw", "required"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.cache = static_cast<CacheMode>(found - names);
  return true;
}

bool parse_tuning(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "same", "any"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.tuning = static_cast<Tuning>(found - names);
  return true;
}

template <bool Options::*Member>
bool parse_switch(std::string_view text, Options& to) {
  if (text != "0" && text != "1") return false;
  to.*Member = text == "1";
  return true;
}

bool parse_compile(std::string_view text, Options& to) {
  if (text != "thread" && text != "process") return false;
  to.compile = text == "process" ? CompileMode::process : CompileMode::thread;
  return true;
}

template <int32_t Options::*Member, int32_t Low, int32_t High>
bool parse_number(std::string_view text, Options& to) {
  int32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < Low || value > High) return false;
  to.*Member = value;
  return true;
}

template <int64_t Options::*Member>
bool parse_size(std::string_view text, Options& to) {
  const std::optional<int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes == 0) return false;
  to.*Member = *bytes;
  return true;
}

bool parse_cpu(std::string_view text, Options& to) {
  const auto levels = cpu_levels();
  if (text != "host" && std::find(levels.begin(), levels.end(), text) == levels.end()) return false;
  to.cpu = text == "host" ? "" : text;
  return true;
}

bool parse_launch_overlap(std::string_view text, Options& to) {
  if (text != "on" && text != "off") return false;
  to.launch_overlap = text == "on";
  return true;
}

bool parse_dump(std::string_view text, Options& to) {
  std::set<std::string_view> wanted;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view stage = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    wanted.insert(stage);
  }
  const bool all = wanted.erase("all") > 0;
  std::vector<std::string> names;
  for (const Stage& stage : stages())
    if (wanted.erase(stage.name) > 0 || all) names.emplace_back(stage.name);
  if (!wanted.empty()) return false;
  to.dump = std::move(names);
  return true;
}

template <std::string Options::*Member>
bool parse_text(std::string_view text, Options& to) {
  to.*Member = std::string(text);
  return true;
}

constexpr Row kRows[] = {
    {{"LIGERDSL_LOG", "off|error|warning|info|debug", "warning", "how much is logged"}, parse_log},
    {{"LIGERDSL_LOG_FILE", "path", "stderr", "where log lines go; appended"}, parse_text<&Options::log_file>},
    {{"LIGERDSL_CACHE", "off|ro|rw|required", "rw",
      "use of the disk cache; required: a cache that does not work is an error"},
     parse_cache},
    {{"LIGERDSL_CACHE_DIR", "path", "$XDG_CACHE_HOME/ligerdsl or $HOME/.cache/ligerdsl", "folder of the disk cache"},
     parse_text<&Options::cache_dir>},
    {{"LIGERDSL_CACHE_SIZE", "1 or more bytes, or a number with K, M, G or T", "1G",
      "limit of the disk cache; the least recently used entries are removed first (no cache: LIGERDSL_CACHE=off)"},
     parse_size<&Options::cache_bytes>},
    {{"LIGERDSL_NO_JIT", "0|1", "0",
      "1: a kernel that is in no cache is an error, not a compile; ligerdsl cache warm fills the cache"},
     parse_switch<&Options::no_jit>},
    {{"LIGERDSL_NUM_THREADS", "integer 0..4096", "0", "threads of a CPU context; 0: one per CPU of this process"},
     parse_number<&Options::num_threads, 0, 4096>},
    {{"LIGERDSL_CPU", "host|x86-64|x86-64-v2|x86-64-v3|x86-64-v4", "host",
      "instructions of CPU kernels: those of this processor, or of a level that several machines share"},
     parse_cpu},
    {{"LIGERDSL_COMPILER", "path", "next to libligerdsl", "libligerdsl-compiler.so to load"},
     parse_text<&Options::compiler>},
    {{"LIGERDSL_COMPILE", "thread|process", "thread; process in the ligerdsl command",
      "where compiles run; in a separate process, a crash, a hang or lack of memory becomes an error"},
     parse_compile},
    {{"LIGERDSL_COMPILE_WORKER", "path", "ligerdsl/compile-worker next to the compiler", "program of that process"},
     parse_text<&Options::compile_worker>},
    {{"LIGERDSL_COMPILE_SECONDS", "integer 1..86400", "120", "time limit of one compile in a process, in s"},
     parse_number<&Options::compile_seconds, 1, 86400>},
    {{"LIGERDSL_COMPILE_MEGABYTES", "integer 0..1048576", "4096",
      "memory limit (address space) of one compile in a process, in MiB; 0: none"},
     parse_number<&Options::compile_megabytes, 0, 1 << 20>},
    {{"LIGERDSL_COLD_MEGABYTES", "integer 0..1048576", "0",
      "memory that bench, tune and explain overwrite before each measured run, in MiB; 0: twice the last cache, 64 to "
      "512"},
     parse_number<&Options::cold_megabytes, 0, 1 << 20>},
    {{"LIGERDSL_REPRODUCER_DIR", "path", "$TMPDIR or /tmp",
      "folder for programs that failed in the compiler (ligerdsl compile FILE.reproducer)"},
     parse_text<&Options::reproducer_dir>},
    {{"LIGERDSL_LIBCUDA", "path", "libcuda.so.1", "CUDA driver library to load"}, parse_text<&Options::libcuda>},
    {{"LIGERDSL_LIBCBLAS", "path", "OpenBLAS, CBLAS or BLIS", "library with cblas_sgemm for matmul on a CPU"},
     parse_text<&Options::libcblas>},
    {{"LIGERDSL_LIBCUBLASLT", "path", "libcublasLt.so.13 or .12", "cuBLASLt library for matmul on a GPU"},
     parse_text<&Options::libcublaslt>},
    {{"LIGERDSL_LAUNCH_OVERLAP", "on|off", "on",
      "a kernel may start while its predecessor on the stream still runs (sm_90 and later)"},
     parse_launch_overlap},
    {{"LIGERDSL_TABLE", "path", "none",
      "tuned table (ligerdsl tune --export) with precedence over the one in the library"},
     parse_text<&Options::table>},
    {{"LIGERDSL_TUNING", "off|same|any", "any",
      "entries of tuned tables in use: none; those that change no bit of a result; all"},
     parse_tuning},
    {{"LIGERDSL_VALIDATE", "0|1", "0",
      "1: wait for every call; labels out of bounds and NaNs from finite inputs are errors of that call"},
     parse_switch<&Options::validate>},
    {{"LIGERDSL_DETERMINISTIC", "0|1", "0",
      "1: reject kernels of your own that add floats atomically; those of the library are deterministic"},
     parse_switch<&Options::deterministic>},
    {{"LIGERDSL_DUMP", "list of program,tile,tgpu,loops,llvm,ptx,asm,cubin,object,resources,remarks or all", "none",
      "stages to write for every loaded kernel: <LIGERDSL_DUMP_DIR>/<kernel>-<key>/02-tile.mlir and so on"},
     parse_dump},
    {{"LIGERDSL_DUMP_DIR", "path", ".", "folder of the dumps"}, parse_text<&Options::dump_dir>},
    {{"LIGERDSL_DUMP_FILTER", "text", "every kernel", "dump only kernels whose name contains this"},
     parse_text<&Options::dump_filter>},
    {{"LIGERDSL_TRACE", "path", "none",
      "trace of the library's work and the compiler's passes, for ui.perfetto.dev; appended"},
     parse_text<&Options::trace>},
    {{"LIGERDSL_OVERRIDE_DIR", "path", "none",
      "<path>/<kernel>-<key>/02-tile.mlir (or 05-kernel.ptx, 06-kernel.cubin, 06-kernel.o), where present, is run in "
      "place of what the compiler makes; files and folders are named as LIGERDSL_DUMP names them"},
     parse_text<&Options::override_dir>},
};

std::vector<OptionInfo> infos() {
  std::vector<OptionInfo> all;
  for (const Row& row : kRows) all.push_back(row.info);
  return all;
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view letters = "KMGT";
  int shift = 0;
  if (!text.empty()) {
    const size_t letter = letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (letter != std::string_view::npos) {
      shift = 10 * static_cast<int>(letter + 1);
      text.remove_suffix(1);
    }
  }
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > (INT64_MAX >> shift))
    return std::nullopt;
  return value << shift;
}

Options parse_options(const std::function<const char*(const char*)>& get, bool privileged) {
  Options result;
  if (privileged) {
    result.ignored = true;
    return result;
  }
  for (const Row& row : kRows) {
    const char* text = get(row.info.name);
    if (text == nullptr || *text == '\0') continue;
    if (row.parse(text, result)) continue;
    result.problems.push_back(std::string(row.info.name) + ": expected " + row.info.values + ", got \"" + text +
                              "\"; the default (" + row.info.default_value + ") is used");
  }
  for (auto [name, to] : {std::pair{"XDG_CACHE_HOME", &result.xdg_cache_home},
                          {"HOME", &result.home},
                          {"TMPDIR", &result.tmpdir},
                          {"NVTX_INJECTION64_PATH", &result.nvtx_tool},
                          {"OPENBLAS_NUM_THREADS", &result.openblas_threads},
                          {"OMP_NUM_THREADS", &result.openmp_threads}})
    if (const char* text = get(name)) *to = text;
  return result;
}

const Options& options() {
  static const Options* const parsed = new Options(
      parse_options([](const char* name) -> const char* { return getenv(name); }, getauxval(AT_SECURE) != 0));
  return *parsed;
}

std::span<const OptionInfo> option_table() {
  static const std::vector<OptionInfo>* const table = new std::vector<OptionInfo>(infos());
  return *table;
}

}  // namespace ligerdsl::runtime
