#include "program/verify_ops.h"

#include <algorithm>
#include <set>

#include "program/op_info.h"

namespace ligerdsl::program {
namespace {

// Thrown inside this file only; checkOp turns it into text.
struct Problem {
  std::string text;
};

void require(bool condition, const char* text) {
  if (!condition) throw Problem{text};
}

// One op with its types at hand.
class Checker {
 public:
  Checker(const Program& program, const Op& op) : program_(program), op_(op) {}

  void run() {
    attributes();
    switch (op_.code) {
      case OpCode::program_id:
      case OpCode::num_programs:
        gridOp();
        break;
      case OpCode::constant:
        constantOp();
        break;
      case OpCode::arange:
        arangeOp();
        break;
      case OpCode::dim:
      case OpCode::stride:
        viewNumberOp();
        break;
      case OpCode::lead:
      case OpCode::lead_limit:
        leadOp();
        break;
      case OpCode::splat:
        splatOp();
        break;
      case OpCode::expand_dims:
        expandDimsOp();
        break;
      case OpCode::broadcast:
        broadcastOp();
        break;
      case OpCode::reshape:
        reshapeOp();
        break;
      case OpCode::permute:
        permuteOp();
        break;
      case OpCode::cast:
        castOp();
        break;
      case OpCode::select:
        selectOp();
        break;
      case OpCode::compare:
        compareOp();
        break;
      case OpCode::reduce:
      case OpCode::scan:
        reduceOp();
        break;
      case OpCode::load_tile:
        loadTileOp();
        break;
      case OpCode::store_tile:
        storeTileOp();
        break;
      case OpCode::view_ptr:
        viewPtrOp();
        break;
      case OpCode::addptr:
        addptrOp();
        break;
      case OpCode::load:
        loadOp();
        break;
      case OpCode::store:
        storeOp();
        break;
      case OpCode::atomic_rmw:
        atomicOp();
        break;
      case OpCode::for_range:
        forOp();
        break;
      case OpCode::if_else:
        ifOp();
        break;
      case OpCode::while_loop:
        whileOp();
        break;
      case OpCode::yield:
        shape(op_.operands.size(), 0);
        break;
      case OpCode::assume:
        shape(1, 0);
        require(operand(0) == scalar(DType::i1), "the condition is an i1 scalar");
        break;
      case OpCode::assume_divisible:
        assumeDivisibleOp();
        break;
      case OpCode::device_print:
        printOp();
        break;
      default:
        arithmeticOp();
        break;
    }
  }

 private:
  static Type scalar(DType dtype) { return {TypeKind::scalar, dtype, {}, {}}; }
  static bool isValue(const Type& type) { return type.kind == TypeKind::scalar || type.kind == TypeKind::tile; }
  static bool isPointer(const Type& type) { return type.kind == TypeKind::ptr || type.kind == TypeKind::ptr_tile; }
  static bool isIndex(const Type& type) {
    return type.kind == TypeKind::scalar && (type.dtype == DType::i32 || type.dtype == DType::i64);
  }

  const Type& operand(size_t i) const { return program_.values[op_.operands[i]]; }
  const Type& result(size_t i = 0) const { return program_.values[op_.results[i]]; }
  const Type& regionArgument(size_t region, size_t i) const {
    return program_.values[op_.regions[region].arguments[i]];
  }
  void shape(size_t operands, size_t results, size_t regions = 0) const {
    if (op_.operands.size() != operands) throw Problem{"takes " + std::to_string(operands) + " operands"};
    if (op_.results.size() != results) throw Problem{"has " + std::to_string(results) + " results"};
    if (op_.regions.size() != regions) throw Problem{"has " + std::to_string(regions) + " regions"};
  }
  int64_t integer(AttrKey key, int64_t least, int64_t most) const {
    const AttrValue* value = op_.find(key);
    if (!value) throw Problem{std::string("needs the attribute ") + attrName(key)};
    const int64_t number = std::get<int64_t>(*value);
    if (number < least || number > most)
      throw Problem{std::string("the attribute ") + attrName(key) + " is out of range"};
    return number;
  }
  const std::vector<int64_t>& list(AttrKey key) const {
    const AttrValue* value = op_.find(key);
    if (!value) throw Problem{std::string("needs the attribute ") + attrName(key)};
    return std::get<std::vector<int64_t>>(*value);
  }

  // Every attribute holds the kind of value that its key wants and appears once.
  void attributes() const {
    std::set<AttrKey> seen;
    for (const Attr& attr : op_.attrs) {
      require(attrName(attr.key) != nullptr, "has an unknown attribute");
      require(seen.insert(attr.key).second, "has an attribute twice");
      size_t kind = 0;
      if (attr.key == AttrKey::value_float || attr.key == AttrKey::pad) kind = 1;
      if (attr.key == AttrKey::text) kind = 2;
      if (attr.key == AttrKey::permutation || attr.key == AttrKey::tile_shape) kind = 3;
      require(attr.value.index() == kind, "has an attribute of the wrong kind");
    }
    const auto range = [&](AttrKey key, int64_t most) {
      if (op_.find(key)) integer(key, 0, most);
    };
    for (AttrKey key : {AttrKey::fast, AttrKey::reverse, AttrKey::has_mask, AttrKey::has_other, AttrKey::flatten,
                        AttrKey::no_contract, AttrKey::independent, AttrKey::has_lead}) {
      range(key, 1);
    }
    range(AttrKey::cache, 2);
    range(AttrKey::evict, 2);
    range(AttrKey::num_stages, 1024);
    range(AttrKey::unroll, 256);
    range(AttrKey::resident, INT32_MAX);
  }

  void gridOp() const {
    shape(0, 1);
    integer(AttrKey::axis, 0, 2);
    require(result() == scalar(DType::i32), "gives an i32 scalar");
  }
  void constantOp() const {
    shape(0, 1);
    require(isValue(result()), "gives a scalar or tile");
    const bool real = is_float(result().dtype);
    require(op_.find(real ? AttrKey::value_float : AttrKey::value_int) != nullptr, "needs a value of its dtype's kind");
  }
  void arangeOp() const {
    shape(0, 1);
    require(result().kind == TypeKind::tile && result().dtype == DType::i32 && result().shape.size() == 1,
            "gives an i32 tile of rank 1");
  }
  void viewNumberOp() const {
    shape(1, 1);
    require(operand(0).kind == TypeKind::view, "takes a view");
    integer(AttrKey::axis, 0, static_cast<int64_t>(operand(0).shape.size()) - 1);
    require(result() == scalar(DType::i64), "gives an i64 scalar");
  }
  void leadOp() const {
    require(!op_.operands.empty() && operand(0).kind == TypeKind::view && !operand(0).shape.empty(),
            "takes a view with a last dimension");
    const size_t indices = op_.code == OpCode::lead ? operand(0).shape.size() - 1 : 0;
    shape(1 + indices, 1);
    for (size_t i = 0; i < indices; ++i) require(isIndex(operand(1 + i)), "an index is an i32 or i64 scalar");
    require(result() == scalar(DType::i32), "gives an i32 scalar");
  }

  void splatOp() const {
    shape(1, 1);
    const bool value = operand(0).kind == TypeKind::scalar && result().kind == TypeKind::tile;
    const bool pointer = operand(0).kind == TypeKind::ptr && result().kind == TypeKind::ptr_tile;
    require((value || pointer) && operand(0).dtype == result().dtype,
            "fills a tile with a scalar or pointer of its dtype");
  }
  void sameButShape() const {
    shape(1, 1);
    const bool tile = operand(0).kind == TypeKind::tile || operand(0).kind == TypeKind::ptr_tile;
    require(tile && operand(0).kind == result().kind && operand(0).dtype == result().dtype,
            "takes a tile and gives a tile of the same dtype");
  }
  void expandDimsOp() const {
    sameButShape();
    Shape expected = operand(0).shape;
    const int64_t axis = integer(AttrKey::axis, 0, static_cast<int64_t>(expected.size()));
    expected.insert(expected.begin() + axis, 1);
    require(result().shape == expected, "inserts a dimension of 1 at the axis");
  }
  void broadcastOp() const {
    sameButShape();
    require(operand(0).shape.size() == result().shape.size(), "keeps the rank");
    for (size_t i = 0; i < result().shape.size(); ++i) {
      require(operand(0).shape[i] == result().shape[i] || operand(0).shape[i] == 1, "only dimensions of 1 grow");
    }
  }
  void reshapeOp() const {
    sameButShape();
    require(tileElements(operand(0).shape) == tileElements(result().shape), "keeps the number of elements");
  }
  void permuteOp() const {
    sameButShape();
    const auto& order = list(AttrKey::permutation);
    const Shape& from = operand(0).shape;
    require(order.size() == from.size() && result().shape.size() == from.size(), "keeps the rank");
    std::vector<bool> seen(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      require(order[i] >= 0 && order[i] < static_cast<int64_t>(order.size()) && !seen[order[i]], "needs a permutation");
      seen[order[i]] = true;
      require(result().shape[i] == from[order[i]], "result dimension i is operand dimension permutation[i]");
    }
  }

  void castOp() const {
    shape(1, 1);
    require(isValue(operand(0)) && operand(0).kind == result().kind && operand(0).shape == result().shape,
            "changes only the dtype");
  }
  void selectOp() const {
    shape(3, 1);
    require(isValue(result()) && operand(1) == result() && operand(2) == result(),
            "both values have the result's type");
    require(operand(0).dtype == DType::i1 && operand(0).kind == result().kind && operand(0).shape == result().shape,
            "the condition is i1 of the result's shape");
  }
  void compareOp() const {
    shape(2, 1);
    const int64_t predicate = integer(AttrKey::predicate, 0, static_cast<int64_t>(Predicate::ge));
    require(isValue(operand(0)) && operand(0) == operand(1), "both operands have one type");
    require(predicate <= 1 || operand(0).dtype != DType::i1, "i1 has no order");
    require(result().dtype == DType::i1 && result().kind == operand(0).kind && result().shape == operand(0).shape,
            "gives i1 of the operands' shape");
  }
  void arithmeticOp() const {
    const bool unary = op_.code >= OpCode::neg && op_.code <= OpCode::sigmoid;
    shape(op_.code == OpCode::fma ? 3 : unary ? 1 : 2, 1);
    require(isValue(result()), "works on scalars and tiles");
    for (size_t i = 0; i < op_.operands.size(); ++i)
      require(operand(i) == result(), "operands and result have one type");
    const DType dtype = result().dtype;
    switch (op_.code) {
      case OpCode::rem:
      case OpCode::shl:
      case OpCode::shr:
        require(is_integer(dtype) && dtype != DType::i1, "works on integers");
        break;
      case OpCode::bit_and:
      case OpCode::bit_or:
      case OpCode::bit_xor:
        require(is_integer(dtype), "works on integers and i1");
        break;
      case OpCode::fma:
      case OpCode::floor:
      case OpCode::ceil:
        require(is_float(dtype), "works on floats");
        break;
      default:
        if (op_.code >= OpCode::exp) {
          require(dtype == DType::f32, "works on f32");
        } else {
          require(dtype != DType::i1, "does not work on i1");
        }
    }
  }

  void reduceOp() const {
    const size_t n = op_.operands.size();
    require(n >= 1, "takes at least one tile");
    const bool custom = integer(AttrKey::reduction, 0, 3) == static_cast<int64_t>(ReductionKind::custom);
    shape(n, n, custom ? 1 : 0);
    require(custom || n == 1, "several tiles need a combiner");
    require(operand(0).kind == TypeKind::tile, "takes tiles");
    const int64_t axis = integer(AttrKey::axis, 0, static_cast<int64_t>(operand(0).shape.size()) - 1);
    Type expected = operand(0);
    if (op_.code == OpCode::reduce) {
      expected.shape.erase(expected.shape.begin() + axis);
      if (expected.shape.empty()) expected.kind = TypeKind::scalar;
    } else {
      const int64_t kind = integer(AttrKey::reduction, 0, 3);
      require(custom || kind == static_cast<int64_t>(ReductionKind::sum), "a scan is a sum or custom");
    }
    for (size_t i = 0; i < n; ++i) {
      require(operand(i).kind == TypeKind::tile && operand(i).shape == operand(0).shape, "the tiles have one shape");
      require(custom || operand(i).dtype != DType::i1, "does not work on i1");
      expected.dtype = operand(i).dtype;
      require(result(i) == expected, "a result has the wrong type");
    }
    if (!custom) return;
    require(op_.regions[0].arguments.size() == 2 * n, "the combiner takes two values per tile");
    for (size_t i = 0; i < 2 * n; ++i) {
      require(regionArgument(0, i) == scalar(operand(i % n).dtype), "the combiner takes scalars of the tiles' dtypes");
    }
  }

  size_t hasLead() const { return op_.integer(AttrKey::has_lead) != 0; }

  // View, indices and lead at the front; returns the type of what is moved.
  Type tileAccess() const {
    require(!op_.operands.empty() && operand(0).kind == TypeKind::view, "takes a view");
    const size_t rank = operand(0).shape.size();
    const auto& tile_shape = list(AttrKey::tile_shape);
    require(tile_shape.size() == rank, "tile_shape has one entry per dimension of the view");
    require(op_.operands.size() >= 1 + rank, "takes one index per dimension of the view");
    for (size_t i = 0; i < rank; ++i) require(isIndex(operand(1 + i)), "an index is an i32 or i64 scalar");
    if (hasLead()) {
      require(op_.operands.size() > 1 + rank && operand(1 + rank) == scalar(DType::i32), "the lead is an i32 scalar");
      require(tile_shape.back() != 0, "only tiles along the last dimension have a lead");
    }
    Type type{TypeKind::tile, operand(0).dtype, partitionShape(tile_shape), {}};
    for (int64_t extent : type.shape) require(isTileExtent(extent), "a tile dimension is c * 2^n with odd c <= 31");
    if (type.shape.empty()) type.kind = TypeKind::scalar;
    return type;
  }
  void loadTileOp() const {
    const Type type = tileAccess();
    shape(1 + operand(0).shape.size() + hasLead(), 1);
    require(result() == type, "the result has the tile's type");
    require(op_.find(AttrKey::pad) != nullptr, "needs the attribute pad");
  }
  void storeTileOp() const {
    const Type type = tileAccess();
    const size_t value = 1 + operand(0).shape.size() + hasLead();
    shape(1 + value, 0);
    require(operand(value) == type, "the value has the tile's type");
  }
  void viewPtrOp() const {
    shape(1, 1);
    require(operand(0).kind == TypeKind::view && result().kind == TypeKind::ptr && operand(0).dtype == result().dtype,
            "gives the base pointer of a view");
  }
  void addptrOp() const {
    shape(2, 1);
    require(isPointer(operand(0)) && operand(0) == result(), "gives a pointer of the operand's type");
    const Type& offset = operand(1);
    const TypeKind kind = operand(0).kind == TypeKind::ptr ? TypeKind::scalar : TypeKind::tile;
    require(offset.kind == kind && offset.shape == operand(0).shape, "the offset has the pointer's shape");
    require(offset.dtype == DType::i32 || offset.dtype == DType::i64, "the offset is i32 or i64");
  }

  // What a pointer operand points to.
  Type pointee() const {
    require(!op_.operands.empty() && isPointer(operand(0)), "takes a pointer");
    Type type = operand(0);
    type.kind = type.kind == TypeKind::ptr ? TypeKind::scalar : TypeKind::tile;
    return type;
  }
  void requireMask(size_t at, Type type) const {
    type.dtype = DType::i1;
    require(operand(at) == type, "the mask is i1 of the pointers' shape");
  }
  void loadOp() const {
    const Type type = pointee();
    const bool mask = op_.integer(AttrKey::has_mask), other = op_.integer(AttrKey::has_other);
    require(mask || !other, "other needs a mask");
    shape(1 + mask + other, 1);
    if (mask) requireMask(1, type);
    require(!other || operand(2) == type, "other has the loaded type");
    require(result() == type, "the result has the pointed-to type");
  }
  void storeOp() const {
    const Type type = pointee();
    const bool mask = op_.integer(AttrKey::has_mask);
    shape(2 + mask, 0);
    require(operand(1) == type, "the value has the pointed-to type");
    if (mask) requireMask(2, type);
  }
  void atomicOp() const {
    const Type type = pointee();
    const bool mask = op_.integer(AttrKey::has_mask);
    const bool add = integer(AttrKey::atomic, 0, 1) == static_cast<int64_t>(AtomicKind::add);
    shape(2 + mask, 1);
    require(operand(1) == type && result() == type, "value and result have the pointed-to type");
    if (mask) requireMask(2, type);
    const bool half = type.dtype == DType::f16 || type.dtype == DType::bf16;
    require(type.dtype != DType::i1 && type.dtype != DType::i8 && (add || !half),
            "there is no such atomic on this dtype");
  }

  // Region arguments [first, ...) and results match operands [from, ...).
  void carried(size_t region, size_t first, size_t from) const {
    const size_t n = op_.operands.size() - from;
    require(op_.results.size() == n, "has one result per carried value");
    require(op_.regions[region].arguments.size() == first + n, "the region has one argument per carried value");
    for (size_t i = 0; i < n; ++i) {
      const Type& type = operand(from + i);
      require(type.kind != TypeKind::view, "views are not carried");
      require(type == result(i) && type == regionArgument(region, first + i), "a carried value keeps its type");
    }
  }
  void forOp() const {
    require(op_.operands.size() >= 3 && op_.regions.size() == 1, "takes lo, hi, step and has one region");
    for (size_t i = 0; i < 3; ++i) {
      require(isIndex(operand(i)) && operand(i) == operand(0), "lo, hi and step are scalars of one index type");
    }
    require(!op_.regions[0].arguments.empty() && regionArgument(0, 0) == operand(0), "the index has the bounds' type");
    carried(0, 1, 3);
  }
  void ifOp() const {
    shape(1, op_.results.size(), 2);
    require(operand(0) == scalar(DType::i1), "the condition is an i1 scalar");
    for (const Region& region : op_.regions) require(region.arguments.empty(), "branches have no arguments");
    require(!op_.regions[0].ops.empty(), "the first branch ends in a yield");
    require(op_.results.empty() || !op_.regions[1].ops.empty(), "results need both branches");
  }
  void whileOp() const {
    require(op_.regions.size() == 2, "has two regions");
    carried(0, 0, 0);
    carried(1, 0, 0);
    if (op_.find(AttrKey::independent)) require(takesTickets(), "runs programs by tickets; the first argument is no ticket");
  }
  bool takesTickets() const {
    const Type ticket{TypeKind::view, DType::i32, {1}, {1}};
    return !program_.arguments.empty() && program_.values[program_.arguments[0].value] == ticket;
  }
  void assumeDivisibleOp() const {
    shape(1, 1);
    integer(AttrKey::divisor, 1, INT64_MAX);
    require(isIndex(operand(0)) && operand(0) == result(), "takes and gives an i32 or i64 scalar");
  }
  void printOp() const {
    shape(op_.operands.size(), 0);
    require(!op_.operands.empty() && op_.find(AttrKey::text), "prints a text and at least one value");
    for (size_t i = 0; i < op_.operands.size(); ++i) require(isValue(operand(i)), "prints scalars and tiles");
  }

  const Program& program_;
  const Op& op_;
};

// What a region of this op must yield.
std::vector<Type> yieldTypes(const Program& program, const Op& op, const Region& region) {
  std::vector<Type> types;
  const bool loop_test = op.code == OpCode::while_loop && &region == &op.regions[0];
  if (loop_test) types.push_back({TypeKind::scalar, DType::i1, {}, {}});
  for (size_t i = 0; i < op.results.size(); ++i) {
    Type type = program.values[op.results[i]];
    if (op.code == OpCode::reduce || op.code == OpCode::scan) type = {TypeKind::scalar, type.dtype, {}, {}};
    types.push_back(type);
  }
  return types;
}

}  // namespace

std::string checkOp(const Program& program, const Op& op) {
  try {
    Checker(program, op).run();
  } catch (const Problem& problem) {
    return problem.text;
  }
  return "";
}

std::string checkYield(const Program& program, const Op& op, const Region& region) {
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  const std::vector<Type> expected = yieldTypes(program, op, region);
  if (yielded.size() != expected.size()) return "a region yields the wrong number of values";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (program.values[yielded[i]] != expected[i]) return "a region yields a value of the wrong type";
  }
  return "";
}

}  // namespace ligerdsl::program
