// A kernel that must not be registered, because a field of its meta struct has the name of a launch
// setting.
#include <ligerdsl/dsl.h>

using namespace ligerdsl;

namespace {

struct WarpsMeta {
  int64_t num_warps = 4;
  template <class V>
  void visit(V&& v) {
    v("num_warps", num_warps);
  }
};

const Kernel<WarpsMeta> kernel{
    "ones", "x = 1",
    [](KernelBuilder& k, const WarpsMeta&) { k.view("x", f32, {dyn}).store({0}, 1.0f); },
    [](const WarpsMeta&, const LaunchArguments&) { return Launch{}; }};

}  // namespace

LIGERDSL_REGISTER_KERNEL(kernel);
LIGERDSL_EXPORT_KERNELS();
