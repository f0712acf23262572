// What the C++ lessons share: a device, buffers on it, and a function that compiles and launches a recorded program.
// Everything here is a thin wrapper around ligerdsl.h, in the order in which a program of your own would need it.
#pragma once

#include <ligerdsl/ligerdsl.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace lesson {

// Every call of the library returns a status; the text of the last error says what was expected and what came.
inline void check(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  throw std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " + ligerdsl_last_error());
}

// A context is a device and everything that was compiled for it.
class Device {
 public:
  // Takes "--device cuda:N" from the command line; without it, the CPU.
  Device(int argc, char** argv) {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    if (argc == 3 && std::string(argv[1]) == "--device" && std::string(argv[2]).starts_with("cuda:")) {
      config.device = {LIGERDSL_CUDA, std::stoi(argv[2] + 5)};
    }
    check(ligerdsl_context_create(&config, &context_));
    where_ = config.device;
  }
  ~Device() { ligerdsl_context_destroy(context_); }
  Device(const Device&) = delete;

  ligerdsl_context_t context() const { return context_; }
  ligerdsl_device_t where() const { return where_; }

 private:
  ligerdsl_context_t context_ = nullptr;
  ligerdsl_device_t where_{LIGERDSL_CPU, 0};
};

// An f32 array on the device, and its description.
class Array {
 public:
  Array(Device& device, std::vector<int64_t> shape) : device_(device), shape_(std::move(shape)) {
    check(ligerdsl_buffer_alloc(device.context(), size() * sizeof(float), &data_));
    tensor_ =
        ligerdsl_tensor_make(data_, device.where(), LIGERDSL_F32, static_cast<int32_t>(shape_.size()), shape_.data());
  }
  Array(Device& device, std::vector<int64_t> shape, const std::vector<float>& values)
      : Array(device, std::move(shape)) {
    check(ligerdsl_buffer_copy(device.context(), data_, values.data(), values.size() * sizeof(float), nullptr));
  }
  ~Array() { (void)!ligerdsl_buffer_free(device_.context(), data_); }
  Array(const Array&) = delete;

  size_t size() const {
    size_t n = 1;
    for (int64_t dim : shape_) n *= dim;
    return n;
  }
  std::vector<float> values() const {
    std::vector<float> out(size());
    check(ligerdsl_buffer_copy(device_.context(), out.data(), data_, size() * sizeof(float), nullptr));
    check(ligerdsl_stream_sync(device_.context(), nullptr));
    return out;
  }
  const ligerdsl_tensor_t* tensor() const { return &tensor_; }

 private:
  Device& device_;
  std::vector<int64_t> shape_;
  void* data_ = nullptr;
  ligerdsl_tensor_t tensor_;
};

// One launch argument: an array, an integer or a number, in the order in which the kernel declared them.
inline ligerdsl_kernel_arg_t arg(const Array& a) {
  return {LIGERDSL_ARG_TENSOR, 0, a.tensor(), nullptr, 0, 0.0};
}
inline ligerdsl_kernel_arg_t arg(int64_t i) {
  return {LIGERDSL_ARG_INTEGER, 0, nullptr, nullptr, i, 0.0};
}
inline ligerdsl_kernel_arg_t arg(double x) {
  return {LIGERDSL_ARG_NUMBER, 0, nullptr, nullptr, 0, x};
}

// Compiles a program (or finds it in the cache) and runs `grid` instances of it. A real program keeps the kernel:
// creating it may compile, launching it never does.
inline void launch(Device& device, const std::string& program, const std::vector<ligerdsl_kernel_arg_t>& args,
                   int64_t grid) {
  ligerdsl_kernel_t kernel = nullptr;
  check(ligerdsl_kernel_create(device.context(), program.data(), program.size(), nullptr, &kernel));
  const int32_t programs[3] = {static_cast<int32_t>(grid), 1, 1};
  ligerdsl_status_t status = ligerdsl_kernel_launch(kernel, args.data(), args.size(), programs, nullptr);
  ligerdsl_kernel_destroy(kernel);
  check(status);
}

// Reproducible values between -2 and 2.
inline std::vector<float> some_values(size_t count, unsigned seed) {
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 22) - 2.0f;
  return out;
}

// Prints the largest error relative to the largest expected value; true when it is within the limit.
inline bool report(const char* what, const std::vector<float>& got, const std::vector<double>& expected, double limit) {
  double worst = 0, largest = 0;
  for (double e : expected) largest = std::fmax(largest, std::fabs(e));
  for (size_t i = 0; i < expected.size(); ++i) {
    double error = std::fabs(got[i] - expected[i]);
    if (!(error <= worst)) worst = error;  // also takes a NaN
  }
  bool right = worst <= limit * largest;
  std::printf("%-10s error %.1e of the largest value, allowed %.0e: %s\n", what, worst / largest, limit,
              right ? "ok" : "WRONG");
  return right;
}

}  // namespace lesson
