// Updates a table for `tune --export`: writes the entries of winners, removes refuted entries, and
// reports why other results are not written.
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
  // `path` is a table, standard output (is_standard_output), or empty for no export. Throws
  // runtime::Error for a file that is not a table or cannot be written.
  explicit TableExport(std::string path);

  bool is_printed() const { return printed_; }
  // Stops waiting for the table's lock when this descriptor becomes readable.
  void stop_waiting_at(int descriptor) { stop_ = descriptor; }
  // Returns the configuration that the table has for a task, or "".
  std::string entry_of(const TuneTask& task, const Json& device) const;
  // Writes the result of a search into the table at once. If a write fails, reports the first
  // failure and tries again with the next result.
  void add(const TuneTask& task, const TuneWinner& won);
  // Prints the table, or a report of the written entries. Returns false if a write failed.
  bool finish(const Globals& globals);
  Json json() const;  // null if there is no --export

 private:
  // Result of a search that is not in the table yet.
  struct Result {
    std::string key;
    std::string was;            // configuration that the table had when the search began
    std::optional<Json> entry;  // none if the heuristic won
    std::string refuted, reason;
  };
  using Reasons = std::vector<std::pair<std::string, std::string>>;  // keys and reasons
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
  size_t entries_ = 0;   // number of entries in the table
  std::string failure_;  // error of the last write
};

}  // namespace ligerdsl::cli
