#include "ops.h"

#include <ligerdsl/ligerdsl.h>

#include <array>
#include <stdexcept>

namespace train {
namespace {

void require_success(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  throw std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " + ligerdsl_last_error());
}

int32_t dtype(Type type) {
  return type == Type::f32 ? LIGERDSL_F32 : type == Type::bf16 ? LIGERDSL_BF16 : LIGERDSL_I64;
}

// Describes the tensors of one call; what it returns lives as long as it does.
class Arguments {
 public:
  explicit Arguments(ligerdsl_device_t device) : device_(device) {}
  Arguments(const Arguments&) = delete;

  // NULL for an empty tensor.
  const ligerdsl_tensor_t* operator()(const Tensor& t) {
    if (!t.data) return nullptr;
    Slot& slot = slots_.at(used_++);
    slot.tensor = t;
    slot.described = ligerdsl_tensor_make(t.data, device_, dtype(t.type), t.rank, slot.tensor.shape.data());
    slot.described.strides = slot.tensor.stride.data();
    return &slot.described;
  }

 private:
  struct Slot {
    Tensor tensor;
    ligerdsl_tensor_t described;
  };
  ligerdsl_device_t device_;
  std::array<Slot, 8> slots_;
  size_t used_ = 0;
};

}  // namespace

struct Ops::Impl {
  ligerdsl_context_t context = nullptr;
  ligerdsl_stream_t stream = nullptr;
  ligerdsl_device_t device{LIGERDSL_CPU, 0};
  std::vector<void*> memory;
  int64_t bytes = 0;

  ~Impl() {
    for (void* data : memory) (void)!ligerdsl_buffer_free(context, data);
    if (stream) (void)!ligerdsl_stream_destroy(context, stream);
    ligerdsl_context_destroy(context);
  }
};

Ops::Ops(const std::string& device, int threads) : impl_(std::make_unique<Impl>()) {
  if (device != "cpu") impl_->device = {LIGERDSL_CUDA, std::stoi(device.substr(device.find(':') + 1))};
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = impl_->device;
  config.num_threads = threads;
  require_success(ligerdsl_context_create(&config, &impl_->context));
  if (on_gpu()) require_success(ligerdsl_stream_create(impl_->context, &impl_->stream));
}

Ops::~Ops() = default;

bool Ops::on_gpu() const {
  return impl_->device.type == LIGERDSL_CUDA;
}
int Ops::device_index() const {
  return impl_->device.id;
}
void* Ops::stream() const {
  return impl_->stream;
}
int64_t Ops::allocated_bytes() const {
  return impl_->bytes;
}

// ---- Memory
// ---------------------------------------------------------------------------------------------------------------

Tensor Ops::allocate(Type type, std::initializer_list<int64_t> shape) {
  Tensor t(nullptr, type, shape);
  require_success(ligerdsl_buffer_alloc(impl_->context, t.bytes(), &t.data));
  impl_->memory.push_back(t.data);
  impl_->bytes += t.bytes();
  require_success(ligerdsl_buffer_fill(impl_->context, t.data, 0, t.bytes(), impl_->stream));
  return t;
}

void Ops::upload(const Tensor& to, const void* from) {
  require_success(ligerdsl_buffer_copy(impl_->context, to.data, from, to.bytes(), impl_->stream));
}

void Ops::download(void* to, const Tensor& from) {
  require_success(ligerdsl_buffer_copy(impl_->context, to, from.data, from.bytes(), impl_->stream));
  require_success(ligerdsl_stream_sync(impl_->context, impl_->stream));
}

void Ops::check() {
  require_success(ligerdsl_context_check(impl_->context, impl_->stream));
}

// ---- Operations
// -----------------------------------------------------------------------------------------------------------

void Ops::embedding(const Tensor& out, const Tensor& table, const Tensor& ids) {
  Arguments tensor(impl_->device);
  ligerdsl_embedding_forward_desc_t desc = LIGERDSL_EMBEDDING_FORWARD_DESC_INIT;
  ligerdsl_embedding_forward_args_t args = LIGERDSL_EMBEDDING_FORWARD_ARGS_INIT;
  args.indices = tensor(ids);
  args.weight = tensor(table);
  args.out = tensor(out);
  require_success(ligerdsl_embedding_forward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids) {
  Arguments tensor(impl_->device);
  ligerdsl_embedding_backward_desc_t desc = LIGERDSL_EMBEDDING_BACKWARD_DESC_INIT;
  ligerdsl_embedding_backward_args_t args = LIGERDSL_EMBEDDING_BACKWARD_ARGS_INIT;
  args.indices = tensor(ids);
  args.d_out = tensor(d_out);
  args.d_weight = tensor(d_table);
  require_success(ligerdsl_embedding_backward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_rms_norm_forward_desc_t desc = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.eps = static_cast<float>(eps);
  desc.with_rstd = 1;
  ligerdsl_rms_norm_forward_args_t args = LIGERDSL_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.y = tensor(y);
  args.rstd = tensor(rstd);
  require_success(ligerdsl_rms_norm_forward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y, const Tensor& x,
                            const Tensor& weight, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_rms_norm_backward_desc_t desc = LIGERDSL_RMS_NORM_BACKWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.d_weight_dtype = LIGERDSL_F32;
  ligerdsl_rms_norm_backward_args_t args = LIGERDSL_RMS_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  require_success(ligerdsl_rms_norm_backward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::add_rms_norm(const Tensor& y, const Tensor& sum, const Tensor& rstd, const Tensor& x, const Tensor& residual,
                       const Tensor& weight, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_rms_norm_forward_desc_t desc = LIGERDSL_FUSED_ADD_RMS_NORM_FORWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.eps = static_cast<float>(eps);
  desc.with_rstd = 1;
  ligerdsl_fused_add_rms_norm_forward_args_t args = LIGERDSL_FUSED_ADD_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.residual = tensor(residual);
  args.weight = tensor(weight);
  args.y = tensor(y);
  args.sum = tensor(sum);
  args.rstd = tensor(rstd);
  require_success(ligerdsl_fused_add_rms_norm_forward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::add_rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y, const Tensor& d_sum,
                                const Tensor& sum, const Tensor& weight, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_rms_norm_backward_desc_t desc = LIGERDSL_FUSED_ADD_RMS_NORM_BACKWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.d_weight_dtype = LIGERDSL_F32;
  desc.with_d_sum = 1;
  desc.in_place = 1;
  ligerdsl_fused_add_rms_norm_backward_args_t args = LIGERDSL_FUSED_ADD_RMS_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.d_sum = tensor(d_sum);
  args.sum = tensor(sum);
  args.weight = tensor(weight);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  require_success(ligerdsl_fused_add_rms_norm_backward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse) {
  Arguments tensor(impl_->device);
  ligerdsl_rope_desc_t desc = LIGERDSL_ROPE_DESC_INIT;
  desc.inverse = inverse;
  desc.with_k = 1;
  desc.in_place = 1;
  ligerdsl_rope_args_t args = LIGERDSL_ROPE_ARGS_INIT;
  args.q = args.q_out = tensor(q);
  args.k = args.k_out = tensor(k);
  args.cos = tensor(cos);
  args.sin = tensor(sin);
  require_success(ligerdsl_rope(impl_->context, &desc, &args, impl_->stream));
}

void Ops::causal_softmax(const Tensor& x, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_forward_desc_t desc = LIGERDSL_SOFTMAX_FORWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  desc.causal = 1;
  desc.in_place = 1;
  ligerdsl_softmax_forward_args_t args = LIGERDSL_SOFTMAX_FORWARD_ARGS_INIT;
  args.x = args.y = tensor(x);
  require_success(ligerdsl_softmax_forward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::causal_softmax_backward(const Tensor& d_y, const Tensor& y, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_backward_desc_t desc = LIGERDSL_SOFTMAX_BACKWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  desc.causal = 1;
  desc.in_place = 1;
  ligerdsl_softmax_backward_args_t args = LIGERDSL_SOFTMAX_BACKWARD_ARGS_INIT;
  args.y = tensor(y);
  args.d_y = args.d_x = tensor(d_y);
  require_success(ligerdsl_softmax_backward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::swiglu(const Tensor& out, const Tensor& gate_up) {
  Arguments tensor(impl_->device);
  ligerdsl_swiglu_forward_desc_t desc = LIGERDSL_SWIGLU_FORWARD_DESC_INIT;
  desc.fused = 1;
  ligerdsl_swiglu_forward_args_t args = LIGERDSL_SWIGLU_FORWARD_ARGS_INIT;
  args.gate_up = tensor(gate_up);
  args.out = tensor(out);
  require_success(ligerdsl_swiglu_forward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::swiglu_backward(const Tensor& gate_up, const Tensor& d_out) {
  Arguments tensor(impl_->device);
  ligerdsl_swiglu_backward_desc_t desc = LIGERDSL_SWIGLU_BACKWARD_DESC_INIT;
  desc.fused = 1;
  desc.in_place = 1;
  ligerdsl_swiglu_backward_args_t args = LIGERDSL_SWIGLU_BACKWARD_ARGS_INIT;
  args.d_out = tensor(d_out);
  args.gate_up = args.d_gate_up = tensor(gate_up);
  require_success(ligerdsl_swiglu_backward(impl_->context, &desc, &args, impl_->stream));
}

void Ops::cross_entropy(const Tensor& loss, const Tensor& logits, const Tensor& labels, bool with_gradient) {
  Arguments tensor(impl_->device);
  ligerdsl_cross_entropy_desc_t desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
  desc.reduction = LIGERDSL_REDUCTION_MEAN;
  desc.with_d_logits = with_gradient;
  desc.in_place = with_gradient;
  ligerdsl_cross_entropy_args_t args = LIGERDSL_CROSS_ENTROPY_ARGS_INIT;
  args.logits = tensor(logits);
  args.labels = tensor(labels);
  args.loss = tensor(loss);
  if (with_gradient) args.d_logits = args.logits;
  require_success(ligerdsl_cross_entropy(impl_->context, &desc, &args, impl_->stream));
}

void Ops::global_norm(const Tensor& norm, const Tensor& clip_factor, const Tensor& gradients, double max_norm) {
  Arguments tensor(impl_->device);
  ligerdsl_global_norm_desc_t desc = LIGERDSL_GLOBAL_NORM_DESC_INIT;
  desc.with_clip_factor = 1;
  ligerdsl_global_norm_args_t args = LIGERDSL_GLOBAL_NORM_ARGS_INIT;
  args.tensors = tensor(gradients);
  args.n_tensors = 1;
  args.max_norm = static_cast<float>(max_norm);
  args.norm = tensor(norm);
  args.clip_factor = tensor(clip_factor);
  require_success(ligerdsl_global_norm(impl_->context, &desc, &args, impl_->stream));
}

void Ops::adamw(const Tensor& parameters, const Tensor& copy, const Tensor& gradients, const Tensor& m, const Tensor& v,
                const Tensor& clip_factor, const AdamW& settings) {
  Arguments tensor(impl_->device);
  ligerdsl_adamw_step_desc_t desc = LIGERDSL_ADAMW_STEP_DESC_INIT;
  desc.copy_dtype = copy.data ? dtype(copy.type) : 0;
  desc.with_clip_factor = 1;
  ligerdsl_adamw_step_args_t args = LIGERDSL_ADAMW_STEP_ARGS_INIT;
  args.lr = static_cast<float>(settings.lr);
  args.beta1 = static_cast<float>(settings.beta1);
  args.beta2 = static_cast<float>(settings.beta2);
  args.eps = static_cast<float>(settings.eps);
  args.weight_decay = static_cast<float>(settings.weight_decay);
  args.step = settings.step;
  args.param = tensor(parameters);
  args.param_copy = tensor(copy);
  args.grad = tensor(gradients);
  args.m = tensor(m);
  args.v = tensor(v);
  args.clip_factor = tensor(clip_factor);
  require_success(ligerdsl_adamw_step(impl_->context, &desc, &args, impl_->stream));
}

std::string library_build() {
  return ligerdsl_build_info();
}

}  // namespace train
