// Tests resident rows in random programs. The second pass may visit blocks in any order, both
// passes may skip blocks, and other work is before, between and after them. No result depends on
// the place where blocks are cached, so results on every backend are bit-identical to the
// interpreter's.
#include <functional>

#include "dsl/interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::resident_test {
namespace {

// Each row has one program, and two more programs are past the last row. Numbers are small and
// whole, so additions are exact in any order.
struct Rows {
  int64_t rows, columns, block;
  DType type = f32;
  int num_warps = 4;
  bool aligned_blocks = false;  // blocks begin at vector boundaries, rows at any element

  int64_t blocks() const {
    return ceil_div(columns + (aligned_blocks ? 16 / size_of(type) - 1 : 0), block);
  }
};

struct Memory {
  Tensor x, u, y, v, z, w;

  Memory(const Rows& of, unsigned seed)
      : x(whole(of, of.type, seed)),
        u(whole(of, of.type, seed + 1)),
        y(Tensor::rows(of.type, of.rows, of.columns)),
        v(Tensor::rows(of.type, of.rows, of.columns)),
        z(Tensor(f32, {of.rows + 2, kOthers})),
        w(Tensor(of.type, {of.columns})) {
    const Tensor row =
        whole({.rows = 1, .columns = of.columns, .block = of.block}, of.type, seed + 2);
    for (int64_t i = 0; i < w.size(); ++i)
      is_integer(of.type) ? w.set_integer(i, row.get_integer(i)) : w.set(i, row.get(i));
  }

  static constexpr int64_t kOthers = 4096;  // columns of z

  std::vector<std::pair<const char*, Tensor*>> all() {
    return {{"x", &x}, {"u", &u}, {"y", &y}, {"v", &v}, {"z", &z}, {"w", &w}};
  }

 private:
  static Tensor whole(const Rows& of, DType type, unsigned seed) {
    Tensor tensor = Tensor::rows(type, of.rows, of.columns, seed % 7 == 3 ? 3 : seed % 2 ? 32 : 0);
    Random random(seed);
    const bool integer = is_integer(type);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const int64_t value = random.below(7) - 3;
      integer ? tensor.set_integer(i, value) : tensor.set(i, static_cast<double>(value));
    }
    return tensor;
  }
};

struct Views {
  View x, u, y, v, z, w;
  Views(KernelBuilder& k, const Rows& of)
      : x(k.view("x", of.type, {dyn, of.columns})),
        u(k.view("u", of.type, {dyn, of.columns})),
        y(k.view("y", of.type, {dyn, of.columns})),
        v(k.view("v", of.type, {dyn, of.columns})),
        z(k.view("z", f32, {dyn, Memory::kOthers})),
        w(k.view("w", of.type, {of.columns})) {}
};

// `ctas`: CTAs of a dynamic persistent kernel, or 0 for a grid of all programs.
void expect_interpreters_bits(KernelBuilder& k, const Rows& of, unsigned seed,
                              bool in_place = false, int ctas = 0) {
  const int64_t programs = of.rows + 2, grid = ctas ? ctas : programs;
  const kernels::Step step{.program = k.finish(),
                           .launch = kernels::library_launch(grid, of.num_warps)};
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program::print(step.program));
  Memory expected(of, seed), actual(of, seed);
  if (in_place) expected.y = expected.x, actual.y = actual.x;
  Tensor next_program(i32, {1}), again(i32, {1});
  interpreter::Arguments slots;
  Arguments arguments;
  if (ctas) {
    next_program.set_integer(0, 0), again.set_integer(0, 0);
    slots.view(next_program.data(), i32, {1}, {1});
    slots.scalar(i32, programs);
    arguments.tensor("next_program", again).integer("programs", programs);
  }
  for (auto& [name, tensor] : expected.all())
    slots.view(tensor->data(), tensor->type(), tensor->shape(), tensor->strides());
  interpreter::run(step.program, slots, {grid, 1, 1}, {.round_every_op = true});
  for (auto& [name, tensor] : actual.all()) arguments.tensor(name, *tensor);
  ASSERT_NO_THROW(backend().run({.steps = {step}}, of.rows, arguments));
  auto want = expected.all(), got = actual.all();
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].second->same_bits(*want[i].second)) << got[i].first;
    EXPECT_TRUE(got[i].second->untouched_outside()) << got[i].first;
  }
}

// Builds two passes with random variations. The first reduces a row to its sum, and the second
// stores the row minus the sum.
class RandomPasses {
 public:
  RandomPasses(KernelBuilder& k, const Rows& of, unsigned seed)
      : k_(k), of_(of), random_(seed), views_(k, of), row_(k.program_id(0)) {}

  bool in_place() const { return in_place_; }

  void build() {
    // With aligned_blocks, the alignment offset decides which columns a block has, so both passes
    // visit all blocks. Otherwise they may leave out one block.
    positions_ = of_.blocks() - (!of_.aligned_blocks && of_.blocks() > 2 && pick(3) == 0 ? 1 : 0);
    order_ = pick(of_.aligned_blocks           ? 3
                  : positions_ == of_.blocks() ? 4
                                               : 2) +
             (positions_ == of_.blocks() ? 0 : 4);
    in_place_ = pick(3) == 0 && order_ != 3;
    if (pick(3) == 0) other_work();
    Scalar taken = views_.z.dim(0).to(i32) > 0;
    if (pick(2)) taken = row_ % 3 != pick(3);
    if (pick(2)) taken = taken && views_.x.load({row_, 0}).to(f32) != 1.0f;
    // Equals the promise but is written differently, so that the compiler cannot use the promise
    // here.
    promised_ = pick(2) == 0;
    if (promised_) taken = taken && row_.to(i64) + 1 <= views_.x.dim(0);
    if (pick(3) == 0 || promised_)
      k_.if_(
          taken, [&] { passes(); }, [&] { other_work(); });
    else
      passes();
    if (pick(3) == 0) other_work();
  }

 private:
  int pick(int64_t n) { return static_cast<int>(random_.below(n)); }

  // Uses a large part of shared memory.
  void other_work() {
    Partition whole = views_.z.partition({squeeze, Memory::kOthers});
    Tile t = k_.arange(Memory::kOthers) & (pick(7) + 1);
    t = cumsum(t.reshape({64, Memory::kOthers / 64}).permute({1, 0}), 1).reshape({Memory::kOthers});
    whole.store({row_, 0}, t.to(f32));
  }

  // Returns the block at a position of the first pass.
  Scalar block(const Scalar& i) const {
    switch (order_) {
      case 0:
        return i;
      case 1:
        return static_cast<int>(of_.blocks()) - 1 - i;
      case 2:
        return (i + home_) % static_cast<int>(of_.blocks());
      case 3:
        return i / 2;
      case 4:
        return i + (i >= home_).to(i32);
      default:
        return i + 1;
    }
  }

  void passes() {
    home_ = row_ % static_cast<int>(of_.blocks());
    if (promised_) assume(row_ < views_.x.dim(0));
    if (promised_ && pick(2)) assume(row_ < views_.u.dim(0));
    const bool two = pick(2) == 0;
    Scalar alignment_offset;
    if (of_.aligned_blocks) alignment_offset = views_.x.alignment_offset({row_});
    const LoadOptions pad{.pad = pick(2) ? 0.0 : 3.0, .alignment_offset = alignment_offset};
    const bool leading = pick(4) == 0;  // tiles of rank 2
    const Shape cut{leading ? 1 : squeeze, of_.block}, shape = leading ? cut : Shape{of_.block};
    Resident x = views_.x.partition(cut).resident({row_}, pad),
             u = views_.u.partition(cut).resident({row_}, pad);
    const bool weighted = pick(2) == 0;
    Resident w =
        views_.w.partition({of_.block}).resident({}, {.alignment_offset = alignment_offset});
    const DType sums = is_integer(of_.type) ? i32 : f32;
    auto [acc] =
        k_.for_range(0, positions_, 1, carry(k_.zeros(shape, sums)), [&](Scalar i, Tile acc) {
          Tile t = x.load(block(i)).to(sums);
          if (two) t = t + u.load(block(i)).to(sums) * 3;
          return carry(acc + t);
        });
    Scalar total = sum(acc);
    if (pick(4) == 0) other_work();
    total = min(max(total, -2), 2);
    k_.for_range(0, positions_, 1, [&](Scalar j) {
      Scalar b = block(static_cast<int>(positions_) - 1 - j);
      Tile t = x.load(b).to(sums);
      if (two) t = t - u.load(b).to(sums);
      if (weighted) t = t + w.load(b).to(sums).reshape(shape);
      views_.y.partition(cut).store({row_, b}, (t + total).to(of_.type),
                                    {.alignment_offset = alignment_offset});
    });
    if (positions_ < of_.blocks()) {
      Scalar b = order_ == 4 ? home_ : k_.constant(0, i32);
      views_.v.partition(cut).store({row_, b}, x.load(b));
    }
  }

  KernelBuilder& k_;
  Rows of_;
  Random random_;
  Views views_;
  Scalar row_, home_;
  int64_t positions_ = 0;
  int order_ = 0;
  bool in_place_ = false, promised_ = false;
};

// Returns rows of small blocks or of large blocks. Two or more rows of small blocks fit in shared
// memory, but only some of the large blocks fit.
Rows random_blocks(Random& random, unsigned seed, int64_t rows) {
  Rows of{.rows = rows};
  of.type = std::vector<DType>{f32, i32, bf16, i64, f16}[seed % 5];
  const int64_t group = 16 / size_of(of.type);
  const bool large = random.below(3) == 0;
  of.num_warps = large ? 16 : 1 << random.below(3);
  of.block = large ? 32768 / size_of(of.type) : group * 8 * (1 + random.below(4));
  of.columns = of.block * (2 + random.below(large ? 6 : 40));
  if (random.below(2)) of.columns -= group * (1 + random.below(7));
  of.aligned_blocks = random.below(2);
  if (of.aligned_blocks) of.columns -= random.below(8);
  return of;
}

void expect_random_passes_bits(const Rows& of, unsigned seed) {
  KernelBuilder k("resident");
  RandomPasses passes(k, of, seed);
  passes.build();
  expect_interpreters_bits(k, of, seed, passes.in_place());
}

TEST(Resident, RandomPassesGiveTheInterpretersBits) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    Random random(seed + 100);
    expect_random_passes_bits(random_blocks(random, seed, 2), seed);
    if (HasFatalFailure()) return;
  }
}

// Rows that span one or two 16-byte groups.
TEST(Resident, RowsSmallerThan16Bytes) {
  for (unsigned columns = 2; columns < 8; ++columns) {
    const Rows of{.rows = 9,
                  .columns = columns,
                  .block = 8,
                  .type = bf16,
                  .num_warps = 1,
                  .aligned_blocks = true};
    expect_random_passes_bits(of, columns - 1);
    if (HasFatalFailure()) return;
  }
}

// Each CTA processes several rows. The next row, if it exists and is visited, is loaded during the
// current one.
TEST(Resident, RandomDynamicPersistentPassesGiveTheInterpretersBits) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    Random random(seed + 300);
    const Rows of = random_blocks(random, seed, 1 + random.below(9));
    KernelBuilder k("resident");
    bool in_place = false;
    k.dynamic_persistent([&] {
      RandomPasses passes(k, of, seed);
      passes.build();
      in_place = passes.in_place();
    });
    expect_interpreters_bits(k, of, seed, in_place, 1 + static_cast<int>(random.below(4)));
    if (HasFatalFailure()) return;
  }
}

// The first pass computes a resident row's sum and calls `before` before each block. The second
// stores the blocks plus the sum to `to`.
void two_passes(
    KernelBuilder& k, const Rows& of, const Resident& kept, const Partition& to, const Scalar& row,
    const std::function<void(const Scalar&)>& before = [](const Scalar&) {}) {
  auto [acc] =
      k.for_range(0, of.blocks(), 1, carry(k.zeros({of.block}, f32)), [&](Scalar i, Tile acc) {
        before(i);
        return carry(acc + kept.load(i));
      });
  Scalar total = sum(acc);
  k.for_range(0, of.blocks(), 1, [&](Scalar j) {
    Scalar b = static_cast<int>(of.blocks()) - 1 - j;
    to.store({row, b}, kept.load(b) + total);
  });
}

// The program has written the row itself, so copies of the row must not overtake the stores.
TEST(Resident, RowsThatTheProgramWroteBefore) {
  const Rows of{.rows = 3, .columns = 8 * 512, .block = 512};
  KernelBuilder k("resident");
  Views views(k, of);
  Scalar row = k.program_id(0);
  Partition x = views.x.partition({squeeze, of.block}), y = views.y.partition({squeeze, of.block}),
            v = views.v.partition({squeeze, of.block});
  k.for_range(0, of.blocks(), 1, [&](Scalar i) {
    y.store({row, i},
            cumsum(x.load({row, i}).reshape({16, 32}).permute({1, 0}), 1).reshape({of.block}));
  });
  Resident kept = y.resident({row});
  two_passes(k, of, kept, v, row);
  expect_interpreters_bits(k, of, 1);
}

// The first pass writes every block before it reads it.
TEST(Resident, RowsThatTheFirstPassWrites) {
  const Rows of{.rows = 3, .columns = 8 * 512, .block = 512};
  KernelBuilder k("resident");
  Views views(k, of);
  Scalar row = k.program_id(0);
  Partition x = views.x.partition({squeeze, of.block}), y = views.y.partition({squeeze, of.block}),
            v = views.v.partition({squeeze, of.block});
  Resident kept = y.resident({row});
  two_passes(k, of, kept, v, row, [&](const Scalar& i) {
    y.store({row, i}, x.load({row, i}) * 2.0f);
  });
  expect_interpreters_bits(k, of, 1);
}

// The passes' exchanges need more shared memory than a full ring leaves.
TEST(Resident, RowsNextToLargeExchanges) {
  const Rows of{.rows = 1, .columns = 4 * 16384, .block = 16384, .num_warps = 16};
  KernelBuilder k("resident");
  Views views(k, of);
  Scalar row = k.program_id(0);
  Resident kept = views.x.partition({squeeze, of.block}).resident({row});
  Partition y = views.y.partition({squeeze, of.block});
  auto turned = [&](const Tile& t) {
    return cumsum(t.reshape({128, 128}).permute({1, 0}), 1).reshape({of.block});
  };
  auto [acc] = k.for_range(0, of.blocks(), 1, carry(k.zeros({of.block}, f32)),
                           [&](Scalar i, Tile acc) { return carry(acc + turned(kept.load(i))); });
  Scalar total = max(acc);
  k.for_range(0, of.blocks(), 1, [&](Scalar j) {
    Scalar b = static_cast<int>(of.blocks()) - 1 - j;
    y.store({row, b}, turned(kept.load(b)) + total);
  });
  expect_interpreters_bits(k, of, 1);
}

// The two passes are in a loop over rows.
TEST(Resident, RowsOfAProgramThatLoops) {
  const Rows of{.rows = 5, .columns = 6 * 128, .block = 128};
  KernelBuilder k("resident");
  Views views(k, of);
  Partition x = views.x.partition({squeeze, of.block}), y = views.y.partition({squeeze, of.block});
  Scalar rows = views.x.dim(0).to(i32);
  k.for_range(k.program_id(0), rows, k.num_programs(0), [&](Scalar row) {
    Resident kept = x.resident({row});
    two_passes(k, of, kept, y, row);
  });
  expect_interpreters_bits(k, of, 1);
}

}  // namespace
}  // namespace ligerdsl::test::resident_test
