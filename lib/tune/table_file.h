// Writing tables of tuned kernels (lib/src/tuned_table.h).
#pragma once

#include <map>
#include <string>

#include "lib/src/tuned_table.h"
#include "lib/tune/trial.h"

namespace ligerdsl::tune {

using TableEntries = std::map<std::string, Json>;  // by key, as tables are sorted

// The entry of the trial that won. Its first member is "config".
std::pair<std::string, Json> table_entry(const Trial& winner);
TableEntries entries_of(const lib::TunedTable& table);  // throws runtime::Error, with the line, for what is no entry
// Of two entries of one key the one that was faster than the heuristic by more stays.
void merge(TableEntries* into, const TableEntries& others);
std::string table_text(const TableEntries& entries);
// At once: who reads the file meanwhile finds the old table or the new one. Throws runtime::Error (INVALID_ARGUMENT).
void write_table(const std::string& path, const TableEntries& entries);

}  // namespace ligerdsl::tune
