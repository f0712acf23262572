// The float64 side of `run --check`: kernels interpreted, and the comparison of two results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpreter/access_log.h"
#include "lib/cli/author_call.h"
#include "lib/cli/op_reference.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl::cli {

// What an argument holds after the launch.
struct Interpreted {
  std::string bytes;                         // scalars: empty
  interpreter::AccessLog::Extent unwritten;  // of memory that the call gives no contents and the kernel does not read
  bool read = false;                         // what was there before, or updated
};

// The arguments in their order, as the reference interpreter computes them. Throws ligerdsl::Error with the author's
// file and line for an access outside the arguments' memory, programs that depend on their order, and whatever else the
// program format leaves undefined.
enum class Rounding : uint8_t { none, every_operation };
std::vector<Interpreted> interpret(const AuthorCall& call, Rounding rounding,
                                   interpreter::NanBits nan_bits = interpreter::NanBits::usual);

// Whether the program makes whole numbers from floats: then the last bit of a float decides between neighbours.
bool jumps(const program::Program& program);
// Whether it takes the bits of floats: those of a NaN are the target's choice.
bool takes_bits(const program::Program& program);
// Elements that depend on the bits of a NaN, as two evaluations with other bits tell.
std::vector<bool> free_elements(const std::string& first, const std::string& second, DType type);

// What a device may answer for a call: the exact evaluation; where results jump with the rounding, one that is rounded as a
// device rounds, which is right as well; and what depends on the bits of a NaN, which is not compared.
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
  double worst = 0;    // largest |got - expected| over the largest |expected|
  int64_t beyond = 0;  // elements beyond the gate
  int64_t elements = 0;
  int64_t first = -1;         // index of the first beyond the gate
  std::string got, expected;  // there
  bool overflow = false;      // there an infinity or NaN came where a finite value was expected
  bool by_rounding = false;   // and the kernel's own roundings give none there either
  std::string gate;           // in words
};

// Element by element: |got - expected| <= atol * max|expected| + rtol * |expected|, with the dtype's gate; NaN matches
// NaN, infinities their equals, integers exactly. Of several expectations the nearest counts, but an infinity or NaN is
// right only where the first says so. Elements that are `free` (empty: none) may be anything.
Difference compare(const std::string& got, const std::vector<std::string>& expected, DType type,
                   const std::vector<bool>& free = {});

// The same for values, rounded to the dtype first. Sums over rows: |got - expected| / |expected| of all elements as
// vectors.
Difference compare(const std::string& got, const Expectation& expected, DType type);

}  // namespace ligerdsl::cli
