// Tests rows that start at any offset in a cache line, processed one at a time or in pairs. Every
// element is written once, and nothing else is written.
#include <algorithm>
#include <vector>

#include "cpu_kernel.h"

namespace ligerdsl::testing::lines_test {
namespace {

constexpr int64_t kRows = 7;
constexpr float kCanary = -77;

// Computes y = x + bias with `cols` columns and rows of `stride` elements. y starts `offset`
// elements after the start of a cache line. x and bias start at other offsets.
void addBias(CpuKernel& kernel, int64_t cols, int64_t stride, int64_t offset, bool in_place) {
  const auto lines = [](std::vector<float>& memory, int64_t elements) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (-address & 63) / sizeof(float) + elements;
  };
  const auto size = static_cast<size_t>(kRows * stride + 64);
  std::vector<float> y_memory(size, kCanary), x_memory = randomFloats(size, 3),
                                              bias_memory = randomFloats(size, 4);
  float *y = lines(y_memory, offset), *bias = lines(bias_memory, (offset * 5 + 3) % 16);
  float* x = in_place ? y : lines(x_memory, (offset * 3 + 1) % 16);
  std::vector<float> before(size, kCanary);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      if (in_place) y[i * stride + j] = static_cast<float>(i * cols + j) * 0.25f;
      before[static_cast<size_t>(i * stride + j)] = x[i * stride + j];
    }
  kernel.run(Slots()
                 .view(y, {kRows, cols}, {stride, 1})
                 .view(x, {kRows, cols}, {stride, 1})
                 .view(bias, {cols}),
             {2});
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < std::min(stride, cols + 20); ++j) {
      const float expected =
          j < cols ? before[static_cast<size_t>(i * stride + j)] + bias[j] : kCanary;
      ASSERT_EQ(y[i * stride + j], expected) << "row " << i << ", column " << j << " of " << cols
                                             << ", stride " << stride << ", offset " << offset;
    }
  for (const float* p = y_memory.data(); p < y; ++p) ASSERT_EQ(*p, kCanary);
  for (const float* p = y + (kRows - 1) * stride + cols; p < y_memory.data() + size; ++p)
    ASSERT_EQ(*p, kCanary);
}

void build(KernelBuilder& k, int64_t rows, int64_t block) {
  View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn}),
       bias = k.view("bias", f32, {dyn});
  Scalar i = k.program_id(0);
  Tile b = bias.partition({block}).load({0}).expand_dims(0);
  y.partition({rows, block}).store({i, 0}, x.partition({rows, block}).load({i, 0}) + b);
}

// 255 columns are too few to align to a line, and rows with stride 1024 are not paired. With 7 rows
// in tiles of 4, one row has no pair.
TEST(CpuLines, RowsStartAtAnyOffset) {
  for (bool in_place : {false, true}) {
    program::CompileOptions options = in_place ? aliasing({1, 1, 2}) : aliasing({1, 2, 3});
    CpuKernel kernel([](KernelBuilder& k) { build(k, 4, 320); }, options);
    for (int64_t cols : {1, 255, 256, 257, 271, 272, 304, 319, 320})
      for (int64_t stride : {cols, cols + 1, int64_t{336}, int64_t{1024}})
        for (int64_t offset : {0, 1, 4, 15})
          if (stride >= cols) addBias(kernel, cols, stride, offset, in_place);
  }
}

TEST(CpuLines, HandlesTilesOfOneRowAndStaticWidths) {
  CpuKernel one([](KernelBuilder& k) { build(k, 1, 512); }, aliasing({1, 2, 3}));
  const auto rows_of = [](CpuKernel& kernel, int64_t programs) {
    std::vector<float> y(7 * 500 + 64, kCanary), x = randomFloats(7 * 500 + 64),
                                                 b = randomFloats(500, 9);
    float *to = y.data() + 3, *from = x.data() + 5;
    kernel.run(Slots().view(to, {7, 500}).view(from, {7, 500}).view(b.data(), {500}),
               {static_cast<int32_t>(programs)});
    for (int64_t i = 0; i < 7 * 500; ++i)
      ASSERT_EQ(to[i], from[i] + b[static_cast<size_t>(i % 500)]) << i;
    EXPECT_EQ(to[-1], kCanary);
    EXPECT_EQ(to[7 * 500], kCanary);
  };
  rows_of(one, 7);
  // The tile spans whole rows, so no guard compares with a row's end.
  CpuKernel whole(
      [](KernelBuilder& k) {
        View y = k.view("y", f32, {dyn, 512}), x = k.view("x", f32, {dyn, 512}),
             bias = k.view("bias", f32, {512});
        Tile b = bias.partition({512}).load({0}).expand_dims(0);
        y.partition({4, 512}).store({k.program_id(0), 0},
                                    x.partition({4, 512}).load({k.program_id(0), 0}) + b);
      },
      aliasing({1, 2, 3}));
  std::vector<float> separate(7 * 600 + 64, kCanary), from = randomFloats(7 * 512),
                                                      add = randomFloats(512, 9);
  for (int64_t offset = 0; offset < 16; ++offset) {
    float* to = separate.data() + offset;
    std::fill(separate.begin(), separate.end(), kCanary);
    whole.run(
        Slots().view(to, {7, 512}, {600, 1}).view(from.data(), {7, 512}).view(add.data(), {512}),
        {2});
    for (int64_t i = 0; i < 7; ++i)
      for (int64_t j = 0; j < 600; ++j)
        ASSERT_EQ(to[i * 600 + j],
                  j < 512 ? from[static_cast<size_t>(i * 512 + j)] + add[static_cast<size_t>(j)]
                          : kCanary)
            << i << ", " << j << ", offset " << offset;
  }
  CpuKernel fixed(
      [](KernelBuilder& k) {
        View y = k.view("y", f32, {dyn, 768}), x = k.view("x", f32, {dyn, 768}),
             bias = k.view("bias", f32, {768});
        Scalar i = k.program_id(0);
        Tile b = bias.partition({256}).load({i % 3}).expand_dims(0);
        y.partition({4, 256}).store({i / 3, i % 3}, x.partition({4, 256}).load({i / 3, i % 3}) + b);
      },
      aliasing({1, 2, 3}));
  std::vector<float> y(7 * 768 + 64, kCanary), x = randomFloats(7 * 768 + 64),
                                               b = randomFloats(768, 9);
  for (int64_t offset = 0; offset < 16; ++offset) {
    float *to = y.data() + 16 + offset, *from = x.data() + 15 - offset;
    fixed.run(Slots().view(to, {7, 768}).view(from, {7, 768}).view(b.data(), {768}), {6});
    for (int64_t i = 0; i < 7 * 768; ++i)
      ASSERT_EQ(to[i], from[i] + b[static_cast<size_t>(i % 768)]) << i;
    EXPECT_EQ(to[7 * 768], kCanary) << offset;
  }
}

// The output may overlap the bias, so the bias is not read once for two rows.
TEST(CpuLines, RowMayWriteTheBiasOfTheNext) {
  CpuKernel kernel([](KernelBuilder& k) { build(k, 4, 512); }, aliasing({1, 2, 1}));
  std::vector<float> y(4 * 512), x = randomFloats(4 * 512);
  const std::vector<float> bias = randomFloats(512, 5);
  std::copy(bias.begin(), bias.end(), y.begin() + 512);  // the second row of y
  kernel.run(Slots().view(y.data(), {4, 512}).view(x.data(), {4, 512}).view(y.data() + 512, {512}));
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], x[i] + bias[i % 512]) << i;
}

// A fence is needed only after non-temporal stores.
TEST(CpuLines, OnlyNonTemporalStoresAreFenced) {
  program::CompileOptions options = aliasing({1, 2, 3});
  options.emit = "llvm";
  KernelBuilder k("bias");
  build(k, 1, 512);
  const std::string llvm = compileProgram(k.finish(), options).code;
  const size_t fence = llvm.find("llvm.x86.sse.sfence()"), branch = llvm.rfind("br i1", fence);
  ASSERT_NE(fence, std::string::npos) << llvm;
  EXPECT_EQ(llvm.substr(branch, fence - branch).find("ret void"), std::string::npos);
  EXPECT_LT(fence - branch, 400u) << llvm.substr(
      branch, fence - branch);  // the block after the branch contains the fence
}

}  // namespace
}  // namespace ligerdsl::testing::lines_test
