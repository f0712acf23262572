// Tests the width and masks of memory accesses, and which thread owns a replicated element.
#include "ptx_kernel.h"

namespace ligerdsl::testing::memory_test {
namespace {

auto vectorAdd(DType type, int64_t block = 1024) {
  return [=](KernelBuilder& k) {
    View out = k.view("out", type, {dyn}), a = k.view("a", type, {dyn}),
         b = k.view("b", type, {dyn});
    Scalar i = k.program_id(0);
    out.partition({block}).store({i},
                                 a.partition({block}).load({i}) + b.partition({block}).load({i}));
  };
}

auto copyRows(DType type, int64_t width, int64_t block) {
  return [=](KernelBuilder& k) {
    View y = k.view("y", type, {dyn, width}), x = k.view("x", type, {dyn, width});
    Scalar row = k.program_id(0);
    y.partition({squeeze, block}).store({row, 0}, x.partition({squeeze, block}).load({row, 0}));
  };
}

TEST(NvptxMemory, VectorAddUses16ByteAccesses) {
  PtxKernel f(vectorAdd(f32), Known::whole);
  EXPECT_EQ(f.count("ld.global.L2::cache_hint.v4.b32"), 4) << f.ptx;
  EXPECT_EQ(f.count("st.global.v4.b32"), 2) << f.ptx;
  EXPECT_FALSE(f.has("ld.global.b32")) << f.ptx;
  PtxKernel h(vectorAdd(bf16), Known::whole);
  EXPECT_EQ(h.count("ld.global.L2::cache_hint.v4.b32"), 2) << h.ptx;
  EXPECT_EQ(h.count("st.global.v4.b32"), 1) << h.ptx;
  EXPECT_EQ(h.count("add.bf16x2"), 4) << h.ptx;
  EXPECT_FALSE(h.has("bar.sync"));
  EXPECT_EQ(h.artifact.shared_bytes, 0);
  EXPECT_EQ(h.artifact.threads, 128);
  EXPECT_EQ(h.artifact.slots, 9u);
}

TEST(NvptxMemory, VectorAddAssembles) {
  for (DType type : {f32, bf16, f16, i32, i64, i8, i16})
    for (Known known : {Known::nothing, Known::aligned, Known::whole})
      expectAssembles(vectorAdd(type), "sm_90a", known);
  expectAssemblesEverywhere(vectorAdd(bf16));
  for (int warps : {1, 2, 8, 16, 32})
    expectAssembles(vectorAdd(f32), "sm_90a", Known::aligned, warps);
}

// f32 is added by vectors if rows are aligned, and by elements at their ends. Other types, and GPUs
// without vector atomics, load, add and store.
TEST(NvptxMemory, AddUsesVectorAtomicsOfF32) {
  const auto add = [](DType type, int64_t width) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", type, {dyn, width}), x = k.view("x", type, {dyn, width});
      Scalar row = k.program_id(0);
      y.partition({squeeze, 4096}).add({row, 0}, x.partition({squeeze, 4096}).load({row, 0}));
    };
  };
  PtxKernel whole(add(f32, 4096), Known::aligned);
  EXPECT_EQ(whole.count("red.relaxed.gpu.global.add.v4.f32"), 8) << whole.ptx;
  EXPECT_FALSE(whole.has("st.global")) << whole.ptx;
  EXPECT_EQ(whole.artifact.ptx_version, 81);
  PtxKernel ragged(add(f32, 4001), Known::aligned);
  EXPECT_EQ(ragged.count("red.relaxed.gpu.global.add.f32"), 1) << ragged.ptx;
  EXPECT_FALSE(PtxKernel(add(bf16, 4096), Known::aligned).has("red."))
      << "a bf16 must be rounded only once";
  PtxKernel before(add(f32, 4096), Known::aligned, {.arch = "sm_80"});
  EXPECT_FALSE(before.has("red.")) << before.ptx;
  EXPECT_EQ(before.count("st.global.v4.b32"), 8) << before.ptx;
  for (DType type : {f32, bf16, i32, i64}) expectAssemblesEverywhere(add(type, 4001));
}

TEST(NvptxMemory, StaticWidthNeedsNoColumnMask) {
  PtxKernel exact(copyRows(bf16, 4096, 4096), Known::aligned, withoutOverlap());
  EXPECT_EQ(exact.count("ld.global.L2::cache_hint.v4.b32"), 4) << exact.ptx;
  EXPECT_EQ(exact.count("setp"), 3)
      << "one row test for the load, one for the store, one of the view's size\n"
      << exact.ptx;
  PtxKernel padded(copyRows(bf16, 4000, 4096), Known::aligned);
  EXPECT_FALSE(padded.has(".b16 ")) << "4000 is a multiple of 8: no chunk straddles\n"
                                    << padded.ptx;
}

TEST(NvptxMemory, VectorsAcrossTheEndAreMovedByElement) {
  PtxKernel ragged(copyRows(bf16, 4001, 4096), Known::aligned);
  EXPECT_EQ(ragged.count("ld.global.L2::cache_hint.v4.b32"), 4) << ragged.ptx;
  EXPECT_EQ(ragged.count("ld.global.L2::cache_hint.b16"), 1)
      << "one element after the last whole chunk\n"
      << ragged.ptx;
  EXPECT_EQ(ragged.count("st.global.b16"), 1) << ragged.ptx;
  expectAssemblesEverywhere(copyRows(bf16, 4001, 4096));
}

TEST(NvptxMemory, UnknownSizeNeedsABranchOrElementAccesses) {
  PtxKernel few(vectorAdd(f32, 512), Known::aligned);
  EXPECT_EQ(few.count("ld.global.b32"), 2 * 4) << "each thread has four elements of two views\n"
                                               << few.ptx;
  EXPECT_FALSE(few.has(".v4.") || few.has("bra")) << few.ptx;
  PtxKernel many(vectorAdd(f32, 1024), Known::aligned);
  EXPECT_EQ(many.count("ld.global.L2::cache_hint.v4.b32"), 4) << many.ptx;
  EXPECT_TRUE(many.has("bra")) << many.ptx;
}

TEST(NvptxMemory, UnalignedViewsAreMovedByElement) {
  PtxKernel kernel(copyRows(bf16, 1024, 1024), Known::nothing);
  EXPECT_FALSE(kernel.has(".v4.")) << kernel.ptx;
  EXPECT_FALSE(kernel.has(".v2.")) << kernel.ptx;
  EXPECT_EQ(kernel.count("ld.global.b16"), 8) << kernel.ptx;
}

TEST(NvptxMemory, OddTileSizesAssemble) {
  for (int64_t block : {5120, 3 * 1024, 7 * 64, 96, 3, 1})
    for (DType type : {f32, bf16})
      expectAssembles(copyRows(type, block, block), "sm_90a", Known::aligned, 4);
}

TEST(NvptxMemory, ReplicatedTilesAreStoredOnce) {
  PtxKernel kernel(copyRows(f32, 8, 8), Known::aligned);
  EXPECT_TRUE(kernel.has("@%p")) << "expected a predicated store\n" << kernel.ptx;
  EXPECT_TRUE(kernel.has("and.b32")) << kernel.ptx;
}

TEST(NvptxMemory, HintsBecomeModifiers) {
  PtxKernel kernel([](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, 1024}), x = k.view("x", f32, {dyn, 1024});
    Scalar row = k.program_id(0);
    Tile t = x.partition({squeeze, 1024}).load({row, 0}, {.cache = Cache::streaming});
    y.partition({squeeze, 1024}).store({row, 0}, t, {.cache = Cache::streaming});
  });
  EXPECT_TRUE(kernel.has("ld.global.cs.v4.b32")) << kernel.ptx;
  EXPECT_TRUE(kernel.has("st.global.cs.v4.b32")) << kernel.ptx;
  EXPECT_TRUE(assemble(kernel.ptx, "sm_90a").ok);
}

void gatherRows(KernelBuilder& k) {
  View y = k.view("y", f32, {dyn, dyn}), labels = k.view("labels", i64, {dyn}),
       x = k.view("x", f32, {dyn, dyn});
  Scalar row = k.program_id(0);
  Tile columns = k.arange(256);
  Scalar label = labels.load({row});
  Tile mask = columns < x.dim(1).to(i32);
  Tile picked = load(x.ptr() + label * x.stride(0) + columns.to(i64), mask, -1.0f);
  store(y.ptr() + row.to(i64) * y.stride(0) + columns.to(i64), picked, mask);
}

TEST(NvptxMemory, GatherAndScatterAssemble) {
  PtxKernel kernel(gatherRows);
  EXPECT_TRUE(kernel.has("ld.global.b32")) << kernel.ptx;
  expectAssemblesEverywhere(gatherRows);
}

TEST(NvptxMemory, AtomicsUseNativeInstructions) {
  auto atomics = [](DType type) {
    return [=](KernelBuilder& k) {
      View x = k.view("x", type, {dyn});
      atomic_add(x.ptr() + k.arange(256), k.ones({256}, type), k.arange(256) < x.dim(0).to(i32));
    };
  };
  for (DType type : {f32, i32, i64, f16, bf16}) expectAssembles(atomics(type), "sm_90a");
  PtxKernel maximum(
      [](KernelBuilder& k) { atomic_max(k.view("x", i64, {dyn}).ptr(), k.constant(3, i64)); });
  EXPECT_TRUE(maximum.has("max.s64")) << maximum.ptx;
  // PTX has no atomic maximum of floats, so the compiler emits a compare-and-swap loop.
  PtxKernel loop(
      [](KernelBuilder& k) { atomic_max(k.view("x", f32, {dyn}).ptr(), k.constant(3, f32)); });
  EXPECT_TRUE(loop.has("cas")) << loop.ptx;
  EXPECT_TRUE(assemble(loop.ptx, "sm_90a").ok);
}

}  // namespace
}  // namespace ligerdsl::testing::memory_test
