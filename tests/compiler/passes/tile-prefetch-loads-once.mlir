// Operands A that all iterations of a loop share.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=70000" -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=24000" -canonicalize -cse \
// RUN:   | FileCheck %s --check-prefix=FEW

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// The operand is copied once to its own ring, together with the first iteration's copies, and the
// tensor cores read it there.
// CHECK-LABEL: func.func @shared
// CHECK: %[[RING:.+]] = tgpu.ring : <2 async of <64x64xbf16, swizzle = 128>>
// CHECK: %[[ONCE:.+]] = tgpu.ring : <1 async of <64x64xbf16, swizzle = 128>>
// CHECK: tgpu.ring_fill %[[ONCE]][%c0_i32]
// CHECK-SAME: open
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.for
// CHECK: tgpu.ring_await %[[RING]] pending 0 {for_wgmma}
// CHECK: %[[FACTOR:.+]] = tgpu.ring_read %[[ONCE]][%c0_i32] part 0
// CHECK: tgpu.wgmma %{{.+}} rows %[[FACTOR]] ring %[[RING]]
// CHECK-NOT: tile.load_tile
// Two iterations and the shared operand do not fit, so it is loaded in every iteration.
// FEW-LABEL: func.func @shared
// FEW: scf.for
// FEW: tile.load_tile
func.func @shared(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64, %row: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%row, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
