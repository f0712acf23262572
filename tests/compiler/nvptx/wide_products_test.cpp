#include "compiler/target/nvptx/wide_products.h"

#include <gtest/gtest.h>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Fixture with a function of two tile arguments. A group of connected ops ends at such arguments.
class WideProductsTest : public ::testing::Test {
 protected:
  WideProductsTest() : b(&context), loc(b.getUnknownLoc()) {
    context.loadDialect<arith::ArithDialect, func::FuncDialect>();
    module = ModuleOp::create(b, loc);
    b.setInsertionPointToStart(module->getBody());
    const Type tile = RankedTensorType::get({256}, b.getI64Type());
    auto function = func::FuncOp::create(b, loc, "kernel", b.getFunctionType({tile, tile}, {}));
    b.setInsertionPointToStart(function.addEntryBlock());
    x = function.getArgument(0);
    y = function.getArgument(1);
  }
  MLIRContext context;
  OpBuilder b;
  Location loc;
  OwningOpRef<ModuleOp> module;
  Value x, y;
};

TEST_F(WideProductsTest, GroupNeedsAMultiplicationAndAShift) {
  Value product = arith::MulIOp::create(b, loc, x, y);
  Value high = arith::ShRUIOp::create(b, loc, product, y);
  Value low =
      arith::TruncIOp::create(b, loc, RankedTensorType::get({256}, b.getI32Type()), product);
  Value separate = arith::MulIOp::create(b, loc, x, x);
  Value words =
      arith::MulIOp::create(b, loc, low, low);  // 32-bit, connected to the group by a 32-bit value
  WideProducts wide;
  for (Value value : {product, high, low}) EXPECT_TRUE(wide.contains(value.getDefiningOp()));
  for (Value value : {separate, words}) EXPECT_FALSE(wide.contains(value.getDefiningOp()));
}

// The first query for an op walks the op's group. Later queries for this group do not walk it.
TEST_F(WideProductsTest, WalksEachOpOnce) {
  constexpr size_t kOps = 3000;
  for (bool shift : {false, true}) {
    SmallVector<Operation*> ops;
    Value last = x;
    while (ops.size() < kOps - 1)
      ops.push_back((last = arith::MulIOp::create(b, loc, last, y)).getDefiningOp());
    ops.push_back(shift ? arith::ShRUIOp::create(b, loc, last, y).getOperation()
                        : arith::XOrIOp::create(b, loc, last, y).getOperation());
    WideProducts wide;
    EXPECT_EQ(wide.contains(ops[kOps / 2]), shift);
    EXPECT_EQ(wide.walked(), kOps);
    for (Operation* op : ops) ASSERT_EQ(wide.contains(op), shift);
    EXPECT_EQ(wide.walked(), kOps);
  }
}

}  // namespace
}  // namespace ligerdsl::compiler::nvptx
