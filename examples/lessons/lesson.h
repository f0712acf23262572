// Helpers of the C++ lessons: f32 arrays on a device, test values, and a comparison with float64.
#pragma once

#include <cmath>
#include <cstdio>
#include <ligerdsl/ligerdsl.hpp>
#include <string>
#include <vector>

namespace lesson {

// Opens a context, which owns a device and the kernels compiled for it. "--device cuda:N" on the
// command line selects a GPU; the default is the CPU.
inline ligerdsl::Context open(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--device" &&
      std::string(argv[2]).starts_with("cuda:")) {
    return ligerdsl::Context::cuda(std::stoi(argv[2] + 5));
  }
  return ligerdsl::Context::cpu();
}

// An f32 array in device memory, with its Tensor.
class Array {
 public:
  Array(const ligerdsl::Context& context, std::vector<int64_t> shape) : context_(context) {
    for (int64_t dim : shape) size_ *= static_cast<size_t>(dim);
    memory_ = ligerdsl::Buffer(context, size_ * sizeof(float));
    tensor_ = ligerdsl::Tensor(memory_.data(), context.device(), LIGERDSL_F32, std::move(shape));
  }
  Array(const ligerdsl::Context& context, std::vector<int64_t> shape,
        const std::vector<float>& values)
      : Array(context, std::move(shape)) {
    context.copy(memory_.data(), values.data(), values.size() * sizeof(float));
  }

  size_t size() const { return size_; }
  std::vector<float> values() const {
    std::vector<float> out(size_);
    context_.copy(out.data(), memory_.data(), size_ * sizeof(float));
    context_.synchronize();
    return out;
  }
  const ligerdsl::Tensor& tensor() const { return tensor_; }

 private:
  const ligerdsl::Context& context_;
  size_t size_ = 1;
  ligerdsl::Buffer memory_;
  ligerdsl::Tensor tensor_;
};

// Reproducible values between -2 and 2.
inline std::vector<float> some_values(size_t count, unsigned seed) {
  std::vector<float> out(count);
  for (float& v : out)
    v = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 22) - 2.0f;
  return out;
}

// Prints the largest error divided by the largest expected value. Returns true if it is at most
// `limit`.
inline bool report(const char* what, const std::vector<float>& got,
                   const std::vector<double>& expected, double limit) {
  double worst = 0, largest = 0;
  bool numbers = true;
  for (double e : expected) largest = std::fmax(largest, std::fabs(e));
  for (size_t i = 0; i < expected.size(); ++i) {
    double error = std::fabs(got[i] - expected[i]);
    numbers = numbers && !std::isnan(error);
    worst = std::fmax(worst, error);
  }
  bool right = numbers && worst <= limit * largest;
  std::printf("%-10s error %.1e of the largest value, allowed %.0e: %s\n", what, worst / largest,
              limit, right ? "ok" : "WRONG");
  return right;
}

}  // namespace lesson
