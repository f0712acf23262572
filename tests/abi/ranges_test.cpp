// Ranges of every numeric field and argument, from the operation table. Values within a range are
// accepted. Others give INVALID_ARGUMENT with field, range and value.
#include <cmath>
#include <limits>

#include "table_call.h"

namespace ligerdsl::test::ranges_test {
namespace {

using lib::FieldType;
using lib::Range;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Cases {
  std::vector<double> accepted, refused;
};

Cases cases_of(FieldType type, const Range& range) {
  Cases cases;
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  if (type != FieldType::f32) {
    if (low) cases.accepted.push_back(range.low);
    if (high) cases.accepted.push_back(range.high);
    if (low) cases.refused.push_back(range.low - 1);
    if (high) cases.refused.push_back(range.high + 1);
    return cases;
  }
  const auto bound_low = static_cast<float>(range.low), bound_high = static_cast<float>(range.high);
  cases.refused = {kNan, -kInfinity};
  (range.infinite ? cases.accepted : cases.refused).push_back(kInfinity);
  cases.accepted.push_back(low ? bound_low : -std::numeric_limits<float>::max());
  cases.accepted.push_back(!high              ? std::numeric_limits<float>::max()
                           : range.below_high ? std::nextafter(bound_high, bound_low)
                                              : bound_high);
  if (low) cases.refused.push_back(std::nextafter(bound_low, -kInfinity));
  if (range.or_zero) cases.accepted.push_back(0);
  if (high)
    cases.refused.push_back(range.below_high ? bound_high : std::nextafter(bound_high, kInfinity));
  return cases;
}

// Expects a message that names the field, the expected range and the given value `got`. No bound
// prints as inf, and no number has 20 digits.
void expect_report(ligerdsl_status_t status, const std::string& name, const std::string& got) {
  const std::string text = ligerdsl_last_error();
  EXPECT_STREQ(ligerdsl_status_name(status), "INVALID_ARGUMENT") << text;
  for (const std::string& word : {"`" + name + "`: expected ", "got " + got})
    EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
  EXPECT_EQ(text.find("inf to"), std::string::npos) << text;
  size_t digits = 0;
  for (const char letter : text) {
    digits = std::isdigit(static_cast<unsigned char>(letter)) ? digits + 1 : 0;
    EXPECT_LE(digits, 19u) << text;
  }
}

std::string text_of(FieldType type, double value) {
  if (type != FieldType::f32) return std::to_string(static_cast<int64_t>(value));
  return std::isnan(value) ? "nan" : std::isinf(value) ? (value < 0 ? "-inf" : "inf") : "";
}

class Ranges : public testing::TestWithParam<std::string> {
 protected:
  const TableContext context_{program::Target::cpu};
  const lib::OpInfo& info_ = op_named(GetParam());

  ligerdsl_status_t plan(const TableCall& call) {
    ligerdsl_plan_t plan = nullptr;
    const ligerdsl_status_t status = call.plan(context_, &plan);
    ligerdsl_plan_destroy(plan);
    return status;
  }
};

TEST_P(Ranges, FieldsAreChecked) {
  for (const lib::FieldInfo& field : info_.fields) {
    if (field.role != lib::FieldRole::option) continue;
    SCOPED_TRACE(field.name);
    const Cases cases = cases_of(field.type, field.range);
    for (const double value : cases.refused) {
      TableCall call(info_, 64, true);
      call.set(field.name, value);
      expect_report(plan(call), field.name, text_of(field.type, value));
    }
    for (const double value : cases.accepted) {
      TableCall call(info_, 64, true);
      call.set(field.name, value);
      // An integer in range may still contradict another field.
      const bool accepted = plan(call) == LIGERDSL_SUCCESS;
      const std::string text = accepted ? "" : ligerdsl_last_error();
      EXPECT_TRUE(accepted || field.type != FieldType::f32) << value << ": " << text;
      const std::string got = ", got " + std::to_string(static_cast<int64_t>(value));
      for (const std::string& range :
           {" or more" + got,
            " to " + std::to_string(static_cast<int64_t>(std::min(field.range.high, 1e18))) + got})
        EXPECT_EQ(text.find(range), std::string::npos) << text;
    }
  }
}

TEST_P(Ranges, ValuesAreChecked) {
  for (const lib::ValueInfo& value : info_.values) {
    SCOPED_TRACE(value.name);
    const auto run = [&](double number, bool everything) {
      TableCall call(info_, 64, everything);
      call.set(value.name, number);
      call.make_tensors(2);
      ligerdsl_plan_t plan = nullptr;
      EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_SUCCESS) << ligerdsl_last_error();
      expectations() = {{{"everything", 0, uint64_t{1} << 63}}};
      const ligerdsl_status_t status = lib::execute_entry(
          info_, plan, call.args(), reinterpret_cast<void*>(1 << 20), 1 << 20, nullptr);
      ligerdsl_plan_destroy(plan);
      return status;
    };
    const Cases cases = cases_of(value.type, value.range);
    for (const double number : cases.refused) {
      expect_report(run(number, false), value.name, text_of(value.type, number));
      EXPECT_EQ(expectations().launches, 0);
      if (value.unless_field < 0)
        expect_report(run(number, true), value.name, text_of(value.type, number));
      else
        EXPECT_EQ(run(number, true), LIGERDSL_SUCCESS)
            << "it is not read: " << ligerdsl_last_error();
    }
    for (const double number : cases.accepted)
      EXPECT_EQ(run(number, false), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Ranges, testing::ValuesIn(names_of_table()),
                         [](const auto& row) { return row.param; });

// The operation table is generated. This test compares AdamW's ranges with numbers written by hand.
TEST(Ranges, AdamWRangesAreAsDocumented) {
  for (const lib::ValueInfo& value : op_named("adamw_step").values) {
    const std::string name = value.name;
    EXPECT_EQ(value.range.low, name == "step" ? 1 : 0) << name;
    EXPECT_EQ(value.range.high, name.starts_with("beta") ? 1 : kInfinity) << name;
    EXPECT_EQ(value.range.below_high, name.starts_with("beta")) << name;
    EXPECT_EQ(value.unless_field >= 0, name == "lr" || name == "step") << name;
  }
}

}  // namespace
}  // namespace ligerdsl::test::ranges_test
