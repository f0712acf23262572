#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_table(CommandLine& line) {
  CLI::App* table =
      line.app.add_subcommand("table", "List, merge and import tables of tuned kernels");
  table->require_subcommand(1);
  const auto request = std::make_shared<TableRequest>();
  CLI::App* ls =
      table->add_subcommand("ls", "Entries: kernel, options, device, gain, configuration");
  const Offer files{.kind = Offer::Kind::files};
  line.offer(ls->add_option("file", request->files, "A table")->required()->expected(1), files);
  line.on(ls, [request](const Globals& globals) { return table_ls(globals, *request); });
  CLI::App* merge = table->add_subcommand(
      "merge", "Merge tables; of two entries of a key, keeps the one that gains more");
  line.offer(merge->add_option("files", request->files, "Tables")->required(), files);
  line.on(merge, [request](const Globals& globals) { return table_merge(globals, *request); });
  CLI::App* import = table->add_subcommand(
      "import",
      "Import entries that are right and faster than the heuristic on --device, and slower "
      "on no problem, as entries of this device");
  line.offer(
      import->add_option("file", request->files, "A table of any device")->required()->expected(1),
      files);
  line.on(import, [request](const Globals& globals) { return table_import(globals, *request); });
  line.offer(
      merge->add_option("-o,--output", request->output, "The table to write, or -")->required(),
      files);
  line.offer(import->add_option("-o,--output", request->output, "The table to add them to, or -")
                 ->required(),
             files);
}

}  // namespace ligerdsl::cli
