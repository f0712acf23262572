// Atomic updates happen once per element, however many threads hold a copy of it: tiles of one element to many more
// than there are threads, scalars, masks, and the old values.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
namespace {

constexpr int64_t kPrograms = 5;

kernels::Operation operation(KernelBuilder& k) {
  kernels::Launch launch{.program = k.finish()};
  launch.grid = [](int64_t) { return kernels::Grid{kPrograms, 1, 1}; };
  return {.launches = {launch}};
}

TEST(Atomics, EveryElementOnceWhateverTheLayout) {
  for (const DType type : {i32, f32}) {
    for (const int64_t n : {1, 8, 64, 256, 1024}) {
      SCOPED_TRACE(std::string(name(type)) + " " + std::to_string(n));
      KernelBuilder k("counts");
      const View sums = k.view("sums", type, {dyn}), most = k.view("most", type, {dyn});
      Tile at = k.arange(n);
      atomic_add(sums.ptr() + at, k.ones({n}, type), at < n - 1);
      atomic_max(most.ptr() + at, (k.program_id(0) + at).to(type));
      atomic_add(sums.ptr() + (n - 1), k.constant(2, type));
      const kernels::Operation counts = operation(k);
      Tensor sum(type, {n}), max(type, {n});
      sum.fill(std::vector<double>(n, 0.0));
      max.fill(std::vector<double>(n, 0.0));
      backend().run(counts, kPrograms, Arguments().tensor("sums", sum).tensor("most", max));
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(sum.get(i), i == n - 1 ? 2 * kPrograms : kPrograms) << i;
        EXPECT_EQ(max.get(i), kPrograms - 1 + i) << i;
      }
    }
  }
}

// Every program draws a ticket; each gets another one, and all threads of a program agree on it.
TEST(Atomics, OldValuesAreTickets) {
  KernelBuilder k("tickets");
  const View counter = k.view("counter", i32, {1}), drawn = k.view("drawn", i32, {dyn, 8});
  const Scalar ticket = atomic_add(counter.ptr(), 1);
  drawn.partition({squeeze, 8}).store({k.program_id(0), 0}, k.arange(8) + ticket * 100);
  const kernels::Operation tickets = operation(k);
  Tensor count(i32, {1}), rows(i32, {kPrograms, 8});
  count.fill(std::vector<int64_t>{0});
  backend().run(tickets, kPrograms, Arguments().tensor("counter", count).tensor("drawn", rows));
  EXPECT_EQ(count.get(0), kPrograms);
  std::vector<bool> seen(kPrograms, false);
  for (int64_t p = 0; p < kPrograms; ++p) {
    const auto mine = static_cast<int64_t>(rows.get(p * 8)) / 100;
    ASSERT_TRUE(mine >= 0 && mine < kPrograms && !seen[mine]) << mine;
    seen[mine] = true;
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(rows.get(p * 8 + i), mine * 100 + i) << p << ", " << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test
