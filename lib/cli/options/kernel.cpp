#include "lib/cli/options/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/options/usage.h"
#include "lib/cli/support/environment.h"

namespace ligerdsl::cli {

void add_kernel(CommandLine& line, CLI::App* command, std::string* kernel,
                std::vector<std::string>* settings, bool required, const std::string& also) {
  line.offer(
      command
          ->add_option(
              "kernel", *kernel,
              "Name of an operation (`ligerdsl list`) or of a kernel loaded with --load" + also)
          ->required(required),
      {.kind = Offer::Kind::kernels});
  line.offer(
      command->add_option("settings", *settings,
                          "name=value; for an operation: fields of its descriptor, scalars and "
                          "sizes (dtype=bf16 N=16384 H=8192); for a kernel loaded with --load: "
                          "meta-parameters, shapes (x=4096x512, y=x), ranges of random values "
                          "(labels=4096:0..31999), scalars, and launch settings such as num_warps"),
      {.kind = Offer::Kind::settings});
}

void add_inputs(CommandLine& line, CLI::App* command, std::vector<std::string>* inputs) {
  line.offer(
      command
          ->add_option("--in", *inputs,
                       "Read the values of a tensor from a file (name=FILE.npy); may be repeated")
          ->allow_extra_args(false),
      {.kind = Offer::Kind::files});
}

void add_sets(CommandLine& line, CLI::App* command, std::vector<std::string>* sets,
              std::vector<int64_t>* rows) {
  line.offer(
      command
          ->add_option("--set,--model", *sets,
                       fmt::format("Set of shapes, or layers of a model: {}; may be repeated",
                                   fmt::join(bench_set_names(), ", ")))
          ->allow_extra_args(false),
      {.words = bench_set_names()});
  command
      ->add_option("--rows", *rows,
                   "Number of rows (tokens) in each case of a set; 2048,16384: each case with both")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(integer_from(1, (int64_t{1} << 31) - 1));
}

CLI::Option* add_target(CommandLine& line, CLI::App* command, std::string* target,
                        const std::string& description) {
  return line.offer(command->add_option("--target", *target, description),
                    {.words = target_names()});
}

CLI::Option* add_variant(CommandLine& line, CLI::App* command, std::string* variant,
                         const std::string& before) {
  return line.choice(
      command->add_option(
          "--variant", *variant,
          before + "`contiguous` (no gap between rows), `aligned` (arguments are aligned), "
                   "`operands` (operands of matmuls are aligned) or `generic` (any arguments)"),
      {"contiguous", "aligned", "operands", "generic"}, {{"factors", "operands"}});
}

}  // namespace ligerdsl::cli
