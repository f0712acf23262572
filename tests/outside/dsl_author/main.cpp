// An author's own kernel: recorded, compiled by the installed library, run and checked on the CPU.
#include <cstdio>
#include <ligerdsl/ligerdsl.hpp>
#include <string>
#include <vector>

#include "squared_relu.h"

int main() {
  using namespace ligerdsl;
  const Context context = Context::cpu();
  const CompiledKernel kernel(context, program_bytes(squared_relu_kernel, SquaredReluMeta{}));
  constexpr int64_t n = 5000;
  std::vector<float> x(n), y(n + 1, -1.0f);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
  const Tensor tx(x.data(), context.device(), LIGERDSL_F32, {n}), ty(y.data(), context.device(), LIGERDSL_F32, {n});
  kernel.launch(static_cast<int32_t>(ceil_div(n, SquaredReluMeta{}.block)), {ty, tx, 0.5f});
  for (int64_t i = 0; i < n; ++i) {
    const float expected = x[i] > 0 ? x[i] * x[i] * 0.5f : 0.0f;
    if (y[i] != expected) {
      std::printf("y[%ld]: expected %g, got %g\n", static_cast<long>(i), expected, y[i]);
      return 1;
    }
  }
  if (y[n] != -1.0f) return 1;  // written past the end

  // Misuse of the builder names the author's file and line.
  std::string text;
  try {
    KernelBuilder k("wrong");
    View a = k.view("a", bf16, {dyn});
    a.partition({128}).store({0}, k.zeros({128}, f32));
  } catch (const Error& error) {
    text = error.what();
  }
  std::printf("%s\n", text.c_str());
  return text.find("main.cpp:") == std::string::npos;
}
