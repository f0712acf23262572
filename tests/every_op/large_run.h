// One operation on tensors of more than 2^31 elements, beside the same operation on the few rows that they repeat.
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

// Element `index` of a result that is summed over all rows, from those of each region's rows and how many times the
// region repeats them.
using Combine =
    std::function<double(size_t index, const std::vector<double>& of_region, const std::vector<double>& times)>;

struct LargeCase {
  Case which;                                   // without the size that is large
  const char* rows = "N";                       // the letter of that size
  int64_t period = 61;                          // prime: no power of two of rows is a whole number of periods
  double weight_scale = 1;                      // of the tensor of that name: logits of many columns stay in range
  bool many_rows = false;                       // more rows than the limit, not only more elements
  Tolerance tolerance = {1e-2, 0};              // of results with a row for each row
  double sum_tolerance = 1e-4;                  // normwise, of results summed over all rows
  std::map<std::string, Combine> combine = {};  // of those that do not just add up, by tensor
};

inline std::ostream& operator<<(std::ostream& out, const LargeCase& large) {
  return out << large.which;
}

// 2^31 elements, or few, where a test wants the same path with little memory.
struct Limits {
  int64_t elements = int64_t{1} << 31;
  int64_t most_bytes = int64_t{60} << 30;  // of device memory; what twice the limit takes no more than goes that far
};

class LargeRun {
 public:
  LargeRun(ligerdsl_context_t context, const LargeCase& large, const Limits& limits);

  // False where there is nothing to run: a library is missing, or the grid is too large for a GPU. Then why_not() says
  // which.
  bool run();
  const std::string& why_not() const { return why_not_; }
  // What is wrong with the results; empty if nothing is.
  std::vector<std::string> differences() const;

  const Regions& regions() const { return *regions_; }
  // Results with a row for each row, and the elements of such a row.
  std::map<std::string, int64_t> row_results() const;
  // Changes an element of a large tensor: what differences() must find.
  void damage(const std::string& tensor, int64_t element);

 private:
  struct Place {
    cli::OpInstance::Slot* small;
    std::vector<int64_t> shape;  // of the large tensor
    bool by_row, result;
    int64_t row_elements;
    std::unique_ptr<Memory> memory;  // null: an input that both share
    std::byte* data() const { return memory ? memory->data() : static_cast<std::byte*>(small->data); }
    size_t row_bytes() const { return static_cast<size_t>(row_elements * size_of(small->dtype)); }
  };

  void choose_rows(const Limits& limits);
  void allocate();
  ligerdsl_status_t execute(const std::function<ligerdsl_tensor_t(const Place&, std::vector<int64_t>*)>& tensor_of);
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
  std::set<std::string> by_row_;  // tensors with a row for each row
  std::vector<Place> places_;
  std::map<std::string, std::vector<std::vector<double>>> sums_;  // by tensor and region
};

}  // namespace ligerdsl::test
