// A table of tuned kernels as a command writes it.
#pragma once

#include <string>

#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

// To a file, at once (tune::write_table), or to standard output (is_standard_output).
void write_tuned_table(const std::string& path, const tune::TableEntries& entries);

}  // namespace ligerdsl::cli
