// Lesson 1: out = a + b.
//
// A kernel is written for a *tile*: a block of elements that one *program* works on. The library
// runs many programs at once, numbered 0, 1, 2, ... along the grid. A program is a thread block on
// a GPU and a piece of work for one core on a CPU. The compiler decides how the elements of a tile
// are distributed over threads or vector lanes.
#include <ligerdsl/launch.hpp>

#include "lesson.h"

using namespace ligerdsl;

// Meta-parameters are known when the kernel is compiled. An `if` on a meta-parameter is ordinary
// C++: it decides which operations are recorded, and costs nothing when the kernel runs.
struct VectorAddMeta {
  DType type = f32;
  int64_t block = 1024;  // elements per tile
  // Names the fields. Their values identify a compiled kernel, and tools list and set them by name.
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block);
  }
};

// This function runs once, on the host. It does not add anything: every line records an operation.
void add_vectors(KernelBuilder& k, const VectorAddMeta& m) {
  // The arguments, in the order of the launch. `dyn` marks a length that is known only at the
  // launch.
  View out = k.view("out", m.type, {dyn});
  View a = k.view("a", m.type, {dyn});
  View b = k.view("b", m.type, {dyn});

  // Program i works on the i-th tile of each array.
  Scalar i = k.program_id(0);
  Tile x = a.partition({m.block}).load({i});
  Tile y = b.partition({m.block}).load({i});
  // The last tile may extend beyond the end of the array. There, loads return 0 and stores have no
  // effect, so no mask is needed.
  out.partition({m.block}).store({i}, x + y);
}

// A kernel consists of its program and its launch rule. From the sizes of a call, the launch rule
// computes the number of programs and of warps per program.
const Kernel<VectorAddMeta> add_vectors_kernel{
    .name = "add_vectors",
    .description = "out = a + b",
    .build = add_vectors,
    .launch = [](const VectorAddMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("out", 0), m.block)}};
    }};

int main(int argc, char** argv) try {
  const Context context = lesson::open(argc, argv);

  // 100,000 is not a multiple of 1,024: the last of the 98 programs has 672 elements.
  const int64_t n = 100000;
  std::vector<float> a = lesson::some_values(n, 1), b = lesson::some_values(n, 2);
  lesson::Array da(context, {n}, a), db(context, {n}, b), dout(context, {n});

  // The first call records the program, compiles it or finds it in the disk cache, and launches it.
  // Later calls only launch.
  KernelLauncher add(context, add_vectors_kernel);
  add({.block = 1024}, {{"out", dout.tensor()}, {"a", da.tensor()}, {"b", db.tensor()}});

  std::vector<double> expected(n);
  for (int64_t i = 0; i < n; ++i) expected[i] = static_cast<double>(a[i]) + b[i];
  return lesson::report("a + b", dout.values(), expected, 1e-7) ? 0 : 1;
} catch (const std::exception& e) {
  // A mistake in a kernel throws ligerdsl::Error with the file and line of the mistake. Other
  // failures throw StatusError, which has a status of the C ABI.
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
