#include "squared_relu.h"

using namespace ligerdsl;

namespace {

void squared_relu(KernelBuilder& k, const SquaredReluMeta& m) {
  View y = k.view("y", m.type, {dyn});
  View x = k.view("x", m.type, {dyn});
  Scalar scale = k.scalar("scale", f32);
  Scalar i = k.program_id(0);
  Tile v = max(x.partition({m.block}).load({i}).to(f32), 0.0f);
  y.partition({m.block}).store({i}, (v * v * scale).to(m.type));
}

}  // namespace

const Kernel<SquaredReluMeta> squared_relu_kernel{
    .name = "squared_relu",
    .description = "y = max(x, 0)^2 * scale",
    .build = squared_relu,
    .launch = [](const SquaredReluMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("y", 0), m.block)}};
    }};

LIGERDSL_REGISTER_KERNEL(squared_relu_kernel);
LIGERDSL_EXPORT_KERNELS();
