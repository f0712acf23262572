// Tests every operation of the table with row counts up to 2^63 - 1. The workspace query returns a
// size or refuses the count, without overflow or crash. execute accepts the same counts.
#include <limits>

#include "table_call.h"

namespace ligerdsl::test::rows_test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kRows[] = {0,
                             1,
                             int64_t{INT32_MAX},
                             int64_t{1} << 31,
                             (int64_t{1} << 31) + 1,
                             int64_t{1} << 32,
                             int64_t{1} << 40,
                             int64_t{1} << 53,
                             (int64_t{1} << 62) - 1,
                             int64_t{1} << 62,
                             kMost - 1,
                             kMost};

class Rows : public testing::TestWithParam<std::tuple<std::string, program::Target>> {
 protected:
  const lib::OpInfo& info() const { return op_named(std::get<0>(GetParam())); }
  bool multiplies() const { return test::multiplies(info()); }

  // Calls `body` with the plan of every accepted combination of width and optional tensors.
  template <class Body>
  void for_each_plan(const std::vector<int64_t>& widths, Body body) {
    const TableContext context(std::get<1>(GetParam()));
    int plans = 0;
    for (const bool everything : {false, true}) {
      for (const int64_t width : widths) {
        SCOPED_TRACE("widths of " + std::to_string(width) + (everything ? ", everything" : ""));
        TableCall call(info(), width, everything);
        ligerdsl_plan_t plan = nullptr;
        if (call.plan(context, &plan) != LIGERDSL_SUCCESS)
          continue;  // for example, V * H over the size limit
        body(call, plan);
        ligerdsl_plan_destroy(plan);
        ++plans;
      }
    }
    EXPECT_GE(plans, 2) << "the last plan: " << ligerdsl_last_error();
  }

  // Executes the call with a workspace of exactly `workspace` bytes.
  ligerdsl_status_t execute(TableCall& call, ligerdsl_plan_t plan, int64_t rows, size_t workspace) {
    expectations() = {{{"everything", 0, uint64_t{1} << 63}}};
    call.make_tensors(rows);
    const ligerdsl_status_t status =
        lib::execute_entry(info(), plan, call.args(), reinterpret_cast<void*>(1 << 20),
                           workspace == SIZE_MAX ? 0 : workspace, nullptr);
    for (const std::string& violation : expectations().violations) ADD_FAILURE() << violation;
    return status;
  }
};

TEST_P(Rows, GetAWorkspaceOrAreRefused) {
  for_each_plan({1, 64, 4097, 128256, INT32_MAX}, [&](const TableCall&, ligerdsl_plan_t plan) {
    size_t fewer = 0;
    for (const int64_t rows : kRows) {
      SCOPED_TRACE(rows);
      const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
      EXPECT_GE(bytes, fewer) << "more rows need less";
      fewer = bytes;
      if (bytes != SIZE_MAX) {
        EXPECT_LE(bytes, size_t{1} << 62);
        continue;
      }
      const std::string text = ligerdsl_last_error();
      for (const std::string& word :
           {std::string("expected at most "), std::string("rows"), "got " + std::to_string(rows)})
        EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
    }
    for (const int64_t rows : {int64_t{-1}, -kMost, std::numeric_limits<int64_t>::min()}) {
      EXPECT_EQ(ligerdsl_plan_workspace_bytes_for(plan, rows), SIZE_MAX);
      EXPECT_NE(std::string(ligerdsl_last_error())
                    .find("`rows`: expected 0 or more, got " + std::to_string(rows)),
                std::string::npos)
          << ligerdsl_last_error();
    }
  });
}

// If the query returns a size, the call runs with exactly that size. execute refuses the counts
// that the query refuses, before it launches anything.
TEST_P(Rows, ExecuteAgrees) {
  if (multiplies()) return;  // would run real matmuls
  for_each_plan({64, 4097}, [&](TableCall& call, ligerdsl_plan_t plan) {
    int64_t runs = 0, refused = kMost;
    while (refused - runs > 1) {
      const int64_t middle = runs + (refused - runs) / 2;
      (ligerdsl_plan_workspace_bytes_for(plan, middle) == SIZE_MAX ? refused : runs) = middle;
    }
    for (const int64_t rows :
         {int64_t{0}, int64_t{1}, int64_t{1} << 31, runs, refused, int64_t{1} << 53, kMost}) {
      SCOPED_TRACE(rows);
      const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
      if (info().list_offset >= 0 && rows > int64_t{1} << 46) continue;  // too many for one tensor
      const ligerdsl_status_t status = execute(call, plan, rows, bytes);
      if (bytes != SIZE_MAX) {
        EXPECT_EQ(status, LIGERDSL_SUCCESS) << ligerdsl_last_error();
        continue;
      }
      EXPECT_EQ(status, LIGERDSL_INVALID_SHAPE) << ligerdsl_last_error();
      EXPECT_EQ(expectations().launches, 0);
    }
  });
}

// A workspace for the largest batch also serves every smaller batch.
TEST_P(Rows, MoreRowsNeverNeedLess) {
  if (multiplies()) return;  // more rows may have smaller chunks: linear_chunks_test.cpp
  for_each_plan({64, 4097}, [&](TableCall& call, ligerdsl_plan_t plan) {
    size_t fewer = 0;
    for (int64_t rows = 0; rows < 3000; ++rows) {
      const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
      ASSERT_GE(bytes, fewer) << rows;
      fewer = bytes;
    }
    for (const int64_t rows : {1, 700, 2999})
      EXPECT_EQ(execute(call, plan, rows, fewer), LIGERDSL_SUCCESS);
  });
}

INSTANTIATE_TEST_SUITE_P(Table, Rows,
                         testing::Combine(testing::ValuesIn(names_of_table()),
                                          testing::Values(program::Target::cpu,
                                                          program::Target::nvptx)),
                         [](const auto& row) {
                           return std::get<0>(row.param) +
                                  (std::get<1>(row.param) == program::Target::cpu ? "_cpu"
                                                                                  : "_nvptx");
                         });

// This descriptor alone requires a weight above the limit of 2^56 elements.
TEST(Rows, DescriptionAloneMayBeTooLarge) {
  const TableContext context(program::Target::cpu);
  const TableCall call(op_named("embedding_forward"), INT32_MAX, true);
  ligerdsl_plan_t plan = nullptr;
  EXPECT_EQ(call.plan(context, &plan), LIGERDSL_INVALID_SHAPE);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`weight`: expected at most 2^56 elements"),
            std::string::npos)
      << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test::rows_test
