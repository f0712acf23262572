// Compares one training step, forward and backward, with the float64 model.
#include <fmt/format.h>

#include "check.h"
#include "random.h"
#include "reference.h"

namespace train {

std::vector<Comparison> compare_step(Model& model, Ops& ops, std::span<const int64_t> tokens,
                                     std::span<const int64_t> labels, uint64_t seed) {
  const ParameterLayout& layout = model.layout();
  std::vector<float> weights = initial_weights(layout, seed);
  // Norm weights are initially 1, which would hide a missing multiplication by them.
  for (int64_t i = layout.decayed; i < layout.total; ++i)
    weights[i] += 0.2f * static_cast<float>(random_normal(seed, i));
  model.set_weights(weights);
  Tensor loss = ops.allocate(Type::f32, {1});
  model.gradient_step(tokens, labels, loss);
  ops.check();

  std::vector<float> seen = model.seen_weights();
  ReferenceResult reference = reference_step(
      model.config(), layout, oracle::Array(seen.begin(), seen.end()), tokens, labels);
  // Errors of single kernels (2e-6 and below in f32) accumulate over the model's depth. In bf16
  // every activation is rounded.
  const bool bf16 = model.weight_copy().data != nullptr;
  const Gate loss_gate = bf16 ? Gate{5e-3, 0} : Gate{5e-6, 0};
  const Gate gradient_gate = bf16 ? Gate{5e-2, 0, true} : Gate{2e-5, 0, true};
  std::vector<Comparison> out = {
      compare("loss", "", "1", fetch(ops, loss), {reference.loss}, loss_gate)};
  std::vector<double> gradients = fetch(ops, model.gradients());
  for (const Parameter& p : layout.all) {
    auto part = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + p.offset, all.begin() + p.offset + p.size());
    };
    out.push_back(compare(p.name, "gradient", fmt::format("{}x{}", p.rows, p.cols), part(gradients),
                          part(reference.gradients), gradient_gate));
  }
  return out;
}

}  // namespace train
