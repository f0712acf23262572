// A kernel that has the name of one of the library's operations.
#include <ligerdsl/dsl.h>

using namespace ligerdsl;

namespace {

struct NoMeta {
  template <class V>
  void visit(V&&) {}
};

const Kernel<NoMeta> kernel{
    "softmax_forward", "not a softmax",
    [](KernelBuilder& k, const NoMeta&) { k.view("x", f32, {dyn}).store({0}, 1.0f); },
    [](const NoMeta&, const LaunchArguments&) { return Launch{}; }};

}  // namespace

LIGERDSL_REGISTER_KERNEL(kernel);
LIGERDSL_EXPORT_KERNELS();
