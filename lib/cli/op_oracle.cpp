#include "lib/cli/op_oracle.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "interpreter/convert.h"
#include "kernels/oracle/attention.h"
#include "kernels/oracle/cross_entropy.h"
#include "kernels/oracle/divergence.h"
#include "kernels/oracle/dropout.h"
#include "kernels/oracle/elementwise.h"
#include "kernels/oracle/matmul.h"
#include "kernels/oracle/norm.h"
#include "kernels/oracle/softmax.h"
#include "kernels/oracle/sparsemax.h"
#include "kernels/oracle/vocab_parallel_cross_entropy.h"
#include "lib/cli/output.h"

namespace ligerdsl::cli {

namespace {

using oracle::Values;
using Expected = std::map<std::string, Expectation>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One operation's description and tensors, in the formulas' terms.
struct Call {
  const OpInstance& op;
  const TensorBytes& tensors;

  Call(const OpInstance& instance, const TensorBytes& before) : op(instance), tensors(before) {}
  // Made when a formula first asks: of a table of which a few rows are read they would be gigabytes.
  const Values& operator[](const std::string& name) const {
    static const Values none;
    const auto found = tensors.find(name);
    if (found == tensors.end()) return none;
    const auto [values, is_new] = values_.try_emplace(name);
    if (is_new) values->second = to_doubles(found->second, op.find(name)->dtype);
    return values->second;
  }
  Values row(const char* name, int64_t row, int64_t cols) const {
    const DType dtype = type(name);
    const auto bytes = static_cast<size_t>(cols * size_of(dtype));
    return to_doubles(tensors.at(name).substr(static_cast<size_t>(row) * bytes, bytes), dtype);
  }
  bool has(const char* name) const { return tensors.count(name) > 0; }
  double number(const char* name, double missing = 0) const { return op.number(name, missing); }
  int option(const char* name, int missing = 0) const { return static_cast<int>(number(name, missing)); }
  bool flag(const char* name) const { return op.number(name, 0) != 0; }
  int64_t size(const char* letter) const { return op.size(letter); }
  DType type(const char* name) const { return op.find(name)->dtype; }
  std::vector<int64_t> integers(const char* name) const {
    const Values& values = (*this)[name];
    return {values.begin(), values.end()};
  }
  // A sum over rows, added to what was there when the operation accumulates; `terms`: how what is summed is rounded.
  Expectation over_rows(const char* name, Values sums, DType terms = DType::f32,
                        const char* accumulate = "accumulate") const {
    const DType own = type(name);
    if (flag(accumulate)) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += (*this)[name][i];
    }
    return {std::move(sums), true, own == DType::f32 ? terms : own};
  }

 private:
  mutable std::map<std::string, Values> values_;
};

Expected vector_add(const Call& c) {
  Values out = c["a"];
  for (size_t i = 0; i < out.size(); ++i) out[i] += c["b"][i];
  return {{"out", {out}}};
}

Expected rms_norm_forward(const Call& c, const Values& x) {
  const auto r = oracle::rms_norm_oracle(x, c["weight"], c.size("N"), c.size("H"), c.number("eps"), c.number("offset"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

// A norm of the sum that is made first.
template <Expected (*norm)(const Call&, const Values&)>
Expected fused_add_forward(const Call& c) {
  Values sum = c["x"];
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = interpreter::round_to(c.type("sum"), sum[i] + c["residual"][i]);
  Expected expected = norm(c, sum);
  expected["sum"] = {std::move(sum)};
  return expected;
}

Expected rms_norm_backward(const Call& c, const char* x) {
  const auto g = oracle::rms_norm_gradient_oracle(c["d_y"], c[x], c["weight"], c["d_sum"], c["rstd"], c.size("N"),
                                                  c.size("H"), c.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const bool rounds_terms = c.option("casting") == LIGERDSL_CASTING_LLAMA;
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw, rounds_terms ? c.type(x) : DType::f32);
  return expected;
}

Expected modulated_rms_norm_forward(const Call& c) {
  const auto r = oracle::modulated_rms_norm_oracle(c["x"], c["weight"], c["scale"], c["shift"], c.size("N"),
                                                   c.size("H"), c.number("eps"), c.number("offset"));
  // Beside a shift, what casting rounds may be much of an element that is small.
  const bool rounds = c.option("casting") == LIGERDSL_CASTING_LLAMA && c.has("shift");
  return {{"y", {r.y, rounds, c.type("y")}}, {"rstd", {r.rstd}}};
}

Expected modulated_rms_norm_backward(const Call& c) {
  const auto g = oracle::modulated_rms_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["scale"], c["rstd"],
                                                            c.size("N"), c.size("H"), c.number("offset"));
  Expected expected = {{"d_x", {g.dx}}};
  const DType terms = c.option("casting") == LIGERDSL_CASTING_LLAMA ? c.type("x") : DType::f32;
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw, terms);
  if (c.has("d_scale")) expected["d_scale"] = c.over_rows("d_scale", g.d_scale, terms);
  if (c.has("d_shift")) expected["d_shift"] = c.over_rows("d_shift", g.d_shift);
  return expected;
}

Expected layer_norm_forward(const Call& c, const Values& x) {
  const Values bias = c.has("bias") ? c["bias"] : Values(static_cast<size_t>(c.size("H")));
  const auto r = oracle::layer_norm_oracle(x, c["weight"], bias, c.size("N"), c.size("H"), c.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

Expected layer_norm_backward(const Call& c, const char* x) {
  const auto g = oracle::layer_norm_gradient_oracle(c["d_y"], c[x], c["weight"], c["d_sum"], c["mean"], c["rstd"],
                                                    c.size("N"), c.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

oracle::GroupNormShape group_norm_shape(const Call& c) {
  return {c.size("N"), c.size("C"), c.size("K"), c.size("S")};
}

Expected group_norm_forward(const Call& c) {
  const auto r = oracle::group_norm_oracle(c["x"], c["weight"], c["bias"], group_norm_shape(c), c.number("eps"));
  return {{"y", {r.y}}, {"mean", {r.mean}}, {"rstd", {r.rstd}}};
}

Expected group_norm_backward(const Call& c) {
  const auto g =
      oracle::group_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["mean"], c["rstd"], group_norm_shape(c));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

Expected poly_norm_forward(const Call& c) {
  const auto r = oracle::poly_norm_oracle(c["x"], c["weight"], c["bias"], c.size("N"), c.size("H"), c.number("eps"));
  return {{"y", {r.y}}, {"rstd", {r.rstd}}};
}

Expected poly_norm_backward(const Call& c) {
  const auto g = oracle::poly_norm_gradient_oracle(c["d_y"], c["x"], c["weight"], c["rstd"], c.size("N"), c.size("H"));
  Expected expected = {{"d_x", {g.dx}}};
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.dw);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.db);
  return expected;
}

Expected dyt_forward(const Call& c) {
  return {{"y", {oracle::dyt_oracle(c["x"], c["alpha"][0], c["weight"], c["bias"])}}};
}

Expected dyt_backward(const Call& c) {
  const auto g = oracle::dyt_gradient_oracle(c["d_y"], c["x"], c["alpha"][0], c["weight"]);
  Expected expected = {{"d_x", {g.d_x}}};
  if (c.has("d_alpha")) expected["d_alpha"] = c.over_rows("d_alpha", g.d_alpha);
  if (c.has("d_weight")) expected["d_weight"] = c.over_rows("d_weight", g.d_weight);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", g.d_bias);
  return expected;
}

Expected bias_add_forward(const Call& c) {
  return {{"y", {oracle::bias_oracle(c["x"], c["bias"])}}};
}

Expected bias_add_backward(const Call& c) {
  return {{"d_bias", c.over_rows("d_bias", oracle::column_sums_oracle(c["d_y"], c.size("F")))}};
}

oracle::ActivationKind activation_kind(const Call& c) {
  return static_cast<oracle::ActivationKind>(static_cast<int>(c.number("kind")));
}

Expected activation_forward(const Call& c) {
  return {{"y", {oracle::activation_oracle(activation_kind(c), c["x"])}}};
}

Expected activation_backward(const Call& c) {
  Values d_x = oracle::activation_gradient_oracle(activation_kind(c), c["d_y"], c["x"]);
  for (size_t i = 0; c.flag("accumulate") && i < d_x.size(); ++i) d_x[i] += c["d_x"][i];
  return {{"d_x", {std::move(d_x)}}};
}

oracle::DropoutCase dropout_case(const Call& c) {
  const auto integer = [&](const char* name) { return c.op.integer(name, 0); };
  oracle::DropoutCase out{.p = c.number("p"), .seed = integer("seed"), .offset = integer("offset")};
  if (!c.flag("with_device_seed")) return out;
  out.seed = c.integers("device_seed")[0];
  out.offset += c.integers("device_offset")[0];
  return out;
}

Expected dropout_forward(const Call& c) {
  return {{"y", {oracle::dropout_oracle(c["x"], c["residual"], dropout_case(c))}}};
}

Expected dropout_backward(const Call& c) {
  return {{"d_x", {oracle::dropout_oracle(c["d_y"], c.flag("accumulate") ? c["d_x"] : Values(), dropout_case(c))}}};
}

// Half of the columns of rows of 2 f: 0 the gates, 1 the ups.
Values half_of(const Values& both, int64_t f, int64_t half) {
  Values out;
  out.reserve(both.size() / 2);
  for (auto row = both.begin(); row != both.end(); row += 2 * f)
    out.insert(out.end(), row + half * f, row + (half + 1) * f);
  return out;
}

Values joined(const Values& gate, const Values& up, int64_t f) {
  Values out;
  out.reserve(2 * gate.size());
  for (size_t at = 0; at < gate.size(); at += static_cast<size_t>(f)) {
    out.insert(out.end(), &gate[at], &gate[at] + f);
    out.insert(out.end(), &up[at], &up[at] + f);
  }
  return out;
}

Expected gated(const Call& c, bool silu, bool backward) {
  const int64_t f = c.size("F");
  const bool fused = c.flag("fused") && f > 0;
  const Values gate = fused ? half_of(c["gate_up"], f, 0) : c["gate"];
  const Values up = fused ? half_of(c["gate_up"], f, 1) : c["up"];
  const double gamma = c.number("gate_multiplier", 1), delta = c.number("down_multiplier", 1);
  if (!backward)
    return {{"out", {silu ? oracle::swiglu_oracle(gate, up, gamma, delta) : oracle::geglu_oracle(gate, up)}}};
  const auto g = silu ? oracle::swiglu_gradient_oracle(c["d_out"], gate, up, gamma, delta)
                      : oracle::geglu_gradient_oracle(c["d_out"], gate, up);
  return {{"d_gate", {g.d_gate}}, {"d_up", {g.d_up}}, {"d_gate_up", {fused ? joined(g.d_gate, g.d_up, f) : Values()}}};
}

Expected rope(const Call& c) {
  oracle::RopeCase r{.batch = c.size("B"),
                     .seq = c.size("S"),
                     .heads = c.size("A"),
                     .d = c.size("D"),
                     .rotary = static_cast<int64_t>(c.number("rotary_dim")),
                     .interleaved = c.option("layout") == LIGERDSL_ROPE_INTERLEAVED,
                     .sign = c.flag("inverse") ? -1.0 : 1.0};
  if (c.option("layout") == LIGERDSL_ROPE_MULTIMODAL) {
    r.time = static_cast<int64_t>(c.number("time_section")),
    r.height = static_cast<int64_t>(c.number("height_section"));
    r.width = static_cast<int64_t>(c.number("width_section"));
  }
  const bool complex = c.flag("complex_table");
  Values cos, sin;  // the first columns of the tables' rows
  for (int64_t row = 0; row < r.planes() * r.seq; ++row) {
    for (int64_t i = 0; i < r.angles(); ++i) {
      const auto at = static_cast<size_t>(row * r.d + (complex ? 2 * i : i));
      cos.push_back(c["cos"][at]);
      sin.push_back(complex ? c["cos"][at + 1] : c["sin"][at]);
    }
  }
  Expected expected = {{"q_out", {oracle::rope_oracle(c["q"], cos, sin, r)}}};
  r.heads = c.size("K");
  if (c.has("k")) expected["k_out"] = {oracle::rope_oracle(c["k"], cos, sin, r)};
  return expected;
}

Expected softmax(const Call& c, bool backward) {
  const int64_t n = c.size("N"), h = c.size("H");
  const auto queries = static_cast<int64_t>(c.flag("causal") ? c.number("n_queries") : 0);
  const double scale = c.number("scale", 1);
  if (!backward) return {{"y", {oracle::softmax_oracle(c["x"], n, h, scale, queries)}}};
  return {{"d_x", {oracle::softmax_gradient_oracle(c["d_y"], c["y"], n, h, scale, queries)}}};
}

Expected sparsemax_forward(const Call& c) {
  return {{"y", {oracle::sparsemax_oracle(c["x"], c.size("N"), c.size("H"))}}};
}

Expected sparsemax_backward(const Call& c) {
  return {{"d_x", {oracle::sparsemax_gradient_oracle(c["d_y"], c["y"], c.size("N"), c.size("H"))}}};
}

oracle::Reduce reduce_of(const Call& c) {
  const int reduction = c.option("reduction", LIGERDSL_REDUCTION_MEAN);
  return reduction == LIGERDSL_REDUCTION_NONE  ? oracle::Reduce::none
         : reduction == LIGERDSL_REDUCTION_SUM ? oracle::Reduce::sum
                                               : oracle::Reduce::mean;
}

oracle::CrossEntropyCase cross_entropy_case(const Call& c) {
  return {.n = c.size("N"),
          .classes = c.size("V"),
          .ignore_index = static_cast<int64_t>(c.number("ignore_index")),
          .smoothing = c.number("label_smoothing"),
          .lse_square = c.number("lse_square_scale"),
          .softcap = c.number("softcap"),
          .weight = c["class_weight"],
          .reduction = reduce_of(c),
          .upstream = c.has("d_loss") ? c["d_loss"] : Values{1.0},
          .temperature = c.number("temperature"),
          .d_entropy = c["d_entropy"]};
}

Expected cross_entropy(const Call& c) {
  const auto r = oracle::cross_entropy_oracle(c["logits"], c.integers("labels"), cross_entropy_case(c));
  return {{"loss", {r.loss}},      {"z_loss", {r.z_loss}},           {"accuracy", {r.accuracy}},
          {"lse", {r.lse}},        {"predictions", {r.predictions}}, {"d_logits", {r.d_logits}},
          {"entropy", {r.entropy}}};
}

oracle::VocabParallelCase vocab_parallel_case(const Call& c) {
  const auto integer = [&](const char* name) { return static_cast<int64_t>(c.number(name)); };
  const int64_t end = integer("first_class") + c.size("V"), total = integer("total_classes");
  return {.n = c.size("N"),
          .classes = c.size("V"),
          .first_class = integer("first_class"),
          .total_classes = total == 0 ? end : total,
          .ignore_index = integer("ignore_index"),
          .smoothing = c.number("label_smoothing", c.number("with_smoothing")),
          .shard_smoothing = c.flag("shard_smoothing"),
          .smooth_others = c.flag("smooth_others"),
          .shard = integer("shard"),
          .reduction = reduce_of(c),
          .upstream = c.has("d_loss") ? c["d_loss"] : Values{1.0}};
}

Expected vocab_parallel_partials(const Call& c) {
  return {{"partials",
           {oracle::vocab_parallel_partials_oracle(c["logits"], c.integers("labels"), vocab_parallel_case(c))}}};
}

Expected vocab_parallel_cross_entropy(const Call& c) {
  auto r = oracle::vocab_parallel_oracle(c["partials"], c["logits"], c.integers("labels"), vocab_parallel_case(c));
  return {{"loss", {std::move(r.loss)}}, {"d_logits", {std::move(r.d_logits)}}};
}

oracle::DivergenceCase divergence_case(const Call& c, oracle::DivergenceKind kind) {
  const int reduction = c.option("reduction", LIGERDSL_REDUCTION_BATCHMEAN);
  oracle::DivergenceCase which{.kind = kind,
                               .n = c.size("N"),
                               .cols = c.size("V"),
                               .reduction = reduction == LIGERDSL_REDUCTION_NONE  ? oracle::DivergenceReduce::none
                                            : reduction == LIGERDSL_REDUCTION_SUM ? oracle::DivergenceReduce::sum
                                            : reduction == LIGERDSL_REDUCTION_MEAN
                                                ? oracle::DivergenceReduce::mean
                                                : oracle::DivergenceReduce::batchmean,
                               .beta = c.number("beta"),
                               .eps = c.number("eps"),
                               .ignore_index = static_cast<int64_t>(c.number("ignore_index"))};
  if (c.has("labels")) which.labels = c.integers("labels");
  if (c.has("d_loss")) which.upstream = c["d_loss"];
  return which;
}

Expected divergence(const Call& c, oracle::DivergenceKind kind) {
  auto r = oracle::divergence_oracle(c["input"], c["target"], divergence_case(c, kind));
  return {{"loss", {std::move(r.loss)}}, {"d_input", {std::move(r.d_input)}}};
}

Expected kl_div(const Call& c) {
  return divergence(c, c.flag("log_target") ? oracle::DivergenceKind::kl_log_target : oracle::DivergenceKind::kl);
}

// Losses of rows weighed by the probability of their label, which is taken as a constant.
void scale_by_tokens(const oracle::CrossEntropyCase& which, const Values& logits, const std::vector<int64_t>& labels,
                     oracle::CrossEntropyResult* result) {
  oracle::CrossEntropyCase each = which;
  each.reduction = oracle::Reduce::none;
  const auto rows = oracle::cross_entropy_oracle(logits, labels, each);
  const bool none = which.reduction == oracle::Reduce::none;
  const double valid = oracle::counts_oracle(labels, which.ignore_index, which.weight)[3];
  const double inverse = oracle::counts_oracle(labels, which.ignore_index, which.weight)[1];
  const bool mean = which.reduction == oracle::Reduce::mean;
  result->loss.assign(none ? labels.size() : 1, 0.0);
  result->z_loss = result->loss;
  oracle::CrossEntropyCase losses = which;
  losses.d_entropy.clear();
  const Values of_losses = oracle::cross_entropy_oracle(logits, labels, losses).d_logits;
  for (size_t i = 0; i < labels.size(); ++i) {
    double p = 0;
    if (labels[i] != which.ignore_index && labels[i] >= 0 && labels[i] < which.classes) {
      const double x = logits[i * static_cast<size_t>(which.classes) + static_cast<size_t>(labels[i])];
      const double z = which.softcap > 0 ? which.softcap * std::tanh(x / which.softcap) : x;
      p = std::exp(z / (which.temperature > 0 ? which.temperature : 1) - rows.lse[i]);
    } else if (labels[i] != which.ignore_index) {
      p = kNan;
    }
    const double zeta = rows.z_loss[i] * (mean && valid > 0 ? 1 / valid : 1);
    const double loss = (rows.loss[i] - rows.z_loss[i]) * (mean ? inverse : 1) + zeta;
    result->loss[none ? i : 0] += p * loss;
    result->z_loss[none ? i : 0] += p * zeta;
    for (int64_t j = 0; j < which.classes; ++j) {
      const size_t at = i * static_cast<size_t>(which.classes) + static_cast<size_t>(j);
      result->d_logits[at] += (p - 1) * of_losses[at];
    }
  }
}

// x w^T of rows of h elements.
Values logits_of(const Values& x, const Values& w, int64_t n, int64_t v, int64_t h) {
  Values logits(n * v, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t k = 0; k < h; ++k) logits[i * v + j] += x[i * h + k] * w[j * h + k];
    }
  }
  return logits;
}

// d w and d^T x of d [n, v]: what a gradient of x w^T makes of both.
struct FactorGradients {
  Values d_x, d_weight;
};

FactorGradients factor_gradients(const Call& c, const Values& d, const Values& x, const Values& weight) {
  const int64_t n = c.size("N"), v = c.size("V"), h = c.size("H");
  FactorGradients out{Values(n * h, 0.0), Values(v * h, 0.0)};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < v; ++j)
      for (int64_t k = 0; k < h; ++k) {
        out.d_x[i * h + k] += d[i * v + j] * weight[j * h + k];
        out.d_weight[j * h + k] += d[i * v + j] * x[i * h + k];
      }
  return out;
}

void add_gradients(const Call& c, const Values& d, Expected* expected) {
  FactorGradients g = factor_gradients(c, d, c["x"], c["weight"]);
  const DType type = c.type("x");  // of the logits and their gradient on a GPU
  (*expected)["d_x"] = {std::move(g.d_x), true, type};
  if (c.has("d_weight")) (*expected)["d_weight"] = c.over_rows("d_weight", std::move(g.d_weight), type);
}

Values absolute(Values values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

double norm_of(const Values& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// And its backward, whose results are gradients alone.
Expected fused_linear_cross_entropy(const Call& c, const Values& lse, const Values& entropy) {
  const int64_t n = c.size("N"), v = c.size("V");
  Values logits = logits_of(c["x"], c["weight"], n, v, c.size("H"));
  for (int64_t i = 0; c.has("bias") && i < n * v; ++i) logits[i] += c["bias"][i % v];
  auto which = cross_entropy_case(c);
  which.lse = lse;
  which.entropy = entropy;
  auto r = oracle::cross_entropy_oracle(logits, c.integers("labels"), which);
  if (c.flag("use_token_scaling")) scale_by_tokens(which, logits, c.integers("labels"), &r);
  Values d_bias(v, 0.0);
  for (int64_t i = 0; i < n * v; ++i) d_bias[i % v] += r.d_logits[i];
  const DType type = c.type("x");
  Expected expected = {{"lse", {r.lse, false, type}},       {"loss", {r.loss, false, type}},
                       {"z_loss", {r.z_loss, false, type}}, {"accuracy", {r.accuracy}},
                       {"predictions", {r.predictions}},    {"entropy", {r.entropy, false, type}}};
  add_gradients(c, r.d_logits, &expected);
  if (c.has("d_bias")) expected["d_bias"] = c.over_rows("d_bias", d_bias, type);
  return expected;
}

Expected fused_linear_jsd(const Call& c) {
  const int64_t n = c.size("N"), v = c.size("V");
  const double temperature = c.number("temperature");
  const auto r = oracle::logit_divergence_oracle(logits_of(c["x"], c["weight"], n, v, c.size("H")),
                                                 logits_of(c["target_x"], c["target_weight"], n, v, c.size("T")),
                                                 divergence_case(c, oracle::DivergenceKind::jsd),
                                                 temperature == 0 ? 1 : temperature);
  Expected expected = {{"loss", {Values{r.loss}, false, c.type("x")}}};
  add_gradients(c, r.d_logits, &expected);
  const FactorGradients terms = factor_gradients(c, r.d_logits_terms, absolute(c["x"]), absolute(c["weight"]));
  expected["d_x"].norm = norm_of(terms.d_x);
  if (c.has("d_weight")) expected["d_weight"].norm = norm_of(terms.d_weight);
  return expected;
}

oracle::MatmulCase product_of(const Call& c, bool transposed_a, bool transposed_b) {
  oracle::MatmulCase which{.m = c.size("M"),
                           .n = c.size("N"),
                           .k = c.size("K"),
                           .transposed_a = transposed_a,
                           .transposed_b = transposed_b,
                           .alpha = c.number("alpha", 1),
                           .beta = c.number("beta")};
  if (const int epilogue = c.option("epilogue"); epilogue != LIGERDSL_EPILOGUE_NONE)
    which.f = static_cast<oracle::ActivationKind>(epilogue - 1);
  return which;
}

// The error of a sum is one of all that is added up, so it is measured in the norm of all elements.
template <bool transposed_a, bool transposed_b>
Expected matmul(const Call& c) {
  const oracle::MatmulCase which = product_of(c, transposed_a, transposed_b);
  const DType own = c.type("c");
  const Values before = which.beta != 0 ? c["c"] : Values{};
  return {{"c", {oracle::matmul_oracle(which, c["a"], c["b"], c["bias"], before), true, own}}};
}

Expected gated_matmul(const Call& c) {
  const auto kind = static_cast<oracle::ActivationKind>(c.option("activation"));
  auto made = oracle::gated_matmul_oracle(kind, c["x"], c["weight"], c.size("M"), c.size("F"), c.size("K"));
  const DType own = c.type("out");
  return {{"gate_up", {std::move(made.gate_up), true, own}}, {"out", {std::move(made.out), true, own}}};
}

// One matrix of c after the other.
template <bool transposed_a, bool transposed_b>
Expected batched_matmul(const Call& c) {
  const oracle::MatmulCase which = product_of(c, transposed_a, transposed_b);
  const auto matrix = [&](const char* name, int64_t number, int64_t elements) {
    const Values& all = c[name];
    return Values(all.begin() + number * elements, all.begin() + (number + 1) * elements);
  };
  Values made;
  for (int64_t i = 0; i < c.size("B"); ++i) {
    const Values one =
        oracle::matmul_oracle(which, matrix("a", i, which.m * which.k), matrix("b", i, which.k * which.n), c["bias"],
                              which.beta != 0 ? matrix("c", i, which.m * which.n) : Values{});
    made.insert(made.end(), one.begin(), one.end());
  }
  return {{"c", {made, true, c.type("c")}}};
}

// Every row by its number; as it is where there is none.
Values scaled_rows(Values matrix, const Values& scales, int64_t cols) {
  for (size_t i = 0; !scales.empty() && i < matrix.size(); ++i) matrix[i] *= scales[i / cols];
  return matrix;
}

Expected scaled_matmul(const Call& c) {
  const oracle::MatmulCase which{.m = c.size("M"), .n = c.size("N"), .k = c.size("K"), .transposed_b = true};
  const Values a = scaled_rows(c["a"], c["a_scale"], which.k), b = scaled_rows(c["b"], c["b_scale"], which.k);
  return {{"c", {oracle::matmul_oracle(which, a, b, c["bias"], {}), true, c.type("c")}}};
}

// Rows [begin, end) of a matrix.
Values rows_between(const Values& matrix, int64_t begin, int64_t end, int64_t cols) {
  return {matrix.begin() + begin * cols, matrix.begin() + end * cols};
}

template <bool transposed_b>
Expected grouped_matmul(const Call& c) {
  const int64_t n = c.size("N"), k = c.size("K");
  const std::vector<int64_t> offsets = c.integers("offsets");
  Values expected(static_cast<size_t>(c.size("M") * n), 0.0);
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const auto e = static_cast<int64_t>(group);
    const oracle::MatmulCase which{
        .m = offsets[group + 1] - offsets[group], .n = n, .k = k, .transposed_b = transposed_b};
    const Values rows = oracle::matmul_oracle(which, rows_between(c["a"], offsets[group], offsets[group + 1], k),
                                              rows_between(c["b"], e, e + 1, n * k), {}, {});
    std::copy(rows.begin(), rows.end(), expected.begin() + offsets[group] * n);
  }
  return {{"c", {std::move(expected), true, c.type("c")}}};
}

Expected grouped_matmul_tn(const Call& c) {
  const int64_t m = c.size("M"), n = c.size("N");
  const std::vector<int64_t> offsets = c.integers("offsets");
  Values expected;
  for (size_t group = 0; group + 1 < offsets.size(); ++group) {
    const int64_t begin = offsets[group], end = offsets[group + 1];
    const oracle::MatmulCase which{.m = m, .n = n, .k = end - begin, .transposed_a = true};
    const Values one =
        oracle::matmul_oracle(which, rows_between(c["a"], begin, end, m), rows_between(c["b"], begin, end, n), {}, {});
    expected.insert(expected.end(), one.begin(), one.end());
  }
  return {{"c", c.over_rows("c", std::move(expected), c.type("c"))}};
}

// Without batch, queries and keys.
oracle::AttentionCase attention_heads(const Call& c) {
  const double scale = c.number("scale");
  return {.heads = c.size("A"),
          .kv_heads = c.size("K"),
          .dim = c.size("D"),
          .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(c.size("D"))),
          .cap = c.number("softcap"),
          .left = c.option("window_left"),
          .right = c.flag("causal") ? 0 : c.option("window_right")};
}

oracle::AttentionCase attention_case(const Call& c) {
  oracle::AttentionCase which = attention_heads(c);
  which.batch = c.size("B"), which.queries = c.size("S"), which.keys = c.size("T");
  return which;
}

oracle::AttentionSequences attention_sequences(const Call& c) {
  return {.of_all = attention_heads(c), .queries = c.integers("cu_seqlens_q"), .keys = c.integers("cu_seqlens_k")};
}

// Weights are rounded before they are multiplied: errors are those of sums.
template <class Which>
Expected attention_forward(const Call& c, const Which& which) {
  const auto r = oracle::attention_oracle(which, c["q"], c["k"], c["v"]);
  return {{"o", {r.o, true, c.type("o")}}, {"lse", {r.lse}}};
}

template <class Which>
Expected attention_backward(const Call& c, const Which& which) {
  const auto g = oracle::attention_gradient_oracle(which, c["q"], c["k"], c["v"], c["o"], c["d_o"], c["lse"]);
  const DType own = c.type("q");
  return {{"d_q", {g.dq, true, own}}, {"d_k", {g.dk, true, own}}, {"d_v", {g.dv, true, own}}};
}

// Rows times one factor or one of each row.
Expected scaled(const Call& c, const char* out, const char* in, const char* factors, const char* columns) {
  Values x = c[in];
  const Values& factor = c[factors];
  const auto cols = static_cast<size_t>(c.size(columns));
  for (size_t i = 0; i < x.size(); ++i) x[i] *= factor[factor.size() == 1 ? 0 : i / cols];
  return {{out, {std::move(x)}}};
}

Expected target_counts(const Call& c) {
  const auto ignored = static_cast<int64_t>(c.number("ignore_index"));
  return {{"counts", {oracle::counts_oracle(c.integers("labels"), ignored, c["class_weight"])}}};
}

Expected embedding_forward(const Call& c) {
  const int64_t h = c.size("H"), v = c.size("V");
  const bool positions = c.has("position_weight");
  Values out;
  int64_t i = 0;
  for (const int64_t index : c.integers("indices")) {
    const int64_t position = positions ? i++ % c.size("P") : 0;
    const Values row = index < 0 || index >= v ? Values(static_cast<size_t>(h), kNan) : c.row("weight", index, h);
    for (int64_t j = 0; j < h; ++j) out.push_back(row[j] + (positions ? c["position_weight"][position * h + j] : 0));
  }
  return {{"out", {out}}};
}

Expected embedding_backward(const Call& c) {
  Values sums = oracle::embedding_gradient_oracle(c["d_out"], c.integers("indices"), c.size("V"), c.size("H"));
  Expected expected = {{"d_weight", c.over_rows("d_weight", std::move(sums))}};
  if (!c.has("d_position_weight")) return expected;
  Values positions = oracle::position_gradient_oracle(c["d_out"], c.size("N"), c.size("P"), c.size("H"));
  expected["d_position_weight"] =
      c.over_rows("d_position_weight", std::move(positions), DType::f32, "accumulate_positions");
  return expected;
}

Expected adamw_step(const Call& c) {
  const double clip = c.has("clip_factor") ? c["clip_factor"][0] : 1;
  const double lr = c.has("device_lr") ? c["device_lr"][0] : c.number("lr");
  const auto step = static_cast<int64_t>(c.has("device_step") ? c["device_step"][0] : c.number("step"));
  const auto s = oracle::adamw_oracle({c["param"], c["m"], c["v"]}, c["grad"], clip, lr, c.number("beta1"),
                                      c.number("beta2"), c.number("eps"), c.number("weight_decay"), step);
  return {{"param", {s.p}}, {"m", {s.m}}, {"v", {s.v}}, {"param_copy", {s.p}}};
}

Expected global_norm(const Call& c) {
  double squares = 0;
  for (const auto& [name, bytes] : c.tensors) {
    if (!name.starts_with("tensors[")) continue;
    for (const double value : c[name]) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  const double factor = std::fmin(1.0, c.number("max_norm") / (norm + 1e-6));
  return {{"norm", {{norm}}}, {"clip_factor", {{factor}}}, {"nonfinite", {{std::isfinite(norm) ? 0.0 : 1.0}}}};
}

const std::map<std::string, std::function<Expected(const Call&)>>& formulas() {
  static const std::map<std::string, std::function<Expected(const Call&)>> table = {
      {"vector_add", vector_add},
      {"scale", [](const Call& c) { return scaled(c, "out", "x", "factor", "H"); }},
      {"rms_norm_forward", [](const Call& c) { return rms_norm_forward(c, c["x"]); }},
      {"rms_norm_backward", [](const Call& c) { return rms_norm_backward(c, "x"); }},
      {"fused_add_rms_norm_forward", fused_add_forward<rms_norm_forward>},
      {"fused_add_rms_norm_backward", [](const Call& c) { return rms_norm_backward(c, "sum"); }},
      {"modulated_rms_norm_forward", modulated_rms_norm_forward},
      {"modulated_rms_norm_backward", modulated_rms_norm_backward},
      {"layer_norm_forward", [](const Call& c) { return layer_norm_forward(c, c["x"]); }},
      {"layer_norm_backward", [](const Call& c) { return layer_norm_backward(c, "x"); }},
      {"fused_add_layer_norm_forward", fused_add_forward<layer_norm_forward>},
      {"fused_add_layer_norm_backward", [](const Call& c) { return layer_norm_backward(c, "sum"); }},
      {"group_norm_forward", group_norm_forward},
      {"group_norm_backward", group_norm_backward},
      {"poly_norm_forward", poly_norm_forward},
      {"poly_norm_backward", poly_norm_backward},
      {"dyt_forward", dyt_forward},
      {"dyt_backward", dyt_backward},
      {"bias_add_forward", bias_add_forward},
      {"bias_add_backward", bias_add_backward},
      {"attention_forward", [](const Call& c) { return attention_forward(c, attention_case(c)); }},
      {"attention_backward", [](const Call& c) { return attention_backward(c, attention_case(c)); }},
      {"attention_varlen_forward", [](const Call& c) { return attention_forward(c, attention_sequences(c)); }},
      {"attention_varlen_backward", [](const Call& c) { return attention_backward(c, attention_sequences(c)); }},
      {"matmul_nn", matmul<false, false>},
      {"matmul_nt", matmul<false, true>},
      {"matmul_tn", matmul<true, false>},
      {"matmul_tt", matmul<true, true>},
      {"batched_matmul_nn", batched_matmul<false, false>},
      {"batched_matmul_nt", batched_matmul<false, true>},
      {"batched_matmul_tn", batched_matmul<true, false>},
      {"batched_matmul_tt", batched_matmul<true, true>},
      {"scaled_matmul_nt", scaled_matmul},
      {"grouped_matmul_nt", grouped_matmul<true>},
      {"grouped_matmul_nn", grouped_matmul<false>},
      {"grouped_matmul_tn", grouped_matmul_tn},
      {"gated_matmul_nt", gated_matmul},
      {"activation_forward", activation_forward},
      {"activation_backward", activation_backward},
      {"dropout_forward", dropout_forward},
      {"dropout_backward", dropout_backward},
      {"swiglu_forward", [](const Call& c) { return gated(c, true, false); }},
      {"swiglu_backward", [](const Call& c) { return gated(c, true, true); }},
      {"geglu_forward", [](const Call& c) { return gated(c, false, false); }},
      {"geglu_backward", [](const Call& c) { return gated(c, false, true); }},
      {"rope", rope},
      {"softmax_forward", [](const Call& c) { return softmax(c, false); }},
      {"softmax_backward", [](const Call& c) { return softmax(c, true); }},
      {"sparsemax_forward", sparsemax_forward},
      {"sparsemax_backward", sparsemax_backward},
      {"cross_entropy", cross_entropy},
      {"fused_linear_cross_entropy", [](const Call& c) { return fused_linear_cross_entropy(c, {}, {}); }},
      {"fused_linear_cross_entropy_backward",
       [](const Call& c) { return fused_linear_cross_entropy(c, c["lse"], c["entropy"]); }},
      {"cross_entropy_backward", [](const Call& c) { return scaled(c, "d_logits", "d_logits", "d_loss", "V"); }},
      {"vocab_parallel_cross_entropy_partials", vocab_parallel_partials},
      {"vocab_parallel_cross_entropy", vocab_parallel_cross_entropy},
      {"kl_div", kl_div},
      {"jsd", [](const Call& c) { return divergence(c, oracle::DivergenceKind::jsd); }},
      {"fused_linear_jsd", fused_linear_jsd},
      {"tvd", [](const Call& c) { return divergence(c, oracle::DivergenceKind::tvd); }},
      {"target_counts", target_counts},
      {"embedding_forward", embedding_forward},
      {"embedding_backward", embedding_backward},
      {"adamw_step", adamw_step},
      {"global_norm", global_norm}};
  return table;
}

}  // namespace

TensorBytes bytes_of(const OpInstance& instance) {
  TensorBytes bytes;
  for (const OpInstance::Slot& slot : instance.slots()) bytes[slot.name] = instance.read(slot);
  return bytes;
}

std::map<std::string, Expectation> formula(const OpInstance& instance, const TensorBytes& before) {
  const auto found = formulas().find(instance.info().name);
  if (found == formulas().end())
    throw Failure(kNothingFound, std::string(instance.info().name) + ": --check knows no formula of it");
  return found->second(Call{instance, before});
}

}  // namespace ligerdsl::cli
