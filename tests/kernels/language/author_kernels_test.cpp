// Compares the kernels of examples/author_kernels with their formulas in float64. Widths are a
// multiple of the vector size, ragged, or several tiles.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "examples/author_kernels/bias_gelu.h"
#include "examples/author_kernels/dropout.h"
#include "examples/author_kernels/flash_attention.h"
#include "examples/author_kernels/generalized_jsd.h"
#include "examples/author_kernels/group_norm.h"
#include "examples/author_kernels/matmul.h"
#include "examples/author_kernels/quantize_int8.h"
#include "examples/author_kernels/selective_log_softmax.h"
#include "examples/author_kernels/sparsemax.h"
#include "examples/author_kernels/top2.h"
#include "tests/kernels/language/author_launch.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::author_kernels_test {
namespace {

using namespace author_kernels;

constexpr int64_t kRows = 3;
const std::vector<int64_t> kWidths{1024, 1000, 4999};

// Calls check(type, columns) for all types and widths.
template <class Check>
void for_rows(const Check& check) {
  for (DType type : kFloats) {
    for (int64_t cols : affordable(kWidths, kRows)) {
      SCOPED_TRACE(std::string(name(type)) + ", " + std::to_string(cols) + " columns");
      check(type, cols);
    }
  }
}

Values row_of(const Tensor& rows, int64_t row) {
  const Values all = rows.values();
  const int64_t cols = rows.shape()[1];
  return {all.begin() + row * cols, all.begin() + (row + 1) * cols};
}

double log_sum_exp(const Values& x) {
  const double top = *std::max_element(x.begin(), x.end());
  return top + std::log(std::accumulate(x.begin(), x.end(), 0.0, [&](double sum, double v) {
           return sum + std::exp(v - top);
         }));
}

// Returns log-probabilities, some of them log 0.
Tensor log_probabilities(DType type, int64_t cols, uint64_t seed) {
  Tensor x = random_rows(type, kRows, cols, seed, 0, 3.0);
  for (int64_t r = 0; r < kRows; ++r) {
    const double lse = log_sum_exp(row_of(x, r));
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t i = r * cols + j;
      x.set(i, j % 97 == static_cast<int64_t>(seed) ? -INFINITY : x.get(i) - lse);
    }
  }
  return x;
}

TEST(AuthorKernels, Jsd) {
  for_rows([](DType type, int64_t cols) {
    for (double beta : {0.5, 0.125}) {
      const double scale = 0.25;
      const Tensor x = log_probabilities(type, cols, 1), y = log_probabilities(type, cols, 2);
      Tensor loss(f32, {kRows}), d_x(type, {kRows, cols});
      run(generalized_jsd_kernel, {.type = type, .cols = cols, .block = 512},
          {{"loss", loss}, {"d_x", d_x}, {"x", x}, {"y", y}},
          Arguments().number("beta", beta).number("scale", scale));
      Values losses(kRows, 0.0), gradient;
      for (int64_t i = 0; i < kRows * cols; ++i) {
        const double q = std::exp(x.get(i)), p = std::exp(y.get(i)), m = beta * p + (1 - beta) * q;
        const double of_p = p > 0 ? beta * p * (y.get(i) - std::log(m)) : 0;
        const double of_q = q > 0 ? (1 - beta) * q * (x.get(i) - std::log(m)) : 0;
        losses[i / cols] += of_p + of_q;
        gradient.push_back(scale * of_q);
      }
      EXPECT_TRUE(close(loss.values(), losses, {2e-5, 1e-6}));
      EXPECT_TRUE(close(d_x.values(), gradient, gate_p(type)));
    }
  });
}

TEST(AuthorKernels, SelectiveLogSoftmax) {
  for_rows([](DType type, int64_t cols) {
    const Tensor x = random_rows(type, kRows, cols, 3, 0, 5.0);
    Tensor index(i64, {kRows}), out(f32, {kRows});
    index.fill(std::vector<int64_t>{0, cols - 1, cols});  // the last index is out of range
    run(selective_log_softmax_kernel, {.type = type, .cols = cols, .block = 1024, .vectors = 2},
        {{"out", out}, {"x", x}, {"index", index}});
    const Values expected{row_of(x, 0)[0] - log_sum_exp(row_of(x, 0)),
                          row_of(x, 1)[cols - 1] - log_sum_exp(row_of(x, 1)), -INFINITY};
    EXPECT_TRUE(close({out.get(0), out.get(1)}, {expected[0], expected[1]}, gate_e(f32)));
    EXPECT_EQ(out.get(2), -INFINITY);
  });
}

// Each channel's mean is large compared with its deviation.
void check_group_norm(DType type, int64_t channels, int64_t groups, int64_t positions,
                      int64_t block) {
  SCOPED_TRACE(std::string(name(type)) + ", " + std::to_string(channels) + " channels of " +
               std::to_string(positions));
  const int64_t images = 2, n = images * groups, cols = channels / groups * positions;
  const double eps = 1e-3;
  Tensor x(type, {n, cols}), y(type, {n, cols}), mean(f32, {n}), rstd(f32, {n});
  x.fill(Random(4).normals(n * cols, 1.0, 20.0));
  const Tensor weight = random_vector(f32, channels, 5), bias = random_vector(f32, channels, 6);
  run(group_norm_kernel,
      {.type = type,
       .channels = channels,
       .groups = groups,
       .positions = positions,
       .block = block},
      {{"y", y}, {"mean", mean}, {"rstd", rstd}, {"x", x}, {"weight", weight}, {"bias", bias}},
      Arguments().number("eps", eps));
  Values means, rstds, expected;
  for (int64_t r = 0; r < n; ++r) {
    const Values row = row_of(x, r);
    const double centre = std::accumulate(row.begin(), row.end(), 0.0) / cols;
    double variance = 0;
    for (double v : row) variance += (v - centre) * (v - centre) / cols;
    means.push_back(centre);
    rstds.push_back(1 / std::sqrt(variance + eps));
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t channel = r % groups * (channels / groups) + j / positions;
      expected.push_back((row[j] - centre) * rstds[r] * weight.get(channel) + bias.get(channel));
    }
  }
  EXPECT_TRUE(close(mean.values(), means, gate_e(f32)));
  EXPECT_TRUE(close(rstd.values(), rstds, gate_e(f32)));
  EXPECT_TRUE(close(y.values(), expected, gate_e(type)));
}

TEST(AuthorKernels, GroupNorm) {
  for (DType type : kFloats) {
    check_group_norm(type, 8, 4, 512, 256);   // blocks of one channel
    check_group_norm(type, 6, 2, 49, 256);    // rows shorter than a block
    check_group_norm(type, 10, 2, 200, 256);  // blocks of several channels, the last one is partial
  }
}

// Computes the reference by sorting (proposition 1 of the paper). The kernel does not sort.
Values sparsemax_of(const Values& x) {
  Values z = x;
  std::sort(z.begin(), z.end(), std::greater<>());
  double sum = 0, tau = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    sum += z[i];
    if (1 + (i + 1) * z[i] > sum) tau = (sum - 1) / (i + 1);
  }
  Values y;
  for (double v : x) y.push_back(std::max(v - tau, 0.0));
  return y;
}

TEST(AuthorKernels, Sparsemax) {
  for_rows([](DType type, int64_t cols) {
    Tensor x = random_rows(type, kRows, cols, 7), y(type, {kRows, cols});
    for (int64_t j = 0; j < cols; ++j) {
      x.set(cols + j, 100.0);                             // all equal: all in the support
      x.set(2 * cols + j, j == 5 ? 3.0 : j * 1e-3 - 60);  // only one in the support
    }
    x.set(0, -INFINITY);
    Values expected;
    for (int64_t r = 0; r < kRows; ++r) {
      for (double v : sparsemax_of(row_of(x, r))) expected.push_back(v);
    }
    for (int64_t block : {1024, 8192}) {  // one tile per row, or several
      run(sparsemax_kernel,
          {.type = type, .cols = cols, .block = block, .ctas = block == 8192 ? 2 : 1},
          {{"y", y}, {"x", x}});
      EXPECT_TRUE(close(y.values(), expected, gate_e(type)));
    }
  });
}

TEST(AuthorKernels, DropoutKeepsExpectedShareAndBackwardReusesMask) {
  for (DType type : kFloats) {
    const int64_t n = 8 * 2048 + 3;
    const double p = 0.25;
    Tensor x(type, {n}), y(type, {n}), d_y(type, {n}), d_x(type, {n});
    x.fill(Values(n, 3.0));
    d_y.fill(Random(8).normals(n));
    const auto scalars = [&](int64_t seed) {
      return Arguments().number("p", p).integer("seed", seed);
    };
    run(dropout_kernel, {.type = type}, {{"y", y}, {"x", x}}, scalars(11));
    run(dropout_kernel, {.type = type, .block = 256}, {{"y", d_x}, {"x", d_y}}, scalars(11));
    double kept = 0, pairs = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool keep = y.get(i) != 0;
      ASSERT_EQ(y.get(i), keep ? 4.0 : 0.0) << i;
      ASSERT_NEAR(d_x.get(i), keep ? d_y.get(i) / 0.75 : 0.0, 0.01 * std::abs(d_y.get(i))) << i;
      kept += keep;
      pairs += keep && i > 0 && y.get(i - 1) != 0;
    }
    // Within five standard deviations; adjacent elements are independent.
    EXPECT_NEAR(kept / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n));
    EXPECT_NEAR(pairs / n, (1 - p) * (1 - p), 5 * std::sqrt(0.5 / n));
    Tensor other(type, {n});
    run(dropout_kernel, {.type = type}, {{"y", other}, {"x", x}}, scalars(12));
    EXPECT_FALSE(other.same_bits(y));
  }
}

TEST(AuthorKernels, Top2) {
  const auto check = [](DType type, int64_t rows, Top2Meta meta) {
    SCOPED_TRACE(std::string(name(type)) + ", " + std::to_string(meta.cols) + " columns");
    meta.type = type;
    Tensor x = random_rows(type, rows, meta.cols, 9), values(type, {rows, 2}),
           indices(i32, {rows, 2});
    for (int64_t j = 0; j < meta.cols; ++j) {
      x.set(j, j % 7 == 3 ? 5.0 : -1.0);                           // ties
      x.set(meta.cols + j, j == meta.cols - 1 ? 0.0 : -INFINITY);  // only one finite element
      if (rows > 2) x.set(2 * meta.cols + j, -INFINITY);
    }
    run(top2_kernel, meta, {{"values", values}, {"indices", indices}, {"x", x}});
    for (int64_t r = 0; r < rows; ++r) {
      const Values row = row_of(x, r);
      std::vector<int64_t> order(row.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return row[a] > row[b]; });
      for (int i : {0, 1}) {
        EXPECT_EQ(indices.get_integer(2 * r + i), order[i]) << r << ", " << i;
        EXPECT_EQ(values.get(2 * r + i), row[order[i]]) << r << ", " << i;
      }
    }
  };
  for_rows([&](DType type, int64_t cols) { check(type, kRows, {.cols = cols, .block = 256}); });
  for (DType type : kFloats) {
    check(type, 37, {.cols = 60, .block = 64, .rows = 8});  // short rows share a program
    check(type, 37, {.cols = 8, .block = 8, .rows = 16});
  }
}

TEST(AuthorKernels, QuantizeInt8) {
  for_rows([](DType type, int64_t cols) {
    Tensor x = random_rows(type, kRows, cols, 10), q(i8, {kRows, cols}), scale(f32, {kRows});
    for (int64_t j = 0; j < cols; ++j) {
      x.set(cols + j, 0.0);
      x.set(2 * cols + j, j == 1 ? -127.0 : j % 9 + 0.5);  // the scale is 1: ties
    }
    run(quantize_int8_kernel, {.type = type, .cols = cols, .block = 256},
        {{"q", q}, {"scale", scale}, {"x", x}});
    for (int64_t r = 0; r < kRows; ++r) {
      double most = 0;
      for (double v : row_of(x, r)) most = std::max(most, std::abs(v));
      EXPECT_NEAR(scale.get(r), most / 127, 1e-6 * most + 1e-30) << r;
      for (int64_t j = 0; j < cols; ++j) {
        const int64_t i = r * cols + j, found = q.get_integer(i);
        const double steps = most > 0 ? x.get(i) * 127 / most : 0;
        ASSERT_NEAR(found, steps, 0.5 + 1e-4) << i;
        ASSERT_TRUE(r == 0 || found == std::nearbyint(steps))
            << i << ": " << found << ", expected " << steps;
      }
    }
  });
}

TEST(AuthorKernels, BiasGelu) {
  for_rows([](DType type, int64_t cols) {
    const int64_t rows = kRows * 4 + 1;
    if (rows * cols > backend().budget()) return;
    const BiasGeluMeta meta{.type = type, .cols = cols, .block = 256, .rows = 4};
    const Tensor x = random_rows(type, rows, cols, 12, 0, 2.0),
                 d_y = random_rows(type, rows, cols, 13);
    const Tensor bias = random_vector(f32, cols, 14);
    Tensor y(type, {rows, cols}), d_x(type, {rows, cols}), parts(f32, {2, cols}),
        d_bias(f32, {cols});
    run(bias_gelu_kernel, meta, {{"y", y}, {"x", x}, {"bias", bias}});
    run(bias_gelu_backward_kernel, meta,
        {{"d_x", d_x}, {"parts", parts}, {"d_y", d_y}, {"x", x}, {"bias", bias}});
    run(bias_gelu_d_bias_kernel, meta, {{"d_bias", d_bias}, {"parts", parts}});
    const double c = std::sqrt(2 / M_PI), a = 0.044715;
    Values forward, backward, column(cols, 0.0);
    for (int64_t i = 0; i < rows * cols; ++i) {
      const double v = x.get(i) + bias.get(i % cols), t = std::tanh(c * (v + a * v * v * v));
      forward.push_back(v / 2 * (1 + t));
      backward.push_back(d_y.get(i) *
                         ((1 + t) / 2 + v / 2 * (1 - t * t) * c * (1 + 3 * a * v * v)));
      column[i % cols] += backward.back();
    }
    EXPECT_TRUE(close(y.values(), forward, gate_e2(type)));
    EXPECT_TRUE(close(d_x.values(), backward, gate_e2(type)));
    EXPECT_TRUE(close_normwise(d_bias.values(), column, gate_r(f32, rows)));
  });
}

TEST(AuthorKernels, Matmul) {
  for (DType type : kFloats) {
    for (auto [m, n, k] : {std::tuple(32, 64, 16), {19, 37, 23}, {70, 33, 5}}) {
      for (const int order : {0, 1, 2, 3}) {
        const bool columns = (order & 1) != 0, rows = (order & 2) != 0;
        const Tensor a = columns ? random_rows(type, k, m, 15) : random_rows(type, m, k, 15),
                     b = rows ? random_rows(type, n, k, 16) : random_rows(type, k, n, 16);
        Tensor c(type, {m, n});
        run(matmul_kernel,
            {.type = type,
             .block_m = 32,
             .block_n = 32,
             .warps = 2,
             .transposed_a = columns,
             .transposed_b = rows,
             .persistent = rows},
            {{"c", c}, {"a", a}, {"b", b}});
        Values expected(m * n, 0.0);
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j)
            for (int l = 0; l < k; ++l)
              expected[i * n + j] +=
                  a.get(columns ? l * m + i : i * k + l) * b.get(rows ? j * k + l : l * n + j);
        EXPECT_TRUE(close(c.values(), expected, gate_e(type)));
      }
    }
  }
}

// i8 is exact. tf32 keeps 11 significand bits of each f32 operand.
TEST(AuthorKernels, MatmulOfOtherPrecisions) {
  constexpr int64_t kM = 70, kN = 45, kK = 100;
  for (const DType type : {i8, f32})
    for (const bool rows : {false, true}) {
      Tensor a(type, {kM, kK}), b = rows ? Tensor(type, {kN, kK}) : Tensor(type, {kK, kN});
      Random random(17);
      for (Tensor* factor : {&a, &b})
        for (int64_t i = 0; i < factor->size(); ++i)
          factor->set(i,
                      type == i8 ? static_cast<double>(random.below(256) - 128) : random.normal());
      Tensor c(type == i8 ? i32 : f32, {kM, kN});
      run(matmul_kernel,
          {.type = type,
           .block_m = 32,
           .block_n = 32,
           .warps = 2,
           .transposed_b = rows,
           .tf32 = type == f32},
          {{"c", c}, {"a", a}, {"b", b}});
      for (int64_t i = 0; i < kM; ++i)
        for (int64_t j = 0; j < kN; ++j) {
          double sum = 0, size = 0;
          for (int64_t at = 0; at < kK; ++at) {
            const double product = a.get(i * kK + at) * b.get(rows ? j * kK + at : at * kN + j);
            sum += product, size += std::abs(product);
          }
          ASSERT_NEAR(c.get(i * kN + j), sum, type == i8 ? 0 : 0x1p-10 * size);
        }
    }
}

struct Heads {
  int64_t heads, queries, keys, dim, group;
  bool causal;
};

TEST(AuthorKernels, FlashAttention) {
  for (DType type : kFloats) {
    for (const Heads& h :
         {Heads{2, 50, 50, 32, 1, true}, {4, 33, 70, 64, 2, true}, {2, 40, 21, 16, 1, false}}) {
      const auto random = [&](int64_t heads, int64_t rows, uint64_t seed) {
        return random_rows(type, heads * rows, h.dim, seed)
            .view({heads, rows, h.dim}, {rows * h.dim, h.dim, 1});
      };
      const Tensor q = random(h.heads, h.queries, 17), key = random(h.heads / h.group, h.keys, 18),
                   v = random(h.heads / h.group, h.keys, 19);
      Tensor o(type, {h.heads, h.queries, h.dim}), lse(f32, {h.heads, h.queries});
      const float scale = 0.3f;
      run(flash_attention_kernel,
          {.type = type,
           .dim = h.dim,
           .group = h.group,
           .causal = h.causal,
           .queries = 32,
           .keys = 16,
           .warps = 4},
          {{"o", o}, {"lse", lse}, {"q", q}, {"k", key}, {"v", v}},
          Arguments().number("scale", scale));
      Values expected, sums;
      for (int64_t row = 0; row < h.heads * h.queries; ++row) {
        const int64_t first = row / h.queries / h.group * h.keys;
        const int64_t seen = h.causal ? row % h.queries + h.keys - h.queries + 1 : h.keys;
        Values weights(seen);
        double total = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double s = 0;
          for (int64_t d = 0; d < h.dim; ++d)
            s += q.get(row * h.dim + d) * key.get((first + j) * h.dim + d);
          total += weights[j] = std::exp(scale * s);
        }
        sums.push_back(std::log(total));
        for (int64_t d = 0; d < h.dim; ++d) {
          double weighted = 0;
          for (int64_t j = 0; j < seen; ++j)
            weighted += weights[j] / total * v.get((first + j) * h.dim + d);
          expected.push_back(weighted);
        }
      }
      // The matmul uses weights rounded to the type; their sum uses unrounded ones.
      EXPECT_TRUE(close_normwise(o.values(), expected,
                                 type == f32   ? 1e-5
                                 : type == f16 ? 2e-3
                                               : 1e-2));
      EXPECT_TRUE(close(lse.values(), sums, gate_e(f32)));
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::author_kernels_test
