// Runs a recorded program on host memory in double precision, without a compiler: what a kernel's results are compared
// with. launch.hpp has the form that takes a Kernel<Meta> and named tensors.
//
// Float values are doubles from load to store: loads convert exactly; constants, scalar arguments, casts and stores
// round to the dtype (nearest even); nothing else rounds. Integers wrap at their width. With wide memory, stores do not
// round either, so the launches of one operation chain in double precision.
#ifndef LIGERDSL_DSL_INTERPRETER_H_
#define LIGERDSL_DSL_INTERPRETER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::interpreter {

// Launch arguments in the program's order, as 8-byte slots, with the memory that the program may touch.
class Arguments {
 public:
  // narrow: memory holds elements as the dtypes say. wide: 8 bytes an element, a double or an int64_t.
  enum class Memory { narrow, wide };
  Arguments() = default;
  explicit Arguments(Memory memory) : memory_(memory) {}

  // A view of memory at `data`; strides in elements.
  void view(void* data, DType dtype, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);
  // A pointer to `bytes` bytes.
  void pointer(void* data, size_t bytes);
  // A scalar of the given dtype.
  void scalar(DType dtype, double value);
  void scalar(DType dtype, int64_t value);

  struct Range {
    uintptr_t begin, end;
  };
  const std::vector<uint64_t>& slots() const { return slots_; }
  const std::vector<Range>& ranges() const { return ranges_; }
  Memory memory() const { return memory_; }

 private:
  void range(const void* data, size_t bytes);
  Memory memory_ = Memory::narrow;
  std::vector<uint64_t> slots_;
  std::vector<Range> ranges_;
};

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

// Which NaN's bits a bitcast gives for a NaN; docs/dsl.md lets targets choose. Those of `first` and `second` are each
// other's opposite as far as a NaN's can be: what comes out the same with both depends on none of them.
enum class NanBits : uint8_t { usual, first, second };

struct Options {
  // Round every float result to its dtype instead of only at casts. f32 + - * / sqrt are then those of IEEE f32.
  bool round_every_op = false;
  // Casts between float dtypes round. Without: one rounding-free evaluation of the formula.
  bool round_casts = true;
  // Receives the lines of device_print; null = standard output.
  std::function<void(const std::string&)> print;
  // Refuses a launch whose result depends on the order of its programs: one writes what another reads, updates, or
  // writes with another value. Atomics of several programs are taken to be meant, whatever their order.
  bool find_races = false;
  // The launch promises that no argument that is written shares memory with another (Launch::no_alias).
  bool no_alias = false;
  NanBits nan_bits = NanBits::usual;
};

// Runs every program of the grid, x fastest. `program`: what KernelBuilder::finish_bytes() gives. Throws
// ligerdsl::Error with the author's location on undefined behaviour (an access outside the arguments' memory, a broken
// assume, an integer divided by zero, a resident row that changes between its loads), and on arguments that do not match
// the program or share memory where a launch would refuse it.
void run(const std::string& program, const Arguments& arguments, Grid grid, const Options& options = {});

}  // namespace ligerdsl::interpreter

#endif  // LIGERDSL_DSL_INTERPRETER_H_
