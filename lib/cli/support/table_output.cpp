#include "lib/cli/support/table_output.h"

#include "lib/text/output.h"

namespace ligerdsl::cli {

void write_tuned_table(const std::string& path, const tune::TableEntries& entries) {
  if (is_standard_output(path)) return print_text(tune::table_text(entries));
  tune::write_table(path, entries);
}

}  // namespace ligerdsl::cli
