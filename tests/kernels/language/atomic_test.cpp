// Tests that an atomic runs once per element, however many threads, warps or CTAs hold the element,
// and that each of them gets the old value. Kernels use atomics for tickets and error flags; these
// tests cover all shapes.
#include <cmath>
#include <set>

#include "kernels/core/record.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::atomic_test {
namespace {

constexpr int64_t kPrograms = 6, kTickets = 5;

struct Meta {
  int64_t width = 64;
};

kernels::Operation operation(void (*build)(KernelBuilder&, const Meta&), const Meta& meta) {
  return {.steps = {kernels::record_step("atomic", i32, build, meta,
                                         kernels::library_launch(Size::rows(), 4))}};
}

// Every program takes kTickets numbers and stores each in a whole row.
void take_tickets(KernelBuilder& k, const Meta& m) {
  View counter = k.view("counter", i32, {1}), taken = k.view("taken", i32, {dyn, m.width});
  k.for_range(0, kTickets, 1, [&](Scalar) {
    Scalar ticket = atomic_add(counter.ptr(), 1);
    Tile row = taken.partition({squeeze, m.width}).load({ticket, 0});
    taken.partition({squeeze, m.width}).store({ticket, 0}, row + ticket + 1);
  });
}

TEST(Atomics, TicketsAreTakenOnce) {
  for (int64_t width : {64, 2048}) {
    Tensor counter(i32, {1}), taken(i32, {kPrograms * kTickets, width});
    counter.fill(Values(1, 0));
    taken.fill(Values(kPrograms * kTickets * width, 0));
    backend().run(operation(take_tickets, {width}), kPrograms,
                  Arguments().tensor("counter", counter).tensor("taken", taken));
    EXPECT_EQ(counter.get(0), kPrograms * kTickets) << width;
    for (int64_t i = 0; i < kPrograms * kTickets * width; ++i)
      ASSERT_EQ(taken.get(i), i / width + 1) << width;
  }
}

// Each program tries to write its number plus one to some places of the row. A free place holds 0.
// A program owns the places whose old value was 0.
void claim(KernelBuilder& k, const Meta& m) {
  View places = k.view("places", i32, {m.width}), got = k.view("got", i32, {dyn, m.width});
  Scalar number = k.program_id(0);
  Tile at = k.arange(m.width);
  Tile before = atomic_cas(places.ptr() + at, 0, number + 1, at % kPrograms <= number);
  got.partition({squeeze, m.width})
      .store({number, 0}, (at % kPrograms <= number && before == 0).to(i32));
}

TEST(Atomics, PlacesAreClaimedOnce) {
  for (int64_t width : {1, 8, 96, 2048}) {
    Tensor places(i32, {width}), got(i32, {kPrograms, width});
    places.fill(Values(width, 0));
    backend().run(operation(claim, {width}), kPrograms,
                  Arguments().tensor("places", places).tensor("got", got));
    for (int64_t i = 0; i < width; ++i) {
      const auto owner = static_cast<int64_t>(places.get(i)) - 1;
      ASSERT_GE(owner, i % kPrograms) << width << ": masked off, or no program claimed it";
      ASSERT_LT(owner, kPrograms) << width;
      for (int64_t p = 0; p < kPrograms; ++p)
        ASSERT_EQ(got.get(p * width + i), p == owner) << width;
    }
  }
}

// A lock-free maximum of i64 by one scalar per program: retries the compare-and-swap until no other
// program intervened.
void raise(KernelBuilder& k, const Meta&) {
  View most = k.view("most", i64, {1});
  Scalar own = (k.program_id(0) * 7 % 5).to(i64) * 1000000007;
  k.while_(
      carry(k.constant(0, i64), k.constant(1, i1)), [](Scalar, Scalar again) { return again; },
      [&](Scalar seen, Scalar) {
        Scalar found = atomic_cas(most.ptr(), seen, max(seen, own));
        return carry(found, found != seen);
      });
}

TEST(Atomics, CompareAndSwapLoopComputesMaximum) {
  Tensor most(i64, {1});
  most.fill(Values(1, -1));
  backend().run(operation(raise, {}), kPrograms, Arguments().tensor("most", most));
  EXPECT_EQ(most.get(0), 4.0 * 1000000007);
}

// Each program applies atomic_min to `least`, exchanges `place` with its own number, and stores the
// old values of `place`.
void lower_and_exchange(KernelBuilder& k, const Meta& m, DType type) {
  View least = k.view("least", type, {m.width}), place = k.view("place", type, {m.width});
  View got = k.view("got", type, {dyn, m.width});
  Scalar number = k.program_id(0);
  Tile at = k.arange(m.width);
  atomic_min(least.ptr() + at, ((at + number) * 7 % 11 - 5).to(type), at % 5 != number % 5);
  Tile before = atomic_xchg(place.ptr() + at, number.to(type));
  got.partition({squeeze, m.width}).store({number, 0}, before);
}

TEST(Atomics, MinimumAndExchange) {
  for (const DType type : {i32, i64, f32}) {
    for (int64_t width : {1, 8, 96, 2048}) {
      KernelBuilder k("atomic");
      lower_and_exchange(k, {width}, type);
      const kernels::Step step{.program = k.finish(),
                               .launch = kernels::library_launch(Size::rows(), 4)};
      Tensor least(type, {width}), place(type, {width}), got(type, {kPrograms, width});
      least.fill(Values(width, 3));
      place.fill(Values(width, -1));
      backend().run({.steps = {step}}, kPrograms,
                    Arguments().tensor("least", least).tensor("place", place).tensor("got", got));
      for (int64_t i = 0; i < width; ++i) {
        int64_t expected = 3;
        std::set<double> chain = {place.get(i)};
        for (int64_t p = 0; p < kPrograms; ++p) {
          if (i % 5 != p % 5) expected = std::min(expected, (i + p) * 7 % 11 - 5);
          chain.insert(got.get(p * width + i));
        }
        ASSERT_EQ(least.get(i), static_cast<double>(expected))
            << name(type) << " " << width << ": " << i;
        ASSERT_EQ(chain.size(), size_t{kPrograms} + 1)
            << "expected each number once, among the old values or in `place`";
      }
    }
  }
}

// Counts the occurrences of each of 16 numbers. The old values match some order of the additions.
void count(KernelBuilder& k, const Meta& m) {
  View numbers = k.view("numbers", i32, {dyn, m.width}), counts = k.view("counts", i32, {16});
  View old = k.view("old", i32, {dyn, m.width});
  Scalar row = k.program_id(0);
  Tile at = numbers.partition({squeeze, m.width}).load({row, 0});
  Tile before = atomic_add(counts.ptr() + at, k.ones({m.width}, i32));
  old.partition({squeeze, m.width}).store({row, 0}, before);
}

TEST(Atomics, ElementsAreCountedOnce) {
  for (int64_t width : {1, 8, 64, 96, 2048}) {
    const int64_t n = kPrograms * width;
    Tensor numbers(i32, {kPrograms, width}), old(i32, {kPrograms, width}), counts(i32, {16});
    Values at(n), expected(16, 0);
    for (int64_t i = 0; i < n; ++i) ++expected[static_cast<size_t>(at[i] = (i * i + 3 * i) % 16)];
    numbers.fill(at);
    counts.fill(Values(16, 0));
    backend().run(
        operation(count, {width}), kPrograms,
        Arguments().tensor("numbers", numbers).tensor("old", old).tensor("counts", counts));
    EXPECT_EQ(counts.values(), expected) << width;
    std::vector<std::vector<bool>> seen(16);
    for (int64_t b = 0; b < 16; ++b) seen[b].resize(static_cast<size_t>(expected[b]));
    for (int64_t i = 0; i < n; ++i) {
      auto& of_number = seen[static_cast<size_t>(at[i])];
      ASSERT_LT(old.get(i), static_cast<double>(of_number.size())) << width;
      EXPECT_FALSE(of_number[static_cast<size_t>(old.get(i))])
          << width << ": two additions returned the same old value";
      of_number[static_cast<size_t>(old.get(i))] = true;
    }
  }
}

// Adds the row sums of two rows to two totals. Stores each element plus the old total of its row.
void add_rows(KernelBuilder& k, const Meta& m) {
  View x = k.view("x", i32, {dyn, m.width}), totals = k.view("totals", i32, {2}),
       y = k.view("y", i32, {dyn, m.width});
  Scalar pair = k.program_id(0);
  Tile rows = x.partition({2, m.width}).load({pair, 0});
  Tile before = atomic_add(totals.ptr() + k.arange(2), sum(rows, 1));
  y.partition({2, m.width}).store({pair, 0}, rows + expand_dims(before, 1));
}

// In a cluster of four CTAs, two share a row and get the same old value. The other two get another
// one.
TEST(Atomics, OldValuesReachTheCtasOfTheirRow) {
  constexpr int64_t kWidth = 4096;
  kernels::Operation add = operation(add_rows, {kWidth});
  add.steps[0].launch.num_ctas = 4;
  Tensor x(i32, {2 * kPrograms, kWidth}), y(i32, {2 * kPrograms, kWidth}), totals(i32, {2});
  x.fill(Values(2 * kPrograms * kWidth, 1));
  totals.fill(Values(2, 0));
  backend().run(add, kPrograms, Arguments().tensor("x", x).tensor("y", y).tensor("totals", totals));
  EXPECT_EQ(totals.values(), Values(2, kPrograms * kWidth));
  for (int64_t row = 0; row < 2; ++row) {
    std::set<double> olds;
    for (int64_t program = 0; program < kPrograms; ++program) {
      const int64_t first = (2 * program + row) * kWidth;
      const double old = y.get(first) - 1;
      EXPECT_EQ(std::fmod(old, kWidth), 0);
      EXPECT_TRUE(old >= 0 && old < kPrograms * kWidth && olds.insert(old).second) << old;
      for (int64_t i = 1; i < kWidth; ++i)
        ASSERT_EQ(y.get(first + i), old + 1) << program << ": " << i;
    }
  }
}

// Runs masked additions and maxima on all types that have them. A maximum of floats is a loop of
// compare-and-swap.
template <DType type>
void sums_of(KernelBuilder& k, const Meta& m) {
  const View sums = k.view("sums", type, {dyn}), most = k.view("most", type, {dyn});
  Tile at = k.arange(m.width);
  atomic_add(sums.ptr() + at, k.ones({m.width}, type), at < m.width - 1);
  atomic_max(most.ptr() + at, (k.program_id(0) + at).to(type));
  atomic_add(sums.ptr() + (m.width - 1), k.constant(2, type));
}

TEST(Atomics, MasksAndMaxima) {
  for (const DType type : {i32, f32}) {
    for (const int64_t n : {1, 8, 256, 1024}) {
      void (*const build)(KernelBuilder&, const Meta&) = type == i32 ? sums_of<i32> : sums_of<f32>;
      Tensor sums(type, {n}), most(type, {n});
      sums.fill(Values(n, 0));
      most.fill(Values(n, 0));
      backend().run(operation(build, {n}), kPrograms,
                    Arguments().tensor("sums", sums).tensor("most", most));
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(sums.get(i), i == n - 1 ? 2 * kPrograms : kPrograms)
            << name(type) << " " << n << ": " << i;
        EXPECT_EQ(most.get(i), kPrograms - 1 + i) << name(type) << " " << n << ": " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::atomic_test
