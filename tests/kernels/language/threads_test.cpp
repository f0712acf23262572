// Tests that the number of threads changes no bit of any result: partial results depend only on the
// shape.
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/optimizer/global_norm.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::threads_test {
namespace {

std::vector<Tensor> norm_results() {
  const int64_t n = 301, h = 130;
  kernels::RmsNormOptions o;
  o.cols = h;
  o.type = bf16;
  Tensor x = random_rows(bf16, n, h, 1), d_y = random_rows(bf16, n, h, 2),
         weight = random_vector(f32, h, 3, 0.5, 1.0);
  Tensor y = Tensor::rows(bf16, n, h), d_x = Tensor::rows(bf16, n, h), rstd(f32, {n}),
         d_weight(f32, {h});
  const Arguments args = Arguments()
                             .tensor("x", x)
                             .tensor("y", y)
                             .tensor("weight", weight)
                             .tensor("rstd", rstd)
                             .tensor("d_y", d_y)
                             .tensor("d_x", d_x)
                             .tensor("d_weight", d_weight)
                             .number("eps", 1e-6)
                             .number("offset", 0);
  backend().run(kernels::rms_norm_forward(machine(), o), n, args);
  backend().run(kernels::rms_norm_backward(machine(), o), n, args);
  return {y, rstd, d_x, d_weight};
}

std::vector<Tensor> layer_norm_results() {
  const int64_t n = 301, h = 130;
  kernels::LayerNormOptions o;
  o.cols = h;
  Tensor x = random_rows(f32, n, h, 1), d_y = random_rows(f32, n, h, 2),
         weight = random_vector(f32, h, 3, 0.5, 1.0);
  Tensor y = Tensor::rows(f32, n, h), d_x = Tensor::rows(f32, n, h), mean(f32, {n}), rstd(f32, {n});
  Tensor d_weight(f32, {h}), d_bias(f32, {h});
  const Arguments args = Arguments()
                             .tensor("x", x)
                             .tensor("y", y)
                             .tensor("weight", weight)
                             .tensor("bias", weight)
                             .tensor("mean", mean)
                             .tensor("rstd", rstd)
                             .tensor("d_y", d_y)
                             .tensor("d_x", d_x)
                             .tensor("d_weight", d_weight)
                             .tensor("d_bias", d_bias)
                             .number("eps", 1e-6);
  backend().run(kernels::layer_norm_forward(machine(), o), n, args);
  backend().run(kernels::layer_norm_backward(machine(), o), n, args);
  return {y, mean, rstd, d_x, d_weight, d_bias};
}

std::vector<Tensor> loss_results() {
  const int64_t n = 77, v = 300;
  kernels::CrossEntropyOptions o{.classes = v, .type = f32};
  o.with_gradient = true;
  Tensor logits = random_rows(f32, n, v, 4), d_logits = Tensor::rows(f32, n, v), loss(f32, {1});
  std::vector<int64_t> labels(n);
  for (int64_t i = 0; i < n; ++i) labels[i] = i;
  Tensor label_tensor = Tensor(i64, {n}).fill(labels),
         error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
  backend().run(kernels::cross_entropy(machine(), o), n,
                Arguments()
                    .tensor("logits", logits)
                    .tensor("d_logits", d_logits)
                    .tensor("loss", loss)
                    .tensor("labels", label_tensor)
                    .tensor("error", error)
                    .integer("ignore_index", -100));
  return {loss, d_logits};
}

std::vector<Tensor> gradient_results() {
  // Some rows have no index, some have a few, and some have more than a hundred.
  const int64_t n = 1700, vocabulary = 1000;
  Tensor d_out = random_rows(f32, n, 24, 5), d_table = Tensor::rows(f32, vocabulary, 24),
         partials(f32, {4, 2});
  std::vector<int64_t> indices(n);
  for (int64_t i = 0; i < n; ++i) indices[i] = i % 3 ? i * i % vocabulary : vocabulary - 1;
  backend().run(
      kernels::embedding_backward(machine(), {.cols = 24, .vocabulary = vocabulary, .type = f32}),
      n,
      Arguments()
          .tensor("d_out", d_out)
          .tensor("d_table", d_table)
          .tensor("indices", Tensor(i64, {n}).fill(indices)));
  Tensor x = random_vector(f32, 200000, 6);
  backend().run(kernels::sum_of_squares(machine(), {f32}), 200000,
                Arguments().tensor("x", x).tensor("partials", partials));
  return {d_table, partials};
}

TEST(Threads, AnyNumberGivesTheSameBits) {
  if (backend().name() == "interpreter") GTEST_SKIP() << "the interpreter has no threads";
  std::vector<std::vector<Tensor>> runs;
  for (int threads : {1, 2, 7}) {
    backend().set_threads(threads);
    runs.push_back(norm_results());
    for (const Tensor& t : layer_norm_results()) runs.back().push_back(t);
    for (const Tensor& t : loss_results()) runs.back().push_back(t);
    for (const Tensor& t : gradient_results()) runs.back().push_back(t);
  }
  backend().set_threads(0);
  for (size_t r = 1; r < runs.size(); ++r) {
    for (size_t i = 0; i < runs[0].size(); ++i)
      EXPECT_TRUE(runs[r][i].same_bits(runs[0][i])) << "run " << r << " result " << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test::threads_test
