// Formulas of operations on the tensors of one call, a table per family.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/cli/kernels/op_oracle.h"
#include "lib/instance/npy.h"

namespace ligerdsl::cli {

using oracle::Values;
using Expected = std::map<std::string, Expectation>;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One operation's description and tensors, in the formulas' terms.
struct Call {
  const OpInstance& op;
  const TensorBytes& tensors;

  Call(const OpInstance& instance, const TensorBytes& before) : op(instance), tensors(before) {}
  // Made when a formula first asks: of a table of which a few rows are read they would be gigabytes.
  const Values& operator[](const std::string& name) const {
    static const Values none;
    const auto found = tensors.find(name);
    if (found == tensors.end()) return none;
    const auto [values, is_new] = values_.try_emplace(name);
    if (is_new) values->second = to_doubles(found->second, op.find(name)->dtype);
    return values->second;
  }
  Values row(const char* name, int64_t row, int64_t cols) const {
    const DType dtype = type(name);
    const auto bytes = static_cast<size_t>(cols * size_of(dtype));
    return to_doubles(tensors.at(name).substr(static_cast<size_t>(row) * bytes, bytes), dtype);
  }
  bool has(const char* name) const { return tensors.count(name) > 0; }
  double number(const char* name, double missing = 0) const { return op.number(name, missing); }
  int option(const char* name, int missing = 0) const { return static_cast<int>(number(name, missing)); }
  bool flag(const char* name) const { return op.number(name, 0) != 0; }
  int64_t size(const char* letter) const { return op.size(letter); }
  DType type(const char* name) const { return op.find(name)->dtype; }
  std::vector<int64_t> integers(const char* name) const {
    const Values& values = (*this)[name];
    return {values.begin(), values.end()};
  }
  // A sum over rows, added to what was there when the operation accumulates; `terms`: how what is summed is rounded.
  Expectation over_rows(const char* name, Values sums, DType terms = DType::f32,
                        const char* accumulate = "accumulate") const {
    const DType own = type(name);
    if (flag(accumulate)) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += (*this)[name][i];
    }
    return {std::move(sums), true, own == DType::f32 ? terms : own};
  }

 private:
  mutable std::map<std::string, Values> values_;
};

// Rows times one factor or one of each row.
Expected scaled(const Call& c, const char* out, const char* in, const char* factors, const char* columns);

using Formulas = std::map<std::string, std::function<Expected(const Call&)>>;  // by operation

Formulas elementwise_formulas();
Formulas norm_formulas();
Formulas activation_formulas();
Formulas loss_formulas();
Formulas linear_loss_formulas();
Formulas product_formulas();
Formulas attention_formulas();
Formulas embedding_formulas();
Formulas optimizer_formulas();

}  // namespace ligerdsl::cli
