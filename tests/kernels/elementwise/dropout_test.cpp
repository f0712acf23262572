#include "kernels/elementwise/dropout.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise/dropout_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::dropout_test {
namespace {

// Computes the threshold from p like the library's host code.
int32_t threshold_of(float p) {
  return static_cast<int32_t>(
      static_cast<uint32_t>(std::floor(std::ldexp(static_cast<double>(p), 32))));
}

struct Trial {
  kernels::DropoutOptions options;
  float p;
  int64_t n, seed = 0x1234567890abcdef, offset = 77;
  Tensor x, addend, y;

  Trial(DType type, int64_t n, int64_t cols, int64_t gap = 0, float p = 0.3f)
      : options{.cols = cols, .type = type}, p(p), n(n) {
    x = random_rows(type, n, cols, 1, gap);
    addend = random_rows(type, n, cols, 2, gap);
    y = Tensor::rows(type, n, cols, gap);
  }
  Arguments arguments() const {
    Arguments args;
    args.integer("threshold", threshold_of(p)).number("scale", 1 / (1 - static_cast<double>(p)));
    if (!options.device_seed) return args.integer("offset", offset).integer("seed", seed);
    return args.integer("offset", offset - 1000)
        .tensor("device_seed", Tensor(i64, {1}).fill(std::vector<int64_t>{seed}))
        .tensor("device_offset", Tensor(i64, {1}).fill(std::vector<int64_t>{1000}));
  }
  void forward(const Tensor& to) {
    backend().run(kernels::dropout_forward(machine(), options), n,
                  arguments().tensor("x", x).tensor("residual", addend).tensor("y", to));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::dropout_backward(machine(), options), n,
                  arguments().tensor("d_y", x).tensor("d_x", to));
  }
  Values expected() const {
    return dropout_reference(x.values(), options.add ? addend.values() : Values(),
                             {p, seed, offset});
  }
  void check() {
    SCOPED_TRACE(std::string(name(options.type)) + " n=" + std::to_string(n) +
                 " cols=" + std::to_string(options.cols) + " p=" + std::to_string(p) +
                 (options.add ? " add" : "") + (options.device_seed ? " device" : ""));
    const Values right = expected();
    forward(y);
    EXPECT_TRUE(close(y.values(), right, gate_e(options.type))) << "y";
    if (!options.add) {
      for (size_t i = 0; i < right.size(); ++i) ASSERT_EQ(y.get(i) == 0, right[i] == 0) << i;
    }
    const Tensor d_x = options.add ? addend.clone() : y;
    backward(d_x);
    EXPECT_TRUE(close(d_x.values(), right, gate_e(options.type))) << "d_x";
    for (const Tensor& t : {y, d_x}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(Dropout, WidthsAndTypes) {
  int64_t number = 0;
  for (int64_t cols : {4, 430, 4098}) {
    for (DType type : kFloats) Trial(type, 4, cols, gap_of(number++)).check();
  }
  // Code with random numbers takes long to compile, so the other widths have one type each.
  for (int64_t cols : affordable({1, 2, 3, 8, 41, 42, 512, 768, 4096, 4097, 11008, 32768}, 4)) {
    Trial(kFloats[number % 3], 4, cols, gap_of(number / 3)).check();
    ++number;
  }
  Trial(bf16, 300, 24).check();
  Trial(f32, 300, 21).check();
}

TEST(Dropout, ProbabilitiesAndAddends) {
  for (float p : {0.0f, 0x1p-40f, 0.1f, 0.5f, 0.75f, 1 - 0x1p-24f}) {
    for (DType type : kFloats) {
      for (bool add : {false, true}) {
        Trial run(type, 5, 332, 8, p);
        run.options.add = add;
        run.check();
      }
    }
  }
}

// Cases: seeds and offsets of both signs, within and beyond 32 bits, and offsets whose counters
// carry into the high word.
TEST(Dropout, SeedsAndOffsets) {
  for (int64_t seed : {int64_t{0}, int64_t{-1}, int64_t{1} << 40, INT64_MIN}) {
    for (int64_t offset : {int64_t{0}, int64_t{0xfffffff0}, (int64_t{7} << 32) - 20, int64_t{-9}}) {
      for (bool device : {false, true}) {
        Trial run(f32, 3, device ? 65 : 64);
        run.seed = seed;
        run.offset = offset;
        run.options.device_seed = device;
        run.check();
      }
    }
  }
}

TEST(Dropout, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    for (int64_t cols : {332, 333}) {
      Trial run(type, 5, cols, 8);
      run.forward(run.y);
      Trial over(type, 5, cols, 8);
      over.forward(over.x);
      EXPECT_TRUE(over.x.same_bits(run.y)) << "forward, " << name(type);
      over = Trial(type, 5, cols, 8);
      over.backward(over.x);
      EXPECT_TRUE(over.x.same_bits(run.y)) << "backward, " << name(type);
      run.options.add = true;
      run.forward(run.y);
      over = Trial(type, 5, cols, 8);
      over.options.add = true;
      over.forward(over.addend);
      EXPECT_TRUE(over.addend.same_bits(run.y)) << "over the residual, " << name(type);
    }
  }
}

// The mask depends on the flat index of an element, not on its address, its dtype or the tiles.
TEST(Dropout, MaskDependsOnTheFlatIndexOnly) {
  constexpr int64_t kCount = 3 * 1280;
  Values flat;
  for (int64_t cols : {1280, 640, 60, 15, 6, 1}) {
    for (DType type : {f32, bf16}) {
      for (int64_t gap : {0, 5}) {
        if (kCount * 2 > backend().budget()) continue;
        Trial run(type, kCount / cols, cols, gap, 0.5f);
        run.x.fill(Values(kCount, 1.0));
        run.forward(run.y);
        if (flat.empty()) flat = run.y.values();
        EXPECT_EQ(run.y.values(), flat) << name(type) << " cols=" << cols << " gap=" << gap;
      }
    }
  }
}

// Every step of the formula is rounded in the same way on all targets.
TEST(Dropout, ResultsMatchTheFormulaBitwise) {
  Trial run(f32, 7, 100, 0, 0.25f);
  run.options.add = true;
  const Values x = run.x.values(), residual = run.addend.values();
  const auto scale = static_cast<float>(1 / (1 - 0.25));
  run.forward(run.y);
  for (int64_t i = 0; i < 700; ++i) {
    const auto u = static_cast<float>(x[i]), r = static_cast<float>(residual[i]);
    const bool stays = DropoutCase{0.25, run.seed, run.offset}.keeps(i);
    ASSERT_EQ(run.y.get(i), stays ? std::fma(u, scale, r) : r) << i;
  }
}

TEST(Dropout, ZeroProbabilityCopies) {
  for (DType type : kFloats) {
    Trial run(type, 3, 41, 3, 0.0f);
    run.x.set(0, -0.0);
    run.x.set(1, std::numeric_limits<double>::infinity());
    run.forward(run.y);
    EXPECT_TRUE(run.y.same_bits(run.x)) << name(type);
  }
}

TEST(Dropout, DroppedElementsAreZeroEvenIfNan) {
  for (DType type : kFloats) {
    Trial run(type, 2, 200, 0, 0.5f);
    run.x.fill(Values(400, std::numeric_limits<double>::quiet_NaN()));
    run.forward(run.y);
    for (int64_t i = 0; i < 400; ++i) {
      const bool stays = DropoutCase{0.5, run.seed, run.offset}.keeps(i);
      ASSERT_EQ(std::isnan(run.y.get(i)), stays) << i;
      if (!stays) {
        ASSERT_EQ(run.y.get(i), 0.0) << i;
      }
    }
  }
}

// The fraction of dropped elements is p, and the fraction of adjacent pairs that are both dropped
// is p^2, within five standard deviations.
TEST(Dropout, DropsTheRequestedFraction) {
  const int64_t n = 4, cols = std::min<int64_t>(16384, backend().budget() / 8);
  for (float p : {0.1f, 0.5f, 0.9f}) {
    Trial run(f32, n, cols, 0, p);
    run.x.fill(Values(n * cols, 1.0));
    run.forward(run.y);
    double dropped = 0, pairs = 0;
    for (int64_t i = 0; i < n * cols; ++i) {
      const bool is = run.y.get(i) == 0;
      dropped += is;
      pairs += is && i > 0 && run.y.get(i - 1) == 0;
    }
    const double count = static_cast<double>(n * cols), both = static_cast<double>(p) * p;
    EXPECT_NEAR(dropped / count, p, 5 * std::sqrt(p * (1 - p) / count)) << p;
    EXPECT_NEAR(pairs / count, both, 5 * std::sqrt(both * (1 - both) * (1 + 2 * p) / count)) << p;
  }
}

}  // namespace
}  // namespace ligerdsl::test::dropout_test
