// Four CTAs hold the rows of a tile in an order other than that of their ranks, so threads store
// the tile.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 num-ctas=4 arch=sm_90a" -tgpu-cut-stores -verify-diagnostics | FileCheck %s

!x = !tile.view<?x?x?x?xbf16, strides = [?, ?, ?, 1], align = 16, stride_div = [8, 8, 8, 1]>
!c = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>

// CHECK: cta = {{\[}}[32, 0], [16, 0]]
// CHECK-LABEL: func.func @swapped
// CHECK: tile.store_tile
func.func @swapped(%x: !x {tile.read_only}, %c: !c {tile.alias_class = 1 : i64}) {
  %c0 = arith.constant 0 : i64
  %a = tile.load_tile %x[%c0, %c0, %c0, %c0] shape [2, 2, 16, 128] : !x -> tensor<2x2x16x128xbf16>
  %p = tile.permute %a [1, 0, 2, 3] : tensor<2x2x16x128xbf16> -> tensor<2x2x16x128xbf16>
  %b = tile.reshape %p : tensor<2x2x16x128xbf16> -> tensor<64x128xbf16>
  // expected-remark @below {{tensor_copies = true: not done: the CTAs of the cluster do not hold consecutive rows of the tile [no-tensor-store]}}
  tile.store_tile %b, %c[%c0, %c0] shape [64, 128] {tensor_copies} : tensor<64x128xbf16>, !c
  return
}
