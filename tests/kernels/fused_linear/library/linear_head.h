// Test problems of fused_linear_cross_entropy and its backward: data, a call, and float64 results.
#pragma once

#include <ligerdsl/ligerdsl.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "tests/kernels/class_weights.h"
#include "tests/kernels/fused_linear/library/linear_call.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {

struct Gradients {
  bool x = true, weight = true, bias = true;
};

// One problem: data, descriptor, results and expected results.
struct LinearHead {
  using Desc = ligerdsl_fused_linear_cross_entropy_desc_t;
  using Args = ligerdsl_fused_linear_cross_entropy_args_t;

  int64_t n, h, v;
  DType type;
  CrossEntropyCase c;
  Desc desc = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  std::vector<int64_t> labels;
  int64_t label_stride = 1;
  Tensor x, weight, bias, label_tensor, class_weight, d_loss;
  Tensor loss, z_loss, accuracy, predictions, d_x, d_weight, d_bias, entropy, d_entropy, lse;
  Values d_weight_before, d_bias_before;  // with accumulate
  double least_entropy_gate = 0;          // for logits whose f32 accumulators are less exact

  LinearHead(int64_t rows, int64_t cols, int64_t classes, DType of = f32,
             CrossEntropyCase with = {}, Gradients wanted = {}, int64_t gap = 0)
      : n(rows), h(cols), v(classes), type(of), c(with) {
    c.n = n;
    c.classes = v;
    x = random_rows(type, n, h, 21, gap);
    weight = random_rows(type, v, h, 22, gap, 1.0 / std::sqrt(static_cast<double>(h)));
    bias = random_vector(f32, v, 23);
    Random random(24);
    for (int64_t i = 0; i < n; ++i) labels.push_back(i % 5 == 4 ? c.ignore_index : random.below(v));
    class_weight = Tensor(f32, {v});
    if (!c.weight.empty()) class_weight.fill(c.weight);
    const Sizes reduced{c.reduction == Reduce::none ? n : 1};
    loss = Tensor(f32, reduced);
    z_loss = Tensor(f32, reduced);
    accuracy = Tensor(f32, reduced);
    predictions = Tensor(i64, {n});
    entropy = Tensor(f32, {n});
    lse = Tensor(f32, {n});
    d_entropy = Tensor(f32, {n});
    if (!c.d_entropy.empty()) d_entropy.fill(c.d_entropy);
    d_x = Tensor::rows(type, n, h, gap);
    d_weight = Tensor::rows(f32, v, h, gap);
    d_bias = Tensor(f32, {v});
    describe(wanted);
  }

  void describe(Gradients wanted) {
    desc.n_classes = v;
    desc.n_cols = h;
    desc.dtype = code_of(type);
    desc.label_dtype = LIGERDSL_I64;
    desc.products = products();
    desc.bias_dtype = LIGERDSL_F32;
    desc.with_d_x = wanted.x;
    desc.d_weight_dtype = wanted.weight ? LIGERDSL_F32 : 0;
    desc.d_bias_dtype = wanted.bias ? LIGERDSL_F32 : 0;
    desc.ignore_index = c.ignore_index;
    desc.reduction = c.reduction == Reduce::none  ? LIGERDSL_REDUCTION_NONE
                     : c.reduction == Reduce::sum ? LIGERDSL_REDUCTION_SUM
                                                  : LIGERDSL_REDUCTION_MEAN;
    desc.label_smoothing = static_cast<float>(c.smoothing);
    desc.lse_square_scale = static_cast<float>(c.lse_square);
    desc.softcap = static_cast<float>(c.softcap);
    desc.temperature = static_cast<float>(c.temperature);
    desc.with_entropy = desc.with_d_entropy = !c.d_entropy.empty();
    desc.with_class_weight = !c.weight.empty();
    desc.with_z_loss = 1;
    desc.with_accuracy = desc.with_predictions = 1;
  }

  void upstream(const Values& values) {
    c.upstream = values;
    desc.with_d_loss = 1;
    d_loss = Tensor(f32, {static_cast<int64_t>(values.size())}).fill(values);
  }

  // Keeps the weight in f32, as in training with a master weight.
  void keep_weight_in_f32() {
    desc.weight_dtype = LIGERDSL_F32;
    weight = random_rows(f32, v, h, 22, 0, 1.0 / std::sqrt(static_cast<double>(h)));
  }

  void set_d_weight_type(DType to) {
    desc.d_weight_dtype = code_of(to);
    d_weight = Tensor(to, {v, h});
  }

  // Ignores segments [first, end) of rows.
  void ignore(const std::vector<std::pair<int64_t, int64_t>>& segments) {
    for (const auto& [first, end] : segments)
      for (int64_t i = first; i < end; ++i) labels[i] = c.ignore_index;
  }
  void fill_ignored_rows(double value) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; labels[i] == c.ignore_index && j < h; ++j) x.set(i * h + j, value);
  }

  // Gives losses, class weights and the upstream gradient the dtype of x, with values that this
  // dtype can represent.
  void keep_small_tensors_in_type() {
    desc.loss_dtype = desc.class_weight_dtype = desc.d_loss_dtype = code_of(type);
    loss = Tensor(type, loss.shape());
    z_loss = Tensor(type, z_loss.shape());
    class_weight = Tensor(type, {v}).fill(c.weight);
    c.weight = class_weight.values();
    d_loss = Tensor(type, d_loss.shape()).fill(c.upstream);
    c.upstream = d_loss.values();
  }

  Args arguments(Transfer& transfer) {
    label_tensor = Tensor(i64, {n}, {label_stride}).fill(labels);
    Args args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_ARGS_INIT;
    args.x = transfer(x);
    args.weight = transfer(weight);
    if (desc.bias_dtype) args.bias = transfer(bias);
    args.labels = transfer(label_tensor);
    if (desc.with_class_weight) args.class_weight = transfer(class_weight);
    if (desc.with_d_loss) args.d_loss = transfer(d_loss);
    args.loss = transfer(loss);
    if (desc.with_z_loss) args.z_loss = transfer(z_loss);
    if (desc.with_accuracy) args.accuracy = transfer(accuracy);
    if (desc.with_predictions) args.predictions = transfer(predictions);
    if (desc.with_entropy) args.entropy = transfer(entropy);
    if (desc.with_d_entropy) args.d_entropy = transfer(d_entropy);
    if (desc.with_lse) args.lse = transfer(lse);
    if (desc.with_d_x) args.d_x = transfer(d_x);
    if (desc.d_weight_dtype) args.d_weight = transfer(d_weight);
    if (desc.d_bias_dtype) args.d_bias = transfer(d_bias);
    return args;
  }

  // Returns the status of execute; creating the plan must succeed.
  ligerdsl_status_t execute() {
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_cross_entropy_plan(context(), &desc, &plan));
    Transfer transfer;
    const Args args = arguments(transfer);
    const size_t answer = ligerdsl_plan_workspace_bytes_for(plan, n),
                 bytes = answer == SIZE_MAX ? 0 : answer;
    const ligerdsl_status_t status = ligerdsl_fused_linear_cross_entropy_execute(
        plan, &args, transfer.memory(bytes), bytes, nullptr);
    transfer.back();
    ligerdsl_plan_destroy(plan);
    return status;
  }
  void run() { require(execute()); }

  size_t workspace_bytes(int64_t rows) const {
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_cross_entropy_plan(context(), &desc, &plan));
    const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
    ligerdsl_plan_destroy(plan);
    return bytes;
  }

  Values logits() const {
    Values z = product_logits(x, weight, n, h, v);
    for (int64_t i = 0; desc.bias_dtype && i < n * v; ++i) z[i] += bias.get(i % v);
    return z;
  }

  bool with_gradient() const { return desc.with_d_x || desc.d_weight_dtype || desc.d_bias_dtype; }
  // Returns true if logits are stored between the steps.
  bool stores_logits() const {
    if (maker_of_products() == Products::library || (on_gpu() && type == f16)) return true;
    return with_gradient() && (desc.with_d_entropy || (c.smoothing > 0 && c.softcap > 0));
  }
  // Returns true if logits are rounded when stored, or come from a rounded weight.
  bool rounds_logits() const {
    return on_gpu() && type != f32 && (stores_logits() || desc.weight_dtype == LIGERDSL_F32);
  }

  double gate() const { return type == f32 ? 1e-5 : type == f16 ? 1e-3 : 6e-3; }
  // Logits rounded to 16 bits have an error of 0.01 at 5. A temperature below one and the logarithm
  // of the entropy increase this error.
  double loss_gate() const {
    if (desc.loss_dtype != 0) return gate();
    if (!rounds_logits()) return kGateLoss;
    return desc.temperature != 0 || desc.with_entropy ? 1e-2 : 2e-3;
  }

  // Compares all gradients with float64 gradients that are computed from d, the gradient of the
  // logits.
  void check_gradients(const Values& d) const {
    auto [to_x, to_weight] = product_gradients(d, x, weight, n, h, v);
    Values to_bias = d_bias_before;
    to_bias.resize(v);
    for (size_t i = 0; i < d_weight_before.size(); ++i) to_weight[i] += d_weight_before[i];
    for (size_t i = 0; i < d.size(); ++i) to_bias[i % v] += d[i];
    if (desc.with_d_x) {
      EXPECT_TRUE(close_normwise(d_x.values(), to_x, gate())) << "d_x";
    }
    if (desc.d_weight_dtype) {
      EXPECT_TRUE(close_normwise(d_weight.values(), to_weight, gate())) << "d_weight";
    }
    if (desc.d_bias_dtype) {
      EXPECT_TRUE(close_normwise(d_bias.values(), to_bias, gate())) << "d_bias";
    }
  }

  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " h=" + std::to_string(h) +
                 " v=" + std::to_string(v) + " chunk " + std::to_string(desc.chunk_rows) +
                 " reduction " + std::to_string(static_cast<int>(c.reduction)) + " smoothing " +
                 std::to_string(c.smoothing) + " z " + std::to_string(c.lse_square) + " cap " +
                 std::to_string(c.softcap));
    const Tensor x_before = x.clone();
    run();
    EXPECT_TRUE(x.same_bits(x_before));
    check_against(cross_entropy_reference(logits(), labels, c));
  }
  void check_against(const CrossEntropyResult& expected) {
    EXPECT_TRUE(close_loss(loss.values(), expected.loss, loss_gate())) << "loss";
    EXPECT_TRUE(close_loss(z_loss.values(), expected.z_loss, loss_gate())) << "z_loss";
    if (desc.with_entropy) {
      EXPECT_TRUE(
          close_loss(entropy.values(), expected.entropy, std::max(loss_gate(), least_entropy_gate)))
          << "entropy";
    }
    if (desc.with_lse) {
      EXPECT_TRUE(close_loss(lse.values(), expected.lse, loss_gate())) << "lse";
    }
    if (desc.with_accuracy && !rounds_logits()) {  // rounded logits may tie
      EXPECT_TRUE(close_loss(accuracy.values(), expected.accuracy)) << "accuracy";
      EXPECT_EQ(predictions.values(), expected.predictions);
    }
    check_gradients(expected.d_logits);
    for (const Tensor& t :
         {loss, z_loss, accuracy, predictions, entropy, d_x, d_weight, d_bias, lse})
      EXPECT_TRUE(t.untouched_outside());
  }
};

}  // namespace ligerdsl::test
