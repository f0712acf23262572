// Layouts of the tiles of dots.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=8 | FileCheck %s

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!o = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// One dot: each warp has a nearly square part of the accumulator.
// CHECK: #[[SUMS:.+]] = #tgpu.layout<register = {{.*}}warp = {{\[\[}}16, 0], [32, 0], [0, 32]]
// Two dots, one of which feeds the other: warps have whole rows.
// CHECK: #[[ROWS:.+]] = #tgpu.layout<register = {{.*}}warp = {{\[\[}}16, 0], [32, 0], [64, 0]]

// CHECK-LABEL: func.func @one
// CHECK: tile.dot {{.*}} -> tensor<64x64xf32, #[[SUMS]]>
func.func @one(%x: !x, %y: !x, %o: !o) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 32] : !x -> tensor<64x32xbf16>
  %b = tile.load_tile %y[%c0, %c0] shape [32, 64] : !x -> tensor<32x64xbf16>
  %s = tile.dot %a, %b, %zero : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
  tile.store_tile %s, %o[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !o
  return
}

// Operand A of the first dot is converted once, before the loop. The first dot's accumulator has
// the layout of the second dot's operand A.
// CHECK-LABEL: func.func @attention
// CHECK: %[[Q:.+]] = tile.load_tile
// CHECK: %[[ROWS_OF_Q:.+]] = tgpu.convert_layout %[[Q]]
// CHECK: scf.for
// CHECK-DAG: %[[S:.+]] = tile.dot %[[ROWS_OF_Q]], {{.*}} -> tensor<128x64xf32, #[[ROWS]]>
// CHECK: %[[P:.+]] = arith.truncf %[[S]] : tensor<128x64xf32, #[[ROWS]]> to tensor<128x64xbf16, #[[ROWS]]>
// CHECK: %[[SAME:.+]] = tgpu.convert_layout %[[P]] : tensor<128x64xbf16, #[[ROWS]]> -> tensor<128x64xbf16, #[[ROWS]]>
// CHECK: tile.dot %[[SAME]]
func.func @attention(%x: !x, %y: !x, %o: !o, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x64xf32>
  %q = tile.load_tile %x[%c0, %c0] shape [128, 64] : !x -> tensor<128x64xbf16>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x64xf32>) : i64 {
    %k = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %t = tile.permute %k [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %q, %t, %zero : tensor<128x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xf32>
    %p = arith.truncf %s : tensor<128x64xf32> to tensor<128x64xbf16>
    %v = tile.load_tile %y[%i, %c1] shape [64, 64] : !x -> tensor<64x64xbf16>
    %w = tile.dot %p, %v, %acc : tensor<128x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xf32>
    scf.yield %w : tensor<128x64xf32>
  }
  tile.store_tile %sum, %o[%c0, %c0] shape [128, 64] : tensor<128x64xf32>, !o
  return
}

// A 16-bit result, of which a thread has two contiguous elements, is converted after the dot for
// wide stores. An f32 result fills sectors as it is.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[HALF:.+]] = arith.truncf
// CHECK: %[[WIDE:.+]] = tgpu.convert_layout %[[HALF]]
// CHECK: tile.store_tile %[[WIDE]]
// CHECK: %[[F32:.+]] = tile.dot
// CHECK-NEXT: tile.store_tile %[[F32]]
func.func @narrow(%x: !x, %y: !x, %h: !x, %o: !o) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 32] : !x -> tensor<64x32xbf16>
  %b = tile.load_tile %y[%c0, %c0] shape [32, 64] : !x -> tensor<32x64xbf16>
  %s = tile.dot %a, %b, %zero : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
  %n = arith.truncf %s : tensor<64x64xf32> to tensor<64x64xbf16>
  tile.store_tile %n, %h[%c0, %c0] shape [64, 64] : tensor<64x64xbf16>, !x
  %t = tile.dot %a, %b, %zero : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
  tile.store_tile %t, %o[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !o
  return
}
