#include "lib/cli/bench/bench_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/text/nearest.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using Cases = std::vector<BenchCase>;

struct Scale {
  bool cpu;
  int64_t rows;  // of every case; 0: the set's own
};

struct Model {
  const char* name;
  int64_t hidden, ffn, vocab, q_heads, k_heads, head_dim;
  const char* gate;
  const char* rope;
};

// bench/sets.py holds the same table for comparisons with peers; tests/bench compares the two.
constexpr Model kModels[] = {{"llama-3.2-1b", 2048, 8192, 128256, 32, 8, 64, "swiglu", "half"},
                             {"llama-3-8b", 4096, 14336, 128256, 32, 8, 128, "swiglu", "half"},
                             {"llama-3-70b", 8192, 28672, 128256, 64, 8, 128, "swiglu", "half"},
                             {"qwen2.5-7b", 3584, 18944, 152064, 28, 4, 128, "swiglu", "half"},
                             {"qwen2.5-72b", 8192, 29568, 152064, 64, 8, 128, "swiglu", "half"},
                             {"gemma-2-9b", 3584, 14336, 256000, 16, 8, 256, "geglu", "half"},
                             {"deepseek-v3", 7168, 18432, 129280, 128, 1, 64, "swiglu", "interleaved"}};

constexpr int64_t kWidths[] = {3584, 5120, 6144, 7168, 11008, 13824, 18944, 29568};
constexpr int64_t kVocabularies[] = {32000, 50257, 102400, 151936, 152064, 256000, 262144};

// Builds a list of cases, in f32 for a CPU and bf16 for a GPU.
class Builder {
 public:
  explicit Builder(const Scale& scale) : scale_(scale), dtype_(scale.cpu ? "dtype=f32" : "dtype=bf16") {}
  const std::string& dtype() const { return dtype_; }
  Cases take() { return std::move(cases_); }

  void one(std::string kernel, int64_t rows, std::vector<std::string> settings) {
    settings.insert(settings.begin(), {dtype_, size("N", rows_of(rows))});
    cases_.push_back({std::move(kernel), std::move(settings)});
  }
  // A kernel on a flat array; --rows does not change its size.
  void flat(std::string kernel, int64_t elements, std::vector<std::string> settings) {
    settings.push_back(size("N", elements));
    cases_.push_back({std::move(kernel), std::move(settings)});
  }
  // Activations without a gate.
  void activations(int64_t rows, int64_t width) {
    for (const char* kind : {"gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared"}) {
      const std::vector<std::string> settings = {fmt::format("kind={}", kind), size("F", width)};
      one("activation_forward", rows, settings);
      one("activation_backward", rows, settings);
    }
  }
  // Forward and backward of a row kernel; `letter`, H or F, is the size for `width`. Norms write
  // the weight's gradient in f32.
  void pair(const std::string& kernel, int64_t rows, const char* letter, int64_t width, bool norm = false) {
    one(fmt::format("{}_forward", kernel), rows, {size(letter, width)});
    std::vector<std::string> settings = {size(letter, width)};
    if (norm) settings.push_back("d_weight_dtype=f32");
    one(fmt::format("{}_backward", kernel), rows, settings);
  }
  // Matmul with operands of one dtype.
  void product(const std::string& op, int64_t rows, int64_t width, int64_t cols) {
    const bool transposed = op.ends_with("tn");
    cases_.push_back(
        {op,
         {dtype_, size(transposed ? "K" : "M", rows_of(rows)), size(transposed ? "M" : "K", width), size("N", cols)}});
  }
  // Gate and up projections, without and with the tensor for the backward pass, and the backward
  // pass.
  void gated_product(int64_t rows, int64_t width, int64_t cols) {
    for (const char* stored : {"with_gate_up=0", "with_gate_up=1"})
      cases_.push_back(
          {"gated_matmul_nt", {dtype_, stored, size("M", rows_of(rows)), size("K", width), size("F", cols)}});
    cases_.push_back({"gated_matmul_nt_backward",
                      {dtype_, "with_out=1", size("M", rows_of(rows)), size("K", width), size("F", cols)}});
  }
  // Matmul of fp8 operands with a scale for each row.
  void eight_bits(int64_t rows, int64_t width, int64_t cols) {
    cases_.push_back({"scaled_matmul_nt",
                      {"c_dtype=bf16", "with_a_scale=1", "with_b_scale=1", size("M", rows_of(rows)), size("K", width),
                       size("N", cols)}});
  }
  // Grouped matmuls of experts; each token is routed to eight.
  void experts(int64_t tokens, int64_t groups, int64_t width, int64_t cols) {
    const int64_t rows = 8 * rows_of(tokens);
    const std::string e = size("E", groups), n = size("N", cols);
    cases_.push_back({"grouped_matmul_nt", {dtype_, e, size("M", rows), size("K", width), n}});
    cases_.push_back({"grouped_matmul_nn", {dtype_, e, size("M", rows), size("K", width), n}});
    cases_.push_back({"grouped_matmul_tn", {dtype_, e, size("K", rows), size("M", width), n}});
  }
  // Group norm over channels of images.
  void group_norm(int64_t batch, int64_t channels, int64_t positions, int64_t groups) {
    for (const char* direction : {"forward", "backward"}) {
      std::vector<std::string> settings{dtype_, size("N", rows_of(batch)), size("C", channels), size("S", positions),
                                        size("K", groups)};
      if (*direction == 'b') settings.push_back("d_weight_dtype=f32");
      cases_.push_back({fmt::format("group_norm_{}", direction), std::move(settings)});
    }
  }
  void rope(int64_t batch, int64_t positions, int64_t q, int64_t k, int64_t d, const std::string& layout = "half") {
    for (const char* direction : {"inverse=0", "inverse=1"}) {
      cases_.push_back({"rope",
                        {dtype_, "table_dtype=f32", direction, fmt::format("layout={}", layout), size("B", batch),
                         size("S", positions), size("A", q), size("K", k), size("D", d)}});
    }
  }
  void attention(int64_t batch, int64_t tokens, int64_t q, int64_t k, int64_t d) {
    const std::vector<std::string> settings{dtype_,       size("B", batch), size("S", tokens), size("T", tokens),
                                            size("A", q), size("K", k),     size("D", d),      "causal=1"};
    for (const char* direction : {"forward", "backward"})
      cases_.push_back({fmt::format("attention_{}", direction), settings});
    cases_[cases_.size() - 2].settings.emplace_back("with_lse=1");
  }
  // Attention on sequences of at most `longest` tokens. Their lengths repeat a pattern of 0, 1, 2
  // and 3 parts (OpInstance).
  void sequences(int64_t count, int64_t tokens, int64_t longest, int64_t q, int64_t k, int64_t d) {
    const std::vector<std::string> settings{dtype_,
                                            size("U", count + 1),
                                            size("S", tokens),
                                            size("T", tokens),
                                            size("max_seqlen_q", longest),
                                            size("max_seqlen_k", longest),
                                            size("A", q),
                                            size("K", k),
                                            size("D", d),
                                            "index_dtype=i32",
                                            "causal=1"};
    for (const char* direction : {"forward", "backward"})
      cases_.push_back({fmt::format("attention_varlen_{}", direction), settings});
    cases_[cases_.size() - 2].settings.emplace_back("with_lse=1");
  }
  void loss(int64_t rows, int64_t classes) {
    one("cross_entropy", rows, {size("V", classes), "with_d_logits=0"});
    one("cross_entropy", rows, {size("V", classes), "in_place=1"});
  }
  // Cross entropy on one of `shards` shards of the vocabulary, with the statistics that an
  // all-gather returns.
  void shard(int64_t rows, int64_t classes, int64_t shards) {
    one("vocab_parallel_cross_entropy_partials", rows, {size("V", classes / shards)});
    one("vocab_parallel_cross_entropy", rows,
        {size("V", classes / shards), size("M", shards * rows_of(rows)), size("total_classes", classes), "in_place=1"});
  }
  int64_t rows_of(int64_t rows) const { return scale_.rows > 0 ? scale_.rows : rows; }
  static std::string size(const char* letter, int64_t value) { return fmt::format("{}={}", letter, value); }

 private:
  Scale scale_;
  std::string dtype_;
  Cases cases_;
};

// Returns every operation once, at a size that fills the device.
Cases standard(const Scale& scale) {
  Builder add(scale);
  const int64_t elements = scale.cpu ? int64_t{1} << 24 : int64_t{1} << 26, rows = 16384,
                width = scale.cpu ? 4096 : 8192, ffn = scale.cpu ? 4096 : 14336, classes = scale.cpu ? 32000 : 128256,
                losses = scale.cpu ? 512 : 4096;
  add.flat("vector_add", elements, {add.dtype()});
  add.one("scale", rows, {Builder::size("H", width), "in_place=1"});
  for (const char* norm : {"rms_norm", "fused_add_rms_norm", "layer_norm", "fused_add_layer_norm"})
    add.pair(norm, rows, "H", width, true);
  for (const char* norm : {"poly_norm", "dyt"}) add.pair(norm, rows, "H", width, true);
  for (const char* direction : {"forward", "backward"})
    add.one(fmt::format("modulated_rms_norm_{}", direction), rows, {Builder::size("H", width), "K=4"});
  add.group_norm(scale.cpu ? 2 : 32, 320, 4096, 32);
  for (const char* gate : {"swiglu", "geglu"}) add.pair(gate, rows, "F", ffn);
  add.pair("bias_add", rows, "F", ffn);
  add.product("matmul_nt", losses, width, width);
  add.product("matmul_nn", losses, width, width);
  add.product("matmul_tn", losses, width, width);
  add.eight_bits(losses, width, width);
  add.gated_product(losses, scale.cpu ? 1024 : 4096, ffn);
  add.experts(scale.cpu ? 64 : 8192, scale.cpu ? 8 : 128, scale.cpu ? 512 : 2048, scale.cpu ? 512 : 1536);
  add.activations(rows, ffn);
  add.pair("dropout", rows, "F", ffn);
  add.one("dropout_forward", rows, {Builder::size("F", ffn), "with_residual=1"});
  add.rope(scale.cpu ? 1 : 8, 2048, 32, 8, 128);
  add.attention(scale.cpu ? 1 : 4, scale.cpu ? 512 : 4096, 32, 8, 128);
  add.sequences(8, scale.cpu ? 1536 : 12288, scale.cpu ? 384 : 3072, 32, 8, 128);
  for (const char* kernel : {"softmax", "sparsemax"}) add.pair(kernel, rows, "H", width);
  add.loss(losses, classes);
  add.shard(losses, classes, 8);
  for (const char* divergence : {"kl_div", "jsd", "tvd"})
    add.one(divergence, losses, {Builder::size("V", classes), "with_d_input=1"});
  add.one("cross_entropy_backward", losses, {Builder::size("V", classes)});
  add.one("embedding_forward", 2 * rows, {Builder::size("V", classes), "H=2048"});
  add.one("embedding_backward", 2 * rows, {Builder::size("V", classes), "H=2048"});
  for (const char* head : {"fused_linear_cross_entropy", "fused_linear_cross_entropy_backward"})
    add.one(head, losses,
            {Builder::size("V", classes), Builder::size("H", scale.cpu ? 256 : 4096),
             scale.cpu ? "d_weight_dtype=f32" : "d_weight_dtype=bf16"});
  add.one("fused_linear_jsd", losses,
          {Builder::size("V", classes), Builder::size("H", scale.cpu ? 256 : 4096),
           Builder::size("T", scale.cpu ? 256 : 4096), scale.cpu ? "d_weight_dtype=f32" : "d_weight_dtype=bf16"});
  add.flat("adamw_step", elements, {"dtype=f32", "grad_dtype=f32", "copy_dtype=bf16"});
  add.flat("global_norm", elements, {"dtype=f32"});
  add.flat("target_counts", elements, {});
  return add.take();
}

// Returns the shapes of the speed goals.
Cases paper(const Scale& scale) {
  Builder add(scale);
  for (int64_t width : {2048, 4096, 8192, 16384}) add.pair("rms_norm", 16384, "H", width, true);
  for (int64_t width : {4096, 8192, 16384}) add.pair("layer_norm", 16384, "H", width, true);
  for (const char* gate : {"swiglu", "geglu"}) add.pair(gate, 16384, "F", 14336);
  add.rope(8, 2048, 32, 8, 128);
  add.rope(1, 16384, 64, 8, 128);
  add.loss(4096, 40960);
  add.loss(8192, 128256);
  add.loss(4096, 163840);
  for (const char* norm : {"rms_norm", "layer_norm"}) {
    add.pair(norm, 4096, "H", 65536, true);
    add.pair(norm, 2048, "H", 131072, true);
  }
  add.pair("rms_norm", 2048, "H", 4096, true);
  return add.take();
}

Cases widths(const Scale& scale) {
  Builder add(scale);
  for (int64_t classes : kVocabularies) add.loss(4096, classes);
  for (int64_t width : kWidths) {
    add.pair("rms_norm", 16384, "H", width, true);
    add.pair("layer_norm", 16384, "H", width, true);
    add.pair("swiglu", 8192, "F", width);
  }
  return add.take();
}

Cases layers_of(const Model& m, const Scale& scale) {
  Builder add(scale);
  const int64_t rows = add.rows_of(scale.cpu ? 1024 : 8192), positions = std::min<int64_t>(rows, 2048);
  add.pair("rms_norm", rows, "H", m.hidden, true);
  add.pair("fused_add_rms_norm", rows, "H", m.hidden, true);
  add.pair(m.gate, rows, "F", m.ffn);
  add.rope(std::max<int64_t>(rows / 2048, 1), positions, m.q_heads, m.k_heads, m.head_dim, m.rope);
  add.loss(rows, m.vocab);
  add.one("embedding_forward", rows, {Builder::size("V", m.vocab), Builder::size("H", m.hidden)});
  return add.take();
}

}  // namespace

std::vector<std::string> bench_set_names() {
  std::vector<std::string> names = {"standard", "paper", "widths"};
  for (const Model& model : kModels) names.push_back(model.name);
  return names;
}

namespace {

Cases cases_of(const std::string& set, const Scale& scale) {
  if (set == "standard") return standard(scale);
  if (set == "paper") return paper(scale);
  if (set == "widths") return widths(scale);
  for (const Model& model : kModels) {
    if (set == model.name) return layers_of(model, scale);
  }
  const std::vector<std::string> names = bench_set_names();
  throw Failure(kUsage, fmt::format("no set or model '{}'{}; there are {}", set, did_you_mean(set, names),
                                    fmt::join(names, ", ")));
}

}  // namespace

std::vector<BenchCase> bench_cases(const std::string& set, const BenchScale& scale) {
  if (scale.rows.empty()) return cases_of(set, {scale.cpu, 0});
  Cases all;
  for (const int64_t rows : scale.rows) {
    for (BenchCase& one : cases_of(set, {scale.cpu, rows})) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace ligerdsl::cli
