// Counts the work of a launch: the weighted sum of sample programs (program_run.h).
#include "analysis/work.h"

#include <algorithm>
#include <cmath>

#include "analysis/prepared_program.h"
#include "analysis/program_run.h"

namespace ligerdsl::analysis {
namespace {

constexpr int64_t kSomePrograms = 32;  // programs sampled if a grid's programs differ

ProgramWork program_work(const Row& row) {
  return {.bytes = row[kBytes],
          .lanes = row[kLanes],
          .functions = row[kFunctions],
          .dots = row[kMultiplyAdds],
          .iterations = row[kIterations],
          .waits = row[kWaits],
          .reductions = row[kReductions],
          .scalars = row[kScalars]};
}

// Sum of the rows of all programs, and the row of the largest program.
class ProgramSum {
 public:
  ProgramSum(ProgramRun& run, int64_t programs)
      : run_(run), sum_(run.width(), 0.0), largest_(run.width(), 0.0) {
    if (programs <= kAllPrograms) {
      for (int64_t i = 0; i < programs; ++i) add(1, run_.run(i));
      return;
    }
    const int64_t inner = programs - 2;
    add(1, run_.run(0));
    const Row last = run_.run(programs - 1), one = run_.run(1 + inner / 3), other = run_.run(inner);
    add(1, last);
    if (equal(one, other) && equal(one, last)) {
      add(static_cast<double>(inner), one);
      return;
    }
    // Sample one program from each of `parts` equal parts of the grid. The position inside a part
    // varies without a period, so that it cannot coincide with a period of the grid.
    constexpr double kGolden = 0.6180339887498949;
    const int64_t parts = std::min(inner, kSomePrograms);
    for (int64_t i = 0; i < parts; ++i) {
      const double within = std::fmod(kGolden * static_cast<double>(i + 1), 1.0);
      const auto at = static_cast<int64_t>((static_cast<double>(i) + within) *
                                           static_cast<double>(inner) / static_cast<double>(parts));
      add(static_cast<double>(inner) / static_cast<double>(parts), run_.run(1 + at));
    }
  }
  const Row& sum() const { return sum_; }
  const Row& largest() const { return largest_; }

 private:
  void add(double count, const Row& row) {
    for (size_t i = 0; i < row.size(); ++i) sum_[i] += count * row[i];
    const auto size = [](const Row& of) {
      return of[kBytes] + of[kLanes] / 4 + of[kMultiplyAdds] / 64;
    };
    if (size(row) > size(largest_)) largest_ = row;
  }
  ProgramRun& run_;
  Row sum_, largest_;
};

}  // namespace

double Traffic::read() const {
  return size > 0 ? std::min(loaded, size) : loaded;
}
double Traffic::written() const {
  return size > 0 ? std::min(stored, size) : stored;
}
double Traffic::repeated() const {
  return loaded - read();
}

double Work::read() const {
  double bytes = 0;
  for (const Traffic& one : traffic) bytes += one.read();
  return bytes;
}
double Work::written() const {
  double bytes = 0;
  for (const Traffic& one : traffic) bytes += one.written();
  return bytes;
}
double Work::repeated() const {
  double bytes = 0;
  for (const Traffic& one : traffic) bytes += one.repeated();
  return bytes;
}

WorkCounter::WorkCounter(const program::Program& program, int num_stages)
    : prepared_(std::make_unique<PreparedProgram>(program, num_stages)) {}
WorkCounter::~WorkCounter() = default;

Work WorkCounter::count(const uint64_t* slots, const Grid& grid,
                        const Assumptions& assumptions) const {
  const PreparedProgram& prepared = *prepared_;
  Work work;
  work.programs = grid[0] * grid[1] * grid[2];
  work.persistent = prepared.counts_programs;
  work.dynamic_persistent = prepared.dynamic_persistent;
  work.stages = prepared.stages;
  work.ring_bytes = prepared.ring_bytes;
  work.live_bytes = prepared.live_bytes;
  work.traffic.resize(prepared.program.arguments.size());
  if (work.programs == 0) return work;
  ProgramRun run(prepared, slots, grid, assumptions);
  const ProgramSum sum(run, work.programs);
  work.total = program_work(sum.sum());
  work.largest = program_work(sum.largest());
  work.unknown = {.loops = sum.sum()[kLoops],
                  .branches = sum.sum()[kBranches],
                  .indices = sum.sum()[kIndices],
                  .masks = sum.sum()[kMasks]};
  for (size_t i = 0; i < work.traffic.size(); ++i) {
    const double* fields = &sum.sum()[kFields + kTrafficFields * i];
    work.traffic[i] = {.loaded = fields[kLoaded],
                       .stored = fields[kStored],
                       .to_dots = fields[kToDots],
                       .resident = fields[kResident],
                       .element_bytes = static_cast<double>(size_of(run.dtype(i))),
                       .size = run.view_bytes(i)};
    work.row_bytes += sum.largest()[kFields + kTrafficFields * i + kResident];
  }
  const size_t first = run.width() - prepared.dots.size();
  for (size_t i = 0; i < prepared.dots.size(); ++i) {
    const PreparedDot& dot = prepared.dots[i];
    work.dots.push_back({.dtype = dot.dtype,
                         .tf32 = dot.tf32,
                         .m = dot.m,
                         .n = dot.n,
                         .k = dot.k,
                         .in_loop = dot.in_loop,
                         .loads_a = dot.loads_a,
                         .multiply_adds = sum.sum()[first + i]});
  }
  return work;
}

Work count_work(const program::Program& program, const uint64_t* slots, const Grid& grid,
                int num_stages, const Assumptions& assumptions) {
  return WorkCounter(program, num_stages).count(slots, grid, assumptions);
}

}  // namespace ligerdsl::analysis
