// Writing tables of tuned kernels (lib/src/tuned_table.h).
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/src/tuned_table.h"
#include "lib/tune/trial.h"

namespace ligerdsl::tune {

using TableEntries = std::map<std::string, Json>;  // by key, as tables are sorted

// As a trial describes it.
lib::TunedDevice device_of(const Json& device);
// The entry of the trial that won. Its first member is "config".
std::pair<std::string, Json> table_entry(const Trial& winner);
// Throws runtime::Error, with the line and what is wrong, for what is no entry as table_entry() makes them. All but
// "config" may be missing, and what else is there stays.
TableEntries entries_of(const lib::TunedTable& table);
// Of two entries of one key the one that was faster than the heuristic by more stays.
void merge(TableEntries* into, const TableEntries& others);
std::string table_text(const TableEntries& entries);
// At once: who reads the file meanwhile finds the old table or the new one. Throws runtime::Error (INVALID_ARGUMENT).
void write_table(const std::string& path, const TableEntries& entries);

// Entries of the table, none where there is no file yet. Throws runtime::Error for a file that update_table() could not
// change.
TableEntries entries_to_update(const std::string& path);
// `change` gets what the table holds, and what it leaves is written; false: nothing is. Whoever else updates the table
// meanwhile waits, so that neither loses the other's entries. Throws what write_table() and entries_of() throw, and
// runtime::Error where the table stays locked, or `stop` (a descriptor; -1: none) becomes readable meanwhile.
void update_table(const std::string& path, const std::function<bool(TableEntries*)>& change, int stop = -1);

}  // namespace ligerdsl::tune
