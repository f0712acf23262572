// Compares matmuls of groups of rows with float64.
#include "kernels/matmul/grouped_matmul.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/matmul/matmul_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::grouped_matmul_test {
namespace {

using kernels::GroupedMatmulOptions;
using kernels::GroupedTransposes;

const std::vector<GroupedTransposes> kTransposes{GroupedTransposes::nt, GroupedTransposes::nn,
                                                 GroupedTransposes::tn};

struct Trial {
  GroupedMatmulOptions options;   // sizes are set from the other fields
  int64_t k, n;                   // nt, nn: K and N; tn: the result of a group is [k, n]
  std::vector<int64_t> sizes;     // sizes of the groups
  int64_t before = 0, after = 0;  // rows that belong to no group
  MetaValues config = {};
  int sms = 0;  // SMs of a smaller GPU, or 0 for all SMs of the machine
  int64_t offset_stride = 1;

  int64_t rows() const { return before + std::accumulate(sizes.begin(), sizes.end(), after); }
  bool of_weights() const { return options.transposes == GroupedTransposes::tn; }
  std::vector<int64_t> offsets() const {
    std::vector<int64_t> all{before};
    for (const int64_t size : sizes) all.push_back(all.back() + size);
    return all;
  }

  struct Tensors {
    Tensor a, b, c, offsets, error;
  };
  Tensors tensors(uint64_t seed, int64_t gap) const {
    const auto experts = static_cast<int64_t>(sizes.size());
    const auto matrices = [&](DType type, int64_t height, int64_t width) {
      Tensor one(type, {experts, height, width}, {(height + 1) * (width + gap), width + gap, 1});
      return one.fill(Random(seed + 7).normals(experts * height * width));
    };
    Tensors all;
    all.a = random_rows(options.type, rows(), k, seed, gap);
    if (of_weights())
      all.b = random_rows(options.type, rows(), n, seed + 1, gap),
      all.c = matrices(options.c_type, k, n);
    else
      all.b = options.transposes == GroupedTransposes::nt ? matrices(options.type, n, k)
                                                          : matrices(options.type, k, n),
      all.c = random_rows(options.c_type, rows(), n, seed + 2, gap);
    all.offsets = Tensor(options.index_type, {experts + 1}, {offset_stride}).fill(offsets());
    all.error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    return all;
  }
  void run(const Tensors& t) {
    options.experts = static_cast<int64_t>(sizes.size()), options.cols = n, options.width = k;
    kernels::Machine on = machine();
    if (sms) on.sms = sms;
    const auto& kernel = kernels::grouped_matmul_kernel;
    backend().run(kernel.build(on, options, kernel.chosen(on, options, config)), rows(),
                  Arguments()
                      .tensor("a", t.a)
                      .tensor("b", t.b)
                      .tensor("c", t.c)
                      .tensor("offsets", t.offsets)
                      .tensor("error", t.error));
  }
  Values expected(const Tensors& t) const {
    const Values a = t.a.values(), b = t.b.values(), was = t.c.values();
    const auto cut = [](const Values& v, int64_t first, int64_t count, int64_t width) {
      return Values(v.begin() + first * width, v.begin() + (first + count) * width);
    };
    Values all;
    if (!of_weights()) all.assign(before * n, 0.0);
    int64_t row = before, expert = 0;
    for (const int64_t size : sizes) {
      reference::MatmulCase which{
          .m = size, .n = n, .k = k, .transposed_b = options.transposes == GroupedTransposes::nt};
      Values factor, one;
      if (of_weights()) {
        which = {.m = k, .n = n, .k = size, .transposed_a = true, .beta = options.adds ? 1.0 : 0.0};
        factor = cut(b, row, size, n), one = cut(was, expert, 1, k * n);
      } else {
        factor = cut(b, expert, 1, k * n);
      }
      one = reference::matmul_reference(which, cut(a, row, size, k), factor, {}, one);
      all.insert(all.end(), one.begin(), one.end());
      row += size, ++expert;
    }
    if (!of_weights()) all.resize(rows() * n, 0.0);
    return all;
  }
  void check(uint64_t seed, int64_t gap = 0) {
    SCOPED_TRACE(kernels::meta_text(options) + " " + std::to_string(rows()) + " rows of " +
                 std::to_string(sizes.size()) + " groups, " + std::to_string(k) + " by " +
                 std::to_string(n) + " seed " + std::to_string(seed));
    const Tensors t = tensors(seed, gap);
    const Values wanted = expected(t);
    run(t);
    const int64_t terms = of_weights() ? rows() : k;
    EXPECT_TRUE(close_normwise(t.c.values(), wanted,
                               gate_r(options.c_type, terms) * backend().summation_slack()));
    EXPECT_TRUE(t.c.untouched_outside());
    EXPECT_EQ(t.error.get_integer(0), 0);
  }
};

TEST(GroupedMatmul, EveryOrderAndType) {
  uint64_t seed = 11;
  for (const GroupedTransposes transposes : kTransposes)
    for (const DType type : kFloats)
      for (const DType index_type : {i64, i32}) {
        const GroupedMatmulOptions own{
            .transposes = transposes, .type = type, .c_type = type, .index_type = index_type},
            wide{.transposes = transposes, .type = type, .c_type = f32, .index_type = index_type};
        Trial{.options = own, .k = 40, .n = 72, .sizes = {33, 1, 17}}.check(seed += 9);
        Trial{.options = wide, .k = 24, .n = 40, .sizes = {5, 130, 64, 7}}.check(seed += 9, 8);
        Trial{.options = own, .k = 13, .n = 9, .sizes = {3, 8}, .offset_stride = 3}.check(seed += 9,
                                                                                          3);
      }
}

TEST(GroupedMatmul, EmptyGroups) {
  uint64_t seed = 301;
  for (const GroupedTransposes transposes : kTransposes)
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {0, 40, 0, 0, 9, 0}, {0, 0, 0}, {70}, {0}, {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}})
      for (const bool adds : {false, true}) {
        if (adds && transposes != GroupedTransposes::tn) continue;
        const GroupedMatmulOptions options{
            .transposes = transposes, .type = bf16, .c_type = adds ? f32 : bf16, .adds = adds};
        Trial{.options = options, .k = 24, .n = 40, .sizes = sizes}.check(seed += 9);
      }
}

// Rows before the first group and after the last group hold NaN. Their results are 0.
TEST(GroupedMatmul, RowsOfNoGroupAreZero) {
  uint64_t seed = 501;
  for (const GroupedTransposes transposes : kTransposes)
    for (const int64_t before : {0, 3, 150}) {
      Trial trial{.options = {.transposes = transposes, .type = bf16, .c_type = f32},
                  .k = 40,
                  .n = 24,
                  .sizes = {20, 0, 66},
                  .before = before,
                  .after = 153 - before};
      Trial::Tensors t = trial.tensors(seed += 9, 0);
      const Values wanted = trial.expected(t);
      for (int64_t row = 0; row < trial.rows(); ++row)
        if (row < before || row >= before + 86)
          t.a.set(row * 40, std::numeric_limits<double>::quiet_NaN());
      trial.run(t);
      EXPECT_TRUE(
          close_normwise(t.c.values(), wanted, gate_r(f32, 100) * backend().summation_slack()));
      EXPECT_EQ(t.error.get_integer(0), 0);
    }
}

const MetaValues kTensorCopies{{"tile_m", "64"},        {"tile_n", "64"},
                               {"num_warps", "4"},      {"stages", "3"},
                               {"persistent", "false"}, {"tensor_copies", "true"}};

// No tile has rows of two groups, so adjacent groups may hold any values.
void groups_are_isolated(const MetaValues& config) {
  for (const GroupedTransposes transposes : kTransposes) {
    Trial trial{.options = {.transposes = transposes, .type = bf16, .c_type = f32},
                .k = 24,
                .n = 40,
                .sizes = {21, 30, 19},
                .config = config};
    Trial::Tensors t = trial.tensors(41, 0);
    const Values wanted = trial.expected(t);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (int64_t row = 0; row < 70; ++row)
      if (row < 21 || row >= 51) {
        t.a.set(row * 24, nan);
        if (trial.of_weights()) t.b.set(row * 40, INFINITY);
      }
    trial.run(t);
    const Values found = t.c.values();
    const int64_t first = trial.of_weights() ? 24 * 40 : 21 * 40,
                  count = trial.of_weights() ? 24 * 40 : 30 * 40;
    const Values mine(found.begin() + first, found.begin() + first + count),
        theirs(wanted.begin() + first, wanted.begin() + first + count);
    EXPECT_TRUE(close_normwise(mine, theirs, gate_r(f32, 30) * backend().summation_slack()));
  }
}

TEST(GroupedMatmul, GroupsAreIsolated) {
  groups_are_isolated({});
  if (machine().is_gpu()) groups_are_isolated(kTensorCopies);
}

// Cases: group sizes that are not multiples of a tile or a k-step, empty groups, more stages than
// k-steps, persistent programs, and rows that TMA descriptors cannot describe.
TEST(GroupedMatmul, TmaCopies) {
  if (!machine().is_gpu()) GTEST_SKIP() << "a CPU has no TMA copies";
  uint64_t seed = 1301;
  MetaValues wide = kTensorCopies;
  wide["tile_m"] = wide["tile_n"] = "128", wide["num_warps"] = "8", wide["stages"] = "4",
  wide["persistent"] = "true";
  MetaValues stored = wide;
  stored["tensor_stores"] = "true";
  const std::vector<MetaValues> configs{kTensorCopies, wide, stored};
  const std::vector<int64_t> gaps{0, 8, 3};
  for (const auto& [transposes, config, gap] : combinations(kTransposes, configs, gaps))
    Trial{.options = {.transposes = transposes, .type = bf16, .c_type = gap ? bf16 : f32},
          .k = 136,
          .n = 72,
          .sizes = {72, 0, 5, 131, 64},
          .before = 3,
          .after = 2,
          .config = config,
          .sms = 2}
        .check(seed += 9, gap);
  Trial added{
      .options = {.transposes = GroupedTransposes::tn, .type = f16, .c_type = f32, .adds = true},
      .k = 72,
      .n = 136,
      .sizes = {65, 0, 3},
      .config = kTensorCopies};
  added.check(seed);
}

// Cases: tiles for warp groups and for single warps, more stages than k-steps, persistent programs
// on few SMs.
TEST(GroupedMatmul, Schedules) {
  uint64_t seed = 701;
  const std::vector<MetaValues> configs =
      machine().is_gpu()
          ? std::vector<MetaValues>{{{"tile_m", "64"},
                                     {"tile_n", "64"},
                                     {"num_warps", "4"},
                                     {"stages", "3"}},
                                    {{"tile_m", "128"},
                                     {"tile_n", "32"},
                                     {"tile_k", "32"},
                                     {"stages", "5"}},
                                    {{"tile_m", "128"},
                                     {"tile_n", "128"},
                                     {"stages", "3"},
                                     {"min_ctas_per_sm", "2"}},
                                    {{"tile_m", "32"},
                                     {"tile_n", "32"},
                                     {"num_warps", "4"},
                                     {"persistent", "true"}},
                                    {{"tile_m", "64"},
                                     {"tile_n", "128"},
                                     {"num_warps", "4"},
                                     {"stages", "4"},
                                     {"persistent", "true"}}}
          : std::vector<MetaValues>{{{"tile_m", "16"}, {"tile_n", "32"}, {"tile_k", "16"}},
                                    {{"tile_m", "64"}, {"tile_n", "128"}, {"tile_k", "64"}}};
  for (const GroupedTransposes transposes : kTransposes)
    for (const MetaValues& config : configs)
      Trial{.options = {.transposes = transposes, .type = bf16, .c_type = bf16},
            .k = 136,
            .n = 72,
            .sizes = {72, 0, 5, 131},
            .config = config,
            .sms = 2}
          .check(seed += 9);
}

// Returns the tiles that programs [0, programs) write. The result has 20 by 12 tiles of 16 x 16 in
// three groups. Unwritten tiles keep their NaN.
std::set<std::pair<int64_t, int64_t>> tiles_of_first_programs(GroupedTransposes transposes,
                                                              int64_t programs) {
  constexpr int64_t kTile = 16, kColumns = 12;
  Trial trial{.options = {.transposes = transposes, .type = bf16, .c_type = f32},
              .k = 32,
              .n = kColumns * kTile,
              .sizes = {11 * kTile, 0, 9 * kTile}};
  Trial::Tensors t = trial.tensors(31, 0);
  t.c.fill(Values(trial.rows() * trial.n, std::numeric_limits<double>::quiet_NaN()));
  trial.options.experts = 3, trial.options.cols = trial.n, trial.options.width = trial.k;
  const auto& kernel = kernels::grouped_matmul_kernel;
  MetaValues config{{"tile_m", "16"}, {"tile_n", "16"}, {"tile_k", "16"}};
  if (machine().is_gpu())
    config.insert(
        {{"num_warps", "2"}, {"stages", "1"}, {"persistent", "false"}, {"tensor_copies", "false"}});
  kernels::Operation operation =
      kernel.build(machine(), trial.options, kernel.chosen(machine(), trial.options, config));
  operation.steps[0].launch.grid[0] = Size(programs);
  backend().run(operation, trial.rows(),
                Arguments()
                    .tensor("a", t.a)
                    .tensor("b", t.b)
                    .tensor("c", t.c)
                    .tensor("offsets", t.offsets)
                    .tensor("error", t.error));
  std::set<std::pair<int64_t, int64_t>> written;
  const Values c = t.c.values();
  for (size_t i = 0; i < c.size(); ++i)
    if (!std::isnan(c[i]))
      written.insert(
          {static_cast<int64_t>(i) / trial.n / kTile, static_cast<int64_t>(i) % trial.n / kTile});
  return written;
}

// The first 48 programs compute 16 rows of 3 tiles. In row-major order they would compute 4 rows of
// 12 tiles, and read four times as much of b.
TEST(GroupedMatmul, FirstProgramsShareRowsAndColumns) {
  for (const GroupedTransposes transposes : {GroupedTransposes::nt, GroupedTransposes::nn}) {
    const auto written = tiles_of_first_programs(transposes, 48);
    std::set<int64_t> rows, columns;
    for (const auto& [row, column] : written) rows.insert(row), columns.insert(column);
    EXPECT_EQ(columns, (std::set<int64_t>{0, 1, 2}));
    EXPECT_GE(rows.size(), 13u);  // 16 row tiles, but a section may leave one unused
    EXPECT_EQ(written.size(), rows.size() * columns.size());
  }
}

// More groups than a program reads at once, each with few rows.
TEST(GroupedMatmul, ManyGroups) {
  uint64_t seed = 901;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < 1100; ++i) sizes.push_back(i % 9 == 1 ? i * i % 7 % 4 : 0);
  std::vector<MetaValues> configs(1);
  if (machine().is_gpu())
    configs.push_back(
        {{"tile_m", "32"}, {"tile_n", "32"}, {"num_warps", "4"}, {"persistent", "true"}});
  for (const GroupedTransposes transposes : kTransposes)
    for (const MetaValues& config : configs)
      Trial{.options = {.transposes = transposes, .type = f16, .c_type = f32, .index_type = i32},
            .k = 16,
            .n = 24,
            .sizes = sizes,
            .config = config}
          .check(seed += 9);
}

TEST(GroupedMatmul, AccumulatesIntoC) {
  uint64_t seed = 1101;
  for (const DType type : kFloats)
    Trial{
        .options = {.transposes = GroupedTransposes::tn, .type = type, .c_type = f32, .adds = true},
        .k = 40,
        .n = 24,
        .sizes = {19, 0, 70, 2}}
        .check(seed += 9, type == f32 ? 0 : 8);
}

// Invalid offsets cause no access outside the operands and c. The interpreter, the emulator and
// sanitizers check this. The first wrong group is reported.
TEST(GroupedMatmul, InvalidOffsets) {
  struct Wrong {
    std::vector<int64_t> offsets;
    int64_t group;
  };
  const int64_t far = int64_t{1} << 40;
  const std::vector<Wrong> all = {{{0, 20, 10, 40}, 1},
                                  {{-1, 10, 20, 40}, 0},
                                  {{0, 10, 20, 41}, 2},
                                  {{0, 50, 60, 70}, 0},
                                  {{40, 30, 20, 10}, 0},
                                  {{0, far, -far, 40}, 0},
                                  {{INT64_MIN, INT64_MAX, 0, 40}, 0},
                                  {{0, 40, 0, 40}, 1}};
  MetaValues tile_after_tile = kTensorCopies;
  tile_after_tile["persistent"] = "true";
  const std::vector<MetaValues> configs =
      machine().is_gpu() ? std::vector<MetaValues>{{}, kTensorCopies, tile_after_tile}
                         : std::vector<MetaValues>{{}};
  for (const GroupedTransposes transposes : kTransposes)
    for (size_t number = 0; number < all.size() * configs.size(); ++number) {
      const Wrong& wrong = all[number % all.size()];
      Trial trial{.options = {.transposes = transposes, .type = bf16, .c_type = f32},
                  .k = 24,
                  .n = 40,
                  .sizes = {10, 10, 20},
                  .config = configs[number / all.size()],
                  .sms = 2};  // fewer programs than groups
      Trial::Tensors t = trial.tensors(77, 8);
      t.offsets.fill(wrong.offsets);
      trial.run(t);
      EXPECT_EQ(kernels::kErrorBase - t.error.get_integer(0), wrong.group) << wrong.offsets[1];
      EXPECT_TRUE(t.c.untouched_outside());
    }
}

// Offsets of 0, 96, 0, 96, ... give all rows to three groups and to the section after the last
// group.
TEST(GroupedMatmul, TileListOverflow) {
  if (!machine().is_gpu()) GTEST_SKIP() << "programs are persistent on a GPU only";
  Trial trial{
      .options = {.type = bf16, .c_type = f32},
      .k = 24,
      .n = 40,
      .sizes = {96, 0, 0, 0, 0, 0},
      .config = {{"tile_m", "32"}, {"tile_n", "32"}, {"num_warps", "4"}, {"persistent", "true"}}};
  Trial::Tensors t = trial.tensors(77, 8);
  t.offsets.fill(std::vector<int64_t>{0, 96, 0, 96, 0, 96, 0});
  trial.run(t);
  EXPECT_EQ(kernels::kErrorBase - t.error.get_integer(0), 1);
  EXPECT_TRUE(t.c.untouched_outside());
}

}  // namespace
}  // namespace ligerdsl::test::grouped_matmul_test
