#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/kernel.h"
#include "lib/cli/support/commands.h"

namespace ligerdsl::cli {

void add_compile(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("compile", "Print any stage of a kernel's compile; needs no GPU");
  const auto request = std::make_shared<CompileRequest>();
  add_kernel(line, command, &request->kernel, &request->settings, true,
             ", or FILE.reproducer of a failed compile");
  line.offer(
      command->add_option(
          "--emit", request->stage,
          "config (the schedule, as settings), program, tile, tgpu, loops, llvm, ptx, asm, remarks "
          "(what the compiler could not do, and why), cubin, resources (these need ptxas) or sass "
          "(and cuobjdump); default ptx or asm"),
      {.words = compile_stages()});
  add_target(
      line, command, &request->target,
      "cpu, sm_80, sm_90a, sm_100 ...; default: that of --device, sm_90a for stages of a GPU");
  add_variant(line, command, &request->variant, "GPU: ");
  line.offer(command->add_option("-o,--output", request->output, "Write to a file"),
             {.kind = Offer::Kind::files});
  line.on(command, [request](const Globals& globals) { return compile(globals, *request); });
}

}  // namespace ligerdsl::cli
