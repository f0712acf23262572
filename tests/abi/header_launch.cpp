// Compiles launch.hpp: launches and interprets a kernel with named tensors.
#include <ligerdsl/launch.hpp>

using namespace ligerdsl;

struct LaunchedMeta {
  DType type = f32;
  int64_t block = 128;
};

void use_launch_header(const Kernel<LaunchedMeta>& kernel, const Context& context,
                       ligerdsl_stream_t stream) {
  float data[128] = {};
  const Tensor x(data, context.device(), LIGERDSL_F32, {128});
  KernelLauncher launcher(context, kernel);
  launcher.prepare({.block = 64}, {{"x", x}, {"n", 128}, {"scale", 2.0f}}, stream);
  launcher({.block = 64}, {{"x", x}, {"n", 128}, {"scale", 2.0f}}, stream);
  interpret(kernel, {.type = f32}, {{"x", x}, {"n", 128}, {"scale", 2.0f}});
}
