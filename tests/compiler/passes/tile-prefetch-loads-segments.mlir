// Consecutive matmul loops. Each has a ring of all its stages in the same memory, and the
// accumulator stays in registers in between.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=100000 exchange-bytes=16384" \
// RUN:   -tgpu-lower-conversions -tgpu-allocate-shared=shared-bytes=100000 -tgpu-insert-barriers -canonicalize | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=100000 exchange-bytes=16384" \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// CHECK-LABEL: func.func @straight
// CHECK-SAME: tgpu.shared_bytes = 65600
// CHECK: %[[ONE:.+]] = tgpu.ring {offsets = array<i64: 0, 32768, 65536>} : <4 tensor of
// CHECK-COUNT-3: tgpu.ring_fill %[[ONE]]
// CHECK: %[[SUMS:.+]]:3 = scf.for
// CHECK: %[[ALL:.+]] = tgpu.wgmma_wait %[[SUMS]]#0 pending 0
// CHECK-NEXT: tgpu.ring_release %[[ONE]] {tgpu.emptied}
// CHECK-NEXT: %[[TWO:.+]] = tgpu.ring {offsets = array<i64: 0, 32768, 65568>} : <4 tensor of
// CHECK-NOT: tgpu.barrier
// CHECK-COUNT-3: tgpu.ring_fill %[[TWO]]
// CHECK-NOT: tgpu.{{barrier|local|convert}}
// CHECK: scf.for {{.+}} iter_args(%{{.+}} = %[[ALL]],
// CHECK: tgpu.ring_release %[[TWO]] {tgpu.emptied}
// CHECK: return
func.func @straight(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %z: !x {tile.read_only}, %w: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %first = scf.for %ifirst = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %ifirst] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%c0, %ifirst] shape [64, 64] : !x -> tensor<64x64xbf16>
    %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  %second = scf.for %isecond = %c0 to %n step %c1 iter_args(%acc = %first) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %z[%c0, %isecond] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %w[%c0, %isecond] shape [64, 64] : !x -> tensor<64x64xbf16>
    %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %second, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// A persistent loop over tiles. A ring that already loads the next tile is never empty, and would
// leave no room for the second loop's ring.
// CHECK-LABEL: func.func @tile_after_tile
// CHECK-SAME: tgpu.shared_bytes = 65600
// CHECK: %[[ONE:.+]] = tgpu.ring {offsets = array<i64: 0, 32768, 65536>} : <4 tensor of
// CHECK: %[[TWO:.+]] = tgpu.ring {offsets = array<i64: 0, 32768, 65568>} : <4 tensor of
// CHECK: scf.for
// CHECK: tgpu.ring_release %[[ONE]] {tgpu.emptied}
// CHECK: tgpu.ring_fill %[[TWO]]
// CHECK: tgpu.ring_release %[[TWO]] {tgpu.emptied}
// CHECK: return
// REMARK: loads are not issued ahead from one iteration of the outer loop to the next: their tiles take {{[0-9]+}} bytes of shared memory per CTA, those of later loops {{[0-9]+}}, and {{[0-9]+}} are left; use smaller tiles or fewer stages [not-ahead-across-outer-loop]
// REMARK: loads are not issued ahead from one iteration of the outer loop to the next: their tiles take {{[0-9]+}} bytes of shared memory per CTA, and the outer loop's body leaves {{[0-9]+}}; use smaller tiles or fewer stages [not-ahead-across-outer-loop]
func.func @tile_after_tile(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %z: !x {tile.read_only}, %w: !x {tile.read_only}, %c: !c, %n: i64, %tiles: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %tiles step %c1 : i64 {
    %first = scf.for %ifirst = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %ifirst] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %y[%c0, %ifirst] shape [64, 64] : !x -> tensor<64x64xbf16>
      %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    %second = scf.for %isecond = %c0 to %n step %c1 iter_args(%acc = %first) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %z[%tile, %isecond] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %w[%c0, %isecond] shape [64, 64] : !x -> tensor<64x64xbf16>
      %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    tile.store_tile %second, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}
