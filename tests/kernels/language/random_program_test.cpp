// Runs random programs (tests/dsl/random_program.h) through the whole library: every backend gives
// the interpreter's bits.
#include "tests/dsl/random_program.h"

#include "dsl/interpreter/interpreter.h"
#include "program/print.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::random_program_test {
namespace {

constexpr int64_t kRows = 9, kColumns = 37;

struct Memory {
  Tensor a, b, c, e, v, x, y, g, z, w;

  explicit Memory(unsigned seed)
      : a(random_rows(f32, kRows, kColumns, seed, gap_of(seed), 10.0)),
        b(random_rows(bf16, kRows, kColumns, seed + 1, gap_of(seed + 1), 5.0)),
        c(Tensor::rows(i32, kRows, kColumns, gap_of(seed + 2))),
        e(Tensor::rows(f8e4m3, kRows, kColumns, gap_of(seed + 3))),
        v(random_vector(f32, 16, seed + 3, 3.0)),
        x(Tensor::rows(f32, kRows, kColumns, gap_of(seed + 1))),
        y(Tensor::rows(i32, kRows, kColumns)),
        g(Tensor::rows(f8e5m2, kRows, kColumns, gap_of(seed + 2))),
        z(Tensor(f32, {kRows, kColumns})),
        w(Tensor(f32, {kRows * kColumns})) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < c.size(); ++i)
      c.set_integer(i, static_cast<int64_t>(random() % 200) - 100);
    for (int64_t i = 0; i < e.size(); ++i) e.set(i, from_fp8(kE4m3, random_f8e4m3(random())));
  }

  std::vector<std::pair<const char*, Tensor*>> all() {
    return {{"a", &a}, {"b", &b}, {"c", &c}, {"e", &e}, {"v", &v},
            {"x", &x}, {"y", &y}, {"g", &g}, {"z", &z}, {"w", &w}};
  }
};

// Returns true if the bits are the same. The sign of a zero may differ, because min and max may
// return either zero.
::testing::AssertionResult same(const Tensor& got, const Tensor& expected) {
  for (int64_t i = 0; i < got.size(); ++i) {
    const bool both_poisoned = got.get(i) != got.get(i) && expected.get(i) != expected.get(i);
    if (got.get(i) != expected.get(i) && !both_poisoned) {
      return ::testing::AssertionFailure()
             << "element " << i << " is " << got.get(i) << ", not " << expected.get(i);
    }
  }
  return ::testing::AssertionSuccess();
}

TEST(RandomProgram, EveryBackendGivesTheInterpretersBits) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    KernelBuilder k("random_program");
    RandomProgram(k, seed).build();
    const Shape tile = random_tile(seed);
    const int64_t grid[2] = {ceil_div(kRows, tile[0]), ceil_div(kColumns, tile[1])};
    kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(grid[0], 4)};
    step.launch.grid.push_back(grid[1]);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program::print(step.program));

    Memory expected(seed);
    interpreter::Arguments slots;
    for (auto& [name, tensor] : expected.all()) {
      slots.view(tensor->data(), tensor->type(), tensor->shape(), tensor->strides());
    }
    interpreter::run(step.program, slots, {grid[0], grid[1], 1}, {.round_every_op = true});

    Memory actual(seed);
    Arguments arguments;
    for (auto& [name, tensor] : actual.all()) arguments.tensor(name, *tensor);
    try {
      backend().run({.steps = {step}}, kRows, arguments);
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
    EXPECT_TRUE(same(actual.x, expected.x));
    EXPECT_TRUE(same(actual.y, expected.y));
    EXPECT_TRUE(same(actual.g, expected.g));
    EXPECT_TRUE(same(actual.z, expected.z));
    EXPECT_TRUE(same(actual.w, expected.w));
    for (auto& [name, tensor] : actual.all()) EXPECT_TRUE(tensor->untouched_outside()) << name;
  }
}

}  // namespace
}  // namespace ligerdsl::test::random_program_test
