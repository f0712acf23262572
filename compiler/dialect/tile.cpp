#include "compiler/dialect/tile.h"

#include <numeric>

#include "compiler/dialect/TileDialect.cpp.inc"
#include "compiler/dialect/TileEnums.cpp.inc"
#include "compiler/dialect/atomic.h"
#include "compiler/dialect/slice_step.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;

namespace ligerdsl::compiler::tile {

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/dialect/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/TileOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/AtomicOps.cpp.inc"
      >();
}

bool isTileDim(int64_t size) {
  if (size <= 0) return false;
  while (size % 2 == 0) size /= 2;
  return size <= 31;
}

SmallVector<int64_t> resultShape(ArrayRef<int64_t> tileShape) {
  SmallVector<int64_t> shape;
  for (int64_t dim : tileShape)
    if (dim != 0) shape.push_back(dim);
  return shape;
}

//===-- !tile.view ------------------------------------------------------------===//

int64_t ViewType::getElementBytes() const {
  return (getElementType().getIntOrFloatBitWidth() + 7) / 8;
}

static void printSizes(AsmPrinter& printer, ArrayRef<int64_t> sizes) {
  printer << "[";
  llvm::interleaveComma(sizes, printer, [&](int64_t size) {
    if (ShapedType::isDynamic(size))
      printer << "?";
    else
      printer << size;
  });
  printer << "]";
}

static ParseResult parseSizes(AsmParser& parser, SmallVectorImpl<int64_t>& sizes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalQuestion())) {
      sizes.push_back(ShapedType::kDynamic);
      return success();
    }
    return parser.parseInteger(sizes.emplace_back());
  });
}

static bool allOnes(ArrayRef<int64_t> numbers) {
  return llvm::all_of(numbers, [](int64_t n) { return n == 1; });
}

void ViewType::print(AsmPrinter& printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << "x" << getElementType() << ", strides = ";
  printSizes(printer, getStrides());
  if (getAlignment() != getElementBytes()) printer << ", align = " << getAlignment();
  if (!allOnes(getDimDivisors())) printSizes(printer << ", dim_div = ", getDimDivisors());
  if (!allOnes(getStrideDivisors())) printSizes(printer << ", stride_div = ", getStrideDivisors());
  printer << ">";
}

Type ViewType::parse(AsmParser& parser) {
  SmallVector<int64_t> shape, strides, dimDivisors, strideDivisors;
  Type element;
  int64_t align = 0;
  if (parser.parseLess() || parser.parseDimensionList(shape) || parser.parseType(element) ||
      parser.parseComma() || parser.parseKeyword("strides") || parser.parseEqual() ||
      parseSizes(parser, strides))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    auto location = parser.getCurrentLocation();
    if (parser.parseKeyword(&key) || parser.parseEqual()) return {};
    ParseResult parsed = success();
    if (key == "align")
      parsed = parser.parseInteger(align);
    else if (key == "dim_div")
      parsed = parseSizes(parser, dimDivisors);
    else if (key == "stride_div")
      parsed = parseSizes(parser, strideDivisors);
    else
      parsed = parser.emitError(location, "expected align, dim_div or stride_div, got ") << key;
    if (parsed) return {};
  }
  if (parser.parseGreater()) return {};
  if (!element.isIntOrFloat()) return {};
  if (align == 0) align = (element.getIntOrFloatBitWidth() + 7) / 8;
  if (dimDivisors.empty()) dimDivisors.assign(shape.size(), 1);
  if (strideDivisors.empty()) strideDivisors.assign(shape.size(), 1);
  return getChecked([&] { return parser.emitError(parser.getNameLoc()); }, parser.getContext(),
                    shape, element, strides, align, dimDivisors, strideDivisors);
}

LogicalResult ViewType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, Type element, ArrayRef<int64_t> strides,
                               int64_t alignment, ArrayRef<int64_t> dimDivisors,
                               ArrayRef<int64_t> strideDivisors) {
  if (!element.isIntOrFloat())
    return emitError() << "expected a view of integers or floats, got " << element;
  if (strides.size() != shape.size() || dimDivisors.size() != shape.size() ||
      strideDivisors.size() != shape.size())
    return emitError() << "a rank-" << shape.size()
                       << " view needs one stride, one size divisor and one stride divisor per "
                          "dimension, got "
                       << strides.size() << ", " << dimDivisors.size() << " and "
                       << strideDivisors.size();
  if (alignment <= 0)
    return emitError() << "expected an alignment of 1 byte or more, got " << alignment;
  return success();
}

bool rowsMayBeginInsideVectors(ViewType view) {
  const size_t last = view.getRank() - 1;
  auto whole = [&](int64_t elements) {
    return elements * view.getElementBytes() % kVectorBytes == 0;
  };
  if (view.isDynamicStride(last) || view.getStrides()[last] != 1) return false;
  for (size_t axis = 0; axis < last; ++axis)
    if (!whole(view.isDynamicStride(axis) ? view.getStrideDivisors()[axis]
                                          : view.getStrides()[axis]))
      return true;
  return view.getAlignment() % kVectorBytes != 0;
}

ViewType sliceType(ViewType view, size_t axis) {
  SmallVector<int64_t> shape(view.getShape()), divisors(view.getDimDivisors());
  shape[axis] = ShapedType::kDynamic;
  divisors[axis] = 1;
  const int64_t step =
      view.isDynamicStride(axis) ? view.getStrideDivisors()[axis] : view.getStrides()[axis];
  const int64_t alignment = std::gcd(view.getAlignment(), step * view.getElementBytes());
  return ViewType::get(view.getContext(), shape, view.getElementType(), view.getStrides(),
                       alignment, divisors, view.getStrideDivisors());
}

static constexpr llvm::StringLiteral kStepAttr = "tile.step";

int64_t stepOf(SliceOp slice) {
  auto step = slice->getAttrOfType<IntegerAttr>(kStepAttr);
  return step ? step.getInt() : 1;
}

void setStep(SliceOp slice, int64_t step) {
  if (step != 1) slice->setAttr(kStepAttr, OpBuilder(slice).getI64IntegerAttr(step));
}

ViewType sliceType(ViewType view, size_t axis, int64_t step) {
  ViewType whole = sliceType(view, axis);
  if (step == 1) return whole;
  constexpr int64_t kLargestDivisor = int64_t{1} << 20;
  SmallVector<int64_t> strides(whole.getStrides()), divisors(whole.getStrideDivisors());
  const int64_t power = step & -step;
  if (!whole.isDynamicStride(axis))
    strides[axis] *= step;
  else if (divisors[axis] <= kLargestDivisor / power)
    divisors[axis] *= power;
  return ViewType::get(view.getContext(), whole.getShape(), view.getElementType(), strides,
                       whole.getAlignment(), whole.getDimDivisors(), divisors);
}

bool keepsAlignment(ViewType view, size_t axis) {
  const int64_t stride =
      view.isDynamicStride(axis) ? view.getStrideDivisors()[axis] : view.getStrides()[axis];
  return stride * view.getElementBytes() % kVectorBytes == 0;
}

bool rowsHaveOneOffset(ViewType view, ArrayRef<int64_t> tileShape) {
  for (size_t axis = 0; axis + 1 < tileShape.size(); ++axis)
    if (tileShape[axis] > 1 && !keepsAlignment(view, axis)) return false;
  return true;
}

int64_t maxAlignmentOffset(Value alignmentOffset) {
  return kVectorBytes / alignmentOffset.getDefiningOp<AlignmentOffsetOp>()
                            .getView()
                            .getType()
                            .getElementBytes() -
         1;
}

//===-- Verifiers and folders -------------------------------------------------===//

LogicalResult MakeRangeOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return emitOpError("expected a rank-1 tile of i32, got ") << type;
  return success();
}

static OpFoldResult foldSize(MLIRContext* context, int64_t size) {
  if (ShapedType::isDynamic(size)) return {};
  return IntegerAttr::get(IntegerType::get(context, 64), size);
}

Operation* TileDialect::materializeConstant(OpBuilder& builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

OpFoldResult DimOp::fold(FoldAdaptor) {
  return foldSize(getContext(), getView().getType().getShape()[getAxis()]);
}
OpFoldResult StrideOp::fold(FoldAdaptor) {
  return foldSize(getContext(), getView().getType().getStrides()[getAxis()]);
}

LogicalResult SplatOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (type.getElementType() != getSource().getType())
    return emitOpError("expected a tile of the scalar's type ")
           << getSource().getType() << ", got " << type;
  return success();
}

OpFoldResult SplatOp::fold(FoldAdaptor adaptor) {
  if (Attribute source = adaptor.getSource(); isa_and_nonnull<IntegerAttr, FloatAttr>(source))
    return SplatElementsAttr::get(cast<ShapedType>(getType()), source);
  return {};
}

LogicalResult ExpandDimsOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType()),
       result = cast<RankedTensorType>(getType());
  SmallVector<int64_t> expected(source.getShape());
  if (getAxis() > size_t(source.getRank()))
    return emitOpError("expected an axis of at most ")
           << source.getRank() << ", the rank of the source, got " << getAxis();
  expected.insert(expected.begin() + getAxis(), 1);
  if (result.getShape() != ArrayRef(expected))
    return emitOpError("expected a result of shape [") << ArrayRef(expected) << "], got " << result;
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType()),
       result = cast<RankedTensorType>(getType());
  if (source.getRank() != result.getRank())
    return emitOpError("expected a result of rank ") << source.getRank() << ", got " << result;
  for (auto [from, to] : llvm::zip(source.getShape(), result.getShape()))
    if (from != to && from != 1)
      return emitOpError("expected dimensions of the result's size or of 1, got ")
             << source << " -> " << result;
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType()),
       result = cast<RankedTensorType>(getType());
  if (source.getNumElements() != result.getNumElements())
    return emitOpError("expected a result of ")
           << source.getNumElements() << " elements, like the source, got " << result;
  return success();
}

LogicalResult PermuteOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType()),
       result = cast<RankedTensorType>(getType());
  if (getPermutation().size() != size_t(source.getRank()) || !isPermutationVector(getPermutation()))
    return emitOpError("expected a permutation of the tile's ")
           << source.getRank() << " dimensions, got [" << getPermutation() << "]";
  for (auto [i, from] : llvm::enumerate(getPermutation()))
    if (result.getDimSize(i) != source.getDimSize(from))
      return emitOpError("expected size ") << source.getDimSize(from) << " for dimension " << i
                                           << " of the result, got " << result;
  return success();
}

LogicalResult ShuffleXorOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (getAxis() >= size_t(type.getRank()))
    return emitOpError("expected an axis below ")
           << type.getRank() << ", the rank of the tile, got " << getAxis();
  const int64_t size = type.getDimSize(getAxis());
  if (getMask() == 0 || getMask() >= (size & -size))
    return emitOpError("expected a mask of at least 1 and less than ")
           << (size & -size) << ", the largest power of two that divides the axis size " << size
           << ", got " << getMask();
  return success();
}

LogicalResult GatherOp::verify() {
  auto source = cast<RankedTensorType>(getSource().getType()),
       index = cast<RankedTensorType>(getIndex().getType()),
       result = cast<RankedTensorType>(getType());
  if (getAxis() >= size_t(source.getRank()))
    return emitOpError("expected an axis below ")
           << source.getRank() << ", the rank of the source, got " << getAxis();
  if (!index.getElementType().isInteger(32) && !index.getElementType().isInteger(64))
    return emitOpError("expected i32 or i64 indices, got ") << index;
  SmallVector<int64_t> expected(source.getShape());
  if (index.getRank() == source.getRank()) expected[getAxis()] = index.getDimSize(getAxis());
  if (index.getShape() != ArrayRef(expected))
    return emitOpError("expected indices of shape [")
           << ArrayRef(expected) << "] (the source's, except along axis " << getAxis() << "), got "
           << index;
  if (result.getShape() != index.getShape() || result.getElementType() != source.getElementType())
    return emitOpError(
               "expected a result with the shape of the index and the element type of the source, "
               "got ")
           << result;
  return success();
}

LogicalResult DotOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType()), b = cast<RankedTensorType>(getB().getType()),
       result = cast<RankedTensorType>(getType());
  Type element = a.getElementType();
  const bool fp8 = getFormatA() && getFormatB(),
             whole = !fp8 && (element.isInteger(8) || element.isInteger(32));
  const bool known =
      fp8 ? element.isInteger(8) : whole || element.isF16() || element.isBF16() || element.isF32();
  if (element != b.getElementType() || !known ||
      getFormatA().has_value() != getFormatB().has_value())
    return emitOpError(
               "expected two tiles of f16, bf16, f32, i8 or i32, or two of i8 with an fp8 format "
               "each; got ")
           << a << " and " << b;
  if (getTf32() && !element.isF32())
    return emitOpError("expected f32 operands with `tf32`, got ") << a;
  if (a.getRank() != 2 || b.getRank() != 2 || a.getDimSize(1) != b.getDimSize(0))
    return emitOpError("expected operands [m, k] and [k, n], got ") << a << " and " << b;
  if ((whole ? !result.getElementType().isInteger(32) : !result.getElementType().isF32()) ||
      result.getShape() != ArrayRef({a.getDimSize(0), b.getDimSize(1)}))
    return emitOpError("expected an accumulator [m, n] of ")
           << (whole ? "i32" : "f32") << ", got " << result;
  return success();
}

static LogicalResult verifyPartition(Operation* op, ViewType view, ArrayRef<int64_t> tileShape,
                                     size_t indices, Type value) {
  if (tileShape.size() != view.getRank() || indices != view.getRank())
    return op->emitOpError("expected ")
           << view.getRank() << " tile sizes and indices, one per view dimension, got "
           << tileShape.size() << " tile sizes and " << indices << " indices";
  for (int64_t dim : tileShape)
    if (dim != 0 && !isTileDim(dim))
      return op->emitOpError("tile dimension ") << dim << " is not c * 2^n with odd c <= 31";
  SmallVector<int64_t> shape = resultShape(tileShape);
  if (shape.empty()) {
    if (value != view.getElementType())
      return op->emitOpError("expected a scalar ") << view.getElementType() << ", got " << value;
    return success();
  }
  auto tensor = dyn_cast<RankedTensorType>(value);
  if (!tensor || tensor.getShape() != ArrayRef(shape) ||
      tensor.getElementType() != view.getElementType())
    return op->emitOpError("expected a tile of shape [")
           << ArrayRef(shape) << "] and element type " << view.getElementType() << ", got "
           << value;
  return success();
}

LogicalResult SliceOp::verify() {
  if (getAxis() >= getView().getType().getRank())
    return emitOpError("expected an axis below ")
           << getView().getType().getRank() << ", the rank of the view, got " << getAxis();
  if (stepOf(*this) < 1) return emitOpError("expected a step of 1 or more, got ") << stepOf(*this);
  const ViewType expected = sliceType(getView().getType(), getAxis(), stepOf(*this));
  if (getType() != expected)
    return emitOpError("expected the result type ") << expected << ", got " << getType();
  return success();
}

LogicalResult AlignmentOffsetOp::verify() {
  if (getIndices().size() + 1 != getView().getType().getRank())
    return emitOpError("expected ")
           << getView().getType().getRank() - 1
           << " indices, one per view dimension except the last, got " << getIndices().size();
  return success();
}

static LogicalResult verifyAlignmentOffset(Operation* op, Value alignmentOffset,
                                           ArrayRef<int64_t> tileShape) {
  if (alignmentOffset && tileShape.back() == 0)
    return op->emitOpError("has an alignment offset, but its tile squeezes the last dimension");
  if (alignmentOffset && !alignmentOffset.getDefiningOp<AlignmentOffsetOp>())
    return op->emitOpError(
        "expected the unchanged result of tile.alignment_offset as alignment offset, got another "
        "value");
  return success();
}

LogicalResult LoadTileOp::verify() {
  if (failed(verifyAlignmentOffset(*this, getAlignmentOffset(), getTileShape()))) return failure();
  return verifyPartition(*this, getView().getType(), getTileShape(), getIndices().size(),
                         getType());
}

LogicalResult StoreTileOp::verify() {
  if (failed(verifyAlignmentOffset(*this, getAlignmentOffset(), getTileShape()))) return failure();
  return verifyPartition(*this, getView().getType(), getTileShape(), getIndices().size(),
                         getValue().getType());
}

static LogicalResult verifyCombiner(Operation* op, OperandRange sources, Region& combiner) {
  size_t n = sources.size();
  if (n == 0) return op->emitOpError("expected one tile or more, got none");
  if (combiner.getNumArguments() != 2 * n)
    return op->emitOpError("expected a combiner with ")
           << 2 * n << " arguments, two per tile, got " << combiner.getNumArguments();
  auto first = cast<RankedTensorType>(sources[0].getType());
  for (auto [i, source] : llvm::enumerate(sources)) {
    auto type = cast<RankedTensorType>(source.getType());
    if (type.getShape() != first.getShape())
      return op->emitOpError("expected tiles of one shape, got ") << first << " and " << type;
    if (combiner.getArgument(i).getType() != type.getElementType() ||
        combiner.getArgument(n + i).getType() != type.getElementType())
      return op->emitOpError("expected combiner arguments ")
             << i << " and " << n + i << " of type " << type.getElementType() << ", got "
             << combiner.getArgument(i).getType() << " and "
             << combiner.getArgument(n + i).getType();
  }
  Operation* yield = combiner.front().getTerminator();
  if (yield->getNumOperands() != n)
    return op->emitOpError("expected a combiner that yields ")
           << n << " scalars, got " << yield->getNumOperands();
  return success();
}

LogicalResult ReduceOp::verify() {
  if (failed(verifyCombiner(*this, getSources(), getCombiner()))) return failure();
  auto source = cast<RankedTensorType>(getSources()[0].getType());
  if (getAxis() >= size_t(source.getRank()))
    return emitOpError("expected an axis below ")
           << source.getRank() << ", the rank of the source, got " << getAxis();
  SmallVector<int64_t> shape(source.getShape());
  shape.erase(shape.begin() + getAxis());
  for (Type type : getResultTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (bool(tensor) == shape.empty() || (tensor && tensor.getShape() != ArrayRef(shape)))
      return emitOpError("expected a result without axis ")
             << getAxis() << " of " << source << ", got " << type;
  }
  return success();
}

LogicalResult ScanOp::verify() {
  return verifyCombiner(*this, getSources(), getCombiner());
}

}  // namespace ligerdsl::compiler::tile

#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/TileTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/TileOps.cpp.inc"
