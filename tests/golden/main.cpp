// golden_tests COMPILER FILE... [--update [OPERATION...]]: compares the code of the library's
// kernels, or the compiler's remarks on them, with each FILE.
//
// The first line of a FILE names the target and the LLVM version ("sm_90a LLVM 22.1.8"). Each other
// line describes a kernel: the case, its number among the kernels of the case, its resources on a
// GPU, and a digest of its code. If the first line ends with "remarks", each other line is an
// operation and a remark on one of its kernels. Files of the same target share the compiled
// kernels.
//
// Exit code 1: a line differs. Exit code 77: this compiler has another LLVM, whose code may differ.
// --update rewrites each FILE; with operations, the lines of other operations stay.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "kernels/core/argument_facts.h"
#include "lib/abi/structs.h"
#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/kernels/recording_context.h"
#include "lib/instance/op_instance.h"
#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/system/sha256.h"
#include "tests/every_op/cases.h"
#include "tests/golden/code.h"

namespace ligerdsl::test {
namespace {

constexpr int kChanged = 1, kOtherCompiler = 77;
constexpr std::string_view kRemarks = " remarks";

program::CompileOptions options_for(const std::string& target) {
  program::CompileOptions options;
  options.target = target.starts_with("sm_") ? program::Target::nvptx : program::Target::cpu;
  options.arch = target;
  return options;
}

// Returns the case with `type` in place of the first setting's dtype, in every setting with that
// dtype.
Case retyped(Case which, const std::string& type) {
  const std::string first = which.settings.empty() ? "" : which.settings[0];
  if (!first.starts_with("dtype=")) return which;
  for (std::string& setting : which.settings) {
    if (setting.ends_with(first))
      setting.replace(setting.size() - first.size(), first.size(), "dtype=" + type);
  }
  return which;
}

// Returns every operation with its options, the cases of all sets of `ligerdsl bench`, and the
// cases of the sets `standard` and `paper` in all types.
std::vector<Case> all_cases(bool gpu) {
  std::vector<Case> found = cases(64);
  for (const std::string& set : cli::bench_set_names()) {
    for (const cli::BenchCase& one : cli::bench_cases(set, {.cpu = !gpu})) {
      found.push_back({one.kernel, one.settings});
      if (set != "standard" && set != "paper") continue;
      for (const char* type : {"f32", "f16", "bf16"}) found.push_back(retyped(found.back(), type));
    }
  }
  return found;
}

std::string title_of(const Case& which) {
  std::string title = which.op;
  for (const std::string& setting : which.settings) title += " " + setting;
  return title;
}

class Golden {
 public:
  Golden(const program::CompileOptions& base, std::shared_ptr<runtime::CompilerLibrary> compiler)
      : base_(base), compiler_(std::move(compiler)) {}

  // Returns the lines of a case, one per kernel.
  std::vector<std::string> lines(const Case& which) {
    std::vector<std::string> out;
    for (const cli::RecordedKernel& kernel : record(which))
      out.push_back(title_of(which) + " #" + std::to_string(out.size()) + " " +
                    compiled(kernel).line);
    return out;
  }

  // Returns the remarks on the fastest variant of each of the case's kernels.
  std::vector<std::string> remarks(const Case& which) {
    std::vector<std::string> out;
    const std::vector<cli::RecordedKernel> all = record(which);
    size_t variants = 0;
    for (size_t i = 0; i < all.size(); i += variants) {  // the first variant of each program
      variants = kernels::variants_of(program::parseProgram(all[i].program)).size();
      Compiled& kernel = compiled(all[i]);
      for (const std::string& remark : std::exchange(kernel.remarks, {}))
        out.push_back(which.op + " " + remark);
    }
    return out;
  }

 private:
  struct Compiled {
    std::string line;
    std::vector<std::string> remarks;  // listed for the first case that has the kernel
  };

  std::vector<cli::RecordedKernel> record(const Case& which) {
    const cli::OpInstance instance(cli::find_op(which.op), which.settings);
    lib::check_desc(instance.info(), instance.desc());
    const auto context = std::make_shared<cli::RecordingContext>(base_);
    const lib::Plan plan(instance.info(), context, instance.desc());
    return context->recorded;
  }
  // Caches compiled kernels, because cases and files share them.
  Compiled& compiled(const cli::RecordedKernel& kernel) {
    const std::string key = program::serialize(kernel.options) + kernel.program;
    const auto [entry, fresh] = compiled_.try_emplace(key);
    if (fresh) entry->second = compile(kernel);
    return entry->second;
  }
  Compiled compile(const cli::RecordedKernel& kernel) {
    program::CompileOptions options = kernel.options;
    const bool gpu = options.target == program::Target::nvptx;
    if (!gpu) options.emit = "asm";
    const program::Artifact artifact =
        program::parseArtifact(compiler_->compile(kernel.program, program::serialize(options)));
    Compiled result;
    result.line =
        runtime::hex(runtime::sha256(without_locations(artifact.code, gpu))).substr(0, 16);
    if (gpu) {
      result.line = "threads=" + std::to_string(artifact.threads) +
                    " cluster=" + std::to_string(artifact.cluster) +
                    " shared=" + std::to_string(artifact.shared_bytes) + " " + result.line;
    }
    for (const program::Remark& remark : artifact.remarks)
      result.remarks.push_back(without_lines(to_string(remark)));
    return result;
  }

  program::CompileOptions base_;
  std::shared_ptr<runtime::CompilerLibrary> compiler_;
  std::map<std::string, Compiled> compiled_;
};

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Prints the lines that are in only one of the lists; returns their number.
size_t compare(const std::vector<std::string>& wanted, const std::vector<std::string>& found) {
  const std::set<std::string> before(wanted.begin(), wanted.end()), now(found.begin(), found.end());
  size_t differences = 0;
  for (const std::string& line : before)
    if (!now.count(line) && ++differences) std::cout << "- " << line << "\n";
  for (const std::string& line : now)
    if (!before.count(line) && ++differences) std::cout << "+ " << line << "\n";
  return differences;
}

// Returns the lines of `before` that belong to a case.
std::vector<std::string> kept(const std::vector<std::string>& before, const Case& which,
                              bool remarks) {
  const std::string begin = remarks ? which.op + " " : title_of(which) + " #";
  std::vector<std::string> lines;
  for (const std::string& line : before)
    if (line.starts_with(begin)) lines.push_back(line);
  return lines;
}

// The kernels of each target, compiled once for all files.
class Targets {
 public:
  explicit Targets(const std::string& compiler_path)
      : compiler_(runtime::CompilerLibrary::open(compiler_path)) {}
  Golden& operator[](const std::string& target) {
    return goldens_.try_emplace(target, options_for(target), compiler_).first->second;
  }
  std::string llvm_version() const { return compiler_->llvm_version(); }

 private:
  std::shared_ptr<runtime::CompilerLibrary> compiler_;
  std::map<std::string, Golden> goldens_;
};

int run(const std::string& path, Targets& targets, bool update,
        const std::set<std::string>& operations) {
  const std::vector<std::string> before = read_lines(path);
  if (before.empty())
    throw std::runtime_error(
        path + ": expected a file whose first line names a target, got none or an empty one");
  const std::string target = before[0].substr(0, before[0].find(' '));
  const bool remarks = before[0].ends_with(kRemarks);
  const std::string head =
      target + " LLVM " + targets.llvm_version() + std::string(remarks ? kRemarks : "");
  if (!update && before.size() == 1)
    throw std::runtime_error(path + " has only its first line: write the rest with --update");
  if (!update && before[0] != head) {
    std::cout << "[SKIP] " << path << " is for '" << before[0] << "', this compiler is '" << head
              << "'\n";
    return kOtherCompiler;
  }
  Golden& golden = targets[target];
  std::set<std::string> unique;
  std::vector<std::string> found = {head};
  for (const Case& which : all_cases(target.starts_with("sm_"))) {
    const bool keeps = !operations.empty() && !operations.contains(which.op);
    for (std::string& line : keeps     ? kept(before, which, remarks)
                             : remarks ? golden.remarks(which)
                                       : golden.lines(which))
      if (unique.insert(line).second) found.push_back(std::move(line));
  }
  if (update) {
    std::ofstream file(path, std::ios::trunc);
    for (const std::string& line : found) file << line << "\n";
    return file.good() ? 0 : kChanged;
  }
  const size_t differences = compare(before, found);
  std::cout << found.size() - 1 << (remarks ? " remarks, " : " kernels, ") << differences
            << " lines differ\n";
  if (differences == 0) return 0;
  std::cout << (remarks ? "The compiler's remarks on the library's kernels"
                        : "The code of the library's kernels")
            << " changed. tests/golden/README.md describes how to commit an intended change.\n";
  return kChanged;
}

}  // namespace
}  // namespace ligerdsl::test

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto option = std::find(arguments.begin(), arguments.end(), "--update");
  const bool update = option != arguments.end();
  if (arguments.size() < 2 || std::distance(arguments.begin(), option) < 2) {
    std::cerr << "usage: golden_tests COMPILER FILE... [--update [OPERATION...]]\n";
    return 2;
  }
  setenv("LIGERDSL_TUNING", "off", 1);  // compare the heuristics' choice; tuned tables change
  try {
    ligerdsl::test::Targets targets(arguments[0]);
    const std::set<std::string> operations(update ? option + 1 : option, arguments.end());
    std::set<int> codes;
    for (auto file = arguments.begin() + 1; file != option; ++file)
      codes.insert(ligerdsl::test::run(*file, targets, update, operations));
    for (const int code : {ligerdsl::test::kChanged, ligerdsl::test::kOtherCompiler})
      if (codes.contains(code)) return code;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "golden_tests: " << error.what() << "\n";
    return 2;
  }
}
