#include "program/verify_ops.h"

#include <algorithm>
#include <bit>

#include "program/op_info.h"
#include "program/print.h"

namespace ligerdsl::program {
namespace {

// Thrown in this file only; checkOp converts it to text.
struct Problem {
  std::string text;
};

void require(bool condition, const char* text) {
  if (!condition) throw Problem{text};
}

std::string counted(size_t n, const char* noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

// Checks one op against its row of the table, then against the op's own rules.
class Checker {
 public:
  Checker(const Program& program, const Op& op)
      : program_(program), op_(op), info_(info(op.code)) {}

  void run() {
    attributes();
    signature();
    rules();
  }

 private:
  // Checks the rules that the table cannot express.
  void rules() const {
    switch (info_.family) {
      case Family::creation:
        return creationRules(static_cast<CreationOp>(op_.code));
      case Family::shape:
        return shapeRules(static_cast<ShapeOp>(op_.code));
      case Family::elementwise:
        return elementwiseRules(static_cast<ElementwiseOp>(op_.code));
      case Family::reduction:
        return reductionRules();
      case Family::contraction:
        return contractionRules(static_cast<ContractionOp>(op_.code));
      case Family::memory:
        return memoryRules(static_cast<MemoryOp>(op_.code));
      case Family::control:
        return controlRules(static_cast<ControlOp>(op_.code));
      case Family::hint:
        return hintRules(static_cast<HintOp>(op_.code));
      case Family::atomic: {
        const bool half = operand(0).dtype == DType::f16 || operand(0).dtype == DType::bf16;
        constexpr const char* kNames[] = {"add", "max", "min", "xchg"};
        const int64_t kind = op_.integer(AttrKey::atomic);
        if (half && kind != static_cast<int64_t>(AtomicKind::add))
          throw Problem{std::string("f16 and bf16 have only atomic add, got ") + kNames[kind]};
        return;
      }
      case Family::arithmetic:
      case Family::integer:
      case Family::sign:
      case Family::math:
        return;
    }
  }

  static Type scalar(DType dtype) { return {TypeKind::scalar, dtype, {}, {}}; }
  static bool isValue(const Type& type) {
    return type.kind == TypeKind::scalar || type.kind == TypeKind::tile;
  }
  static bool isPointer(const Type& type) {
    return type.kind == TypeKind::ptr || type.kind == TypeKind::ptr_tile;
  }
  static bool isIndex(const Type& type) {
    return type.kind == TypeKind::scalar && (type.dtype == DType::i32 || type.dtype == DType::i64);
  }

  const Type& operand(size_t i) const { return program_.values[op_.operands[i]]; }
  const Type& result(size_t i = 0) const { return program_.values[op_.results[i]]; }
  const Type& regionArgument(size_t region, size_t i) const {
    return program_.values[op_.regions[region].arguments[i]];
  }
  std::string takes(size_t operands) const {
    return "must take " + counted(operands, "operand") + ", got " +
           std::to_string(op_.operands.size());
  }
  void results(size_t expected) const {
    if (op_.results.size() != expected)
      throw Problem{"must have " + counted(expected, "result") + ", got " +
                    std::to_string(op_.results.size())};
  }
  void regions(size_t expected) const {
    if (op_.regions.size() != expected)
      throw Problem{"must have " + counted(expected, "region") + ", got " +
                    std::to_string(op_.regions.size())};
  }
  static Problem outOfRange(const char* attribute, int64_t number, int64_t least, int64_t most) {
    return {std::string("the attribute ") + attribute + " is " + std::to_string(number) +
            ", expected " + std::to_string(least) + " to " + std::to_string(most)};
  }
  // Returns a required attribute. Fails if it is out of range.
  int64_t range(AttrKey key, int64_t least, int64_t most) const {
    const int64_t number = op_.integer(key);
    if (number < least || number > most) throw outOfRange(attrName(key), number, least, most);
    return number;
  }
  const std::vector<int64_t>& list(AttrKey key) const {
    return std::get<std::vector<int64_t>>(*op_.find(key));
  }

  // Fails if an attribute is repeated, not accepted by the operation or of the wrong kind, or if a
  // required one is missing.
  void attributes() const {
    uint64_t seen = 0;
    for (const Attr& attr : op_.attrs) {
      const AttrInfo* known = find(attr.key);
      if (!known)
        throw Problem{"has an unknown attribute with number " +
                      std::to_string(static_cast<int>(attr.key))};
      const uint64_t bit = uint64_t{1} << static_cast<int>(attr.key);
      if ((seen & bit) != 0)
        throw Problem{std::string("must have the attribute ") + attrName(attr.key) + " only once"};
      seen |= bit;
      if ((info_.takes & bit) == 0)
        throw Problem{std::string("must not have the attribute ") + attrName(attr.key)};
      attribute(attr, *known);
    }
    if (const uint64_t missing = info_.needs & ~seen)
      throw Problem{std::string("must have the attribute ") +
                    attrName(static_cast<AttrKey>(std::countr_zero(missing)))};
    require(flag(AttrKey::has_mask) || !flag(AttrKey::has_other),
            "must have a mask if it has the operand `other`");
  }
  static void attribute(const Attr& attr, const AttrInfo& known) {
    // Indices of AttrValue's types.
    enum : size_t { kInteger, kReal, kText, kList };
    size_t kind = kInteger;
    if (known.kind == AttrKind::real) kind = kReal;
    if (known.kind == AttrKind::text) kind = kText;
    if (known.kind == AttrKind::list) kind = kList;
    constexpr const char* kKinds[] = {"an integer", "a float", "a string", "a list"};
    if (attr.value.index() != kind)
      throw Problem{std::string("the attribute ") + known.name + " must be " + kKinds[kind] +
                    ", got " + kKinds[attr.value.index()]};
    if (kind != kInteger || known.kind == AttrKind::integer) return;
    int64_t most = known.most;
    if (known.kind == AttrKind::choice)
      most = std::count(known.values.begin(), known.values.end(), ' ');
    const int64_t number = std::get<int64_t>(attr.value);
    if (number < 0 || number > most) throw outOfRange(known.name, number, 0, most);
  }
  bool flag(AttrKey key) const { return op_.integer(key) != 0; }

  // Returns the number of operands that a term describes.
  size_t times(Term term) const {
    switch (term) {
      case Term::index_of_each:
        return operand(0).shape.size();
      case Term::row_of_each:
        return operand(0).shape.size() - 1;
      case Term::alignment_offset:
        return flag(AttrKey::has_alignment_offset);
      case Term::mask:
        return flag(AttrKey::has_mask);
      case Term::other:
        return flag(AttrKey::has_other);
      default:
        return 1;
    }
  }

  void signature() const {
    const bool variable = info_.operands.has(Term::any_number_of);
    if (!info_.results.has(Term::any_number_of)) results(info_.results.count);
    if (info_.family != Family::control && info_.family != Family::reduction) regions(0);
    if (variable) return;
    const Term first = info_.operands.count > 0 ? info_.operands.terms[0] : Term::any;
    if (first == Term::view ||
        first == Term::ptr)  // the view or pointer determines the other operands
      require(!op_.operands.empty() && fits(first, operand(0)), problem(first));
    size_t at = 0, expected = 0;
    for (Term term : info_.operands.all()) expected += times(term);
    for (Term term : info_.operands.all()) {
      for (size_t n = times(term); n > 0; --n, ++at) {
        const bool counted = term == Term::index_of_each || term == Term::alignment_offset;
        if (at >= op_.operands.size()) throw Problem{counted ? problem(term) : takes(expected)};
        require(fits(term, operand(at)), problem(term));
      }
    }
    if (at != op_.operands.size()) throw Problem{takes(expected)};
    for (size_t i = 0; i < info_.results.count; ++i)
      require(fits(info_.results.terms[i], result(i)), resultProblem(info_.results.terms[i]));
    if (info_.operands.has(Term::value) || info_.results.has(Term::value)) valueDtype();
    if ((info_.operands.has(Term::pointee) || info_.results.has(Term::pointee)) &&
        !accepts(info_.dtypes, operand(0).dtype))
      throw Problem{std::string("must take a pointer to ") + wanted(info_.dtypes) + ", got " +
                    name(operand(0).dtype)};
  }

  // Returns the type that all values of the signature share.
  const Type& value() const {
    for (size_t i = 0; i < info_.results.count; ++i) {
      if (info_.results.terms[i] == Term::value) return result(i);
    }
    size_t first = 0;  // each term before the first `value` is one operand
    while (info_.operands.terms[first] != Term::value) ++first;
    return operand(first);
  }
  void valueDtype() const {
    if (accepts(info_.dtypes, value().dtype)) return;
    throw Problem{std::string("must take ") + wanted(info_.dtypes)};
  }
  Type pointee() const {
    Type type = operand(0);
    type.kind = type.kind == TypeKind::ptr ? TypeKind::scalar : TypeKind::tile;
    return type;
  }
  static Type ofDtype(Type type, DType dtype) {
    type.dtype = dtype;
    return type;
  }

  bool fits(Term term, const Type& type) const {
    switch (term) {
      case Term::value:
        return isValue(type) && type == value();
      case Term::test:
        return type == ofDtype(value(), DType::i1);
      case Term::scalar:
        return type.kind == TypeKind::scalar || type.kind == TypeKind::ptr;
      case Term::tile:
        return type.kind == TypeKind::tile || type.kind == TypeKind::ptr_tile;
      case Term::view:
        return type.kind == TypeKind::view && !type.shape.empty();
      case Term::index_of_each:
      case Term::row_of_each:
      case Term::integer:
        return isIndex(type) && (term != Term::integer || type == operand(0));
      case Term::alignment_offset:
      case Term::i32:
        return type == scalar(DType::i32);
      case Term::i64:
        return type == scalar(DType::i64);
      case Term::i1:
        return type == scalar(DType::i1);
      case Term::block:
        return type == block();
      case Term::ptr:
        return isPointer(type) && (!isPointer(operand(0)) || type == operand(0));
      case Term::pointee:
      case Term::other:
        return type == pointee();
      case Term::mask:
        return type == ofDtype(pointee(), DType::i1);
      case Term::offset:
        return (type.dtype == DType::i32 || type.dtype == DType::i64) &&
               type == ofDtype(pointee(), type.dtype);
      case Term::any:
      case Term::any_number_of:
        return true;
    }
    return false;
  }

  static const char* problem(Term term) {
    switch (term) {
      case Term::value:
        return "operands and result must have one type";
      case Term::test:
        return "the condition must be i1 with the shape of the values";
      case Term::scalar:
        return "must take a scalar or pointer";
      case Term::tile:
        return "must take a tile";
      case Term::view:
        return "must take a view";
      case Term::index_of_each:
        return "must take one index per dimension of the view; an index must be an i32 or i64 "
               "scalar";
      case Term::row_of_each:
        return "an index must be an i32 or i64 scalar";
      case Term::alignment_offset:
        return "the alignment offset must be an i32 scalar";
      case Term::block:
        return "the tile must have the view's dtype and the shape in tile_shape";
      case Term::ptr:
        return "must take a pointer";
      case Term::pointee:
        return "the value must have the pointed-to type";
      case Term::mask:
        return "the mask must be i1 with the shape of the pointers";
      case Term::other:
        return "the operand `other` must have the type of the loaded value";
      case Term::offset:
        return "the offset must be i32 or i64 with the shape of the pointer";
      case Term::i1:
        return "the condition must be an i1 scalar";
      case Term::i32:
        return "must take an i32 scalar";
      case Term::i64:
        return "must take an i64 scalar";
      case Term::integer:
        return "must take and give an i32 or i64 scalar";
      case Term::any:
      case Term::any_number_of:
        break;
    }
    return "";
  }
  static const char* resultProblem(Term term) {
    if (term == Term::value || term == Term::integer) return problem(term);
    if (term == Term::i32) return "must give an i32 scalar";
    if (term == Term::i64) return "must give an i64 scalar";
    if (term == Term::test) return "must give i1 with the shape of the operands";
    if (term == Term::ptr) return "must give a pointer of the first operand's type";
    return term == Term::tile ? "must give a tile" : "the result has the wrong type";
  }

  void creationRules(CreationOp op) const {
    const auto axis = [&](size_t axes) { range(AttrKey::axis, 0, static_cast<int64_t>(axes) - 1); };
    switch (op) {
      case CreationOp::program_id:
      case CreationOp::num_programs:
        return axis(3);
      case CreationOp::dim:
      case CreationOp::stride:
        return axis(operand(0).shape.size());
      case CreationOp::constant: {
        const AttrKey kind = is_float(result().dtype) ? AttrKey::value_float : AttrKey::value_int;
        return require(
            op_.find(kind) != nullptr,
            "must have the attribute value_float for a float, or value_int for an integer");
      }
      case CreationOp::arange:
        return require(result().kind == TypeKind::tile && result().dtype == DType::i32 &&
                           result().shape.size() == 1,
                       "must give an i32 tile of rank 1");
      case CreationOp::alignment_offset:
      case CreationOp::max_alignment_offset:
        return;
    }
  }

  void contractionRules(ContractionOp op) const {
    switch (op) {
      case ContractionOp::dot:
        return dotRules();
    }
  }
  void dotRules() const {
    const Type &a = operand(0), &b = operand(1), &acc = operand(2);
    require(a.kind == TypeKind::tile && b.kind == TypeKind::tile &&
                accepts(Dtypes::dot_operands, a.dtype) &&
                (a.dtype == b.dtype || (is_fp8(a.dtype) && is_fp8(b.dtype))),
            "must multiply tiles of one dtype (f16, bf16, f32 or i8) or two tiles of fp8");
    require(a.shape.size() == 2 && b.shape.size() == 2 && a.shape[1] == b.shape[0],
            "must multiply [m, k] by [k, n]");
    const bool whole = a.dtype == DType::i8;
    require(acc.kind == TypeKind::tile && acc.dtype == (whole ? DType::i32 : DType::f32) &&
                acc.shape == Shape{a.shape[0], b.shape[1]},
            whole ? "must accumulate i8 in i32 [m, n]" : "must accumulate in f32 [m, n]");
    require(result() == acc, whole ? "must give i32 [m, n]" : "must give f32 [m, n]");
    require(!op_.find(AttrKey::input_precision) || a.dtype == DType::f32,
            "must not have an input precision for other dtypes than f32");
  }
  void shapeRules(ShapeOp op) const {
    if (op == ShapeOp::splat) {
      const bool pointer = operand(0).kind == TypeKind::ptr;
      return require(result().kind == (pointer ? TypeKind::ptr_tile : TypeKind::tile) &&
                         operand(0).dtype == result().dtype,
                     "must fill a tile with a scalar or pointer of its dtype");
    }
    require(operand(0).kind == result().kind && operand(0).dtype == result().dtype,
            "must take a tile and give a tile of the same dtype");
    switch (op) {
      case ShapeOp::splat:
        return;
      case ShapeOp::expand_dims:
        return expandDimsRules();
      case ShapeOp::broadcast:
        return broadcastRules();
      case ShapeOp::reshape:
        return require(tileElements(operand(0).shape) == tileElements(result().shape),
                       "must keep the number of elements");
      case ShapeOp::permute:
        return permuteRules();
      case ShapeOp::shuffle_xor:
        return shuffleXorRules();
      case ShapeOp::gather:
        return gatherRules();
    }
  }
  // Returns the size of operand 0 along `axis`. Fails for a tile of pointers.
  int64_t movedAxis() const {
    require(operand(0).kind == TypeKind::tile, "must take values, not pointers");
    return operand(0)
        .shape[range(AttrKey::axis, 0, static_cast<int64_t>(operand(0).shape.size()) - 1)];
  }
  void shuffleXorRules() const {
    require(result().shape == operand(0).shape, "must keep the shape");
    const int64_t size = movedAxis();
    range(AttrKey::xor_mask, 1, (size & -size) - 1);
  }
  void gatherRules() const {
    movedAxis();
    require(operand(1).kind == TypeKind::tile &&
                (operand(1).dtype == DType::i32 || operand(1).dtype == DType::i64),
            "must take a tile of i32 or i64 indices");
    require(result().shape == operand(1).shape, "must give one element for each index");
    Shape other = operand(1).shape;
    require(other.size() == operand(0).shape.size(), "must keep the rank");
    const int64_t axis = op_.integer(AttrKey::axis);
    other[axis] = operand(0).shape[axis];
    require(other == operand(0).shape, "must keep all dimensions except the axis");
  }
  void expandDimsRules() const {
    Shape expected = operand(0).shape;
    const int64_t axis = range(AttrKey::axis, 0, static_cast<int64_t>(expected.size()));
    expected.insert(expected.begin() + axis, 1);
    require(result().shape == expected, "must insert a dimension of 1 at the axis");
  }
  void broadcastRules() const {
    require(operand(0).shape.size() == result().shape.size(), "must keep the rank");
    for (size_t i = 0; i < result().shape.size(); ++i) {
      require(operand(0).shape[i] == result().shape[i] || operand(0).shape[i] == 1,
              "only dimensions of size 1 may grow");
    }
  }
  void permuteRules() const {
    const auto& order = list(AttrKey::permutation);
    const Shape& from = operand(0).shape;
    require(order.size() == from.size() && result().shape.size() == from.size(),
            "must keep the rank");
    std::vector<bool> seen(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      require(order[i] >= 0 && order[i] < static_cast<int64_t>(order.size()) && !seen[order[i]],
              "the attribute permutation must have each dimension once");
      seen[order[i]] = true;
      require(result().shape[i] == from[order[i]],
              "result dimension i must be operand dimension permutation[i]");
    }
  }

  void elementwiseRules(ElementwiseOp op) const {
    switch (op) {
      case ElementwiseOp::cast:
        return require(
            isValue(operand(0)) && operand(0).kind == result().kind &&
                operand(0).shape == result().shape && canCast(operand(0).dtype, result().dtype),
            "must change only the dtype; fp8 converts from and to f16, bf16 and f32 only");
      case ElementwiseOp::bitcast:
        return require(isValue(operand(0)) && operand(0).kind == result().kind &&
                           operand(0).shape == result().shape &&
                           canBitcast(operand(0).dtype, result().dtype),
                       "must change only the dtype, to one of the same width; i1 is not allowed");
      case ElementwiseOp::compare:
        require(!is_fp8(operand(0).dtype), "must not compare fp8");
        return require(
            range(AttrKey::predicate, 0, INT64_MAX) <= static_cast<int64_t>(Predicate::ne) ||
                operand(0).dtype != DType::i1,
            "must compare i1 only for equality");
      case ElementwiseOp::select:
      case ElementwiseOp::fma:
      case ElementwiseOp::pow:
        return;
    }
  }

  void reductionRules() const {
    const size_t n = op_.operands.size();
    require(n >= 1, "must take at least one tile");
    const int64_t kind = op_.integer(AttrKey::reduction);
    const bool custom = kind == static_cast<int64_t>(ReductionKind::custom);
    results(n);
    regions(custom ? 1 : 0);
    require(custom || n == 1, "several tiles require a combiner");
    require(operand(0).kind == TypeKind::tile, "must take tiles");
    const int64_t axis = range(AttrKey::axis, 0, static_cast<int64_t>(operand(0).shape.size()) - 1);
    Type expected = operand(0);
    switch (static_cast<ReductionOp>(op_.code)) {
      case ReductionOp::reduce:
        expected.shape.erase(expected.shape.begin() + axis);
        if (expected.shape.empty()) expected.kind = TypeKind::scalar;
        break;
      case ReductionOp::scan:
        require(custom || kind == static_cast<int64_t>(ReductionKind::sum),
                "a scan must be a sum or custom");
        break;
    }
    for (size_t i = 0; i < n; ++i) {
      require(operand(i).kind == TypeKind::tile && operand(i).shape == operand(0).shape,
              "the tiles must have one shape");
      require(custom || accepts(Dtypes::numbers, operand(i).dtype), "must not take i1 or fp8");
      expected.dtype = operand(i).dtype;
      if (result(i) != expected)
        throw Problem{"result " + std::to_string(i) + " must have the type " + print(expected)};
    }
    if (!custom) return;
    require(op_.regions[0].arguments.size() == 2 * n, "the combiner must take two values per tile");
    for (size_t i = 0; i < 2 * n; ++i) {
      require(regionArgument(0, i) == scalar(operand(i % n).dtype),
              "the combiner must take scalars of the tiles' dtypes");
    }
  }

  // Returns the type of the tile that the attribute `tile_shape` describes.
  Type block() const {
    const auto& tile_shape = list(AttrKey::tile_shape);
    require(tile_shape.size() == operand(0).shape.size(),
            "tile_shape must have one entry per dimension of the view");
    require(!flag(AttrKey::has_alignment_offset) || tile_shape.back() != 0,
            "only tiles along the last dimension may have an alignment offset");
    Type type{TypeKind::tile, operand(0).dtype, partitionShape(tile_shape), {}};
    for (int64_t extent : type.shape) {
      if (!isTileExtent(extent))
        throw Problem{"a dimension of tile_shape is " + std::to_string(extent) +
                      ", expected c * 2^n with odd c <= 31, at most 2^20"};
    }
    if (type.shape.empty()) type.kind = TypeKind::scalar;
    return type;
  }
  void memoryRules(MemoryOp op) const {
    switch (op) {
      case MemoryOp::view_ptr:
        return require(result().kind == TypeKind::ptr && operand(0).dtype == result().dtype,
                       "must give the base pointer of a view");
      case MemoryOp::slice: {
        Type sliced = operand(0);
        range(AttrKey::axis, 0, static_cast<int64_t>(sliced.shape.size()) - 1);
        const auto axis = static_cast<size_t>(op_.integer(AttrKey::axis));
        sliced.shape[axis] = kDynamic;
        const int64_t step = op_.integer(AttrKey::step, 1);
        require(step >= 1, "the step is 0, expected 1 or more");
        int64_t& stride = sliced.strides[axis];
        require(stride == kDynamic || !__builtin_mul_overflow(stride, step, &stride),
                "the step times the stride must fit in 64 bits");
        if (result() != sliced) throw Problem{"the result must have the type " + print(sliced)};
        return;
      }
      case MemoryOp::add_tile:
        return require(accepts(Dtypes::numbers, operand(0).dtype), "must not take i1 or fp8");
      case MemoryOp::load_tile:
      case MemoryOp::store_tile:
      case MemoryOp::addptr:
      case MemoryOp::load:
      case MemoryOp::store:
        return;
    }
  }

  void controlRules(ControlOp op) const {
    switch (op) {
      case ControlOp::for_range:
        return forRules();
      case ControlOp::if_else:
        return ifRules();
      case ControlOp::while_loop:
        return whileRules();
      case ControlOp::yield:
        results(0);
        return regions(0);
    }
  }

  // Checks that region arguments [first, ...) and results match operands [from, ...).
  void carried(size_t region, size_t first, size_t from) const {
    const size_t n = op_.operands.size() - from;
    if (op_.results.size() != n)
      throw Problem{"must have one result per carried value (" + std::to_string(n) + "), got " +
                    std::to_string(op_.results.size())};
    if (op_.regions[region].arguments.size() != first + n)
      throw Problem{"region " + std::to_string(region) + " must have " +
                    counted(first + n, "argument") + ", got " +
                    std::to_string(op_.regions[region].arguments.size())};
    for (size_t i = 0; i < n; ++i) {
      const Type& type = operand(from + i);
      if (type.kind == TypeKind::view)
        throw Problem{"carried value " + std::to_string(i) + " must not be a view"};
      if (type != result(i) || type != regionArgument(region, first + i))
        throw Problem{"carried value " + std::to_string(i) + " must keep its initial type, " +
                      print(type) + ", got " + print(regionArgument(region, first + i)) +
                      " as region argument and " + print(result(i)) + " as result"};
    }
  }
  void forRules() const {
    require(op_.operands.size() >= 3 && op_.regions.size() == 1,
            "must take lo, hi, step and have one region");
    for (size_t i = 0; i < 3; ++i) {
      require(isIndex(operand(i)) && operand(i) == operand(0),
              "lo, hi and step must be scalars of one index type");
    }
    require(!op_.regions[0].arguments.empty(),
            "the body must have the induction variable as its first argument");
    if (regionArgument(0, 0) != operand(0))
      throw Problem{"the induction variable is " + print(regionArgument(0, 0)) +
                    ", expected the bounds' type " + print(operand(0))};
    carried(0, 1, 3);
  }
  void ifRules() const {
    if (op_.operands.size() != 1) throw Problem{takes(1)};
    regions(2);
    if (operand(0) != scalar(DType::i1))
      throw Problem{"the condition must be an i1 scalar, got " + print(operand(0))};
    for (const Region& region : op_.regions)
      require(region.arguments.empty(), "branches must have no arguments");
    require(!op_.regions[0].ops.empty(), "the first branch must end in a yield");
    require(op_.results.empty() || !op_.regions[1].ops.empty(),
            "an if_ with results must have both branches");
  }
  void whileRules() const {
    require(op_.regions.size() == 2, "must have two regions");
    carried(0, 0, 0);
    carried(1, 0, 0);
    if (op_.find(AttrKey::independent))
      require(takesNextProgram(),
              "must have the program counter, an i32 view of one element, as the kernel's first "
              "argument");
  }
  bool takesNextProgram() const {
    const Type counter{TypeKind::view, DType::i32, {1}, {1}};
    return !program_.arguments.empty() && program_.values[program_.arguments[0].value] == counter;
  }
  void hintRules(HintOp op) const {
    switch (op) {
      case HintOp::assume:
        return;
      case HintOp::assume_divisible:
        range(AttrKey::divisor, 1, INT64_MAX);
        return;
      case HintOp::device_print:
        require(!op_.operands.empty(), "must print at least one value");
        for (size_t i = 0; i < op_.operands.size(); ++i)
          require(isValue(operand(i)), "must print scalars and tiles only");
    }
  }

  const Program& program_;
  const Op& op_;
  const OpInfo& info_;
};

// Returns the types that a region of this op must yield.
std::vector<Type> yieldTypes(const Program& program, const Op& op, const Region& region) {
  std::vector<Type> types;
  const bool loop_test = op.code == OpCode::while_loop && &region == &op.regions[0];
  if (loop_test) types.push_back({TypeKind::scalar, DType::i1, {}, {}});
  for (size_t i = 0; i < op.results.size(); ++i) {
    Type type = program.values[op.results[i]];
    if (info(op.code).family == Family::reduction) type = {TypeKind::scalar, type.dtype, {}, {}};
    types.push_back(type);
  }
  return types;
}

std::string types(const Program& program, const std::vector<ValueId>& ids) {
  std::string text;
  for (ValueId id : ids) text += (text.empty() ? "" : ", ") + print(program.values[id]);
  return text;
}

}  // namespace

std::string checkOp(const Program& program, const Op& op) {
  try {
    Checker(program, op).run();
  } catch (const Problem& problem) {
    return problem.text + "; its operands are (" + types(program, op.operands) +
           "), its results (" + types(program, op.results) + ")";
  }
  return "";
}

std::string checkYield(const Program& program, const Op& op, const Region& region) {
  const std::vector<ValueId>& yielded = region.ops.back().operands;
  const std::vector<Type> expected = yieldTypes(program, op, region);
  if (yielded.size() != expected.size())
    return "a region yields " + counted(yielded.size(), "value") + ", expected " +
           std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (program.values[yielded[i]] != expected[i])
      return "a region yields " + print(program.values[yielded[i]]) + " as value " +
             std::to_string(i) + ", expected " + print(expected[i]);
  }
  return "";
}

}  // namespace ligerdsl::program
