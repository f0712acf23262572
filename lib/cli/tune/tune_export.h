// What `tune --export` makes of a table: entries of winners, those that go, and why others are not written.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/cli/tune/tune_search.h"
#include "lib/cli/tune/tune_tasks.h"
#include "lib/text/output.h"
#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

class TableExport {
 public:
  // `path`: of a table, or standard output (is_standard_output), or empty: none. Throws runtime::Error for a file that
  // is no table or cannot be one.
  explicit TableExport(std::string path);

  bool is_printed() const { return printed_; }
  // When this descriptor becomes readable, the table is no longer waited for while another process has locked it.
  void stop_waiting_at(int descriptor) { stop_ = descriptor; }
  // The configuration that the table has for a task now; empty: none.
  std::string entry_of(const TuneTask& task, const Json& device) const;
  // What came of a search goes into the table at once. That it cannot be written is said once, and tried again with the
  // next.
  void add(const TuneTask& task, const TuneWinner& won);
  // Prints the table, or says what was written. False where something could not be.
  bool finish(const Globals& globals);
  Json json() const;  // null where there is no export

 private:
  // A search's result that is not in the table yet.
  struct Result {
    std::string key;
    std::string was;            // the configuration that the table had when the search began
    std::optional<Json> entry;  // none: the heuristic won
    std::string refuted, reason;
  };
  using Reasons = std::vector<std::pair<std::string, std::string>>;  // of keys
  struct Outcome {
    std::vector<std::string> written;
    Reasons removed, not_written;
  };
  static void apply(const Result& result, tune::TableEntries* entries, Outcome* outcome);
  bool write();
  void say(const Globals& globals) const;

  std::string path_;
  bool printed_;
  int stop_ = -1;
  std::vector<Result> left_;
  Outcome outcome_;
  size_t entries_ = 0;   // that the table holds
  std::string failure_;  // of the last write
};

}  // namespace ligerdsl::cli
