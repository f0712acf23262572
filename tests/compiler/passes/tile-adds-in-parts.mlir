// RUN: ligerdsl-opt %s -tile-adds-in-parts | FileCheck %s --check-prefixes=CHECK,LOADS
// RUN: ligerdsl-opt %s -tile-adds-in-parts=threads=1 | FileCheck %s --check-prefixes=CHECK,PARTS

!f = !tile.view<?x?xf32, strides = [?, 1]>
!h = !tile.view<?x?xbf16, strides = [?, 1]>
!i = !tile.view<?x?xi32, strides = [?, 1]>

// Large tiles of f32 alone are added in parts.
// CHECK-LABEL: func.func @tiles
// LOADS: %[[T:.+]] = tile.load_tile %[[F:.+]][%[[R:.+]], %{{.+}}] shape [0, 64]
// LOADS: %[[S:.+]] = arith.addf %[[T]], %{{.+}} : tensor<64xf32>
// LOADS: tile.store_tile %[[S]], %[[F]][%[[R]], %{{.+}}] shape [0, 64] :
// PARTS-NOT: tile.load_tile
// PARTS: tile.store_tile %{{.+}} shape [0, 64] {adds} : tensor<64xf32>
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

// One element, and tiles that begin where vectors do.
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

// What is stored over what was loaded from its place, if nothing stands between.
// CHECK-LABEL: func.func @by_stores
// LOADS-COUNT-2: arith.addf
// PARTS-NOT: tile.load_tile
// PARTS: tile.store_tile %{{.+}} {adds}
// PARTS: tile.load_tile
// PARTS: tile.store_tile
// PARTS: arith.addf
// PARTS: tile.store_tile %{{[^{]+}} :
// CHECK: tile.load_tile
// CHECK: arith.addf
// CHECK: return
func.func @by_stores(%f: !f, %g: !f, %r: i64, %a: tensor<64xf32>, %b: tensor<16xf32>) {
  %0 = tile.load_tile %f[%r, %r] shape [0, 64] : !f -> tensor<64xf32>
  %1 = arith.addf %a, %0 : tensor<64xf32>
  tile.store_tile %1, %f[%r, %r] shape [0, 64] : tensor<64xf32>, !f
  %2 = tile.load_tile %f[%r, %r] shape [0, 64] : !f -> tensor<64xf32>
  tile.store_tile %a, %g[%r, %r] shape [0, 64] : tensor<64xf32>, !f
  %3 = arith.addf %2, %a : tensor<64xf32>
  tile.store_tile %3, %f[%r, %r] shape [0, 64] : tensor<64xf32>, !f
  %4 = tile.load_tile %f[%r, %r] shape [0, 16] : !f -> tensor<16xf32>
  %5 = arith.addf %4, %b : tensor<16xf32>
  tile.store_tile %5, %f[%r, %r] shape [0, 16] : tensor<16xf32>, !f
  return
}
