// What brings tiles into the slots of a ring.
#ifndef LIGERDSL_RING_ENUMS
#define LIGERDSL_RING_ENUMS

include "mlir/IR/EnumAttr.td"

def Tgpu_RingFill : I32EnumAttr<"RingFill", "what fills the slots of a ring, and who reads them", [
    I32EnumAttrCase<"bulk", 0>,       // bulk copies, which tell a memory barrier; all threads read
    I32EnumAttrCase<"async", 1>,      // every thread's own copies (cp.async); all threads read
    I32EnumAttrCase<"asyncOwn", 2, "async_own">,  // the same, and each thread reads what it has copied
    I32EnumAttrCase<"tensor", 3>]> {  // copies of whole tiles, which tell a memory barrier; tgpu.wgmma reads
  let cppNamespace = "::ligerdsl::compiler::tgpu";
}

#endif
