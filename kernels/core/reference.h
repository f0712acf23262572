// Float64 references of operations. `kernels/<family>/X_reference.cpp` defines one for each
// operation of the C ABI:
//
//     LIGERDSL_REFERENCE(rms_norm_forward) {
//       const auto r = rms_norm_reference(call["x"], call["weight"], ...);
//       return {{"y", {r.y}}, {"rstd", {r.rstd}}};
//     }
//
// The build finds these definitions (generate_references.py) and makes the table of
// find_reference().
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/reference_values.h"
#include "ligerdsl/dtype.h"

namespace ligerdsl::reference {

// Expected values of one output, and the measure of errors against them.
struct Expectation {
  Values values;
  // True for sums over rows: the error is then the norm of all differences, relative to the norm of
  // all values.
  bool over_rows = false;
  // Type to which the kernel rounds the terms of a sum or its intermediate values.
  DType rounding = DType::f32;
  // Lower bound for the norm of all values. If terms cancel, it is the norm of absolute terms.
  double norm = 0;
};

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Expected = std::map<std::string, Expectation>;  // key: name of the output

// One call of an operation: its tensors before the call, and the numbers of its descriptor and
// arguments.
class ReferenceCall {
 public:
  virtual ~ReferenceCall() = default;

  // Returns true if the call has this tensor: optional ones may be absent.
  virtual bool has(const std::string& tensor) const = 0;
  // Returns all elements; empty if the call does not have the tensor.
  virtual const Values& operator[](const std::string& tensor) const = 0;
  // Returns one row of a tensor of `cols` columns, without reading the other rows.
  virtual Values row(const std::string& tensor, int64_t row, int64_t cols) const = 0;
  virtual DType type(const std::string& tensor) const = 0;
  // Returns the names of all tensors; those of a list of tensors are "NAME[0]", "NAME[1]" ...
  virtual std::vector<std::string> tensors() const = 0;

  // Return a number of the descriptor or arguments, or `missing` if there is none with this name.
  virtual double number(const std::string& name, double missing) const = 0;
  virtual int64_t integer(const std::string& name, int64_t missing) const = 0;
  // Returns the size with this letter in the tensors' shapes, for example that of "N".
  virtual int64_t size(const std::string& letter) const = 0;
  // Returns `value` rounded to `type`. Tests that pass float64 tensors return it unrounded.
  virtual double round_to(DType type, double value) const = 0;

  double number(const std::string& name) const { return number(name, 0); }
  int64_t integer(const std::string& name) const { return integer(name, 0); }
  int option(const std::string& name, int missing = 0) const {
    return static_cast<int>(integer(name, missing));
  }
  bool flag(const std::string& name) const { return number(name, 0) != 0; }
  std::vector<int64_t> integers(const std::string& tensor) const;
  // Returns the expectation of a sum over rows. The previous values are added if the flag
  // `accumulate` is set. `terms` is the type to which terms are rounded.
  Expectation over_rows(const std::string& tensor, Values sums, DType terms = DType::f32,
                        const std::string& accumulate = "accumulate") const;
};

using Reference = Expected(const ReferenceCall&);

// Returns the reference of an operation, or null.
Reference* find_reference(std::string_view operation);
// Returns the names of all operations that have a reference.
std::vector<std::string_view> referenced_operations();

// Returns `rows`, which have `cols` columns, with row i multiplied by `factors[i]`. A single factor
// applies to all rows. If `factors` is empty, nothing changes.
Values scaled_rows(Values rows, const Values& factors, int64_t cols);

}  // namespace ligerdsl::reference

// Begins the definition of an operation's reference, a function with the parameter `call`.
#define LIGERDSL_REFERENCE(operation) \
  Expected reference_of_##operation([[maybe_unused]] const ReferenceCall& call)
