// Compares the counts of count_work for small kernels with numbers computed by hand.
#include "analysis/work.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ligerdsl/dsl.h"
#include "tests/dsl/sample.h"

namespace ligerdsl::test {
namespace {

using analysis::Grid;
using analysis::Work;

// Argument slots for count_work: contiguous views and scalars, in the order of the kernel's
// arguments.
class Slots {
 public:
  Slots& view(const std::vector<int64_t>& dims) {
    std::vector<uint64_t> strides(dims.size());
    uint64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0; stride *= static_cast<uint64_t>(dims[i]))
      strides[i] = stride;
    slots_.push_back(0);
    slots_.insert(slots_.end(), dims.begin(), dims.end());
    slots_.insert(slots_.end(), strides.begin(), strides.end());
    return *this;
  }
  Slots& number(int64_t value) {
    slots_.push_back(static_cast<uint64_t>(value));
    return *this;
  }
  const uint64_t* data() const { return slots_.data(); }

 private:
  std::vector<uint64_t> slots_;
};

program::Program copy_program() {
  KernelBuilder k("copy");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  const Scalar block = k.program_id(0);
  y.partition({256}).store({block}, x.partition({256}).load({block}));
  return k.finish();
}

TEST(CountWork, CopyWithMaskedTail) {
  const Work work =
      analysis::count_work(copy_program(), Slots().view({1000}).view({1000}).data(), {4, 1, 1});
  EXPECT_EQ(work.programs, 4);
  EXPECT_EQ(work.read(), 4000);
  EXPECT_EQ(work.written(), 4000);
  EXPECT_EQ(work.repeated(), 0);
  EXPECT_EQ(work.total.bytes, 8000);
  EXPECT_EQ(work.largest.bytes, 2 * 256 * 4);  // a full program; the last one has 232 elements
  EXPECT_EQ(work.total.waits, 4);
  EXPECT_EQ(work.total.dots, 0);
  // Masked elements cost instructions, too. Each 16-byte vector of an access counts two.
  EXPECT_EQ(work.total.lanes, 4 * 2 * (256 * 4 / 16) * 2);
  EXPECT_FALSE(work.unknown.any());
}

// Programs that start after the end of the views move no bytes.
TEST(CountWork, ProgramsOutsideTheView) {
  const Work work =
      analysis::count_work(copy_program(), Slots().view({256}).view({256}).data(), {3, 1, 1});
  EXPECT_EQ(work.total.bytes, 2 * 256 * 4);
}

TEST(CountWork, PointersWithMask) {
  KernelBuilder k("pointers");
  Ptr y = k.ptr("y", f32), x = k.ptr("x", f32);
  const Scalar n = k.scalar("n", i32);
  const Tile at = k.program_id(0) * 256 + k.arange(256);
  store(y + at, load(x + at, at < n), at < n);
  const Work work =
      analysis::count_work(k.finish(), Slots().number(0).number(0).number(1000).data(), {4, 1, 1});
  EXPECT_EQ(work.total.bytes, 8000);
  EXPECT_EQ(work.traffic[0].stored, 4000);
  EXPECT_EQ(work.traffic[1].loaded, 4000);
  EXPECT_EQ(work.traffic[1].size, 4 * 256 * 4);  // bytes from first to last address, masked or not
  EXPECT_FALSE(work.unknown.any());
}

// A mask of two ranges, row < 10 and column < 50, keeps 10 * 50 elements.
TEST(CountWork, PointersWithTwoDimensions) {
  KernelBuilder k("matrix");
  Ptr x = k.ptr("x", bf16), y = k.ptr("y", bf16);
  const Scalar rows = k.scalar("rows", i32), cols = k.scalar("cols", i32);
  const Tile row = k.arange(16).expand_dims(1).broadcast_to({16, 64}),
             column = k.arange(64).expand_dims(0).broadcast_to({16, 64});
  const Tile at = row * cols + column, inside = (row < rows) & (column < cols);
  store(y + at, load(x + at, inside), inside);
  const Work work = analysis::count_work(
      k.finish(), Slots().number(0).number(0).number(10).number(50).data(), {1, 1, 1});
  EXPECT_EQ(work.traffic[0].loaded, 10 * 50 * 2);
}

// 34 multiples of 3 are below 100: 0, 3, ..., 99.
TEST(CountWork, MaskOfEveryThirdElement) {
  KernelBuilder k("strided");
  Ptr x = k.ptr("x", f32), y = k.ptr("y", f32);
  const Tile at = k.arange(64) * 3;
  store(y + at, load(x + at, at < 100), at < 100);
  const Work work = analysis::count_work(k.finish(), Slots().number(0).number(0).data(), {1, 1, 1});
  EXPECT_EQ(work.traffic[0].loaded, 34 * 4);
}

// If several pointers of a tile are equal, memory traffic counts their element once.
TEST(CountWork, PointersToOneRow) {
  KernelBuilder k("weight");
  Ptr x = k.ptr("x", f32), y = k.ptr("y", f32);
  const Tile row = k.arange(16).expand_dims(1).broadcast_to({16, 64}),
             column = k.arange(64).expand_dims(0).broadcast_to({16, 64});
  store(y + (row * 64 + column), load(x + column));
  const Work work = analysis::count_work(k.finish(), Slots().number(0).number(0).data(), {1, 1, 1});
  EXPECT_EQ(work.traffic[0].loaded, 64 * 4);
  EXPECT_EQ(work.traffic[1].stored, 16 * 64 * 4);
}

program::Program row_sum_program() {
  KernelBuilder k("row_sum");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn, dyn});
  const Scalar row = k.program_id(0);
  auto [sums] = k.for_range(0, cdiv(x.dim(1), 256).to(i32), 1, carry(k.zeros({256}, f32)),
                            [&](Scalar b, Tile sums) {
                              return carry(sums + x.partition({squeeze, 256}).load({row, b}));
                            });
  y.store({row}, sum(sums));
  return k.finish();
}

TEST(CountWork, RowSumWithLoop) {
  constexpr int64_t kRows = 1000, kCols = 5000;  // 20 iterations of 256 columns; the last has 136
  const Work work = analysis::count_work(
      row_sum_program(), Slots().view({kRows}).view({kRows, kCols}).data(), {kRows, 1, 1});
  EXPECT_EQ(work.read(), kRows * kCols * 4);
  EXPECT_EQ(work.written(), kRows * 4);
  EXPECT_EQ(work.repeated(), 0);
  EXPECT_EQ(work.total.iterations, kRows * 20);
  EXPECT_EQ(work.total.waits, kRows * (20 + 1));
  EXPECT_EQ(work.total.reductions, kRows);
  // Each iteration adds 256 elements and loads 64 vectors of 16 bytes. After the loop, the
  // reduction adds 256 elements, and a store writes one number.
  EXPECT_DOUBLE_EQ(work.total.lanes, kRows * (20.0 * (256 + 64 * 2) + 256 + 4.0 / 16 * 2));
  EXPECT_FALSE(work.unknown.any());
}

// The loads of all stages in flight wait for memory together, so s stages divide the waits by s.
TEST(CountWork, StagesShortenTheWaits) {
  const Work work = analysis::count_work(
      row_sum_program(), Slots().view({1}).view({1, 5120}).data(), {1, 1, 1}, /*num_stages=*/4);
  EXPECT_EQ(work.stages, 4);
  EXPECT_EQ(work.total.waits, 20 / 4.0 + 1);
  EXPECT_EQ(work.ring_bytes, 4 * 256 * 4);
}

program::Program matmul_program(bool persistent) {
  KernelBuilder k("matmul");
  View c = k.view("c", bf16, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
       b = k.view("b", bf16, {dyn, dyn});
  const Scalar columns = cdiv(c.dim(1), 128).to(i32);
  const auto make = [&](const Scalar& number) {
    const Scalar row = number / columns, column = number % columns;
    auto [acc] = k.for_range(0, cdiv(a.dim(1), 32).to(i32), 1, {.num_stages = 3},
                             carry(k.zeros({64, 128}, f32)), [&](Scalar i, Tile acc) {
                               return carry(dot(a.partition({64, 32}).load({row, i}),
                                                b.partition({32, 128}).load({i, column}), acc));
                             });
    c.partition({64, 128}).store({row, column}, acc.to(bf16));
  };
  if (!persistent)
    make(k.program_id(0));
  else
    k.for_range(k.program_id(0), cdiv(c.dim(0), 64).to(i32) * columns, k.num_programs(0), make);
  return k.finish();
}

constexpr int64_t kM = 640, kN = 512, kK = 1024;

Work matmul_work(bool persistent, int64_t programs) {
  return analysis::count_work(matmul_program(persistent),
                              Slots().view({kM, kN}).view({kM, kK}).view({kK, kN}).data(),
                              {programs, 1, 1});
}

TEST(CountWork, Matmul) {
  const Work work = matmul_work(false, kM / 64 * kN / 128);
  EXPECT_EQ(work.total.dots, kM * kN * kK);
  EXPECT_EQ(work.traffic[0].stored, kM * kN * 2);
  // Each column of tiles of the result loads all of a, and each row of tiles loads all of b.
  EXPECT_EQ(work.traffic[1].loaded, kN / 128 * kM * kK * 2);
  EXPECT_EQ(work.traffic[2].loaded, kM / 64 * kK * kN * 2);
  EXPECT_EQ(work.read(), (kM * kK + kK * kN) * 2);
  EXPECT_EQ(work.traffic[1].to_dots, work.traffic[1].loaded);
  EXPECT_EQ(work.repeated(), work.traffic[1].loaded + work.traffic[2].loaded - work.read());
  EXPECT_EQ(work.total.iterations, kM / 64 * kN / 128 * kK / 32);
  EXPECT_EQ(work.stages, 3);
  EXPECT_EQ(work.ring_bytes, 3 * (64 * 32 + 32 * 128) * 2);
  ASSERT_EQ(work.dots.size(), 1u);
  EXPECT_EQ(work.dots[0].m, 64);
  EXPECT_EQ(work.dots[0].n, 128);
  EXPECT_EQ(work.dots[0].k, 32);
  EXPECT_TRUE(work.dots[0].in_loop);
  EXPECT_TRUE(work.dots[0].loads_a);
  EXPECT_FALSE(work.persistent);
}

// Seven programs, each of which computes five or six tiles, do the same work as 40 programs of one
// tile.
TEST(CountWork, PersistentMatmul) {
  const Work grid = matmul_work(false, 40), persistent = matmul_work(true, 7);
  EXPECT_TRUE(persistent.persistent);
  EXPECT_EQ(persistent.total.dots, grid.total.dots);
  EXPECT_EQ(persistent.total.bytes, grid.total.bytes);
  EXPECT_EQ(persistent.total.iterations, grid.total.iterations);
  EXPECT_EQ(persistent.largest.dots, 6 * 64 * 128 * kK);
}

TEST(CountWork, MatmulWithMaskedTails) {
  constexpr int64_t kOdd = 100;
  const Work work = analysis::count_work(
      matmul_program(false),
      Slots().view({kOdd, kOdd}).view({kOdd, kOdd}).view({kOdd, kOdd}).data(), {2, 1, 1});
  EXPECT_EQ(work.traffic[0].stored, kOdd * kOdd * 2);
  EXPECT_EQ(work.traffic[1].loaded, kOdd * kOdd * 2);
  EXPECT_EQ(work.traffic[2].loaded, 2 * kOdd * kOdd * 2);  // once for each of the two rows of tiles
  EXPECT_EQ(work.total.dots, 2 * 64 * 128 * 128);          // tensor cores multiply masked zeros too
}

// Program p runs p + 1 iterations. count_work counts every program of a small grid, and samples
// programs of a large grid.
TEST(CountWork, ProgramsOfUnequalWork) {
  KernelBuilder k("triangle");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  auto [sums] =
      k.for_range(0, k.program_id(0) + 1, 1, carry(k.zeros({32}, f32)),
                  [&](Scalar b, Tile sums) { return carry(sums + x.partition({32}).load({b})); });
  y.store({k.program_id(0)}, sum(sums));
  const program::Program program = k.finish();
  const auto loaded = [&](int64_t programs) {
    return analysis::count_work(program, Slots().view({programs}).view({32 * programs}).data(),
                                {programs, 1, 1})
        .traffic[1]
        .loaded;
  };
  EXPECT_EQ(loaded(16), 16 * 17 / 2 * 32 * 4);
  EXPECT_NEAR(loaded(4096) / (4096.0 * 4097 / 2 * 32 * 4), 1, 0.01);
}

// The carried scalar grows by the same amount in each iteration, so its values in the middle are
// known.
TEST(CountWork, CarriedIndex) {
  KernelBuilder k("carried");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  auto [sums, last] = k.for_range(0, 100, 1, carry(k.zeros({32}, f32), k.constant(0, i32)),
                                  [&](Scalar, Tile sums, Scalar at) {
                                    return carry(sums + x.partition({32}).load({at}), at + 2);
                                  });
  y.store({last}, sum(sums));
  const Work work =
      analysis::count_work(k.finish(), Slots().view({1000}).view({32 * 100}).data(), {1, 1, 1});
  EXPECT_FALSE(work.unknown.any());
  EXPECT_NEAR(work.traffic[1].loaded, 50 * 32 * 4, 7 * 32 * 4);  // half of the tiles are inside x
}

TEST(CountWork, CarriedIndexOfTheLastIteration) {
  KernelBuilder k("carried");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  auto [sums, last] = k.for_range(0, 20, 1, carry(k.zeros({32}, f32), k.constant(0, i32)),
                                  [&](Scalar, Tile sums, Scalar at) {
                                    return carry(sums + x.partition({32}).load({at}), at + 1);
                                  });
  y.store({last}, sum(sums));
  const Work work =
      analysis::count_work(k.finish(), Slots().view({21}).view({32 * 20}).data(), {1, 1, 1});
  EXPECT_EQ(work.traffic[1].loaded, 20 * 32 * 4);
  EXPECT_EQ(work.traffic[0].stored, 4);  // at 20
}

TEST(CountWork, LoopOfUnknownLength) {
  KernelBuilder k("list");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn}), counts = k.view("n", i32, {dyn});
  const Scalar row = k.program_id(0);
  auto [sums] =
      k.for_range(0, counts.load({row}), 1, carry(k.zeros({32}, f32)),
                  [&](Scalar b, Tile sums) { return carry(sums + x.partition({32}).load({b})); });
  y.store({row}, sum(sums));
  const program::Program program = k.finish();
  Slots slots;
  slots.view({8}).view({1 << 20}).view({8});
  const Work one = analysis::count_work(program, slots.data(), {8, 1, 1});
  EXPECT_EQ(one.unknown.loops, 8);
  EXPECT_EQ(one.traffic[1].loaded, 8 * 32 * 4);
  const Work ten = analysis::count_work(program, slots.data(), {8, 1, 1}, 1, {.iterations = 10});
  EXPECT_EQ(ten.unknown.loops, 8);
  EXPECT_EQ(ten.traffic[1].loaded, 10 * 8 * 32 * 4);
}

TEST(CountWork, BranchOnData) {
  KernelBuilder k("branch");
  View y = k.view("y", f32, {dyn}), flags = k.view("flags", i32, {dyn});
  const Scalar row = k.program_id(0);
  k.if_(flags.load({row}) == 0, [&] { y.partition({64}).store({row}, k.zeros({64}, f32)); });
  const Work work =
      analysis::count_work(k.finish(), Slots().view({8 * 64}).view({8}).data(), {8, 1, 1});
  EXPECT_EQ(work.unknown.branches, 8);
  EXPECT_EQ(work.written(), 8 * 64 * 4);  // assumes the branch that moves more bytes
}

TEST(CountWork, DynamicPersistent) {
  KernelBuilder k("dynamic");
  k.dynamic_persistent([&] {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
    const Scalar block = k.program_id(0);
    y.partition({256}).store({block}, x.partition({256}).load({block}));
  });
  const Work work = analysis::count_work(
      k.finish(), Slots().view({1}).number(4).view({1000}).view({1000}).data(), {4, 1, 1});
  EXPECT_TRUE(work.dynamic_persistent);
  EXPECT_FALSE(work.persistent);
  EXPECT_EQ(work.traffic[2].stored, 4000);
  EXPECT_EQ(work.traffic[3].loaded, 4000);
}

// The second load of a resident row comes from shared memory, so read() does not count it.
TEST(CountWork, ResidentRow) {
  KernelBuilder k("resident");
  View y = k.view("y", f32, {dyn, 1024}), x = k.view("x", f32, {dyn, 1024});
  const Scalar row = k.program_id(0);
  const Resident resident = x.partition({squeeze, 256}).resident({row});
  auto [sums] = k.for_range(0, 4, 1, carry(k.zeros({256}, f32)),
                            [&](Scalar b, Tile sums) { return carry(sums + resident.load(b)); });
  const Scalar total = sum(sums);
  k.for_range(0, 4, 1, [&](Scalar b) {
    y.partition({squeeze, 256}).store({row, b}, resident.load(b) * total);
  });
  const Work work = analysis::count_work(
      k.finish(), Slots().view({100, 1024}).view({100, 1024}).data(), {100, 1, 1});
  EXPECT_EQ(work.traffic[1].loaded, 2 * 100 * 4096);
  EXPECT_EQ(work.traffic[1].resident, 100 * 4096);
  EXPECT_EQ(work.row_bytes, 4096);
  EXPECT_EQ(work.read(), 100 * 4096);
}

TEST(CountWork, Functions) {
  KernelBuilder k("exponentials");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  const Scalar block = k.program_id(0);
  y.partition({128}).store({block}, fast_exp2(x.partition({128}).load({block})));
  const Work work =
      analysis::count_work(k.finish(), Slots().view({512}).view({512}).data(), {4, 1, 1});
  EXPECT_EQ(work.total.functions, 512);
}

// A scan takes three steps of its combiner per element.
TEST(CountWork, FunctionsOfAScan) {
  KernelBuilder k("scan");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  const Tile in = x.partition({128}).load({0});
  const auto [out] =
      scan({in}, 0, [](Scalar a, Scalar b) { return carry(fast_exp2(a) + fast_exp2(b)); });
  y.partition({128}).store({0}, out);
  const Work work =
      analysis::count_work(k.finish(), Slots().view({128}).view({128}).data(), {1, 1, 1});
  EXPECT_EQ(work.total.functions, 3 * 128 * 2);
}

// Every third of 100 elements is read: 34 of them.
TEST(CountWork, SliceWithAStep) {
  KernelBuilder k("every_third");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  y.partition({64}).store({0}, x.every(0, 3, 0).partition({64}).load({0}));
  const Work work =
      analysis::count_work(k.finish(), Slots().view({64}).view({100}).data(), {1, 1, 1});
  EXPECT_EQ(work.traffic[1].loaded, 34 * 4);
  EXPECT_FALSE(work.unknown.any());
}

TEST(CountWork, WhileLoopOfUnknownLength) {
  KernelBuilder k("list");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn}), counts = k.view("n", i32, {dyn});
  const Scalar row = k.program_id(0), count = counts.load({row});
  auto [b, sums] = k.while_(
      carry(k.constant(0, i32), k.zeros({32}, f32)), [&](Scalar b, Tile) { return b < count; },
      [&](Scalar b, Tile sums) { return carry(b + 1, sums + x.partition({32}).load({b})); });
  y.store({row}, sum(sums));
  const program::Program program = k.finish();
  Slots slots;
  slots.view({8}).view({1 << 20}).view({8});
  for (double iterations : {1, 10}) {
    const Work work =
        analysis::count_work(program, slots.data(), {8, 1, 1}, 1, {.iterations = iterations});
    EXPECT_EQ(work.total.iterations, 8 * iterations);
    EXPECT_EQ(work.total.waits, 8 * (iterations + 1));
  }
}

// A cast from f32 to i32 saturates, so 1e10 becomes 2^31 - 1, not a negative number.
TEST(CountWork, CastThatSaturates) {
  KernelBuilder k("saturating");
  View y = k.view("y", f32, {dyn});
  const Scalar large = k.scalar("large", f32).to(i32);
  k.if_(
      large > 0, [&] { y.partition({64}).store({0}, k.zeros({64}, f32)); }, [&] {});
  const float number = 1e10f;
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  const Work work =
      analysis::count_work(k.finish(), Slots().view({64}).number(bits).data(), {1, 1, 1});
  EXPECT_EQ(work.written(), 64 * 4);
  EXPECT_FALSE(work.unknown.any());
}

TEST(CountWork, EmptyGrid) {
  const Work work =
      analysis::count_work(copy_program(), Slots().view({0}).view({0}).data(), {0, 1, 1});
  EXPECT_EQ(work.programs, 0);
  EXPECT_EQ(work.total.bytes, 0);
}

// count_work must handle every operation.
TEST(CountWork, EveryOperation) {
  const program::Program program = every_op();
  Slots slots;
  for (const program::Argument& argument : program.arguments) {
    const program::Type& type = program.values[argument.value];
    if (type.kind == program::TypeKind::view)
      slots.view(std::vector<int64_t>(type.shape.size(), 64));
    else
      slots.number(1);
  }
  const Work work = analysis::count_work(program, slots.data(), {2, 1, 1});
  EXPECT_GT(work.total.bytes, 0);
  EXPECT_GT(work.total.lanes, 0);
  EXPECT_GT(work.total.dots, 0);
}

}  // namespace
}  // namespace ligerdsl::test
