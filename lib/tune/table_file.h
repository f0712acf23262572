// Writes tables of tuned kernels. lib/abi/tuned_table.h reads them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/abi/tuned_table.h"
#include "lib/tune/trial.h"

namespace ligerdsl::tune {

using TableEntries = std::map<std::string, Json>;  // sorted by key, like the table

// Returns the device of a trial.
lib::TunedDevice device_of(const Json& device);
// Returns the key and the entry of the winning trial. The entry's first member is "config".
std::pair<std::string, Json> table_entry(const Trial& winner);
// Reads a table. Throws runtime::Error, with the line and the reason, for an entry that
// table_entry() would not write. All members but "config" may be missing; unknown members are kept.
TableEntries entries_of(const lib::TunedTable& table);
// Adds entries to a table. If both have a key, keeps the entry with the larger gain over the
// heuristic.
void merge(TableEntries* into, const TableEntries& others);
std::string table_text(const TableEntries& entries);
// Replaces a regular file atomically: a reader gets the old table or the new one. Throws
// runtime::Error (INVALID_ARGUMENT).
void write_table(const std::string& path, const TableEntries& entries);

// Returns the entries of the table, or none if there is no file. Throws runtime::Error for a file
// that update_table() could not change.
TableEntries entries_to_update(const std::string& path);
// Calls `change` with the table's entries and writes the result; if it returns false, writes
// nothing. Blocks other updates of the table, so that no entry is lost. Throws errors of
// write_table() and entries_of(). Also throws runtime::Error if the table stays locked, or if the
// descriptor `stop` (-1: none) becomes readable during the wait.
void update_table(const std::string& path, const std::function<bool(TableEntries*)>& change,
                  int stop = -1);

}  // namespace ligerdsl::tune
