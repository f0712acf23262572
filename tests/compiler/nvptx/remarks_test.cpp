// Tests the remarks in an artifact. tests/compiler/passes tests the remarks of each pass.
#include "program/remarks.h"

#include <algorithm>
#include <optional>

#include "ptx_kernel.h"

namespace ligerdsl::testing::remarks_test {
namespace {

using program::RemarkId;

// Returns the remarks of `pass` that contain `text`. Checks that each remark's id belongs to its
// pass, and that the table has a remedy for it.
std::vector<program::Remark> found(const program::Artifact& artifact, const std::string& pass,
                                   const std::string& text) {
  std::vector<program::Remark> matching;
  for (const program::Remark& remark : artifact.remarks) {
    const std::optional<RemarkId> id = program::find_remark(remark.id);
    EXPECT_TRUE(id && pass_of(*id) == remark.pass) << to_string(remark);
    EXPECT_NE(remedy_of(remark), "") << to_string(remark);
    if (remark.pass == pass && remark.text.find(text) != std::string::npos)
      matching.push_back(remark);
  }
  return matching;
}

std::vector<program::Remark> found(const program::Artifact& artifact, RemarkId id,
                                   const std::string& text) {
  std::vector<program::Remark> matching = found(artifact, pass_of(id), text);
  std::erase_if(matching, [&](const program::Remark& remark) { return remark.id != id_of(id); });
  return matching;
}

std::string all(const program::Artifact& artifact) {
  std::string text;
  for (const program::Remark& remark : artifact.remarks) text += to_string(remark) + "\n";
  return text;
}

// Returns options with empty facts, so any two arguments may overlap.
program::CompileOptions withoutFacts(size_t arguments) {
  program::CompileOptions options;
  options.facts.resize(arguments);
  return options;
}

constexpr int kLoadLine = __LINE__ + 6, kStoreLine = __LINE__ + 7;
auto doubledRows(LoopOptions loop) {
  return [=](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, 1024}), x = k.view("x", f32, {dyn, 1024});
    k.for_range(k.program_id(0), x.dim(0).to(i32), k.num_programs(0), loop, [&](Scalar row) {
      // The remark names the lines of these two statements.
      Tile t = x.partition({squeeze, 1024}).load({row, 0});
      y.partition({squeeze, 1024}).store({row, 0}, t + t);
    });
  };
}

TEST(Remarks, NameTheAuthorsLineAndTheObstacle) {
  const PtxKernel kernel(doubledRows(pipelined(2)), Known::aligned, withoutFacts(2));
  const auto remarks = found(kernel.artifact, RemarkId::load_not_ahead,
                             "num_stages = 2: not loaded ahead: the store at ");
  ASSERT_EQ(remarks.size(), 1u) << all(kernel.artifact);
  EXPECT_TRUE(remarks[0].file.ends_with("remarks_test.cpp")) << remarks[0].file;
  EXPECT_EQ(remarks[0].line, uint32_t(kLoadLine));
  EXPECT_NE(remarks[0].text.find("remarks_test.cpp:" + std::to_string(kStoreLine) + " may write"),
            std::string::npos)
      << remarks[0].text;
  // With the default facts, arguments do not overlap, and there is no remark.
  EXPECT_TRUE(
      found(PtxKernel(doubledRows(pipelined(2))).artifact, "tile-prefetch-loads", "").empty());
}

TEST(Remarks, AppearOnce) {
  const PtxKernel copies(doubledRows({.num_stages = 2, .unroll = 4}), Known::aligned,
                         withoutFacts(2));
  EXPECT_EQ(copies.count("ld.global"), 5 * 8)
      << copies.ptx;  // four copies of the body and the remainder: 8 loads each
  EXPECT_EQ(found(copies.artifact, RemarkId::load_not_ahead, "not loaded ahead").size(), 1u)
      << all(copies.artifact);
}

// Stores the transpose of z in w. Each thread loads rows and stores columns, so the whole tile of
// `rows` x 512 bytes is exchanged through shared memory.
constexpr int kTransposeLine = __LINE__ + 4;
void transpose(KernelBuilder& k, int64_t rows) {
  View z = k.view("z", f32, {dyn, 128}), w = k.view("w", f32, {128, dyn});
  Scalar program = k.program_id(0);
  Tile transposed = z.partition({rows, 128}).load({program, 0}).permute({1, 0});
  w.partition({128, rows}).store({0, program}, transposed);
}

// A resident row of 16 blocks of 32 KB, and a transposition.
auto wideRow(int64_t rows) {
  return [=](KernelBuilder& k) {
    constexpr int64_t kBlock = 8192, kBlocks = 16;
    View y = k.view("y", f32, {dyn, kBlock * kBlocks}),
         x = k.view("x", f32, {dyn, kBlock * kBlocks});
    Scalar program = k.program_id(0);
    transpose(k, rows);
    Resident row = x.partition({squeeze, kBlock}).resident({program});
    auto [total] = k.for_range(0, kBlocks, 1, carry(k.zeros({kBlock}, f32)),
                               [&](Scalar i, Tile total) { return carry(total + row.load(i)); });
    Tile all = total;
    k.for_range(0, kBlocks, 1, [&](Scalar i) {
      Scalar b = kBlocks - 1 - i;
      y.partition({squeeze, kBlock}).store({program, b}, row.load(b) * all);
    });
  };
}

TEST(Remarks, ResidentRowsLeaveRoomForExchanges) {
  constexpr int64_t kOfACta = 232448, kBlock = 32 * 1024;
  for (int64_t rows : {32, 96, 160, 224}) {
    const PtxKernel kernel(wideRow(rows));
    const int64_t transposed = rows * 512, left = (kOfACta - transposed) / kBlock;
    EXPECT_EQ(found(kernel.artifact, RemarkId::resident_row_cached_in_part,
                    "cached in part: " + std::to_string(left) + " of 16")
                  .size(),
              1u)
        << all(kernel.artifact);
    EXPECT_LE(kernel.artifact.shared_bytes, kOfACta);
    EXPECT_GE(kernel.artifact.shared_bytes, transposed + left * kBlock);
  }
}

// A row with many small stages leaves room for their mbarriers, and for the small buffers of
// gathers.
TEST(Remarks, ResidentRowsLeaveRoomForManySmallBuffers) {
  for (const bool gathers : {false, true}) {
    const PtxKernel kernel([&](KernelBuilder& k) {
      constexpr int64_t kBlock = 512, kBlocks = 128;
      View y = k.view("y", f32, {dyn, kBlock * kBlocks}),
           x = k.view("x", f32, {dyn, kBlock * kBlocks});
      View v = k.view("v", f32, {dyn, 128});
      Scalar program = k.program_id(0);
      if (!gathers) transpose(k, 16);
      Tile moved = k.zeros({128}, f32);
      for (int i = 0; gathers && i < 9; ++i)
        moved = gather(v.partition({squeeze, 128}).load({program, 0}) + moved,
                       k.arange(128) ^ (33 + i), 0);
      Resident row = x.partition({squeeze, kBlock}).resident({program});
      auto [total] = k.for_range(0, kBlocks, 1, carry(k.full({kBlock}, 0.0f, f32) + sum(moved)),
                                 [&](Scalar i, Tile total) { return carry(total + row.load(i)); });
      Tile all = total;
      k.for_range(0, kBlocks, 1, [&](Scalar i) {
        Scalar b = kBlocks - 1 - i;
        y.partition({squeeze, kBlock}).store({program, b}, row.load(b) * all);
      });
    });
    EXPECT_EQ(found(kernel.artifact, RemarkId::resident_row_cached_in_part,
                    "resident row: cached in part")
                  .size(),
              1u)
        << all(kernel.artifact);
    EXPECT_LE(kernel.artifact.shared_bytes, 232448);
  }
}

// Multiplies a row by the matrix w. Each CTA of a cluster computes some columns of the result, but
// needs the whole row.
TEST(Remarks, NameRowsThatEachCtaReadsCompletely) {
  const auto weighted = [](KernelBuilder& k) {
    constexpr int64_t kBlock = 512, kBlocks = 8, kColumns = 64;
    View y = k.view("y", f32, {dyn, 2, kColumns}), x = k.view("x", f32, {dyn, kBlock * kBlocks}),
         w = k.view("w", f32, {kBlock * kBlocks, kColumns});
    Scalar program = k.program_id(0);
    Resident row = x.partition({squeeze, kBlock}).resident({program});
    const auto weigh = [&](Scalar pass, bool back) {
      auto [total] =
          k.for_range(0, kBlocks, 1, carry(k.zeros({kColumns}, f32)), [&](Scalar i, Tile total) {
            Scalar b = back ? kBlocks - 1 - i : i;
            return carry(
                total +
                sum(w.partition({kBlock, kColumns}).load({b, 0}) * row.load(b).expand_dims(1), 0));
          });
      y.partition({squeeze, squeeze, kColumns}).store({program, pass, 0}, total);
    };
    weigh(k.constant(0, i64), false);
    weigh(k.constant(1, i64), true);
  };
  program::CompileOptions options;
  const char* const kept = "resident row: not cached: the layouts of its uses";
  EXPECT_TRUE(
      found(PtxKernel(weighted, Known::aligned, options).artifact, "tile-keep-residents", kept)
          .empty());
  options.num_ctas = 2;
  const PtxKernel cluster(weighted, Known::aligned, options);
  EXPECT_EQ(found(cluster.artifact, RemarkId::resident_row_not_cached, kept).size(), 1u)
      << all(cluster.artifact);
}

TEST(Remarks, ReportMinCtasPerSmThatIsNotReached) {
  program::CompileOptions options;
  options.min_ctas_per_sm = 16;
  const auto transposed = [](KernelBuilder& k) { transpose(k, 128); };
  const PtxKernel kernel(transposed, Known::aligned, options);
  EXPECT_EQ(found(kernel.artifact, RemarkId::min_ctas_exceed_shared_memory,
                  "min_ctas_per_sm = 16 is not reached: a CTA takes ")
                .size(),
            1u)
      << all(kernel.artifact);
  options.min_ctas_per_sm = 1;
  EXPECT_TRUE(
      found(PtxKernel(transposed, Known::aligned, options).artifact, "place-tiles", "").empty());
  options.num_warps = 32;
  options.min_ctas_per_sm = 3;
  const char* const said =
      "min_ctas_per_sm = 3 is not reached: an SM holds 2 CTAs of 32 warps; use fewer warps";
  const PtxKernel large([](KernelBuilder& k) { transpose(k, 32); }, Known::aligned, options);
  EXPECT_EQ(found(large.artifact, RemarkId::min_ctas_exceed_threads, said).size(), 1u)
      << all(large.artifact);
}

TEST(Remarks, AreNotAddedToErrors) {
  program::CompileOptions options;
  options.num_warps = 8;
  try {
    const PtxKernel kernel(wideRow(512), Known::aligned, options);
    FAIL() << "compiled, with " << kernel.artifact.shared_bytes << " bytes of shared memory";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("bytes of shared memory"), std::string::npos)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find("resident"), std::string::npos) << error.what();
  }
}

TEST(Errors, TooMuchSharedMemoryIsOneLineWithTheAuthorsPlace) {
  try {
    const PtxKernel kernel([](KernelBuilder& k) { transpose(k, 512); });
    FAIL() << "compiled, with " << kernel.artifact.shared_bytes << " bytes of shared memory";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("remarks_test.cpp:" + std::to_string(kTransposeLine) + ":"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find(" bytes of shared memory per CTA, "), std::string::npos) << text;
    EXPECT_NE(text.find("; sm_90a has 232448; use smaller tiles"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "expected one line without IR: " << text;
  }
}

TEST(Remarks, ReportBarriersBetweenArgumentsThatMayShareMemory) {
  const auto twice = [](KernelBuilder& k) {
    View y = k.view("y", f32, {256}), x = k.view("x", f32, {256});
    y.partition({256}).store({0}, x.partition({256}).load({0}));
    store(y.ptr() + k.arange(256), load(x.ptr() + (255 - k.arange(256))));
  };
  const char* const wait = "a barrier of the CTA is needed before this";
  EXPECT_FALSE(found(PtxKernel(twice, Known::aligned, withoutFacts(2)).artifact,
                     RemarkId::barrier_between_arguments, wait)
                   .empty());
  EXPECT_TRUE(found(PtxKernel(twice).artifact, "tgpu-insert-barriers", "").empty())
      << "a barrier remark despite the promise of disjoint arguments";
}

TEST(Remarks, ReportGpusWithoutBulkCopies) {
  program::CompileOptions options;
  options.arch = "sm_80";
  const PtxKernel kernel(wideRow(32), Known::aligned, options);
  EXPECT_EQ(found(kernel.artifact, RemarkId::no_bulk_copies,
                  "resident rows: not cached: sm_80 has no bulk copies")
                .size(),
            1u)
      << all(kernel.artifact);
}

TEST(Unroll, RepeatsTheBody) {
  const auto sums = [](int copies, bool divisible) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {1024}), x = k.view("x", f32, {dyn, 1024});
      Scalar rows = k.scalar("rows", i32);
      if (divisible) rows = assume_divisible(rows, 8);
      auto [acc] = k.for_range(0, rows, 1, {.num_stages = 1, .unroll = copies},
                               carry(k.zeros({1024}, f32)), [&](Scalar row, Tile acc) {
                                 return carry(acc + x.partition({squeeze, 1024}).load({row, 0}));
                               });
      y.partition({1024}).store({0}, acc);
    };
  };
  const int plain = PtxKernel(sums(1, false)).count("ld.global");
  EXPECT_EQ(PtxKernel(sums(4, false)).count("ld.global"), (4 + 1) * plain)
      << "four copies of the body, and the remainder";
  EXPECT_EQ(PtxKernel(sums(4, true)).count("ld.global"), 4 * plain) << "there is no remainder";
  EXPECT_EQ(PtxKernel(sums(3, true)).count("ld.global"), (3 + 1) * plain)
      << "8 is not a multiple of 3, so there is a remainder";
  expectAssemblesEverywhere(sums(4, false));
}

// Rows may start at any offset, but every eighth row is aligned for vectors.
TEST(AssumeDivisible, EnablesVectors) {
  const auto copy = [](bool divisible) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", bf16, {1024}), x = k.view("x", bf16, {dyn, dyn});
      Scalar row = k.scalar("row", i32);
      if (divisible) row = assume_divisible(row, 8);
      y.partition({1024}).store({0}, x.partition({squeeze, 1024}).load({row, 0}));
    };
  };
  program::CompileOptions options;
  options.facts = {
      {.pointer_align = 16, .dims = {{1024, 1}}, .strides = {{1, 1}}, .alias_class = 1},
      {.pointer_align = 16,
       .dims = {{-1, 1}, {-1, 1}},
       .strides = {{-1, 1}, {1, 1}},
       .alias_class = 2},
      {}};
  const PtxKernel any(copy(false), Known::aligned, options),
      known(copy(true), Known::aligned, options);
  EXPECT_FALSE(any.has("ld.global.v4")) << any.ptx;
  EXPECT_TRUE(known.has("ld.global.v4")) << known.ptx;
  const auto remarks = found(any.artifact, RemarkId::narrow_access,
                             "accesses of 2 bytes, not 16: rows along dimension 0");
  ASSERT_EQ(remarks.size(), 1u) << all(any.artifact);
  EXPECT_NE(remarks[0].text.find("assume_divisible"), std::string::npos);
  EXPECT_TRUE(found(known.artifact, "tile-assign-layouts", "").empty()) << all(known.artifact);
}

}  // namespace
}  // namespace ligerdsl::testing::remarks_test
