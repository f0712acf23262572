// Kernels for --load whose launch rules set all there is: what `compile` must honour like `run` and `bench`.
#include <ligerdsl/dsl.h>

namespace {

using namespace ligerdsl;

struct CopyMeta {
  int64_t block = 1024;
  bool read_only = false;  // the view that is read
  bool apart = false;

  template <class V>
  void visit(V&& v) {
    v("block", block);
    v("read_only", read_only);
    v("apart", apart);
  }
};

// y = 2 x, many blocks a program: a loop that stores, and reads ahead only if no store can be what it reads.
void twice(KernelBuilder& k, const CopyMeta& m) {
  View y = k.view("y", f32, {dyn});
  View x = k.view("x", f32, {dyn}, {.read_only = m.read_only});
  auto from = x.partition({m.block});
  auto to = y.partition({m.block});
  k.for_range(k.program_id(0), cdiv(x.dim(0), m.block), k.num_programs(0), pipelined(3),
              [&](Scalar i) { to.store({i}, from.load({i}) * 2.0f); });
}

const Kernel<CopyMeta> twice_kernel{
    .name = "twice", .description = "y = 2 x", .build = twice, .launch = [](const CopyMeta& m, const LaunchArguments&) {
      return Launch{.grid = {64}, .num_warps = 8, .min_ctas_per_sm = 3, .max_registers = 72, .no_alias = m.apart};
    }};

// Its warps depend on how many elements there are.
const Kernel<CopyMeta> sized_kernel{
    .name = "sized", .description = "y = 2 x", .build = twice, .launch = [](const CopyMeta&, const LaunchArguments& a) {
      return Launch{.grid = {64}, .num_warps = a.dim("x", 0) > 100000 ? 16 : 2};
    }};

}  // namespace

LIGERDSL_REGISTER_KERNEL(twice_kernel);
LIGERDSL_REGISTER_KERNEL(sized_kernel);
LIGERDSL_EXPORT_KERNELS();
