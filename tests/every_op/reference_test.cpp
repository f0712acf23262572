// Every operation of the table must have a float64 reference, and every reference must belong to an
// operation.
#include "kernels/core/reference.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "lib/abi/op_info.h"

namespace ligerdsl::test::reference_test {
namespace {

TEST(EveryOp, HasAFloat64Reference) {
  std::set<std::string> operations, references;
  for (const lib::OpInfo* info : lib::op_table()) operations.insert(info->name);
  for (const std::string_view name : reference::referenced_operations())
    references.insert(std::string(name));
  EXPECT_EQ(operations, references);
}

TEST(References, UnknownOperationHasNone) {
  EXPECT_EQ(reference::find_reference("no_such_operation"), nullptr);
}

}  // namespace
}  // namespace ligerdsl::test::reference_test
