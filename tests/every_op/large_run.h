// Runs an operation on tensors of more than 2^31 elements, and on the small tensors whose rows they
// repeat.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/every_op/far.h"
#include "tests/every_op/op_run.h"

namespace ligerdsl::test {

// Computes element `index` of a result that depends on all rows. of_region[i] is the operation's
// result for one copy of the rows of region i, and times[i] the number of copies.
using Combine = std::function<double(size_t index, const std::vector<double>& of_region,
                                     const std::vector<double>& times)>;

struct LargeCase {
  Case which;               // settings, without the large size
  const char* rows = "N";   // letter of the size that is large
  int64_t period = 61;      // prime, so that strides of powers of two hit different rows
  double weight_scale = 1;  // scale of `weight`, which keeps the logits of many columns in range
  bool many_rows = false;   // more rows than the limit, not only more elements
  Tolerance tolerance = {1e-2, 0};  // for results with one row per input row
  double sum_tolerance = 1e-4;      // normwise, for results that are sums over all rows
  std::map<std::string, Combine> combine =
      {};  // key: tensor, for results that are not simply added
};

inline std::ostream& operator<<(std::ostream& out, const LargeCase& large) {
  return out << large.which;
}

// Default: 2^31 elements. Tests without a GPU run the same path with few elements.
struct Limits {
  int64_t elements = int64_t{1} << 31;
  int64_t most_bytes = int64_t{60}
                       << 30;  // device memory; a case may use twice the limit if it fits
};

class LargeRun {
 public:
  LargeRun(ligerdsl_context_t context, const LargeCase& large, const Limits& limits);

  // Runs the operation on both sets of tensors. Returns false if that is impossible, because a
  // library is missing or the grid is too large for a GPU. Then why_not() returns the reason.
  bool run();
  const std::string& why_not() const { return why_not_; }
  // Returns a message for each result that differs between the large and the small tensors.
  std::vector<std::string> differences() const;

  const Regions& regions() const { return *regions_; }
  // Returns the name of each result with one row per input row, and the number of elements of its
  // rows.
  std::map<std::string, int64_t> row_results() const;
  // Changes one element of a large tensor. Afterwards differences() must report it.
  void damage(const std::string& tensor, int64_t element);

 private:
  struct Place {
    cli::OpInstance::Slot* small;
    std::vector<int64_t> shape;  // shape of the large tensor
    bool by_row, result;
    int64_t row_elements;
    std::unique_ptr<Memory> memory;  // null: an input without rows, which both runs share
    std::byte* data() const {
      return memory ? memory->data() : static_cast<std::byte*>(small->data);
    }
    size_t row_bytes() const { return static_cast<size_t>(row_elements * size_of(small->dtype)); }
  };

  void choose_rows(const Limits& limits);
  void allocate();
  ligerdsl_status_t execute(
      const std::function<ligerdsl_tensor_t(const Place&, std::vector<int64_t>*)>& tensor_of);
  void set_offsets(int64_t rows);
  ligerdsl_status_t execute_large();
  ligerdsl_status_t execute_small(int64_t first, int64_t rows);
  void keep_sums();
  std::string check_sums(const Place& place) const;
  std::vector<double> read(const Place& place, const std::byte* data) const;

  ligerdsl_context_t context_;
  LargeCase case_;
  std::string why_not_;
  std::unique_ptr<Regions> regions_;
  PlanHandle plan_;
  std::unique_ptr<cli::OpInstance> small_;
  std::set<std::string> by_row_;  // names of the tensors with one row per input row
  std::vector<Place> places_;
  std::map<std::string, std::vector<std::vector<double>>> sums_;  // by tensor, then by region
};

}  // namespace ligerdsl::test
