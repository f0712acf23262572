// Every kernel that the model uses against its float64 formula, on random data at the model's own shapes.
//
// Inputs are rounded to the kernel's type first, so that an error here is the kernel's and not that of its input.
// Kernels that overwrite an input are compared with what the untouched input gives.
#include <fmt/format.h>

#include <cmath>

#include "check.h"
#include "oracle.h"
#include "random.h"

namespace train {
namespace {

using oracle::Array;

class KernelTable {
 public:
  KernelTable(const ModelConfig& config, int64_t batch, Ops& ops)
      : c_(config),
        batch_(batch),
        rows_(batch * config.context),
        ops_(ops),
        type_(ops.on_gpu() ? Type::bf16 : Type::f32) {
    const bool bf16 = type_ == Type::bf16;
    elementwise_ = bf16 ? Gate{8e-3, 1e-4} : Gate{1e-5, 1e-6};
    twice_rounded_ = bf16 ? Gate{1.6e-2, 1e-4} : Gate{1e-5, 1e-6};
    probability_ = bf16 ? Gate{8e-3, 1e-6} : Gate{1e-5, 1e-7};
    reduction_ = bf16 ? Gate{5e-3, 0, true} : Gate{rows_ <= 16384 ? 2e-6 : 1e-5, 0, true};
  }

  std::vector<Comparison> run() {
    embedding();
    norms();
    rope();
    softmax();
    swiglu();
    cross_entropy();
    optimiser();
    ops_.check();
    return std::move(out_);
  }

 private:
  struct Data {
    Tensor tensor;
    Array values;
  };

  Data random(std::initializer_list<int64_t> shape, Type type, double mean = 0, double deviation = 1) {
    Tensor t = ops_.allocate(type, shape);
    std::vector<double> values(t.size());
    for (double& v : values) v = mean + deviation * random_normal(0x6b65726eu, draws_++);
    return {t, fill(ops_, t, std::move(values))};
  }
  Data random(std::initializer_list<int64_t> shape) { return random(shape, type_); }
  std::vector<int64_t> random_ids(const Tensor& to) {
    std::vector<int64_t> ids(to.size());
    for (int64_t& id : ids) id = random_bits(0x696473u, draws_++) % c_.vocab;
    ops_.upload(to, ids.data());
    return ids;
  }
  Tensor like(const Tensor& t) { return ops_.allocate(t.type, {t.size()}).view({t.shape[0], t.size() / t.shape[0]}); }

  void add(const char* name, const char* output, const Tensor& got, const Array& expected, Gate gate, int64_t row = 0) {
    std::string shape = fmt::format("{}", fmt::join(got.shape.begin(), got.shape.begin() + got.rank, "x"));
    out_.push_back(compare(name, output, shape, fetch(ops_, got), expected, gate, row));
  }

  void embedding() {
    Data table = random({c_.vocab, c_.width}), dout = random({rows_, c_.width});
    Tensor ids = ops_.allocate(Type::i64, {rows_}), out = like(dout.tensor),
           dtable = ops_.allocate(Type::f32, {c_.vocab, c_.width});
    std::vector<int64_t> indices = random_ids(ids);
    ops_.embedding(out, table.tensor, ids);
    add("embedding", "out", out, oracle::embedding(table.values, indices, c_.width), elementwise_);
    ops_.embedding_backward(dtable, dout.tensor, ids);
    add("embedding backward", "d_table", dtable, oracle::embedding_backward(dout.values, indices, c_.vocab, c_.width),
        reduction_);
  }

  void norms() {
    Data x = random({rows_, c_.width}), residual = random({rows_, c_.width}), dy = random({rows_, c_.width}),
         dsum = random({rows_, c_.width}), w = random({c_.width}, type_, 1, 0.2);
    Tensor y = like(x.tensor), sum = like(x.tensor), dx = like(x.tensor), rstd = ops_.allocate(Type::f32, {rows_}),
           dw = ops_.allocate(Type::f32, {c_.width});
    ops_.rms_norm(y, rstd, x.tensor, w.tensor, c_.norm_eps);
    oracle::Norm norm = oracle::rms_norm(x.values, w.values, c_.norm_eps);
    add("rms_norm", "y", y, norm.y, elementwise_);
    add("rms_norm", "rstd", rstd, norm.rstd, {1e-5, 1e-6});
    ops_.rms_norm_backward(dx, dw, dy.tensor, x.tensor, w.tensor, rstd);
    oracle::NormGradients g = oracle::rms_norm_backward(dy.values, x.values, w.values, norm.rstd);
    add("rms_norm backward", "d_x", dx, g.dx, elementwise_);
    add("rms_norm backward", "d_weight", dw, g.dw, reduction_);

    ops_.add_rms_norm(y, sum, rstd, x.tensor, residual.tensor, w.tensor, c_.norm_eps);
    add("add_rms_norm", "sum", sum, oracle::add(x.values, residual.values), elementwise_);
    Array seen = fetch(ops_, sum);  // the norm is of the rounded sum
    norm = oracle::rms_norm(seen, w.values, c_.norm_eps);
    add("add_rms_norm", "y", y, norm.y, elementwise_);
    g = oracle::rms_norm_backward(dy.values, seen, w.values, norm.rstd);
    Array expected = oracle::add(g.dx, dsum.values);
    ops_.add_rms_norm_backward(dsum.tensor, dw, dy.tensor, dsum.tensor, sum, w.tensor, rstd);
    add("add_rms_norm backward", "d_x", dsum.tensor, expected, elementwise_);
    add("add_rms_norm backward", "d_weight", dw, g.dw, reduction_);
  }

  void rope() {
    int64_t d = c_.head_dim(), row = c_.qkv_width();
    Data qkv = random({rows_, row});
    std::vector<double> cosines, sines;
    for (int64_t i = 0; i < c_.context * d; ++i) {
      double angle = (i / d) * std::pow(c_.rope_base, -2.0 * (i % d % (d / 2)) / d);
      cosines.push_back(std::cos(angle));
      sines.push_back(std::sin(angle));
    }
    Tensor cos = ops_.allocate(Type::f32, {c_.context, d}), sin = ops_.allocate(Type::f32, {c_.context, d});
    fill(ops_, cos, cosines);
    fill(ops_, sin, sines);
    auto heads = [&](int64_t first, int64_t count) {
      return qkv.tensor.strided({batch_, c_.context, count, d}, {c_.context * row, row, d, 1}, first * d);
    };
    for (bool inverse : {false, true}) {
      Array expected = fetch(ops_, qkv.tensor);
      oracle::rope(expected, batch_, c_.context, c_.heads + c_.kv_heads, d, row, c_.rope_base, inverse ? -1 : 1);
      ops_.rope(heads(0, c_.heads), heads(c_.heads, c_.kv_heads), cos, sin, inverse);
      add(inverse ? "rope backward" : "rope", inverse ? "d_q, d_k" : "q, k", qkv.tensor, expected, elementwise_);
    }
  }

  void softmax() {
    int64_t t = c_.context;
    double scale = 1 / std::sqrt(static_cast<double>(c_.head_dim()));
    Data x = random({batch_ * c_.heads, t, t}, type_, 0, 3), dy = random({batch_ * c_.heads, t, t});
    ops_.causal_softmax(x.tensor, scale);
    add("causal_softmax", "y", x.tensor, oracle::causal_softmax(x.values, t, scale), elementwise_);
    Array expected = oracle::causal_softmax_backward(dy.values, fetch(ops_, x.tensor), t, scale);
    ops_.causal_softmax_backward(dy.tensor, x.tensor, scale);
    add("causal_softmax backward", "d_x", dy.tensor, expected, probability_);
  }

  void swiglu() {
    Data gate_up = random({rows_, 2 * c_.ffn}), dout = random({rows_, c_.ffn});
    Tensor out = like(dout.tensor);
    ops_.swiglu(out, gate_up.tensor);
    add("swiglu", "out", out, oracle::swiglu(gate_up.values, c_.ffn), twice_rounded_);
    ops_.swiglu_backward(gate_up.tensor, dout.tensor);
    add("swiglu backward", "d_gate_up", gate_up.tensor, oracle::swiglu_backward(dout.values, gate_up.values, c_.ffn),
        twice_rounded_);
  }

  void cross_entropy() {
    Data logits = random({rows_, c_.vocab}, type_, 0, 3);
    Tensor labels = ops_.allocate(Type::i64, {rows_}), loss = ops_.allocate(Type::f32, {1});
    std::vector<int64_t> classes = random_ids(labels);
    ops_.cross_entropy(loss, logits.tensor, labels, true);
    oracle::Loss expected = oracle::cross_entropy(logits.values, classes, c_.vocab);
    add("cross_entropy", "loss", loss, {expected.loss}, {2e-6, 0});
    add("cross_entropy", "d_logits", logits.tensor, expected.dlogits, elementwise_, c_.vocab);
  }

  void optimiser() {
    int64_t n = ParameterLayout(c_).total;
    Data p = random({n}, Type::f32), g = random({n}, Type::f32, 0, 1e-2), m = random({n}, Type::f32, 0, 1e-2),
         v = random({n}, Type::f32, 1e-4, 1e-5);
    Tensor norm = ops_.allocate(Type::f32, {1}), factor = ops_.allocate(Type::f32, {1}), copy;
    if (type_ == Type::bf16) copy = ops_.allocate(Type::bf16, {n});
    ops_.global_norm(norm, factor, g.tensor, 1);
    double size = oracle::norm(g.values);
    add("global_norm", "norm", norm, {size}, {2e-6, 0});
    add("global_norm", "clip_factor", factor, {std::min(1.0, 1 / (size + 1e-6))}, {2e-6, 0});

    Ops::AdamW settings{3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};  // the kernel takes these as f32
    ops_.adamw(p.tensor, copy, g.tensor, m.tensor, v.tensor, factor, settings);
    oracle::adamw(
        p.values, g.values, m.values, v.values,
        {settings.lr, settings.beta1, settings.beta2, settings.eps, settings.weight_decay, fetch(ops_, factor)[0], 7});
    add("adamw", "parameters", p.tensor, p.values, {1e-5, 1e-6});
    add("adamw", "m", m.tensor, m.values, {1e-5, 1e-6});
    add("adamw", "v", v.tensor, v.values, {1e-5, 1e-6});
    if (copy.data) add("adamw", "copy", copy, p.values, elementwise_);
  }

  const ModelConfig& c_;
  const int64_t batch_, rows_;
  Ops& ops_;
  const Type type_;
  Gate elementwise_, twice_rounded_, probability_, reduction_;
  uint64_t draws_ = 0;
  std::vector<Comparison> out_;
};

}  // namespace

std::vector<Comparison> compare_kernels(const ModelConfig& config, int64_t batch, Ops& ops) {
  return KernelTable(config, batch, ops).run();
}

}  // namespace train
