// The tgpu dialect: tiles on a GPU. Every tile has a layout.
#ifndef LIGERDSL_TGPU_DIALECT
#define LIGERDSL_TGPU_DIALECT

include "RingEnums.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/TensorEncoding.td"

def Tgpu_Dialect : Dialect {
  let name = "tgpu";
  let cppNamespace = "::ligerdsl::compiler::tgpu";
  let summary = "Layouts, shared memory and barriers";
  let description = [{
    `#tgpu.layout` in a tensor's encoding slot determines which thread holds which element in which
    register. The ops move tiles between layouts through shared memory. Barriers are explicit.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

def Tgpu_LayoutAttr : AttrDef<Tgpu_Dialect, "Layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "layout";
  let summary = "Linear layout of a tile over registers, lanes, warps and CTAs";
  let description = [{
    `#tgpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], cta = [], rank = 1>`:
    one basis vector (an offset per tile dimension) per input bit. See
    compiler/layout/linear_layout.h.
  }];
  // Each list has the offsets of all basis vectors, one after the other: `rank` numbers per bit.
  let parameters = (ins "int64_t":$rank, ArrayRefParameter<"int64_t">:$registers, ArrayRefParameter<"int64_t">:$lanes,
                    ArrayRefParameter<"int64_t">:$warps, ArrayRefParameter<"int64_t">:$ctas);
  let hasCustomAssemblyFormat = 1;
}

def Tgpu_MemDescType : TypeDef<Tgpu_Dialect, "MemDesc"> {
  let mnemonic = "memdesc";
  let summary = "A buffer in shared memory";
  let description = [{
    `!tgpu.memdesc<8x64xf32>`, row-major. `row_pad` elements follow every row of the last dimension,
    so that columns spread over the banks. `!tgpu.memdesc<128x64xbf16, swizzle = 128>`: swizzled
    panels with rows of 128 bytes (compiler/layout/swizzle.h).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType, "int64_t":$rowPad, "int64_t":$swizzle);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType, "int64_t":$rowPad), [{
    return $_get($_ctxt, shape, elementType, rowPad, /*swizzle=*/0);
  }]>];
  let hasCustomAssemblyFormat = 1;
}

def Tgpu_RingType : TypeDef<Tgpu_Dialect, "Ring"> {
  let mnemonic = "ring";
  let summary = "Slots of shared memory in cyclic order: tiles arrive in one slot while others are read";
  let description = [{
    `!tgpu.ring<3 bulk of <512xf32>, <64xf32>>`: three slots, each of two parts, filled by bulk
    copies. A ring orders the accesses to its slots. A ring that bulk copies fill shares its memory
    with no other buffer. Other rings may share it with buffers that are used before or after them
    (tgpu-allocate-shared).
  }];
  let parameters = (ins "int64_t":$slots, EnumParameter<Tgpu_RingFill>:$fill, ArrayRefParameter<"::mlir::Type">:$parts);
  let extraClassDeclaration = [{
    MemDescType part(unsigned i) const { return ::llvm::cast<MemDescType>(getParts()[i]); }
    /// Returns true if each slot has an mbarrier that completes when the slot is filled.
    bool hasBarriers() const { return getFill() == RingFill::bulk || getFill() == RingFill::tensor; }
  }];
  let hasCustomAssemblyFormat = 1;
}

#endif
