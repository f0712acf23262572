// Staged tiles on a cluster: the layouts determine the part that a CTA copies and reads. The CTA's
// slots hold only this part.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=2 num-ctas=2" \
// RUN:   -tile-prefetch-loads="num-warps=2 num-ctas=2 shared-bytes=32848" | FileCheck %s
// RUN: ligerdsl-opt %s -tile-prefetch-loads="num-warps=2 num-ctas=2 shared-bytes=32767" | FileCheck %s --check-prefix=SINGLE

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// CHECK-LABEL: func.func @row
// CHECK: %[[RING:.+]] = tgpu.ring : <2 async_own of <1x4096xf32>>
// CHECK: tgpu.ring_fill %[[RING]]{{.+}} shape [1, 8192] {layouts = [#[[LAYOUT:.+]]]}
// CHECK: scf.for
// CHECK: tgpu.ring_fill %[[RING]]{{.+}} shape [1, 8192] {layouts = [#[[LAYOUT]]]}
// CHECK: tgpu.ring_read %[[RING]]{{.+}} -> tensor<1x8192xf32, #[[LAYOUT]]>
//
// There is room for one iteration only: the next tile is prefetched to L2.
// SINGLE-LABEL: func.func @row
// SINGLE-NOT: stage
// SINGLE: tile.prefetch_tile
func.func @row(%x: !x {tile.read_only}, %sums: !x, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !x -> tensor<1x8192xf32>
    %s = arith.addf %acc, %t : tensor<1x8192xf32>
    scf.yield %s : tensor<1x8192xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [1, 8192] : tensor<1x8192xf32>, !x
  return
}

// Several rows: CTAs take whole rows if a reduction goes along them. The reduction needs room as
// well: 80 bytes.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=2 num-ctas=2" \
// RUN:   -tile-prefetch-loads="num-warps=2 num-ctas=2 shared-bytes=32847" 2>&1 | FileCheck %s --check-prefix=EXCHANGE
// EXCHANGE: two iterations of the loop's tiles take 32768 bytes of shared memory per CTA, and 32767 are left; use smaller tiles [load-not-staged]
// EXCHANGE-LABEL: func.func @rows
// EXCHANGE-NOT: stage
// EXCHANGE: tile.prefetch_tile
//
// CHECK-LABEL: func.func @rows
// CHECK: tgpu.ring : <2 async_own of <1x4096xf32>>
func.func @rows(%x: !x {tile.read_only}, %sums: !x, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<2x4096xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<2x4096xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [2, 4096] : !x -> tensor<2x4096xf32>
    %means = tile.reduce sum %t {axis = 1 : i32} : tensor<2x4096xf32> -> tensor<2xf32> {
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tile.yield %ab : f32
    }
    %column = tile.expand_dims %means {axis = 1 : i32} : tensor<2xf32> -> tensor<2x1xf32>
    %wide = tile.broadcast %column : tensor<2x1xf32> -> tensor<2x4096xf32>
    %u = arith.addf %t, %wide : tensor<2x4096xf32>
    %s = arith.addf %acc, %u : tensor<2x4096xf32>
    scf.yield %s : tensor<2x4096xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [2, 4096] : tensor<2x4096xf32>, !x
  return
}

// A tile that is the same in every iteration has its own memory if there is room, and is copied once.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=2 num-ctas=2" \
// RUN:   -tile-prefetch-loads="num-warps=2 num-ctas=2 shared-bytes=49152" | FileCheck %s --check-prefix=STATIONARY
// STATIONARY-LABEL: func.func @weighted
// STATIONARY: %[[ROWS:.+]] = tgpu.ring : <2 async_own of <1x4096xf32>>
// STATIONARY: %[[WEIGHT:.+]] = tgpu.ring : <1 async_own of <1x4096xf32>>
// STATIONARY: tgpu.ring_fill %[[WEIGHT]]{{.+}}open
// STATIONARY: tgpu.ring_fill %[[ROWS]]
// STATIONARY: scf.for
// STATIONARY-NOT: ring_fill %[[WEIGHT]]
// STATIONARY: tgpu.ring_read %[[WEIGHT]]{{.+}} -> tensor<1x8192xf32
// STATIONARY-NOT: ring_fill %[[WEIGHT]]
// STATIONARY: return
//
// There is no room, or the loop may write the tile: it is loaded in every iteration.
// CHECK-LABEL: func.func @weighted
// CHECK: scf.for
// CHECK: tile.load_tile
// STATIONARY-LABEL: func.func @written_weight
// STATIONARY: scf.for
// STATIONARY: tile.load_tile
func.func @weighted(%x: !x {tile.read_only, tile.alias_class = 1}, %w: !x {tile.read_only, tile.alias_class = 2},
                    %sums: !x {tile.alias_class = 3}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !x -> tensor<1x8192xf32>
    %g = tile.load_tile %w[%c0, %c0] shape [1, 8192] : !x -> tensor<1x8192xf32>
    %p = arith.mulf %t, %g : tensor<1x8192xf32>
    %s = arith.addf %acc, %p : tensor<1x8192xf32>
    scf.yield %s : tensor<1x8192xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [1, 8192] : tensor<1x8192xf32>, !x
  return
}

func.func @written_weight(%x: !x {tile.read_only, tile.alias_class = 1}, %w: !x {tile.alias_class = 2},
                          %sums: !x {tile.alias_class = 3}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !x -> tensor<1x8192xf32>
    %g = tile.load_tile %w[%c0, %c0] shape [1, 8192] : !x -> tensor<1x8192xf32>
    %p = arith.mulf %t, %g : tensor<1x8192xf32>
    tile.store_tile %p, %w[%c0, %c0] shape [1, 8192] : tensor<1x8192xf32>, !x
    %s = arith.addf %acc, %p : tensor<1x8192xf32>
    scf.yield %s : tensor<1x8192xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [1, 8192] : tensor<1x8192xf32>, !x
  return
}
