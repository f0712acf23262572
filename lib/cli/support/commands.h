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
  std::string stage;   // empty: ptx or asm
  std::string target;  // empty: from --device
  std::string variant = "aligned";
  std::string output;  // a file; empty: stdout
};
int compile(const Globals& globals, const CompileRequest& request);
const std::vector<std::string>& compile_stages();  // what --emit may be

struct ExplainRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::string target;  // empty: that of --device
  bool no_run = false;
};
int explain(const Globals& globals, const ExplainRequest& request);

struct LayoutRequest {
  std::string kernel;
  std::vector<std::string> settings;
  std::string target;  // empty: that of --device, else sm_90a
  std::string tile;    // a shape; empty: all
  int line = 0;        // line of the source; 0: all
  std::string by = "element";
  bool whole = false;
  std::string variant = "aligned";
};
int layout(const Globals& globals, const LayoutRequest& request);

// Request of `ligerdsl cache`, the disk cache.
struct CacheRequest {
  std::string to;  // trim: size to keep; empty: the limit
  bool dry_run = false;
  std::string file;                  // warm: descriptions; "-" for stdin
  std::vector<std::string> targets;  // warm: for lines without a target; empty: --device
  std::string ptx = "9.0";           // warm: for lines without one and a GPU that is not present
  int multiprocessors = 132;         // warm: the same
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
  bool all = false;  // every operation; `operations` is empty
};
int check_operations(const Globals& globals, const CheckRequest& request);

struct BenchRequest {
  std::string kernel;  // empty: sets
  std::vector<std::string> settings;
  std::vector<std::string> inputs;  // name=FILE.npy, with a kernel
  std::vector<std::string> sets;    // sets and models; empty: the standard set
  std::vector<int64_t> rows;        // for cases of sets, each case with every one; empty: their own
  bool list = false;                // list the cases without measuring
  std::vector<std::string> axes;    // with a kernel: H=1024:16384*2
  std::string vs;                   // --json file of an earlier run to compare with; empty: none
  double tolerance = 5;             // percent by which a case may be slower than before
  std::string plot;                 // SVG or PNG file; empty: none
  bool warm = false;
  double budget_ms = 300;
  double copy_bytes =
      0;  // size of the copy that is the ceiling; 0: 2 GiB on a GPU, 256 MiB on a CPU
};
int bench(const Globals& globals, const BenchRequest& request);

struct TuneRequest {
  std::string kernel;  // empty: sets
  std::vector<std::string> settings;
  std::vector<std::string> sets;
  bool all = false;           // tune every set
  std::vector<int64_t> rows;  // for cases of sets; empty: their own
  std::vector<std::string>
      check_with;  // settings of the call whose outputs are checked; empty: chosen
  std::string strategy = "guided";
  uint64_t seed = 0;
  double budget_seconds = 600;
  double timeout_seconds = 20;  // per trial; longer if the heuristic is slow
  int64_t max_evals = 200;      // per kernel
  int jobs = 0;                 // number of parallel compilers; 0: one per core
  Bits bits = Bits::row;        // largest change of results that a configuration may cause
  std::string store;            // file of trials; empty: in the user's data folder
  bool resume = false;
  std::string export_to;  // table; empty: none
  std::string report;     // HTML page; empty: none
};
int tune(const Globals& globals, const TuneRequest& request);
// Runs the worker process that `tune` starts for the device.
int tune_worker(const Globals& globals);

// Returns the default store in the user's data folder. Throws Failure (kUsage) if there is no such
// folder.
std::string default_store();

struct ReportRequest {
  std::vector<std::string> stores;   // empty: the default
  std::vector<std::string> kernels;  // or operations; empty: all
  std::string output;                // an HTML file
};
int report(const Globals& globals, const ReportRequest& request);

// Request of `ligerdsl table`, tables of tuned kernels.
struct TableRequest {
  std::vector<std::string> files;
  std::string output;
};
int table_ls(const Globals& globals, const TableRequest& request);
int table_merge(const Globals& globals, const TableRequest& request);
int table_import(const Globals& globals, const TableRequest& request);

}  // namespace ligerdsl::cli
