// Tests partitions at the edges of their views, pointers, masks, atomics and large offsets.
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <thread>

#include "oracle.h"

namespace ligerdsl::testing::memory_test {
namespace {

TEST(CpuMemory, PartitionsHandleTheEdges) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
    Scalar i = k.program_id(1), j = k.program_id(0);
    out.partition({8, 32}).store({i, j}, x.partition({8, 32}).load({i, j}, {.pad = -3}) + 1.0f);
  };
  for (int64_t rows : {1, 7, 8, 9, 20})
    for (int64_t cols : {1, 5, 31, 32, 33, 70})
      Case()
          .out(f32, {rows, cols}, {cols + 3, 1})
          .view(f32, randomNumbers(rows * (cols + 5)), {rows, cols}, {cols + 5, 1})
          .check(build, {3, 3}, {},
                 {{}, distinct(2)});  // grid {3, 3}: some programs are completely outside
}

// In the last register of a row, the column mask is known to be false after the row's end. The row
// mask is unknown. LLVM must not read lanes after the row's end.
TEST(CpuMemory, RowsOfKnownWidthEndInARegister) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn, dyn});
    Scalar i = k.program_id(0);
    out.store({i}, sum(x.partition({8, 32}).load({i, 0})));
  };
  for (int64_t width : {4, 8, 16, 20, 24, 25, 32}) {
    SCOPED_TRACE(width);
    std::vector<program::CompileOptions> levels;
    for (const std::string& level : hostLevels()) {
      levels.push_back(distinct(2));
      levels.back().facts[1].dims = {{}, {.exact = width}};
      levels.back().arch = level;
    }
    Case()
        .out(f32, {2})
        .view(f32, randomNumbers(13 * (width + 9)), {13, width}, {width + 9, 1})
        .check(build, {2}, {1e-5, 1e-5}, levels);
  }
}

// An author's mask may also be constant in some lanes of a register.
TEST(CpuMemory, MasksMayBeConstantInAPartOfARegister) {
  std::vector<program::CompileOptions> levels;
  for (const std::string& level : hostLevels()) {
    levels.emplace_back();
    levels.back().arch = level;
  }
  const std::vector<std::function<Tile(Tile, Tile)>> masks = {
      [](Tile first, Tile rows) { return first && rows; },
      [](Tile first, Tile rows) { return first || rows; },
      [](Tile first, Tile rows) { return !(first && rows); },
      [](Tile first, Tile rows) { return !(!first || rows); },
      [](Tile first, Tile rows) { return first ^ rows; },
      [](Tile first, Tile rows) { return where(first, first && rows, first); }};
  for (size_t which = 0; which < masks.size(); ++which)
    for (int32_t first : {4, 8, 20, 24})
      for (double count : {0, 3, 8}) {
        SCOPED_TRACE("mask " + std::to_string(which) + ", first " + std::to_string(first) +
                     ", rows " + std::to_string(count));
        auto build = [&](KernelBuilder& k) {
          View out = k.view("out", f32, {dyn});
          Ptr x = k.ptr("x", f32);
          Tile row = k.arange(8).expand_dims(1), column = k.arange(32).expand_dims(0);
          out.store({0}, sum(load(x + (row * 32 + column),
                                  masks[which](column < first, row < k.scalar("count", i32)))));
        };
        Case()
            .out(f32, {1})
            .pointer(f32, randomNumbers(256))
            .scalar(i32, count)
            .check(build, {1}, {1e-5, 1e-5}, levels);
      }
}

TEST(CpuMemory, PaddingReachesReductions) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), x = k.view("x", bf16, {dyn, dyn});
    Scalar i = k.program_id(0);
    out.partition({4}).store({i}, sum(x.partition({4, 64}).load({i, 0}, {.pad = 0.5}).to(f32), 1));
  };
  for (int64_t cols : {3, 40, 64})
    Case()
        .out(f32, {10})
        .view(bf16, randomNumbers(10 * cols), {10, cols})
        .check(build, {3}, {1e-5, 1e-5});
}

TEST(CpuMemory, SqueezedIndicesMayBeOutsideTheView) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn, dyn});
    Scalar i = k.program_id(0);
    out.partition({squeeze, 16})
        .store({i, 0}, x.partition({squeeze, squeeze, 16}).load({i, i - 1, 0}, {.pad = 9}));
    out.store({i, 20}, x.load({i, 1, 3}, {.pad = 5}));
    out.store({i + 3, 0}, 1.0f);  // rows 3 to 5 are in the view
  };
  Case()
      .out(f32, {6, 32})
      .view(f32, randomNumbers(4 * 3 * 20), {4, 3, 20})
      .check(build, {8}, {}, {{}, distinct(2)});
}

TEST(CpuMemory, HandlesStridedColumnsAndRepeatedRows) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}, {.strides = {dyn, dyn}}),
         x = k.view("x", i8, {dyn, dyn}, {.strides = {dyn, dyn}});
    out.partition({8, 16}).store({k.program_id(0), 0},
                                 x.partition({8, 16}).load({k.program_id(0), 0}).to(f32));
  };
  std::vector<double> x = randomIntegers(400, 3, -100, 100);
  Case()
      .out(f32, {13, 11}, {40, 3})
      .view(i8, x, {13, 11}, {17, 2})
      .check(build, {2}, {}, {{}, distinct(2)});
  Case()
      .out(f32, {13, 11}, {1, 13})
      .view(i8, x, {13, 11}, {0, 5})
      .check(build, {2}, {}, {{}, distinct(2)});
  program::CompileOptions unit = distinct(2);
  for (auto& facts : unit.facts) facts.strides = {{}, {.exact = 1}};
  Case().out(f32, {13, 11}, {40, 1}).view(i8, x, {13, 11}, {17, 1}).check(build, {2}, {}, {unit});
}

TEST(CpuMemory, BooleansTakeAByte) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", i1, {dyn}), x = k.view("x", i1, {dyn});
    Scalar flip = k.scalar("flip", i1);
    Tile v = x.partition({32}).load({k.program_id(0)}, {.pad = 1});
    out.partition({32}).store({k.program_id(0)}, v ^ flip);
    auto [last] = k.for_range(0, 3, 1, carry(v), [&](Scalar, Tile t) { return carry(!t); });
    out.partition({32}).store({k.program_id(0) + 2}, last);
  };
  for (int flip : {0, 1})
    Case()
        .out(i1, {128})
        .view(i1, randomIntegers(50, 4, 0, 1), {50})
        .scalar(i1, flip)
        .check(build, {2}, {0, 0}, {{}, distinct(3)});
}

TEST(CpuMemory, GathersAndScattersThroughPointers) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn}), index = k.view("index", i64, {dyn});
    Ptr table = k.ptr("table", f32);
    Scalar n = k.scalar("n", i32);
    Tile lane = k.program_id(0) * 64 + k.arange(64);
    Tile at = index.partition({64}).load({k.program_id(0)});
    Tile picked = load(table + at, lane < n && at >= 0, -5.0f);
    store(out.ptr() + lane, picked, lane < n);                       // contiguous
    store(out.ptr() + (200 + (lane ^ 5)), picked * 2.0f, lane < n);  // scattered
    Tile shifted = load(table + (lane + 3), lane < n);               // contiguous, unaligned
    store(out.ptr() + (500 + lane * 2), shifted, lane < n);
  };
  for (double n : {1, 64, 100, 128})
    Case()
        .out(f32, {1024})
        .view(i64, randomIntegers(128, 6, -3, 190), {128})
        .pointer(f32, randomNumbers(200))
        .scalar(i32, n)
        .check(build, {2}, {}, {{}, distinct(4)});
}

TEST(CpuMemory, AccessesTwoDimensionalPointerTilesAndSelectedPointers) {
  auto build = [](KernelBuilder& k) {
    Ptr out = k.ptr("out", bf16), x = k.ptr("x", bf16);
    Scalar stride = k.scalar("stride", i64);
    Tile row = k.arange(8).to(i64).expand_dims(1), col = k.arange(32).to(i64).expand_dims(0);
    PtrTile from = x + (row * stride + col);
    Tile v = load(from, col < 29, 1.0f);
    store(out + (row * 32 + col), v + v);
    auto [last] =
        k.for_range(0, 3, 1, carry(from), [&](Scalar, PtrTile p) { return carry(p + 1); });
    store(out + (256 + row * 32 + col), load(last, col < 29));
  };
  Case()
      .pointer(bf16, std::vector<double>(512, 0))
      .pointer(bf16, randomNumbers(8 * 40))
      .scalar(i64, 40)
      .check(build, {1}, {}, {{}, distinct(3)});
}

TEST(CpuMemory, AccessesScalarPointers) {
  auto build = [](KernelBuilder& k) {
    Ptr out = k.ptr("out", f32), x = k.ptr("x", f32);
    Scalar i = k.program_id(0);
    store(out + i, load(x + i) + load(x + (i + 100), i < 2, 8.0f), i != 3);
    store(out + (i + 10), load(x + i).to(f16).to(f32));
  };
  Case()
      .pointer(f32, std::vector<double>(32, 7))
      .pointer(f32, randomNumbers(128))
      .check(build, {6}, {1e-3, 1e-3}, {{}, distinct(2)});
}

TEST(CpuMemory, AtomicsCountEveryElement) {
  for (DType type : {i32, i64, f32, f16, bf16}) {
    auto build = [&](KernelBuilder& k) {
      Ptr sums = k.ptr("sums", type);
      View bins = k.view("bins", i32, {dyn}), out = k.view("out", type, {dyn});
      Tile bin = bins.partition({64}).load({k.program_id(0)}, {.pad = -1});
      Tile old = atomic_add(sums + bin, k.ones({64}, type), bin >= 0);
      out.partition({64}).store({k.program_id(0)}, old);
      atomic_add(sums + 15, k.constant(2, type));
      if (type == i32 || type == i64 || type == f32) {
        atomic_max(sums + (bin + 16), bin.to(type), bin >= 0);
        atomic_max(sums + 31, k.program_id(0).to(type), k.program_id(0) < 2);
      }
    };
    SCOPED_TRACE(name(type));
    Case()
        .pointer(type, std::vector<double>(32, 1))
        .view(i32, randomIntegers(150, 8, 0, 9), {150})
        .out(type, {150})
        .check(build, {3}, {0, 0}, {{}, distinct(3)});
  }
}

TEST(CpuMemory, AtomicsOfSeveralThreadsLoseNothing) {
  for (DType type : {f32, bf16}) {
    CpuKernel kernel([&](KernelBuilder& k) {
      Ptr sums = k.ptr("sums", type);
      atomic_add(sums + k.arange(64) % 2, k.ones({64}, type));
    });
    uint16_t halves[2] = {0, 0};
    float floats[2] = {0, 0};
    void* target = type == f32 ? static_cast<void*>(floats) : halves;
    Slots slots;
    slots.value(target);
    LoadedKernel loaded(kernel.artifact);
    int32_t grid[3] = {4, 1, 1};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        alignas(64) char arena[4096];
        ASSERT_LE(kernel.artifact.arena_bytes, int64_t(sizeof arena));
        for (int i = 0; i < (type == f32 ? 1000 : 1); ++i)
          loaded.entry(slots.words.data(), grid, t, t + 1, arena);
      });
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(type == f32 ? floats[i] : fromBf16(halves[i]), type == f32 ? 128000.0f : 128.0f);
  }
}

TEST(CpuMemory, HandlesOffsetsBeyondTwoToThe31) {
  constexpr int64_t stride = (int64_t(1) << 31) + 5, rows = 4, cols = 40;
  size_t bytes = (stride * (rows - 1) + cols) * 4;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  float* x = static_cast<float*>(memory);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) x[r * stride + c] = float(r * 100 + c);
  CpuKernel kernel([](KernelBuilder& k) {
    View v = k.view("x", f32, {dyn, dyn}), sums = k.view("sums", f32, {dyn});
    Scalar i = k.program_id(0);
    Tile t = v.partition({squeeze, 64}).load({i, 0});
    sums.store({i}, sum(t));
    v.partition({squeeze, 64}).store({i, 0}, t + 1.0f);
    Tile pair = v.partition({2, 64}).load({i / 2, 0});
    sums.partition({2}).store({i / 2 + 2}, sum(pair, 1));
    sums.store({i + 8}, load(v.ptr() + i.to(i64) * v.stride(0)));
  });
  std::vector<float> sums(16);
  kernel.run(Slots().view(x, {rows, cols}, {stride, 1}).view(sums.data(), {16}), {int32_t(rows)});
  for (int64_t r = 0; r < rows; ++r) {
    EXPECT_EQ(sums[r], float(cols * r * 100 + cols * (cols - 1) / 2));
    EXPECT_EQ(sums[4 + r], float(cols * r * 100 + cols * (cols - 1) / 2 + cols));
    EXPECT_EQ(sums[8 + r], float(r * 100 + 1));
    EXPECT_EQ(x[r * stride + cols - 1], float(r * 100 + cols));
  }
  munmap(memory, bytes);
}

std::string llvmOf(const std::function<void(KernelBuilder&)>& build,
                   program::CompileOptions options) {
  options.emit = "llvm";
  return CpuKernel(build, options).artifact.code;
}

// The view has more than 32 MiB, but only its first rows are backed by memory. Stores are
// non-temporal if rows begin at cache lines. This must not change the results.
TEST(CpuMemory, LargeResultsUseNonTemporalStores) {
  for (DType type : {f32, bf16}) {
    auto build = [&](KernelBuilder& k) {
      View y = k.view("y", type, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
      Scalar i = k.program_id(0);
      y.partition({2, 128}).store({i, 0}, (x.partition({2, 128}).load({i, 0}) + 1.0f).to(type));
    };
#if defined(__x86_64__)
    EXPECT_NE(llvmOf(build, aliasing({1, 2})).find("!nontemporal"), std::string::npos);
    EXPECT_NE(llvmOf(build, aliasing({1, 2})).find("sfence"), std::string::npos);
#endif
    EXPECT_EQ(llvmOf(build, aliasing({1, 1})).find("!nontemporal"), std::string::npos);  // in place
    EXPECT_EQ(llvmOf(build, {}).find("!nontemporal"), std::string::npos);  // nothing known
    CpuKernel kernel(build, aliasing({1, 2}));
    constexpr int64_t rows = 8, many = int64_t{1} << 20;
    for (int64_t cols : {100, 128})
      for (int64_t stride : {128, 129})
        for (int64_t offset : {0, 16, 1}) {
          SCOPED_TRACE(std::to_string(cols) + " " + std::to_string(stride) + " " +
                       std::to_string(offset));
          std::vector<float> x = randomFloats(rows * 128);
          const int64_t size = size_of(type), bytes = (rows * stride + offset) * size;
          auto* y = static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
          std::memset(y, 0, bytes);
          kernel.run(Slots()
                         .view(y + offset * size, {many, cols}, {stride, 1})
                         .view(x.data(), {many, cols}, {128, 1}),
                     {int32_t(rows / 2)});
          for (int64_t i = 0; i < rows * stride; ++i) {
            const int64_t r = i / stride, c = i % stride;
            const float expected = c < cols ? x[r * 128 + c] + 1.0f : 0.0f;
            uint32_t bits = 0;
            std::memcpy(&bits, y + (offset + i) * size, size);
            ASSERT_EQ(bits, type == f32 ? std::bit_cast<uint32_t>(expected) : toBf16(expected))
                << r << " " << c;
          }
          std::free(y);
        }
  }
}

// A store is also non-temporal if its loop computes a reduction, or a buffer that another loop
// reads. The kind of store must not change the reduction.
TEST(CpuMemory, NonTemporalStoresDoNotChangeReductions) {
  constexpr int64_t rows = 8, cols = 256, many = int64_t{1} << 20;
  for (int axis : {0, 1}) {
    SCOPED_TRACE(axis);
    auto build = [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn, cols}), x = k.view("x", f32, {dyn, cols}),
           sums = k.view("sums", f32, {dyn});
      Tile e = exp(x.partition({rows, cols}).load({0, 0}));
      y.partition({rows, cols}).store({0, 0}, e);
      sums.partition({axis == 0 ? cols : rows}).store({0}, sum(e, axis));
    };
#if defined(__x86_64__)
    EXPECT_NE(llvmOf(build, aliasing({1, 2, 3})).find("!nontemporal"), std::string::npos);
#endif
    CpuKernel kernel(build, aliasing({1, 2, 3}));
    std::vector<float> x = randomFloats(rows * cols), before;
    for (int64_t offset : {0, 1}) {  // aligned to a cache line, and not aligned
      auto* y = static_cast<float*>(std::aligned_alloc(64, (rows * cols + 16) * sizeof(float)));
      std::vector<float> sums(cols);
      kernel.run(Slots()
                     .view(y + offset, {many, cols})
                     .view(x.data(), {many, cols})
                     .view(sums.data(), {cols}));
      std::vector<double> expected(cols);
      for (int64_t i = 0; i < rows * cols; ++i) {
        ASSERT_NEAR(y[offset + i], std::exp(x[i]), 1e-6 * std::exp(x[i])) << i;
        expected[axis == 0 ? i % cols : i / cols] += std::exp(x[i]);
      }
      for (int64_t i = 0; i < (axis == 0 ? cols : rows); ++i)
        ASSERT_NEAR(sums[i], expected[i], 1e-5 * expected[i]) << i;
      if (offset > 0) {
        EXPECT_EQ(sums, before);
      }
      before = sums;
      std::free(y);
    }
  }
}

// While a program computes a tile that two loops read, it prefetches the next tile.
TEST(CpuMemory, TilesReadTwiceArePrefetched) {
  auto build = [](bool twice, bool backwards) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
      Scalar row = k.program_id(0);
      k.for_range(0, 4, 1, [&](Scalar i) {
        Scalar b = backwards ? 3 - i : i;
        Tile t = x.partition({squeeze, 256}).load({row, b});
        y.partition({squeeze, 256}).store({row, b}, twice ? t - sum(t) : t);
      });
    };
  };
  EXPECT_EQ(llvmOf(build(false, false), distinct(2)).find("llvm.prefetch"), std::string::npos);
  EXPECT_NE(llvmOf(build(true, false), distinct(2)).find("llvm.prefetch"), std::string::npos);
  EXPECT_NE(llvmOf(build(true, true), distinct(2)).find("llvm.prefetch"), std::string::npos);
  for (bool backwards : {false, true})
    Case()
        .out(f32, {3, 1000})
        .view(f32, randomNumbers(3000), {3, 1000})
        .check(build(true, backwards), {3}, {1e-4, 1e-5}, {{}, distinct(2)});
}

// The last loop over a resident row prefetches the next program's row, unless the cache does not
// hold two rows.
TEST(CpuMemory, NextProgramsResidentRowIsPrefetched) {
  auto build = [](int64_t cols) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn, cols}), x = k.view("x", f32, {dyn, cols});
      Scalar row = k.program_id(0);
      Resident kept = x.partition({squeeze, 256}).resident({row});
      auto [total] = k.for_range(0, kept.blocks(), 1, carry(k.zeros({256}, f32)),
                                 [&](Scalar b, Tile total) { return carry(total + kept.load(b)); });
      Scalar all = sum(total);
      k.for_range(0, kept.blocks(), 1, [&](Scalar i) {
        Scalar b = kept.blocks() - 1 - i;
        y.partition({squeeze, 256}).store({row, b}, kept.load(b) - all);
      });
    };
  };
  EXPECT_NE(llvmOf(build(1000), distinct(2)).find("llvm.prefetch"), std::string::npos);
  EXPECT_EQ(llvmOf(build(1 << 20), distinct(2)).find("llvm.prefetch"), std::string::npos);
  Case()
      .out(f32, {3, 1000})
      .view(f32, randomNumbers(3000), {3, 1000})
      .check(build(1000), {3}, {1e-4, 1e-5}, {{}, distinct(2)});
}

TEST(CpuMemory, PrintsEveryElement) {
  CpuKernel kernel([](KernelBuilder& k) {
    Scalar i = k.program_id(0);
    device_print("program", {i, i.to(f32) * 0.5f, k.arange(2).reshape({1, 2})});
  });
  ::testing::internal::CaptureStdout();
  kernel.run(Slots(), {2});
  fflush(stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "(0, 0, 0) program 0\n(0, 0, 0) program 0\n(0, 0, 0) program [0, 0] 0\n(0, 0, 0) "
            "program [0, 1] 1\n"
            "(1, 0, 0) program 1\n(1, 0, 0) program 0.5\n(1, 0, 0) program [0, 0] 0\n(1, 0, 0) "
            "program [0, 1] 1\n");
}

TEST(CpuMemory, PrintsFp8AsNumbers) {
  CpuKernel kernel([](KernelBuilder& k) {
    device_print("x", {k.constant(-1.5, f8e4m3), k.full({1}, 500.0, f32).to(f8e5m2)});
  });
  ::testing::internal::CaptureStdout();
  kernel.run(Slots(), {1});
  fflush(stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "(0, 0, 0) x -1.5\n(0, 0, 0) x [0] 512\n");
}

}  // namespace
}  // namespace ligerdsl::testing::memory_test
