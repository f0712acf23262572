// Tests two successive pipelined loops of matmuls whose rings share memory: c = a1 b1^T + a2 b2^T.
// The second loop continues with the accumulator of the first. With these tiles a GPU's shared
// memory holds only one ring.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::dot_segments_test {
namespace {

constexpr int64_t kRows = 100, kColumns = 256, kBlockM = 64, kBlockN = 256, kBlockK = 64;

struct Segments {
  DType type;
  int64_t k1, k2;          // depth of each segment
  bool tensor = true;      // TMA copies
  bool one_after = false;  // one program computes all tiles, one after the other
  bool between = false;    // store the first accumulator, through shared memory, between the loops
};

struct Result {
  Values c, first;
};

Result multiply(const Segments& s, const Tensor (&a)[2], const Tensor (&b)[2]) {
  KernelBuilder k("segments");
  const int64_t depth[] = {s.k1, s.k2};
  const View c = k.view("c", f32, {dyn, kColumns}),
             first = k.view("first", s.type, {dyn, kColumns});
  std::vector<Partition> ta, tb;
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i + 1);
    ta.push_back(k.view("a" + number, s.type, {dyn, depth[i]}).partition({kBlockM, kBlockK}));
    tb.push_back(k.view("b" + number, s.type, {dyn, depth[i]}).partition({kBlockN, kBlockK}));
  }
  LoopOptions loop = pipelined(5);
  loop.tensor_copies = s.tensor;
  const auto add = [&](int i, const Scalar& row, const Tile& sums) {
    auto [more] = k.for_range(
        0, ceil_div(depth[i], kBlockK), 1, loop, carry(sums), [&](Scalar at, Tile sums) {
          return carry(dot(ta[i].load({row, at}), tb[i].load({0, at}).permute({1, 0}), sums));
        });
    return more;
  };
  const auto make = [&](const Scalar& row) {
    const Tile sums = add(0, row, k.zeros({kBlockM, kBlockN}, f32));
    if (s.between) first.partition({kBlockM, kBlockN}).store({row, 0}, sums.to(s.type));
    c.partition({kBlockM, kBlockN}).store({row, 0}, add(1, row, sums));
  };
  constexpr int32_t kTiles = ceil_div(kRows, kBlockM);
  if (s.one_after)
    k.for_range(k.program_id(0), kTiles, k.num_programs(0), make);
  else
    make(k.program_id(0));
  kernels::Step step{.program = k.finish(),
                     .launch = kernels::library_launch(s.one_after ? 1 : kTiles, 4)};
  step.launch.no_alias = true;
  Tensor sums(f32, {kRows, kColumns}), partial(s.type, {kRows, kColumns});
  Tensor operands[] = {a[0], a[1], b[0], b[1]};
  Arguments arguments;
  arguments.tensor("c", sums);
  arguments.tensor("first", partial);
  arguments.tensor("a1", operands[0]);
  arguments.tensor("a2", operands[1]);
  arguments.tensor("b1", operands[2]);
  arguments.tensor("b2", operands[3]);
  backend().run({.steps = {step}}, 1, arguments);
  return {sums.values(), partial.values()};
}

void add_product(Values& sums, const Tensor& a, const Tensor& b, int64_t depth) {
  const Values left = a.values(), right = b.values();
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j)
      for (int64_t at = 0; at < depth; ++at)
        sums[i * kColumns + j] += left[i * depth + at] * right[j * depth + at];
}

void check(const Segments& s, uint64_t seed) {
  SCOPED_TRACE(std::string(name(s.type)) + " k " + std::to_string(s.k1) + " and " +
               std::to_string(s.k2) + (s.tensor ? ", tensor copies" : "") +
               (s.one_after ? ", one program" : "") + (s.between ? ", stored between" : ""));
  const Tensor a[] = {random_rows(s.type, kRows, s.k1, seed),
                      random_rows(s.type, kRows, s.k2, seed + 1)};
  const Tensor b[] = {random_rows(s.type, kColumns, s.k1, seed + 2),
                      random_rows(s.type, kColumns, s.k2, seed + 3)};
  const Result found = multiply(s, a, b);
  Values expected(kRows * kColumns, 0.0);
  add_product(expected, a[0], b[0], s.k1);
  if (s.between) {
    EXPECT_TRUE(close_normwise(found.first, expected, 4e-3));
  }
  add_product(expected, a[1], b[1], s.k2);
  EXPECT_TRUE(close_normwise(found.c, expected, 1e-6));
}

// Covers more and fewer iterations than stages, and whole and partial tiles.
TEST(DotSegments, AccumulatorContinuesInSecondLoop) {
  uint64_t seed = 1;
  for (const Segments& s :
       std::vector<Segments>{{.type = bf16, .k1 = 7 * kBlockK, .k2 = 6 * kBlockK},
                             {.type = f16, .k1 = 2 * kBlockK, .k2 = 5 * kBlockK + 24},
                             {.type = bf16, .k1 = 5 * kBlockK, .k2 = 40, .tensor = false}})
    check(s, seed += 4);
}

// The phases of the mbarriers continue in the next tile, although threads used the memory of the
// rings in between.
TEST(DotSegments, PersistentPrograms) {
  uint64_t seed = 101;
  for (const bool tensor : {true, false})
    check({.type = bf16, .k1 = 6 * kBlockK, .k2 = 3 * kBlockK, .tensor = tensor, .one_after = true},
          seed += 4);
}

// The second loop's copies write to memory from which threads have just read an exchange.
TEST(DotSegments, ExchangesBetweenTheLoops) {
  uint64_t seed = 201;
  for (const bool one_after : {false, true})
    for (const bool tensor : {true, false})
      check({.type = f16,
             .k1 = 3 * kBlockK,
             .k2 = 6 * kBlockK,
             .tensor = tensor,
             .one_after = one_after,
             .between = true},
            seed += 4);
}

}  // namespace
}  // namespace ligerdsl::test::dot_segments_test
