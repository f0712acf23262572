// State of one import: the value map and the builder. Each op family has a member function, which
// importOp calls.
#pragma once

#include "compiler/dialect/tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/TypeUtilities.h"
#include "program/op_info.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::compiler {

class Importer {
 public:
  Importer(const program::Program& program, const program::CompileOptions& options,
           mlir::MLIRContext& context);
  mlir::OwningOpRef<mlir::ModuleOp> run();

 private:
  mlir::Type elementType(DType dtype);
  mlir::Type type(const program::Type& type, const program::ArgFacts* facts);
  mlir::Type typeOf(program::ValueId id);
  mlir::Location location(const program::Location& at);
  llvm::SmallVector<mlir::Value> lookup(llvm::ArrayRef<program::ValueId> ids);

  void importOps(const program::Region& region);
  void importOp(const program::Op& op);

  // import_ops.cpp
  mlir::Value alignmentOffset(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value creation(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value constant(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value shape(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value contraction(const program::Op& op, mlir::Location loc, mlir::Type type);
  void memory(const program::Op& op, mlir::Location loc);
  void atomic(const program::Op& op, mlir::Location loc);
  void hint(const program::Op& op, mlir::Location loc);
  void reduction(const program::Op& op, mlir::Location loc);
  // import_elementwise.cpp
  mlir::arith::FastMathFlags flags(const program::Op& op);
  mlir::Value elementwise(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value arithmetic(const program::Op& op, mlir::Location loc);
  mlir::Value integer(const program::Op& op, mlir::Location loc);
  mlir::Value sign(const program::Op& op, mlir::Location loc, mlir::Type type);
  mlir::Value math(const program::Op& op, mlir::Location loc);
  mlir::Value cast(mlir::Location loc, mlir::Value source, mlir::Type type);
  mlir::Value narrowOnce(mlir::Location loc, mlir::Value integer, mlir::Type type);
  mlir::Value compare(mlir::Location loc, int64_t predicate, mlir::Value a, mlir::Value b);
  mlir::Value sigmoid(mlir::Location loc, mlir::Value x);
  mlir::Value splatConstant(mlir::Location loc, mlir::Type type, double number);
  // import_fp8.cpp
  mlir::FloatType formatOf(DType dtype);
  mlir::TypedAttr floatAttr(DType dtype, double number);  // for fp8: the code, an i8
  mlir::Value castFp8(mlir::Location loc, mlir::Value source, DType from, DType to);
  mlir::Value printable(mlir::Location loc, program::ValueId id);  // decodes fp8
  // import_control_flow.cpp
  void controlFlow(const program::Op& op, mlir::Location loc);
  void importBlock(const program::Region& region, mlir::Block* block);

  // Throws for an op that the caller's switch does not handle.
  [[noreturn]] static mlir::Value unknown(const program::Op& op);
  void bind(const program::Op& op, mlir::ValueRange results);
  mlir::Value toI64(mlir::Location loc, mlir::Value integer);

  const program::Program& program;
  const program::CompileOptions& options;
  mlir::OpBuilder builder;
  llvm::SmallVector<mlir::Value> values;  // by ValueId
};

}  // namespace ligerdsl::compiler
