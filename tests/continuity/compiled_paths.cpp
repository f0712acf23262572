// compiled_paths COMPILER [--kernels N] [--ptx FOLDER]: plans calls for sm_90a and checks the PTX
// of the kernels that they launch.
//
// Input: one call per line. Its operations are written as on the command line and separated by ";".
// Each distinct kernel is compiled once, and the program stops after N kernels. Output, with tabs
// between fields:
//
//   broken   kernel  variant  rule  numbers  call   one line per kernel and broken rule
//   checked  kernel  variant  rules                 one line per kernel, with the rules that apply
//   calls    number                                 calls that were planned
//
// --ptx writes the PTX of each kernel with a broken rule to FOLDER.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/core/argument_facts.h"
#include "lib/cli/kernels/listed_call.h"
#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/system/sha256.h"
#include "tests/continuity/launch_path.h"
#include "tests/continuity/path_rules.h"

namespace ligerdsl::test {
namespace {

struct Settings {
  std::string compiler, ptx_folder;
  size_t kernels = SIZE_MAX;
};

class Paths {
 public:
  explicit Paths(const Settings& settings)
      : settings_(settings), compiler_(runtime::CompilerLibrary::open(settings.compiler)) {
    compiler_->isolate({});
  }

  bool is_full() const { return seen_.size() >= settings_.kernels; }

  // Checks those kernels of one operation that no earlier call launched.
  void check_operation(const std::string& text, const std::string& call) {
    const auto context = cli::listed_call(text, "sm_90a");
    for (const cli::LaunchList::Launch& launch : context->list.launches)
      if (launch.kernel >= 0) check_launch(*context, launch, call);
  }

 private:
  void check_launch(const cli::RecordingContext& context, const cli::LaunchList::Launch& launch,
                    const std::string& call) {
    const auto number = static_cast<size_t>(launch.kernel);
    const cli::RecordedKernel& kernel = context.recorded[number];
    const std::string options = program::serialize(kernel.options);
    const runtime::Digest digest = runtime::Sha256().field(kernel.program).field(options).finish();
    if (is_full() || !seen_.insert(digest).second) return;
    const kernels::Variant variant = variant_of(context.recorded, number);
    const std::string variant_name = kernels::name_of(variant);
    const program::Program program = program::parseProgram(kernel.program);
    const std::string name = program.name + "\t" + variant_name;
    const program::Artifact artifact =
        program::parseArtifact(compiler_->compile(kernel.program, options));
    const analysis::Work work = analysis::count_work(program, launch.slots.data(),
                                                     {launch.grid.x, launch.grid.y, launch.grid.z},
                                                     kernel.options.num_stages);
    Verdict verdict;
    try {
      verdict = check_rules(artifact.code, launch_path(program, kernel.options, variant, work));
    } catch (const std::exception& error) {
      throw std::runtime_error(program.name + ", " + variant_name + ", " + call + ": " +
                               error.what());
    }
    for (const BrokenRule& each : verdict.broken)
      std::printf("broken\t%s\t%s\t%s\t%s\n", name.c_str(), each.rule.c_str(), each.numbers.c_str(),
                  call.c_str());
    std::string applied;
    for (const std::string& rule : verdict.applied) applied += (applied.empty() ? "" : " ") + rule;
    std::printf("checked\t%s\t%s\n", name.c_str(), applied.c_str());
    if (!verdict.broken.empty() && !settings_.ptx_folder.empty())
      std::ofstream(settings_.ptx_folder + "/" + program.name + "." + variant_name + "." +
                    std::to_string(seen_.size()) + ".ptx")
          << "// " << call << "\n"
          << artifact.code;
  }

  // Returns the variant of the recorded kernel with this number. A plan records all variants of a
  // kernel before it records the next kernel.
  static kernels::Variant variant_of(const std::vector<cli::RecordedKernel>& all, size_t number) {
    for (size_t begin = 0;;) {
      const std::vector<kernels::Variant> variants =
          kernels::variants_of(program::parseProgram(all[begin].program));
      if (number < begin + variants.size()) return variants[number - begin];
      begin += variants.size();
    }
  }

  Settings settings_;
  std::shared_ptr<runtime::CompilerLibrary> compiler_;
  std::set<runtime::Digest> seen_;
};

Settings parse_settings(int argc, char** argv) {
  if (argc < 2)
    throw std::runtime_error("expected the path of the compiler library as first argument");
  Settings settings{.compiler = argv[1], .ptx_folder = {}};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--kernels")
      settings.kernels = std::stoull(argv[i + 1]);
    else if (name == "--ptx")
      settings.ptx_folder = argv[i + 1];
    else
      throw std::runtime_error("unknown option " + name + ": expected --kernels or --ptx");
  }
  return settings;
}

void run(const Settings& settings) {
  Paths paths(settings);
  size_t calls = 0;
  for (std::string line; !paths.is_full() && std::getline(std::cin, line); ++calls) {
    std::istringstream operations(line);
    for (std::string operation; std::getline(operations, operation, ';');)
      paths.check_operation(operation, line);
  }
  std::printf("calls\t%zu\n", calls);
}

}  // namespace
}  // namespace ligerdsl::test

int main(int argc, char** argv) {
  setenv("LIGERDSL_TUNING", "off", 1);  // schedules come from the heuristics
  try {
    ligerdsl::test::run(ligerdsl::test::parse_settings(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "compiled_paths: " << error.what() << "\n";
    return 2;
  }
}
