// Output of a table of tuned kernels.
#pragma once

#include <string>

#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

// Replaces a file atomically (tune::write_table), or prints to standard output
// (is_standard_output).
void write_tuned_table(const std::string& path, const tune::TableEntries& entries);

}  // namespace ligerdsl::cli
