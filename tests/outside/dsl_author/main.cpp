// Launches an author's kernel by name on the CPU. The result must equal that of the installed
// interpreter.
#include <cstdio>
#include <ligerdsl/launch.hpp>
#include <string>
#include <vector>

#include "squared_relu.h"

int main() {
  using namespace ligerdsl;
  const Context context = Context::cpu();
  constexpr int64_t n = 5000;
  std::vector<float> x(n), y(n + 1, -1.0f), reference(n + 1, -1.0f);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
  const Tensor tx(x.data(), context.device(), LIGERDSL_F32, {n}),
      ty(y.data(), context.device(), LIGERDSL_F32, {n}),
      tr(reference.data(), context.device(), LIGERDSL_F32, {n});
  KernelLauncher launcher(context, squared_relu_kernel);
  launcher({}, {{"y", ty}, {"x", tx}, {"scale", 0.5f}});
  interpret(squared_relu_kernel, {}, {{"y", tr}, {"x", tx}, {"scale", 0.5f}});
  for (int64_t i = 0; i < n; ++i) {
    const float expected = x[i] > 0 ? x[i] * x[i] * 0.5f : 0.0f;
    if (y[i] != expected || reference[i] != expected) {
      std::printf("y[%ld]: expected %g, got %g\n", static_cast<long>(i), expected, y[i]);
      return 1;
    }
  }
  if (y[n] != -1.0f || reference[n] != -1.0f) return 1;  // an element after the end was written

  // An error of the builder must name the author's file and line.
  std::string text;
  try {
    KernelBuilder k("wrong");
    k.view("b", bf16, {dyn}, {.read_only = true});  // omitting options must give no warning
    View a = k.view("a", bf16, {dyn});
    a.partition({128}).store({0}, k.zeros({128}, f32));
  } catch (const Error& error) {
    text = error.what();
  }
  std::printf("%s\n", text.c_str());
  return text.find("main.cpp:") == std::string::npos;
}
