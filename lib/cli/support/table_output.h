// Output of a table of tuned kernels.
#pragma once

#include <string>

#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

// Writes the table to standard output if is_standard_output(path), else replaces the file
// atomically (tune::write_table).
void write_tuned_table(const std::string& path, const tune::TableEntries& entries);

}  // namespace ligerdsl::cli
