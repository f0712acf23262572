#include "tests/every_op/cases.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "lib/src/op_info.h"

namespace ligerdsl::test {
namespace {

constexpr const char* kConfigurations[] = {
    "vector_add dtype=bf16",
    "vector_add in_place=1",
    "scale dtype=bf16",
    "scale dtype=f16 factor_dtype=f16 per_row=1 in_place=1",
    "rms_norm_forward dtype=bf16 casting=gemma",
    "rms_norm_forward dtype=f16 weight_dtype=none with_rstd=0",
    "rms_norm_backward dtype=bf16 d_weight_dtype=f32",
    "rms_norm_backward d_weight_dtype=f32 accumulate=1 in_place=1",
    "rms_norm_backward dtype=bf16 d_weight_dtype=f32 without_d_x=1",
    "fused_add_rms_norm_forward dtype=bf16",
    "fused_add_rms_norm_forward in_place=1",
    "fused_add_rms_norm_backward dtype=bf16 with_d_sum=1",
    "fused_add_rms_norm_backward with_d_sum=1 in_place=1",
    "fused_add_rms_norm_backward without_d_x=1 casting=none",
    "modulated_rms_norm_forward dtype=bf16",
    "modulated_rms_norm_forward casting=gemma offset=1 with_shift=0 K=1",
    "modulated_rms_norm_backward dtype=bf16 d_weight_dtype=f32",
    "modulated_rms_norm_backward in_place=1 accumulate=1",
    "modulated_rms_norm_backward without_d_x=1 d_scale_dtype=none",
    "layer_norm_forward dtype=bf16",
    "layer_norm_forward with_mean=0 with_rstd=0",
    "layer_norm_forward dtype=bf16 bias_dtype=none",
    "layer_norm_backward dtype=bf16",
    "layer_norm_backward dtype=bf16 d_bias_dtype=none",
    "layer_norm_backward d_weight_dtype=none d_bias_dtype=f32",
    "layer_norm_backward d_weight_dtype=f32 accumulate=1",
    "layer_norm_backward dtype=bf16 without_d_x=1",
    "layer_norm_backward dtype=bf16 without_d_x=1 d_weight_dtype=none d_bias_dtype=bf16",
    "fused_add_layer_norm_forward dtype=bf16",
    "fused_add_layer_norm_forward in_place=1 bias_dtype=none",
    "fused_add_layer_norm_backward dtype=bf16 with_d_sum=1",
    "fused_add_layer_norm_backward with_d_sum=1 in_place=1 d_bias_dtype=none",
    "fused_add_layer_norm_backward without_d_x=1 accumulate=1",
    "group_norm_forward dtype=bf16",
    "group_norm_forward with_mean=0 bias_dtype=none S=1 C=96",
    "group_norm_backward dtype=bf16 d_weight_dtype=f32",
    "group_norm_backward accumulate=1 in_place=1 S=1 C=96",
    "group_norm_backward without_d_x=1 d_bias_dtype=none",
    "group_norm_backward C=4 K=1 S=70000 dtype=bf16",
    "poly_norm_forward with_rstd=0",
    "poly_norm_backward dtype=bf16",
    "poly_norm_backward accumulate=1 in_place=1",
    "dyt_forward dtype=bf16",
    "dyt_forward bias_dtype=none in_place=1",
    "dyt_backward dtype=bf16 d_weight_dtype=f32",
    "dyt_backward without_d_x=1 d_weight_dtype=f32 accumulate=1",
    "bias_add_forward dtype=bf16",
    "bias_add_forward dtype=f16 bias_dtype=f32 in_place=1",
    "bias_add_backward dtype=bf16",
    "bias_add_backward d_bias_dtype=f32 accumulate=1",
    "matmul_nn dtype=bf16 c_dtype=f32",
    "matmul_nn beta=1 alpha=0.5 bias_dtype=f32",
    "matmul_nt dtype=f16 bias_dtype=f16 c_dtype=f16 epilogue=gelu_tanh",
    "matmul_nt",
    "matmul_tn dtype=bf16 c_dtype=f32 beta=1",
    "matmul_tn c_dtype=f32 epilogue=silu",
    "matmul_tt dtype=bf16 c_dtype=bf16",
    "batched_matmul_nn dtype=bf16 c_dtype=f32",
    "batched_matmul_nt dtype=f16 bias_dtype=f32 epilogue=relu",
    "batched_matmul_nt",
    "batched_matmul_tn dtype=bf16 c_dtype=f32 beta=1",
    "batched_matmul_tt dtype=bf16 alpha=0.5",
    "scaled_matmul_nt c_dtype=bf16",
    "scaled_matmul_nt dtype=f8e5m2 b_dtype=f8e4m3 c_dtype=f32 bias_dtype=f32 with_a_scale=1 with_b_scale=1",
    "scaled_matmul_nt b_dtype=f8e5m2 c_dtype=f16 fast_accumulation=1 with_b_scale=1",
    "grouped_matmul_nt dtype=bf16",
    "grouped_matmul_nt c_dtype=f32 index_dtype=i32",
    "grouped_matmul_nn dtype=f16",
    "grouped_matmul_tn dtype=bf16",
    "grouped_matmul_tn dtype=bf16 c_dtype=f32 accumulate=1 index_dtype=i32",
    "gated_matmul_nt dtype=bf16",
    "gated_matmul_nt with_gate_up=1",
    "gated_matmul_nt dtype=f16 activation=gelu_tanh with_gate_up=1",
    "gated_matmul_nt_backward dtype=bf16 with_out=1",
    "gated_matmul_nt_backward dtype=f16 activation=gelu_tanh",
    "gated_matmul_nt_backward activation=relu",
    "attention_forward dtype=bf16 causal=1 with_lse=1",
    "attention_forward window_left=5 window_right=2 softcap=3 D=24",
    "attention_forward dtype=f16 scale=0.5 D=96",
    "attention_backward dtype=bf16 causal=1",
    "attention_backward window_left=3 softcap=2 D=24 scale=0.2",
    "attention_varlen_forward dtype=bf16 causal=1 with_lse=1",
    "attention_varlen_forward window_left=5 window_right=2 softcap=3 D=24 index_dtype=i32",
    "attention_varlen_backward dtype=bf16 causal=1 index_dtype=i32",
    "attention_varlen_backward window_left=3 softcap=2 D=24 scale=0.2",
    "activation_forward dtype=bf16",
    "activation_forward kind=gelu_erf in_place=1",
    "activation_backward dtype=bf16 kind=gelu_erf",
    "activation_backward kind=relu_squared accumulate=1",
    "activation_backward kind=silu in_place=1",
    "dropout_forward dtype=bf16 p=0.1",
    "dropout_forward with_residual=1 in_place=1",
    "dropout_backward dtype=bf16 with_device_seed=1",
    "dropout_backward accumulate=1 F=701",
    "dropout_backward in_place=1",
    "swiglu_forward dtype=bf16 fused=1",
    "swiglu_forward",
    "swiglu_backward dtype=bf16",
    "swiglu_backward fused=1 in_place=1",
    "geglu_forward dtype=bf16",
    "geglu_forward fused=1",
    "geglu_backward dtype=f16",
    "geglu_backward fused=1 in_place=1",
    "rope dtype=bf16",
    "rope inverse=1 in_place=1 D=46",
    "rope layout=interleaved with_k=0",
    "rope layout=multimodal time_section=8 height_section=12 width_section=12",
    "softmax_forward dtype=bf16",
    "softmax_forward causal=1",
    "softmax_backward dtype=bf16",
    "softmax_backward in_place=1",
    "sparsemax_forward dtype=bf16",
    "sparsemax_forward in_place=1",
    "sparsemax_backward dtype=bf16",
    "sparsemax_backward in_place=1",
    "cross_entropy dtype=bf16 in_place=1",
    "cross_entropy reduction=none with_class_weight=1 with_z_loss=1 with_accuracy=1 with_predictions=1 with_lse=1"
    " label_smoothing=0.1 lse_square_scale=1e-4",
    "cross_entropy softcap=30 label_dtype=i32 with_d_logits=0",
    "cross_entropy without_loss=1 reduction=none",
    "cross_entropy dtype=bf16 temperature=0.5 with_entropy=1 with_d_entropy=1 with_d_loss=1",
    "fused_linear_cross_entropy dtype=bf16 d_weight_dtype=bf16",
    "fused_linear_cross_entropy without_loss=1 with_accuracy=1 with_d_loss=1",
    "fused_linear_cross_entropy dtype=bf16 d_weight_dtype=bf16 products=kernels",
    "fused_linear_cross_entropy_backward dtype=f16 d_weight_dtype=f32 products=kernels chunk_rows=2",
    "fused_linear_cross_entropy d_weight_dtype=f32 chunk_rows=2",
    "fused_linear_cross_entropy d_weight_dtype=f32 temperature=2 with_entropy=1 with_d_entropy=1",
    "fused_linear_cross_entropy dtype=bf16 d_weight_dtype=f32 with_lse=1 reduction=none",
    "fused_linear_cross_entropy_backward dtype=bf16 d_weight_dtype=bf16 reduction=none",
    "fused_linear_cross_entropy_backward d_weight_dtype=f32 bias_dtype=f32 d_bias_dtype=f32 chunk_rows=2 softcap=5",
    "fused_linear_cross_entropy_backward with_d_x=0 d_weight_dtype=f32 accumulate=1 label_smoothing=0.1 "
    "with_class_weight=1",
    "fused_linear_cross_entropy_backward in_place=1 d_weight_dtype=none use_token_scaling=1 lse_square_scale=0.01",
    "fused_linear_cross_entropy_backward dtype=bf16 weight_dtype=f32 d_weight_dtype=f32 temperature=2 with_d_entropy=1",
    "cross_entropy_backward dtype=bf16",
    "cross_entropy_backward per_row=1",
    "vocab_parallel_cross_entropy_partials dtype=bf16",
    "vocab_parallel_cross_entropy_partials with_smoothing=1 label_dtype=i32 total_classes=5000",
    "vocab_parallel_cross_entropy dtype=bf16 in_place=1",
    "vocab_parallel_cross_entropy reduction=mean label_smoothing=0.1 with_d_loss=1 first_class=400 total_classes=5000",
    "vocab_parallel_cross_entropy label_smoothing=0.1 shard_smoothing=1 smooth_others=1 with_d_logits=0 reduction=sum",
    "kl_div dtype=bf16",
    "kl_div target_dtype=bf16 log_target=1 reduction=none with_d_loss=1 loss_dtype=f16",
    "jsd dtype=bf16 label_dtype=i32 with_d_loss=1",
    "jsd beta=0.1 reduction=sum in_place=1 without_loss=1",
    "jsd beta=0 reduction=mean label_dtype=i64",
    "jsd beta=1 dtype=f16 with_d_input=0",
    "fused_linear_cross_entropy dtype=bf16 weight_dtype=f32 d_weight_dtype=f32",
    "fused_linear_jsd dtype=bf16 d_weight_dtype=bf16 label_dtype=i32 with_d_loss=1",
    "fused_linear_jsd beta=0 temperature=2 d_weight_dtype=f32 accumulate=1 chunk_rows=2",
    "fused_linear_jsd beta=1 without_loss=1 in_place=1 reduction=sum",
    "tvd dtype=bf16 target_dtype=f32 reduction=mean label_dtype=i64",
    "tvd reduction=none in_place=1",
    "target_counts",
    "target_counts with_class_weight=1 label_dtype=i32",
    "embedding_forward dtype=bf16",
    "embedding_forward index_dtype=i32",
    "embedding_forward dtype=bf16 with_position_weight=1 P=5",
    "embedding_forward dtype=bf16 first_row=10 total_rows=5000",
    "embedding_backward dtype=bf16 d_weight_dtype=bf16 first_row=10 total_rows=5000",
    "embedding_backward d_weight_dtype=f32 first_row=10 total_rows=5000 index_dtype=i32",
    "embedding_backward dtype=bf16 d_weight_dtype=bf16",
    "embedding_backward accumulate=1 d_weight_dtype=f32",
    "embedding_backward dtype=bf16 d_weight_dtype=f32 d_position_weight_dtype=f32 P=3",
    "embedding_backward d_weight_dtype=f32 d_position_weight_dtype=f32 accumulate_positions=1 P=5",
    "embedding_backward dtype=bf16 d_weight_dtype=bf16 d_position_weight_dtype=bf16 P=5",
    "adamw_step copy_dtype=bf16",
    "adamw_step dtype=bf16 grad_dtype=bf16 with_device_step=1",
    "adamw_step dtype=bf16 grad_dtype=bf16 copy_dtype=f16 with_device_step=1 skip_dtype=i32",
    "adamw_step skip_dtype=f32",
    "global_norm dtype=bf16 with_nonfinite=1",
    "global_norm with_nonfinite=1 with_steps=1 with_skipped=1",
    "global_norm",
};

// Returns sizes by letter for letters that the configuration does not set.
std::vector<std::string> sizes(const std::string& op, int64_t rows) {
  const auto size = [](const char* letter, int64_t value) { return std::string(letter) + "=" + std::to_string(value); };
  if (op == "vector_add" || op == "adamw_step" || op == "target_counts") return {size("N", 500 * rows + 3)};
  if (op == "global_norm") return {size("N", 500 * rows + 3), "T=3"};
  if (op == "rope") return {size("B", 2), size("S", (rows + 1) / 2), size("A", 4), size("K", 2), size("D", 64)};
  if (op.starts_with("attention_varlen_"))
    return {size("S", rows), size("T", rows + 3), size("U", 6), size("A", 4), size("K", 2), size("D", 64)};
  if (op.find("attention") == 0)
    return {size("B", 2), size("S", (rows + 1) / 2), size("T", (rows + 4) / 2), size("A", 4), size("K", 2),
            size("D", 64)};
  if (op.find("modulated_rms_norm") == 0) return {size("N", (rows + 2) / 3 * 3), size("K", 3), size("H", 520)};
  if (op.starts_with("gated_matmul_")) return {size("M", rows), size("K", 88), size("F", 136)};
  if (op.find("matmul_") != std::string::npos) {
    const bool transposed = op[op.size() - 2] == 't';
    std::vector<std::string> all{size(transposed ? "K" : "M", rows), size(transposed ? "M" : "K", 88), size("N", 136)};
    if (op.starts_with("grouped_")) all.push_back(size("E", 5));
    if (op.starts_with("batched_")) all.push_back(size("B", 3));
    return all;
  }
  std::vector<std::string> all{size("N", rows)};
  if (op.find("group_norm") == 0)
    return {size("N", std::min(rows, std::max<int64_t>((rows + 3) / 4, 2))), size("C", 24), size("S", 49),
            size("K", 3)};
  const auto has = [&](const char* letter) {
    for (const lib::OpInfo* info : lib::op_table()) {
      if (op != info->name) continue;
      for (const char* symbol : info->symbols)
        if (std::string(symbol) == letter) return true;
    }
    return false;
  };
  if (has("H")) all.push_back(size("H", 520));
  if (has("F")) all.push_back(size("F", 700));
  // AUTO computes heads with an odd V by our kernels, which take minutes in an emulator. Only the
  // emulator uses few rows.
  const bool has_library = op.starts_with("fused_linear_") && rows < 64;
  if (has("V")) all.push_back(size("V", has_library ? 1000 : 1003));
  return all;
}

}  // namespace

std::vector<Case> cases(int64_t rows, std::span<const char* const> more) {
  std::vector<const char*> texts(std::begin(kConfigurations), std::end(kConfigurations));
  texts.insert(texts.end(), more.begin(), more.end());
  std::vector<Case> all;
  for (const char* text : texts) {
    std::istringstream words(text);
    Case one;
    words >> one.op;
    one.settings = sizes(one.op, rows);
    for (std::string word; words >> word;) {
      const std::string name = word.substr(0, word.find('=') + 1);
      std::erase_if(one.settings, [&](const std::string& size) { return size.rfind(name, 0) == 0; });
      one.settings.push_back(word);
    }
    all.push_back(one);
  }
  return all;
}

std::string name_of(const Case& which) {
  std::string name = which.op;
  for (const std::string& setting : which.settings) {
    if (!std::isupper(static_cast<unsigned char>(setting[0]))) name += "_" + setting;
  }
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

std::vector<std::string> operations_without(const std::vector<Case>& list) {
  std::vector<std::string> missing;
  for (const lib::OpInfo* info : lib::op_table()) {
    const auto is_this = [&](const Case& which) { return which.op == info->name; };
    if (std::none_of(list.begin(), list.end(), is_this)) missing.push_back(info->name);
  }
  return missing;
}

}  // namespace ligerdsl::test
