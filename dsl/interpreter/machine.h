// State of one run of the interpreter, shared by the op families.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "interpreter/access_log.h"
#include "program/op_info.h"

namespace ligerdsl::interpreter {

using program::Op;
using program::Region;
using program::Shape;
using program::Type;
using program::ValueId;

// A value: `real` has floats, `integer` has integers, i1 and addresses. Tile elements are in
// row-major order.
struct Data {
  std::vector<double> real;
  std::vector<int64_t> integer;
};

class Machine {
 public:
  Machine(const program::Program& program, const Arguments& arguments, const Options& options,
          Grid grid, AccessLog* log);

  void run_program(std::array<int64_t, 3> id);

 private:
  // Control (machine.cpp). run_ops returns the operands of the region's yield, if any.
  void bind_arguments(const Arguments& arguments);
  void require_disjoint() const;
  std::vector<ValueId> run_ops(const Region& region);
  void run_op(const Op& op);
  void for_range(const Op& op);
  void if_else(const Op& op);
  void while_loop(const Op& op);
  void copy_values(const std::vector<ValueId>& from, const std::vector<ValueId>& to,
                   size_t first_from = 0, size_t first_to = 0);
  void print(const Op& op);

  // One function per family.
  void creation(const Op& op, program::CreationOp code);        // shape.cpp
  void shape(const Op& op, program::ShapeOp code);              // shape.cpp
  void elementwise(const Op& op, program::ElementwiseOp code);  // elementwise.cpp
  void arithmetic(const Op& op, program::ArithmeticOp code);
  void integer(const Op& op, program::IntegerOp code);
  void sign(const Op& op, program::SignOp code);
  void math(const Op& op, program::MathOp code);
  void reduction(const Op& op, program::ReductionOp code);      // reduce.cpp
  void contraction(const Op& op, program::ContractionOp code);  // contraction.cpp
  void memory(const Op& op, program::MemoryOp code);            // memory.cpp
  void atomic(const Op& op, program::AtomicOp code);            // memory.cpp
  void control(const Op& op, program::ControlOp code);
  void hint(const Op& op, program::HintOp code);

  void select(const Op& op);
  void compare(const Op& op);
  void cast(const Op& op);
  void bitcast(const Op& op);
  void reduce(const Op& op);
  void scan(const Op& op);
  // Computes left := combine(left, right) for one element of each operand.
  void combine(const Op& op, std::vector<Data>& left, const std::vector<Data>& right);
  int64_t max_alignment_offset(const Op& op) const;
  int64_t alignment_offset(const Op& op);
  void slice(const Op& op);
  void tile_access(const Op& op);
  void require_unchanged(const Op& op, const Shape& start, const Data& block);
  void pointer_access(const Op& op);

  [[noreturn]] void fail(const Op& op, const std::string& message) const;
  // element_bytes returns the bytes of an element in memory. checked returns a pointer to the
  // element at an address, and fails outside the arguments' memory.
  int64_t element_bytes(DType dtype) const { return wide_ ? 8 : size_of(dtype); }
  void* checked(const Op& op, int64_t address, DType dtype) const;
  void note(const Op& op, const void* element, DType dtype, Access access, bool changes) const;
  void load_element(const Op& op, int64_t address, DType dtype, Data& out, int64_t at) const;
  void store_element(const Op& op, int64_t address, DType dtype, const Data& in, int64_t at) const;
  void read_element(DType dtype, const void* address, Data& out, int64_t at) const;
  void write_element(DType dtype, void* address, const Data& in, int64_t at) const;

  const Type& type(ValueId id) const { return program_.values[id]; }
  Data& data(ValueId id) { return values_[id]; }
  // Returns the storage of a result, resized to its type.
  Data& result(const Op& op, size_t i = 0);
  int64_t size(const Type& type) const;
  double rounded(DType dtype, double value) const;

  struct View {
    int64_t base = 0;
    Shape dims, strides;
  };

  const program::Program& program_;
  const Options& options_;
  AccessLog* log_;  // null if accesses are not logged
  std::vector<Arguments::Range> ranges_;
  bool wide_;                 // elements of every dtype have 8 bytes in memory
  std::vector<Data> values_;  // by ValueId
  std::vector<View> views_;   // by ValueId; used for views only
  // Blocks that this program has loaded from resident rows, by row number and block start.
  std::map<std::pair<int64_t, Shape>, Data> residents_;
  std::array<int64_t, 3> id_{};
  std::array<int64_t, 3> grid_{};
};

// Returns the row-major strides of a tile.
Shape row_major(const Shape& shape);

}  // namespace ligerdsl::interpreter
