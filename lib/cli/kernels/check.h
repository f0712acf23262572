// float64 reference for `run --check`: interprets kernels and compares results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpreter/access_log.h"
#include "lib/cli/kernels/author_call.h"
#include "lib/cli/kernels/op_reference.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// An argument's contents after the launch.
struct Interpreted {
  std::string bytes;                         // empty for scalars
  interpreter::AccessLog::Extent unwritten;  // elements neither initialised, read nor written
  bool read = false;                         // true if the kernel reads the initial values
};

// Returns the reference interpreter's results for the arguments, in order. Throws ligerdsl::Error
// with the author's file and line for
// - an access outside of the arguments' memory,
// - programs whose result depends on their order, and
// - anything else that the program format leaves undefined.
enum class Rounding : uint8_t { none, every_operation };
std::vector<Interpreted> interpret(const AuthorCall& call, Rounding rounding,
                                   interpreter::NanBits nan_bits = interpreter::NanBits::usual);

// Returns true if the program rounds floats to integers (floor, round, casts) or reads their bits.
// A float's last bit can then change a result by 1.
bool jumps(const program::Program& program);
// Returns true if the program reads the bits of floats. The bits of a NaN depend on the target.
bool takes_bits(const program::Program& program);
// Returns, per element, true if two evaluations with different NaN bits differ.
std::vector<bool> free_elements(const std::string& first, const std::string& second, DType type);

// Results that are correct for a call on a device:
// - the evaluation in float64,
// - if jumps() is true, also the evaluation that rounds every operation like a device,
// - for elements that depend on the bits of a NaN, any value.
class Evaluations {
 public:
  Evaluations() = default;
  explicit Evaluations(const AuthorCall& call);
  const std::vector<Interpreted>& exact() const { return all_.front(); }
  struct Difference compare(size_t argument, const std::string& got, DType type) const;

 private:
  std::vector<std::vector<Interpreted>> all_, other_nans_;
};

struct Difference {
  double worst = 0;    // largest |got - expected| / largest |expected|
  int64_t beyond = 0;  // number of elements beyond the gate
  int64_t elements = 0;
  int64_t first = -1;         // index of the first element beyond the gate
  std::string got, expected;  // values of that element
  bool overflow = false;      // true if `got` is an infinity or NaN but `expected` is finite
  bool by_rounding = false;   // true if `expected` also overflows with the kernel's roundings
  std::string gate;           // gate as text
};

// Compares element by element: |got - expected| <= atol * max|expected| + rtol * |expected|, with
// the dtype's gate. NaN matches NaN, an infinity matches an infinity of the same sign, integers
// must be equal. If there are several expected values, the nearest counts, but an infinity or NaN
// is correct only if the first expected value is one. Elements whose entry in `free` is true may
// have any value; `free` may be empty.
Difference compare(const std::string& got, const std::vector<std::string>& expected, DType type,
                   const std::vector<bool>& free = {});

// Compares with the values of a reference, which are first rounded to the dtype. Sums over rows are
// compared as vectors, by norm(got - expected) / norm(expected).
Difference compare(const std::string& got, const Expectation& expected, DType type);

}  // namespace ligerdsl::cli
