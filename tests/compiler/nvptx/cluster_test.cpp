// Tests the machine code of programs on clusters of CTAs. kernel_tests --backend=ptx-cluster2 and
// ptx-cluster4 test their results on the emulator.
#include "ptx_kernel.h"

namespace ligerdsl::testing::cluster_test {
namespace {

constexpr int64_t kWidth = 32768;

// Normalises one row per program, with one reduction over the row.
void normalise(KernelBuilder& k) {
  View x = k.view("x", bf16, {dyn, dyn}), y = k.view("y", bf16, {dyn, dyn}),
       w = k.view("w", bf16, {dyn});
  Scalar row = k.program_id(0);
  Tile xf = x.partition({squeeze, kWidth}).load({row, 0}).to(f32);
  Scalar r = rsqrt(sum(xf * xf) / static_cast<float>(kWidth) + 1e-6f);
  Tile wf = w.partition({kWidth}).load({0}).to(f32);
  y.partition({squeeze, kWidth}).store({row, 0}, (xf * r * wf).to(bf16));
}

void softmaxRows(KernelBuilder& k) {
  View x = k.view("x", bf16, {dyn, dyn}), y = k.view("y", bf16, {dyn, dyn});
  k.for_range(k.program_id(0), x.dim(0), k.num_programs(0), [&](Scalar row) {
    Tile xf = x.partition({squeeze, kWidth}).load({row, 0}).to(f32);
    Tile e = exp(xf - max(xf));
    y.partition({squeeze, kWidth}).store({row, 0}, (e / sum(e)).to(bf16));
  });
}

PtxKernel clustered(const PtxKernel::Build& build, int ctas, int warps = 8) {
  program::CompileOptions options;
  options.arch = "sm_90a";
  options.num_ctas = ctas;
  options.num_warps = warps;
  return PtxKernel(build, Known::aligned, options);
}

TEST(NvptxClusters, AssembleWithoutSpills) {
  for (auto build : {&normalise, &softmaxRows})
    for (int ctas : {2, 4, 8, 16}) {
      PtxKernel kernel = clustered(build, ctas);
      Assembled assembled = assemble(kernel.ptx, "sm_90a");
      EXPECT_TRUE(assembled.ok) << assembled.log << kernel.ptx;
      EXPECT_EQ(assembled.spilledBytes, 0) << assembled.log;
      EXPECT_EQ(kernel.artifact.cluster, ctas);
      EXPECT_TRUE(kernel.has(".reqnctapercluster " + std::to_string(ctas))) << kernel.ptx;
    }
}

// A CTA of a cluster of 8 holds one eighth of the row.
TEST(NvptxClusters, CtasDivideTheRegisters) {
  Assembled one = assemble(clustered(normalise, 1, 16).ptx, "sm_90a");
  Assembled eight = assemble(clustered(normalise, 8, 16).ptx, "sm_90a");
  EXPECT_LT(eight.registers, one.registers);
  EXPECT_LE(eight.registers, 40) << eight.log;
}

// Each reduction takes one exchange between CTAs and one wait for an mbarrier. One cluster barrier
// comes before the first exchange, and no CTA barrier is needed.
TEST(NvptxClusters, ExchangePartialSumsByAsyncStores) {
  PtxKernel kernel = clustered(normalise, 4);
  EXPECT_EQ(kernel.count("barrier.cluster.arrive.relaxed.aligned"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("barrier.cluster.arrive.aligned"), 0) << kernel.ptx;
  EXPECT_EQ(kernel.count("barrier.cluster.wait"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("bar.sync"), 0) << kernel.ptx;
  EXPECT_EQ(kernel.count("st.async.shared::cluster"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("mbarrier.try_wait"), 1) << kernel.ptx;
  EXPECT_FALSE(kernel.has(".local")) << "the count of iterations must be in a register";
  EXPECT_FALSE(kernel.has("%ctaid.x"));
}

// Lanes send the result of an atomic to the other CTAs. The number of lanes that hold an element
// determines how many stores each lane needs.
TEST(NvptxClusters, LanesSendResultsOfAtomicsToDifferentCtas) {
  auto sum = [](int64_t width) {
    return [=](KernelBuilder& k) {
      View x = k.view("x", i32, {dyn});
      Tile old = atomic_add(x.ptr() + k.arange(width), k.full({width}, 1, i32));
      x.partition({width}).store({1}, old);
    };
  };
  struct Case {
    int64_t width;
    int shuffles, stores;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{8, 1, 2}, Case{32, 0, 8}}) {
    PtxKernel kernel = clustered(sum(c.width), 8);
    EXPECT_EQ(kernel.count("shfl.sync.idx"), c.shuffles) << c.width << "\n" << kernel.ptx;
    EXPECT_EQ(kernel.count("st.async"), c.stores) << c.width << "\n" << kernel.ptx;
    EXPECT_TRUE(assemble(kernel.ptx, "sm_90a").ok);
  }
}

}  // namespace
}  // namespace ligerdsl::testing::cluster_test
