// Loops and branches.
#include "ligerdsl/dsl/control.h"

#include "recorder.h"

namespace ligerdsl::detail {
namespace {

std::vector<Type> types_of(const Recorder& recorder, const std::vector<Handle>& handles) {
  std::vector<Type> types;
  for (const Handle& handle : handles) types.push_back(recorder.type(handle));
  return types;
}

// Returns a Check that fails unless yielded values have the expected types. In its error, `what`
// names an expected value, and `body` the code that yields the value.
Recorder::Check same_types(const Recorder& recorder, const std::vector<Type>& expected,
                           const std::string& op, const std::string& what, const std::string& body,
                           Loc loc) {
  return [&recorder, expected, op, what, body, loc](const std::vector<Handle>& yielded) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const Type& got = recorder.type(yielded[i]);
      if (got != expected[i]) {
        fail(loc, op,
             what + " " + std::to_string(i) + " is " + to_string(expected[i]) + ", but the " +
                 body + " returns " + to_string(got) + "; dtype and shape must be the same");
      }
    }
  };
}

void require_condition(const Recorder& recorder, const Handle& condition, const std::string& op,
                       Loc loc) {
  if (recorder.type(condition) != scalar_type(i1)) {
    fail(loc, op,
         "the condition must be an i1 scalar, got " + to_string(recorder.type(condition)) +
             "; compare first, as in x != 0");
  }
}

// Fails if the counter could overflow: after the last iteration it is at most hi + step - 1. A loop
// with a counter that wraps would never end.
void require_representable_counter(const ScalarArg& hi, const ScalarArg& step, int64_t largest,
                                   Loc loc) {
  if (!hi.is_number || !step.is_number || hi.number.integer <= largest - (step.number.integer - 1))
    return;
  fail(loc, "for_range",
       "hi + step - 1 must be at most " + std::to_string(largest) +
           ", got hi = " + std::to_string(hi.number.integer) + " and a step of " +
           std::to_string(step.number.integer) + "; end the loop earlier, or count in i64");
}

// Fails if the value of an attribute exceeds the limit in the table of attributes.
void require_at_most(AttrKey key, int64_t value, const std::string& remedy, Loc loc) {
  const program::AttrInfo& attribute = *program::find(key);
  if (value <= attribute.most) return;
  fail(loc, "for_range",
       std::string(attribute.name) + " must be at most " + std::to_string(attribute.most) +
           ", got " + std::to_string(value) + "; " + remedy);
}

void require_live_all(const Recorder& recorder, const std::vector<Handle>& handles,
                      const std::string& op, Loc loc) {
  for (const Handle& handle : handles) recorder.require_live(handle, op, loc);
}

}  // namespace

std::vector<Handle> record_for(Recorder& recorder, const ScalarArg& lo, const ScalarArg& hi,
                               const ScalarArg& step, const LoopOptions& options,
                               const std::vector<Handle>& init, const RegionBody& body, Loc loc) {
  const std::string op = "for_range";
  if (step.is_number && (step.number.is_float || step.number.integer <= 0)) {
    fail(step.loc, op,
         "the step must be a positive integer, got " + (step.number.is_float
                                                            ? std::to_string(step.number.real)
                                                            : std::to_string(step.number.integer)));
  }
  if (options.num_stages < 0)
    fail(loc, op,
         "num_stages must be 0 (automatic) or positive, got " + std::to_string(options.num_stages));
  if (options.unroll < 0)
    fail(loc, op,
         "unroll must be 0 (automatic) or positive, got " + std::to_string(options.unroll));
  require_at_most(AttrKey::num_stages, options.num_stages,
                  "use fewer stages: a few keep the memory busy", loc);
  require_at_most(AttrKey::unroll, options.unroll,
                  "unroll an inner loop as well, or use larger tiles", loc);
  std::vector<Handle> bounds;
  for (const ScalarArg* bound : {&lo, &hi, &step})
    bounds.push_back(index_operand(recorder, *bound, op, bound->loc));
  const bool wide = bounds[0].dtype == i64 || bounds[1].dtype == i64 || bounds[2].dtype == i64;
  for (Handle& bound : bounds) bound = cast(bound, wide ? i64 : i32, loc);

  require_representable_counter(hi, step, wide ? INT64_MAX : INT32_MAX, loc);

  require_live_all(recorder, init, op, loc);
  const std::vector<Type> carried = types_of(recorder, init);
  std::vector<Type> arguments = carried;
  arguments.insert(arguments.begin(), scalar_type(wide ? i64 : i32));
  std::vector<program::Region> regions;
  regions.push_back(recorder.region(
      arguments, body, same_types(recorder, carried, op, "carried value", "body", loc), loc));

  Attrs attrs;
  if (options.num_stages) attrs.push_back({AttrKey::num_stages, int64_t{options.num_stages}});
  if (options.unroll) attrs.push_back({AttrKey::unroll, int64_t{options.unroll}});
  if (options.tensor_copies) attrs.push_back({AttrKey::tensor_copies, int64_t{1}});
  std::vector<Handle> operands = bounds;
  operands.insert(operands.end(), init.begin(), init.end());
  return recorder.emit(OpCode::for_range, operands, carried, std::move(attrs), loc,
                       std::move(regions));
}

std::vector<Handle> record_if(Recorder& recorder, const Scalar& condition, const RegionBody& then,
                              const RegionBody& otherwise, Loc loc) {
  const std::string op = "if_";
  recorder.require_live(condition.handle(), op, loc);
  require_condition(recorder, condition.handle(), op, loc);
  std::vector<program::Region> regions;
  std::vector<Type> results;
  regions.push_back(recorder.region(
      {}, then, [&](const std::vector<Handle>& yielded) { results = types_of(recorder, yielded); },
      loc));
  if (otherwise) {
    regions.push_back(recorder.region(
        {}, otherwise,
        same_types(recorder, results, op, "the first branch's value", "second branch", loc), loc));
  } else {
    regions.emplace_back();  // no else branch
  }
  return recorder.emit(OpCode::if_else, {condition.handle()}, results, {}, loc, std::move(regions));
}

std::vector<Handle> record_while(Recorder& recorder, const std::vector<Handle>& init,
                                 const RegionBody& condition, const RegionBody& body,
                                 bool independent, Loc loc) {
  const std::string op = "while_";
  require_live_all(recorder, init, op, loc);
  const std::vector<Type> carried = types_of(recorder, init);
  // The first region yields the condition and its own arguments.
  const RegionBody test = [&](const std::vector<Handle>& arguments) {
    std::vector<Handle> yielded = condition(arguments);
    yielded.insert(yielded.end(), arguments.begin(), arguments.end());
    return yielded;
  };
  const auto check = [&](const std::vector<Handle>& yielded) {
    require_condition(recorder, yielded[0], op, loc);
  };
  std::vector<program::Region> regions;
  regions.push_back(recorder.region(carried, test, check, loc));
  regions.push_back(recorder.region(
      carried, body, same_types(recorder, carried, op, "carried value", "body", loc), loc));
  Attrs attrs;
  if (independent) attrs.push_back({AttrKey::independent, int64_t{1}});
  return recorder.emit(OpCode::while_loop, init, carried, std::move(attrs), loc,
                       std::move(regions));
}

}  // namespace ligerdsl::detail
