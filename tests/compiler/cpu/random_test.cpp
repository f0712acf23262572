// Tests that the CPU target gives the interpreter's bits for random programs
// (tests/dsl/random_program.h).
#include "cpu_kernel.h"
#include "dsl/interpreter/interpreter.h"
#include "program/print.h"
#include "tests/dsl/random_program.h"
#include "tests/support/fp8.h"

namespace ligerdsl::testing::random_test {
namespace {

constexpr int64_t kRows = 9, kColumns = 37, kStride = 40;

// One set of arguments; outputs are filled with 7.
struct Memory {
  std::vector<float> a = std::vector<float>(kRows * kStride), v = std::vector<float>(16);
  std::vector<uint16_t> b = std::vector<uint16_t>(kRows * kStride);
  std::vector<int32_t> c = std::vector<int32_t>(kRows * kStride),
                       y = std::vector<int32_t>(kRows * kStride, 7);
  std::vector<uint8_t> e = std::vector<uint8_t>(kRows * kStride),
                       g = std::vector<uint8_t>(kRows * kStride, 7);
  std::vector<float> x = std::vector<float>(kRows * kStride, 7), z = x, w = x;

  explicit Memory(unsigned seed) {
    std::mt19937 random(seed);
    for (float& value : a) value = static_cast<float>(random() % 4096) / 64.0f - 32.0f;
    for (float& value : v) value = static_cast<float>(random() % 16) - 8.0f;
    for (uint16_t& value : b) value = toBf16(static_cast<float>(random() % 512) / 16.0f - 16.0f);
    for (int32_t& value : c) value = static_cast<int32_t>(random() % 200) - 100;
    for (uint8_t& code : e) code = test::random_f8e4m3(random());
  }
  // Returns g as numbers, not codes, so that -0 equals 0. min and max may return either zero.
  std::vector<double> numbers_of_g() const {
    std::vector<double> numbers;
    for (const uint8_t code : g) numbers.push_back(test::from_fp8(test::kE5m2, code));
    return numbers;
  }
};

template <class AddView>
void bind(Memory& m, AddView view) {
  view(m.a.data(), f32, kRows, kColumns);
  view(m.b.data(), bf16, kRows, kColumns);
  view(m.c.data(), i32, kRows, kColumns);
  view(m.e.data(), f8e4m3, kRows, kColumns);
  view(m.v.data(), f32, 0, 16);
  view(m.x.data(), f32, kRows, kColumns);
  view(m.y.data(), i32, kRows, kColumns);
  view(m.g.data(), f8e5m2, kRows, kColumns);
  view(m.z.data(), f32, kRows, kColumns);
  view(m.w.data(), f32, 0, static_cast<int64_t>(m.w.size()));
}

// Dimensions and strides of a view: of rank 2 with padded rows, or of rank 1 if `rows` is 0.
std::vector<int64_t> dims(int64_t rows, int64_t columns) {
  return rows ? std::vector<int64_t>{rows, columns} : std::vector<int64_t>{columns};
}
std::vector<int64_t> strides(int64_t rows) {
  return rows ? std::vector<int64_t>{kStride, 1} : std::vector<int64_t>{1};
}

TEST(CpuRandom, ProgramsMatchTheInterpreter) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto build = [&](KernelBuilder& k) { test::RandomProgram(k, seed).build(); };
    KernelBuilder builder("random");
    build(builder);
    const program::Program program = builder.finish();
    const Shape tile = test::random_tile(seed);
    const int64_t grid[2] = {ceil_div(kRows, tile[0]), ceil_div(kColumns, tile[1])};

    Memory expected(seed);
    interpreter::Arguments arguments;
    bind(expected, [&](void* data, DType dtype, int64_t rows, int64_t columns) {
      arguments.view(data, dtype, dims(rows, columns), strides(rows));
    });
    interpreter::run(program, arguments, {grid[0], grid[1], 1}, {.round_every_op = true});

    Memory actual(seed);
    Slots slots;
    bind(actual, [&](void* data, DType, int64_t rows, int64_t columns) {
      slots.view(data, dims(rows, columns), strides(rows));
    });
    std::unique_ptr<CpuKernel> kernel;
    ASSERT_NO_THROW(kernel = std::make_unique<CpuKernel>(build)) << "seed " << seed << "\n"
                                                                 << program::print(program);
    kernel->run(slots, {static_cast<int32_t>(grid[0]), static_cast<int32_t>(grid[1])});
    EXPECT_EQ(actual.numbers_of_g(), expected.numbers_of_g()) << "seed " << seed;
    EXPECT_TRUE(actual.x == expected.x && actual.y == expected.y && actual.z == expected.z &&
                actual.w == expected.w)
        << "seed " << seed << "\n"
        << program::print(program);
  }
}

}  // namespace
}  // namespace ligerdsl::testing::random_test
