// Reference interpreter: runs a recorded program on host memory in double precision, without a
// compiler. Tests compare a kernel's results with it. interpret() in launch.hpp takes a
// Kernel<Meta> and named tensors instead.
//
// Float values are doubles between load and store. Loads convert exactly. Constants, scalar
// arguments, casts and stores round to the dtype (to nearest even); nothing else rounds. Integers
// wrap at their width. With wide memory (Arguments::Memory), stores do not round either, so a
// sequence of launches keeps double precision between them.
#ifndef LIGERDSL_DSL_INTERPRETER_H_
#define LIGERDSL_DSL_INTERPRETER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl::interpreter {

// Launch arguments in the program's order, as 8-byte slots, and the memory that the program may
// access.
class Arguments {
 public:
  // narrow: an element has the size of its dtype. wide: an element has 8 bytes, a double or an
  // int64_t.
  enum class Memory { narrow, wide };
  Arguments() = default;
  explicit Arguments(Memory memory) : memory_(memory) {}

  // Appends a view of memory at `data`; strides are in elements.
  void view(void* data, DType dtype, const std::vector<int64_t>& dims,
            const std::vector<int64_t>& strides);
  // Appends a pointer to `bytes` bytes.
  void pointer(void* data, size_t bytes);
  // Appends a scalar of the given dtype.
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

// Bits that a bitcast of a NaN returns; docs/reference/dsl-elementwise.md leaves them to the
// target. `first` and `second` differ in every bit in which two NaNs of the type can differ. A
// result that is the same with both does not depend on the bits of a NaN.
enum class NanBits : uint8_t { usual, first, second };

struct Options {
  // Rounds every float result to its dtype instead of only at casts. f32 + - * / sqrt are then IEEE
  // f32 operations.
  bool round_every_op = false;
  // Rounds at casts between float dtypes. If false, a cast keeps the double, as an exact formula
  // would.
  bool round_casts = true;
  // Receives the lines of device_print. If empty, they go to standard output.
  std::function<void(const std::string&)> print;
  // Fails if the launch's result depends on the order of its programs: one program writes an
  // element that another program reads, updates, or overwrites with a different value. Several
  // programs may update one element by atomics.
  bool find_races = false;
  // The launch promises that no written argument shares memory with another (Launch::no_alias).
  bool no_alias = false;
  NanBits nan_bits = NanBits::usual;
};

// Runs every program of the grid, x fastest. `program` is a result of
// KernelBuilder::finish_bytes(). Throws ligerdsl::Error if arguments do not match the program, or
// share memory in a way that a launch rejects. Also throws, with the author's location, on
// undefined behaviour:
//  - an access outside the arguments' memory
//  - a broken assume
//  - an integer division by zero
//  - a shift by a negative number of bits, or by the width of the type or more
//  - a loop counter that overflows
//  - a block of a resident row that changes between its loads
void run(const std::string& program, const Arguments& arguments, Grid grid,
         const Options& options = {});

}  // namespace ligerdsl::interpreter

#endif  // LIGERDSL_DSL_INTERPRETER_H_
