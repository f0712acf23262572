// Compares gradients that are computed in blocks of columns with gradients of whole rows.
#include "kernels/cross_entropy/cross_entropy_columns.h"

#include <cmath>

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::cross_entropy_columns_test {
namespace {

using kernels::CrossEntropyOptions;
using kernels::Reduction;

struct Columns {
  DType type = f32;
  CrossEntropyCase c;
  bool bias = false, token_scaling = false, reports = false;

  CrossEntropyOptions options(int64_t classes) const {
    CrossEntropyOptions o;
    o.classes = classes;
    o.type = type;
    o.reduction = c.reduction == Reduce::none   ? Reduction::none
                  : c.reduction == Reduce::mean ? Reduction::mean
                                                : Reduction::sum;
    o.has_bias = bias;
    o.has_weight = !c.weight.empty();
    o.smoothing = c.smoothing != 0;
    o.lse_square = c.lse_square != 0;
    o.softcap = c.softcap != 0;
    o.quick_softcap = o.softcap && kernels::allows_quick_softcap(c.softcap, o.classes);
    o.with_d_loss = true;
    o.token_scaling = token_scaling;
    o.tempered = c.temperature > 0;
    o.with_d_entropy = !c.d_entropy.empty();
    return o;
  }
};

constexpr int64_t kRows = 9, kBad = 7;

// Row 3 is ignored; the label of row kBad is not a class.
void check(Columns problem, int64_t classes, int64_t width) {
  CrossEntropyCase& c = problem.c;
  c.n = kRows;
  c.classes = classes;
  SCOPED_TRACE(std::string(name(problem.type)) + " classes " + std::to_string(classes) + " width " +
               std::to_string(width) + " reduction " +
               std::to_string(static_cast<int>(c.reduction)));
  Random random(5);
  Tensor x = random_rows(problem.type, kRows, classes, 41, 0, 2.0);
  Tensor bias = random_vector(f32, classes, 42);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kRows; ++i) labels.push_back(random.below(classes));
  labels[3] = c.ignore_index;
  labels[kBad] = classes;
  c.upstream = c.reduction == Reduce::none ? Values(kRows, 1.5) : Values{1.5};
  Values z = x.values();
  for (int64_t i = 0; problem.bias && i < kRows * classes; ++i) z[i] += bias.get(i % classes);
  const CrossEntropyResult whole = cross_entropy_reference(z, labels, c);

  Tensor label_tensor = Tensor(i64, {kRows}).fill(labels),
         lse = Tensor(f32, {kRows}).fill(whole.lse);
  CrossEntropyCase losses = c;
  losses.d_entropy.clear();
  const CrossEntropyResult of_losses = cross_entropy_reference(z, labels, losses);
  Tensor entropy = Tensor(f32, {kRows}).fill(whole.entropy), d_entropy(f32, {kRows});
  if (!c.d_entropy.empty()) d_entropy.fill(c.d_entropy);
  Tensor weight(f32, {classes}),
      d_loss = Tensor(f32, {static_cast<int64_t>(c.upstream.size())}).fill(c.upstream);
  if (!c.weight.empty()) weight.fill(c.weight);
  double n = 0, s = 0, w = 0;
  for (int64_t label : labels) {
    n += label != c.ignore_index;
    if (!c.weight.empty() && label >= 0 && label < classes) s += c.weight[label];
  }
  for (double value : c.weight) w += value;
  Tensor counts = Tensor(f32, {4}).fill(Values{1 / n, 1 / (c.weight.empty() ? n : s), w, n});
  Tensor label_logit(f32, {kRows});
  const auto options = problem.options(classes);
  if (problem.token_scaling) {
    Arguments arguments;
    arguments.tensor("label_logit", label_logit).tensor("logits", x).tensor("labels", label_tensor);
    arguments.tensor("bias", bias)
        .number("softcap", c.softcap)
        .number("temperature", c.temperature);
    backend().run({{kernels::cross_entropy_label_logit(backend().machine(), options)}, {}}, kRows,
                  arguments);
  }
  const auto columns =
      kernels::cross_entropy_columns(backend().machine(), options, problem.reports);
  for (int64_t first = 0; first < classes; first += width) {
    const int64_t here = std::min(width, classes - first);
    Tensor block = Tensor::rows(problem.type, kRows, here, 3);
    Values part, expected;
    for (int64_t i = 0; i < kRows; ++i) {
      double factor = 1;  // token scaling: the label's probability
      if (problem.token_scaling && i != 3 && i != kBad)
        factor = std::exp(label_logit.get(i) - whole.lse[i]);
      for (int64_t j = first; j < first + here; ++j) {
        part.push_back(x.get(i * classes + j));
        const double of_loss = of_losses.d_logits[i * classes + j];
        expected.push_back(whole.d_logits[i * classes + j] + of_loss * (factor - 1));
      }
    }
    block.fill(part);
    Arguments arguments;
    arguments.tensor("logits", block).tensor("labels", label_tensor).tensor("lse", lse);
    arguments.tensor("label_logit", label_logit).tensor("bias", bias.view({here}, {1}, first));
    arguments.tensor("weight", weight).tensor("column_weight", weight.view({here}, {1}, first));
    arguments.tensor("d_loss", d_loss).tensor("counts", counts);
    arguments.integer("ignore_index", c.ignore_index).integer("first_column", first);
    arguments.number("label_smoothing", c.smoothing).number("lse_square_scale", c.lse_square);
    arguments.number("softcap", c.softcap).number("temperature", c.temperature);
    arguments.tensor("entropy", entropy).tensor("d_entropy", d_entropy);
    Tensor error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    arguments.tensor("error", error).integer("first_row", 1000);
    backend().run({{columns.step}, {}}, kRows * columns.column_blocks(here), arguments);
    Values got = block.values();
    for (int64_t j = 0; j < here; ++j) {
      EXPECT_EQ(got[3 * here + j], 0.0) << "ignored row";
      EXPECT_TRUE(std::isnan(got[kBad * here + j])) << "label is not a class";
      got[kBad * here + j] = expected[kBad * here + j] = 0;
    }
    const double gate = problem.type == f32 ? 1e-5 : problem.type == f16 ? 1e-3 : 6e-3;
    EXPECT_TRUE(close_normwise(got, expected, gate)) << "from column " << first;
    EXPECT_TRUE(block.untouched_outside());
    EXPECT_EQ(error.get_integer(0), problem.reports ? kernels::kErrorBase - 1000 - kBad : 0);
  }
}

Values class_weights(int64_t classes) {
  Values w = Random(13).normals(classes);
  for (double& value : w) value = static_cast<float>(0.1 + std::fabs(value));
  return w;
}

TEST(CrossEntropyColumns, Options) {
  const auto exact = [](double value) -> double { return static_cast<float>(value); };
  for (Reduce reduction : {Reduce::none, Reduce::mean, Reduce::sum}) {
    for (DType type : kFloats) check({type, {.reduction = reduction}}, 300, 128);
    check({f32, {.smoothing = exact(0.1), .reduction = reduction}}, 130, 128);
    check({f32, {.softcap = 3, .reduction = reduction}, true}, 130, 64);
    check({f32, {.lse_square = exact(1e-3), .reduction = reduction}, true}, 77, 77);
    check({f32, {.weight = class_weights(77), .reduction = reduction}}, 77, 20);
    check({f32,
           {.reduction = reduction, .temperature = 0.5, .d_entropy = Values(kRows, 0.75)},
           true,
           true},
          77, 20);
    check(
        {bf16,
         {.softcap = 4, .reduction = reduction, .temperature = 3, .d_entropy = Values(kRows, -2)}},
        77, 77);
    check({f32,
           {.smoothing = exact(0.2),
            .lse_square = exact(1e-3),
            .softcap = 4,
            .weight = class_weights(77),
            .reduction = reduction},
           true,
           true},
          77, 30);
  }
}

TEST(CrossEntropyColumns, BlocksOfManyTiles) {
  for (DType type : {f32, bf16}) {
    for (bool reports : {false, true})
      check({.type = type, .c = {.smoothing = static_cast<float>(0.1)}, .reports = reports}, 5003,
            4480);
  }
}

}  // namespace
}  // namespace ligerdsl::test::cross_entropy_columns_test
