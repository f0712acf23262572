// Runs operations on the reference interpreter, which rounds the result of every op to its data
// type. This tests the formulas and the numerics of kernels without the compiler.
#include "interpreter/interpreter.h"
#include "tests/support/backend.h"

namespace ligerdsl::test {
namespace {

class InterpreterBackend : public Backend {
 public:
  explicit InterpreterBackend(bool gpu) : gpu_(gpu) {}

  std::string name() const override { return "interpreter"; }
  kernels::Machine machine() const override {
    return gpu_ ? kernels::gpu("sm_90a", 4, kPtxWithoutClusters) : kernels::Machine{};
  }
  int64_t budget() const override { return 1 << 15; }
  double summation_slack() const override { return 8; }  // it adds one element at a time

 protected:
  void launch(const kernels::Step& step, const kernels::Grid& grid,
              const Arguments& arguments) override {
    interpreter::Arguments slots;
    for (const program::Argument& argument : step.program.arguments) {
      const auto& entry = arguments.find(argument.name);
      const program::Type& type = step.program.values[argument.value];
      if (entry.is_tensor) {
        slots.view(entry.tensor.data(), entry.tensor.type(), entry.tensor.shape(),
                   entry.tensor.strides());
      } else if (is_float(type.dtype)) {
        slots.scalar(type.dtype, entry.number);
      } else {
        slots.scalar(type.dtype, entry.integer);
      }
    }
    interpreter::run(step.program, slots, {grid[0], grid[1], grid[2]}, {.round_every_op = true});
  }

 private:
  static constexpr int kPtxWithoutClusters = 80;
  bool gpu_;
};

// The two backends use the tile shapes of a CPU and of a GPU, so that both kinds of launch rules
// are tested.
const BackendEntry cpu_shapes("interpreter", [] {
  return BackendChoice{std::make_unique<InterpreterBackend>(/*gpu=*/false), ""};
});
const BackendEntry gpu_shapes("interpreter-nvptx", [] {
  return BackendChoice{std::make_unique<InterpreterBackend>(/*gpu=*/true), ""};
});

}  // namespace
}  // namespace ligerdsl::test
