// Stores of a cluster by TMA copies: each CTA stores its own rows from its own buffer. Threads
// store the tile if CTAs have too few rows, or no rows of their own.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=8 num-ctas=2 arch=sm_90a" -tgpu-cut-stores -canonicalize -cse -verify-diagnostics | FileCheck %s

!c = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1], dim_div = [1, 8]>

// CHECK-LABEL: func.func @own_rows
// CHECK: %[[BUFFER:.+]] = tgpu.local_alloc : <128x128xbf16, swizzle = 128>
// CHECK: scf.for
// CHECK: %[[ROUNDED:.+]] = arith.truncf
// CHECK: %[[A:.+]] = tgpu.segment %[[ROUNDED]] begin [0, 0] : tensor<256x256xbf16, #{{.+}}> -> tensor<256x128xbf16, #{{.+}}>
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] {written}
// CHECK-NEXT: tgpu.local_store %[[A]], %[[BUFFER]]
// CHECK-NEXT: tgpu.tensor_store %[[BUFFER]], %arg1[%c0_i64, %{{.+}}] shape [256, 128] :
// CHECK: tgpu.tensor_store %[[BUFFER]]
// CHECK-NOT: tile.store_tile
// CHECK: return
func.func @own_rows(%x: !c {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<256x256xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<256x256xf32>) : i64 {
      %a = tile.load_tile %x[%c0, %i] shape [256, 64] : !c -> tensor<256x64xbf16>
      %b = tile.load_tile %x[%i, %c0] shape [64, 256] : !c -> tensor<64x256xbf16>
      %s = tile.dot %a, %b, %acc : tensor<256x64xbf16>, tensor<64x256xbf16> -> tensor<256x256xf32>
      scf.yield %s : tensor<256x256xf32>
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    %rounded = arith.truncf %sums : tensor<256x256xf32> to tensor<256x256xbf16>
    tile.store_tile %rounded, %c[%c0, %tile] shape [256, 256] {tensor_copies} : tensor<256x256xbf16>, !c
  }
  return
}

// CHECK-LABEL: func.func @by_threads
// CHECK: tile.store_tile
// CHECK: tile.store_tile
func.func @by_threads(%x: !c {tile.read_only}, %few: !c {tile.alias_class = 1 : i64}, %one: !c {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i64
  %a = tile.load_tile %x[%c0, %c0] shape [8, 2048] : !c -> tensor<8x2048xbf16>
  // expected-remark @below {{tensor_copies = true: not done: each CTA has 4 rows of it, and a TMA store needs 8 or more [no-tensor-store]}}
  tile.store_tile %a, %few[%c0, %c0] shape [8, 2048] {tensor_copies} : tensor<8x2048xbf16>, !c
  %b = tile.load_tile %x[%c0, %c0] shape [1, 4096] : !c -> tensor<1x4096xbf16>
  // expected-remark @below {{tensor_copies = true: not done: the CTAs of the cluster do not hold consecutive rows of the tile [no-tensor-store]}}
  tile.store_tile %b, %one[%c0, %c0] shape [1, 4096] {tensor_copies} : tensor<1x4096xbf16>, !c
  return
}
