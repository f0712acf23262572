#include "kernels/embedding/embedding.h"

#include "kernels/cross_entropy/cross_entropy.h"
#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::embedding_test {
namespace {

// Returns the reference's gradient of a table with `rows` rows.
Values expected_d_table(const Tensor& d_out, const std::vector<int64_t>& indices, int64_t rows,
                        int64_t cols) {
  return expected_of(
             "embedding_backward", {{"V", rows}, {"H", cols}},
             {{"d_out", d_out.values()}, {"indices", Values(indices.begin(), indices.end())}})
      .at("d_weight");
}

struct Trial {
  kernels::EmbeddingOptions o;
  int64_t n;
  bool in_order = false;
  MetaValues config = {};  // schedule of the backward pass, in addition to in_order
  int64_t index_stride = 1;
  std::vector<int64_t> indices;
  Tensor table, out, d_out, d_table, d_positions, error;

  Trial(DType type, int64_t n, int64_t vocabulary, int64_t cols, DType index_type = i64,
        int64_t gap = 0)
      : n(n) {
    o = {.cols = cols, .vocabulary = vocabulary, .type = type, .index_type = index_type};
    table = random_rows(type, vocabulary, cols, 1, gap);
    d_out = random_rows(type, n, cols, 2, gap);
    out = Tensor::rows(type, n, cols, gap);
    d_table = Tensor::rows(f32, vocabulary, cols, gap);
    error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    Random random(3);
    for (int64_t i = 0; i < n; ++i)
      indices.push_back(random.below(std::max<int64_t>(1, i % 3 ? vocabulary : vocabulary / 4)));
  }
  int64_t first_row = 0, total_rows = 0;  // for a shard
  void cut_to_shard(int64_t first, int64_t total) {
    o.shard = true;
    first_row = first;
    total_rows = total;
  }
  Tensor index_tensor() const { return Tensor(o.index_type, {n}, {index_stride}).fill(indices); }
  void forward() {
    backend().run(kernels::embedding_forward(machine(), o), n,
                  Arguments()
                      .tensor("out", out)
                      .tensor("table", table)
                      .tensor("indices", index_tensor())
                      .tensor("error", error)
                      .integer("first_row", first_row)
                      .integer("total_rows", total_rows));
  }
  void backward() {
    const auto& kernel = kernels::embedding_backward_kernel;
    MetaValues changed = config;
    changed["in_order"] = in_order ? "true" : "false";
    backend().run(kernel.build(machine(), o, kernel.chosen(machine(), o, changed)), n,
                  Arguments()
                      .tensor("d_table", d_table)
                      .tensor("d_out", d_out)
                      .tensor("indices", index_tensor())
                      .tensor("d_position_table", d_positions)
                      .integer("first_row", first_row));
  }
  void want_positions(int64_t positions, DType type) {
    o.positions = positions;
    o.d_position_type = type;
    d_positions = Tensor::rows(type, positions, o.cols, 3);
  }
  void check_backward(DType gate_type) {
    const Values expected = expected_d_table(d_out, indices, o.vocabulary, o.cols);
    EXPECT_TRUE(close_normwise(d_table.values(), expected, gate_r(gate_type, n)));
    EXPECT_TRUE(d_table.untouched_outside());
  }
};

TEST(Embedding, ForwardCopiesExactly) {
  int64_t number = 0;
  for (int64_t cols : {1, 7, 256, 1000}) {
    for (DType type : kFloats) {
      Trial run(type, 37, 91, cols, number % 2 ? i32 : i64, gap_of(number));
      ++number;
      run.forward();
      for (int64_t i = 0; i < 37; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          ASSERT_EQ(run.out.get(i * cols + j), run.table.get(run.indices[i] * cols + j))
              << i << "," << j;
        }
      }
      EXPECT_TRUE(run.out.untouched_outside());
      EXPECT_EQ(run.error.get_integer(0), 0);
    }
  }
}

TEST(Embedding, IndicesOfAnyStride) {
  for (DType index_type : {i64, i32}) {
    for (bool in_order : {false, true}) {
      Trial near(bf16, 300, 91, 40, index_type), strided(bf16, 300, 91, 40, index_type);
      strided.index_stride = 5;
      for (Trial* run : {&near, &strided}) {
        run->in_order = in_order;
        run->forward();
        run->backward();
      }
      strided.check_backward(f32);
      EXPECT_TRUE(strided.out.same_bits(near.out));
      EXPECT_TRUE(strided.d_table.same_bits(near.d_table));
    }
  }
}

TEST(Embedding, ForwardOutOfRange) {
  for (int64_t bad : {int64_t{10}, int64_t{-1}, int64_t{1} << 40}) {
    Trial run(bf16, 6, 10, 33);
    run.indices[1] = run.indices[4] = bad;
    run.forward();
    EXPECT_EQ(kernels::kErrorBase - run.error.get_integer(0), 1);
    EXPECT_TRUE(std::isnan(run.out.get(33)) && std::isnan(run.out.get(4 * 33 + 32)));
    EXPECT_EQ(run.out.get(0), run.table.get(run.indices[0] * 33));
    EXPECT_TRUE(run.out.untouched_outside());
  }
}

// Indices of other shards give zeros and no gradient. Each shard reports an index that no shard
// owns.
TEST(Embedding, ShardsOfATable) {
  const int64_t n = 300, total = 91, cols = 40;
  for (DType index_type : {i64, i32}) {
    for (bool in_order : {false, true}) {
      Values sum(n * cols), gradient;
      Trial whole(bf16, n, total, cols, index_type);
      whole.indices[7] = total;
      whole.indices[9] = -1;
      whole.forward();
      int64_t first = 0;
      for (int64_t rows : {40, 1, 50}) {
        Trial shard(bf16, n, rows, cols, index_type);
        shard.cut_to_shard(first, total);
        shard.indices = whole.indices;
        shard.d_out = whole.d_out;
        shard.in_order = in_order;
        for (int64_t i = 0; i < rows * cols; ++i)
          shard.table.set(i, whole.table.get(first * cols + i));
        shard.forward();
        shard.backward();
        EXPECT_EQ(kernels::kErrorBase - shard.error.get_integer(0), 7);
        for (int64_t i = 0; i < n * cols; ++i) sum[i] += shard.out.get(i);
        const Values part = shard.d_table.values();
        gradient.insert(gradient.end(), part.begin(), part.end());
        EXPECT_TRUE(shard.out.untouched_outside() && shard.d_table.untouched_outside());
        first += rows;
      }
      for (int64_t i = 0; i < n * cols; ++i) {
        const bool nobodys = i / cols == 7 || i / cols == 9;
        ASSERT_TRUE(nobodys ? std::isnan(sum[i]) : sum[i] == whole.out.get(i)) << i;
      }
      const Values expected = expected_d_table(whole.d_out, whole.indices, total, cols);
      EXPECT_TRUE(close_normwise(gradient, expected, gate_r(f32, n)));
    }
  }
}

// Output row i is its table row plus row i mod P of the position table. The sum is rounded once.
TEST(Embedding, ForwardAddsTheRowOfThePosition) {
  for (auto [cols, positions] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {1000, 37}, {256, 64}}) {
    for (DType type : kFloats) {
      Trial run(type, 37, 91, cols);
      run.o.positions = positions;
      const Tensor position_table = random_rows(type, positions, cols, 4, cols % 2);
      run.indices[3] = 91;
      backend().run(kernels::embedding_forward(machine(), run.o), run.n,
                    Arguments()
                        .tensor("out", run.out)
                        .tensor("table", run.table)
                        .tensor("indices", run.index_tensor())
                        .tensor("error", run.error)
                        .tensor("position_table", position_table));
      for (int64_t i = 0; i < 37; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          if (i == 3) {
            ASSERT_TRUE(std::isnan(run.out.get(i * cols + j)));
            continue;
          }
          const double exact = run.table.get(run.indices[i] * cols + j) +
                               position_table.get(i % positions * cols + j);
          ASSERT_EQ(run.out.get(i * cols + j), rounded(static_cast<float>(exact), type))
              << i << "," << j;
        }
      }
      EXPECT_TRUE(run.out.untouched_outside());
    }
  }
}

// Steps that move rows use vectors for any number of indices.
TEST(Embedding, AnyNumberOfIndices) {
  for (DType index_type : {i32, i64}) {
    for (auto [vocabulary, cols] : {std::pair<int64_t, int64_t>{13, 4096}, {2100, 512}}) {
      SCOPED_TRACE(std::string(name(index_type)) + " v=" + std::to_string(vocabulary));
      Trial run(bf16, 61, vocabulary, cols, index_type);
      expect_aligned([&] { run.forward(); });
      run.backward();
      for (const std::string& program : backend().took_generic()) {
        EXPECT_TRUE(program == "embedding_count_indices_bf16" ||
                    program == "embedding_place_positions_bf16")
            << program;
      }
      run.check_backward(f32);
    }
  }
}

// Returns totals in the order of the indices, as embedding_backward.cpp promises. Full chunks of
// 128 are added separately, except in embedding_in_order.cpp.
Values sums_in_order(const Trial& run) {
  const size_t chunk = run.in_order ? run.indices.size() + 1 : 128;
  std::vector<std::vector<int64_t>> positions(run.o.vocabulary);
  for (int64_t i = 0; i < run.n; ++i) {
    const int64_t v = run.indices[i];
    if (v >= 0 && v < run.o.vocabulary) positions[v].push_back(i);
  }
  Values sums;
  for (const auto& named : positions) {
    const size_t full = named.size() / chunk * chunk;
    for (int64_t c = 0; c < run.o.cols; ++c) {
      const auto add = [&](float sum, size_t first, size_t end) {
        for (size_t i = first; i < end; ++i)
          sum += static_cast<float>(run.d_out.get(named[i] * run.o.cols + c));
        return sum;
      };
      float total = 0;
      for (size_t first = 0; first < full; first += chunk) total += add(0, first, first + chunk);
      sums.push_back(add(total, full, named.size()));
    }
  }
  return sums;
}

void expect_sums_in_order(Trial& run) {
  for (const bool in_order : {false, true}) {
    SCOPED_TRACE(in_order ? "index by index" : "row by row");
    run.in_order = in_order;
    run.backward();
    run.check_backward(f32);
    if (backend().name() == "interpreter") continue;  // the interpreter adds in float64
    const Values expected = sums_in_order(run);
    for (int64_t i = 0; i < run.d_table.size(); ++i)
      ASSERT_EQ(run.d_table.get(i), expected[i]) << "element " << i;
  }
}

TEST(Embedding, BackwardAddsInOrder) {
  for (DType type : kFloats) {
    for (int64_t vocabulary : {1, 13, 256, 3000}) {
      SCOPED_TRACE(std::string(name(type)) + " v=" + std::to_string(vocabulary));
      Trial run(type, 700, vocabulary, 20);
      expect_sums_in_order(run);
    }
  }
  Trial wide(bf16, 20, 7, 2500);  // several blocks of columns
  expect_sums_in_order(wide);
  if (20000 * 12 <= backend().budget()) {
    Trial large(bf16, 300, 20000, 12);
    expect_sums_in_order(large);
  }
}

// The kernel divides the indices into parts. Some rows of the table occur hundreds of times, others
// never.
TEST(Embedding, BackwardOfFrequentRows) {
  for (DType index_type : {i32, i64}) {
    Trial run(bf16, 4701, 1031, 16, index_type, index_type == i32 ? 3 : 0);
    const std::vector<std::pair<int64_t, int64_t>> counts{
        {1030, 128}, {0, 127}, {517, 129}, {3, 256}, {700, 1500}};
    Random random(4);
    for (auto [row, count] : counts) {
      for (int64_t i = 0; i < count; ++i) run.indices[random.below(run.n)] = row;
    }
    expect_sums_in_order(run);
  }
}

TEST(Embedding, BackwardOfExactChunks) {
  for (int64_t n : {127, 128, 129, 255, 256, 384, 400}) {
    SCOPED_TRACE(n);
    Trial same(f32, n, 300, 9);
    same.indices.assign(n, 299);
    expect_sums_in_order(same);
    // Chunks do not begin at multiples of their length.
    for (int64_t i = 0; i < 5; ++i) same.indices[i * 17] = i;
    expect_sums_in_order(same);
  }
}

// Each program computes several rows of the table; the last program has fewer.
TEST(Embedding, BackwardOfSeveralRowsPerProgram) {
  for (const bool accumulate : {false, true}) {
    Trial one(bf16, 300, 91, 40);
    one.o.accumulate = accumulate;
    one.d_table.fill(Values(one.d_table.size(), accumulate ? 1 : 0));
    const Tensor before = one.d_table.clone();
    one.config["rows"] = "1";
    one.backward();
    if (!accumulate) one.check_backward(f32);
    for (const char* rows : {"4", "16"}) {
      Trial several = one;
      several.d_table = before.clone();
      several.config["rows"] = rows;
      several.backward();
      EXPECT_TRUE(several.d_table.same_bits(one.d_table)) << rows << " rows";
    }
  }
}

// Schedules for large tables with short rows.
TEST(Embedding, RowsPerProgram) {
  const kernels::Machine gpu = kernels::gpu("sm_90a", 132, 86);
  const auto rows_of = [&](kernels::EmbeddingOptions o) {
    return kernels::embedding_backward_kernel.heuristic(gpu, o).rows;
  };
  EXPECT_EQ(rows_of({.cols = 768, .vocabulary = 50257, .type = bf16, .d_table_type = bf16}), 4);
  EXPECT_EQ(rows_of({.cols = 768, .vocabulary = 1024, .type = bf16, .d_table_type = bf16}), 1);
  EXPECT_EQ(rows_of({.cols = 2048, .vocabulary = 128256, .type = bf16, .d_table_type = f32}), 1);
  EXPECT_EQ(rows_of({.cols = 2048, .vocabulary = 128256, .type = f32, .d_table_type = f32}), 4);
  const auto forward_rows = [&](int64_t cols) {
    return kernels::embedding_forward_kernel.heuristic(gpu, {.cols = cols, .type = bf16}).rows;
  };
  EXPECT_EQ(forward_rows(64), 8);
  EXPECT_EQ(forward_rows(768), 2);
  EXPECT_EQ(forward_rows(2048), 1);
}

TEST(Embedding, BackwardTypesAndAccumulate) {
  Trial half(bf16, 50, 11, 40);
  half.o.d_table_type = bf16;
  half.d_table = Tensor::rows(bf16, 11, 40);
  half.backward();
  half.check_backward(bf16);

  half.in_order = true;
  EXPECT_THROW(half.backward(), Error);

  for (const bool in_order : {false, true}) {
    Trial sum(f32, 50, 11, 1100, i32, 3);
    sum.in_order = in_order;
    sum.indices[7] = -1;  // not a row: adds nothing
    sum.indices[8] = 11;
    sum.backward();
    sum.check_backward(f32);
    const Tensor once = sum.d_table.clone();
    sum.o.accumulate = true;
    sum.backward();
    for (int64_t i = 0; i < once.size(); ++i)
      ASSERT_NEAR(sum.d_table.get(i), 2 * once.get(i), 1e-5);
  }
}

// Row i adds to position i mod P, for any index. The last sequence may be incomplete, and some
// positions have no row.
TEST(Embedding, PositionGradients) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> shapes{
      {37, 40, 1}, {37, 1, 5}, {37, 7, 5}, {300, 40, 64}, {24, 1100, 8}, {5, 20, 9}, {0, 8, 4}};
  const std::vector<bool> flags{false, true};
  for (const auto& [shape, type, wide_sums, in_order] :
       combinations(shapes, kFloats, flags, flags)) {
    const auto& [n, cols, positions] = shape;
    const DType sums = wide_sums ? f32 : type;
    SCOPED_TRACE(std::string(name(type)) + " " + name(sums) + " n=" + std::to_string(n) +
                 " cols=" + std::to_string(cols) + " positions=" + std::to_string(positions) +
                 (in_order ? " in order" : ""));
    Trial run(type, n, 91, cols);
    if (n > 3) run.indices[3] = 91;
    run.want_positions(positions, sums);
    run.in_order = in_order;
    run.backward();
    run.check_backward(f32);
    const auto expected =
        expected_of("embedding_backward", {{"N", n}, {"V", 91}, {"H", cols}, {"P", positions}},
                    {{"d_out", run.d_out.values()},
                     {"indices", Values(run.indices.begin(), run.indices.end())}},
                    {"d_position_weight"});
    EXPECT_TRUE(close_normwise(run.d_positions.values(), expected.at("d_position_weight"),
                               gate_r(sums, n)));
    EXPECT_TRUE(run.d_positions.untouched_outside());
    const Tensor once = run.d_positions.clone();
    run.backward();
    EXPECT_TRUE(run.d_positions.same_bits(once));
    if (sums != f32) continue;
    run.o.accumulate_positions = true;
    run.backward();
    for (int64_t i = 0; i < once.size(); ++i)
      ASSERT_NEAR(run.d_positions.get(i), 2 * once.get(i), 1e-5);
  }
}

TEST(Embedding, BackwardRefusesTooManyIndices) {
  const auto& kernel = kernels::embedding_backward_kernel;
  const auto config = kernel.chosen(machine(), {.vocabulary = 5}, {{"in_order", "false"}});
  const Launch first = kernel.build(machine(), {.vocabulary = 5}, config).steps.at(0).launch;
  EXPECT_LE(first.grid_at(INT32_MAX)[0], INT32_MAX);
  EXPECT_GT(first.grid_at(int64_t{INT32_MAX} + 1)[0], INT32_MAX);  // no device accepts this grid
}

TEST(Embedding, NoIndices) {
  Trial run(f32, 0, 9, 8);
  run.forward();
  for (const bool in_order : {false, true}) {
    run.in_order = in_order;
    run.d_table.fill(Values(run.d_table.size(), 1));
    run.backward();
    for (double value : run.d_table.values()) EXPECT_EQ(value, 0.0);
  }
}

// NaN and infinity affect only their row and their position.
TEST(Embedding, NotFinite) {
  for (DType type : kFloats) {
    Trial run(type, 12, 10, 33);
    run.want_positions(4, f32);
    for (int64_t i = 0; i < 12; ++i) run.indices[i] = i % 10;  // 0 and 10, 1 and 11: the same row
    run.d_out.set(33 + 5, NAN);
    run.backward();
    for (int64_t i = 0; i < 330; ++i)
      ASSERT_EQ(std::isnan(run.d_table.get(i)), i == 38) << name(type) << " " << i;
    for (int64_t i = 0; i < 132; ++i)
      ASSERT_EQ(std::isnan(run.d_positions.get(i)), i == 38) << name(type) << " " << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test::embedding_test
