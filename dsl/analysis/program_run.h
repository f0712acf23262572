// Evaluation of one program of a launch, with abstract values.
//
// A Row holds all counts as doubles: the fields of ProgramWork and Unknowns, then four per argument
// and one per dot. One loop over its elements adds it to another Row with a weight.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/abstract_value.h"
#include "analysis/prepared_program.h"
#include "analysis/work.h"

namespace ligerdsl::analysis {

enum Field : size_t {
  kBytes,
  kLanes,
  kFunctions,
  kMultiplyAdds,
  kIterations,
  kWaits,
  kReductions,
  kScalars,
  kLoops,
  kBranches,
  kIndices,
  kMasks,
  kFields
};
enum TrafficField : size_t { kLoaded, kStored, kToDots, kResident, kTrafficFields };

using Row = std::vector<double>;

// Returns true if two programs or iterations do equal work.
bool equal(const Row& a, const Row& b);

struct ViewValue {
  std::array<int64_t, kMaxRank> dims{};
  std::array<bool, kMaxRank> known{};
  std::array<int64_t, kMaxRank> strides{};
};

class ProgramRun {
 public:
  ProgramRun(const PreparedProgram& prepared, const uint64_t* slots, const Grid& grid,
             const Assumptions& assumptions)
      : prepared_(prepared),
        program_(prepared.program),
        assumptions_(assumptions),
        grid_(grid),
        values_(program_.values.size()),
        views_(program_.values.size()),
        width_(kFields + kTrafficFields * program_.arguments.size() + prepared.dots.size()),
        lowest_(program_.arguments.size(), INT64_MAX),
        highest_(program_.arguments.size(), INT64_MIN) {
    bind(slots);
  }

  // Evaluates one program of the grid and returns its row.
  Row run(int64_t number) {
    id_ = {number % grid_[0], number / grid_[0] % grid_[1], number / grid_[0] / grid_[1]};
    if (prepared_.dynamic_persistent) id_ = {0, 0, 0}, drawn_ = number;
    Row row(width_, 0.0);
    row_ = &row;
    run_block(prepared_.body);
    if (std::any_of(program_.arguments.begin(), program_.arguments.end(),
                    [&](const auto& a) { return row[traffic_field(index_of(a), kLoaded)] > 0; }))
      row[kWaits] += 1;  // one memory latency for loads outside loops and a loop's first load
    return row;
  }
  size_t width() const { return width_; }
  double view_bytes(size_t argument) const;
  DType dtype(size_t argument) const { return type(program_.arguments[argument].value).dtype; }

 private:
  size_t index_of(const program::Argument& argument) const {
    return static_cast<size_t>(&argument - program_.arguments.data());
  }
  static size_t traffic_field(size_t argument, TrafficField field) {
    return kFields + kTrafficFields * argument + field;
  }
  const program::Type& type(program::ValueId id) const { return program_.values[id]; }

  void bind(const uint64_t* slots);
  // Runs a region and returns the operands of its yield.
  const std::vector<program::ValueId>& run_block(const PreparedBlock& block);
  void run_op(const PreparedOp& prepared);
  void creation(const program::Op& op);
  void evaluate(const program::Op& op);
  void memory(const PreparedOp& prepared);
  void tile_access(const PreparedOp& prepared);
  void pointer_access(const PreparedOp& prepared);
  void slice(const program::Op& op);
  void add_traffic(const PreparedOp& prepared, int argument, double elements);
  // Counts an access whose index is loaded from memory. The load of the index must complete before
  // the access starts.
  void unknown_index(const PreparedOp& prepared) {
    (*row_)[kIndices] += 1;
    if (program::reads(program::info(prepared.op->code).effect)) (*row_)[kWaits] += 1;
  }
  void control(const PreparedOp& prepared);
  void for_range(const PreparedOp& prepared);
  void while_loop(const PreparedOp& prepared);
  void if_else(const PreparedOp& prepared);

  // Loop whose iterations are sampled.
  struct Loop {
    const PreparedOp& prepared;
    const program::Region& body;
    int64_t lo, step;
    std::vector<Value> carried;  // before the next iteration; with `steps`, before iteration 1
    std::vector<int64_t> steps;  // change of each carried value per iteration; empty if unknown
  };
  void run_iteration(const Loop& loop, int64_t number);
  std::vector<Value> carried_values(const Loop& loop) const;
  void sample(Loop& loop, int64_t trips);

  void copy(const std::vector<program::ValueId>& from, size_t first,
            const std::vector<program::ValueId>& to, size_t first_to) {
    std::vector<Value> moved;
    for (size_t i = first; i < from.size(); ++i) moved.push_back(values_[from[i]]);
    for (size_t i = 0; i < moved.size(); ++i) values_[to[first_to + i]] = moved[i];
  }
  void add(double scale, const Row& row) {
    for (size_t i = 0; i < width_; ++i) (*row_)[i] += scale * row[i];
  }
  // Runs `body` with an empty row and returns the row.
  template <class Body>
  Row separate_row(Body body) {
    Row row(width_, 0.0);
    Row* const outer = std::exchange(row_, &row);
    body();
    row_ = outer;
    return row;
  }

  const PreparedProgram& prepared_;
  const program::Program& program_;
  const Assumptions& assumptions_;
  Grid grid_;
  std::vector<Value> values_;
  std::vector<ViewValue> views_;
  size_t width_;
  std::vector<int64_t> lowest_, highest_;  // range of bytes accessed through pointers, by argument
  Row* row_ = nullptr;
  std::array<int64_t, 3> id_{};
  int64_t drawn_ = 0;  // current program of a dynamic persistent kernel
};

}  // namespace ligerdsl::analysis
