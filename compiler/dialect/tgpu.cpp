#include "compiler/dialect/tgpu.h"

#include "compiler/dialect/RingEnums.cpp.inc"
#include "compiler/dialect/TgpuDialect.cpp.inc"
#include "compiler/dialect/layout_attr.h"
#include "compiler/layout/linear_layout.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

using namespace mlir;

namespace ligerdsl::compiler::tgpu {

namespace {
// Layouts are long, so each is printed once, as #layout, #layout1, ...
struct LayoutAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream& os) const override {
    if (!isa<LayoutAttr>(attr)) return AliasResult::NoAlias;
    os << "layout";
    return AliasResult::FinalAlias;
  }
};
}  // namespace

void TgpuDialect::initialize() {
  addInterfaces<LayoutAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/dialect/TgpuAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/dialect/TgpuTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/dialect/TgpuOps.cpp.inc"
      >();
}

// #tgpu.layout<register = [[1, 0], [2, 0]], lane = [...], warp = [...], cta = [], rank = 2>
static void printBases(AsmPrinter& printer, StringRef name, ArrayRef<int64_t> flat, int64_t rank) {
  printer << name << " = [";
  for (size_t i = 0; i < flat.size(); i += rank) {
    printer << (i ? ", [" : "[");
    llvm::interleaveComma(flat.slice(i, rank), printer);
    printer << "]";
  }
  printer << "]";
}

void LayoutAttr::print(AsmPrinter& printer) const {
  printer << "<";
  printBases(printer, "register", getRegisters(), getRank());
  printBases(printer << ", ", "lane", getLanes(), getRank());
  printBases(printer << ", ", "warp", getWarps(), getRank());
  printBases(printer << ", ", "cta", getCtas(), getRank());
  printer << ", rank = " << getRank() << ">";
}

static ParseResult parseBases(AsmParser& parser, StringRef name, SmallVectorImpl<int64_t>& flat) {
  if (parser.parseKeyword(name) || parser.parseEqual()) return failure();
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                          [&] { return parser.parseInteger(flat.emplace_back()); });
  });
}

Attribute LayoutAttr::parse(AsmParser& parser, Type) {
  SmallVector<int64_t> registers, lanes, warps, ctas;
  int64_t rank = 0;
  auto location = parser.getCurrentLocation();
  if (parser.parseLess() || parseBases(parser, "register", registers) || parser.parseComma() ||
      parseBases(parser, "lane", lanes) || parser.parseComma() ||
      parseBases(parser, "warp", warps) || parser.parseComma() || parseBases(parser, "cta", ctas) ||
      parser.parseComma() || parser.parseKeyword("rank") || parser.parseEqual() ||
      parser.parseInteger(rank) || parser.parseGreater())
    return {};
  for (const auto* bases : {&registers, &lanes, &warps, &ctas})
    if (rank <= 0 || bases->size() % rank) {
      parser.emitError(location, "every basis vector needs one offset per tile dimension (rank = ")
          << rank << ")";
      return {};
    }
  return get(parser.getContext(), rank, registers, lanes, warps, ctas);
}

static LinearLayout::Bases toBases(ArrayRef<int64_t> flat, int64_t rank) {
  LinearLayout::Bases bases;
  for (size_t i = 0; i < flat.size(); i += rank)
    bases.emplace_back(flat.begin() + i, flat.begin() + i + rank);
  return bases;
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (int64_t(shape.size()) != getRank())
    return emitError() << "a layout of rank " << getRank() << " on a tile of rank " << shape.size()
                       << "; expected equal ranks";
  std::string wrong =
      LinearLayout::check(LinearLayout::Shape(shape), toBases(getRegisters(), getRank()),
                          toBases(getLanes(), getRank()), toBases(getWarps(), getRank()),
                          toBases(getCtas(), getRank()));
  if (!wrong.empty()) return emitError() << "layout: " << wrong;
  return success();
}

// !tgpu.memdesc<8x64xf32, row_pad = 4>, !tgpu.memdesc<128x64xbf16, swizzle = 128>
void MemDescType::print(AsmPrinter& printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << "x" << getElementType();
  if (getRowPad()) printer << ", row_pad = " << getRowPad();
  if (getSwizzle()) printer << ", swizzle = " << getSwizzle();
  printer << ">";
}

Type MemDescType::parse(AsmParser& parser) {
  SmallVector<int64_t> shape;
  Type element;
  int64_t pad = 0, swizzle = 0;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    const auto at = parser.getCurrentLocation();
    if (parser.parseKeyword(&name)) return {};
    if (name != "row_pad" && name != "swizzle") {
      parser.emitError(at, "expected row_pad or swizzle, got ") << name;
      return {};
    }
    if (parser.parseEqual() || parser.parseInteger(name == "row_pad" ? pad : swizzle)) return {};
  }
  if (parser.parseGreater()) return {};
  return get(parser.getContext(), shape, element, pad, swizzle);
}

// !tgpu.ring<3 bulk of <512xf32>, <64xf32>>
void RingType::print(AsmPrinter& printer) const {
  printer << "<" << getSlots() << " " << stringifyRingFill(getFill()) << " of ";
  llvm::interleaveComma(getParts(), printer,
                        [&](Type part) { cast<MemDescType>(part).print(printer); });
  printer << ">";
}

Type RingType::parse(AsmParser& parser) {
  int64_t slots = 0;
  StringRef fill;
  if (parser.parseLess() || parser.parseInteger(slots) || parser.parseKeyword(&fill) ||
      parser.parseKeyword("of"))
    return {};
  const std::optional<RingFill> by = symbolizeRingFill(fill);
  if (!by || slots < 1) {
    parser.emitError(parser.getCurrentLocation(),
                     "expected one slot or more, filled by bulk, async, async_own or tensor");
    return {};
  }
  SmallVector<Type> parts;
  auto parsePart = [&]() -> ParseResult {
    parts.push_back(MemDescType::parse(parser));
    return success(static_cast<bool>(parts.back()));
  };
  if (parser.parseCommaSeparatedList(parsePart) || parser.parseGreater()) return {};
  return get(parser.getContext(), slots, *by, parts);
}

int64_t RingFillOp::firstDim(unsigned part) {
  int64_t first = 0;
  for (Value view : getViews().take_front(part))
    first += cast<tile::ViewType>(view.getType()).getRank();
  return first;
}

ArrayRef<int64_t> RingFillOp::shapeOf(unsigned part) {
  return getTileShape().slice(firstDim(part),
                              cast<tile::ViewType>(getViews()[part].getType()).getRank());
}

RankedTensorType RingFillOp::tileOf(unsigned part) {
  return RankedTensorType::get(tile::resultShape(shapeOf(part)),
                               cast<tile::ViewType>(getViews()[part].getType()).getElementType(),
                               getLayouts() ? (*getLayouts())[part] : Attribute());
}

LogicalResult RingFillOp::verify() {
  const size_t parts = getRing().getType().getParts().size(), dims = firstDim(getViews().size());
  if (getViews().size() != parts || getTileShape().size() != dims)
    return emitOpError("expected ")
           << parts << " views, one per part, and a tile shape of " << dims << " numbers, got "
           << getViews().size() << " views and " << getTileShape().size() << " numbers";
  const RingType ring = getRing().getType();
  if (ring.hasBarriers() && !getCount())
    return emitOpError("expected a count for the mbarrier of a bulk or TMA copy, got none");
  if (!ring.hasBarriers() && getCount())
    return emitOpError("expected no count: a ring that cp.async fills has no mbarrier");
  if (ring.getFill() == RingFill::bulk && parts != 1)
    return emitOpError("expected a ring of one part for bulk copies, got ") << parts << " parts";
  const bool swizzled =
      llvm::all_of(ring.getParts(), [](Type part) { return cast<MemDescType>(part).getSwizzle(); });
  if (ring.getFill() == RingFill::tensor && !swizzled)
    return emitOpError("expected swizzled parts for TMA copies");
  if (getLayouts() && getLayouts()->size() != parts)
    return emitOpError("expected no layouts, or ")
           << parts << ", one per part, got " << getLayouts()->size();
  return success();
}

LogicalResult RingAwaitOp::verify() {
  const bool bulk = getRing().getType().hasBarriers();
  if (bulk ? !getSlot() || !getParity() || getPending() : getSlot() || getParity() || !getPending())
    return emitOpError(
        "expected only a slot and its parity if bulk or TMA copies fill the ring, and only a "
        "number of pending fills if cp.async does");
  return success();
}

LogicalResult WgmmaOp::verify() {
  if (static_cast<bool>(getA()) == getPartA().has_value())
    return emitOpError(
               "expected operand A either in registers (`rows`) or in a part of the slot "
               "(`part_a`), got ")
           << (getA() ? "both" : "none");
  const RingType ring = getRing().getType();
  auto acc = cast<RankedTensorType>(getAcc().getType());
  if (hasLayout(acc)) acc = partOfCta(acc).value_or(acc);
  const auto read = [&](uint32_t part,
                        bool permuted) -> std::optional<std::pair<int64_t, int64_t>> {
    if (part >= ring.getParts().size()) return std::nullopt;
    const MemDescType type = ring.part(part);
    if (type.getShape().size() != 2 || !type.getSwizzle()) return std::nullopt;
    const ArrayRef<int64_t> shape = type.getShape();
    return permuted ? std::pair{shape[1], shape[0]} : std::pair{shape[0], shape[1]};
  };
  const auto b = read(getPartB(), getPermutedB());
  std::optional<std::pair<int64_t, int64_t>> a;
  if (getPartA()) {
    a = read(*getPartA(), getPermutedA());
  } else {
    const ArrayRef<int64_t> shape = cast<RankedTensorType>(getA().getType()).getShape();
    if (shape.size() == 2) a = {shape[0], shape[1]};
  }
  if (!a || !b || acc.getShape() != ArrayRef<int64_t>{a->first, b->second} || a->second != b->first)
    return emitOpError(
               "expected A as [m, k] and B as [k, n], each operand of a slot as a swizzled part of "
               "two dimensions, and an accumulator of [m, n], got ")
           << acc;
  const Type element = ring.part(getPartB()).getElementType();
  if (element.getIntOrFloatBitWidth() != 16 && (getPermutedA() || !getPermutedB()))
    return emitOpError(
               "expected k along the rows of both operands (no `permuted_a`, but "
               "`permuted_b`) for ")
           << element;
  const bool fp8 = getFormatA() && getFormatB();
  if (getFormatA().has_value() != getFormatB().has_value() || (fp8 && !element.isInteger(8)))
    return emitOpError("expected a format for each operand of fp8, and none for other types");
  const bool whole = element.isInteger(8) && !fp8;
  if (whole ? !acc.getElementType().isInteger(32) : !acc.getElementType().isF32())
    return emitOpError("expected an accumulator of ")
           << (whole ? "i32 for i8 without formats" : "f32") << ", got " << acc;
  return success();
}

}  // namespace ligerdsl::compiler::tgpu

#define GET_ATTRDEF_CLASSES
#include "compiler/dialect/TgpuAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/dialect/TgpuTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/dialect/TgpuOps.cpp.inc"
