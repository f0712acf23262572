#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_table(CommandLine& line) {
  CLI::App* table =
      line.app.add_subcommand("table", "List, merge and import tables of tuned kernels");
  table->require_subcommand(1);
  const auto request = std::make_shared<TableRequest>();
  CLI::App* ls = table->add_subcommand(
      "ls",
      "List the entries: kernel, options, device, ratio to the heuristic's time, configuration");
  const Offer files{.kind = Offer::Kind::files};
  line.offer(ls->add_option("file", request->files, "Table to list")->required()->expected(1),
             files);
  line.on(ls, [request](const Globals& globals) { return table_ls(globals, *request); });
  CLI::App* merge = table->add_subcommand(
      "merge",
      "Merge tables; of two entries with the same key, keeps the one with the larger gain");
  line.offer(merge->add_option("files", request->files, "Tables to merge")->required(), files);
  line.on(merge, [request](const Globals& globals) { return table_merge(globals, *request); });
  CLI::App* import = table->add_subcommand(
      "import",
      "Measure a table's entries on --device, and add those with correct results that are faster "
      "than the heuristic and slower on no problem, as entries of this device");
  line.offer(
      import->add_option("file", request->files, "Table of any device")->required()->expected(1),
      files);
  line.on(import, [request](const Globals& globals) { return table_import(globals, *request); });
  line.offer(merge->add_option("-o,--output", request->output, "Table to write, or - for stdout")
                 ->required(),
             files);
  line.offer(import
                 ->add_option("-o,--output", request->output,
                              "Table to add the entries to, or - for stdout")
                 ->required(),
             files);
}

}  // namespace ligerdsl::cli
