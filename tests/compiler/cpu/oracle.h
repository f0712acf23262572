// Runs one kernel with the CPU target and with the interpreter (dsl/interpreter, double precision),
// each on its own copy of the memory.
#pragma once

#include "cpu_kernel.h"
#include "dsl/interpreter/interpreter.h"

namespace ligerdsl::testing {

struct Tolerance {
  double absolute = 1e-6, relative = 1e-6;
};

class Case {
 public:
  /// Adds a view with the given elements, rounded to `dtype`. Strides are in elements; empty means
  /// row-major.
  Case& view(DType dtype, const std::vector<double>& elements, std::vector<int64_t> dims,
             std::vector<int64_t> strides = {});
  /// Adds a view that the kernel writes, filled with 7 (i1: with 1).
  Case& out(DType dtype, std::vector<int64_t> dims, std::vector<int64_t> strides = {});
  Case& pointer(DType dtype, const std::vector<double>& elements);
  Case& scalar(DType dtype, double value);
  /// Compiles and runs the kernel with every option set. Compares all memory with the
  /// interpreter's.
  void check(const std::function<void(KernelBuilder&)>& build, std::vector<int32_t> grid = {1},
             Tolerance tolerance = {}, std::vector<program::CompileOptions> options = {{}});

 private:
  struct Argument {
    DType dtype;
    bool isScalar = false, isPointer = false;
    double number = 0;
    std::vector<uint64_t> words;  // storage, 8-byte aligned
    size_t count = 0;
    std::vector<int64_t> dims, strides;
  };
  std::vector<Argument> arguments;
};

double readElement(const void* data, DType dtype, size_t index);
void writeElement(void* data, DType dtype, size_t index, double value);
std::vector<double> randomNumbers(size_t count, unsigned seed = 1, double low = -2,
                                  double high = 2);
std::vector<double> randomIntegers(size_t count, unsigned seed, int64_t low, int64_t high);
/// Returns compile options that give every argument its own alias class.
program::CompileOptions distinct(size_t arguments);

}  // namespace ligerdsl::testing
