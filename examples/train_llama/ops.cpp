// Device, memory and operations of the model.
#include <unistd.h>

#include <span>

#include "ops_impl.h"

namespace train {

Ops::Ops(const std::string& device, int threads) : impl_(std::make_unique<Impl>()) {
  if (device != "cpu")
    impl_->device = {LIGERDSL_CUDA, std::stoi(device.substr(device.find(':') + 1))};
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = impl_->device;
  config.num_threads = threads;
  if (ligerdsl_status_t status = ligerdsl_context_create(&config, &impl_->context)) {
    throw std::runtime_error("--device " + device + ": " + ligerdsl_status_name(status) + ": " +
                             ligerdsl_last_error() +
                             (on_gpu() ? "; pass --device cpu to train on the CPU" : ""));
  }
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

std::span<const Ops::Operation> Ops::operations() {
#define TRAIN_OPERATION(op, outputs) {#op, outputs},
  static const Operation all[] = {LIGERDSL_FOR_EACH_OPERATION(TRAIN_OPERATION)};
#undef TRAIN_OPERATION
  return all;
}
std::vector<Ops::Operation> Ops::called() const {
  // No call requests this output, because no model here has attention sinks.
  constexpr std::string_view kUnrequested = " d_sinks";
  std::vector<Operation> out;
  for (Operation operation : operations()) {
    if (!impl_->called.count(operation.name)) continue;
    if (const size_t at = operation.outputs.find(kUnrequested); at != std::string::npos)
      operation.outputs.erase(at, kUnrequested.size());
    out.push_back(std::move(operation));
  }
  return out;
}
std::string Ops::latest() const {
  return impl_->latest;
}

// ---- Memory

namespace {

// Returns the memory limit on a CPU. Linux commits pages when they are first written. So a larger
// allocation would succeed, and Linux would later kill some process.
int64_t physical_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace

Tensor Ops::allocate(Type type, std::initializer_list<int64_t> shape) {
  const char* advice = "; lower --batch, --context, --width, --ffn or --layers";
  double bytes = size_of(type);  // double, because rows * columns may exceed 64 bits
  for (int64_t dim : shape) bytes *= static_cast<double>(dim);
  const double all = bytes + static_cast<double>(impl_->bytes),
               limit = on_gpu() ? 0x1p62 : physical_bytes();
  if (all > limit) {
    throw std::runtime_error(
        "training needs at least " + std::to_string(static_cast<int64_t>(all / 0x1p30)) +
        " GiB of memory" +
        (on_gpu() ? ""
                  : ", but this machine has " + std::to_string(physical_bytes() >> 30) + " GiB") +
        advice);
  }
  Tensor t(nullptr, type, shape);
  if (ligerdsl_status_t status = ligerdsl_buffer_alloc(impl_->context, t.bytes(), &t.data)) {
    throw std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " +
                             ligerdsl_last_error() + advice);
  }
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

// ---- Operations. The one-call form derives types, in-place results and omitted tensors from the
// arguments. So the descriptors hold only the other options.

void Ops::embedding(const Tensor& out, const Tensor& table, const Tensor& ids) {
  Arguments tensor(impl_->device);
  ligerdsl_embedding_forward_desc_t desc = LIGERDSL_EMBEDDING_FORWARD_DESC_INIT;
  ligerdsl_embedding_forward_args_t args = LIGERDSL_EMBEDDING_FORWARD_ARGS_INIT;
  args.indices = tensor(ids);
  args.weight = tensor(table);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::embedding_backward(const Tensor& d_table, const Tensor& d_out, const Tensor& ids,
                             const Tensor& d_positions, bool accumulate) {
  Arguments tensor(impl_->device);
  ligerdsl_embedding_backward_desc_t desc = LIGERDSL_EMBEDDING_BACKWARD_DESC_INIT;
  desc.accumulate = accumulate;
  ligerdsl_embedding_backward_args_t args = LIGERDSL_EMBEDDING_BACKWARD_ARGS_INIT;
  args.indices = tensor(ids);
  args.d_out = tensor(d_out);
  args.d_weight = tensor(d_table);
  args.d_position_weight = tensor(d_positions);
  impl_->run(desc, args);
}

void Ops::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& weight,
                   double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_rms_norm_forward_desc_t desc = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.eps = static_cast<float>(eps);
  ligerdsl_rms_norm_forward_args_t args = LIGERDSL_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.y = tensor(y);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                            const Tensor& x, const Tensor& weight, const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_rms_norm_backward_desc_t desc = LIGERDSL_RMS_NORM_BACKWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  ligerdsl_rms_norm_backward_args_t args = LIGERDSL_RMS_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  impl_->run(desc, args);
}

void Ops::add_rms_norm(const Tensor& y, const Tensor& sum, const Tensor& rstd, const Tensor& x,
                       const Tensor& residual, const Tensor& weight, double eps) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_rms_norm_forward_desc_t desc = LIGERDSL_FUSED_ADD_RMS_NORM_FORWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  desc.eps = static_cast<float>(eps);
  ligerdsl_fused_add_rms_norm_forward_args_t args = LIGERDSL_FUSED_ADD_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = tensor(x);
  args.residual = tensor(residual);
  args.weight = tensor(weight);
  args.y = tensor(y);
  args.sum = tensor(sum);
  args.rstd = tensor(rstd);
  impl_->run(desc, args);
}

void Ops::add_rms_norm_backward(const Tensor& d_x, const Tensor& d_weight, const Tensor& d_y,
                                const Tensor& d_sum, const Tensor& sum, const Tensor& weight,
                                const Tensor& rstd) {
  Arguments tensor(impl_->device);
  ligerdsl_fused_add_rms_norm_backward_desc_t desc = LIGERDSL_FUSED_ADD_RMS_NORM_BACKWARD_DESC_INIT;
  desc.casting = LIGERDSL_CASTING_NONE;
  ligerdsl_fused_add_rms_norm_backward_args_t args = LIGERDSL_FUSED_ADD_RMS_NORM_BACKWARD_ARGS_INIT;
  args.d_y = tensor(d_y);
  args.d_sum = tensor(d_sum);
  args.sum = tensor(sum);
  args.weight = tensor(weight);
  args.rstd = tensor(rstd);
  args.d_x = tensor(d_x);
  args.d_weight = tensor(d_weight);
  impl_->run(desc, args);
}

void Ops::rope(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin, bool inverse,
               const RopeLayout& layout) {
  Arguments tensor(impl_->device);
  ligerdsl_rope_desc_t desc = LIGERDSL_ROPE_DESC_INIT;
  desc.inverse = inverse;
  desc.layout = layout.kind;
  desc.rotary_dim = layout.rotated;
  desc.time_section = layout.sections[0];
  desc.height_section = layout.sections[1];
  desc.width_section = layout.sections[2];
  desc.complex_table = !sin.data;
  ligerdsl_rope_args_t args = LIGERDSL_ROPE_ARGS_INIT;
  args.q = args.q_out = tensor(q);
  args.k = args.k_out = tensor(k);
  args.cos = tensor(cos);
  args.sin = tensor(sin);
  impl_->run(desc, args);
}

void Ops::causal_softmax(const Tensor& x, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_forward_desc_t desc = LIGERDSL_SOFTMAX_FORWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  desc.causal = 1;
  ligerdsl_softmax_forward_args_t args = LIGERDSL_SOFTMAX_FORWARD_ARGS_INIT;
  args.x = args.y = tensor(x);
  impl_->run(desc, args);
}

void Ops::causal_softmax_backward(const Tensor& d_y, const Tensor& y, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_softmax_backward_desc_t desc = LIGERDSL_SOFTMAX_BACKWARD_DESC_INIT;
  desc.scale = static_cast<float>(scale);
  desc.causal = 1;
  ligerdsl_softmax_backward_args_t args = LIGERDSL_SOFTMAX_BACKWARD_ARGS_INIT;
  args.y = tensor(y);
  args.d_y = args.d_x = tensor(d_y);
  impl_->run(desc, args);
}

void Ops::gated_matmul(const Tensor& out, const Tensor& gate_up, const Tensor& x,
                       const Tensor& weight) {
  Arguments tensor(impl_->device);
  ligerdsl_gated_matmul_nt_desc_t desc = LIGERDSL_GATED_MATMUL_NT_DESC_INIT;
  ligerdsl_gated_matmul_nt_args_t args = LIGERDSL_GATED_MATMUL_NT_ARGS_INIT;
  desc.activation = LIGERDSL_ACTIVATION_SILU;
  args.x = tensor(x);
  args.weight = tensor(weight);
  args.gate_up = tensor(gate_up);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::swiglu(const Tensor& out, const Gated& in) {
  Arguments tensor(impl_->device);
  ligerdsl_swiglu_forward_desc_t desc = LIGERDSL_SWIGLU_FORWARD_DESC_INIT;
  ligerdsl_swiglu_forward_args_t args = LIGERDSL_SWIGLU_FORWARD_ARGS_INIT;
  args.gate = tensor(in.gate);
  args.up = tensor(in.up);
  args.gate_up = tensor(in.gate_up);
  args.out = tensor(out);
  impl_->run(desc, args);
}

void Ops::swiglu_backward(const Gated& d_in, const Tensor& d_out, const Gated& in) {
  Arguments tensor(impl_->device);
  ligerdsl_swiglu_backward_desc_t desc = LIGERDSL_SWIGLU_BACKWARD_DESC_INIT;
  ligerdsl_swiglu_backward_args_t args = LIGERDSL_SWIGLU_BACKWARD_ARGS_INIT;
  args.d_out = tensor(d_out);
  args.gate = tensor(in.gate);
  args.up = tensor(in.up);
  args.gate_up = tensor(in.gate_up);
  args.d_gate = tensor(d_in.gate);
  args.d_up = tensor(d_in.up);
  args.d_gate_up = tensor(d_in.gate_up);
  impl_->run(desc, args);
}

void Ops::cross_entropy(const CrossEntropy& c) {
  Arguments tensor(impl_->device);
  ligerdsl_cross_entropy_desc_t desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
  desc.reduction = LIGERDSL_REDUCTION_MEAN;
  desc.ignore_index = c.settings.ignored;
  desc.label_smoothing = static_cast<float>(c.settings.smoothing);
  desc.lse_square_scale = static_cast<float>(c.settings.lse_square_scale);
  desc.softcap = static_cast<float>(c.settings.softcap);
  desc.temperature = static_cast<float>(c.settings.temperature);
  ligerdsl_cross_entropy_args_t args = LIGERDSL_CROSS_ENTROPY_ARGS_INIT;
  args.logits = tensor(c.logits);
  args.labels = tensor(c.labels);
  args.class_weight = tensor(c.class_weight);
  args.loss = tensor(c.loss);
  args.z_loss = tensor(c.z_loss);
  args.accuracy = tensor(c.accuracy);
  args.predictions = tensor(c.predictions);
  args.entropy = tensor(c.entropy);
  args.d_entropy = tensor(c.d_entropy);
  args.lse = tensor(c.lse);
  args.d_logits = tensor(c.d_logits);
  impl_->run(desc, args);
}

void Ops::global_norm(const Tensor& norm, const Tensor& clip_factor, const Tensor& gradients,
                      double max_norm, const Tensor& nonfinite, const Tensor& steps,
                      const Tensor& skipped) {
  Arguments tensor(impl_->device);
  ligerdsl_global_norm_desc_t desc = LIGERDSL_GLOBAL_NORM_DESC_INIT;
  ligerdsl_global_norm_args_t args = LIGERDSL_GLOBAL_NORM_ARGS_INIT;
  args.tensors = tensor(gradients);
  args.n_tensors = 1;
  args.max_norm = static_cast<float>(max_norm);
  args.norm = tensor(norm);
  args.clip_factor = tensor(clip_factor);
  args.nonfinite = tensor(nonfinite);
  args.steps = tensor(steps);
  args.skipped = tensor(skipped);
  impl_->run(desc, args);
}

void Ops::adamw(const Tensor& parameters, const Tensor& copy, const Tensor& gradients,
                const Tensor& m, const Tensor& v, const Tensor& clip_factor, const Tensor& skip,
                const AdamW& settings) {
  Arguments tensor(impl_->device);
  ligerdsl_adamw_step_desc_t desc = LIGERDSL_ADAMW_STEP_DESC_INIT;
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
  args.skip = tensor(skip);
  impl_->run(desc, args);
}

std::string library_build() {
  return ligerdsl_build_info();
}

}  // namespace train
