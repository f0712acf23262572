// The subcommands. Each returns an exit code or throws Failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/text/output.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::cli {

int doctor(const Globals& globals);

int list(const Globals& globals);

struct CompileRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::string stage;   // one of compile_stages(); empty: ptx for a GPU, asm for a CPU
  std::string target;  // empty: the target of --device; for a GPU stage with a CPU, sm_90a
  std::string variant = "aligned";
  std::string output;  // a file, or empty for stdout
};
int compile(const Globals& globals, const CompileRequest& request);
const std::vector<std::string>& compile_stages();  // Returns the values of --emit.

struct ExplainRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::string target;  // empty: the target of --device
  bool no_run = false;
};
int explain(const Globals& globals, const ExplainRequest& request);

struct LayoutRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::string target;  // empty: the target of --device if it is a GPU, else sm_90a
  std::string tile;    // shape of the printed tiles; empty means all
  int line = 0;        // source line of the printed tiles; 0 means all
  std::string by = "element";
  bool whole = false;
  std::string variant = "aligned";
};
int layout(const Globals& globals, const LayoutRequest& request);

// Request of `ligerdsl cache`, which handles the disk cache.
struct CacheRequest {
  std::string to;  // trim: size to keep; empty means the cache's limit
  bool dry_run = false;
  std::string file;                  // warm: descriptions; "-" for stdin
  std::vector<std::string> targets;  // warm: for lines without a target; empty means --device
  std::string ptx = "9.0";           // warm: default PTX version for a GPU that is not present
  int multiprocessors = 132;         // warm: default number of SMs of a GPU that is not present
};
int cache_ls(const Globals& globals);
int cache_verify(const Globals& globals);
int cache_trim(const Globals& globals, const CacheRequest& request);
int cache_clear(const Globals& globals, const CacheRequest& request);
int cache_warm(const Globals& globals, const CacheRequest& request);

struct RunRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::vector<std::string> inputs;  // name=FILE.npy
  std::string output_dir;
  bool check = false;
};
int run(const Globals& globals, const RunRequest& request);

struct CheckRequest {
  std::vector<std::string> operations;
  bool all = false;  // check every operation; `operations` is empty
};
int check_operations(const Globals& globals, const CheckRequest& request);

struct BenchRequest {
  std::string kernel;  // empty means sets
  std::vector<std::string> settings;
  std::vector<std::string> inputs;  // name=FILE.npy, with a kernel
  std::vector<std::string> sets;    // names of sets and models; empty means the standard set
  std::vector<int64_t> rows;        // row counts for all cases; empty means the sets' own
  bool list = false;                // list the cases without measuring
  std::vector<std::string> axes;    // with a kernel: H=1024:16384*2
  std::string vs;                   // --json file of an earlier run to compare with, or empty
  double tolerance = 5;             // permitted slowdown of a case in percent
  std::string plot;                 // SVG or PNG file, or empty
  bool warm = false;
  double budget_ms = 300;
  double copy_bytes =
      0;  // bytes of the copy used as ceiling; 0 means 2 GiB on a GPU, 256 MiB on a CPU
};
int bench(const Globals& globals, const BenchRequest& request);

struct TuneRequest {
  std::string kernel;  // empty means sets
  std::vector<std::string> settings;
  std::vector<std::string> sets;
  bool all = false;           // tune every set
  std::vector<int64_t> rows;  // row counts for all cases; empty means the sets' own
  std::vector<std::string>
      check_with;  // settings of the call whose outputs are checked; empty: chosen by the tuner
  std::string strategy = "guided";
  uint64_t seed = 0;
  double budget_seconds = 600;
  double timeout_seconds = 20;  // limit of a trial's time; longer if the heuristic is slow
  int64_t max_evals = 200;      // largest number of trials per kernel
  int jobs = 0;                 // number of parallel compilers; 0 means one per core
  Bits bits = Bits::row;        // largest effect on results that a configuration may have
  std::string store;            // file of trials; empty means the one in the user's data folder
  bool resume = false;
  std::string export_to;  // table, or empty
  std::string report;     // HTML page, or empty
};
int tune(const Globals& globals, const TuneRequest& request);
// Runs the worker process that `tune` starts for the device.
int tune_worker(const Globals& globals);

// Returns the default store in the user's data folder. Throws Failure (kUsage) if there is no such
// folder.
std::string default_store();

struct ReportRequest {
  std::vector<std::string> stores;   // empty means the default store
  std::vector<std::string> kernels;  // operations, or kernels loaded with --load; empty: all
  std::string output;                // HTML file
};
int report(const Globals& globals, const ReportRequest& request);

// Request of `ligerdsl table`, which handles tables of tuned kernels.
struct TableRequest {
  std::vector<std::string> files;
  std::string output;
};
int table_ls(const Globals& globals, const TableRequest& request);
int table_merge(const Globals& globals, const TableRequest& request);
int table_import(const Globals& globals, const TableRequest& request);

}  // namespace ligerdsl::cli
