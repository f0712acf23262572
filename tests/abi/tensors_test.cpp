// Tests which aliases and strides are permitted for every tensor of every operation of the table.
// Kernels do not run. tests/every_op/distant_rows_test.cpp compares results of strided and
// contiguous rows.

#include "lib/instance/op_defaults.h"
#include "table_call.h"

namespace ligerdsl::test::tensors_test {
namespace {

using lib::Direction;

class Tensors : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int64_t kRows = 6;

  const lib::OpInfo& info() const { return op_named(GetParam()); }
  bool multiplies() const { return test::multiplies(info()); }
  const char* name_of(size_t i) const { return info().tensors[i].name; }

  // Makes a valid call with its tensors, applies `spoil`, and returns the status of execute.
  template <class Spoil>
  ligerdsl_status_t run(bool everything, bool in_place, const Spoil& spoil) {
    const TableContext context(program::Target::cpu);
    TableCall call(info(), 64, everything);
    if (in_place) call.set("in_place", 1), call.set("accumulate", 0);
    ligerdsl_plan_t plan = nullptr;
    EXPECT_EQ(call.plan(context, &plan), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    call.make_tensors(kRows);
    spoil(call);
    expectations() = {{{"everything", 0, uint64_t{1} << 63}}};
    const ligerdsl_status_t status = lib::execute_entry(
        info(), plan, call.args(), reinterpret_cast<void*>(1 << 24), 1 << 24, nullptr);
    for (const std::string& violation : expectations().violations) ADD_FAILURE() << violation;
    EXPECT_TRUE(status == LIGERDSL_SUCCESS || expectations().launches == 0);
    ligerdsl_plan_destroy(plan);
    return status;
  }

  std::vector<bool> given(bool everything) {
    TableCall call(info(), 64, everything);
    call.make_tensors(kRows);
    std::vector<bool> all;
    for (size_t i = 0; i < info().tensors.size(); ++i) all.push_back(call.tensor(i) != nullptr);
    return all;
  }

  // Calls `body` with every pair of an output and another tensor.
  template <class Body>
  void for_each_pair(bool everything, const Body& body) {
    const std::vector<bool> here = given(everything);
    for (size_t a = 0; a < here.size(); ++a) {
      if (!here[a] || info().tensors[a].direction == Direction::in) continue;
      for (size_t b = 0; b < here.size(); ++b) {
        if (a == b || !here[b]) continue;
        SCOPED_TRACE(std::string(name_of(a)) + " over " + name_of(b));
        body(a, b);
      }
    }
  }

  bool declared(size_t a, size_t b) const {
    return std::any_of(info().aliases.begin(), info().aliases.end(),
                       [&](const lib::AliasInfo& alias) {
                         const auto output = static_cast<size_t>(alias.output),
                                    input = static_cast<size_t>(alias.input);
                         return (output == a && input == b) || (output == b && input == a);
                       });
  }
};

void expect_shared(ligerdsl_status_t status, const char* a, const char* b) {
  const std::string text = ligerdsl_last_error();
  EXPECT_STREQ(ligerdsl_status_name(status), "INVALID_ALIAS") << text;
  EXPECT_NE(text.find("shares memory with `"), std::string::npos) << text;
  for (const char* name : {a, b})
    EXPECT_NE(text.find(std::string("`").append(name).append("`")), std::string::npos) << text;
}

int64_t elements(const ligerdsl_tensor_t& t) {
  int64_t all = 1;
  for (int i = 0; i < t.ndim; ++i) all *= t.shape[i];
  return all;
}

TEST_P(Tensors, OutputsShareOnlyDescribedMemory) {
  for (const bool everything : {false, true}) {
    for_each_pair(everything, [&](size_t a, size_t b) {
      expect_shared(run(everything, false,
                        [&](TableCall& call) { call.tensor(a)->data = call.tensor(b)->data; }),
                    name_of(a), name_of(b));
    });
  }
}

// Even in place, two tensors share all their memory or none.
TEST_P(Tensors, InPlaceOutputsOverlapFullyOrNotAtAll) {
  const bool in_place = info().in_place_field >= 0;
  for_each_pair(true, [&](size_t a, size_t b) {
    TableCall call(info(), 64, true);
    call.make_tensors(kRows);
    if (elements(*call.tensor(b)) < 2 || call.tensor(a)->dtype.bits > call.tensor(b)->dtype.bits)
      return;
    const auto second = [&](TableCall& call) {
      call.tensor(a)->data =
          static_cast<std::byte*>(call.tensor(b)->data) + call.tensor(b)->dtype.bits / 8;
    };
    expect_shared(run(true, in_place, second), name_of(a), name_of(b));
  });
}

TEST_P(Tensors, InPlaceIsAcceptedIfDescribed) {
  EXPECT_EQ(info().in_place_field >= 0, !info().aliases.empty());
  if (multiplies()) return;
  for (const bool everything : {false, true}) {
    const std::vector<bool> here = given(everything);
    for (const lib::AliasInfo& alias : info().aliases) {
      const auto a = static_cast<size_t>(alias.output), b = static_cast<size_t>(alias.input);
      if (!here[a] || !here[b]) continue;
      EXPECT_EQ(run(everything, true,
                    [&](TableCall& call) { call.tensor(a)->data = call.tensor(b)->data; }),
                LIGERDSL_SUCCESS)
          << name_of(a) << " over " << name_of(b) << ": " << ligerdsl_last_error();
    }
  }
}

// Returns true if a tensor has rows with a common stride.
bool has_rows(const lib::TensorInfo& tensor) {
  return tensor.shape == lib::ShapeKind::leading && tensor.rank >= 2;
}

// Rows may have any stride, but the elements of a row must be contiguous.
TEST_P(Tensors, StridesOfRowsAreFree) {
  const std::vector<bool> here = given(true);
  int strided = 0;
  for (size_t i = 0; i < here.size(); ++i) {
    const lib::TensorInfo& tensor = info().tensors[i];
    if (!here[i] || !has_rows(tensor)) continue;
    SCOPED_TRACE(name_of(i));
    const auto with = [&](int64_t row, int64_t element) {
      return run(true, false, [&](TableCall& call) {
        const ligerdsl_tensor_t& t = *call.tensor(i);
        std::vector<int64_t> strides{element};
        for (int d = t.ndim; d-- > 1;)
          strides.insert(strides.begin(), strides.front() * t.shape[d]);
        strides.front() = strides.front() / element * row;
        call.set_strides(i, strides);
      });
    };
    const auto expect_refused = [&](ligerdsl_status_t status, ligerdsl_status_t expected,
                                    const char* words) {
      const std::string text = ligerdsl_last_error();
      EXPECT_STREQ(ligerdsl_status_name(status), ligerdsl_status_name(expected)) << text;
      for (const std::string word : {name_of(i), words})
        EXPECT_NE(text.find(word), std::string::npos) << text;
    };
    const std::string name = name_of(i);
    if (cli::defaults_of(info()).of(name).contiguous) {
      expect_refused(with(3, 1), LIGERDSL_INVALID_SHAPE, "contiguous");
    } else if (!multiplies()) {
      EXPECT_EQ(with(3, 1), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    }
    expect_refused(with(6, 2), LIGERDSL_INVALID_SHAPE, "the last dimension needs a stride of 1");
    expect_refused(with(-1, 1), LIGERDSL_INVALID_SHAPE, "expected strides of 0 or more");
    if (tensor.direction != Direction::in)  // all rows at one address
      expect_refused(with(0, 1), LIGERDSL_INVALID_ALIAS, "two indices");
    ++strided;
  }
  const auto& tensors = info().tensors;
  EXPECT_EQ(strided > 0, std::any_of(tensors.begin(), tensors.end(), has_rows));
}

INSTANTIATE_TEST_SUITE_P(Table, Tensors, testing::ValuesIn(names_of_table()),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace ligerdsl::test::tensors_test
