// Kinds of copies that fill the slots of a ring.
#ifndef LIGERDSL_RING_ENUMS
#define LIGERDSL_RING_ENUMS

include "mlir/IR/EnumAttr.td"

def Tgpu_RingFill : I32EnumAttr<"RingFill", "kind of copies that fill the slots of a ring", [
    I32EnumAttrCase<"bulk", 0>,       // bulk copies that complete on an mbarrier; all threads read
    I32EnumAttrCase<"async", 1>,      // cp.async of every thread; all threads read
    I32EnumAttrCase<"asyncOwn", 2, "async_own">,  // cp.async of every thread; each thread reads only what it has copied
    I32EnumAttrCase<"tensor", 3>]> {  // TMA copies that complete on an mbarrier; tgpu.wgmma reads
  let cppNamespace = "::ligerdsl::compiler::tgpu";
}

#endif
