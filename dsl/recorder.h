// State of a KernelBuilder and its handles: the program under construction and the stack of open
// regions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ligerdsl/dsl/control.h"
#include "ligerdsl/dsl/operands.h"
#include "program/op_info.h"
#include "program/program.h"

namespace ligerdsl {
struct BlockLanes;
}

namespace ligerdsl::detail {

using program::AttrKey;
using program::OpCode;
using program::Type;
using program::TypeKind;
using program::ValueId;

// Throws Error "file:line:col: error: op: message".
[[noreturn]] void fail(Loc loc, const std::string& op, const std::string& message);

std::string to_string(const Shape& shape);       // [4, dyn, 128]
std::string to_string(const Type& type);         // f32 tile [128]
std::string plural(size_t n, const char* noun);  // "2 tiles"; regular nouns only

using Attrs = std::vector<program::Attr>;

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  explicit Recorder(std::string name);

  Handle argument(const std::string& name, Type type, Loc loc, bool read_only = false);

  // Appends an op to the innermost open region. Operands must be live handles of this recorder.
  std::vector<Handle> emit(OpCode code, const std::vector<Handle>& operands,
                           const std::vector<Type>& results, Attrs attrs, Loc loc,
                           std::vector<program::Region> regions = {});
  Handle emit_one(OpCode code, const std::vector<Handle>& operands, const Type& result, Attrs attrs,
                  Loc loc);

  // Opens a region with arguments of these types, runs the body, calls `check` on its results, and
  // closes the region with their yield. The body's values are unusable afterwards.
  using Check = std::function<void(const std::vector<Handle>&)>;
  program::Region region(const std::vector<Type>& arguments, const RegionBody& body,
                         const Check& check, Loc loc);

  // Fails unless this builder recorded the handle in a region that is still open.
  void require_live(const Handle& handle, const std::string& op, Loc loc) const;
  const Type& type(const Handle& handle) const { return program_.values[handle.id]; }

  // Values of program_id(0) and num_programs(0) inside KernelBuilder::dynamic_persistent.
  struct ProgramLoop {
    Handle program, programs;
  };
  std::optional<ProgramLoop> program_loop;
  // Sets program_loop while the body of KernelBuilder::dynamic_persistent is recorded.
  class LoopScope {
   public:
    LoopScope(Recorder& recorder, ProgramLoop loop) : recorder_(recorder) {
      recorder_.program_loop = std::move(loop);
    }
    LoopScope(const LoopScope&) = delete;
    LoopScope& operator=(const LoopScope&) = delete;
    ~LoopScope() { recorder_.program_loop.reset(); }

   private:
    Recorder& recorder_;
  };
  // Returns true outside all loops, branches and combiners.
  bool at_top() const { return open_.size() == 1; }
  bool has_arguments() const { return !program_.arguments.empty(); }

  int exact_depth = 0;        // > 0: float ops carry no_contract
  bool in_combiner = false;   // a combiner is being recorded
  int64_t num_residents = 0;  // resident rows so far; the last one has this number
  std::unordered_set<ValueId> alignment_offsets;  // results of View::alignment_offset
  std::unordered_map<ValueId, int64_t> integers;  // values of integer constants
  // Maps read-only views, and pointers into them, to their argument's number.
  std::unordered_map<ValueId, size_t> read_only;

  // Returns false if the handle belongs to a finished program, so that its use is an error.
  bool knows(const Handle& handle) const { return handle.id < program_.values.size(); }

  program::Program finish(Loc loc);

 private:
  struct OpenRegion {
    program::Region region;
    uint32_t scope;
  };

  Handle new_value(const Type& type);
  void require_combinable(OpCode code, const std::vector<Type>& results, Loc loc) const;
  program::Location location(Loc loc);

  program::Program program_;
  std::vector<OpenRegion> open_;          // open_[0] is the body
  std::vector<uint32_t> scope_of_value_;  // by ValueId
  uint32_t next_scope_ = 0;
  std::unordered_map<std::string, uint32_t> file_index_;
};

// Returns the recorder of an operand. Fails on an empty handle or one of a finished program.
Recorder& recorder_of(const Handle& handle, const std::string& op, Loc loc);

// Types.
Type scalar_type(DType dtype);
Type tile_type(DType dtype, Shape shape);
// Fails unless every dimension is c * 2^n with odd c <= 31 and there are at most 2^20 elements.
void require_tile_shape(const Shape& shape, const std::string& op, Loc loc);
// Returns an axis in [0, rank). A negative axis counts from the end.
int normal_axis(int axis, int rank, const std::string& op, Loc loc);
inline bool is_plain_integer(DType dtype) {
  return is_integer(dtype) && dtype != i1;
}

// Converts 16-bit floats to f32, the type in which they are accumulated (reduce.cpp).
Tile widened_to_add(const Tile& x, Loc loc);

// Returns a tile with each element's index (i32) along an axis; with kAllAxes, its row-major index
// (reduce.cpp).
Tile positions(Recorder& recorder, const Shape& shape, int axis, const std::string& op, Loc loc);

// Reshapes a block to the shape of `lanes`. Records nothing if it has that shape (lanes.cpp).
Tile distribute(const BlockLanes& lanes, const Tile& block, const std::string& op, Loc loc);

// Operands (operand.cpp).
// Fails unless `rule` accepts the operand's dtype.
void require_dtype(const Handle& x, program::Dtypes rule, const std::string& op, Loc loc);
// Returns an operand's recorder. An invalid operand is reported as an error of `op`, the name of a
// function that records several ops.
Recorder& require_operand(const Handle& x, program::Dtypes rule, const std::string& op, Loc loc);
// Fails if the pad value overflows a float type, or is not an integer in the range of an integer
// type.
void require_pad(double pad, DType type, Loc loc);
Handle constant(Recorder& recorder, const Number& number, const Type& type, const std::string& op,
                Loc loc);
// Returns a scalar handle. A number gets type `dtype`, or i64 instead of i32 if it exceeds i32.
Handle scalar_operand(Recorder& recorder, const Operand& operand, DType dtype,
                      const std::string& op, Loc loc);
// Returns a tile of exactly this type. Broadcasts numbers, scalars and dimensions of 1.
Handle tile_operand(Recorder& recorder, const Operand& operand, const Type& type,
                    const std::string& op, Loc loc);
// Two operands, converted to one type.
struct Pair {
  Handle a, b;
};
Pair match(const Operand& a, const Operand& b, const std::string& op, Loc loc);
// Returns the operand as an index. A scalar must be i32 or i64 and keeps its type. A constant
// becomes i32, or i64 if it does not fit.
Handle index_operand(Recorder& recorder, const Operand& operand, const std::string& op, Loc loc);
// Fails unless View::alignment_offset returned the offset and tiles span the last dimension.
void require_alignment_offset(Recorder& recorder, const Scalar& alignment_offset,
                              const Shape& tile_shape, const std::string& op, Loc loc);

// Ops that change the type or shape (shape.cpp).
Handle cast(const Handle& x, DType dtype, Loc loc);
Handle splat(const Handle& x, const Shape& shape, const std::string& op, Loc loc);
Handle broadcast(const Handle& x, const Shape& shape, const std::string& op, Loc loc);
Handle reshape(const Handle& x, const Shape& shape, const std::string& op, Loc loc);

}  // namespace ligerdsl::detail

namespace ligerdsl {

// Returns an operand whose operators record the caller's location.
template <class T>
At<T> at(const T& value, Loc loc) {
  return At<T>(value, loc);
}

}  // namespace ligerdsl
