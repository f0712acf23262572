// Records, verifies, serialises and interprets random programs.
#include "random_program.h"

#include <gtest/gtest.h>

#include "interpreter/interpreter.h"
#include "program/print.h"
#include "program/serialize.h"
#include "tests/support/fp8.h"

namespace ligerdsl {
namespace {

program::Program recorded(unsigned seed) {
  KernelBuilder k("random");
  test::RandomProgram(k, seed).build();
  return k.finish();
}

std::vector<float> interpreted(const program::Program& program, unsigned seed) {
  constexpr int64_t rows = 9, columns = 37;
  std::vector<float> a(rows * columns), v(16), x(rows * columns, 7), z(rows * columns, 7),
      w(rows * columns, 7);
  std::vector<uint16_t> b(rows * columns, 0x4040);
  std::vector<int32_t> c(rows * columns), y(rows * columns, 7);
  std::vector<uint8_t> e(rows * columns), g(rows * columns, 7);
  std::mt19937 random(seed);
  for (float& value : a) value = static_cast<float>(random() % 4096) / 64.0f - 32.0f;
  for (float& value : v) value = static_cast<float>(random() % 16) - 8.0f;
  for (int32_t& value : c) value = static_cast<int32_t>(random() % 200) - 100;
  for (uint8_t& code : e) code = test::random_f8e4m3(random());
  interpreter::Arguments arguments;
  arguments.view(a.data(), f32, {rows, columns}, {columns, 1});
  arguments.view(b.data(), bf16, {rows, columns}, {columns, 1});
  arguments.view(c.data(), i32, {rows, columns}, {columns, 1});
  arguments.view(e.data(), f8e4m3, {rows, columns}, {columns, 1});
  arguments.view(v.data(), f32, {16}, {1});
  arguments.view(x.data(), f32, {rows, columns}, {columns, 1});
  arguments.view(y.data(), i32, {rows, columns}, {columns, 1});
  arguments.view(g.data(), f8e5m2, {rows, columns}, {columns, 1});
  arguments.view(z.data(), f32, {rows, columns}, {columns, 1});
  arguments.view(w.data(), f32, {rows * columns}, {1});
  const Shape tile = test::random_tile(seed);
  interpreter::run(program, arguments, {ceil_div(rows, tile[0]), ceil_div(columns, tile[1]), 1},
                   {.round_every_op = true});
  x.insert(x.end(), z.begin(), z.end());
  x.insert(x.end(), w.begin(), w.end());
  x.insert(x.end(), y.begin(), y.end());
  for (const uint8_t code : g) {
    const double value = test::from_fp8(test::kE5m2, code);
    x.push_back(static_cast<float>(value));
  }
  return x;
}

TEST(RandomProgram, SerialisedProgramGivesTheSameResults) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const program::Program program = recorded(seed);
    const std::string bytes = program::serialize(program);
    EXPECT_EQ(bytes, program::serialize(recorded(seed))) << seed;
    const program::Program parsed = program::parseProgram(bytes);  // verifies
    const auto expected = interpreted(program, seed);
    EXPECT_TRUE(interpreted(parsed, seed) == expected) << "seed " << seed << "\n"
                                                       << program::print(program);
    for (float value : expected) ASSERT_EQ(value, value) << "the result has a NaN, seed " << seed;
  }
}

}  // namespace
}  // namespace ligerdsl
