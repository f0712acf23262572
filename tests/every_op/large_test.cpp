// Every operation on more than 2^31 elements, and on more than 2^32 if that needs at most 60 GiB.
// Narrow operations also run on more than 2^31 rows. On a CPU and on the fake GPU, the same path
// runs with few elements and tests the check itself. apart_test.cpp covers distant rows.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "tests/every_op/large_run.h"

namespace ligerdsl::test {
namespace {

constexpr int64_t kFew = 1 << 14;

Limits limits() {
  return session().real_gpu() ? Limits{} : Limits{kFew};
}

// A prime number of elements, for one-dimensional tensors.
int64_t long_period() {
  return session().real_gpu() ? 65521 : 251;
}

double total(const std::vector<double>& values, const std::vector<double>& times) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * times[i];
  return sum;
}

// Combines target counts: 1/n, 1/S, W, n.
double counts(size_t index, const std::vector<double>& of_region, const std::vector<double>& times) {
  if (index == 2) return of_region[0];
  if (index == 3) return total(of_region, times);
  std::vector<double> inverse;
  for (const double value : of_region) inverse.push_back(1 / value);
  return 1 / total(inverse, times);
}

double norm(size_t, const std::vector<double>& of_region, const std::vector<double>& times) {
  std::vector<double> squares;
  for (const double value : of_region) squares.push_back(value * value);
  return std::sqrt(total(squares, times));
}

// Combines min(1, max_norm / (norm + 1e-6)) for max_norm = 1 and norms above it.
double clip_factor(size_t, const std::vector<double>& of_region, const std::vector<double>& times) {
  std::vector<double> norms;
  for (const double factor : of_region) norms.push_back(1 / factor);
  return 1 / norm(0, norms, times);
}

std::vector<LargeCase> large_cases() {
  const int64_t prime = long_period();
  const bool gpu = session().real_gpu();
  const auto size = [](const char* letter, int64_t value) {
    return std::string(letter).append("=").append(std::to_string(value));
  };
  const std::string h = size("H", gpu ? 4096 : 64), f = size("F", gpu ? 4096 : 64), v = size("V", gpu ? 4096 : 64);
  const auto row = [](const char* op, std::vector<std::string> settings) { return LargeCase{{op, settings}}; };
  const auto flat = [&](const char* op, std::vector<std::string> settings) {
    return LargeCase{.which = {op, settings}, .period = prime};
  };
  const auto narrow = [&](const char* op, std::vector<std::string> settings) {
    return LargeCase{.which = {op, settings}, .period = prime, .many_rows = true};
  };
  std::vector<LargeCase> all = {
      flat("vector_add", {"dtype=bf16"}),
      row("scale", {"dtype=bf16", h}),
      row("rms_norm_forward", {"dtype=bf16", h}),
      row("rms_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32"}),
      row("rms_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32", "without_d_x=1"}),
      row("fused_add_rms_norm_forward", {"dtype=bf16", h}),
      row("fused_add_rms_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32", "with_d_sum=1"}),
      row("layer_norm_forward", {"dtype=bf16", h}),
      row("layer_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32"}),
      row("layer_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32", "without_d_x=1"}),
      row("fused_add_layer_norm_forward", {"dtype=bf16", h}),
      row("fused_add_layer_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32", "with_d_sum=1"}),
      row("modulated_rms_norm_forward", {"dtype=bf16", h, "K=1"}),
      row("modulated_rms_norm_backward", {"dtype=bf16", h, "K=1", "d_weight_dtype=f32"}),
      row("group_norm_forward", {"dtype=bf16", "C=8", size("S", gpu ? 512 : 8), "K=2"}),
      row("group_norm_backward", {"dtype=bf16", "C=8", size("S", gpu ? 512 : 8), "K=2", "d_weight_dtype=f32"}),
      row("poly_norm_forward", {"dtype=bf16", h}),
      row("poly_norm_backward", {"dtype=bf16", h, "d_weight_dtype=f32"}),
      row("dyt_forward", {"dtype=bf16", h}),
      row("dyt_backward", {"dtype=bf16", h, "d_weight_dtype=f32"}),
      row("bias_add_forward", {"dtype=bf16", f}),
      row("bias_add_backward", {"dtype=bf16", f, "d_bias_dtype=f32"}),
      row("matmul_nn", {"dtype=bf16", size("K", gpu ? 4096 : 64), "N=64", "c_dtype=f32"}),
      row("matmul_nt", {"dtype=bf16", size("K", gpu ? 2048 : 32), size("N", gpu ? 4096 : 64)}),
      row("matmul_tn", {"dtype=bf16", size("M", gpu ? 4096 : 64), "N=64", "c_dtype=f32"}),
      row("scaled_matmul_nt", {size("K", gpu ? 4096 : 64), "N=64", "c_dtype=f32", "with_a_scale=1"}),
      row("grouped_matmul_nt", {"dtype=bf16", size("K", gpu ? 4096 : 64), "N=64", "E=1", "c_dtype=f32"}),
      row("grouped_matmul_nn", {"dtype=bf16", size("K", gpu ? 2048 : 32), size("N", gpu ? 4096 : 64), "E=1"}),
      row("grouped_matmul_tn", {"dtype=bf16", size("M", gpu ? 4096 : 64), "N=64", "E=1", "c_dtype=f32"}),
      row("gated_matmul_nt", {"dtype=bf16", size("K", gpu ? 4096 : 64), "F=32"}),
      row("gated_matmul_nt", {"dtype=bf16", size("K", gpu ? 1024 : 16), size("F", gpu ? 2048 : 32), "with_gate_up=1"}),
      row("gated_matmul_nt_backward", {"dtype=bf16", size("K", gpu ? 1024 : 16), size("F", gpu ? 2048 : 32), "with_out=1"}),
      row("activation_forward", {"dtype=bf16", f}),
      row("activation_backward", {"dtype=bf16", f, "kind=gelu_erf"}),
      row("dropout_forward", {"dtype=bf16", f, "p=0"}),  // a mask does not repeat with the rows
      row("dropout_backward", {"dtype=bf16", f, "p=0"}),
      row("swiglu_forward", {"dtype=bf16", f}),
      row("swiglu_backward", {"dtype=bf16", f}),
      row("swiglu_backward", {"dtype=bf16", size("F", gpu ? 2048 : 32), "fused=1"}),
      row("geglu_forward", {"dtype=bf16", f}),
      row("geglu_backward", {"dtype=bf16", f}),
      row("softmax_forward", {"dtype=bf16", h}),
      row("softmax_forward", {"dtype=bf16", h, "causal=1", "n_queries=61"}),
      row("softmax_backward", {"dtype=bf16", h}),
      row("sparsemax_forward", {"dtype=bf16", h}),
      row("sparsemax_backward", {"dtype=bf16", h}),
      row("cross_entropy", {"dtype=bf16", v, "reduction=none", "with_lse=1", "with_predictions=1"}),
      row("cross_entropy", {"dtype=bf16", v, "reduction=sum"}),
      row("cross_entropy_backward", {"dtype=bf16", v, "per_row=1"}),
      row("vocab_parallel_cross_entropy_partials", {"dtype=bf16", v}),
      row("vocab_parallel_cross_entropy", {"dtype=bf16", v}),
      row("kl_div", {"dtype=bf16", v, "reduction=none"}),
      row("jsd", {"dtype=bf16", v, "reduction=sum"}),
      row("tvd", {"dtype=bf16", v, "reduction=sum"}),
      row("embedding_forward", {"dtype=bf16", "V=1000", h}),
      row("embedding_backward", {"dtype=bf16", "V=100", h, "d_weight_dtype=f32"}),
      // All rows have one position, so its f32 gradient adds all rows one after the other.
      {.which = {"embedding_backward",
                 {"dtype=bf16", "V=100", h, "d_weight_dtype=f32", "d_position_weight_dtype=f32", "P=1"}},
       .sum_tolerance = 1e-3},
      flat("adamw_step", {"grad_dtype=bf16", "copy_dtype=bf16"}),
      flat("global_norm", {"dtype=bf16"}),
      flat("target_counts", {"label_dtype=i32", "with_class_weight=1", "V=1000"}),
      row("fused_linear_cross_entropy", {size("H", gpu ? 2048 : 64), "V=128", "reduction=sum", "d_weight_dtype=f32"}),
      row("fused_linear_cross_entropy_backward",
          {size("H", gpu ? 2048 : 64), "V=128", "reduction=sum", "d_weight_dtype=f32"}),
      row("fused_linear_jsd", {size("H", gpu ? 2048 : 64), "T=64", "V=128", "reduction=sum", "d_weight_dtype=f32"}),
      row("rope", {"dtype=bf16", size("S", gpu ? 16 : 2), size("A", gpu ? 8 : 2), "K=1", "D=64"}),
      row("attention_forward", {"dtype=bf16", size("S", gpu ? 16 : 2), size("T", gpu ? 16 : 2), size("A", gpu ? 8 : 2),
                                "K=1", "D=64", "causal=1", "with_lse=1"}),
      row("attention_backward", {"dtype=bf16", size("S", gpu ? 16 : 2), size("T", gpu ? 16 : 2), size("A", gpu ? 8 : 2),
                                 "K=1", "D=64", "causal=1"}),
      row("attention_varlen_forward", {"dtype=bf16", "T=70", size("A", gpu ? 8 : 2), "K=1", "D=64", "U=2",
                                       size("max_seqlen_q", gpu ? 1 << 24 : 1 << 12)}),
      narrow("scale", {"dtype=bf16", "H=2", "per_row=1"}),
      narrow("rms_norm_forward", {"dtype=bf16", "H=2"}),
      narrow("rms_norm_backward", {"dtype=bf16", "H=2", "d_weight_dtype=f32"}),
      narrow("rms_norm_backward", {"dtype=bf16", "H=2", "d_weight_dtype=f32", "without_d_x=1"}),
      narrow("layer_norm_forward", {"dtype=bf16", "H=2"}),
      narrow("modulated_rms_norm_forward", {"dtype=bf16", "H=2", "K=1"}),
      narrow("modulated_rms_norm_backward", {"dtype=bf16", "H=2", "K=1", "d_weight_dtype=f32"}),
      narrow("group_norm_forward", {"dtype=bf16", "C=2", "S=1", "K=1"}),
      narrow("group_norm_backward", {"dtype=bf16", "C=2", "S=1", "K=1", "d_weight_dtype=f32"}),
      narrow("bias_add_forward", {"dtype=bf16", "F=2"}),
      narrow("bias_add_backward", {"dtype=bf16", "F=2", "d_bias_dtype=f32"}),
      narrow("activation_forward", {"dtype=bf16", "F=2", "kind=relu"}),
      narrow("dropout_forward", {"dtype=bf16", "F=2", "p=0"}),
      narrow("swiglu_forward", {"dtype=bf16", "F=2"}),
      narrow("softmax_forward", {"dtype=bf16", "H=2"}),
      narrow("sparsemax_forward", {"dtype=bf16", "H=2"}),
      narrow("cross_entropy", {"dtype=bf16", "V=2", "reduction=none", "label_dtype=i32"}),
      narrow("vocab_parallel_cross_entropy_partials", {"dtype=bf16", "V=2", "label_dtype=i32"}),
      narrow("vocab_parallel_cross_entropy", {"dtype=bf16", "V=2", "label_dtype=i32"}),
      narrow("embedding_forward", {"dtype=bf16", "V=1000", "H=1", "index_dtype=i32"}),
      narrow("embedding_backward", {"dtype=bf16", "V=100", "H=1", "index_dtype=i32", "d_weight_dtype=f32"}),
  };
  for (LargeCase& one : all) {
    if (one.which.op == "rope" || one.which.op.starts_with("attention_")) one.rows = "B";
    if (one.which.op.starts_with("attention_varlen_")) one.rows = "S";
    const bool product = one.which.op.find("matmul_") != std::string::npos;
    if (product) one.rows = one.which.op.ends_with("tn") ? "K" : "M";
    if (one.which.op == "target_counts") one.combine["counts"] = counts;
    if (one.which.op == "global_norm") one.combine = {{"norm", norm}, {"clip_factor", clip_factor}};
    if (one.which.op == "fused_linear_cross_entropy_backward")
      one.weight_scale = gpu ? 1.0 / 64 : 1;  // lse may be any number
    // Matmuls of other sizes round differently.
    if (one.which.op.starts_with("fused_linear_") || product) one.tolerance = {1e-2, 1e-3}, one.sum_tolerance = 1e-3;
  }
  return all;
}

class Large : public testing::TestWithParam<LargeCase> {};

TEST_P(Large, EveryElementIsRight) {
  const ContextHandle context;
  LargeRun run(context, GetParam(), limits());
  const auto begin = std::chrono::steady_clock::now();
  if (!run.run()) GTEST_SKIP() << run.why_not();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(run.differences(), std::vector<std::string>());
  std::printf("%lld rows, %.2f s\n", static_cast<long long>(run.regions().rows()), took.count());
  // The check finds a single wrong element, also in the last row.
  for (const auto& [name, row] : run.row_results()) {
    const int64_t last = run.regions().rows() * row - 1;
    for (const int64_t element : {int64_t{0}, run.regions().all().back().first * row, last}) {
      run.damage(name, element);
      const std::vector<std::string> found = run.differences();
      ASSERT_EQ(found.size(), 1u) << name << ", element " << element;
      EXPECT_EQ(found[0].rfind(name + ": 1 of ", 0), 0u) << found[0];
      run.damage(name, element);
      if (session().real_gpu()) break;
    }
  }
}

std::string large_name(const testing::TestParamInfo<LargeCase>& info) {
  std::string name = info.param.many_rows ? "rows_" : "";
  name += name_of(info.param.which);
  return name;
}
INSTANTIATE_TEST_SUITE_P(EveryOp, Large, testing::ValuesIn(large_cases()), large_name);

// Exceptions:
// - matmul_tt: its b has one column per row. matmul_tn covers its a, and matmul_nt its b.
// - batched matmuls: a plan fixes the number of matrices, and matmul_* covers each of them.
// - attention_varlen_backward: its lse has one column per row. The forward pass covers its tensors.
TEST(LargeCases, CoverEveryOperation) {
  std::vector<Case> list;
  for (const LargeCase& one : large_cases()) list.push_back(one.which);
  EXPECT_EQ(operations_without(list),
            (std::vector<std::string>{"matmul_tt", "batched_matmul_nn", "batched_matmul_nt", "batched_matmul_tn",
                                      "batched_matmul_tt", "attention_varlen_backward"}));
}

TEST(LargeCases, RegionsAreWholePeriods) {
  const Regions regions(7, {20, 40}, 50);
  ASSERT_EQ(regions.all().size(), 3u);
  EXPECT_EQ(regions.all()[0].rows, 21);
  EXPECT_EQ(regions.all()[1].first, 21);
  EXPECT_EQ(regions.rows(), 56);
  EXPECT_EQ(regions.small_rows(), 21);
  EXPECT_EQ(regions.small_row(20), 6);
  EXPECT_EQ(regions.small_row(21), 7);
  EXPECT_EQ(regions.small_row(55), 20);
}

// A sum that lacks a region, or confuses two, exceeds its gate.
TEST(LargeCases, WrongSumsAreFound) {
  LargeCase wrong{.which = {"rms_norm_backward", {"H=64", "d_weight_dtype=f32"}}};
  wrong.combine["d_weight"] = [](size_t, const std::vector<double>& of_region, const std::vector<double>& times) {
    return total(of_region, times) - times.back() * of_region.back();
  };
  const ContextHandle context;
  LargeRun run(context, wrong, {kFew});
  ASSERT_TRUE(run.run()) << run.why_not();
  ASSERT_EQ(run.differences().size(), 1u);
  EXPECT_EQ(run.differences()[0].rfind("d_weight: ", 0), 0u);
}

}  // namespace
}  // namespace ligerdsl::test
