// Tests that neither target compiles an op with unknown memory effects. The error names the op and
// its location.
#include "compiler/analysis/effects.h"

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "compiler/target/cpu/cpu_target.h"
#include "compiler/target/nvptx/nvptx_target.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

constexpr char kKernel[] = R"(
func.func @mystery(%p: !tile.ptr<f32>) attributes {tile.kernel} {
  %one = arith.constant 1.0 : f32
  tile.store %one, %p : f32, !tile.ptr<f32>
  "test.mystery"(%p) : (!tile.ptr<f32>) -> () loc("author.cpp":12:3)
  %old = tile.load %p : !tile.ptr<f32> -> f32
  return
}
)";

class Effects : public ::testing::Test {
 protected:
  Effects() : context(registry()) {
    context.loadAllAvailableDialects();
    context.allowUnregisteredDialects();
  }
  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }
  // Returns the errors of a compilation that must fail.
  template <class Compile>
  std::string refusal(Compile compile) {
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic& diagnostic) {
      if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
        text += at.getFilename().str() + ":" + std::to_string(at.getLine()) + ": ";
      text += diagnostic.str() + "\n";
      return success();
    });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kKernel, &context);
    EXPECT_TRUE(module) << text;
    if (module) {
      EXPECT_TRUE(failed(compile(*module)));
    }
    return text;
  }
  MLIRContext context;
};

const std::string kRefusal = "author.cpp:12: 'test.mystery' op has unknown effects on memory";

TEST_F(Effects, CpuRejectsUnknownEffects) {
  const program::CompileOptions options;
  program::Artifact artifact;
  CompileTrace trace(options);
  const std::string text =
      refusal([&](ModuleOp module) { return compileForCpu(module, options, artifact, trace); });
  EXPECT_NE(text.find(kRefusal), std::string::npos) << text;
}

TEST_F(Effects, GpuRejectsUnknownEffects) {
  program::CompileOptions options;
  options.target = program::Target::nvptx;
  options.arch = "sm_90a";
  program::Artifact artifact;
  CompileTrace trace(options);
  const std::string text =
      refusal([&](ModuleOp module) { return compileForNvptx(module, options, artifact, trace); });
  EXPECT_NE(text.find(kRefusal), std::string::npos) << text;
}

// Passes must assume that the op reads and writes any memory.
TEST_F(Effects, UnknownEffectsMayReadAndWrite) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kKernel, &context);
  ASSERT_TRUE(module);
  int found = 0;
  module->walk([&](Operation* op) {
    if (op->getName().getStringRef() != "test.mystery") return;
    ++found;
    EXPECT_TRUE(failed(effectsOf(op)));
    EXPECT_TRUE(readsMemory(op));
    EXPECT_TRUE(writesMemory(op));
    EXPECT_FALSE(touchesOnlyShared(op));
  });
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace ligerdsl::compiler
