#include <gtest/gtest.h>

#include "lib/abi/fused_linear/chunks.h"

namespace ligerdsl::lib {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The lm_head of Llama-3-8B in bf16 on a GPU.
LinearChunkOptions head() {
  return {.classes = 128256,
          .cols = 4096,
          .type = bf16,
          .weight_type = bf16,
          .product_type = bf16,
          .with_d_x = true,
          .with_d_weight = true,
          .d_weight_type = f32,
          .product_workspace = 32 << 20,
          .few_rows = 768};
}

TEST(LinearChunks, PublishedRule) {
  LinearChunkOptions options = head();
  options.rule = ChunkRule::published;
  // ceil(128256 / 4096) = 32 chunks of ceil(rows / 32) rows, rounded up to a power of two.
  EXPECT_EQ(LinearChunks(options).layout(4096).chunk, 128);
  EXPECT_EQ(LinearChunks(options).layout(8192).chunk, 256);
  EXPECT_EQ(LinearChunks(options).layout(8193).chunk, 512);
  EXPECT_EQ(LinearChunks(options).layout(1).chunk, 1);
  options.classes = 1000;  // ceil(V / H) = 1: a single chunk with all rows
  EXPECT_EQ(LinearChunks(options).layout(3000).chunk, 3000);
}

// The default limit in ops.h has 1 GiB for logits, the f32 accumulator of a 16-bit d_weight, 32 MiB
// for matmuls, and 20 bytes per row.
TEST(LinearChunks, DefaultWorkspaceIsBounded) {
  for (const DType type : {f32, bf16}) {
    LinearChunkOptions options = head();
    options.d_weight_type = type;
    for (const int64_t cols : {2048, 4096}) {
      options.cols = cols;
      const LinearChunks chunks(options);
      const int64_t sums = type == f32 ? 0 : options.classes * cols * 4;
      for (const int64_t rows :
           {1, 1000, 4096, 4200, 8192, 10000, 16384, 32768, 65536, 1 << 20, 1 << 27}) {
        const LinearLayout l = chunks.layout(rows);
        EXPECT_LE(l.bytes, static_cast<size_t>(1024 * kMiB + sums + 32 * kMiB + 20 * rows + 8192))
            << rows;
        EXPECT_FALSE(l.by_vocabulary);
      }
    }
  }
}

// With d_x, a chunk's copy of x uses the memory of d_x. Without it, and in vocabulary-blocked
// layouts, the copy has memory of its own.
TEST(LinearChunks, CopyOfXForIgnoredRowsStaysWithinTheLimit) {
  for (const bool with_d_x : {false, true}) {
    for (const DType type : {f32, bf16}) {
      for (const int64_t limit : {64 * kMiB, 300 * kMiB, 2000 * kMiB}) {
        LinearChunkOptions options = head();
        options.with_d_x = with_d_x, options.d_weight_type = type,
        options.max_workspace_bytes = limit;
        const LinearLayout without = LinearChunks(options).layout(8192);
        options.ignores_rows = true;
        const LinearLayout l = LinearChunks(options).layout(8192);
        EXPECT_LE(l.bytes, static_cast<size_t>(limit));
        EXPECT_EQ(l.by_vocabulary, without.by_vocabulary);
        if (with_d_x && !l.by_vocabulary) {
          EXPECT_EQ(l.bytes, without.bytes);
          continue;
        }
        const auto copied = static_cast<size_t>((l.by_vocabulary ? l.block_rows : l.chunk) *
                                                options.cols * 2),
                   logits = static_cast<size_t>((l.by_vocabulary ? l.block_rows * l.block_stride
                                                                 : l.chunk * l.logits_stride) *
                                                2);
        EXPECT_GE(l.x, l.logits + logits);
        EXPECT_LE(l.x + copied, l.bytes);
        if (l.by_vocabulary && l.add_up_d_weight) {
          EXPECT_GE(l.x, l.d_weight + static_cast<size_t>(l.columns * options.cols * 4));
        }
      }
    }
  }
}

// A chunk's two sets of f32 logits fit in 1 GiB, and their 16-bit gradient in another 256 MiB.
TEST(LinearChunks, F32LogitsOfTwoHeadsFitInOneGiB) {
  LinearChunkOptions options = head();
  options.target_cols = 4096, options.keeps_x = false, options.f32_logits = true;
  const LinearLayout l = LinearChunks(options).layout(4096);
  EXPECT_EQ(l.chunk, 1024);
  EXPECT_LE(l.bytes, static_cast<size_t>(1024 * kMiB + 256 * kMiB + 32 * kMiB + 100000));
  const auto logits = static_cast<size_t>(1024 * 128256 * 4);
  EXPECT_GE(l.target_logits, l.logits + logits);
  EXPECT_GE(l.d_logits, l.target_logits + logits);
  EXPECT_LE(l.d_logits + logits / 2, l.bytes);
  options.max_workspace_bytes = 300 * kMiB;
  EXPECT_LE(LinearChunks(options).layout(4096).bytes, static_cast<size_t>(300 * kMiB));
  options.product_type = options.type = options.weight_type = f32;
  const LinearLayout in_place = LinearChunks(options).layout(4096);
  EXPECT_EQ(in_place.d_logits, in_place.logits);
}

TEST(LinearChunks, DefaultChunks) {
  const LinearChunks chunks(head());
  EXPECT_EQ(chunks.layout(1000).chunk, 1000);  // all rows
  EXPECT_EQ(chunks.layout(4096).chunk, 4096);
  EXPECT_EQ(chunks.layout(65536).chunk, 4096);
  EXPECT_EQ(chunks.layout(5000).chunk, 2560);  // two equal chunks
}

TEST(LinearChunks, LimitIsKept) {
  LinearChunkOptions options = head();
  for (int64_t limit : {64 * kMiB, 300 * kMiB, 1100 * kMiB}) {
    options.max_workspace_bytes = limit;
    for (int64_t rows : {1, 127, 4096, 8192, 100000}) {
      const LinearLayout layout = LinearChunks(options).layout(rows);
      EXPECT_LE(layout.bytes, static_cast<size_t>(limit)) << rows;
      EXPECT_TRUE(layout.chunk == rows || layout.chunk < 128 || layout.chunk % 128 == 0)
          << layout.chunk;
    }
  }
  options.max_workspace_bytes = 1100 * kMiB;
  EXPECT_EQ(LinearChunks(options).layout(4096).chunk, 4096);
  options.max_workspace_bytes = 1;
  EXPECT_EQ(LinearChunks(options).layout(4096).chunk, 1);
}

// A matmul rounds the 16-bit d_weight of a single chunk itself. Several chunks need an f32
// accumulator.
TEST(LinearChunks, SeveralChunksAccumulateNarrowGradientsInF32) {
  LinearChunkOptions options = head();
  options.d_weight_type = bf16;
  const LinearLayout one = LinearChunks(options).layout(8192);
  EXPECT_EQ(one.chunk, 8192);
  EXPECT_FALSE(one.add_up_d_weight);
  const LinearLayout many = LinearChunks(options).layout(32768);
  EXPECT_EQ(many.chunk, 4096);
  EXPECT_TRUE(many.add_up_d_weight);
  EXPECT_GT(many.bytes, size_t{128256} * 4096 * 4);
  options.max_workspace_bytes = 1100 * kMiB;
  EXPECT_FALSE(LinearChunks(options).layout(4096).add_up_d_weight);
  EXPECT_TRUE(LinearChunks(options).layout(8192).by_vocabulary) << "the sums alone exceed it";
  options.keeps_x = false;
  EXPECT_GT(LinearChunks(options).layout(8192).bytes, size_t{1100 * kMiB});
  options.keeps_x = true;
  options.max_workspace_bytes = 3000 * kMiB;
  EXPECT_LE(LinearChunks(options).layout(32768).bytes, size_t{3000 * kMiB});
}

// Many small chunks would each read and write all of d_weight.
TEST(LinearChunks, SmallChunksBecomeVocabularyBlocked) {
  for (DType type : {f32, bf16}) {
    LinearChunkOptions options = head();
    options.d_weight_type = type;
    for (int64_t limit : {64 * kMiB, 300 * kMiB}) {
      options.max_workspace_bytes = limit;
      for (int64_t rows : {1000, 4096, 8192, 100000}) {
        const LinearLayout l = LinearChunks(options).layout(rows);
        SCOPED_TRACE(std::to_string(limit / kMiB) + " MiB, rows " + std::to_string(rows));
        EXPECT_LE(l.bytes, static_cast<size_t>(limit));
        const bool sums_fit = type == f32 || l.chunk == rows;
        EXPECT_EQ(l.by_vocabulary, l.chunk < rows && (l.chunk < 768 || !sums_fit));
        if (!l.by_vocabulary) continue;
        EXPECT_EQ(l.add_up_d_weight, type != f32 && l.block_rows < rows);
        EXPECT_GE(l.columns, 128);
        EXPECT_GE(l.block_stride, l.columns);
        const size_t logits = static_cast<size_t>(l.block_rows * l.block_stride) * 2;
        EXPECT_LE(l.logits + logits, l.d_weight);
        const size_t sums = l.add_up_d_weight ? static_cast<size_t>(l.columns) * 4096 * 4 : 0;
        EXPECT_LE(l.d_weight + sums, l.bytes);
      }
    }
  }
  LinearChunkOptions options = head();
  options.chunk_rows = 128;
  EXPECT_FALSE(LinearChunks(options).layout(4096).by_vocabulary) << "the options choose the chunks";
  options.chunk_rows = 0;
  options.rule = ChunkRule::published;
  EXPECT_FALSE(LinearChunks(options).layout(4096).by_vocabulary) << "the options choose the chunks";
}

// Exponentials are stored in d_weight's memory. No block of d_weight overwrites values still in
// use.
TEST(LinearChunks, ExponentialsInDWeightAreNotOverwritten) {
  for (DType type : {f32, bf16}) {
    LinearChunkOptions options = head();
    options.d_weight_type = type;
    options.product_workspace = 0;
    options.tile_columns = 256, options.tile_numbers = 2, options.tiles_at_once = 132,
    options.in_blocks = true;
    const int64_t most = 4096 * size_of(type) / 2;  // rows whose exponentials fit in d_weight
    for (int64_t limit : {64'000'000, 300'000'000}) {
      options.max_workspace_bytes = limit;
      for (int64_t rows : {1000, 4096, 8192, 10000, 32768}) {
        SCOPED_TRACE(std::string(name(type)) + ", " + std::to_string(limit) + " bytes, rows " +
                     std::to_string(rows));
        EXPECT_FALSE(LinearChunks(options).layout(rows).in_d_weight) << "d_weight is not free";
        const LinearLayout l = LinearChunks(options).layout(rows, true);
        EXPECT_LE(l.bytes, static_cast<size_t>(limit));
        if (rows == 4096) {
          EXPECT_TRUE(l.in_d_weight);
          EXPECT_EQ(l.chunk, rows) << "no row is recomputed";
        }
        if (!l.in_d_weight) continue;
        EXPECT_TRUE(l.by_vocabulary);
        EXPECT_LE(l.chunk, most);
        EXPECT_EQ(l.columns, int64_t{1} << l.block_shift);
        EXPECT_EQ(l.columns % options.tile_columns, 0);
        const auto first_block = static_cast<size_t>(l.chunk * l.columns) * 2;
        EXPECT_LE(l.logits + first_block, l.base);
        EXPECT_LE(l.scaled_x + static_cast<size_t>(l.chunk) * 4096 * 2, l.again_logits);
        EXPECT_LE(l.again_logits + static_cast<size_t>(l.block_rows * l.columns) * 2, l.bytes);
        EXPECT_EQ(l.block_rows > 0, l.chunk < rows);
        bool between = false;
        // Gradients of recomputed rows are stored between the current block's exponentials and its
        // d_weight.
        for (int64_t block = 0; block * l.columns < options.classes; ++block) {
          const LinearChunks::Again again = LinearChunks::again_at(l, block);
          EXPECT_GE(again.rows, l.block_rows);
          if (!again.in_d_weight) continue;
          EXPECT_LE(block * l.chunk * 2 + again.rows * 2, block * 4096 * size_of(type)) << block;
          between = true;
        }
        EXPECT_TRUE(between || type != f32 || limit != 64'000'000 || rows <= 4096);
        int64_t done = 0;
        for (int64_t first = 0; first < rows; first += LinearChunks::chunk_at(l, rows, first))
          done = LinearChunks::chunk_at(l, rows, first);
        EXPECT_EQ(done, l.chunk) << "the last chunk must be full";
      }
    }
    options.max_workspace_bytes = 30'000'000;
    EXPECT_LT(LinearChunks(options).layout(4096, true).chunk, 4096);
    EXPECT_LE(LinearChunks(options).layout(4096, true).bytes, 30'000'000u);
  }
}

// Rows whose exponentials fit in an f32 d_weight come first, if the remaining rows fit in large
// chunks. The first rows' logits are then computed once, and fewer chunks read and write d_weight.
TEST(LinearChunks, RowsInDWeightComeFirst) {
  LinearChunkOptions options = head();
  options.product_workspace = 0;
  options.tile_columns = 256, options.tile_numbers = 2, options.tiles_at_once = 132,
  options.in_blocks = true;
  options.smoothing_parts = 4;
  options.max_workspace_bytes = 300'000'000;
  const LinearChunks chunks(options);
  for (const int64_t rows : {16384, 20000, 32768, 100000}) {
    SCOPED_TRACE(rows);
    const LinearLayout l = chunks.layout(rows, true);
    EXPECT_FALSE(l.by_vocabulary);
    EXPECT_EQ(l.rows_in_front, 8192) << "the number of rows that d_weight holds";
    EXPECT_GE(l.chunk, 768);
    EXPECT_LE(l.bytes, 300'000'000u);
    const LinearLayout front = chunks.in_front(l, rows);
    EXPECT_TRUE(front.in_d_weight);
    EXPECT_EQ(front.rows, 8192);
    EXPECT_EQ(front.chunk, 8192) << "no row is recomputed";
    EXPECT_LE(front.bytes, l.bytes);
    // Both layouts have these arrays at the same offsets in the workspace.
    for (size_t LinearLayout::*const at :
         {&LinearLayout::counts, &LinearLayout::row_loss, &LinearLayout::row_z_loss,
          &LinearLayout::row_accuracy, &LinearLayout::lse, &LinearLayout::label_logit,
          &LinearLayout::products, &LinearLayout::class_factor, &LinearLayout::weight_sums}) {
      EXPECT_EQ(front.*at, l.*at);
      EXPECT_LT(l.*at, std::min(l.logits, front.logits));
    }
  }
  EXPECT_EQ(chunks.layout(8192, true).rows_in_front, 0) << "all rows fit in d_weight";
  EXPECT_EQ(chunks.layout(32768, false).rows_in_front, 0) << "d_weight is not free";
  options.d_weight_type = bf16;
  EXPECT_EQ(LinearChunks(options).layout(32768, true).rows_in_front, 0)
      << "each chunk's sum would be rounded";
  options.d_weight_type = f32;
  options.max_workspace_bytes = 64'000'000;
  EXPECT_TRUE(LinearChunks(options).layout(32768, true).in_d_weight)
      << "chunks are too small to add";
}

// If a chunk stores exponentials, each tile of rows reads all labels of the chunk. A chunk
// therefore has at most 32768 rows.
TEST(LinearChunks, ManyRowsOfFewClassesBoundTheChunk) {
  LinearChunkOptions options = head();
  options.classes = 100;
  EXPECT_EQ(LinearChunks(options).layout(1 << 20).chunk, 1 << 20) << "logits are stored";
  options.tile_columns = 256, options.tile_numbers = 2;
  EXPECT_EQ(LinearChunks(options).layout(1 << 15).chunk, 1 << 15);
  EXPECT_EQ(LinearChunks(options).layout(1 << 20).chunk, 1 << 15);
  options.max_workspace_bytes = int64_t{1} << 40;
  EXPECT_EQ(LinearChunks(options).layout(1 << 20).chunk, 1 << 15);
}

TEST(LinearChunks, NothingOverlaps) {
  LinearChunkOptions options = head();
  options.classes = 1001;
  options.cols = 33;
  options.product_type = f32;  // as on a CPU
  options.with_d_bias = true;
  options.d_weight_type = options.d_bias_type = bf16;
  options.chunk_rows = 10;
  const LinearLayout l = LinearChunks(options).layout(37);
  EXPECT_EQ(l.logits_stride, 1024);
  EXPECT_GE(l.x, l.logits + 10 * 1024 * 4);
  EXPECT_GE(l.d_x, l.x + 10 * 33 * 4);
  EXPECT_GE(l.weight, l.d_x + 10 * 33 * 4);
  EXPECT_GE(l.d_weight, l.weight + 1001 * 33 * 4);
  EXPECT_GE(l.d_bias, l.d_weight + 1001 * 33 * 4);
  EXPECT_GE(l.bytes, l.d_bias + 1001 * 4);
  EXPECT_GE(l.logits, l.row_accuracy + 37 * 4 + (32 << 20));
  for (size_t offset : {l.counts, l.row_loss, l.row_z_loss, l.row_accuracy, l.products, l.logits,
                        l.x, l.d_x, l.weight, l.d_weight, l.d_bias})
    EXPECT_EQ(offset % 256, 0u);
  EXPECT_EQ(LinearChunks(options).layout(0).chunk, 0);
}

// An f32 weight is copied as bf16. If the limit leaves room for large chunks too, it is copied
// once. Otherwise it is copied in blocks of at most min(64 MiB, an eighth of the limit without the
// matmul workspace).
TEST(LinearChunks, WeightIsCopiedAtOnceOrInBlocks) {
  LinearChunkOptions options = head();
  options.weight_type = f32;
  const int64_t copy = options.classes * options.cols * 2;
  const LinearLayout unlimited = LinearChunks(options).layout(8192);
  EXPECT_EQ(unlimited.weight_rows, options.classes);
  EXPECT_FALSE(unlimited.add_up_d_x);
  EXPECT_EQ(unlimited.bytes, LinearChunks(head()).layout(8192).bytes + static_cast<size_t>(copy));
  options.max_workspace_bytes = copy + 300 * kMiB;
  EXPECT_EQ(LinearChunks(options).layout(8192).weight_rows, options.classes);
  for (const int64_t limit : {64 * kMiB, 300 * kMiB, 700 * kMiB, copy + 100 * kMiB}) {
    options.max_workspace_bytes = limit;
    for (const int64_t rows : {100, 1000, 4096, 100000}) {
      const LinearLayout l = LinearChunks(options).layout(rows);
      SCOPED_TRACE(std::to_string(limit / kMiB) + " MiB, rows " + std::to_string(rows));
      EXPECT_LE(l.bytes, static_cast<size_t>(limit));
      if (l.weight_rows == options.classes) {
        EXPECT_EQ(l.chunk, rows);
        continue;
      }
      EXPECT_EQ(l.weight_rows % 128, 0);
      const int64_t most = std::min(64 * kMiB, (limit - (32 << 20)) / 8);
      EXPECT_LE(l.weight_rows * 4096 * 2, most);
      EXPECT_GT((l.weight_rows + 128) * 4096 * 2, most - kMiB) << "the weight leaves room unused";
      EXPECT_TRUE(l.add_up_d_x);
      EXPECT_GE(l.weight, l.d_x + static_cast<size_t>(l.chunk) * 4096 * 4);
    }
  }
  options.whole_weight = true;
  options.max_workspace_bytes = 64 * kMiB;
  EXPECT_GT(LinearChunks(options).layout(100).bytes, static_cast<size_t>(copy));
}

// Unaligned rows are copied, and each copied row begins at a multiple of 128 bytes. Under a memory
// limit the weight is copied in blocks, and then d_x accumulates in f32.
TEST(LinearChunks, UnalignedRowsAreCopied) {
  LinearChunkOptions options = head();
  options.cols = 2050;
  options.ignores_rows = true;
  const LinearLayout before = LinearChunks(options).layout(4096);
  options.aligned_copies = true;
  const LinearLayout l = LinearChunks(options).layout(4096);
  EXPECT_EQ(l.copy_stride, 2112);
  EXPECT_EQ(l.chunk, before.chunk);
  EXPECT_GE(l.weight, l.x + static_cast<size_t>(l.chunk) * 2112 * 2);
  EXPECT_GE(l.bytes, l.weight + static_cast<size_t>(options.classes) * 2112 * 2);
  EXPECT_EQ(l.weight_rows, options.classes);
  EXPECT_FALSE(l.add_up_d_x);
  options.max_workspace_bytes = 300 * kMiB;
  const LinearLayout limited = LinearChunks(options).layout(4096);
  EXPECT_LE(limited.bytes, static_cast<size_t>(options.max_workspace_bytes));
  EXPECT_LT(limited.weight_rows, options.classes);
  EXPECT_GE(limited.bytes, limited.weight + static_cast<size_t>(limited.weight_rows) * 2112 * 2);
  EXPECT_TRUE(limited.add_up_d_x);
}

// The student and the target have separate logits. If x is copied, the target's x is copied too.
TEST(LinearChunks, TargetHasItsOwnLogits) {
  LinearChunkOptions options = head();
  options.target_cols = 2048;
  options.keeps_x = false;
  options.whole_weight = true;
  const LinearLayout l = LinearChunks(options).layout(65536);
  EXPECT_EQ(l.chunk, 2048);
  EXPECT_FALSE(l.by_vocabulary);
  const size_t logits = size_t{2048} * static_cast<size_t>(l.logits_stride) * 2;
  EXPECT_EQ(l.target_logits, l.logits + logits);
  EXPECT_EQ(l.bytes, l.target_logits + logits);
  options.product_type = f32;
  options.chunk_rows = 10;
  const LinearLayout copies = LinearChunks(options).layout(37);
  EXPECT_GE(copies.target_x, copies.target_logits + 10 * 128256 * 4);
  EXPECT_GE(copies.target_weight, copies.target_x + 10 * 2048 * 4);
  EXPECT_GE(copies.bytes, copies.target_weight + size_t{128256} * 2048 * 4);
  options.product_type = bf16;
  options.chunk_rows = 0;
  for (const int64_t limit : {64 * kMiB, 300 * kMiB}) {
    options.max_workspace_bytes = limit;
    for (const int64_t rows : {1, 1000, 8192})
      EXPECT_LE(LinearChunks(options).layout(rows).bytes, size_t(limit));
  }
}

// If the caller passes lse, the workspace has no row results. Without d_x and d_bias, rows that
// would need several chunks are vocabulary-blocked instead.
TEST(LinearChunks, FromLseKeepsNoRowResults) {
  LinearChunkOptions options = head();
  options.keeps_lse = false;
  options.from_lse = true;
  options.d_weight_type = bf16;
  const LinearLayout both = LinearChunks(options).layout(65536);
  EXPECT_FALSE(both.by_vocabulary);
  EXPECT_TRUE(LinearChunks(options).needs_rows(both));
  EXPECT_EQ(both.row_accuracy, both.row_loss) << "no results of rows";
  options.with_d_x = false;
  const LinearChunks alone(options);
  const LinearLayout blocks = alone.layout(65536);
  EXPECT_TRUE(blocks.by_vocabulary);
  EXPECT_FALSE(alone.needs_rows(blocks));
  EXPECT_LT(blocks.bytes, both.bytes);
  EXPECT_FALSE(alone.layout(4096).by_vocabulary) << "one chunk";
  options.with_d_bias = true;
  EXPECT_FALSE(LinearChunks(options).layout(65536).by_vocabulary);
}

}  // namespace
}  // namespace ligerdsl::lib
