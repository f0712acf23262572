// The tile dialect: block-level programs as the DSL records them.
#ifndef LIGERDSL_TILE_DIALECT
#define LIGERDSL_TILE_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinTypeInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::ligerdsl::compiler::tile";
  let summary = "Block-level kernel programs";
  let description = [{
    A kernel is a `func.func` with the unit attribute `tile.kernel`. Its arguments are scalars,
    `!tile.ptr` and `!tile.view`. Tiles are builtin ranked tensors of static shape. Elementwise ops
    are `arith` and `math` on tensors, and control flow is `scf`. This dialect adds program ids,
    views of global memory, loads and stores, reductions and scans. The argument attributes
    `tile.alias_class` (i64) and `tile.read_only` (unit) carry the launcher's aliasing facts.
  }];
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

class Tile_Type<string name, string typeMnemonic> : TypeDef<Tile_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tile_PtrType : Tile_Type<"Ptr", "ptr"> {
  let summary = "A pointer into global memory";
  let description = "`!tile.ptr<bf16>`; a tile of pointers is `tensor<128x!tile.ptr<bf16>>`.";
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "Typed global memory with dimensions and strides";
  let description = [{
    `!tile.view<?x4096xbf16, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [8, 1]>`.
    Sizes and strides are numbers or `?`. The base pointer is aligned to `align` bytes. The numbers
    `dim_div` and `stride_div` divide each size and each stride (in elements).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                    ArrayRefParameter<"int64_t">:$strides, "int64_t":$alignment,
                    ArrayRefParameter<"int64_t">:$dimDivisors, ArrayRefParameter<"int64_t">:$strideDivisors);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    size_t getRank() const { return getShape().size(); }
    bool isDynamicDim(size_t axis) const { return ::mlir::ShapedType::isDynamic(getShape()[axis]); }
    bool isDynamicStride(size_t axis) const { return ::mlir::ShapedType::isDynamic(getStrides()[axis]); }
    /// Returns the bytes of one element in memory (i1 takes one byte).
    int64_t getElementBytes() const;
  }];
}

def Tile_Tensor : AnyTypeOf<[AnyRankedTensor], "tile">;
// Format of fp8 numbers. A tile holds their bits, as elements of type i8.
def Tile_Fp8Format : TypeAttrOf<AnyTypeOf<[F8E4M3FN, F8E5M2]>>;
def Tile_Cache : I32EnumAttr<"CacheHint", "cache hint of a global access", [  // same values as program::CacheHint
    I32EnumAttrCase<"normal", 0>, I32EnumAttrCase<"global", 1>, I32EnumAttrCase<"streaming", 2>]> {
  let cppNamespace = "::ligerdsl::compiler::tile";
}
def Tile_Evict : I32EnumAttr<"EvictHint", "eviction hint for L2", [
    I32EnumAttrCase<"normal", 0>, I32EnumAttrCase<"first", 1>, I32EnumAttrCase<"last", 2>,
    I32EnumAttrCase<"large", 3, "large">]> {  // like `last`, but ignored for views that fit in L2
  let cppNamespace = "::ligerdsl::compiler::tile";
}
def Tile_Atomic : I32EnumAttr<"AtomicKind", "read-modify-write operation", [
    I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>, I32EnumAttrCase<"xchg", 3>]> {
  let cppNamespace = "::ligerdsl::compiler::tile";
}
def Tile_Reduction : I32EnumAttr<"ReductionKind", "combiner of a reduction", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>, I32EnumAttrCase<"custom", 3>]> {
  let cppNamespace = "::ligerdsl::compiler::tile";
}

#endif
