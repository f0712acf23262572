// Programs that must not compile, one per value of CASE. tests/dsl/CMakeLists.txt lists the error
// that the author must read.
#include "ligerdsl/dsl.h"

using namespace ligerdsl;

void kernel(KernelBuilder& k) {
  Scalar n = k.scalar("n", i32);
  Tile t = k.zeros({8}, f32);
#if CASE == 0
  (void)n;
  (void)t;
#elif CASE == 1
  k.for_range(0, n, 1, carry(t), [](Scalar, Tile) { return carry(1.0f); });
#elif CASE == 2
  k.for_range(0, n, 1, carry(t, n), [](Scalar, Tile t) { return carry(t); });
#elif CASE == 3
  k.for_range(0, n, 1, carry(0.0f), [](Scalar, float x) { return carry(x); });
#elif CASE == 4
  k.for_range(0, n, 1, [&](Scalar) { return t; });
#elif CASE == 5
  k.if_(
      n > 0, [&] { return t; }, [&] { return n; });
#elif CASE == 6
  k.if_(n > 0, [&] { return t; });
#elif CASE == 7
  k.while_(
      carry(n), [](Scalar n) { return true; }, [](Scalar n) { return carry(n); });
#elif CASE == 8
  reduce({t, t}, [](Scalar a, Scalar b, Scalar c, Scalar d) { return a + b + c + d; });
#elif CASE == 9
  if (n > 0) n = n + 1;
#elif CASE == 10
  assume_divisible(n, 16);  // the return value, which carries the promise, is unused
#endif
}
