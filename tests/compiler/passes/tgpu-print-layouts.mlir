// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=1 -tgpu-print-layouts -o /dev/null 2>&1 | FileCheck %s

!vec = !tile.view<?xf32, strides = [1], align = 16>

// CHECK: tile 1024: 32 registers, vectors of 4
// CHECK-NEXT: reg: (1) (2) (128) (256) (512); lane: (4) (8) (16) (32) (64); warp:
// CHECK: tile 8: 1 registers, vectors of 1, replicated 4 times
// CHECK-NEXT: reg:; lane: (1) (2) (4) (0) (0); warp:
// CHECK-NEXT: replicated: the owner of an element has these bits 0: lane 0x18, warp 0x0; threads with one of them set hold copies
// CHECK-NEXT: (): w0 l0 r0 w0 l1 r0 w0 l2 r0 w0 l3 r0 w0 l4 r0 w0 l5 r0 w0 l6 r0 w0 l7 r0
func.func @kernel(%x: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [1024] : !vec -> tensor<1024xf32>
  %b = tile.load_tile %x[%i] shape [8] : !vec -> tensor<8xf32>
  return
}
