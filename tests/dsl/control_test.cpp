// Tests the ops that loops and branches record.
#include <gtest/gtest.h>

#include "interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "program/verify.h"

namespace ligerdsl {
namespace {

template <class Code>
std::string recorded(Code code) {
  KernelBuilder k("control");
  code(k);
  const program::Program program = k.finish();
  program::verify(program);
  const std::string text = program::print(program, {.locations = false});
  return text.substr(text.find(") {\n") + 4);
}

TEST(Control, ForCarriesValues) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        View out = k.view("out", f32, {dyn});
        Scalar n = k.scalar("n", i32);
        auto [a, b] =
            k.for_range(0, n, 1, pipelined(3), carry(k.constant(1, f32), k.zeros({4}, f32)),
                        [](Scalar i, Scalar a, Tile b) { return carry(a * i.to(f32), b + a); });
        out.partition({4}).store({0}, b + a);
      }),
      "  %2 = constant value=0 : f32[4]\n  %3 = constant value=1 : f32\n  %4 = constant value=0 : "
      "i32\n"
      "  %5 = constant value=1 : i32\n"
      "  %13, %14 = for_range %4, %1, %5, %3, %2 num_stages=3 : f32, f32[4] { (%6: i32, %7: f32, "
      "%8: f32[4])\n"
      "    %9 = splat %7 : f32[4]\n    %10 = add %8, %9 : f32[4]\n    %11 = cast %6 : f32\n"
      "    %12 = mul %7, %11 : f32\n    yield %12, %10\n  }\n"
      "  %15 = splat %13 : f32[4]\n  %16 = add %14, %15 : f32[4]\n  %17 = constant value=0 : i32\n"
      "  store_tile %0, %17, %16 tile_shape=[4]\n}\n");
}

// Takes one or more carried values of any types.
template <class First, class... T>
Carry<First, T...> squares(const First& first, const T&... rest) {
  return carry(first * first, rest * rest...);
}
template <class... T>
Carry<T...> squared_twice(KernelBuilder& k, const Carry<T...>& start) {
  return k.for_range(0, 2, 1, start,
                     [](Scalar, const auto&... value) { return squares(value...); });
}

TEST(Control, ForTakesAVariadicBody) {
  const auto explicitly = [](KernelBuilder& k) {
    auto [a, b] = k.for_range(0, 2, 1, carry(k.constant(3, f32), k.ones({4}, f32)),
                              [](Scalar, Scalar a, Tile b) { return carry(a * a, b * b); });
    (void)k.for_range(0, 2, 1, LoopOptions{}, carry(a),
                      [](Scalar, Scalar a) { return carry(a * a); });
  };
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              auto [a, b] = squared_twice(k, carry(k.constant(3, f32), k.ones({4}, f32)));
              squared_twice(k, carry(a));
            }),
            recorded(explicitly));
}

TEST(Control, ForBoundsWidenToOneType) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        View x = k.view("x", f32, {dyn});
        k.for_range(0, x.dim(0), 4, unrolled(2), [&](Scalar i) { x.store({i}, 0.0f); });
      }),
      "  %1 = dim %0 axis=0 : i64\n  %2 = constant value=0 : i32\n  %3 = constant value=4 : i32\n"
      "  %4 = cast %2 : i64\n  %5 = cast %3 : i64\n"
      "  for_range %4, %1, %5 unroll=2 { (%6: i64)\n    %7 = constant value=0 : f32\n"
      "    store_tile %0, %6, %7 tile_shape=[squeeze]\n    yield\n  }\n}\n");
}

TEST(Control, IfReturnsAnyNumberOfValues) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        Scalar c = k.scalar("c", i1);
        Scalar x = k.scalar("x", f32);
        Scalar one = k.if_(
            c, [&] { return x; }, [&] { return -x; });
        auto [a, b] = k.if_(
            c, [&] { return carry(one, x); }, [&] { return carry(x, one); });
        k.if_(
            c, [&] { a* b; }, [&] { a + b; });
      }),
      "  %3 = if_else %0 : f32 {\n    yield %1\n  } {\n    %2 = neg %1 : f32\n    yield %2\n  }\n"
      "  %4, %5 = if_else %0 : f32, f32 {\n    yield %3, %1\n  } {\n    yield %1, %3\n  }\n"
      "  if_else %0 {\n    %6 = mul %4, %5 : f32\n    yield\n  } {\n    %7 = add %4, %5 : f32\n    "
      "yield\n  }\n}\n");
}

TEST(Control, WhileCarriesPointers) {
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              Ptr list = k.ptr("list", i64);
              auto [p, n] = k.while_(
                  carry(list, k.constant(0, i64)), [](Ptr p, Scalar) { return load(p) != 0; },
                  [](Ptr p, Scalar n) { return carry(p + 1, n + 1); });
              store(list, n);
            }),
            "  %1 = constant value=0 : i64\n"
            "  %13, %14 = while_loop %0, %1 : ptr i64, i64 { (%2: ptr i64, %3: i64)\n"
            "    %4 = load %2 : i64\n    %5 = constant value=0 : i64\n    %6 = compare %4, %5 "
            "predicate=ne : i1\n"
            "    yield %6, %2, %3\n  } { (%7: ptr i64, %8: i64)\n    %9 = constant value=1 : i64\n"
            "    %10 = add %8, %9 : i64\n    %11 = constant value=1 : i32\n    %12 = addptr %7, "
            "%11 : ptr i64\n"
            "    yield %12, %10\n  }\n  store %0, %14\n}\n");
}

// Runs 0 to 16 programs on 1 to 20 CTAs. The result must not depend on the number of CTAs, or on
// the CTA that takes a program.
TEST(Control, DynamicPersistentRunsEveryProgramOnce) {
  KernelBuilder k("control");
  k.dynamic_persistent([&] {
    View out = k.view("out", i32, {dyn});  // comes after the counter and the number of programs
    Scalar id = k.program_id(0);
    atomic_add(out.ptr() + id, k.num_programs(0) + id);
  });
  const program::Program program = k.finish();
  program::verify(program);
  ASSERT_EQ(program.arguments.size(), 3u);
  EXPECT_EQ(program.arguments[0].name, "next_program");
  EXPECT_EQ(program.arguments[1].name, "programs");
  for (int64_t programs : {0, 1, 2, 5, 16}) {
    for (int64_t ctas : {1, 2, 3, 16, 20}) {
      std::vector<int32_t> out(16, 0);
      int32_t next_program = 0;
      interpreter::Arguments arguments;
      arguments.view(&next_program, i32, {1}, {1});
      arguments.scalar(i32, programs);
      arguments.view(out.data(), i32, {16}, {1});
      interpreter::run(program, arguments, {ctas, 1, 1});
      for (int64_t i = 0; i < 16; ++i)
        EXPECT_EQ(out[i], i < programs ? programs + i : 0) << ctas << " CTAs";
    }
  }
}

}  // namespace
}  // namespace ligerdsl
