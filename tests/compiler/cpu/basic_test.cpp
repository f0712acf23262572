// Tests the simplest kernels from end to end.
#include <regex>

#include "cpu_kernel.h"

namespace ligerdsl::testing::basic_test {
namespace {

void vectorAdd(KernelBuilder& k) {
  View a = k.view("a", f32, {dyn}), b = k.view("b", f32, {dyn}), c = k.view("c", f32, {dyn});
  Scalar i = k.program_id(0);
  c.partition({1024}).store({i}, a.partition({1024}).load({i}) + b.partition({1024}).load({i}));
}

TEST(CpuBasic, VectorAddHandlesAnyLength) {
  for (auto options : {program::CompileOptions{}, aliasing({1, 2, 3})}) {
    CpuKernel kernel(vectorAdd, options);
    for (int64_t n : {1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
      std::vector<float> a = randomFloats(n, 1), b = randomFloats(n, 2), c(n + 32, 7.0f);
      kernel.run(Slots().view(a.data(), {n}).view(b.data(), {n}).view(c.data(), {n}),
                 {int32_t((n + 1023) / 1024)});
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << "n " << n << " element " << i;
      for (int64_t i = n; i < n + 32; ++i)
        ASSERT_EQ(c[i], 7.0f) << "written beyond the end, n " << n;
    }
  }
}

void rowSoftmax(KernelBuilder& k) {
  View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
  Scalar row = k.program_id(0);
  Tile v = x.partition({squeeze, 1024}).load({row, 0}, {.pad = -INFINITY});
  y.partition({squeeze, 1024}).store({row, 0}, softmax(v));
}

TEST(CpuBasic, SoftmaxHandlesRaggedRows) {
  for (auto options : {program::CompileOptions{}, aliasing({1, 2}), aliasing({1, 1})}) {
    CpuKernel kernel(rowSoftmax, options);
    for (int64_t n : {1, 3, 16, 500, 1000, 1023, 1024}) {
      const int64_t rows = 5, stride = 1030;
      std::vector<float> x = randomFloats(rows * stride, 3, -20, 20), y(rows * stride, 7.0f);
      kernel.run(
          Slots().view(y.data(), {rows, n}, {stride, 1}).view(x.data(), {rows, n}, {stride, 1}),
          {int32_t(rows)});
      for (int64_t r = 0; r < rows; ++r) {
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; ++i) top = std::max(top, double(x[r * stride + i]));
        for (int64_t i = 0; i < n; ++i) sum += std::exp(x[r * stride + i] - top);
        for (int64_t i = 0; i < n; ++i)
          ASSERT_NEAR(y[r * stride + i], std::exp(x[r * stride + i] - top) / sum, 1e-6)
              << "n " << n << " row " << r << " element " << i;
        for (int64_t i = n; i < stride; ++i) ASSERT_EQ(y[r * stride + i], 7.0f);
      }
    }
  }
}

// Tests the stages that CompileOptions::emit names.
TEST(CpuBasic, EmitReturnsStagesAsText) {
  KernelBuilder k("add");
  vectorAdd(k);
  program::Program program = k.finish();
  auto stage = [&](const char* name) {
    program::CompileOptions options;
    options.emit = name;
    return compileProgram(program, options).code;
  };
  EXPECT_NE(stage("tile").find("tile.load_tile"), std::string::npos);
  std::string loops = stage("loops");
  EXPECT_NE(loops.find("scf.for"), std::string::npos);
  EXPECT_NE(loops.find("vector<16xf32>"), std::string::npos);
  std::string llvm = stage("llvm");
  EXPECT_NE(llvm.find("define void @ligerdsl_"), std::string::npos);
  EXPECT_EQ(llvm.find("alloca"), std::string::npos);
  EXPECT_NE(stage("asm").find("ligerdsl_add:"), std::string::npos);
}

// A masked access to a row outside a view uses the address of the view's first elements. A masked
// access to an unmapped page would take hundreds of cycles, even without active lanes.
TEST(CpuBasic, MaskedRowsAccessTheFirstElements) {
  KernelBuilder k("copy");
  View y = k.view("y", f32, {dyn, 40}), x = k.view("x", f32, {dyn, 40});
  Scalar row = k.program_id(0);
  y.partition({4, 64}).store({row, 0}, x.partition({4, 64}).load({row, 0}));
  program::CompileOptions options;
  options.emit = "llvm";
  const std::string llvm = compileProgram(k.finish(), options).code;
  // The loop over rows ends at the last row of y. x may have fewer, so its loads select an address.
  const std::regex masked(R"(call [^\n]*@llvm\.masked\.load[^\n]*ptr align 4 (%[0-9]+),)");
  int count = 0;
  for (std::sregex_iterator it(llvm.begin(), llvm.end(), masked), end; it != end; ++it, ++count)
    EXPECT_NE(llvm.find((*it)[1].str() + " = select i1"), std::string::npos) << it->str();
  EXPECT_GE(count, 1) << llvm;
}

TEST(CpuBasic, RowsOutsideTheInputAreWrittenWithThePad) {
  CpuKernel kernel([](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, 40}), x = k.view("x", f32, {dyn, 40});
    y.partition({4, 64}).store({k.program_id(0), 0},
                               x.partition({4, 64}).load({k.program_id(0), 0}, {.pad = 5}));
  });
  std::vector<float> y(6 * 40, 1), x(2 * 40, 3);
  kernel.run(Slots().view(y.data(), {3, 40}).view(x.data(), {2, 40}));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i < 80 ? 3 : i < 120 ? 5 : 1) << i;
}

TEST(CpuBasic, ErrorNamesUnknownCpu) {
  program::CompileOptions options;
  options.arch = "z80";
  try {
    CpuKernel kernel(vectorAdd, options);
    FAIL() << "z80 compiled";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("does not know the CPU 'z80'"), std::string::npos)
        << e.what();
  }
}

TEST(CpuBasic, RejectsDamagedObjectsAndMissingEntries) {
  CpuKernel kernel(vectorAdd);
  program::Artifact broken = kernel.artifact;
  broken.code.resize(broken.code.size() / 2);
  EXPECT_THROW(LoadedKernel{broken}, std::runtime_error);
  broken = kernel.artifact;
  broken.entry = "absent";
  EXPECT_THROW(LoadedKernel{broken}, std::runtime_error);
  CpuKernel again(vectorAdd);  // later kernels still load
  float x = 2;
  again.run(Slots().view(&x, {1}).view(&x, {1}).view(&x, {1}));
  EXPECT_EQ(x, 4);
}

// The compile cache and comparisons of dumps require that one program always gives the same bytes.
TEST(CpuBasic, CompilingTwiceGivesTheSameObject) {
  CpuKernel first(rowSoftmax), second(rowSoftmax);
  EXPECT_EQ(first.artifact.code, second.artifact.code);
  EXPECT_EQ(first.artifact.arena_bytes, second.artifact.arena_bytes);
}

// Stages of one kernel with disjoint lifetimes share the arena.
TEST(CpuBasic, StagesShareTheArena) {
  auto chain = [](int links) {
    return [links](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      Tile v = x.partition({1024}).load({0});
      for (int i = 0; i < links; ++i) v = cumsum(v) * 0.5f;
      y.partition({1024}).store({0}, v);
    };
  };
  EXPECT_EQ(CpuKernel(chain(8)).artifact.arena_bytes, CpuKernel(chain(3)).artifact.arena_bytes);
  EXPECT_LE(CpuKernel(chain(8)).artifact.arena_bytes, 3 * 4096);
}

}  // namespace
}  // namespace ligerdsl::testing::basic_test
