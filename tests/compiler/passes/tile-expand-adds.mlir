// RUN: ligerdsl-opt %s -tile-expand-adds | FileCheck %s --check-prefixes=CHECK,LOADS
// RUN: ligerdsl-opt %s -tile-expand-adds=memory-adds=true | FileCheck %s --check-prefixes=CHECK,ADDS

!f = !tile.view<?x?xf32, strides = [?, 1]>
!h = !tile.view<?x?xbf16, strides = [?, 1]>
!i = !tile.view<?x?xi32, strides = [?, 1]>

// Only tiles of f32 are added by memory atomics.
// CHECK-LABEL: func.func @tiles
// LOADS: %[[T:.+]] = tile.load_tile %[[F:.+]][%[[R:.+]], %{{.+}}] shape [0, 64]
// LOADS: %[[S:.+]] = arith.addf %[[T]], %{{.+}} : tensor<64xf32>
// LOADS: tile.store_tile %[[S]], %[[F]][%[[R]], %{{.+}}] shape [0, 64] :
// ADDS-NOT: tile.load_tile
// ADDS: tile.store_tile %{{.+}} shape [0, 64] {adds} : tensor<64xf32>
// CHECK: tile.load_tile %{{.+}} {cache = 2 : i32}
// CHECK: arith.addf %{{.+}} : tensor<64xbf16>
// CHECK: tile.store_tile %{{.+}} {cache = 2 : i32} : tensor<64xbf16>
// CHECK: arith.addi %{{.+}} : tensor<64xi32>
func.func @tiles(%f: !f, %h: !h, %i: !i, %r: i64, %a: tensor<64xf32>, %b: tensor<64xbf16>, %c: tensor<64xi32>) {
  tile.store_tile %a, %f[%r, %r] shape [0, 64] {adds} : tensor<64xf32>, !f
  tile.store_tile %b, %h[%r, %r] shape [0, 64] {adds, cache = 2 : i32} : tensor<64xbf16>, !h
  tile.store_tile %c, %i[%r, %r] shape [0, 64] {adds} : tensor<64xi32>, !i
  return
}

// One element, and tiles with an alignment offset, are always loaded, added and stored.
// CHECK-LABEL: func.func @others
// CHECK: %[[O:.+]] = tile.alignment_offset
// CHECK: tile.load_tile %{{.+}} shape [0, 0] : {{.+}} -> f32
// CHECK: tile.load_tile %{{.+}} alignment_offset %[[O]] shape [0, 64]
// CHECK: tile.store_tile %{{.+}} alignment_offset %[[O]] shape [0, 64] :
func.func @others(%f: !f, %r: i64, %one: f32, %a: tensor<64xf32>) {
  %o = tile.alignment_offset %f[%r] : !f
  tile.store_tile %one, %f[%r, %r] shape [0, 0] {adds} : f32, !f
  tile.store_tile %a, %f[%r, %r] alignment_offset %o shape [0, 64] {adds} : tensor<64xf32>, !f
  return
}
