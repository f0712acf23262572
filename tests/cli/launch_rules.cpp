// Kernels for --load. Their launch rules set every option, and `compile` must apply these options
// as `run` and `bench` do.
#include <ligerdsl/dsl.h>

#include <stdexcept>

namespace {

using namespace ligerdsl;

struct CopyMeta {
  int64_t block = 1024;
  bool read_only = false;  // makes the input view read-only
  bool disjoint = false;

  template <class V>
  void visit(V&& v) {
    v("block", block);
    v("read_only", read_only);
    v("disjoint", disjoint);
  }
};

// y = 2 x; each program loops over blocks. The loop may prefetch x only if no store to y can change
// x.
void twice(KernelBuilder& k, const CopyMeta& m) {
  View y = k.view("y", f32, {dyn});
  View x = k.view("x", f32, {dyn}, {.read_only = m.read_only});
  auto from = x.partition({m.block});
  auto to = y.partition({m.block});
  k.for_range(k.program_id(0), cdiv(x.dim(0), m.block), k.num_programs(0), pipelined(3),
              [&](Scalar i) { to.store({i}, from.load({i}) * 2.0f); });
}

const Kernel<CopyMeta> twice_kernel{.name = "twice",
                                    .description = "y = 2 x",
                                    .build = twice,
                                    .launch = [](const CopyMeta& m, const LaunchArguments&) {
                                      return Launch{.grid = {64},
                                                    .num_warps = 8,
                                                    .min_ctas_per_sm = 3,
                                                    .max_registers = 72,
                                                    .no_alias = m.disjoint};
                                    }};

// The launch rule chooses the number of warps from the number of elements.
const Kernel<CopyMeta> sized_kernel{.name = "sized",
                                    .description = "y = 2 x",
                                    .build = twice,
                                    .launch = [](const CopyMeta&, const LaunchArguments& a) {
                                      return Launch{.grid = {64},
                                                    .num_warps = a.dim("x", 0) > 100000 ? 16 : 2};
                                    }};

// The launch rule copies the fields into the launch, valid or not.
struct SaidMeta {
  int64_t warps = 4, ctas = 1, stages = 2, programs = 1;
  bool fails = false, asks_a_view = false, clashes = false;

  template <class V>
  void visit(V&& v) {
    v("warps", warps);
    v("ctas", ctas);
    v("stages", stages);
    v("programs", programs);
    v("fails", fails);
    v("asks_a_view", asks_a_view);
    v("clashes", clashes);
  }
};

const Kernel<SaidMeta> said_kernel{.name = "said",
                                   .description = "y[0] = 1",
                                   .build =
                                       [](KernelBuilder& k, const SaidMeta& m) {
                                         View y = k.view("y", f32, {dyn});
                                         if (m.clashes) k.scalar("warps", f32);
                                         y.store({0}, 1.0f);
                                       },
                                   .launch =
                                       [](const SaidMeta& m, const LaunchArguments& a) {
                                         if (m.fails)
                                           throw std::runtime_error("the rule's own words");
                                         return Launch{
                                             .grid = {m.asks_a_view ? a.integer("y") : m.programs},
                                             .num_warps = static_cast<int>(m.warps),
                                             .num_ctas = static_cast<int>(m.ctas),
                                             .num_stages = static_cast<int>(m.stages)};
                                       }};

}  // namespace

LIGERDSL_REGISTER_KERNEL(said_kernel);
LIGERDSL_REGISTER_KERNEL(twice_kernel);
LIGERDSL_REGISTER_KERNEL(sized_kernel);
LIGERDSL_EXPORT_KERNELS();
