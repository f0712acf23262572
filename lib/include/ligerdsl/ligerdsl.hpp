// C++17 interface of libligerdsl: owning handles and exceptions on top of ligerdsl.h. It is header
// only, so no C++ object crosses the boundary of the library.
//
//   ligerdsl::Context context = ligerdsl::Context::cpu();
//   ligerdsl::Tensor x(data, context.device(), LIGERDSL_F32, {rows, cols}), ...;
//   ligerdsl::RmsNormForwardArgs args = ligerdsl::rms_norm_forward_args();
//   args.x = x;  args.weight = w;  args.y = y;
//   ligerdsl::rms_norm_forward(context, ligerdsl::rms_norm_forward_desc(), args);
#ifndef LIGERDSL_LIGERDSL_HPP_
#define LIGERDSL_LIGERDSL_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ligerdsl/ligerdsl.h"

namespace ligerdsl {

// A failed call. what(): "STATUS_NAME: the library's message".
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(ligerdsl_status_t status)
      : std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " + ligerdsl_last_error()), status_(status) {}
  ligerdsl_status_t status() const { return status_; }

 private:
  ligerdsl_status_t status_;
};

inline void check(ligerdsl_status_t status) {
  if (status != LIGERDSL_SUCCESS) throw StatusError(status);
}

// Owns a handle and destroys it.
template <class T, void (*Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      Destroy(handle_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { Destroy(handle_); }

  T get() const { return handle_; }

 protected:
  T* put() { return &handle_; }

 private:
  T handle_ = nullptr;
};

class Context : public Handle<ligerdsl_context_t, ligerdsl_context_destroy> {
 public:
  explicit Context(const ligerdsl_context_config_t& config) : device_(config.device) {
    check(ligerdsl_context_create(&config, put()));
  }
  // num_threads 0 means LIGERDSL_NUM_THREADS, else all cores that this process may use.
  static Context cpu(int32_t num_threads = 0) {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.num_threads = num_threads;
    return Context(config);
  }
  static Context cuda(int32_t ordinal = 0) {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.device = {LIGERDSL_CUDA, ordinal};
    return Context(config);
  }

  ligerdsl_device_t device() const { return device_; }
  // Returns the device properties that kernels recorded for this context may depend on.
  ligerdsl_target_t target() const {
    ligerdsl_target_t target{};
    check(ligerdsl_context_target(get(), &target, sizeof target));
    return target;
  }
  // Returns how many calls to an operation, such as "rms_norm_forward", succeeded.
  int64_t calls(const char* operation) const {
    int64_t calls = 0;
    check(ligerdsl_context_calls(get(), operation, &calls));
    return calls;
  }
  // Returns the fault that a kernel has reported so far, if any: the operation, and the row, group
  // or sequence with an out-of-range label, index or bounds. Does not wait.
  std::optional<ligerdsl_fault_t> poll_labels() const {
    ligerdsl_fault_t fault{};
    const ligerdsl_status_t status = ligerdsl_context_poll(get(), &fault, sizeof fault);
    if (status == LIGERDSL_INVALID_LABEL || status == LIGERDSL_INVALID_BOUNDS) return fault;
    check(status);
    return std::nullopt;
  }
  // Waits for the stream. Throws StatusError if a kernel detected an error: LIGERDSL_INVALID_LABEL
  // for a label or an index out of range, LIGERDSL_INVALID_BOUNDS for bounds of groups or sequences
  // or for a step.
  void check_labels(ligerdsl_stream_t stream = nullptr) const { check(ligerdsl_context_check(get(), stream)); }
  void synchronize(ligerdsl_stream_t stream = nullptr) const { check(ligerdsl_stream_sync(get(), stream)); }
  void copy(void* to, const void* from, size_t bytes, ligerdsl_stream_t stream = nullptr) const {
    check(ligerdsl_buffer_copy(get(), to, from, bytes, stream));
  }
  void fill(void* data, uint8_t value, size_t bytes, ligerdsl_stream_t stream = nullptr) const {
    check(ligerdsl_buffer_fill(get(), data, value, bytes, stream));
  }

 private:
  ligerdsl_device_t device_;
};

// Memory of a context's device. The context must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Context& context, size_t bytes) : context_(context.get()), bytes_(bytes) {
    check(ligerdsl_buffer_alloc(context_, bytes, &data_));
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (data_ && ligerdsl_buffer_free(context_, data_) != LIGERDSL_SUCCESS) data_ = nullptr;  // the context is dead
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  ligerdsl_context_t context_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// A tensor descriptor that owns its shape but not its data.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, ligerdsl_device_t device, int32_t dtype, std::vector<int64_t> shape,
         std::vector<int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    tensor_ = ligerdsl_tensor_make(data, device, dtype, static_cast<int32_t>(shape_.size()), nullptr);
    point();
  }
  Tensor(const Tensor& other) : shape_(other.shape_), strides_(other.strides_), tensor_(other.tensor_) { point(); }
  Tensor& operator=(const Tensor& other) {
    shape_ = other.shape_;
    strides_ = other.strides_;
    tensor_ = other.tensor_;
    point();
    return *this;
  }

  // Converts to a field of an args struct. The Tensor must outlive the call.
  operator const ligerdsl_tensor_t*() const& { return &tensor_; }
  operator const ligerdsl_tensor_t*() const&& = delete;
  const ligerdsl_tensor_t& raw() const { return tensor_; }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  void point() {
    tensor_.shape = shape_.data();
    tensor_.strides = strides_.empty() ? nullptr : strides_.data();
  }

  std::vector<int64_t> shape_, strides_;
  ligerdsl_tensor_t tensor_{};
};

class Plan : public Handle<ligerdsl_plan_t, ligerdsl_plan_destroy> {
 public:
  // Throws StatusError if no call can have this number of rows, or if the descriptor's limit is too
  // small.
  size_t workspace_bytes(int64_t rows) const {
    const size_t bytes = ligerdsl_plan_workspace_bytes_for(get(), rows);
    if (bytes == SIZE_MAX) check(LIGERDSL_INVALID_SHAPE);
    return bytes;
  }
  // Returns the bytes with which execute can also copy unaligned tensors. Compiles kernels.
  size_t workspace_bytes_with_copies(int64_t rows) const {
    const size_t bytes = ligerdsl_plan_workspace_bytes_with_copies(get(), rows);
    if (bytes == SIZE_MAX) check(LIGERDSL_INVALID_SHAPE);
    return bytes;
  }
};

// A launch argument of CompiledKernel.
class KernelArg {
 public:
  KernelArg(const Tensor& tensor) { arg_.kind = LIGERDSL_ARG_TENSOR, arg_.tensor = tensor; }
  KernelArg(Tensor&&) = delete;
  KernelArg(void* pointer) { arg_.kind = LIGERDSL_ARG_POINTER, arg_.pointer = pointer; }
  KernelArg(int32_t value) { arg_.kind = LIGERDSL_ARG_INTEGER, arg_.integer = value; }
  KernelArg(int64_t value) { arg_.kind = LIGERDSL_ARG_INTEGER, arg_.integer = value; }
  KernelArg(float value) { arg_.kind = LIGERDSL_ARG_NUMBER, arg_.number = value; }
  KernelArg(double value) { arg_.kind = LIGERDSL_ARG_NUMBER, arg_.number = value; }
  const ligerdsl_kernel_arg_t& raw() const { return arg_; }

 private:
  ligerdsl_kernel_arg_t arg_{};
};

inline ligerdsl_kernel_options_t kernel_options() {
  ligerdsl_kernel_options_t options = LIGERDSL_KERNEL_OPTIONS_INIT;
  return options;
}

// A program recorded with dsl.h, compiled for a context.
class CompiledKernel : public Handle<ligerdsl_kernel_t, ligerdsl_kernel_destroy> {
 public:
  CompiledKernel(const Context& context, const std::string& program,
                 const ligerdsl_kernel_options_t& options = kernel_options()) {
    check(ligerdsl_kernel_create(context.get(), program.data(), program.size(), &options, put()));
  }

  void launch(int32_t grid_x, std::initializer_list<KernelArg> args, ligerdsl_stream_t stream = nullptr) const {
    const int32_t grid[3] = {grid_x, 1, 1};
    launch(grid, args, stream);
  }
  void launch(const int32_t (&grid)[3], std::initializer_list<KernelArg> args,
              ligerdsl_stream_t stream = nullptr) const {
    std::vector<ligerdsl_kernel_arg_t> raw;
    for (const KernelArg& arg : args) raw.push_back(arg.raw());
    launch(grid, raw, stream);
  }
  void launch(const int32_t (&grid)[3], const std::vector<ligerdsl_kernel_arg_t>& args,
              ligerdsl_stream_t stream = nullptr) const {
    check(ligerdsl_kernel_launch(get(), args.data(), args.size(), grid, stream));
  }

  // Returns the parameters of a launch, in order. The names are valid as long as the kernel.
  std::vector<ligerdsl_kernel_parameter_t> parameters() const {
    size_t count = 0;
    check(ligerdsl_kernel_parameters(get(), nullptr, sizeof(ligerdsl_kernel_parameter_t), &count));
    std::vector<ligerdsl_kernel_parameter_t> found(count);
    check(ligerdsl_kernel_parameters(get(), found.data(), sizeof(ligerdsl_kernel_parameter_t), &count));
    return found;
  }
};

}  // namespace ligerdsl

#include "ligerdsl/ops.hpp"

#endif  // LIGERDSL_LIGERDSL_HPP_
