// Tests loops of matmuls: wgmma, mma.sync, TMA copies and their rings in shared memory.
#include <stdexcept>
#include <string>
#include <vector>

#include "ptx_kernel.h"

namespace ligerdsl::testing::matmul_loops_test {
namespace {

// An iteration starts two wgmma, and processes the first result while the second is in flight.
// ptxas keeps this order and serialises no wgmma. TMA copies load whole tiles of one head. Only the
// first warp waits for copies.
TEST(NvptxPipeline, AttentionLoopOverlapsWgmmaWithMath) {
  const auto attend = [](KernelBuilder& k) {
    View o = k.view("o", f32, {dyn, dyn}), q = k.view("q", bf16, {dyn, dyn});
    View keys = k.view("k", bf16, {dyn, dyn, 8, 64}), values = k.view("v", bf16, {dyn, dyn, 8, 64});
    const Scalar row = k.program_id(0), head = row % 8;
    const Tile queries = q.partition({64, 64}).load({row, 0});
    const auto tile = [&](const View& of, const Scalar& i) {
      return of.partition({squeeze, 64, squeeze, 64}).load({0, i, head, 0});
    };
    auto [top, out, last] = k.for_range(
        0, cdiv(keys.dim(1), 64), 1, {.num_stages = 2, .tensor_copies = true},
        carry(k.zeros({64}, f32), k.zeros({64, 64}, f32), k.zeros({64, 64}, bf16)),
        [&](const Scalar& i, const Tile& top, const Tile& out, const Tile& before) {
          const Tile s = dot(queries, tile(keys, i).permute({1, 0}), k.zeros({64, 64}, f32));
          const Tile more = dot(before, tile(values, i), out);
          const Tile highest = ligerdsl::max(top, reduce_max(s, 1));
          const Tile p = fast_exp2(s - highest.expand_dims(1));
          return carry(highest, more * 0.5f, p.to(bf16));
        });
    o.partition({64, 64}).store({row, 0}, out * top.expand_dims(1));
  };
  const PtxKernel kernel(attend, Known::whole);
  program::TensorMap of_keys{
      .slot = 10, .type = DType::bf16, .box = {1, 64, 1, 64}, .swizzle = 128},
      of_values = of_keys;
  of_values.slot = 19;
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_keys, of_values}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.4d"), 2 * 2) << kernel.ptx;
  EXPECT_EQ(kernel.count("wgmma.wait_group.sync.aligned 1"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("nanosleep"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("bar.arrive"), 2) << kernel.ptx;
  expectAssembles(attend, "sm_90a", Known::whole);
}

// c = a b^T. Both operands are contiguous along k.
PtxKernel::Build productOf(DType type, DType sums, int64_t depth, bool tensorCopies,
                           DotOptions options = {}) {
  return [=](KernelBuilder& k) {
    View c = k.view("c", sums, {dyn, dyn}), a = k.view("a", type, {dyn, dyn}),
         b = k.view("b", type, {dyn, dyn});
    const Scalar row = k.program_id(0);
    LoopOptions loop = pipelined(3);
    loop.tensor_copies = tensorCopies;
    auto [total] = k.for_range(
        0, cdiv(a.dim(1), depth), 1, loop, carry(k.zeros({64, 128}, sums)),
        [&](Scalar i, Tile total) {
          const Tile right = b.partition({128, depth}).load({0, i}).permute({1, 0});
          return carry(dot(a.partition({64, depth}).load({row, i}), right, total, options));
        });
    c.partition({64, 128}).store({row, 0}, total);
  };
}

// wgmma of each type reads 32 bytes of k per instruction from shared memory. For mma.sync, ldmatrix
// reads whole fragments.
TEST(NvptxPipeline, Int8AndTf32MatmulsUseTensorCores) {
  const auto count = [](const PtxKernel::Build& build, const char* arch, const std::string& text) {
    program::CompileOptions options;
    options.arch = arch;
    const PtxKernel kernel(build, Known::whole, options);
    return kernel.count(text);
  };
  const std::string whole = "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 ",
                    wholeMma = ".m16n8k32.row.col.s32.s8.s8.s32 ";
  for (const bool tensor : {false, true}) {
    const auto build = productOf(i8, i32, 128, tensor);
    EXPECT_EQ(count(build, "sm_90a", whole), 128 / 32);
    EXPECT_EQ(count(build, "sm_90a", "mma.sync"), 0);
    EXPECT_EQ(count(build, "sm_80", wholeMma), (128 / 32) * (64 / 16) * (128 / 8) / 4);
    EXPECT_EQ(count(build, "sm_80", "prmt"), 0);
    EXPECT_GT(count(build, "sm_80", "ldmatrix"), 0);
    for (const char* arch : {"sm_80", "sm_90a"}) expectAssembles(build, arch, Known::whole);
  }
  const std::string tf32 = "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 ",
                    tf32Mma = ".m16n8k8.row.col.f32.tf32.tf32.f32 ";
  const DotOptions rounded{.input_precision = InputPrecision::tf32};
  for (const bool tensor : {false, true}) {
    const auto build = productOf(f32, f32, 32, tensor, rounded);
    EXPECT_EQ(count(build, "sm_90a", tf32), tensor ? 32 / 8 : 0);
    EXPECT_EQ(count(build, "sm_90a", "cvt.rna.tf32.f32") == 0, tensor);
    EXPECT_EQ(count(build, "sm_80", tf32Mma), (32 / 8) * (64 / 16) * (128 / 8) / 4);
    EXPECT_GT(count(build, "sm_80", "ldmatrix"), 0);
    for (const char* arch : {"sm_80", "sm_90a"}) expectAssembles(build, arch, Known::whole);
  }
  const PtxKernel kernel(productOf(f32, f32, 32, true, rounded), Known::whole);
  const program::TensorMap ofA{.slot = 5, .type = DType::f32, .box = {64, 32}, .swizzle = 128};
  program::TensorMap ofB{.slot = 10, .type = DType::f32, .box = {128, 32}, .swizzle = 128};
  EXPECT_EQ(kernel.artifact.maps, (std::vector{ofB, ofA}));  // in the order of the loads
  EXPECT_EQ(count(productOf(f32, f32, 32, true), "sm_90a", "mma"), 0);
}

// If the loop also writes global memory, all warps synchronise in each iteration, because another
// thread may access the written elements in the next iteration.
TEST(NvptxPipeline, IterationsThatStoreSynchroniseAllWarps) {
  for (const bool stores : {false, true}) {
    const auto loop = [stores](KernelBuilder& k) {
      View o = k.view("o", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
           b = k.view("b", bf16, {dyn, dyn});
      const Ptr seen = k.view("seen", f32, {dyn}).ptr();
      auto [out] = k.for_range(
          0, cdiv(a.dim(1), 64), 1, {.num_stages = 2, .tensor_copies = true},
          carry(k.zeros({64, 64}, f32)), [&](const Scalar& i, const Tile& out) {
            const Tile left = a.partition({64, 64}).load({0, i});
            const Tile s = dot(left, b.partition({64, 64}).load({0, i}).permute({1, 0}), out);
            if (stores) store(seen + (k.arange(64) + i.to(i32)), reduce_max(s, 1));
            return carry(s * 0.5f);
          });
      o.partition({64, 64}).store({0, 0}, out);
    };
    const PtxKernel kernel(loop, Known::whole);
    EXPECT_EQ(kernel.count("bar.arrive"), stores ? 0 : 2) << kernel.ptx;
    EXPECT_TRUE(kernel.has("cp.async.bulk.tensor.2d")) << kernel.ptx;
  }
}

// One thread starts the TMA copies of an iteration, one per panel of 128 bytes: one for a and two
// for b. Views without a tensor map use cp.async.
TEST(NvptxPipeline, TmaCopiesLoadTheOperands) {
  const auto product = [](KernelBuilder& k) {
    View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
         b = k.view("b", bf16, {dyn, dyn});
    const Scalar row = k.program_id(0);
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 3, .tensor_copies = true},
                    carry(k.zeros({64, 128}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile left = a.partition({64, 64}).load({row, i}),
                                 right = b.partition({64, 128}).load({i, 0});
                      return carry(dot(left, right, sums));
                    });
    c.partition({64, 128}).store({row, 0}, sums);
  };
  const PtxKernel kernel(product, Known::whole);
  const program::TensorMap of_a{.slot = 5, .type = DType::bf16, .box = {64, 64}, .swizzle = 128};
  program::TensorMap of_b = of_a;
  of_b.slot = 10;
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_a, of_b}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.2d"), 3 * 3)
      << kernel.ptx;  // two iterations ahead, one in the loop
  EXPECT_EQ(kernel.count("mbarrier.arrive.expect_tx"), 3) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.cg"), 0) << kernel.ptx;
  expectAssembles(product, "sm_90a", Known::whole);
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    program::CompileOptions options;
    options.arch = arch;
    const PtxKernel other(product, Known::whole, options);
    EXPECT_TRUE(other.artifact.maps.empty()) << arch;
    EXPECT_TRUE(other.has("cp.async.cg")) << arch << other.ptx;
  }
  EXPECT_TRUE(PtxKernel(product, Known::nothing).artifact.maps.empty());
}

// Loads slices of a 2-D and a 3-D view by TMA copies. A slice adds two dimensions to its map.
TEST(NvptxPipeline, TmaCopiesLoadSlices) {
  const auto product = [](KernelBuilder& k) {
    View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
         b = k.view("b", bf16, {dyn, dyn, dyn}), bounds = k.view("bounds", i64, {2});
    const Scalar row = k.program_id(0), begin = bounds.load({0}), end = bounds.load({1});
    const View of_a = a.slice(0, begin, end), of_b = b.slice(1, begin, end).slice(1, 3, end);
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 3, .tensor_copies = true},
                    carry(k.zeros({64, 128}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile left = of_a.partition({64, 64}).load({row, i}),
                                 right = of_b.partition({squeeze, 64, 128}).load({row, i, 0});
                      return carry(dot(left, right, sums));
                    });
    c.partition({64, 128}).store({row, 0}, sums);
  };
  const PtxKernel kernel(product, Known::whole);
  const program::TensorMap of_a{
      .slot = 5, .type = DType::bf16, .box = {64, 64}, .swizzle = 128, .sliced = 0},
      of_b{.slot = 10, .type = DType::bf16, .box = {1, 64, 64}, .swizzle = 128, .sliced = 1};
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_a, of_b}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.4d"), 3) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.5d"), 3 * 2) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.cg"), 0) << kernel.ptx;
  expectAssembles(product, "sm_90a", Known::whole);
}

// Two loops over segments of k, each with a ring. The rings share memory, and the accumulator stays
// in registers between the loops. The only barriers are those of each loop: two to initialise
// mbarriers, one per iteration, one after the loop.
TEST(NvptxPipeline, ConsecutiveRingsShareMemory) {
  constexpr int64_t kM = 128, kN = 256, kK = 64, kStages = 4, kSlots = kStages * (kM + kN) * kK * 2;
  const auto segments = [](int count, int64_t rows) {
    return [=](KernelBuilder& k) {
      const View c = k.view("c", f32, {dyn, dyn});
      const Scalar row = k.program_id(0);
      Tile sums = k.zeros({rows, kN}, f32);
      for (int segment = 0; segment < count; ++segment) {
        const std::string number = std::to_string(segment);
        const View a = k.view("a" + number, bf16, {dyn, dyn}),
                   b = k.view("b" + number, bf16, {dyn, dyn});
        auto [more] =
            k.for_range(0, cdiv(a.dim(1), kK), 1, {.num_stages = kStages, .tensor_copies = true},
                        carry(sums), [&](const Scalar& i, const Tile& sums) {
                          const Tile right = b.partition({kN, kK}).load({0, i}).permute({1, 0});
                          return carry(dot(a.partition({rows, kK}).load({row, i}), right, sums));
                        });
        sums = more;
      }
      c.partition({rows, kN}).store({row, 0}, sums);
    };
  };
  program::CompileOptions options;
  options.num_warps = 8;
  const PtxKernel one(segments(1, kM), Known::whole, options),
      two(segments(2, kM), Known::whole, options);
  constexpr int64_t kBarriers = kStages * 8;
  EXPECT_EQ(one.artifact.shared_bytes, kSlots + kBarriers);
  EXPECT_EQ(two.artifact.shared_bytes, kSlots + 2 * kBarriers);
  EXPECT_EQ(two.count("bar.sync"), 2 * one.count("bar.sync")) << two.ptx;
  EXPECT_EQ(two.count("wgmma.mma_async"), 2 * one.count("wgmma.mma_async"));
  EXPECT_EQ(two.count("shfl.sync"), 2 * one.count("shfl.sync"))
      << "shuffles only for the number of the warp group\n"
      << two.ptx;
  EXPECT_FALSE(two.has("ld.shared") || two.has("st.shared")) << two.ptx;
  expectAssembles(segments(2, kM), "sm_90a", Known::whole, 8);
  expectAssembles(segments(2, 64), "sm_80", Known::whole, 8);
}

// The ring fits in shared memory, but the buffer after it does not fit even alone. The error names
// the least shared memory that both need.
TEST(NvptxPipeline, ErrorNamesTheLeastSharedMemory) {
  const auto kernel = [](KernelBuilder& k) {
    const View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
               b = k.view("b", bf16, {dyn, dyn});
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 4, .tensor_copies = true},
                    carry(k.zeros({128, 256}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile right = b.partition({256, 64}).load({0, i}).permute({1, 0});
                      return carry(dot(a.partition({128, 64}).load({0, i}), right, sums));
                    });
    c.partition({128, 256}).store({0, 0}, sums);
    const View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
    y.partition({256, 256}).store({0, 0}, x.partition({256, 256}).load({0, 0}).permute({1, 0}));
  };
  constexpr int64_t kTile = 256 * (256 + 4) * 4, kBarriers = 4 * 8;
  program::CompileOptions options;
  options.num_warps = 8;
  try {
    const PtxKernel compiled(kernel, Known::whole, options);
    FAIL() << "compiled, with " << compiled.artifact.shared_bytes << " bytes of shared memory";
  } catch (const std::runtime_error& error) {
    const std::string said = "needs " + std::to_string(kTile + kBarriers) +
                             " bytes of shared memory per CTA, " + std::to_string(kTile) +
                             " of them for this operation; sm_90a has 232448; use smaller tiles";
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ligerdsl::testing::matmul_loops_test
