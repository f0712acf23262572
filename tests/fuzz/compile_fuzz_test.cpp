// A random program must compile for both targets, or be refused with an error that names the
// author's line. Each compile runs in its own process. A crash, a hang or a fatal LLVM error
// therefore only fails the test.
#include <gtest/gtest.h>

#include "builder_fuzz.h"
#include "fuzz_budget.h"
#include "program/options.h"
#include "program/print.h"
#include "program/serialize.h"
#include "runtime/compile/compiler_library.h"
#include "runtime/system/status.h"

namespace ligerdsl::test {
namespace {

program::CompileOptions options_for(program::Target target, unsigned seed) {
  constexpr const char* archs[] = {"sm_90a", "sm_80", "sm_100", "sm_90a"};
  std::mt19937 random(seed);
  program::CompileOptions options;
  options.target = target;
  if (target == program::Target::cpu) return options;
  options.arch = archs[random() % 4];
  options.ptx_version = 90;
  options.num_warps = 1 << random() % 6;
  options.num_stages = 1 + random() % 4;
  options.contract = random() % 2;
  return options;
}

// Returns true if the program compiled, and false if it was refused.
bool compiles(runtime::CompilerLibrary& compiler, const std::string& bytes, program::Target target,
              unsigned seed) {
  try {
    const std::string artifact =
        compiler.compile(bytes, program::serialize(options_for(target, seed)));
    EXPECT_FALSE(program::parseArtifact(artifact).code.empty());
    return true;
  } catch (const runtime::Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.status(), runtime::Status::compile_failed) << text;
    EXPECT_NE(text.find("builder_fuzz.h:"), std::string::npos) << "no line of the author: " << text;
    return false;
  }
}

// The compiler finds these mistakes only after several passes. It must still report a mistake of
// the author or caller, and not a bug of the compiler.
TEST(CompileRefusal, BlamesTheAuthor) {
  const auto compiler = runtime::CompilerLibrary::open(LIGERDSL_TEST_COMPILER);
  const auto message = [&](int64_t elements, const std::string& arch) {
    KernelBuilder k("large");
    const View out = k.view("out", f32, {dyn});
    out.partition({elements}).store({0}, k.arange(elements).to(f32));
    program::CompileOptions options;
    options.target = program::Target::nvptx;
    options.arch = arch;
    options.ptx_version = 90;
    options.num_warps = 1;
    try {
      compiler->compile(k.finish_bytes(), program::serialize(options));
    } catch (const runtime::Error& error) {
      EXPECT_EQ(error.status(), runtime::Status::compile_failed) << error.what();
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(4096, "sm_90a"), "");
  EXPECT_NE(message(1 << 20, "sm_90a").find("compile_fuzz_test.cpp:"), std::string::npos);
  EXPECT_NE(message(4096, "sm_12").find("unknown GPU architecture 'sm_12'"), std::string::npos);
}

TEST(CompileFuzz, CompilesOrNamesTheLine) {
  const auto compiler = runtime::CompilerLibrary::open(LIGERDSL_TEST_COMPILER);
  runtime::CompileIsolation isolation = compiler->isolation();
  isolation.mode = runtime::CompileMode::process;
  isolation.seconds = 60;
  compiler->isolate(isolation);
  const Budget budget = test::budget(100);
  unsigned compiled = 0;
  for (unsigned seed = budget.first_seed; seed < budget.first_seed + budget.count; ++seed) {
    const program::Program program = BuilderFuzz(seed).record(30);
    const std::string bytes = program::serialize(program);
    for (const auto target : {program::Target::cpu, program::Target::nvptx}) {
      SCOPED_TRACE(std::string(target == program::Target::cpu ? "CPU" : "GPU") +
                   " --seed=" + std::to_string(seed) + " --count=1");
      compiled += compiles(*compiler, bytes, target, seed);
    }
  }
  EXPECT_GT(compiled, budget.count);  // of 2 * count compiles: most succeed
}

}  // namespace
}  // namespace ligerdsl::test
