#include "ptx_kernel.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "program/program.h"

namespace ligerdsl::testing {
namespace {

program::ArgFacts factsOf(const program::Type& type, Known known, uint32_t aliasClass) {
  program::ArgFacts facts;
  facts.alias_class = aliasClass;
  if (type.kind != program::TypeKind::view || known == Known::nothing) return facts;
  int64_t vector = 16 / size_of(type.dtype);
  facts.pointer_align = 16;
  for (size_t dim = 0; dim < type.shape.size(); ++dim) {
    bool last = dim + 1 == type.shape.size();
    facts.dims.push_back({.exact = -1, .divisor = last && known == Known::whole ? vector : 1});
    facts.strides.push_back({.exact = last ? 1 : -1, .divisor = last ? 1 : vector});
  }
  return facts;
}

// A file that the destructor removes.
struct TemporaryFile {
  TemporaryFile() {
    char name[] = "/tmp/ligerdsl-ptx-XXXXXX";
    int descriptor = mkstemp(name);
    if (descriptor >= 0) close(descriptor);
    path = name;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string path;
};

int numberIn(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? std::stoi(match[1]) : -1;
}

}  // namespace

PtxKernel::PtxKernel(const Build& build, Known known, program::CompileOptions options) {
  KernelBuilder k("kernel");
  build(k);
  program::Program program = k.finish();
  options.target = program::Target::nvptx;
  if (options.arch.empty()) options.arch = "sm_90a";
  if (options.facts.empty())
    for (const program::Argument& argument : program.arguments)
      options.facts.push_back(
          factsOf(program.values[argument.value], known, options.facts.size() + 1));
  artifact = compileProgram(program, options);
  ptx = artifact.code;
}

int PtxKernel::count(const std::string& text) const {
  int n = 0;
  for (size_t at = ptx.find(text); at != std::string::npos; at = ptx.find(text, at + text.size()))
    ++n;
  return n;
}

Assembled assemble(const std::string& ptx, const std::string& arch) {
  TemporaryFile source, log;
  std::ofstream(source.path) << ptx;
  const char* given = std::getenv("LIGERDSL_PTXAS");
  std::string command = std::string("'") + (given ? given : LIGERDSL_PTXAS) +
                        "' -c -v -arch=" + arch + " -o /dev/null " + source.path + " >" + log.path +
                        " 2>&1";
  Assembled result;
  result.ok = std::system(command.c_str()) == 0;
  std::ifstream stream(log.path);
  result.log.assign(std::istreambuf_iterator<char>(stream), {});
  result.registers = numberIn(result.log, "Used (\\d+) registers");
  result.spilledBytes = numberIn(result.log, "(\\d+) bytes spill stores");
  return result;
}

void expectAssembles(const PtxKernel::Build& build, const std::string& arch, Known known,
                     int numWarps) {
  program::CompileOptions options;
  options.arch = arch;
  options.num_warps = numWarps;
  PtxKernel kernel(build, known, options);
  Assembled assembled = assemble(kernel.ptx, arch);
  EXPECT_TRUE(assembled.ok) << arch << ": ptxas failed\n" << assembled.log << kernel.ptx;
  EXPECT_EQ(assembled.spilledBytes, 0) << arch << "\n" << assembled.log;
  EXPECT_EQ(assembled.log.find("(C75"), std::string::npos) << "wgmma waits: " << assembled.log;
  for (const char* forbidden : {"call", "ld.local", "st.local", "atom.cas", "__nv_"})
    EXPECT_FALSE(kernel.has(forbidden)) << arch << ": " << forbidden << "\n" << kernel.ptx;
}

void expectAssemblesEverywhere(const PtxKernel::Build& build, Known known, int numWarps) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_100"})
    expectAssembles(build, arch, known, numWarps);
}

}  // namespace ligerdsl::testing
