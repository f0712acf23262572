// Evaluates loops and branches with abstract values. A long loop evaluates its first, second,
// middle and last iterations. If the second and the middle iterations do equal work, every
// iteration between the first and the last counts as equal to them.
#include <cmath>

#include "analysis/program_run.h"

namespace ligerdsl::analysis {

using program::AttrKey;
using program::Op;
using program::ValueId;

namespace {
constexpr double kLoopInstructions = 3;
constexpr int64_t kAllIterations = 6;   // longest loop whose iterations are all evaluated
constexpr int64_t kSomeIterations = 8;  // iterations sampled if a loop's iterations differ
constexpr int64_t kMostTests = 64;      // most iterations of a while loop that are evaluated
}  // namespace

bool equal(const Row& a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-9 * std::abs(a[i])) return false;
  return true;
}

void ProgramRun::control(const PreparedOp& prepared) {
  switch (static_cast<program::ControlOp>(prepared.op->code)) {
    case program::ControlOp::for_range:
      return for_range(prepared);
    case program::ControlOp::if_else:
      return if_else(prepared);
    case program::ControlOp::while_loop:
      return while_loop(prepared);
    case program::ControlOp::yield:
      return;
  }
}

// Evaluates the branch that a known condition selects. If the condition is unknown, counts the
// branch that moves more bytes. If both move equal bytes, counts the branch with fewer
// instructions, because the longer branch is usually a special case.
void ProgramRun::if_else(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  const Value& test = values_[op.operands[0]];
  const auto take = [&](size_t branch) {
    copy(run_block(prepared.regions[branch]), 0, op.results, 0);
  };
  if (test.is_integer()) return take(test.base ? 0 : 1);
  (*row_)[kBranches] += 1;
  std::vector<Value> results;
  const Row yes = separate_row([&] { take(0); });
  for (ValueId result : op.results) results.push_back(values_[result]);
  const Row no = separate_row([&] { take(1); });
  const bool first =
      yes[kBytes] != no[kBytes] ? yes[kBytes] > no[kBytes] : yes[kLanes] <= no[kLanes];
  add(1, first ? yes : no);
  for (size_t i = 0; i < results.size(); ++i) {
    Value& other = values_[op.results[i]];
    if (!(results[i] == other)) other = Value{};
  }
}

void ProgramRun::for_range(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  const Value &lo = values_[op.operands[0]], &hi = values_[op.operands[1]],
              &step = values_[op.operands[2]];
  Loop loop{prepared, *prepared.regions[0].region, lo.base, std::max<int64_t>(step.base, 1), {},
            {}};
  for (size_t i : prepared.carried) loop.carried.push_back(values_[op.operands[i + 3]]);
  if (lo.is_integer() && hi.is_integer() && step.is_integer()) {
    const int64_t trips = hi.base > lo.base ? (hi.base - lo.base - 1) / loop.step + 1 : 0;
    if (trips > 0) return sample(loop, trips);
    for (size_t i : prepared.carried) values_[op.results[i]] = values_[op.operands[i + 3]];
    return;
  }
  (*row_)[kLoops] += 1;
  add(assumptions_.iterations, separate_row([&] { run_iteration(loop, -1); }));
  for (ValueId result : op.results) values_[result] = {};
}

// Evaluates iteration `number` and adds its work to the row. If `number` is -1, the counter is
// unknown.
void ProgramRun::run_iteration(const Loop& loop, int64_t number) {
  const PreparedOp& prepared = loop.prepared;
  values_[loop.body.arguments[0]] =
      number < 0 ? Value{} : integer_value(loop.lo + number * loop.step);
  for (size_t i = 0; i < prepared.carried.size(); ++i) {
    Value& value = values_[loop.body.arguments[prepared.carried[i] + 1]];
    value = loop.carried[i];
    if (!loop.steps.empty()) value.base += loop.steps[i] * (number - 1);
  }
  const std::vector<ValueId>& yielded = run_block(prepared.regions[0]);
  for (size_t i : prepared.carried) values_[prepared.op->results[i]] = values_[yielded[i]];
  (*row_)[kScalars] += kLoopInstructions;
  if (!prepared.loads) return;
  (*row_)[kIterations] += 1;
  (*row_)[kWaits] += 1.0 / prepared.stages;
}

std::vector<Value> ProgramRun::carried_values(const Loop& loop) const {
  std::vector<Value> values;
  for (size_t i : loop.prepared.carried) values.push_back(values_[loop.prepared.op->results[i]]);
  return values;
}

void ProgramRun::sample(Loop& loop, int64_t trips) {
  if (trips <= kAllIterations) {
    for (int64_t i = 0; i < trips; ++i) {
      run_iteration(loop, i);
      loop.carried = carried_values(loop);
    }
    return;
  }
  run_iteration(loop, 0);
  loop.carried = carried_values(loop);
  const Row second = separate_row([&] { run_iteration(loop, 1); });
  // Assumes that a carried integer changes by equal steps. Other values that changed become
  // unknown.
  const std::vector<Value> after = carried_values(loop);
  for (size_t i = 0; i < after.size(); ++i) {
    const Value &from = loop.carried[i], &to = after[i];
    const bool integers = from.is_integer() && to.is_integer() && from.step == to.step;
    loop.steps.push_back(integers ? to.base - from.base : 0);
    if (integers || from == to) continue;
    const int argument = from.argument;
    loop.carried[i] = Value{};
    loop.carried[i].argument = argument;
  }
  const Row middle = separate_row([&] { run_iteration(loop, trips / 2); });
  if (equal(second, middle)) {
    add(static_cast<double>(trips - 2), second);
  } else {
    for (int64_t i = 0; i < kSomeIterations; ++i) {
      const int64_t at = 1 + (2 * i + 1) * (trips - 2) / (2 * kSomeIterations);
      add(static_cast<double>(trips - 2) / kSomeIterations,
          separate_row([&] { run_iteration(loop, at); }));
    }
  }
  run_iteration(loop, trips - 1);
}

// Evaluates iterations while the condition is known. If it is unknown, evaluates one iteration and
// counts it Assumptions::iterations times. A dynamic persistent loop only evaluates program
// `drawn_`.
void ProgramRun::while_loop(const PreparedOp& prepared) {
  const Op& op = *prepared.op;
  const std::vector<ValueId>&test = prepared.regions[0].region->arguments,
        &body = prepared.regions[1].region->arguments;
  if (op.find(AttrKey::independent)) {
    for (ValueId argument : body) values_[argument] = {};
    values_[body[0]] = integer_value(drawn_);
    run_block(prepared.regions[1]);
    return;
  }
  copy(op.operands, 0, test, 0);
  for (int64_t i = 0; i < kMostTests; ++i) {
    const std::vector<ValueId>& tested = run_block(prepared.regions[0]);
    const Value more = values_[tested[0]];
    if (more.is_integer() && !more.base) return copy(tested, 1, op.results, 0);
    copy(tested, 1, body, 0);
    const auto one = separate_row([&] { copy(run_block(prepared.regions[1]), 0, test, 0); });
    if (more.is_integer()) {
      add(1, one);
      (*row_)[kIterations] += prepared.loads;
      (*row_)[kWaits] += prepared.loads;
      continue;
    }
    add(assumptions_.iterations, one);
    (*row_)[kIterations] += prepared.loads * assumptions_.iterations;
    (*row_)[kWaits] += prepared.loads * assumptions_.iterations;
    break;
  }
  (*row_)[kLoops] += 1;
  for (ValueId result : op.results) values_[result] = {};
}

}  // namespace ligerdsl::analysis
