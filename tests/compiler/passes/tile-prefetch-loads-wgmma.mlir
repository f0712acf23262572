// Products that wgmma makes of a ring's slots.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=70000" -tgpu-split-dots \
// RUN:   -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_90" -tile-prefetch-loads="num-warps=4 shared-bytes=70000 arch=sm_90" \
// RUN:   | FileCheck %s --check-prefix=OTHER
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=2 -o /dev/null 2>&1 | FileCheck %s --check-prefix=WARPS
// OTHER-NOT: wgmma
// WARPS: remark: [tile-assign-layouts] the product is made by mma.sync, not by wgmma: m is 64 and n 64, for 2 warps; it takes a multiple of four warps

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Sums that nothing looks at in the loop: a turn starts its product, waits for the one before, then for the next turn's copies, and
// fills the slot that the one before has read.
// CHECK-LABEL: func.func @overlapping
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of <64x64xbf16, swizzle = 128>, <64x64xbf16, swizzle = 128>>
// CHECK-COUNT-3: tgpu.ring_fill %[[RING]]
// CHECK: tgpu.ring_await %[[RING]] pending 2 {for_wgmma}
// CHECK: %[[SUMS:.+]]:2 = scf.for
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} ring %[[RING]][%[[SLOT:.+]]] {part_a = 0 : i32, part_b = 1 : i32, permuted_b}
// CHECK: %[[WAITED:.+]] = tgpu.wgmma_wait %[[FLIGHT]] pending 1
// CHECK: tgpu.ring_await %[[RING]] pending 1 {for_wgmma}
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.yield %[[WAITED]]
// CHECK: tgpu.wgmma_wait %[[SUMS]]#0 pending 0
// CHECK: tgpu.ring_await %[[RING]] pending 0
func.func @overlapping(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// Sums that are scaled, a factor in registers: the product is waited for where it stands.
// CHECK-LABEL: func.func @scaled
// CHECK: scf.for
// CHECK: tgpu.ring_await %[[RING:.+]] pending 2 {for_wgmma}
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} rows %{{.+}} ring %[[RING]][%{{.+}}] {part_b = 0 : i32}
// CHECK-NEXT: tgpu.wgmma_wait %[[FLIGHT]] pending 0
// CHECK: scf.yield
func.func @scaled(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %less = arith.mulf %acc, %half : tensor<64x64xf32>
    %s = tile.dot %a, %b, %less : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
